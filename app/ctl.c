/* ctl.c - `twinscale ctl`: changes settings of a run that is going on. */
#include <stdio.h>
#include <string.h>

#include "app/change.h"
#include "app/commands.h"
#include "app/control.h"

static void print_help(void)
{
    fputs(
        "usage: twinscale ctl RUN [KEY=VALUE ...]\n"
        "\n"
        "  twinscale ctl outputs/00003-... g.growth_interval=500 d.scale=1024\n"
        "  twinscale ctl outputs/00003-...      what can be set, with the present "
        "values\n"
        "\n"
        "RUN is the folder of a run that is going on, on this machine. All the changes\n"
        "are made between the same two steps, or none is. The run's log, events.jsonl "
        "and\n"
        "the curve of its loss scales tell of each; snapshots and --resume keep them. "
        "In\n"
        "the window, [ and ] halve and double D's scale, { and } G's.\n"
        "\n"
        "Exit code 2: no run is going on there, or a change is refused, with the "
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
