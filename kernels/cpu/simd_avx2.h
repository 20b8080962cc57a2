/* simd_avx2.h - eight lanes: AVX2, FMA and F16C. See simd.h for what each does. */
#ifndef KERNELS_CPU_SIMD_AVX2_H
#define KERNELS_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define VEC __m256
#define LANES 8
#define TILE_ROWS 6 // 6 x 2 sums, 2 right-hand vectors and a broadcast of 16 registers
#define TILE_ROW_STEP 2

static inline __m256i v_mask(int n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

static inline VEC v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline VEC v_set1(float value)
{
    return _mm256_set1_ps(value);
}

static inline VEC v_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

static inline void v_store(float *to, VEC v)
{
    _mm256_storeu_ps(to, v);
}

static inline VEC v_load_n(const float *from, int n)
{
    return _mm256_maskload_ps(from, v_mask(n));
}

static inline void v_store_n(float *to, VEC v, int n)
{
    // Not vmaskmovps, which is microcode on some CPUs.
    __m128 low = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(to, low);
        low = _mm256_extractf128_ps(v, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, low);
        low = _mm_movehl_ps(low, low);
        to += 2;
    }
    if (n & 1)
        _mm_store_ss(to, low);
}

static inline VEC v_add(VEC a, VEC b)
{
    return _mm256_add_ps(a, b);
}

static inline VEC v_sub(VEC a, VEC b)
{
    return _mm256_sub_ps(a, b);
}

static inline VEC v_mul(VEC a, VEC b)
{
    return _mm256_mul_ps(a, b);
}

static inline VEC v_div(VEC a, VEC b)
{
    return _mm256_div_ps(a, b);
}

static inline VEC v_sqrt(VEC a)
{
    return _mm256_sqrt_ps(a);
}

static inline VEC v_fma(VEC a, VEC b, VEC c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline VEC v_select_gt(VEC a, VEC b, VEC yes, VEC no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

static inline VEC v_abs(VEC a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

static inline VEC v_with_sign_of(VEC positive, VEC sign)
{
    return _mm256_or_ps(positive, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

static inline VEC v_power_of_two(VEC magic)
{
    __m256i n = _mm256_add_epi32(_mm256_castps_si256(magic), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}

static inline unsigned v_nonfinite(VEC a)
{
    __m256i exponent = _mm256_set1_epi32(0x7f800000);
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(a), exponent);
    __m256i equal = _mm256_cmpeq_epi32(bits, exponent);
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(equal));
}

static inline float v_total(VEC a)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline __m128i v_to_f16_bits(VEC v)
{
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline VEC v_from_bf16_bits(__m128i bits)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

static inline __m128i v_to_bf16_bits(VEC v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i bump = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_add_epi32(bits, bump);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                            _mm256_extracti128_si256(rounded, 1));
}

// There is no masked load or store of 16-bit lanes before AVX-512: these go through
// memory.
static inline __m128i v_load_u16_n(const uint16_t *from, int n)
{
    uint16_t lane[LANES] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = from[i];
    return _mm_loadu_si128((const __m128i *)(const void *)lane);
}

static inline void v_store_u16_n(uint16_t *to, __m128i bits, int n)
{
    uint16_t lane[LANES];
    _mm_storeu_si128((__m128i *)(void *)lane, bits);
    for (int i = 0; i < n; i++)
        to[i] = lane[i];
}

static inline VEC v_load_f16(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline VEC v_load_f16_n(const uint16_t *from, int n)
{
    return _mm256_cvtph_ps(v_load_u16_n(from, n));
}

static inline void v_store_f16(uint16_t *to, VEC v)
{
    _mm_storeu_si128((__m128i *)(void *)to, v_to_f16_bits(v));
}

static inline void v_store_f16_n(uint16_t *to, VEC v, int n)
{
    v_store_u16_n(to, v_to_f16_bits(v), n);
}

static inline VEC v_load_bf16(const uint16_t *from)
{
    return v_from_bf16_bits(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline VEC v_load_bf16_n(const uint16_t *from, int n)
{
    return v_from_bf16_bits(v_load_u16_n(from, n));
}

static inline void v_store_bf16(uint16_t *to, VEC v)
{
    _mm_storeu_si128((__m128i *)(void *)to, v_to_bf16_bits(v));
}

static inline void v_store_bf16_n(uint16_t *to, VEC v, int n)
{
    v_store_u16_n(to, v_to_bf16_bits(v), n);
}

static inline VEC v_round_f16(VEC v)
{
    return _mm256_cvtph_ps(v_to_f16_bits(v));
}

static inline VEC v_round_bf16(VEC v)
{
    return v_from_bf16_bits(v_to_bf16_bits(v));
}

#endif
