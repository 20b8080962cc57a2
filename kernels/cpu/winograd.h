/* winograd.h - 4x4 stride-2 pad-1 convolutions with 25 multiplications in place of 64.
 * Flow:  cpu_conv.c plans once -> winograd_forward(), _dgrad(), _wgrad() in a step.
 * Owns:  nothing.  Borrows: the backend's workspace and the threads' slabs while it runs.
 *
 * Along one axis the even and the odd taps see the odd and the even pixels of x: a
 * stride-2 convolution is the sum over two phases of a stride-1 convolution with two
 * taps, in the plane over four phases. A tile of 4 outputs of one phase, y_i = g0 d_i +
 * g1 d_i+1, is the product of two polynomials turned around; it takes 5 multiplications
 * where the definition has 8, one at each of 5 points, and in the plane 25 for 64:
 *   forward  y  = A^T [ sum over phases and channels of (G g G^T) * (B^T d B) ] A
 *   dgrad    dd = B   [ sum over outputs of  (G g G^T) * (A dy A^T) ] B^T
 *   wgrad    dg = G^T [ sum over tiles of    (B^T d B) * (A dy A^T) ] G
 * The sums are 25 matrix products; dgrad's tiles of dd, 5x5, overlap by one line and are
 * added. Infinity gives the last of the four outputs alone: a tile that ends beyond y has
 * no products there, of the four tiles of 7x7 outputs 81 for 100. The points are 7/16,
 * -7/16, 5/4, -5/4 and infinity. Of the sets that were tried their error is the smallest,
 * less than half of that of 0, 1, -1, 2 and infinity; A and B are exact in f32. What is
 * left of the error is that of the products' own sums, magnified by the last transform,
 * which is why a block product is only WINO_DEPTH deep: the error then stays within twice
 * that of the direct products in all three passes.
 *
 * An inf or a NaN among the operands makes every result of its tile NaN, neighbours that
 * the definition leaves finite included; one is never lost. With the points above all
 * coefficients of the four finite ones are non-zero, and at infinity only d4, g1 and y3
 * count beyond them, which reach exactly the outputs that the definition has them reach.
 * A result that became infinite on the way is stored as NaN.
 *
 * Source: Lavin and Gray 2016, arXiv:1509.09308; stride 2 by phases: Yepez
 * and Ko 2020, IEEE TVLSI 28(4); points and error: Barabasz et al. 2020,
 * arXiv:1803.10986. */
#ifndef KERNELS_CPU_WINOGRAD_H
#define KERNELS_CPU_WINOGRAD_H

#include "kernels/cpu/backend.h"

#define WINO_PAD 16 // floats between points, which would else share a cache set
#define WINO_RIGHT_POINT (WINO_DEPTH * WINO_COLS + WINO_PAD) // of a block of weights
#define WINO_GRAD_PARTS 2 // blocks of tiles whose products wgrad adds, at most
#define WINO_GRAD_POINT (WINO_ROWS * WINO_DEPTH + WINO_PAD) // in a task of wgrad

/* How one pass is cut. Tiles are transformed chunk by chunk, so that a chunk's points
 * stay in a cache. A chunk is some blocks of tiles, whose points lie in the slab of the
 * thread that is expected to make and to multiply them. A task multiplies a block of
 * tiles for one block of columns, or in wgrad for one block of the weights, or for some
 * of its points where there are few. */
struct wino_pass {
    size_t chunk;         // tiles of a chunk: whole blocks
    size_t block, blocks; // tiles of a block, and how many there are in all
    int depth_steps;      // forward: of 16 channels of x; dgrad: of 64 of y
                          // wgrad: blocks of 48 rows, channels of y
    int col_blocks;       // forward: of y; dgrad: of x, for each phase; wgrad: of x
    int point_tasks;      // of a block's 25 points: 1, or in wgrad 1 or 5
    size_t left_point;    // floats from one point to the next on the left side
    size_t right_point;   // and, in wgrad, on the right side
    size_t right_floats;  // of all weights' points, kept by each thread; 0: made anew
    size_t points_floats; // of a block's points
    size_t block_floats;  // of all that a block has in its slab
    size_t workspace_floats;
};

struct winograd {
    struct conv_desc desc;
    struct wino_tiling tiling;
    size_t tiles;
    struct wino_pass forward, dgrad, wgrad;
};

/* Whether wgrad's products stay in the slabs until all tasks have added theirs. */
int winograd_keeps_results(const struct winograd *winograd);

/* What a pass needs of a thread's slab. */
size_t winograd_slab_floats(const struct winograd *winograd, const struct wino_pass *pass,
                            int threads, int thread);

/* Whether the convolution has the shape for it, pass by pass. */
struct wino_fits {
    int forward, dgrad, wgrad;
};

/* Plans the passes that fit; the others must not be run. */
struct wino_fits winograd_plan(struct winograd *winograd, const struct conv_desc *desc,
                               const struct cpu_backend *backend);

/* Of the 25 products, in any of the passes. */
double winograd_multiplications(const struct winograd *winograd);

/* What a pass is estimated to take, in multiply-adds of the products, and whether its
 * error stays within twice the direct way's. */
struct wino_estimate {
    double winograd, direct;
    int is_exact;
};
struct wino_estimate winograd_estimate(const struct winograd *winograd,
                                       enum pass_kind pass);

void winograd_forward(const struct winograd *winograd, struct device *device,
                      const struct tensor *x, const struct tensor *weights,
                      const struct conv_epilogue *epilogue, struct tensor *y);

void winograd_dgrad(const struct winograd *winograd, struct device *device,
                    const struct tensor *dy, const struct tensor *weights,
                    const struct conv_epilogue *epilogue, struct tensor *dx);

void winograd_wgrad(const struct winograd *winograd, struct device *device,
                    const struct tensor *x, const struct tensor *dy, enum dtype dtype,
                    float *grad, int accumulate);

#endif
