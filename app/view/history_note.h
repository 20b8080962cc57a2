/* history_note.h - what the marks on the curves stand for, from the lines of
 * events.jsonl.
 * Flow:  report_events.c (as they are written), history_recall.c (as they are read)
 *        -> [history_note_of] -> history -> the box at the pointer.
 * Owns:  nothing. */
#ifndef APP_VIEW_HISTORY_NOTE_H
#define APP_VIEW_HISTORY_NOTE_H

#include "app/view/history.h"

struct json_t;

/* Fills *note from an event; false for one that has no mark (report_events.h lists
 * both). */
int history_note_of(struct json_t *event, struct history_note *note);

#endif
