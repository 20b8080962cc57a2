/* body_finish.h - compiled per instruction set: what becomes of a finished sum. */
#ifndef KERNELS_CPU_BODY_FINISH_H
#define KERNELS_CPU_BODY_FINISH_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

static void finish_row(const float *sums, int cols, const struct finish *finish,
                       void *out, size_t index, float *sum, float *sumsq)
{
    VEC slope = v_set1(finish->slope);
    for (int j = 0; j < cols; j += LANES) {
        int n = cols - j;
        VEC v = v_load(sums + j); // scratch: whole vectors can be read
        if (finish->bias)
            v = v_add(v, v_load_some(finish->bias, DTYPE_F32, (size_t)j, n));
        v = v_activate(v, finish->activation, slope);
        v_store_some(out, finish->dtype, index + (size_t)j, v, n);
        if (!sum)
            continue;
        v = v_round_as(v, finish->dtype);
        VEC s = v_load_some(sum, DTYPE_F32, (size_t)j, n);
        VEC q = v_load_some(sumsq, DTYPE_F32, (size_t)j, n);
        v_store_some(sum, DTYPE_F32, (size_t)j, v_add(s, v), n);
        v_store_some(sumsq, DTYPE_F32, (size_t)j, v_fma(v, v, q), n);
    }
}

static void finish_flat(float *sums, size_t count, const struct finish *finish, void *out)
{
    VEC slope = v_set1(finish->slope);
    for (size_t i = 0; i < count; i += LANES) {
        int n = count - i < LANES ? (int)(count - i) : LANES;
        VEC v = v_activate(v_load_some(sums, DTYPE_F32, i, n), finish->activation, slope);
        v_store_some(out, finish->dtype, i, v, n);
        v_store_some(sums, DTYPE_F32, i, v_round_as(v, finish->dtype), n);
    }
}

static void finish_grad(const float *part, size_t step, int parts, int count,
                        enum dtype dtype, float *grad, int accumulate)
{
    for (int j = 0; j < count; j += LANES) {
        int n = count - j;
        VEC v = v_load_some(part, DTYPE_F32, (size_t)j, n);
        for (int p = 1; p < parts; p++)
            v = v_add(v, v_load_some(part, DTYPE_F32, (size_t)p * step + (size_t)j, n));
        v = v_round_as(v, dtype);
        if (accumulate)
            v = v_add(v_load_some(grad, DTYPE_F32, (size_t)j, n), v);
        v_store_some(grad, DTYPE_F32, (size_t)j, v, n);
    }
}

#endif
