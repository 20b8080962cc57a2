/* norm.cu - batch norm with the activation that follows it. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/rows.cuh"

static unsigned channel_blocks(int channels)
{
    return (unsigned)(channels + CUDA_THREADS - 1) / CUDA_THREADS;
}

/* ---- statistics ------------------------------------------------------------------ */

/* A thread adds up eight channels and their squares over every row_step-th row, a block
 * leaves its sums. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_norm_stats_kernel(struct rows x, float *partial, int lane_bits)
{
    struct place at = place_of(lane_bits);
    struct eight sum = {}, sumsq = {};
    if (at.c < x.c) {
        for (unsigned row = at.row; row < x.n; row += at.row_step) {
            struct eight value = load_group(x, row, at.c);
            for (int j = 0; j < 8; j++) {
                sum.v[j] += value.v[j];
                sumsq.v[j] += value.v[j] * value.v[j];
            }
        }
    }
    leave_sums(partial, sum, 0, 2, lane_bits);
    leave_sums(partial, sumsq, 1, 2, lane_bits);
}

static void cuda_norm_stats(struct device *device, const struct tensor *x, float *sum,
                            float *sumsq)
{
    const char *op = "norm.stats";
    struct rows from = rows_of(x);
    struct cover cover = cuda_cover_sums(from.n, x->shape.c, 2);
    cuda_launch(device, op, cuda_norm_stats_kernel, cover.grid, CUDA_THREADS, from,
                cuda_backend(device)->partial, cover.lane_bits);
    cuda_finish_sums(device, op, cover, x->shape.c, sum, sumsq, 0);
}

/* Each operation rounded by itself, as the reference does. */
CUDA_INLINE void set_scale_and_shift(const struct norm_vectors &v, int c, float mean,
                                     float inv_std)
{
    float scale = __fmul_rn(v.gamma[c], inv_std);
    v.scale[c] = scale;
    v.shift[c] = __fsub_rn(v.beta[c], __fmul_rn(mean, scale));
}

/* A thread makes one channel's vectors from its sums, in f64: mean^2 may be nearly all of
 * sumsq/count. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_norm_finalize_kernel(struct norm_vectors v, int channels, int64_t count,
                              float eps)
{
    int c = (int)(blockIdx.x * CUDA_THREADS + threadIdx.x);
    if (c >= channels)
        return;
    double mean = (double)v.sum[c] / (double)count;
    double var = (double)v.sumsq[c] / (double)count - mean * mean;
    // Rounding may leave a little below 0. NaN is not below 0 and stays.
    if (var < 0.0)
        var = 0.0;
    double unbias = count > 1 ? (double)count / (double)(count - 1) : 1.0;
    float inv_std = (float)(1.0 / sqrt(var + (double)eps));
    v.mean[c] = (float)mean;
    v.inv_std[c] = inv_std;
    v.unbiased_var[c] = (float)(var * unbias);
    set_scale_and_shift(v, c, (float)mean, inv_std);
}

static void cuda_norm_finalize(struct device *device, const struct norm_vectors *v,
                               int channels, int64_t count, float eps)
{
    CHECK(count > 0, "count %lld", (long long)count);
    cuda_launch(device, "norm.finalize", cuda_norm_finalize_kernel,
                channel_blocks(channels), CUDA_THREADS, *v, channels, count, eps);
}

/* A thread makes one channel's scale and shift. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_norm_finalize_running_kernel(struct norm_vectors v, int channels, float eps)
{
    int c = (int)(blockIdx.x * CUDA_THREADS + threadIdx.x);
    if (c >= channels)
        return;
    double inv_std = 1.0 / sqrt((double)v.running_var[c] + (double)eps);
    set_scale_and_shift(v, c, v.running_mean[c], (float)inv_std);
}

static void cuda_norm_finalize_running(struct device *device,
                                       const struct norm_vectors *v, int channels,
                                       float eps)
{
    cuda_launch(device, "norm.finalize_running", cuda_norm_finalize_running_kernel,
                channel_blocks(channels), CUDA_THREADS, *v, channels, eps);
}

/* One block: a thread looks at every 256th channel; if all are finite it moves them. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_norm_commit_kernel(struct norm_vectors v, int channels, float momentum)
{
    int has_fault = 0;
    for (int c = (int)threadIdx.x; c < channels; c += CUDA_THREADS)
        has_fault |= !is_finite(v.mean[c]) || !is_finite(v.unbiased_var[c]);
    if (__syncthreads_or(has_fault))
        return;
    float keep = 1.0f - momentum;
    for (int c = (int)threadIdx.x; c < channels; c += CUDA_THREADS) {
        v.running_mean[c] = keep * v.running_mean[c] + momentum * v.mean[c];
        v.running_var[c] = keep * v.running_var[c] + momentum * v.unbiased_var[c];
    }
}

static void cuda_norm_commit(struct device *device, const struct norm_vectors *v,
                             int channels, float momentum)
{
    cuda_launch(device, "norm.commit", cuda_norm_commit_kernel, 1, CUDA_THREADS, *v,
                channels, momentum);
}

/* ---- the passes ------------------------------------------------------------------ */

/* z = x*scale + shift, rounded twice in the forward and in both backward passes, so that
 * all see the same side of the bend. */
CUDA_INLINE struct eight normalised(struct eight x, struct eight scale,
                                    struct eight shift)
{
    for (int j = 0; j < 8; j++)
        x.v[j] = __fadd_rn(__fmul_rn(x.v[j], scale.v[j]), shift.v[j]);
    return x;
}

/* A thread scales, shifts and activates eight channels of every row_step-th row. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_norm_act_forward_kernel(struct rows x, const float *scales, const float *shifts,
                                 enum activation activation, float slope, struct rows y,
                                 int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    struct eight scale = load_channels(scales, at.c, y.c);
    struct eight shift = load_channels(shifts, at.c, y.c);
    for (unsigned row = at.row; row < y.n; row += at.row_step) {
        struct eight z = normalised(load_group(x, row, at.c), scale, shift);
        store_group(y, row, at.c, activate(z, activation, slope));
    }
    clear_rows(y, at);
}

static void cuda_norm_act_forward(struct device *device, const struct tensor *x,
                                  const struct norm_vectors *v,
                                  enum activation activation, float slope,
                                  struct tensor *y)
{
    const char *op = "norm.act_forward";
    check_shapes(op, x, y);
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_norm_act_forward_kernel, cover.grid, CUDA_THREADS,
                rows_of(x), v->scale, v->shift, activation, slope, to, cover.lane_bits);
}

/* What the backward passes read of the norm. 1/std is multiplied by last, outside the
 * loops over rows, where it would keep registers that more threads can use. */
struct norm_group {
    struct eight scale, shift, mean;
};

CUDA_INLINE struct norm_group norm_group_of(const struct norm_vectors &v, int c,
                                            int channels)
{
    struct norm_group group;
    group.scale = load_channels(v.scale, c, channels);
    group.shift = load_channels(v.shift, c, channels);
    group.mean = load_channels(v.mean, c, channels);
    return group;
}

/* dz = dy * act'(z) */
CUDA_INLINE struct eight backward_dz(struct eight dy, struct eight x,
                                     const struct norm_group &group,
                                     enum activation activation, float slope)
{
    struct eight z = normalised(x, group.scale, group.shift);
    if (activation == ACTIVATION_TANH)
        z = activate(z, activation, slope);
    return times_slope(dy, z, activation, slope);
}

/* A thread adds up dz and dz*xhat of eight channels over every row_step-th row, a block
 * leaves its sums. */
__global__ void __launch_bounds__(CUDA_THREADS, 3)
    cuda_norm_act_reduce_kernel(struct rows dy, struct rows x, struct norm_vectors v,
                                enum activation activation, float slope, float *partial,
                                int lane_bits)
{
    struct place at = place_of(lane_bits);
    struct eight sum_dz = {}, sum_dz_xhat = {};
    if (at.c < x.c) {
        struct norm_group group = norm_group_of(v, at.c, x.c);
        for (unsigned row = at.row; row < x.n; row += at.row_step) {
            struct eight value = load_group(x, row, at.c);
            struct eight dz =
                backward_dz(load_group(dy, row, at.c), value, group, activation, slope);
            for (int j = 0; j < 8; j++) {
                sum_dz.v[j] += dz.v[j];
                sum_dz_xhat.v[j] += dz.v[j] * (value.v[j] - group.mean.v[j]);
            }
        }
        struct eight inv_std = load_channels(v.inv_std, at.c, x.c);
        for (int j = 0; j < 8; j++)
            sum_dz_xhat.v[j] *= inv_std.v[j];
    }
    leave_sums(partial, sum_dz, 0, 2, lane_bits);
    leave_sums(partial, sum_dz_xhat, 1, 2, lane_bits);
}

static void cuda_norm_act_reduce(struct device *device, const struct tensor *dy,
                                 const struct tensor *x, const struct norm_vectors *v,
                                 enum activation activation, float slope)
{
    const char *op = "norm.act_reduce";
    check_shapes(op, dy, x);
    struct rows from = rows_of(x);
    struct cover cover = cuda_cover_sums(from.n, x->shape.c, 2);
    cuda_launch(device, op, cuda_norm_act_reduce_kernel, cover.grid, CUDA_THREADS,
                rows_of(dy), from, *v, activation, slope, cuda_backend(device)->partial,
                cover.lane_bits);
    cuda_finish_sums(device, op, cover, x->shape.c, v->sum_dz, v->sum_dz_xhat, 0);
}

/* A thread makes dx of eight channels of every row_step-th row. */
__global__ void __launch_bounds__(CUDA_THREADS, 3)
    cuda_norm_act_dgrad_kernel(struct rows dy, struct rows x, struct norm_vectors v,
                               enum activation activation, float slope, float inv_count,
                               struct rows dx, int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= dx.c_stored)
        return;
    struct norm_group group = norm_group_of(v, at.c, dx.c);
    struct eight mean_dz = load_channels(v.sum_dz, at.c, dx.c);
    struct eight along_x = load_channels(v.sum_dz_xhat, at.c, dx.c);
    struct eight inv_std = load_channels(v.inv_std, at.c, dx.c);
    // dx = scale*(dz - mean_dz - (x - mean)*along_x)
    for (int j = 0; j < 8; j++) {
        mean_dz.v[j] *= inv_count;
        along_x.v[j] *= inv_count * inv_std.v[j];
    }
    for (unsigned row = at.row; row < dx.n; row += at.row_step) {
        struct eight value = load_group(x, row, at.c);
        struct eight dz =
            backward_dz(load_group(dy, row, at.c), value, group, activation, slope);
        for (int j = 0; j < 8; j++)
            dz.v[j] = group.scale.v[j] * (dz.v[j] - mean_dz.v[j] -
                                          (value.v[j] - group.mean.v[j]) * along_x.v[j]);
        store_group(dx, row, at.c, dz);
    }
    clear_rows(dx, at);
}

static void cuda_norm_act_dgrad(struct device *device, const struct tensor *dy,
                                const struct tensor *x, const struct norm_vectors *v,
                                enum activation activation, float slope, int64_t count,
                                struct tensor *dx)
{
    const char *op = "norm.act_dgrad";
    check_shapes(op, dy, x);
    check_shapes(op, dy, dx);
    CHECK(count > 0, "count %lld", (long long)count);
    struct rows to = rows_of(dx);
    struct cover cover = cover_rows(device, to.n_stored, dx->c_stored);
    cuda_launch(device, op, cuda_norm_act_dgrad_kernel, cover.grid, CUDA_THREADS,
                rows_of(dy), rows_of(x), *v, activation, slope,
                (float)(1.0 / (double)count), to, cover.lane_bits);
}

void cuda_fill_norm(struct norm_ops *ops)
{
    ops->stats = cuda_norm_stats;
    ops->finalize = cuda_norm_finalize;
    ops->finalize_running = cuda_norm_finalize_running;
    ops->commit = cuda_norm_commit;
    ops->act_forward = cuda_norm_act_forward;
    ops->act_reduce = cuda_norm_act_reduce;
    ops->act_dgrad = cuda_norm_act_dgrad;
}
