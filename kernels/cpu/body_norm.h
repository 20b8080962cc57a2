/* body_norm.h - compiled per instruction set: batch norm with its activation, in fused
 * passes over rows of pixels.
 *
 * Every pass goes over one vector of channels at a time, down the rows, so that scale,
 * shift and sums stay in registers; a block of rows is small enough to stay in the
 * first-level cache while the vectors of channels pass over it. */
#ifndef KERNELS_CPU_BODY_NORM_H
#define KERNELS_CPU_BODY_NORM_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

/* Rows [row, row_end) of the vector of channels [c, c + n). */
struct patch {
    size_t row, row_end, c;
    int n;
};

/* Rows of a block: about 4096 elements, never fewer than eight rows. */
ALWAYS_INLINE size_t norm_block(const struct norm_rows *rows)
{
    size_t count = 4096 / rows->channels;
    return count < 8 ? 8 : count;
}

ALWAYS_INLINE struct patch patch_at(const struct norm_rows *rows, size_t row, size_t c)
{
    size_t end = rows->row_first + rows->row_count, row_end = row + norm_block(rows);
    size_t n = rows->channels - c;
    return (struct patch){row, row_end < end ? row_end : end, c,
                          n < LANES ? (int)n : LANES};
}

/* The first patch, and the next one: all channels of a block, then the next block. */
ALWAYS_INLINE struct patch patch_first(const struct norm_rows *rows)
{
    return patch_at(rows, rows->row_first, 0);
}

ALWAYS_INLINE int patch_is_valid(const struct norm_rows *rows, const struct patch *patch)
{
    return patch->row < rows->row_first + rows->row_count;
}

ALWAYS_INLINE struct patch patch_next(const struct norm_rows *rows,
                                      const struct patch *patch)
{
    size_t c = patch->c + LANES;
    return c < rows->channels ? patch_at(rows, patch->row, c)
                              : patch_at(rows, patch->row_end, 0);
}

#define FOR_PATCHES(rows, p)                                           \
    for (struct patch p = patch_first(rows); patch_is_valid(rows, &p); \
         p = patch_next(rows, &p))

ALWAYS_INLINE VEC channel_vector(const float *values, size_t c, int n)
{
    return v_load_some(values, DTYPE_F32, c, n);
}

ALWAYS_INLINE void channel_add(float *sums, size_t c, VEC v, int n)
{
    v_store_some(sums, DTYPE_F32, c, v_add(channel_vector(sums, c, n), v), n);
}

ALWAYS_INLINE void clear_channels(float *sums, size_t channels)
{
    for (size_t c = 0; c < channels; c++)
        sums[c] = 0.0f;
}

/* Two chains of sums hide the latency of an addition. */
static void channel_sums(const struct norm_rows *rows, float *sum, float *sumsq)
{
    clear_channels(sum, rows->channels);
    if (sumsq)
        clear_channels(sumsq, rows->channels);
    FOR_PATCHES(rows, p)
    {
        VEC s[2] = {v_zero(), v_zero()};
        VEC q[2] = {v_zero(), v_zero()};
        for (size_t i = p.row; i < p.row_end; i++) {
            VEC x = v_load_some(rows->x, rows->x_dtype, i * rows->channels + p.c, p.n);
            s[i & 1] = v_add(s[i & 1], x);
            q[i & 1] = v_fma(x, x, q[i & 1]);
        }
        channel_add(sum, p.c, v_add(s[0], s[1]), p.n);
        if (sumsq)
            channel_add(sumsq, p.c, v_add(q[0], q[1]), p.n);
    }
}

static void norm_forward(const struct norm_rows *rows)
{
    VEC slope = v_set1(rows->slope);
    FOR_PATCHES(rows, p)
    {
        VEC scale = channel_vector(rows->vectors->scale, p.c, p.n);
        VEC shift = channel_vector(rows->vectors->shift, p.c, p.n);
        for (size_t i = p.row; i < p.row_end; i++) {
            size_t index = i * rows->channels + p.c;
            VEC x = v_load_some(rows->x, rows->x_dtype, index, p.n);
            VEC z = v_add(v_mul(x, scale), shift);
            v_store_some(rows->out, rows->out_dtype, index,
                         v_activate(z, rows->activation, slope), p.n);
        }
    }
}

/* dy * act'(z). */
ALWAYS_INLINE VEC activation_gradient(VEC dy, VEC z, enum activation activation,
                                      VEC slope)
{
    VEC one = v_set1(1.0f);
    if (activation == ACTIVATION_NONE)
        return dy;
    if (activation == ACTIVATION_TANH) {
        VEC y = v_tanh(z);
        return v_mul(dy, v_sub(one, v_mul(y, y)));
    }
    if (activation == ACTIVATION_RELU)
        slope = v_zero();
    return v_mul(dy, v_select_gt(z, v_zero(), one, slope));
}

static void norm_reduce(const struct norm_rows *rows, float *sum_dz, float *sum_dz_xhat)
{
    const struct norm_vectors *v = rows->vectors;
    VEC slope = v_set1(rows->slope);
    clear_channels(sum_dz, rows->channels);
    clear_channels(sum_dz_xhat, rows->channels);
    FOR_PATCHES(rows, p)
    {
        VEC scale = channel_vector(v->scale, p.c, p.n);
        VEC shift = channel_vector(v->shift, p.c, p.n);
        VEC mean = channel_vector(v->mean, p.c, p.n);
        VEC inv_std = channel_vector(v->inv_std, p.c, p.n);
        VEC s = v_zero();
        VEC q = v_zero();
        for (size_t i = p.row; i < p.row_end; i++) {
            size_t index = i * rows->channels + p.c;
            VEC x = v_load_some(rows->x, rows->x_dtype, index, p.n);
            VEC dy = v_load_some(rows->dy, rows->dy_dtype, index, p.n);
            VEC z = v_add(v_mul(x, scale), shift);
            VEC dz = activation_gradient(dy, z, rows->activation, slope);
            s = v_add(s, dz);
            q = v_fma(dz, v_mul(v_sub(x, mean), inv_std), q);
        }
        channel_add(sum_dz, p.c, s, p.n);
        channel_add(sum_dz_xhat, p.c, q, p.n);
    }
}

static void norm_dgrad(const struct norm_rows *rows)
{
    const struct norm_vectors *v = rows->vectors;
    VEC slope = v_set1(rows->slope);
    VEC inv_count = v_set1(rows->inv_count);
    FOR_PATCHES(rows, p)
    {
        VEC scale = channel_vector(v->scale, p.c, p.n);
        VEC shift = channel_vector(v->shift, p.c, p.n);
        VEC mean = channel_vector(v->mean, p.c, p.n);
        VEC inv_std = channel_vector(v->inv_std, p.c, p.n);
        VEC mean_dz = v_mul(channel_vector(v->sum_dz, p.c, p.n), inv_count);
        VEC mean_dz_xhat = v_mul(channel_vector(v->sum_dz_xhat, p.c, p.n), inv_count);
        for (size_t i = p.row; i < p.row_end; i++) {
            size_t index = i * rows->channels + p.c;
            VEC x = v_load_some(rows->x, rows->x_dtype, index, p.n);
            VEC dy = v_load_some(rows->dy, rows->dy_dtype, index, p.n);
            VEC z = v_add(v_mul(x, scale), shift);
            VEC dz = activation_gradient(dy, z, rows->activation, slope);
            VEC xhat = v_mul(v_sub(x, mean), inv_std);
            VEC dx = v_sub(v_sub(dz, mean_dz), v_mul(xhat, mean_dz_xhat));
            v_store_some(rows->out, rows->out_dtype, index, v_mul(scale, dx), p.n);
        }
    }
}

#endif
