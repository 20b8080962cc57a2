/* train.h - one step of training: the line that data takes. */
#ifndef APP_TRAIN_TRAIN_H
#define APP_TRAIN_TRAIN_H

#include "app/train/trainer.h"

/* Queues n_dis discriminator steps and one generator step; progress has then advanced. At
 * most device->steps_ahead + 1 steps may be queued and not collected. */
void train_step(struct trainer *trainer);

/* All passes of the step whose images feed_next() has sent, with `turns` of D's n_dis
 * turns, and no optimizer step, outside of what is recorded: `check` is called where each
 * would come, with its gradients summed over the ranks. Advances the draw counter and
 * batch norm's running statistics. */
void train_rehearse(struct trainer *trainer, int turns,
                    void (*check)(struct trainer *trainer, int network, void *context),
                    void *context);

/* D's pass over what lies in feed.real now, looked at and no part of the run (probe.h).
 * No step may be on its way; gradients are written over. */
void train_real_again(struct trainer *trainer);

/* Steps that are queued and not collected. */
int train_pending(const struct trainer *trainer);

/* Waits for the oldest of them: trainer->last is then what it did. STATUS_FAILED is a
 * device fault, which is named. */
enum status train_collect(struct trainer *trainer);

/* Collects all that are queued, for who wants only the last one's results. */
enum status train_collect_all(struct trainer *trainer);

/* Of the last collected step: the two losses of its D step `turn`, or of the last one,
 * and G's; each over all batches of the optimizer step. */
struct step_losses {
    struct loss_sums of[PASSES_MAX];
};
struct step_losses train_turn_losses(const struct trainer *trainer, int turn);
struct step_losses train_losses(const struct trainer *trainer);

/* Whose optimizer step a step's records[slot] tells of: D's come first, G's is the
 * last. */
int train_slot_network(const struct trainer *trainer, int slot);

#endif
