/* feed.h - what goes into a step: images on the device, ready before the step needs them.
 * Flow:  batch_next() -> [feed_next] -> pixels -> [feed_draw] -> D's real images, G's
 *        latents.
 * Owns:  the pixels and their staging copies, the inputs of both networks, the draw
 *        counter, a stream for uploads.  Borrows: the device and, once started, the batch
 *        stream.
 *
 * The upload of a step's images runs on its own stream beside the step before: into one
 * of two staging blocks, then (device to device, in the training queue) to where the step
 * reads them, always the same place, so that the step can be recorded. */
#ifndef APP_TRAIN_FEED_H
#define APP_TRAIN_FEED_H

#include "app/input/batch.h"
#include "kernels/arena.h"
#include "kernels/ops.h"

#define FEED_STAGES 2 // as many as RESULTS_RING: the steps that may be on their way

struct feed {
    struct device *device, *stream;
    struct batch_stream *batches;
    uint64_t seed;
    int mirror, turns; // batches that D sees in a step
    int64_t uploads;   // steps whose images were sent

    struct tensor pixels;     // [turns*B,H,W,C] u8, as they come from the data set
    void *stage[FEED_STAGES]; // the same, on their way
    struct tensor real;       // [B,H,W,C] as D reads them
    struct tensor latents;    // [B,1,1,latent]
    uint64_t *draw;           // device counter of batches: selects latents and flips
    uint64_t *again;          // device: the draw whose latents G gets next
    struct arena arena;
};

/* `real` and `latents` are the shapes of D's and G's inputs on this device. */
enum status feed_create(struct feed *feed, struct device *device,
                        const struct tensor *real, const struct tensor *latents,
                        int turns);
void feed_release(struct feed *feed);

/* Sends the next step's images; queued. */
void feed_next(struct feed *feed);

/* Makes D's real images and G's latents of the step's batch `turn`; part of the recorded
 * step, as are the others. */
void feed_draw(struct feed *feed, int turn);

/* For a step of G over several batches: marks the next draw; makes the latents of the
 * marked draw and marks the one after; marks the one after only. */
void feed_remember(struct feed *feed);
void feed_draw_again(struct feed *feed);
void feed_pass_over(struct feed *feed);

#endif
