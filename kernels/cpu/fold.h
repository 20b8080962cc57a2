/* fold.h - dgrad where x has few channels: the picture end of a GAN.
 * Flow:  cpu_conv.c plans once -> fold_run() in a step.
 * Owns:  nothing.  Borrows: the backend's workspace while it runs.
 *
 * With one or three columns a product per output parity would waste most lanes of a
 * vector. Here every pixel of dy is multiplied with all taps at once, [pixels, K] x [K,
 * R*R*C], in a scratch that holds a band of rows, and the taps are then folded onto the
 * pixels of dx that they reach. A line of taps reaches R neighbours: pixels of dy so far
 * apart that theirs do not overlap are one class, which adds up in a row of its own, and
 * the rows of all classes are added last. A band's rows are the same bits as a
 * picture's. */
#ifndef KERNELS_CPU_FOLD_H
#define KERNELS_CPU_FOLD_H

#include "kernels/cpu/backend.h"

struct fold {
    struct conv_desc desc;
    int cols;        // taps times channels
    int band, bands; // rows of dx in a task, tasks of a sample
    int classes;
    size_t row_step; // floats from one class's row, with its margins, to the next's
    size_t tap_step; // floats from one pixel's taps to the next's
    size_t right_floats, workspace_floats;
};

/* Plans, or returns 0 where this way does not suit the convolution. */
int fold_plan(struct fold *fold, const struct conv_desc *desc, const struct isa *isa);

/* Rows that two bands need are multiplied for each. */
double fold_multiplications(const struct fold *fold);

void fold_run(const struct fold *fold, struct device *device, const struct tensor *dy,
              const struct tensor *weights, const struct conv_epilogue *epilogue,
              struct tensor *dx);

#endif
