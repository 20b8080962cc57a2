/* rehearsal.h - all passes of the next step, taken before it, of which nothing stays.
 * Flow:  trainer_start_data() -> [rehearsal] -> init_scale.c and forecast.c; the run
 *        begins.
 * Owns:  copies of what the passes change: the draw counter and running statistics.
 *
 *     TRY(rehearsal_open(&rehearsal, trainer));
 *     rehearsal_take(&rehearsal, check, context);       as often as is needed
 *     TRY(rehearsal_close(&rehearsal));
 *
 * Weights, optimizers, counters, the order of images and latents are as before; scalers
 * are the caller's to set back where it wrote to them. On several devices every rank
 * takes as many. */
#ifndef APP_TRAIN_REHEARSAL_H
#define APP_TRAIN_REHEARSAL_H

#include "app/train/trainer.h"

struct rehearsal {
    struct trainer *trainer;
    uint64_t *draw;    // device
    float *buffers[2]; // device
    struct arena arena;
};

/* With the data started and no step on its way. STATUS_FAILED without memory. */
enum status rehearsal_open(struct rehearsal *rehearsal, struct trainer *trainer);

/* As train_rehearse(); then all is as before it. */
void rehearsal_take(struct rehearsal *rehearsal, int turns,
                    void (*check)(struct trainer *trainer, int network, void *context),
                    void *context);

/* Waits, and starts the data again at the images that were taken. Also after a failed
 * open; then it only releases. */
enum status rehearsal_close(struct rehearsal *rehearsal);

#endif
