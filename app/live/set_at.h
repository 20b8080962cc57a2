/* set_at.h - `--set-at`: which change is due when, and what a rollback has to take back.
 * Flow:  config.set_at -> [set_at_open] -> before every step [set_at_next] ->
 *        run_control.c changes it as ctl does -> [set_at_made].
 * Owns:  nothing outside of itself.
 *
 * A change belongs to the boundary between two steps at which the images shown have
 * reached its kimg and had not one step before. It is made there, after all else that is
 * done between two steps: so a snapshot of that boundary never holds it, one of a later
 * boundary always does, and a run that is resumed anywhere makes each change once, with
 * nothing to remember.
 *
 * A rollback brings scales back and leaves settings, because those that a person changed
 * live stay. What --set-at had changed after the snapshot is set back, and comes again at
 * its kimg. */
#ifndef APP_LIVE_SET_AT_H
#define APP_LIVE_SET_AT_H

#include "app/live/change.h"

struct set_at {
    struct timed_change change[SET_AT_MAX];
    int count;
    int64_t step_images;

    // Settings as they were before each change of this process that may be taken back:
    // all that came together go together, for limits may be out of order one by one.
    struct {
        int64_t images; // the boundary
        char undo[CHANGE_REQUEST];
    } made[SET_AT_MAX];
    int made_count;
};

/* Reads the changes of `config` for a run that goes on from `images`, and checks those to
 * come, each with the settings that the ones before it leave. `saved`: the config of the
 * run that is resumed, or NULL; a change that is new and of the past is refused, and one
 * that ctl had made impossible before is not: that is said when it is due.
 * STATUS_USAGE. */
enum status set_at_open(struct set_at *set_at, const struct config *config,
                        const struct config *saved, int64_t images);

/* A request as --set-at has it: "g.lr=1e-4,d.scale=64". Returns `words`. */
const char *set_at_words(const char *request, char words[CONFIG_TEXT]);

/* The first change after number `previous` (-1: the first at all) that is due at the
 * boundary `images`: its number, or -1. */
int set_at_next(const struct set_at *set_at, int64_t images, int previous);

/* What number `index` has changed, at the boundary `images`. */
void set_at_made(struct set_at *set_at, const struct changes *changes, int64_t images);

/* A request that takes the last changes back, which were made at the boundary `images` or
 * later: the run goes back to that. NULL when there are none (any more). */
const char *set_at_undo(struct set_at *set_at, int64_t images);

#endif
