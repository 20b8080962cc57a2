/* step_point.h - what one collected step adds to the curves.
 * Flow:  train_collect() -> [step_point] -> history.
 * Owns:  nothing. */
#ifndef APP_VIEW_STEP_POINT_H
#define APP_VIEW_STEP_POINT_H

#include "app/view/history.h"
#include "app/train/trainer.h"

/* Of the step that was collected last: losses, the scales it left (0 without one), and
 * how many of its optimizer steps were skipped, held back or clipped. A skip of D that
 * its loss on fakes alone caused counts for that loss's scale. */
struct history_point step_point(const struct trainer *trainer);

/* Whether the gradients of optimizer step `slot` were measured, and clipped. */
int step_was_clipped(const struct trainer *trainer, int slot);

#endif
