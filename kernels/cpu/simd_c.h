/* simd_c.h - four lanes in plain C, by the vector types that GCC and Clang have on every
 * CPU. See simd.h for what each does. Half conversions are integer arithmetic without a
 * branch; comparisons of vectors give lanes of all ones or all zeros. */
#ifndef KERNELS_CPU_SIMD_C_H
#define KERNELS_CPU_SIMD_C_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float simd_c_floats __attribute__((vector_size(16)));
typedef uint32_t simd_c_words __attribute__((vector_size(16)));

#define VEC simd_c_floats
#define LANES 4
#define TILE_ROWS 6
#define TILE_ROW_STEP 2

static inline VEC v_zero(void)
{
    return (VEC){0};
}

static inline VEC v_set1(float value)
{
    return (VEC){value, value, value, value};
}

static inline VEC v_load(const float *from)
{
    VEC v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void v_store(float *to, VEC v)
{
    memcpy(to, &v, sizeof v);
}

static inline VEC v_load_n(const float *from, int n)
{
    VEC v = {0};
    for (int i = 0; i < n; i++)
        v[i] = from[i];
    return v;
}

static inline void v_store_n(float *to, VEC v, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = v[i];
}

static inline VEC v_add(VEC a, VEC b)
{
    return a + b;
}

static inline VEC v_sub(VEC a, VEC b)
{
    return a - b;
}

static inline VEC v_mul(VEC a, VEC b)
{
    return a * b;
}

static inline VEC v_div(VEC a, VEC b)
{
    return a / b;
}

static inline VEC v_sqrt(VEC a)
{
    return (VEC){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}

static inline VEC v_fma(VEC a, VEC b, VEC c)
{
    return a * b + c;
}

static inline simd_c_words v_pick(simd_c_words mask, simd_c_words yes, simd_c_words no)
{
    return (mask & yes) | (~mask & no);
}

static inline VEC v_select_gt(VEC a, VEC b, VEC yes, VEC no)
{
    return (VEC)v_pick((simd_c_words)(a > b), (simd_c_words)yes, (simd_c_words)no);
}

static inline VEC v_abs(VEC a)
{
    return (VEC)((simd_c_words)a & 0x7fffffffu);
}

static inline VEC v_with_sign_of(VEC positive, VEC sign)
{
    return (VEC)((simd_c_words)positive | ((simd_c_words)sign & 0x80000000u));
}

static inline VEC v_power_of_two(VEC magic)
{
    return (VEC)(((simd_c_words)magic + 127u) << 23);
}

static inline unsigned v_nonfinite(VEC a)
{
    simd_c_words is_out = (simd_c_words)(((simd_c_words)a & 0x7f800000u) == 0x7f800000u);
    return (is_out[0] | is_out[1] | is_out[2] | is_out[3]) & 1u;
}

static inline float v_total(VEC a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Half to f32: the bits moved to f32's places are the value times 2^-112 (subnormals too,
 * exactly); an exponent of all ones must become one of all ones. */
static inline VEC v_from_f16_bits(simd_c_words bits)
{
    simd_c_words sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << 13;
    simd_c_words value = (simd_c_words)((VEC)magnitude * v_set1(0x1p112f));
    simd_c_words is_out = (simd_c_words)(magnitude >= 0x0f800000u);
    return (VEC)(v_pick(is_out, magnitude | 0x7f800000u, value) | sign);
}

/* F32 to half. Normal: add half of the last place, less one unless the place is odd, and
 * cut. Below 2^-14: the adder of f32 rounds when 0.5 is added, whose last place is 2^-24.
 */
static inline simd_c_words v_to_f16_bits(VEC v)
{
    simd_c_words bits = (simd_c_words)v;
    simd_c_words sign = bits & 0x80000000u, magnitude = bits ^ sign;
    simd_c_words odd = (magnitude >> 13) & 1u;
    simd_c_words normal = (magnitude + odd + (0xfffu - (112u << 23))) >> 13;
    simd_c_words tiny = (simd_c_words)((VEC)magnitude + v_set1(0.5f)) - 0x3f000000u;
    simd_c_words nan = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
    simd_c_words infinite = (simd_c_words){0} + 0x7c00u;
    simd_c_words half = v_pick((simd_c_words)(magnitude < 0x38800000u), tiny, normal);
    half = v_pick((simd_c_words)(magnitude >= 0x47800000u), infinite, half);
    half = v_pick((simd_c_words)(magnitude > 0x7f800000u), nan, half);
    return half | (sign >> 16);
}

static inline VEC v_from_bf16_bits(simd_c_words bits)
{
    return (VEC)(bits << 16);
}

static inline simd_c_words v_to_bf16_bits(VEC v)
{
    simd_c_words bits = (simd_c_words)v;
    simd_c_words rounded = bits + (((bits >> 16) & 1u) + 0x7fffu);
    simd_c_words is_nan = (simd_c_words)((bits & 0x7fffffffu) > 0x7f800000u);
    return v_pick(is_nan, bits | 0x00400000u, rounded) >> 16;
}

static inline simd_c_words v_load_u16_n(const uint16_t *from, int n)
{
    simd_c_words bits = {0};
    for (int i = 0; i < n; i++)
        bits[i] = from[i];
    return bits;
}

static inline void v_store_u16_n(uint16_t *to, simd_c_words bits, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint16_t)bits[i];
}

static inline VEC v_load_f16(const uint16_t *from)
{
    return v_from_f16_bits(v_load_u16_n(from, LANES));
}

static inline VEC v_load_f16_n(const uint16_t *from, int n)
{
    return v_from_f16_bits(v_load_u16_n(from, n));
}

static inline void v_store_f16(uint16_t *to, VEC v)
{
    v_store_u16_n(to, v_to_f16_bits(v), LANES);
}

static inline void v_store_f16_n(uint16_t *to, VEC v, int n)
{
    v_store_u16_n(to, v_to_f16_bits(v), n);
}

static inline VEC v_load_bf16(const uint16_t *from)
{
    return v_from_bf16_bits(v_load_u16_n(from, LANES));
}

static inline VEC v_load_bf16_n(const uint16_t *from, int n)
{
    return v_from_bf16_bits(v_load_u16_n(from, n));
}

static inline void v_store_bf16(uint16_t *to, VEC v)
{
    v_store_u16_n(to, v_to_bf16_bits(v), LANES);
}

static inline void v_store_bf16_n(uint16_t *to, VEC v, int n)
{
    v_store_u16_n(to, v_to_bf16_bits(v), n);
}

static inline VEC v_round_f16(VEC v)
{
    return v_from_f16_bits(v_to_f16_bits(v));
}

static inline VEC v_round_bf16(VEC v)
{
    return v_from_bf16_bits(v_to_bf16_bits(v));
}

#endif
