#include "app/record/sinks.h"

#include <stdlib.h>

#include "app/files/terminal.h"

void sink_text(struct run_folder *folder, const struct tick *tick, double timestamp)
{
    (void)timestamp;
    char line[TICK_LINE_MAX + 1];
    tick_line(tick, line, sizeof line);
    progress_print_tick(line);
    run_folder_line(folder, RUN_LOG_TEXT, line);
}

void sink_json(struct run_folder *folder, const struct tick *tick, double timestamp)
{
    char *line = tick_json(tick, timestamp);
    if (line)
        run_folder_line(folder, RUN_LOG_STATS, line);
    free(line);
}

void sinks_write(struct run_folder *folder, const struct tick *tick, double timestamp)
{
    static sink *const all[] = {
#define X(name) name,
        SINKS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i](folder, tick, timestamp);
}
