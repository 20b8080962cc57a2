/* activation.cuh - an activation and its gradient, on eight elements at a time.
 * Flow:  pointwise.cu, norm.cu and conv_extra.cu.
 * Owns:  nothing.
 *
 * The kind is the same for a whole grid, so it is looked at once per eight. */
#ifndef KERNELS_CUDA_ACTIVATION_CUH
#define KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/ops.h"
}

/* act(z). NaN stays NaN in every kind; ReLU is 0 at -inf. */
CUDA_INLINE struct eight activate(struct eight z, enum activation activation, float slope)
{
    if (activation == ACTIVATION_RELU) {
        for (int j = 0; j < 8; j++)
            z.v[j] = z.v[j] < 0.0f ? 0.0f : z.v[j];
    } else if (activation == ACTIVATION_LEAKY_RELU) {
        for (int j = 0; j < 8; j++)
            z.v[j] = z.v[j] > 0.0f ? z.v[j] : z.v[j] * slope;
    } else if (activation == ACTIVATION_TANH) {
        for (int j = 0; j < 8; j++)
            z.v[j] = tanhf(z.v[j]);
    }
    return z;
}

/* delta * act', told by a value of the input's sign (ReLU, leaky ReLU) or by the output
 * (tanh): by the output y in all kinds. It multiplies: inf at a dead unit is NaN. */
CUDA_INLINE struct eight times_slope(struct eight delta, struct eight y,
                                     enum activation activation, float slope)
{
    if (activation == ACTIVATION_TANH) {
        for (int j = 0; j < 8; j++)
            delta.v[j] *= 1.0f - y.v[j] * y.v[j];
    } else if (activation != ACTIVATION_NONE) {
        float below = activation == ACTIVATION_RELU ? 0.0f : slope;
        for (int j = 0; j < 8; j++)
            delta.v[j] *= y.v[j] > 0.0f ? 1.0f : below;
    }
    return delta;
}

#endif
