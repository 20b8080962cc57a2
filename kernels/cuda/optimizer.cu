/* optimizer.cu - the finite check, unscaling, Adam with its copies, the scaler's step.
 *
 * What changes from step to step (the scale, Adam's t, the average's decay) is read from
 * device memory by every launch, so a recorded step replays rightly. Whether a step is
 * skipped is known only after all gradients were seen: so the check and Adam are two
 * kernels, and Adam's t moves in a third, when nobody reads it any more. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

/* Where a thread begins in a flat array that is taken four elements at a time, and how
 * far it goes each time. */
CUDA_INLINE size_t flat_first(void)
{
    return ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 4;
}

CUDA_INLINE size_t flat_step(void)
{
    return (size_t)gridDim.x * CUDA_THREADS * 4;
}

/* 1/scale for every thread of the block. One of them divides, in f64, which is slow on
 * many GPUs. */
CUDA_INLINE float shared_inverse(const struct scaler_state *state)
{
    __shared__ float inverse;
    if (threadIdx.x == 0)
        inverse = scaler_inverse(state);
    __syncthreads();
    return inverse;
}

/* ---- the check, and unscaling by itself ------------------------------------------ */

/* What the check finds in one gradient: bit 0 inf or NaN, bit 1 inf or NaN only when
 * unscaled. */
CUDA_INLINE unsigned faults_of(float g, float inverse)
{
    if (!is_finite(g))
        return 1;
    return is_finite(g * inverse) ? 0 : 2;
}

/* A thread looks at four gradients at a time; a block that found something raises the
 * flag. All who write a flag write the same. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_grads_check_kernel(const float *grads, size_t n, int is_wide,
                            struct scaler_state *state)
{
    float inverse = shared_inverse(state);
    unsigned faults = 0;
    for (size_t i = flat_first(); i < n; i += flat_step()) {
        float4 g = load_four(grads, DTYPE_F32, i, n, is_wide);
        faults |= faults_of(g.x, inverse) | faults_of(g.y, inverse) |
                  faults_of(g.z, inverse) | faults_of(g.w, inverse);
    }
    int has_inf = __syncthreads_or((int)(faults & 1));
    int has_inf_unscaled = __syncthreads_or((int)(faults & 2));
    if (threadIdx.x == 0 && has_inf)
        state->found_inf = 1.0f;
    if (threadIdx.x == 0 && has_inf_unscaled)
        state->found_inf_unscaled = 1.0f;
}

static void cuda_optimizer_grads_check(struct device *device, const float *grads,
                                       size_t n, struct scaler_state *state)
{
    cuda_launch(device, "optimizer.grads_check", cuda_grads_check_kernel,
                cuda_blocks(device, (n + 3) / 4), CUDA_THREADS, grads, n,
                cuda_is_aligned(grads), state);
}

/* A thread multiplies four gradients at a time by 1/scale. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_grads_unscale_kernel(float *grads, size_t n, int is_wide,
                              const struct scaler_state *state)
{
    float inverse = shared_inverse(state);
    for (size_t i = flat_first(); i < n; i += flat_step()) {
        float4 g = load_four(grads, DTYPE_F32, i, n, is_wide);
        g.x *= inverse, g.y *= inverse, g.z *= inverse, g.w *= inverse;
        store_four(grads, DTYPE_F32, i, n, is_wide, g);
    }
}

static void cuda_optimizer_grads_unscale(struct device *device, float *grads, size_t n,
                                         const struct scaler_state *state)
{
    cuda_launch(device, "optimizer.grads_unscale", cuda_grads_unscale_kernel,
                cuda_blocks(device, (n + 3) / 4), CUDA_THREADS, grads, n,
                cuda_is_aligned(grads), state);
}

/* ---- Adam ------------------------------------------------------------------------ */

/* What is the same for all parameters of a step. */
struct adam_terms {
    int is_skipped;
    float inverse, step_size, root_correction2;
    float beta1, beta2, rest1, rest2, eps;
};

CUDA_INLINE struct adam_terms adam_terms_of(const struct adam_args &args, int is_unscaled,
                                            const struct scaler_state *state)
{
    struct adam_terms step;
    double t = (double)(state->adam_t + 1);
    double correction1 = 1.0 - pow((double)args.beta1, t);
    double correction2 = 1.0 - pow((double)args.beta2, t);
    step.is_skipped = scaler_must_skip(state);
    step.inverse = is_unscaled ? 1.0f : scaler_inverse(state);
    step.step_size = (float)((double)args.lr / correction1);
    step.root_correction2 = (float)sqrt(correction2);
    step.beta1 = args.beta1;
    step.beta2 = args.beta2;
    step.rest1 = 1.0f - args.beta1;
    step.rest2 = 1.0f - args.beta2;
    step.eps = args.eps;
    return step;
}

/* Moves one parameter and its moments. */
CUDA_INLINE void adam_one(const struct adam_terms &step, float grad, float *m, float *v,
                          float *p)
{
    float g = grad * step.inverse;
    *m = step.beta1 * *m + step.rest1 * g;
    *v = step.beta2 * *v + step.rest2 * (g * g);
    *p -= step.step_size * *m / (sqrtf(*v) / step.root_correction2 + step.eps);
}

/* A thread moves four parameters at a time: unscale, moments, weights, copy, average. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_adam_step_kernel(struct adam_args args, int is_unscaled, int is_wide,
                          const struct scaler_state *state)
{
    __shared__ struct adam_terms step;
    __shared__ float decay;
    if (threadIdx.x == 0) {
        step = adam_terms_of(args, is_unscaled, state);
        decay = args.ema ? *args.ema_decay : 0.0f;
    }
    __syncthreads();
    if (step.is_skipped && !args.ema)
        return;
    size_t n = args.n;
    float rest = 1.0f - decay;
    for (size_t i = flat_first(); i < n; i += flat_step()) {
        float4 p = load_four(args.params, DTYPE_F32, i, n, is_wide);
        if (!step.is_skipped) {
            float4 g = load_four(args.grads, DTYPE_F32, i, n, is_wide);
            float4 m = load_four(args.m, DTYPE_F32, i, n, is_wide);
            float4 v = load_four(args.v, DTYPE_F32, i, n, is_wide);
            adam_one(step, g.x, &m.x, &v.x, &p.x);
            adam_one(step, g.y, &m.y, &v.y, &p.y);
            adam_one(step, g.z, &m.z, &v.z, &p.z);
            adam_one(step, g.w, &m.w, &v.w, &p.w);
            store_four(args.m, DTYPE_F32, i, n, is_wide, m);
            store_four(args.v, DTYPE_F32, i, n, is_wide, v);
            store_four(args.params, DTYPE_F32, i, n, is_wide, p);
            if (args.half)
                store_four(args.half, args.half_dtype, i, n, is_wide, p);
        }
        if (args.ema) {
            float4 e = load_four(args.ema, DTYPE_F32, i, n, is_wide);
            e.x = e.x * decay + p.x * rest;
            e.y = e.y * decay + p.y * rest;
            e.z = e.z * decay + p.z * rest;
            e.w = e.w * decay + p.w * rest;
            store_four(args.ema, DTYPE_F32, i, n, is_wide, e);
        }
    }
}

/* One thread counts the step that was taken. */
__global__ void cuda_adam_count_kernel(struct scaler_state *state)
{
    if (!scaler_must_skip(state))
        state->adam_t += 1;
}

static void cuda_optimizer_adam_step(struct device *device, const struct adam_args *args,
                                     int is_unscaled, struct scaler_state *state)
{
    const char *op = "optimizer.adam_step";
    int is_wide = cuda_is_aligned(args->params) && cuda_is_aligned(args->grads) &&
                  cuda_is_aligned(args->m) && cuda_is_aligned(args->v) &&
                  cuda_is_aligned(args->half) && cuda_is_aligned(args->ema);
    cuda_launch(device, op, cuda_adam_step_kernel, cuda_blocks(device, (args->n + 3) / 4),
                CUDA_THREADS, *args, is_unscaled, is_wide, state);
    cuda_launch(device, op, cuda_adam_count_kernel, 1, 1, state);
}

/* ---- the rest -------------------------------------------------------------------- */

/* One thread ends the step. */
__global__ void cuda_scaler_update_kernel(struct scaler_state *state,
                                          struct step_record *record)
{
    scaler_finish_step(state, record);
}

static void cuda_optimizer_scaler_update(struct device *device,
                                         struct scaler_state *state,
                                         struct step_record *record)
{
    cuda_launch(device, "optimizer.scaler_update", cuda_scaler_update_kernel, 1, 1, state,
                record);
}

/* A thread rounds eight parameters at a time. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_half_copy_kernel(const float *params, void *half, enum dtype half_dtype,
                          size_t n, int is_wide)
{
    size_t step = (size_t)gridDim.x * CUDA_THREADS * 8;
    for (size_t i = ((size_t)blockIdx.x * CUDA_THREADS + threadIdx.x) * 8; i < n;
         i += step) {
        int count = n - i < 8 ? (int)(n - i) : 8;
        store_eight(half, half_dtype, i, count, is_wide,
                    load_eight(params, DTYPE_F32, i, count, is_wide));
    }
}

static void cuda_optimizer_half_copy(struct device *device, const float *params,
                                     void *half, enum dtype half_dtype, size_t n)
{
    cuda_launch(device, "optimizer.half_copy", cuda_half_copy_kernel,
                cuda_blocks(device, (n + 7) / 8), CUDA_THREADS, params, half, half_dtype,
                n, cuda_is_aligned(params) && cuda_is_aligned(half));
}

void cuda_fill_optimizer(struct optimizer_ops *ops)
{
    ops->grads_check = cuda_optimizer_grads_check;
    ops->grads_unscale = cuda_optimizer_grads_unscale;
    ops->adam_step = cuda_optimizer_adam_step;
    ops->scaler_update = cuda_optimizer_scaler_update;
    ops->half_copy = cuda_optimizer_half_copy;
}
