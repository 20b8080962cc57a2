/* storm.h - an overflow storm: a network that skips on and on.
 * Flow:  train_collect() -> [storm_find] -> recover.c decides: stop, go back, or warn.
 * Owns:  nothing.
 *
 * It is one when a network has skipped config.max_skips steps in a row, or has overflowed
 * at the smallest scale that it may have. */
#ifndef APP_RECOVERY_STORM_H
#define APP_RECOVERY_STORM_H

#include "app/recovery/diagnosis.h"

struct storm {
    int network; // D where both are in one: its step comes first
    int is_in_both;
    int is_at_floor;       // else so many skips in a row
    int64_t skips;         // in a row
    float scale;           // after them
    struct diagnosis skip; // of the last one
    char what[96];         // "G skipped 25 steps in a row", with which the reason begins
    char reason[640];
};

/* In the step that was last collected. 0 where there is none; *storm is then not
 * touched. */
int storm_find(const struct trainer *trainer, struct storm *storm);
/* The same of one network. */
int storm_find_in(const struct trainer *trainer, int network, struct storm *storm);

/* For who does nothing about it: STATUS_DIVERGED with the reason where there is one that
 * config.on_overflow_storm does not let pass. */
enum status storm_check(const struct trainer *trainer);

/* Collects steps, and checks each, until at most `left` of them are on their way. */
enum status storm_collect(struct trainer *trainer, int left);

#endif
