/* ctl.c - `twinscale ctl`: changes settings of a run that is going on. */
#include <stdio.h>
#include <string.h>

#include "app/live/change.h"
#include "app/commands.h"
#include "app/live/control.h"

static void print_help(void)
{
    fputs(
        "usage: twinscale ctl RUN [pause | resume | save | stop | KEY=VALUE ...]\n"
        "\n"
        "  twinscale ctl outputs/00003-...      where the run is, and all that can be "
        "set\n"
        "  twinscale ctl outputs/00003-... pause          after the step in progress\n"
        "  twinscale ctl outputs/00003-... resume         goes on\n"
        "  twinscale ctl outputs/00003-... save           a snapshot, now\n"
        "  twinscale ctl outputs/00003-... stop           saves and ends the run, as "
        "Ctrl-C "
        "does\n"
        "  twinscale ctl outputs/00003-... g.growth_interval=500 d.scale=1024\n"
        "  twinscale ctl outputs/00003-... kimg=2000 snap=50 grad_stats=100\n"
        "\n"
        "RUN is the folder of a run in progress, on this machine. All changes of one\n"
        "command are made between the same two steps, or none is. Each is written to\n"
        "log.txt and events.jsonl and marked on the curve of its loss scale; snapshots "
        "and\n"
        "--resume keep it. In the window, [ and ] halve and double D's scale, { and } "
        "G's;\n"
        "the count of steps until a scale grows goes on, as in PyTorch. With grad_stats\n"
        "switched on in this way, what half precision loses against f32 is not "
        "measured:\n"
        "that needs --grad-stats at the start.\n"
        "\n"
        "Exit code 2: no run is in progress there, or a change is refused, with the "
        "reason.\n",
        stdout);
}

enum status ctl_command(int argc, char **argv)
{
    char request[CHANGE_REQUEST] = "?", answer[CONTROL_BYTES];
    size_t used = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return STATUS_OK;
        }
        if (argv[i][0] == '-')
            return status_fail(STATUS_USAGE,
                               "ctl %s: no such option; see twinscale ctl --help",
                               argv[i]);
        if (i == 0)
            continue;
        used += (size_t)snprintf(request + used, sizeof request - used, "%s\n", argv[i]);
        if (used >= sizeof request)
            return status_fail(STATUS_USAGE,
                               "ctl: more than %zu bytes of changes; give "
                               "fewer at once",
                               sizeof request - 1);
    }
    if (argc < 1 || !argv[0][0])
        return status_fail(STATUS_USAGE,
                           "ctl: expected the folder of a run that is going "
                           "on; see twinscale ctl --help");
    TRY(control_ask(argv[0], request, answer));
    puts(answer);
    return STATUS_OK;
}
