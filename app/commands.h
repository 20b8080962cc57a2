/* commands.h - the commands besides train. Each takes the arguments after its name. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "kernels/base/status.h"

/* `twinscale sample CHECKPOINT --seeds 0-63 --grid 8x8 [--raw] -o grid.png` */
enum status sample_command(int argc, char **argv);
/* `twinscale info CHECKPOINT [--digest]`, `twinscale info --devices` */
enum status info_command(int argc, char **argv);
/* `twinscale ctl RUN [key=value ...]` */
enum status ctl_command(int argc, char **argv);
/* `twinscale data check PATH` */
enum status data_command(int argc, char **argv);
/* `twinscale bench scaler|precision|layers [SETTING...]` */
enum status bench_command(int argc, char **argv);

#endif
