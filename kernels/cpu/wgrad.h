/* wgrad.h - grad = round(dy^T x window matrix): the GEMM behind wgrad.
 * Flow:  cpu_conv.c plans once -> wgrad_run() in a step.
 * Owns:  nothing.  Borrows: the backend's workspace while it runs.
 *
 * The depth is pixels, n*P*Q, which is long where the result is small; it is then cut
 * into parts, a number that follows from the shape alone, and the parts are added in
 * order. */
#ifndef KERNELS_CPU_WGRAD_H
#define KERNELS_CPU_WGRAD_H

#include "kernels/cpu/backend.h"

struct wgrad {
    struct window window; // over x, one row per pixel of y
    size_t depth;         // pixels
    int rows, cols;       // output channels, taps times input channels
    int row_block, col_block;
    size_t row_blocks, col_blocks;
    size_t parts, part_depth;
    size_t workspace_floats;
};

void wgrad_plan(struct wgrad *wgrad, const struct isa *isa);

/* What multiplies operands of these dtypes. */
const struct isa *wgrad_isa(const struct wgrad *wgrad, const struct isa *isa,
                            enum dtype x, enum dtype dy);

void wgrad_run(const struct wgrad *wgrad, struct device *device, const struct tensor *x,
               const struct tensor *dy, enum dtype dtype, float *grad, int accumulate);

#endif
