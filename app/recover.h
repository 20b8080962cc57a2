/* recover.h - what a run does in an overflow storm: stop, go back, mend, or warn.
 * Flow:  train_collect() -> report_step() -> [recovery_decide] -> [recovery_carry_out].
 * Owns:  nothing; its state is in struct run.
 *
 * A rollback takes the last snapshot from outside of a storm, halves the scale once for
 * each rollback since that snapshot, and goes on with other latents, flips and order of
 * images: the number of rollbacks is part of their seed and of every later snapshot, so
 * that a resumed run is the run that was never stopped. It cannot loop: after
 * max_rollbacks in a run it stops.
 *
 * fp32-layer goes on where the run is. The layers that diagnosis.h names for the last
 * skip become f32: the settings then have them in fp32_layers, the scales of the storm
 * begin again at config_init_scale(), and all of it is written as a snapshot, from which
 * the networks are built anew. So the run that goes on is the one that --resume would
 * make of that snapshot. It cannot loop either: every time one fp16 layer more is f32,
 * and without one it stops. */
#ifndef APP_RECOVER_H
#define APP_RECOVER_H

#include "app/run.h"
#include "app/recovery/storm.h"

enum recovery_action {
    RECOVERY_CONTINUE,
    RECOVERY_WARN,
    RECOVERY_ROLL_BACK,
    RECOVERY_MOVE_TO_F32,
    RECOVERY_STOP
};

/* What a step calls for. */
struct recovery {
    enum recovery_action action;
    struct storm storm; // of all actions but CONTINUE and WARN
    char why[64];       // of STOP: what was tried before, or ""
    int warns_of[ROLES];
    struct storm warning[ROLES];
};

/* Of the step that was last collected, by config.on_overflow_storm; changes nothing but
 * in_storm[], the caller's: a warning of each network comes once a storm. */
void recovery_decide(const struct trainer *trainer, int in_storm[ROLES],
                     struct recovery *recovery);

/* After that step was reported. STATUS_OK when the run goes on, after a rollback or a
 * move to f32 with no step on its way; STATUS_DIVERGED when it is given up, with a
 * post-mortem. */
enum status recovery_carry_out(struct run *run, const struct recovery *recovery);

/* After run->last_snapshot was written: is that one to go back to? */
void guard_saved(struct run *run);

#endif
