/* run.h - `twinscale train`: one run from the command line to its last picture. */
#ifndef APP_RUN_H
#define APP_RUN_H

#include "kernels/status.h"

/* The arguments after "train". */
enum status train_command(int argc, char **argv);

#endif
