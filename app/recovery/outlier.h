/* outlier.h - whether one real image of a batch made D's step overflow.
 * Flow:  a skipped step of D, diagnosed -> [outlier_find] -> report_events.c.
 * Owns:  nothing.
 *
 * In every overflow some image has the largest gradient; an outlier is one that is far
 * from the rest. That is tried out, at a scale where nothing overflows: D's pass over the
 * batch is taken once more as it was, and once without each of the OUTLIER_SUSPECTS
 * images that D is the surest are fakes, whose gradients are the largest. Without the
 * outlier the pass would have fit at the scale that overflowed, and the whole batch has
 * gradients OUTLIER_TIMES as large. */
#ifndef APP_RECOVERY_OUTLIER_H
#define APP_RECOVERY_OUTLIER_H

#include "app/recovery/diagnosis.h"

#define OUTLIER_TIMES 4.0f // two halvings: a scale varies by one without any reason
#define OUTLIER_SUSPECTS 4
#define OUTLIER_QUIET 4 // a growth interval's part that must have been good before it

/* True for a skip that is worth the trial: D's, in a step of one batch, by its pass over
 * real images alone, at a scale that a whole growth interval has shown to be `good`,
 * after `quiet_steps` without an overflow. */
int outlier_is_possible(const struct trainer *trainer, const struct diagnosis *diagnosis,
                        int slot, float good, int64_t quiet_steps);

/* Of such a skip in the step that was last collected, with none on its way: the row of
 * D's last batch that holds the outlier, or -1. All but gradients is as it was. */
int outlier_find(struct trainer *trainer, const struct diagnosis *diagnosis);

#endif
