/* survey.cu - what kinds of numbers a piece of memory holds.
 *
 * Every span is cut into the same number of parts, whatever the GPU; a block makes the
 * statistics of one part after another and leaves them in backend->partial, and a second
 * kernel adds those of a span in order. With a gate that is closed both end at once. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <math.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/cuda/warp.cuh"

#define PARTS 64 // of a span
#define SPANS_MAX \
    ((int)(CUDA_PARTIAL_FLOATS * sizeof(float) / sizeof(struct survey_stats) / PARTS))

CUDA_INLINE int is_closed(const struct scaler_state *gate)
{
    return gate && !scaler_must_skip(gate);
}

/* The bits of the smallest normal number of a dtype, as f32. */
CUDA_INLINE unsigned smallest_normal(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x38800000u : 0x00800000u;
}

/* Adds one element: all by its bits but the sums. */
CUDA_INLINE void add_element(struct survey_stats *stats, float value, unsigned normal)
{
    unsigned size = __float_as_uint(value) & 0x7fffffffu;
    if (size >= 0x7f800000u) {
        stats->inf += size == 0x7f800000u;
        stats->nan += size > 0x7f800000u;
        return;
    }
    stats->zero += size == 0;
    stats->subnormal += size != 0 && size < normal;
    stats->max_abs = fmaxf(stats->max_abs, fabsf(value));
    stats->sum += (double)value;
    stats->sumsq += (double)value * (double)value;
}

CUDA_INLINE void add_stats(struct survey_stats *sum, const struct survey_stats &more)
{
    sum->sum += more.sum;
    sum->sumsq += more.sumsq;
    sum->inf += more.inf;
    sum->nan += more.nan;
    sum->zero += more.zero;
    sum->subnormal += more.subnormal;
    sum->max_abs = fmaxf(sum->max_abs, more.max_abs);
}

CUDA_INLINE void clear_stats(struct survey_stats *stats)
{
    stats->sum = stats->sumsq = 0.0;
    stats->inf = stats->nan = stats->zero = stats->subnormal = 0;
    stats->max_abs = 0.0f;
}

/* The warp's statistics, in lane 0. */
CUDA_INLINE struct survey_stats warp_stats(struct survey_stats stats)
{
    stats.sum = warp_sum(stats.sum);
    stats.sumsq = warp_sum(stats.sumsq);
    stats.inf = warp_count(stats.inf);
    stats.nan = warp_count(stats.nan);
    stats.zero = warp_count(stats.zero);
    stats.subnormal = warp_count(stats.subnormal);
    for (unsigned delta = 16; delta; delta >>= 1)
        stats.max_abs =
            fmaxf(stats.max_abs, __shfl_down_sync(ALL_LANES, stats.max_abs, delta));
    return stats;
}

/* A thread looks at eight elements of a part at a time; the block leaves the part's. */
CUDA_INLINE void survey_part(const struct survey_span &span, int part,
                             struct survey_stats *to)
{
    __shared__ struct survey_stats held[CUDA_WARPS];
    struct survey_stats mine;
    clear_stats(&mine);
    int is_wide = (reinterpret_cast<uintptr_t>(span.data) & 15u) == 0;
    unsigned normal = smallest_normal(span.dtype);
    size_t step = (size_t)PARTS * CUDA_THREADS * 8;
    for (size_t i = ((size_t)part * CUDA_THREADS + threadIdx.x) * 8; i < span.n;
         i += step) {
        int count = span.n - i < 8 ? (int)(span.n - i) : 8;
        struct eight value = load_eight(span.data, span.dtype, i, count, is_wide);
        for (int j = 0; j < 8; j++)
            if (j < count)
                add_element(&mine, value.v[j], normal);
    }
    mine = warp_stats(mine);
    __syncthreads(); // the part before this one was read
    if (threadIdx.x % 32 == 0)
        held[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < CUDA_WARPS; warp++)
            add_stats(&mine, held[warp]);
        *to = mine;
    }
}

/* A block takes one part after another. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_survey_parts_kernel(const struct survey_span *spans, int count,
                             const struct scaler_state *gate, struct survey_stats *parts)
{
    if (is_closed(gate))
        return;
    for (int i = (int)blockIdx.x; i < count * PARTS; i += (int)gridDim.x)
        survey_part(spans[i / PARTS], i % PARTS, &parts[i]);
}

/* A thread adds the parts of one span. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_survey_finish_kernel(const struct survey_stats *parts, int count,
                              const struct scaler_state *gate, struct survey_stats *stats)
{
    int i = (int)(blockIdx.x * CUDA_THREADS + threadIdx.x);
    if (i >= count || is_closed(gate))
        return;
    struct survey_stats sum = parts[(size_t)i * PARTS];
    for (int part = 1; part < PARTS; part++)
        add_stats(&sum, parts[(size_t)i * PARTS + part]);
    stats[i] = sum;
}

static void cuda_survey_survey(struct device *device, const struct survey_span *spans,
                               int count, const struct scaler_state *gate,
                               struct survey_stats *stats)
{
    struct cuda_backend *backend = cuda_backend(device);
    struct survey_stats *parts = (struct survey_stats *)backend->partial;
    for (int first = 0; first < count; first += SPANS_MAX) {
        int some = count - first < SPANS_MAX ? count - first : SPANS_MAX;
        size_t threads = (size_t)some * PARTS * CUDA_THREADS;
        cuda_launch(device, "survey", cuda_survey_parts_kernel,
                    cuda_blocks(device, threads), CUDA_THREADS, spans + first, some, gate,
                    parts);
        cuda_launch(device, "survey", cuda_survey_finish_kernel,
                    (unsigned)(some + CUDA_THREADS - 1) / CUDA_THREADS, CUDA_THREADS,
                    parts, some, gate, stats + first);
    }
}

void cuda_fill_survey(struct survey_ops *ops)
{
    ops->survey = cuda_survey_survey;
}
