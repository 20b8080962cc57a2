/* resample.cu - between grids of pixels of which one is a multiple of the other. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/rows.cuh"

/* A tensor's rows are its pixels. `width` is that of the smaller grid, k the ratio. */
struct grids {
    unsigned width, k;
};

/* The first pixel of the larger grid's block that pixel `row` of the smaller one is. */
CUDA_INLINE unsigned block_of(unsigned row, struct grids g)
{
    unsigned line = row / g.width, column = row % g.width;
    return (line * g.k * g.width + column) * g.k;
}

/* A thread adds up eight channels of the block of every row_step-th pixel of y. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_resample_down_kernel(struct rows x, float factor, struct rows y, struct grids g,
                              int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    for (unsigned row = at.row; row < y.n; row += at.row_step) {
        struct eight sum = {};
        unsigned corner = block_of(row, g);
        for (unsigned r = 0; r < g.k; r++)
            for (unsigned s = 0; s < g.k; s++) {
                struct eight more = load_group(x, corner + r * g.k * g.width + s, at.c);
                for (int j = 0; j < 8; j++)
                    sum.v[j] += more.v[j];
            }
        for (int j = 0; j < 8; j++)
            sum.v[j] *= factor;
        store_group(y, row, at.c, sum);
    }
    clear_rows(y, at);
}

/* A thread writes eight channels of every row_step-th pixel of y. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_resample_up_kernel(struct rows x, float factor, struct rows y, struct grids g,
                            int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    for (unsigned row = at.row; row < y.n; row += at.row_step) {
        unsigned line = row / (g.width * g.k), column = row % (g.width * g.k);
        struct eight value = load_group(x, line / g.k * g.width + column / g.k, at.c);
        for (int j = 0; j < 8; j++)
            value.v[j] *= factor;
        store_group(y, row, at.c, value);
    }
    clear_rows(y, at);
}

static void cuda_resample_down(struct device *device, const struct tensor *x,
                               float factor, struct tensor *y)
{
    const char *op = "resample.down";
    struct grids grids = {(unsigned)y->shape.w,
                          (unsigned)shape_ratio(op, x->shape, y->shape)};
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_resample_down_kernel, cover.grid, CUDA_THREADS,
                rows_of(x), factor, to, grids, cover.lane_bits);
}

static void cuda_resample_up(struct device *device, const struct tensor *x, float factor,
                             struct tensor *y)
{
    const char *op = "resample.up";
    struct grids grids = {(unsigned)x->shape.w,
                          (unsigned)shape_ratio(op, y->shape, x->shape)};
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_resample_up_kernel, cover.grid, CUDA_THREADS, rows_of(x),
                factor, to, grids, cover.lane_bits);
}

void cuda_fill_resample(struct resample_ops *ops)
{
    ops->down = cuda_resample_down;
    ops->up = cuda_resample_up;
}
