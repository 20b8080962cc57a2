/* body_finish.h - compiled per instruction set: what becomes of a finished sum. */
#ifndef KERNELS_CPU_BODY_FINISH_H
#define KERNELS_CPU_BODY_FINISH_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

/* One vector of columns, of which the first n count. */
ALWAYS_INLINE void finish_column(const struct finish_rows *r, int col, int n,
                                 enum dtype dtype)
{
    const struct finish *finish = &r->finish;
    VEC slope = v_set1(finish->slope), bias = v_zero(), sum = v_zero(), sumsq = v_zero();
    size_t index = r->index + (size_t)col;
    const float *sums = r->sums + col;
    if (finish->bias)
        bias = v_load_some(finish->bias, DTYPE_F32, (size_t)col, n);
    if (r->sum) {
        sum = v_load_some(r->sum, DTYPE_F32, (size_t)col, n);
        sumsq = v_load_some(r->sumsq, DTYPE_F32, (size_t)col, n);
    }
    for (int i = 0; i < r->rows; i++, index += r->out_step, sums += r->sums_step) {
        VEC v = v_load(sums); // scratch: whole vectors can be read
        if (finish->bias)
            v = v_add(v, bias);
        v = v_activate(v, finish->activation, slope);
        v_store_some(r->out, dtype, index, v, n);
        if (r->sum) {
            v = v_round_as(v, dtype);
            sum = v_add(sum, v);
            sumsq = v_fma(v, v, sumsq);
        }
    }
    if (r->sum) {
        v_store_some(r->sum, DTYPE_F32, (size_t)col, sum, n);
        v_store_some(r->sumsq, DTYPE_F32, (size_t)col, sumsq, n);
    }
}

static void finish_rows(const struct finish_rows *rows)
{
    for (int col = 0; col < rows->cols; col += LANES) {
        int n = rows->cols - col;
        if (rows->finish.dtype == DTYPE_F32)
            finish_column(rows, col, n, DTYPE_F32);
        else if (rows->finish.dtype == DTYPE_F16)
            finish_column(rows, col, n, DTYPE_F16);
        else
            finish_column(rows, col, n, DTYPE_BF16);
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
