/* simd_avx512.h - sixteen lanes: AVX-512 F, BW, VL and DQ. See simd.h for what each does.
 */
#ifndef KERNELS_CPU_SIMD_AVX512_H
#define KERNELS_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VEC __m512
#define LANES 16
#define TILE_ROWS 12 // 12 x 2 sums and 2 right-hand vectors of the 32 registers
#define TILE_ROW_STEP 4

// Half a vector, for the tile of a vector and a half: a CPU that does 512 bits in two
// halves is half as busy with it.
#define HALF_VEC __m256
#define HALF_LANES 8

static inline HALF_VEC h_zero(void)
{
    return _mm256_setzero_ps();
}

static inline HALF_VEC h_set1(float value)
{
    return _mm256_set1_ps(value);
}

static inline HALF_VEC h_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

static inline void h_store(float *to, HALF_VEC v)
{
    _mm256_storeu_ps(to, v);
}

static inline HALF_VEC h_add(HALF_VEC a, HALF_VEC b)
{
    return _mm256_add_ps(a, b);
}

static inline HALF_VEC h_fma(HALF_VEC a, HALF_VEC b, HALF_VEC c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The low halves of both. */
static inline VEC v_join(VEC low, VEC high)
{
    return _mm512_shuffle_f32x4(low, high, 0x44);
}

static inline __mmask16 v_mask(int n)
{
    return (__mmask16)((1u << n) - 1u);
}

static inline VEC v_zero(void)
{
    return _mm512_setzero_ps();
}

static inline VEC v_set1(float value)
{
    return _mm512_set1_ps(value);
}

static inline VEC v_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

static inline void v_store(float *to, VEC v)
{
    _mm512_storeu_ps(to, v);
}

static inline VEC v_load_n(const float *from, int n)
{
    return _mm512_maskz_loadu_ps(v_mask(n), from);
}

static inline void v_store_n(float *to, VEC v, int n)
{
    _mm512_mask_storeu_ps(to, v_mask(n), v);
}

static inline VEC v_add(VEC a, VEC b)
{
    return _mm512_add_ps(a, b);
}

static inline VEC v_sub(VEC a, VEC b)
{
    return _mm512_sub_ps(a, b);
}

static inline VEC v_mul(VEC a, VEC b)
{
    return _mm512_mul_ps(a, b);
}

static inline VEC v_div(VEC a, VEC b)
{
    return _mm512_div_ps(a, b);
}

static inline VEC v_sqrt(VEC a)
{
    return _mm512_sqrt_ps(a);
}

static inline VEC v_fma(VEC a, VEC b, VEC c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline VEC v_select_gt(VEC a, VEC b, VEC yes, VEC no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}

static inline VEC v_abs(VEC a)
{
    return _mm512_abs_ps(a);
}

static inline VEC v_with_sign_of(VEC positive, VEC sign)
{
    __m512i bit =
        _mm512_and_si512(_mm512_castps_si512(sign), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(positive), bit));
}

static inline VEC v_power_of_two(VEC magic)
{
    __m512i n = _mm512_add_epi32(_mm512_castps_si512(magic), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
}

static inline unsigned v_nonfinite(VEC a)
{
    __m512i exponent = _mm512_set1_epi32(0x7f800000);
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(a), exponent);
    return _mm512_cmpeq_epi32_mask(bits, exponent);
}

static inline float v_total(VEC a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline __m256i v_to_f16_bits(VEC v)
{
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline VEC v_from_bf16_bits(__m256i bits)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

static inline __m256i v_to_bf16_bits(VEC v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i bump = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i rounded = _mm512_add_epi32(bits, bump);
    __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

static inline VEC v_load_f16(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline VEC v_load_f16_n(const uint16_t *from, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_mask(n), from));
}

static inline void v_store_f16(uint16_t *to, VEC v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v_to_f16_bits(v));
}

static inline void v_store_f16_n(uint16_t *to, VEC v, int n)
{
    _mm256_mask_storeu_epi16(to, v_mask(n), v_to_f16_bits(v));
}

static inline VEC v_load_bf16(const uint16_t *from)
{
    return v_from_bf16_bits(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline VEC v_load_bf16_n(const uint16_t *from, int n)
{
    return v_from_bf16_bits(_mm256_maskz_loadu_epi16(v_mask(n), from));
}

static inline void v_store_bf16(uint16_t *to, VEC v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v_to_bf16_bits(v));
}

static inline void v_store_bf16_n(uint16_t *to, VEC v, int n)
{
    _mm256_mask_storeu_epi16(to, v_mask(n), v_to_bf16_bits(v));
}

#ifdef __AVX512BF16__
#define HAS_PAIRS

/* Each lane the pair of two bf16 values that the lanes of low and high hold as f32. */
static inline VEC v_pair(VEC low, VEC high)
{
    __m512i first = _mm512_srli_epi32(_mm512_castps_si512(low), 16);
    __m512i second = _mm512_castps_si512(high);
    return _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaaaaaau, first, second));
}

/* c + the products of the pairs of a and b. */
static inline VEC v_dot(VEC a, VEC b, VEC c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
}

static inline HALF_VEC h_dot(HALF_VEC a, HALF_VEC b, HALF_VEC c)
{
    return _mm256_dpbf16_ps(c, (__m256bh)_mm256_castps_si256(a),
                            (__m256bh)_mm256_castps_si256(b));
}
#endif

static inline VEC v_round_f16(VEC v)
{
    return _mm512_cvtph_ps(v_to_f16_bits(v));
}

static inline VEC v_round_bf16(VEC v)
{
    return v_from_bf16_bits(v_to_bf16_bits(v));
}

#endif
