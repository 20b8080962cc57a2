/* simd.h - one vector of f32, whatever the CPU: the words the kernels are written in.
 * Flow:  isa_c.c, isa_avx2.c and isa_avx512.c compile the same kernels, each with its own
 *        flags; this header picks the lanes by those flags.
 *
 * Each simd_*.h defines
 *   VEC, LANES                 the vector and its width
 *   TILE_ROWS, TILE_ROW_STEP   rows of the GEMM's register tile, and of its tails
 *   v_load, v_store, v_load_n, v_store_n     unaligned; _n: the first n lanes, the rest
 * is 0 v_add .. v_sqrt            IEEE, rounded once; v_fma(a, b, c) = a*b + c, fused or
 * not v_select_gt(a, b, yes, no) a > b ? yes : no, lane by lane (NaN takes `no`)
 *   v_power_of_two(m)          2^n where m = 12582912 + n
 *   v_nonfinite(a)             not 0 if any lane is inf or NaN, by its bits
 *   v_total(a)                 the sum of the lanes
 *   v_load_f16 ..              half and bfloat16, the same bits as half.h
 *   HAS_PAIRS, v_pair, v_dot   optional: bf16 pairs in the lanes, and their dot products
 *   HALF_VEC, h_load ..        optional: half a vector, for GEMM columns between one and
 *                              one and a half vectors
 */
#ifndef KERNELS_CPU_SIMD_H
#define KERNELS_CPU_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512DQ__)
#include "kernels/cpu/simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/cpu/simd_avx2.h"
#else
#include "kernels/cpu/simd_c.h"
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Lanes [index, index + LANES) of an array of f32, f16 or bf16. */
ALWAYS_INLINE VEC v_load_as(const void *data, enum dtype dtype, size_t index)
{
    if (dtype == DTYPE_F32)
        return v_load((const float *)data + index);
    const uint16_t *half = (const uint16_t *)data + index;
    return dtype == DTYPE_F16 ? v_load_f16(half) : v_load_bf16(half);
}

ALWAYS_INLINE VEC v_load_as_n(const void *data, enum dtype dtype, size_t index, int n)
{
    if (dtype == DTYPE_F32)
        return v_load_n((const float *)data + index, n);
    const uint16_t *half = (const uint16_t *)data + index;
    return dtype == DTYPE_F16 ? v_load_f16_n(half, n) : v_load_bf16_n(half, n);
}

ALWAYS_INLINE void v_store_as(void *data, enum dtype dtype, size_t index, VEC v)
{
    if (dtype == DTYPE_F32)
        v_store((float *)data + index, v);
    else if (dtype == DTYPE_F16)
        v_store_f16((uint16_t *)data + index, v);
    else
        v_store_bf16((uint16_t *)data + index, v);
}

ALWAYS_INLINE void v_store_as_n(void *data, enum dtype dtype, size_t index, VEC v, int n)
{
    if (dtype == DTYPE_F32)
        v_store_n((float *)data + index, v, n);
    else if (dtype == DTYPE_F16)
        v_store_f16_n((uint16_t *)data + index, v, n);
    else
        v_store_bf16_n((uint16_t *)data + index, v, n);
}

/* The first n <= LANES lanes: the whole vector where n allows, which is the fast way. */
ALWAYS_INLINE VEC v_load_some(const void *data, enum dtype dtype, size_t index, int n)
{
    return n >= LANES ? v_load_as(data, dtype, index)
                      : v_load_as_n(data, dtype, index, n);
}

ALWAYS_INLINE void v_store_some(void *data, enum dtype dtype, size_t index, VEC v, int n)
{
    if (n >= LANES)
        v_store_as(data, dtype, index, v);
    else
        v_store_as_n(data, dtype, index, v, n);
}

/* The values that storing as `dtype` leaves. */
ALWAYS_INLINE VEC v_round_as(VEC v, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return v;
    return dtype == DTYPE_F16 ? v_round_f16(v) : v_round_bf16(v);
}

/* exp(x) for x in [-80, 80], NaN stays NaN. x = n*ln2 + r, |r| <= ln2/2, with ln2 in two
 * parts (Cody and Waite); exp(r) by its Taylor series to the seventh power, whose
 * remainder is below 2^-27. */
static inline VEC v_exp(VEC x)
{
    const VEC magic = v_set1(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
    VEC shifted = v_fma(x, v_set1(1.44269504f), magic);
    VEC n = v_sub(shifted, magic);
    VEC r = v_fma(n, v_set1(-0.693359375f), x);
    r = v_fma(n, v_set1(2.12194440e-4f), r);
    VEC p = v_set1(1.0f / 5040);
    p = v_fma(p, r, v_set1(1.0f / 720));
    p = v_fma(p, r, v_set1(1.0f / 120));
    p = v_fma(p, r, v_set1(1.0f / 24));
    p = v_fma(p, r, v_set1(1.0f / 6));
    p = v_fma(p, r, v_set1(0.5f));
    p = v_fma(v_mul(p, r), r, r);
    return v_mul(v_add(p, v_set1(1.0f)), v_power_of_two(shifted));
}

/* tanh(x), within 2 ulp. Below 0.625 an odd polynomial, above 1 - 2/(exp(2|x|) + 1).
 * Source: the coefficients below 0.625 are those of Moshier's Cephes library, tanhf. */
static inline VEC v_tanh(VEC x)
{
    VEC a = v_abs(x);
    VEC bounded = v_select_gt(a, v_set1(10.0f), v_set1(10.0f), a); // tanh(10) rounds to 1
    VEC e = v_exp(v_add(bounded, bounded));
    VEC large = v_sub(v_set1(1.0f), v_div(v_set1(2.0f), v_add(e, v_set1(1.0f))));
    VEC z = v_mul(a, a);
    VEC p = v_set1(-5.70498872745e-3f);
    p = v_fma(p, z, v_set1(2.06390887954e-2f));
    p = v_fma(p, z, v_set1(-5.37397155531e-2f));
    p = v_fma(p, z, v_set1(1.33314422036e-1f));
    p = v_fma(p, z, v_set1(-3.33332819422e-1f));
    VEC small = v_fma(v_mul(p, z), a, a);
    return v_with_sign_of(v_select_gt(v_set1(0.625f), a, small, large), x);
}

/* act(x), as ops.h means it: NaN stays NaN in every activation. */
ALWAYS_INLINE VEC v_activate(VEC x, enum activation activation, VEC slope)
{
    switch (activation) {
    case ACTIVATION_RELU: return v_select_gt(v_zero(), x, v_zero(), x);
    case ACTIVATION_LEAKY_RELU: return v_select_gt(x, v_zero(), x, v_mul(x, slope));
    case ACTIVATION_TANH: return v_tanh(x);
    case ACTIVATION_NONE: break;
    }
    return x;
}

/* dy*act'(x) from the activation's output y: the gradient of its input. */
ALWAYS_INLINE VEC v_undo(VEC dy, VEC y, enum activation activation, VEC slope)
{
    VEC factor = v_set1(1.0f);
    if (activation == ACTIVATION_TANH)
        factor = v_sub(factor, v_mul(y, y));
    else if (activation == ACTIVATION_RELU)
        factor = v_select_gt(y, v_zero(), factor, v_zero());
    else if (activation == ACTIVATION_LEAKY_RELU)
        factor = v_select_gt(y, v_zero(), factor, slope);
    return v_mul(dy, factor);
}

#endif
