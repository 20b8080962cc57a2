/* history.h - what every step said: scales, skips, losses, norms of gradients.
 * Flow:  train -> [history] -> dashboard, scales.png, view.
 * Owns:  its arrays; safe between one writer and many readers (a mutex inside). */
#ifndef APP_VIEW_HISTORY_H
#define APP_VIEW_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "nets/role.h"

/* The scales: each network's, and that of D's loss on fakes where it has its own. */
enum { SCALE_D_FAKE = ROLES, SCALE_COUNT };

/* One training step (one G step and its n_dis D steps). */
struct history_point {
    int64_t step;
    double kimg;
    float scale[SCALE_COUNT]; // after the step; 0: there is none
    float loss[ROLES];        // unscaled
    float grad_norm[ROLES];   // the largest; unscaled, unclipped; 0: not measured
    // Times within this step that the network skipped for gradients of that scale.
    uint8_t skipped[SCALE_COUNT];
    uint8_t held[ROLES];    // times that the other's overflow held it back
    uint8_t clipped[ROLES]; // gradients were clipped
    uint8_t changed[ROLES]; // a setting of it was changed after this step
};

/* What a mark stands for (history_note.h). */
enum note_kind { NOTE_SKIP, NOTE_CHANGE, NOTE_ROLLBACK };

#define HISTORY_NOTE 256
#define HISTORY_NOTES_MAX 8192

struct history_note {
    int64_t step;
    double kimg;
    enum note_kind kind;
    int network;             // ROLE_G, ROLE_D, or -1: the run
    int number;              // of a rollback
    char text[HISTORY_NOTE]; // lines for a person
};

struct history;

/* NULL when there is no memory. */
struct history *history_create(void);
void history_destroy(struct history *history);
void history_add(struct history *history, const struct history_point *point);
/* Beyond HISTORY_NOTES_MAX the older half is forgotten; the marks stay. */
void history_add_note(struct history *history, const struct history_note *note);
/* Forgets all points and notes after `step`. */
void history_rewind(struct history *history, int64_t step);
/* A setting of that network was changed after the newest step, or its layers' types. */
void history_mark(struct history *history, int network);
size_t history_count(const struct history *history);

/* Copies all points into *points (grown with realloc, *room its capacity) and returns the
 * count: a consistent view without holding the lock while drawing. Beyond HISTORY_MAX
 * points the older half is thinned (of each group of steps the smallest and largest
 * scale, loss and norm, and every step that was skipped, held back or followed by a
 * change, are kept), so that a run of days stays drawable. */
size_t history_copy(const struct history *history, struct history_point **points,
                    size_t *room);

size_t history_copy_notes(const struct history *history, struct history_note **notes,
                          size_t *room);

#define HISTORY_MAX 200000

#endif
