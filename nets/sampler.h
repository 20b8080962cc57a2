/* sampler.h - a second generator, for drawing images while the first one trains.
 * Flow:  averaged weights -> [sampler_load] -> [sampler_draw] -> u8 pixels -> grids,
 *        window.
 * Owns:  a generator without gradients, its latents and its pixels.  Borrows: the device,
 *        which may be a stream: drawing then runs beside the training.
 *
 * Batch norm's statistics are not averaged or copied: sampler_load() recomputes them for
 * the weights that it is given, as the mean over SAMPLER_CALIBRATION_BATCHES train-mode
 * passes over fixed latents, so equal weights give equal images whatever was drawn
 * before.
 *
 *     TRY(dcgan_generator(&sampler.net, device, &config, dtype, SAMPLER_BATCH));
 *     TRY(sampler_plan(&sampler, 64));
 *     sampler_load(&sampler, device, average);
 *     sampler_start(&sampler, seeds, 64);          // queued
 *     ...
 *     if (sampler_is_done(&sampler))               // or sampler_finish() waits
 *         TRY(sampler_finish(&sampler, pixels)); */
#ifndef NETS_SAMPLER_H
#define NETS_SAMPLER_H

#include "nets/net.h"

#define SAMPLER_BATCH 64
#define SAMPLER_CALIBRATION_BATCHES 8

struct sampler {
    struct net net;
    struct tensor z;      // [SAMPLER_BATCH,1,1,latent]
    struct tensor pixels; // [SAMPLER_BATCH,H,W,C] u8
    uint8_t *host;        // [room,H,W,C] u8, where drawn images arrive
    int room, drawing;    // images that fit, and that are being drawn
    struct arena arena;
};

/* Plans sampler->net, a generator that its architecture has built for SAMPLER_BATCH
 * samples; `room` is the most that one sampler_start() may draw. STATUS_FAILED when there
 * is not enough memory. */
enum status sampler_plan(struct sampler *sampler, int room);
void sampler_release(struct sampler *sampler);

/* Takes `weights` ([param_elements] f32, of a generator of the same config), as they are
 * in the queue of `source` now, and recomputes the statistics. Not while drawing. */
void sampler_load(struct sampler *sampler, struct device *source, const float *weights);

/* Takes the weights alone: the statistics are the caller's to bring, into net.buffers. */
void sampler_take_weights(struct sampler *sampler, struct device *source,
                          const float *weights);

/* Draws the images of seeds[0..count) in eval mode. The latent of seed i is row i of
 * STREAM_SAMPLE: the same image whatever the batch or order. */
void sampler_start(struct sampler *sampler, const uint64_t *seeds, int count);
int sampler_is_done(const struct sampler *sampler);

/* Waits for what was started: pixels_host [count,H,W,C] u8. STATUS_FAILED is a fault of
 * the device. */
enum status sampler_finish(struct sampler *sampler, uint8_t *pixels_host);

#endif
