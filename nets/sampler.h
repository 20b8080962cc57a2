/* sampler.h - a second generator, for drawing images while the first one trains.
 * Flow:  averaged weights -> [sampler_load] -> [sampler_draw] -> u8 pixels -> grids, window.
 * Owns:  a generator without gradients, its latents and its pixels.  Borrows: the device.
 *
 * Batch norm's statistics are not averaged or copied: sampler_load() recomputes them for the
 * weights that it is given, as the mean over SAMPLER_CALIBRATION_BATCHES train-mode passes
 * over fixed latents, so equal weights give equal images whatever was drawn before. */
#ifndef NETS_SAMPLER_H
#define NETS_SAMPLER_H

#include "nets/dcgan.h"

#define SAMPLER_BATCH 64
#define SAMPLER_CALIBRATION_BATCHES 8

struct sampler {
    struct net net;
    struct tensor z;      // [SAMPLER_BATCH,1,1,latent]
    struct tensor pixels; // [SAMPLER_BATCH,H,W,C] u8
    uint8_t *staging;     // host copy of one batch of pixels
    struct arena arena;
};

/* STATUS_FAILED when there is not enough memory. */
enum status sampler_create(struct sampler *sampler, struct device *device,
                           const struct dcgan_config *config, enum dtype dtype);
void sampler_release(struct sampler *sampler);

/* Takes `weights` ([param_elements] f32 on the device, of a generator of the same config)
 * and recomputes the statistics. */
void sampler_load(struct sampler *sampler, const float *weights);

/* Draws the images of seeds[0..count) in eval mode into pixels_host [count,H,W,C] u8. The
 * latent of seed i is row i of STREAM_SAMPLE: the same image whatever the batch or order. */
void sampler_draw(struct sampler *sampler, const uint64_t *seeds, int count,
                  uint8_t *pixels_host);

#endif
