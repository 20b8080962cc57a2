/* history_recall.h - the curves of a run that goes on, from what its logs say.
 * Flow:  stats.jsonl, events.jsonl -> [history_recall] -> history.
 * Owns:  nothing between calls. */
#ifndef APP_VIEW_HISTORY_RECALL_H
#define APP_VIEW_HISTORY_RECALL_H

#include "app/view/history.h"

/* Adds a point for every skip, every step that was held back and every growth of a scale,
 * at its own step, and one for every tick; a loss is the mean of the tick it falls into,
 * and a norm stands at the tick that it is the mean of. Returns the number that the next
 * tick has. Lines of steps that a rollback gave up, and lines that cannot be read, are
 * passed over; a file that is not there adds nothing. Marks get their notes again. */
int64_t history_recall(struct history *history, const char *stats_path,
                       const char *events_path);

#endif
