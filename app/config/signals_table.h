/* signals_table.h - the signals that a run answers: signals.c waits for them, --help
 * lists them.
 * Owns:  nothing. */
#ifndef APP_CONFIG_SIGNALS_TABLE_H
#define APP_CONFIG_SIGNALS_TABLE_H

/* Signal, its name, what it asks for, and what --help says of it. Batch systems send one
 * of these some time before SIGKILL: Slurm, PBS, HTCondor and docker SIGTERM, LSF SIGINT,
 * SIGUSR2 and SIGTERM, Grid Engine SIGUSR2 (-notify) or, at a soft limit, SIGXCPU or
 * SIGUSR1. SIGQUIT and all that is not here does what the system does by default. */
#define SIGNALS_TABLE(X)                                                                 \
    X(SIGINT, "Ctrl-C", QUIT,                                                            \
      "stops after the step in progress, saves a snapshot, ends with exit code 0; a "    \
      "second Ctrl-C ends at once, without saving, with 130. During set-up, when there " \
      "is nothing to save yet, this and those that do the same end at once with 130")    \
    X(SIGTERM, "SIGTERM", QUIT, "as the first Ctrl-C")                                   \
    X(SIGHUP, "SIGHUP", QUIT,                                                            \
      "(the terminal was closed) as the first Ctrl-C; nothing under nohup")              \
    X(SIGUSR2, "SIGUSR2", QUIT, "as the first Ctrl-C")                                   \
    X(SIGXCPU, "SIGXCPU", QUIT, "(the soft limit of CPU time) as the first Ctrl-C")      \
    X(SIGPWR, "SIGPWR", QUIT, "(the power is failing) as the first Ctrl-C")              \
    X(SIGUSR1, "SIGUSR1", SNAPSHOT, "saves a snapshot and goes on")

#endif
