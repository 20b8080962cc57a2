/* report_events.h - events.jsonl: every skip, every growth, and how a run goes on and ends.
 * Flow:  report_step() -> [event_skip, event_growth] -> events.jsonl, log.txt.
 *
 * A line is one object: "event", "step", "kimg", "timestamp"; for a scale "net",
 * "scale_before", "scale_after"; for a skip "forward_finite", and "layer" and "tensor" where
 * the first inf or NaN stands. */
#ifndef APP_REPORT_EVENTS_H
#define APP_REPORT_EVENTS_H

#include "app/report.h"

/* Of an optimizer step of the step that was just taken: trainer->last.records[slot]. */
void event_skip(struct report *report, int slot);
void event_growth(struct report *report, int slot);

/* "resume", "finished", "stopped", "diverged", "failed"; reason may be "". */
void event_word(struct report *report, const char *word, const char *reason);

#endif
