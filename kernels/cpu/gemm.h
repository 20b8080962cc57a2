/* gemm.h - out = finish(window matrix x packed right-hand matrix): the GEMM behind
 * forward and dgrad.
 * Flow:  cpu_conv.c describes the phases once (prepare) -> gemm_run() in a step.
 * Owns:  its table of phases.  Borrows: the backend's workspace while it runs.
 *
 * A phase is one window over one part of the output: forward has one; dgrad has one per
 * output parity, each a small product over the taps that reach those pixels, written
 * straight to its place. A column is an output channel (for a dense dgrad, an output
 * element; then the channel is column % channels). */
#ifndef KERNELS_CPU_GEMM_H
#define KERNELS_CPU_GEMM_H

#include "kernels/cpu/backend.h"

struct phase {
    struct window window; // data and dtype are set when it runs
    size_t rows;          // of the window matrix
    int depth;
    int out_top, out_left; // output pixel of the row (0, 0)
    int tap_h, tap_w;      // weight tap of the window's first; going down by `step`
    size_t right_offset;   // in the workspace, floats
    size_t first_block;    // of this phase's rows, counted over all phases
    size_t blocks;
};

struct product {
    struct phase *phases;
    int phase_count;
    int cols, channels;         // columns of a row; channels of bias and sums
    int out_h, out_w, out_step; // output grid: pixels per sample, pixels between rows
    int row_block, col_block;   // of a task
    size_t row_blocks, col_blocks;
    size_t right_floats; // all packed panels
    size_t workspace_floats;
    int is_turned;       // weights are read [column][depth]: forward
    int kernel;          // taps of the weight tensor along a side
    int weight_step;     // stride of the convolution: between the taps of a phase
    int weight_channels; // columns of one tap, when not turned
};

/* Sets blocks, offsets and workspace from phases (window, rows, depth), cols, channels
 * and the output grid. */
void gemm_plan(struct product *product, const struct isa *isa);

/* What multiplies operands of these dtypes. */
const struct isa *gemm_isa(const struct product *product, const struct isa *isa,
                           enum dtype left, enum dtype weights);

double gemm_multiplications(const struct product *product);

void gemm_run(const struct product *product, struct device *device,
              const struct tensor *left, const struct tensor *weights,
              const struct conv_epilogue *epilogue, struct tensor *out);

#endif
