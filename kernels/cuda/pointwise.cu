/* pointwise.cu - activations by themselves, casts, sums of tensors, bias gradients and
 * sums of arrays. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/rows.cuh"

/* ---- activations and casts ------------------------------------------------------- */

/* A thread activates eight channels of every row_step-th row. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_pointwise_act_forward_kernel(struct rows x, enum activation activation,
                                      float slope, struct rows y, int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    for (unsigned row = at.row; row < y.n; row += at.row_step)
        store_group(y, row, at.c, activate(load_group(x, row, at.c), activation, slope));
    clear_rows(y, at);
}

static void forward(struct device *device, const char *op, const struct tensor *x,
                    enum activation activation, float slope, struct tensor *y)
{
    check_shapes(op, x, y);
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_pointwise_act_forward_kernel, cover.grid, CUDA_THREADS,
                rows_of(x), activation, slope, to, cover.lane_bits);
}

static void cuda_pointwise_act_forward(struct device *device, const struct tensor *x,
                                       enum activation activation, float slope,
                                       struct tensor *y)
{
    forward(device, "pointwise.act_forward", x, activation, slope, y);
}

static void cuda_pointwise_cast(struct device *device, const struct tensor *from,
                                struct tensor *to)
{
    forward(device, "pointwise.cast", from, ACTIVATION_NONE, 0.0f, to);
}

/* A thread multiplies eight channels of every row_step-th row of dy by act'(y). */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_pointwise_act_backward_kernel(struct rows dy, struct rows y,
                                       enum activation activation, float slope,
                                       struct rows dx, int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= dx.c_stored)
        return;
    for (unsigned row = at.row; row < dx.n; row += at.row_step) {
        struct eight delta = load_group(dy, row, at.c), out = load_group(y, row, at.c);
        store_group(dx, row, at.c, times_slope(delta, out, activation, slope));
    }
    clear_rows(dx, at);
}

static void cuda_pointwise_act_backward(struct device *device, const struct tensor *dy,
                                        const struct tensor *y,
                                        enum activation activation, float slope,
                                        struct tensor *dx)
{
    const char *op = "pointwise.act_backward";
    check_shapes(op, dy, y);
    check_shapes(op, dy, dx);
    struct rows to = rows_of(dx);
    struct cover cover = cover_rows(device, to.n_stored, dx->c_stored);
    cuda_launch(device, op, cuda_pointwise_act_backward_kernel, cover.grid, CUDA_THREADS,
                rows_of(dy), rows_of(y), activation, slope, to, cover.lane_bits);
}

/* A thread adds eight channels of every row_step-th row. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_pointwise_add_tensors_kernel(struct rows a, struct rows b, struct rows y,
                                      int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    for (unsigned row = at.row; row < y.n; row += at.row_step) {
        struct eight sum = load_group(a, row, at.c), more = load_group(b, row, at.c);
        for (int j = 0; j < 8; j++)
            sum.v[j] += more.v[j];
        store_group(y, row, at.c, sum);
    }
    clear_rows(y, at);
}

static void cuda_pointwise_add_tensors(struct device *device, const struct tensor *a,
                                       const struct tensor *b, struct tensor *y)
{
    const char *op = "pointwise.add_tensors";
    check_shapes(op, a, b);
    check_shapes(op, a, y);
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_pointwise_add_tensors_kernel, cover.grid, CUDA_THREADS,
                rows_of(a), rows_of(b), to, cover.lane_bits);
}

/* ---- sums ------------------------------------------------------------------------ */

/* A thread adds up eight channels of every row_step-th row, a block leaves its sums. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_pointwise_bias_grad_kernel(struct rows dy, float *partial, int lane_bits)
{
    struct place at = place_of(lane_bits);
    struct eight sum = {};
    if (at.c < dy.c) {
        for (unsigned row = at.row; row < dy.n; row += at.row_step) {
            struct eight delta = load_group(dy, row, at.c);
            for (int j = 0; j < 8; j++)
                sum.v[j] += delta.v[j];
        }
    }
    leave_sums(partial, sum, 0, 1, lane_bits);
}

static void cuda_pointwise_bias_grad(struct device *device, const struct tensor *dy,
                                     float *grad, int accumulate)
{
    const char *op = "pointwise.bias_grad";
    struct rows from = rows_of(dy);
    struct cover cover = cuda_cover_sums(from.n, dy->shape.c, 1);
    cuda_launch(device, op, cuda_pointwise_bias_grad_kernel, cover.grid, CUDA_THREADS,
                from, cuda_backend(device)->partial, cover.lane_bits);
    cuda_finish_sums(device, op, cover, dy->shape.c, grad, NULL, accumulate);
}

/* A thread adds four elements at a time. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_pointwise_add_kernel(float *to, const float *from, size_t n, int is_wide)
{
    size_t step = (size_t)gridDim.x * CUDA_THREADS * 4;
    for (size_t i = ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 4; i < n;
         i += step) {
        float4 sum = load_four(to, DTYPE_F32, i, n, is_wide);
        float4 more = load_four(from, DTYPE_F32, i, n, is_wide);
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        store_four(to, DTYPE_F32, i, n, is_wide, sum);
    }
}

static void cuda_pointwise_add(struct device *device, float *to, const float *from,
                               size_t n)
{
    cuda_launch(device, "pointwise.add", cuda_pointwise_add_kernel,
                cuda_blocks(device, (n + 3) / 4), CUDA_THREADS, to, from, n,
                cuda_is_aligned(to) && cuda_is_aligned(from));
}

void cuda_fill_pointwise(struct pointwise_ops *ops)
{
    ops->act_forward = cuda_pointwise_act_forward;
    ops->act_backward = cuda_pointwise_act_backward;
    ops->cast = cuda_pointwise_cast;
    ops->bias_grad = cuda_pointwise_bias_grad;
    ops->add_tensors = cuda_pointwise_add_tensors;
    ops->add = cuda_pointwise_add;
}
