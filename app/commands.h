/* commands.h - the commands of the program, as a list.
 * Flow:  main.c -> [COMMANDS] -> name_command(), with the arguments after the name.
 *
 * A new command is a file with its function and a row here; usage, help and errors follow
 * from the list. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "kernels/base/status.h"

/* X(name, arguments, help) */
#define COMMANDS(X)                                                                     \
    X(train, "--data PATH [--preset NAME] ...",                                         \
      "train a GAN, or go on with --resume RUN")                                        \
    X(sample, "CHECKPOINT --seeds 0-63 -o grid.png", "draw images from a checkpoint")   \
    X(info, "CHECKPOINT [--json] | --devices", "what a checkpoint holds; what is here") \
    X(ctl, "RUN [g.growth_interval=500 ...]",                                           \
      "change settings of a run that is going on")                                      \
    X(data, "check PATH", "every file that cannot be used, and why")                    \
    X(bench, "scaler|precision|layers [SETTING ...]",                                   \
      "one run under every choice; every layer's speed")

#define X(name, arguments, help) enum status name##_command(int argc, char **argv);
COMMANDS(X)
#undef X

#endif
