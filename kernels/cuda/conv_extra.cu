/* conv_extra.cu - what a convolution's library does not do itself: a dW of halves added
 * to f32 gradients, and the epilogue over a result that was stored plainly. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/rows.cuh"

/* ---- weight gradients ------------------------------------------------------------ */

/* A thread adds four elements at a time. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_add_wgrad_kernel(const void *dw, enum dtype dtype, float *grad, size_t n,
                          int accumulate, int is_wide)
{
    size_t step = (size_t)gridDim.x * CUDA_THREADS * 4;
    for (size_t i = ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 4; i < n;
         i += step) {
        float4 sum = load_four(dw, dtype, i, n, is_wide);
        if (accumulate) {
            float4 old = load_four(grad, DTYPE_F32, i, n, is_wide);
            sum.x += old.x, sum.y += old.y, sum.z += old.z, sum.w += old.w;
        }
        store_four(grad, DTYPE_F32, i, n, is_wide, sum);
    }
}

void cuda_add_wgrad(struct device *device, const void *dw, enum dtype dtype, float *grad,
                    size_t n, int accumulate)
{
    cuda_launch(device, "conv.wgrad", cuda_add_wgrad_kernel,
                cuda_blocks(device, (n + 3) / 4), CUDA_THREADS, dw, dtype, grad, n,
                accumulate, cuda_is_aligned(dw) && cuda_is_aligned(grad));
}

/* ---- the epilogue ---------------------------------------------------------------- */

/* A thread adds the bias of, and activates, eight channels of every row_step-th row; with
 * `partial` the block leaves the sums of what was stored, and of its squares. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_epilogue_kernel(struct rows from, const float *biases,
                         enum activation activation, float slope, struct rows out,
                         float *partial, int lane_bits)
{
    struct place at = place_of(lane_bits);
    struct eight sum = {}, sumsq = {}, bias = {};
    if (at.c < out.c_stored) {
        if (biases)
            bias = load_channels(biases, at.c, out.c);
        for (unsigned row = at.row; row < out.n; row += at.row_step) {
            struct eight z = load_group(from, row, at.c);
            if (biases)
                for (int j = 0; j < 8; j++)
                    z.v[j] += bias.v[j];
            z = round_eight(activate(z, activation, slope), out.dtype);
            store_group(out, row, at.c, z);
            for (int j = 0; j < 8; j++) {
                sum.v[j] += z.v[j];
                sumsq.v[j] += z.v[j] * z.v[j];
            }
        }
        clear_rows(out, at);
    }
    if (!partial)
        return;
    leave_sums(partial, sum, 0, 2, lane_bits);
    leave_sums(partial, sumsq, 1, 2, lane_bits);
}

/* A thread multiplies eight channels of every row_step-th row by act'(undo). */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_epilogue_undo_kernel(struct rows from, struct rows undo,
                              enum activation activation, float slope, struct rows out,
                              int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= out.c_stored)
        return;
    for (unsigned row = at.row; row < out.n; row += at.row_step) {
        struct eight delta = load_group(from, row, at.c), y = load_group(undo, row, at.c);
        store_group(out, row, at.c, times_slope(delta, y, activation, slope));
    }
    clear_rows(out, at);
}

void cuda_epilogue(struct device *device, const void *from, enum dtype from_dtype,
                   const struct conv_epilogue *epilogue, struct tensor *out)
{
    static const struct conv_epilogue plain = {};
    const struct conv_epilogue *e = epilogue ? epilogue : &plain;
    const char *op = "conv epilogue";
    CHECK(!e->sum == !e->sumsq, "sum and sumsq come both or not at all");
    CHECK(!e->undo || (!e->bias && !e->sum), "a gradient has neither bias nor sums");
    CHECK(from != out->data || from_dtype == out->dtype, "%s in place of %s",
          dtype_name(out->dtype), dtype_name(from_dtype));
    struct tensor source = *out; // laid out like the result
    source.data = const_cast<void *>(from);
    source.dtype = from_dtype;
    struct rows to = rows_of(out);
    struct cover cover = e->sum ? cuda_cover_sums(to.n, out->c_stored, 2)
                                : cover_rows(device, to.n_stored, out->c_stored);
    if (e->undo) {
        check_shapes(op, e->undo, out);
        cuda_launch(device, op, cuda_epilogue_undo_kernel, cover.grid, CUDA_THREADS,
                    rows_of(&source), rows_of(e->undo), e->activation, e->slope, to,
                    cover.lane_bits);
        return;
    }
    cuda_launch(device, op, cuda_epilogue_kernel, cover.grid, CUDA_THREADS,
                rows_of(&source), e->bias, e->activation, e->slope, to,
                e->sum ? cuda_backend(device)->partial : NULL, cover.lane_bits);
    if (e->sum)
        cuda_finish_sums(device, op, cover, out->shape.c, e->sum, e->sumsq, 0);
}
