/* scaler.cu - one scale for two optimizers, what an overflow means to others, clipping.
 * The rules themselves are scaler_state.h's; one thread runs them where the state
 * lives. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/cuda/warp.cuh"

/* ---- two scalers ----------------------------------------------------------------- */

/* One thread ends the step of both. */
__global__ void cuda_scaler_both_kernel(struct scaler_state *first,
                                        struct step_record *first_record,
                                        struct scaler_state *second,
                                        struct step_record *second_record, int holds)
{
    scaler_finish_both(first, first_record, second, second_record, holds);
}

static void cuda_optimizer_scaler_both(struct device *device, struct scaler_state *first,
                                       struct step_record *first_record,
                                       struct scaler_state *second,
                                       struct step_record *second_record, int holds)
{
    cuda_launch(device, "optimizer.scaler_both", cuda_scaler_both_kernel, 1, 1, first,
                first_record, second, second_record, holds);
}

/* One thread copies the scale and what moves with it. */
__global__ void cuda_scaler_share_kernel(const struct scaler_state *from,
                                         struct scaler_state *to)
{
    scaler_take_scale(to, from);
}

static void cuda_optimizer_scaler_share(struct device *device,
                                        const struct scaler_state *from,
                                        struct scaler_state *to)
{
    cuda_launch(device, "optimizer.scaler_share", cuda_scaler_share_kernel, 1, 1, from,
                to);
}

/* One thread tells the other scaler. */
__global__ void cuda_scaler_spread_kernel(const struct scaler_state *from,
                                          struct scaler_state *to,
                                          enum overflow_reach reach)
{
    scaler_spread_overflow(from, to, reach);
}

static void cuda_optimizer_scaler_spread(struct device *device,
                                         const struct scaler_state *from,
                                         struct scaler_state *to,
                                         enum overflow_reach reach)
{
    cuda_launch(device, "optimizer.scaler_share_overflow", cuda_scaler_spread_kernel, 1,
                1, from, to, reach);
}

/* ---- clipping -------------------------------------------------------------------- */

/* The sum over the block, in an order that never changes; thread 0 gets it. */
CUDA_INLINE double block_sum(double value)
{
    __shared__ double held[CUDA_WARPS];
    double sum = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        held[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < CUDA_WARPS; warp++)
            sum += held[warp];
    return sum;
}

/* A thread squares four gradients at a time; the block writes its sum. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_grads_square_kernel(const float *grads, size_t n, int is_wide, double *partial)
{
    size_t step = (size_t)gridDim.x * CUDA_THREADS * 4;
    double sum = 0.0;
    for (size_t i = ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 4; i < n;
         i += step) {
        float4 g = load_four(grads, DTYPE_F32, i, n, is_wide);
        sum += (double)g.x * (double)g.x + (double)g.y * (double)g.y +
               (double)g.z * (double)g.z + (double)g.w * (double)g.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* A thread adds every 256th block's sum; the block writes the root of all. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_grads_norm_kernel(const double *partial, int count, float *norm)
{
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < count; i += CUDA_THREADS)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *norm = norm_of_sum(sqrt(sum));
}

static void cuda_optimizer_grads_norm(struct device *device, const float *grads, size_t n,
                                      float *norm)
{
    const char *op = "optimizer.grads_norm";
    // Eight blocks for each multiprocessor at most: far fewer than there is room for.
    unsigned blocks = cuda_blocks(device, (n + 3) / 4);
    double *partial = (double *)cuda_backend(device)->partial;
    CHECK(blocks <= CUDA_PARTIAL_FLOATS / 2, "%u blocks", blocks);
    cuda_launch(device, op, cuda_grads_square_kernel, blocks, CUDA_THREADS, grads, n,
                cuda_is_aligned(grads), partial);
    cuda_launch(device, op, cuda_grads_norm_kernel, 1, CUDA_THREADS, partial, (int)blocks,
                norm);
}

/* A thread multiplies four gradients at a time, or none. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_grads_clip_kernel(float *grads, size_t n, int is_wide, float max_norm,
                           const float *norm)
{
    float factor = clip_factor(*norm, max_norm);
    if (factor == 1.0f)
        return;
    size_t step = (size_t)gridDim.x * CUDA_THREADS * 4;
    for (size_t i = ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 4; i < n;
         i += step) {
        float4 g = load_four(grads, DTYPE_F32, i, n, is_wide);
        g.x *= factor, g.y *= factor, g.z *= factor, g.w *= factor;
        store_four(grads, DTYPE_F32, i, n, is_wide, g);
    }
}

static void cuda_optimizer_grads_clip(struct device *device, float *grads, size_t n,
                                      float max_norm, const float *norm)
{
    cuda_launch(device, "optimizer.grads_clip", cuda_grads_clip_kernel,
                cuda_blocks(device, (n + 3) / 4), CUDA_THREADS, grads, n,
                cuda_is_aligned(grads), max_norm, norm);
}

void cuda_fill_scaler(struct optimizer_ops *ops)
{
    ops->scaler_both = cuda_optimizer_scaler_both;
    ops->scaler_share = cuda_optimizer_scaler_share;
    ops->scaler_share_overflow = cuda_optimizer_scaler_spread;
    ops->grads_norm = cuda_optimizer_grads_norm;
    ops->grads_clip = cuda_optimizer_grads_clip;
}
