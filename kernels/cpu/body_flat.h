/* body_flat.h - compiled per instruction set: sweeps over flat arrays, pointwise and the
 * optimizer's. Multiplications and additions are rounded one by one, as in ref, so that
 * the optimizer's results are ref's bit for bit. */
#ifndef KERNELS_CPU_BODY_FLAT_H
#define KERNELS_CPU_BODY_FLAT_H

#include "kernels/cpu/body_norm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

/* Elements [i, i + n) of those before `end`. */
#define FOR_VECTORS(i, first, end) for (size_t i = (first); i < (end); i += LANES)

ALWAYS_INLINE int lanes_before(size_t end, size_t i)
{
    return end - i < LANES ? (int)(end - i) : LANES;
}

static void activate(const struct sweep *s)
{
    VEC slope = v_set1(s->slope);
    FOR_VECTORS(i, s->first, s->first + s->count)
    {
        int n = lanes_before(s->first + s->count, i);
        VEC x = v_load_some(s->a, s->a_dtype, i, n);
        v_store_some(s->out, s->out_dtype, i, v_activate(x, s->activation, slope), n);
    }
}

static void activate_backward(const struct sweep *s)
{
    VEC slope = v_set1(s->slope);
    FOR_VECTORS(i, s->first, s->first + s->count)
    {
        int n = lanes_before(s->first + s->count, i);
        VEC dy = v_load_some(s->a, s->a_dtype, i, n);
        VEC y = v_load_some(s->b, s->b_dtype, i, n);
        v_store_some(s->out, s->out_dtype, i, v_undo(dy, y, s->activation, slope), n);
    }
}

static void cast(const struct sweep *s)
{
    FOR_VECTORS(i, s->first, s->first + s->count)
    {
        int n = lanes_before(s->first + s->count, i);
        v_store_some(s->out, s->out_dtype, i, v_load_some(s->a, s->a_dtype, i, n), n);
    }
}

static void add_tensors(const struct sweep *s)
{
    FOR_VECTORS(i, s->first, s->first + s->count)
    {
        int n = lanes_before(s->first + s->count, i);
        VEC sum = v_add(v_load_some(s->a, s->a_dtype, i, n),
                        v_load_some(s->b, s->b_dtype, i, n));
        v_store_some(s->out, s->out_dtype, i, sum, n);
    }
}

static void add(float *to, const float *from, size_t count)
{
    FOR_VECTORS(i, 0, count)
    {
        int n = lanes_before(count, i);
        VEC sum =
            v_add(v_load_some(to, DTYPE_F32, i, n), v_load_some(from, DTYPE_F32, i, n));
        v_store_some(to, DTYPE_F32, i, sum, n);
    }
}

static unsigned grads_check(const float *grads, size_t count, float inverse_scale)
{
    VEC inverse = v_set1(inverse_scale);
    unsigned before = 0, after = 0;
    FOR_VECTORS(i, 0, count)
    {
        int n = lanes_before(count, i);
        VEC g = v_load_some(grads, DTYPE_F32, i, n);
        unsigned out = v_nonfinite(g);
        before |= out;
        after |= v_nonfinite(v_mul(g, inverse)) & ~out;
    }
    return (before ? 1u : 0u) | (after ? 2u : 0u);
}

static void scale(float *values, size_t count, float factor)
{
    VEC f = v_set1(factor);
    FOR_VECTORS(i, 0, count)
    {
        int n = lanes_before(count, i);
        v_store_some(values, DTYPE_F32, i, v_mul(v_load_some(values, DTYPE_F32, i, n), f),
                     n);
    }
}

static void adam(const struct adam_sweep *s)
{
    const struct adam_args *args = s->args;
    VEC beta1 = v_set1(args->beta1), rest1 = v_set1(1.0f - args->beta1);
    VEC beta2 = v_set1(args->beta2), rest2 = v_set1(1.0f - args->beta2);
    VEC inverse = v_set1(s->inverse_scale), step_size = v_set1(s->step_size);
    VEC root = v_set1(s->root_v_scale), eps = v_set1(args->eps);
    FOR_VECTORS(i, s->first, s->first + s->count)
    {
        int n = lanes_before(s->first + s->count, i);
        VEC g = v_mul(v_load_some(args->grads, DTYPE_F32, i, n), inverse);
        VEC m = v_mul(beta1, v_load_some(args->m, DTYPE_F32, i, n));
        VEC v = v_mul(beta2, v_load_some(args->v, DTYPE_F32, i, n));
        m = v_add(m, v_mul(rest1, g));
        v = v_add(v, v_mul(rest2, v_mul(g, g)));
        VEC bottom = v_add(v_div(v_sqrt(v), root), eps);
        VEC p = v_load_some(args->params, DTYPE_F32, i, n);
        p = v_sub(p, v_div(v_mul(step_size, m), bottom));
        v_store_some(args->m, DTYPE_F32, i, m, n);
        v_store_some(args->v, DTYPE_F32, i, v, n);
        v_store_some(args->params, DTYPE_F32, i, p, n);
        if (args->half)
            v_store_some(args->half, args->half_dtype, i, p, n);
    }
}

static void ema(float *average, const float *params, size_t count, float decay)
{
    VEC keep = v_set1(decay);
    VEC rest = v_set1(1.0f - decay);
    FOR_VECTORS(i, 0, count)
    {
        int n = lanes_before(count, i);
        VEC old = v_mul(v_load_some(average, DTYPE_F32, i, n), keep);
        VEC new = v_mul(v_load_some(params, DTYPE_F32, i, n), rest);
        v_store_some(average, DTYPE_F32, i, v_add(old, new), n);
    }
}

#endif
