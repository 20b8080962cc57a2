/* ref.h - the reference backend: every op of ops.h as plain loops.
 * Flow:  device_open("ref") -> [ref_open] -> device->ops; every other backend starts from
 *        ref_fill_ops() and overrides.
 * Owns:  the op table of a "ref" device; a conv plan owns three f32 arrays.
 *
 * Ref is what each op means and the oracle of every test, so it is made to be read and to
 * be right, not fast: one thread, one loop per index of the formula, in the order of
 * memory. Sums run in that order in f64 and are rounded once; single elements are
 * computed in f32 with every multiplication and addition rounded by itself. Padding
 * (n_stored, c_stored) is honoured: whoever writes a tensor writes zeros beyond its
 * shape.
 *
 * Nothing is left out of a sum because a factor is zero: inf*0 is NaN and stays to be
 * seen. The taps that fall outside x are no part of the sum; a backend that pads x with
 * zeros gives NaN there when the other factor is not finite, which hides nothing and is
 * allowed. */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include <math.h>

#include "kernels/ops.h"

/* Fills every slot. */
void ref_fill_ops(struct ops *ops);

/* Fills device->ops, ->backend, ->channel_multiple and ->description; one thread. */
enum status ref_open(struct device *device);
void ref_close(struct device *device);

/* Zeroed host memory, aligned to ARENA_ALIGN at least, for free(); NULL without. */
void *host_alloc(size_t bytes);

/* One family each, for ref_fill_ops(). */
void ref_fill_memory(struct memory_ops *ops);
void ref_fill_conv(struct conv_ops *ops);
void ref_fill_norm(struct norm_ops *ops);
void ref_fill_pointwise(struct pointwise_ops *ops);
void ref_fill_resample(struct resample_ops *ops);
void ref_fill_image(struct image_ops *ops);
void ref_fill_loss(struct loss_ops *ops);
void ref_fill_optimizer(struct optimizer_ops *ops);
void ref_fill_queue(struct queue_ops *ops);
void ref_fill_group(struct group_ops *ops);
void ref_fill_survey(struct survey_ops *ops);

/* act(z). NaN stays NaN in every kind; ReLU is 0 at -inf. */
static inline float ref_activate(float z, enum activation activation, float slope)
{
    switch (activation) {
    case ACTIVATION_RELU: return z < 0.0f ? 0.0f : z;
    case ACTIVATION_LEAKY_RELU: return z > 0.0f ? z : z * slope;
    case ACTIVATION_TANH: return tanhf(z);
    default: return z;
    }
}

/* act', told by a value `z` of the sign of the input (ReLU and leaky ReLU) and by the
 * output `y` (tanh). It multiplies: an infinite gradient at a dead unit is NaN, never a
 * silent 0. */
static inline float ref_activation_slope(float z, float y, enum activation activation,
                                         float slope)
{
    switch (activation) {
    case ACTIVATION_RELU: return z > 0.0f ? 1.0f : 0.0f;
    case ACTIVATION_LEAKY_RELU: return z > 0.0f ? 1.0f : slope;
    case ACTIVATION_TANH: return 1.0f - y * y;
    default: return 1.0f;
    }
}

/* The rows (n, h, w) of a tensor, and where channel c of a row lies. */
static inline size_t ref_rows(const struct tensor *t)
{
    return (size_t)t->shape.n * (size_t)t->shape.h * (size_t)t->shape.w;
}

static inline size_t ref_place(const struct tensor *t, size_t row, int c)
{
    return row * (size_t)t->c_stored + (size_t)c;
}

/* Zeros in the stored channels and rows beyond the shape. */
void ref_clear_padding(struct tensor *tensor);

/* Aborts unless the two have the same shape. */
void ref_check_shapes(const char *op, const struct tensor *a, const struct tensor *b);

#endif
