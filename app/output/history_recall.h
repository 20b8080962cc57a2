/* history_recall.h - the curves of a run that goes on, from what its log says.
 * Flow:  stats.jsonl -> [history_recall] -> history, one point a tick.
 * Owns:  nothing between calls. */
#ifndef APP_OUTPUT_HISTORY_RECALL_H
#define APP_OUTPUT_HISTORY_RECALL_H

#include "app/output/history.h"

/* Adds a point for every tick of the file (scales and losses are the tick's means, skips the
 * growth of the totals) and returns the number that the next tick has. Lines that cannot be
 * read are passed over; a file that is not there adds nothing and gives 0. */
int64_t history_recall(struct history *history, const char *stats_path);

#endif
