/* ema.h - an exponential moving average of a net's weights.
 * Flow:  adam_step() moves it in the same sweep -> sampler.h draws from the average.
 * Owns:  the average (f32) and its decay, in one arena.  Borrows: the net in training.
 *
 *   ema = ema*decay + params*(1 - decay),   decay = 0.5^(batch / half-life in images)
 * where the half-life is min(half_life_kimg*1000, images_seen*rampup).
 * Source: Karras et al. 2020 (StyleGAN2-ADA) for the half-life in images and its
 * ramp-up. */
#ifndef NETS_EMA_H
#define NETS_EMA_H

#include "nets/optim/adam.h"

struct ema {
    struct net *source;
    float *average;        // [param_elements] f32
    float *decay;          // device scalar
    double half_life_kimg; // 0: no averaging, the average is a copy
    double rampup;         // 0: no ramp-up
    struct arena arena;
};

enum status ema_create(struct ema *ema, struct net *source, double half_life_kimg,
                       double rampup);
void ema_release(struct ema *ema);

/* The decay of one step of `batch` images after `images_seen` images: 0..1. */
double ema_decay(double half_life_kimg, double rampup, int64_t batch,
                 int64_t images_seen);

/* Starts the average at the source's weights. */
void ema_reset(struct ema *ema);

/* From now on every adam_step() of `adam`, which trains the source, moves the average. */
void ema_attach(struct ema *ema, struct adam *adam);

/* Sets the decay of the next step, which will have seen `images_seen` images in all. */
void ema_prepare_step(struct ema *ema, int64_t batch, int64_t images_seen);

#endif
