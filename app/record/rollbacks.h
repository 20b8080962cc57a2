/* rollbacks.h - which lines of a run's logs tell of steps that a rollback gave up.
 * Flow:  events.jsonl -> [rollbacks_read] -> history_recall, layers_recall.
 * Owns:  its list.
 *
 * Each line of stats.jsonl, layers.jsonl and events.jsonl says how many rollbacks there
 * had been when it was written ("rollbacks", in a tick "Progress/rollbacks"). A rollback
 * is an event that has its own number there, and is as of the step that the run went back
 * to: it gave up every line of a later step with a smaller number. */
#ifndef APP_RECORD_ROLLBACKS_H
#define APP_RECORD_ROLLBACKS_H

#include <stddef.h>

struct json_t;
struct rollback;

struct rollbacks {
    struct rollback *list;
    size_t count;
};

/* A file that is not there has none; nor has one that does not count them on its
 * lines. */
void rollbacks_read(struct rollbacks *rollbacks, const char *events_path);
void rollbacks_release(struct rollbacks *rollbacks);

/* True for a line of either log that is no part of the run any more. */
int rollbacks_gave_up(const struct rollbacks *rollbacks, struct json_t *line);

#endif
