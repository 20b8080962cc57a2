/* loss.cu - losses on logits: the seed of the backward pass, and sums for the log. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <math.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/warp.cuh"

CUDA_INLINE void add_sample(struct loss_sums *sums, float x, float loss)
{
    sums->loss += (double)loss;
    sums->loss_sq += (double)loss * (double)loss;
    sums->score += (double)x;
    sums->score_sq += (double)x * (double)x;
    sums->sign += x > 0.0f ? 1.0 : x < 0.0f ? -1.0 : 0.0;
    sums->count += 1.0;
    sums->nonfinite += is_finite(x) ? 0.0 : 1.0;
}

/* One block: a thread takes every 256th sample, then thread k of the first seven adds the
 * warps' sums of field k. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_loss_on_logits_kernel(enum loss_kind kind, struct rows logits, float target,
                               float weight, const struct scaler_state *state,
                               struct rows seed, struct loss_sums *sums)
{
    __shared__ double held[CUDA_WARPS][LOSS_SUMS_DOUBLES];
    // The scale meets the f32 seed; only the product is rounded to the seed's dtype.
    float factor =
        (float)((double)scaler_scale(state) * (double)weight / (double)logits.n);
    struct loss_sums mine = {};
    for (unsigned row = threadIdx.x; row < seed.n_stored; row += CUDA_THREADS) {
        struct eight value = {};
        if (row < logits.n) {
            float x = ((const float *)logits.data)[(size_t)row * logits.c_stored];
            struct loss_value sample = loss_at(kind, x, target);
            value.v[0] = factor * sample.slope;
            add_sample(&mine, x, sample.loss);
        }
        store_group(seed, row, 0, value);
        for (int c = 8; c < seed.c_stored; c += 8)
            store_group(seed, row, c, value);
    }
    const double fields[LOSS_SUMS_DOUBLES] = {mine.loss,     mine.loss_sq, mine.score,
                                              mine.score_sq, mine.sign,    mine.count,
                                              mine.nonfinite};
    for (unsigned k = 0; k < LOSS_SUMS_DOUBLES; k++) {
        double sum = warp_sum(fields[k]);
        if (threadIdx.x % 32 == 0)
            held[threadIdx.x / 32][k] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= LOSS_SUMS_DOUBLES)
        return;
    double total = 0.0;
    for (int warp = 0; warp < CUDA_WARPS; warp++)
        total += held[warp][threadIdx.x];
    ((double *)sums)[threadIdx.x] = total; // in the order of struct loss_sums
}

static void cuda_loss_on_logits(struct device *device, enum loss_kind kind,
                                const struct tensor *logits, float target, float weight,
                                const struct scaler_state *state, struct tensor *seed,
                                struct loss_sums *sums)
{
    const char *op = "loss.on_logits";
    check_shapes(op, logits, seed);
    CHECK(logits->dtype == DTYPE_F32, "logits are %s", dtype_name(logits->dtype));
    CHECK(logits->shape.h == 1 && logits->shape.w == 1 && logits->shape.c == 1,
          "logits are %dx%dx%d", logits->shape.h, logits->shape.w, logits->shape.c);
    cuda_launch(device, op, cuda_loss_on_logits_kernel, 1, CUDA_THREADS, kind,
                rows_of(logits), target, weight, state, rows_of(seed), sums);
}

void cuda_fill_loss(struct loss_ops *ops)
{
    ops->on_logits = cuda_loss_on_logits;
}
