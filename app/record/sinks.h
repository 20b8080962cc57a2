/* sinks.h - where the numbers of a tick go.
 * Flow:  report_tick() -> [sinks_write] -> terminal, log.txt, stats.jsonl, stats.csv.
 * Owns:  nothing.
 *
 * A new sink is a function in a file of its own and a row here; where it has a file in
 * the run folder, also a row in RUN_LOGS (run_folder.h). */
#ifndef APP_RECORD_SINKS_H
#define APP_RECORD_SINKS_H

#include "app/files/json_lines.h"
#include "app/record/run_folder.h"
#include "app/record/tick.h"

/* A sink writes one tick; a line that cannot be written is said by the folder. */
typedef void sink(struct run_folder *folder, const struct tick *tick, double timestamp);

#define SINKS(X) X(sink_text) X(sink_json) X(sink_csv)

#define X(name) sink name;
SINKS(X)
#undef X

/* Every sink, in that order. `timestamp`: seconds since 1970. */
void sinks_write(struct run_folder *folder, const struct tick *tick, double timestamp);

/* Which lines of stats.csv stay when the run goes on from an earlier point: its heading,
 * and rows of as many columns that are not beyond the end. */
line_stays csv_line_stays;

#endif
