/* train.h - one step of training: the line that data takes. */
#ifndef APP_TRAIN_H
#define APP_TRAIN_H

#include "app/trainer.h"

/* n_dis discriminator steps and one generator step, then the average. Afterwards the host
 * copies in records_host and sums_host tell what happened, and progress has advanced.
 * STATUS_FAILED is a device fault, STATUS_DIVERGED a network that skipped max_skips steps in
 * a row; both name what was found. */
enum status train_step(struct trainer *trainer);

/* Of the last step, from sums_host: the last D step's two passes, and G's. */
struct step_losses {
    struct loss_sums real, fake, g;
};
struct step_losses train_losses(const struct trainer *trainer);

/* Whose optimizer step records_host[slot] tells of: D's come first, G's is the last. */
int train_slot_network(const struct trainer *trainer, int slot);

#endif
