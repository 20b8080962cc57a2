/* losses.h - the losses of a GAN, as a list: value and slope of one sample.
 * Flow:  ops->loss.on_logits() of each backend -> [loss_at] -> sums for the log, and the
 *        gradient that the backward pass begins with.
 * Owns:  nothing.
 *
 * x is D's logit of a sample, t its target: for D 1 on real images (less with label
 * smoothing) and 0 on fakes, for G 1.
 *
 * A new loss is a row of LOSSES and its function, here; --loss, its help and the tests of
 * gradients go through the list. */
#ifndef KERNELS_LOSSES_H
#define KERNELS_LOSSES_H

#include <math.h>

#include "kernels/device_inline.h"

/* X(name, what --help says). The first is the default. */
#define LOSSES(X)                                                             \
    X(ns, "ns: binary cross entropy, non-saturating for G (Goodfellow 2014)") \
    X(lsgan, "lsgan: half the squared distance to 1 or 0 (Mao 2017)")

enum loss_kind {
#define X(name, help) LOSS_##name,
    LOSSES(X)
#undef X
        LOSS_KINDS
};

struct loss_value {
    float loss, slope; // slope: dloss/dx
};

/*   loss = max(x,0) - x*t + log1p(exp(-|x|)),  slope = sigmoid(x) - t
 * No exponential of a positive number. Source: Goodfellow et al. 2014, arXiv:1406.2661;
 * the stable form as in PyTorch's BCEWithLogitsLoss. */
DEVICE_INLINE struct loss_value loss_ns(float x, float t)
{
    float positive = x < 0.0f ? 0.0f : x;
    struct loss_value value = {positive - x * t + log1pf(expf(-fabsf(x))),
                               1.0f / (1.0f + expf(-x)) - t};
    return value;
}

/*   loss = (x - t)^2 / 2,  slope = x - t
 * Source: Mao et al. 2017, arXiv:1611.04076, with a = 0, b = c = 1. */
DEVICE_INLINE struct loss_value loss_lsgan(float x, float t)
{
    struct loss_value value = {0.5f * (x - t) * (x - t), x - t};
    return value;
}

DEVICE_INLINE struct loss_value loss_at(enum loss_kind kind, float x, float t)
{
    switch (kind) {
#define X(name, help) \
    case LOSS_##name: return loss_##name(x, t);
        LOSSES(X)
#undef X
    case LOSS_KINDS: break;
    }
    struct loss_value none = {NAN, NAN};
    return none;
}

#endif
