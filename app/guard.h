/* guard.h - what a run does in an overflow storm: stop, go back, mend, or warn.
 * Flow:  train_collect() -> report_step() -> [guard_warn], or [guard_storm] where it failed.
 * Owns:  nothing; its state is in struct run.
 *
 * A rollback takes the last snapshot from outside of a storm, halves the scale once for each
 * rollback since that snapshot, and goes on with other latents, flips and order of images:
 * the number of rollbacks is part of their seed and of every later snapshot, so that a
 * resumed run is the run that was never stopped. It cannot loop: after max_rollbacks in
 * a run it stops.
 *
 * fp32-layer goes on where the run is. The layers that diagnosis.h names for the last skip
 * become f32: the settings then have them in fp32_layers, the scales of the storm begin
 * again at config_init_scale(), and all of it is written as a snapshot, from which the networks are
 * built anew. So the run that goes on is the one that --resume would make of that snapshot.
 * It cannot loop either: every time one fp16 layer more is f32, and without one it stops. */
#ifndef APP_GUARD_H
#define APP_GUARD_H

#include "app/run.h"

/* After a step was collected and reported: with "warn", says once a storm that it is one. */
void guard_warn(struct run *run);

/* After train_collect() found a storm. STATUS_OK when the run has gone back, or some layers
 * are f32 now, and has no step on its way; STATUS_DIVERGED when it is given up, with a
 * post-mortem. */
enum status guard_storm(struct run *run);

/* After run->last_snapshot was written: is that one to go back to? */
void guard_saved(struct run *run);

#endif
