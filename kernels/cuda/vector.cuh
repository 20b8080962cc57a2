/* vector.cuh - one, four or eight elements of f32, f16 or bf16, as f32 in registers.
 * Flow:  kernels load -> compute in f32 -> store.
 * Owns:  nothing.
 *
 * The dtype is known at run time only, and is the same for a whole grid, so the branch on
 * it costs next to nothing. Stores round as half.h says: to nearest even, beyond the
 * range to infinity; NaN stays NaN. An access is 16 bytes wide where `is_wide` allows it,
 * which the host found out (cuda_is_aligned), and element by element where not, or at the
 * end. */
#ifndef KERNELS_CUDA_VECTOR_CUH
#define KERNELS_CUDA_VECTOR_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "kernels/tensor.h"
}

#define CUDA_INLINE static __device__ __forceinline__

struct eight {
    float v[8];
};

static inline int cuda_is_aligned(const void *data)
{
    return ((uintptr_t)data & 15u) == 0;
}

/* ---- one element ----------------------------------------------------------------- */

CUDA_INLINE float load_one(const void *data, enum dtype dtype, size_t i)
{
    switch (dtype) {
    case DTYPE_F16: return __half2float(((const __half *)data)[i]);
    case DTYPE_BF16: return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

CUDA_INLINE void store_one(void *data, enum dtype dtype, size_t i, float value)
{
    switch (dtype) {
    case DTYPE_F16: ((__half *)data)[i] = __float2half_rn(value); break;
    case DTYPE_BF16: ((__nv_bfloat16 *)data)[i] = __float2bfloat16_rn(value); break;
    default: ((float *)data)[i] = value; break;
    }
}

/* ---- a pair of halves in a 32-bit word ------------------------------------------- */

CUDA_INLINE float2 from_pair(unsigned word, enum dtype dtype)
{
    if (dtype == DTYPE_F16)
        return __half22float2(*reinterpret_cast<const __half2 *>(&word));
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162 *>(&word));
}

CUDA_INLINE unsigned to_pair(float first, float second, enum dtype dtype)
{
    if (dtype == DTYPE_F16) {
        __half2 pair = __floats2half2_rn(first, second);
        return *reinterpret_cast<const unsigned *>(&pair);
    }
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned *>(&pair);
}

/* ---- four elements of a flat array of n ------------------------------------------ */

/* Elements i..i+3, zeros beyond n; i is a multiple of 4. */
CUDA_INLINE float4 load_four(const void *data, enum dtype dtype, size_t i, size_t n,
                             int is_wide)
{
    if (!is_wide || n - i < 4) {
        float v[4];
        for (int j = 0; j < 4; j++)
            v[j] = i + j < n ? load_one(data, dtype, i + j) : 0.0f;
        return make_float4(v[0], v[1], v[2], v[3]);
    }
    if (dtype == DTYPE_F32)
        return *reinterpret_cast<const float4 *>((const float *)data + i);
    uint2 words = *reinterpret_cast<const uint2 *>((const uint16_t *)data + i);
    float2 low = from_pair(words.x, dtype), high = from_pair(words.y, dtype);
    return make_float4(low.x, low.y, high.x, high.y);
}

CUDA_INLINE void store_four(void *data, enum dtype dtype, size_t i, size_t n, int is_wide,
                            float4 value)
{
    if (!is_wide || n - i < 4) {
        const float v[4] = {value.x, value.y, value.z, value.w};
        for (int j = 0; j < 4; j++)
            if (i + j < n)
                store_one(data, dtype, i + j, v[j]);
    } else if (dtype == DTYPE_F32) {
        *reinterpret_cast<float4 *>((float *)data + i) = value;
    } else {
        uint2 words = make_uint2(to_pair(value.x, value.y, dtype),
                                 to_pair(value.z, value.w, dtype));
        *reinterpret_cast<uint2 *>((uint16_t *)data + i) = words;
    }
}

/* ---- eight elements -------------------------------------------------------------- */

/* Elements i..i+7, of which `count` exist and the others read as zero. */
CUDA_INLINE struct eight load_eight(const void *data, enum dtype dtype, size_t i,
                                    int count, int is_wide)
{
    struct eight value;
    if (!is_wide || count < 8) {
        for (int j = 0; j < 8; j++)
            value.v[j] = j < count ? load_one(data, dtype, i + j) : 0.0f;
    } else if (dtype == DTYPE_F32) {
        const float4 *from = reinterpret_cast<const float4 *>((const float *)data + i);
        float4 low = from[0], high = from[1];
        value.v[0] = low.x, value.v[1] = low.y, value.v[2] = low.z, value.v[3] = low.w;
        value.v[4] = high.x, value.v[5] = high.y, value.v[6] = high.z;
        value.v[7] = high.w;
    } else {
        uint4 bits = *reinterpret_cast<const uint4 *>((const uint16_t *)data + i);
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        for (int j = 0; j < 4; j++) {
            float2 pair = from_pair(words[j], dtype);
            value.v[2 * j] = pair.x;
            value.v[2 * j + 1] = pair.y;
        }
    }
    return value;
}

CUDA_INLINE void store_eight(void *data, enum dtype dtype, size_t i, int count,
                             int is_wide, struct eight value)
{
    const float *v = value.v;
    if (!is_wide || count < 8) {
        for (int j = 0; j < 8; j++)
            if (j < count)
                store_one(data, dtype, i + j, v[j]);
    } else if (dtype == DTYPE_F32) {
        float4 *to = reinterpret_cast<float4 *>((float *)data + i);
        to[0] = make_float4(v[0], v[1], v[2], v[3]);
        to[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        uint4 bits = make_uint4(to_pair(v[0], v[1], dtype), to_pair(v[2], v[3], dtype),
                                to_pair(v[4], v[5], dtype), to_pair(v[6], v[7], dtype));
        *reinterpret_cast<uint4 *>((uint16_t *)data + i) = bits;
    }
}

/* What storing as `dtype` leaves of the eight. */
CUDA_INLINE struct eight round_eight(struct eight value, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return value;
    for (int j = 0; j < 8; j += 2) {
        float2 pair = from_pair(to_pair(value.v[j], value.v[j + 1], dtype), dtype);
        value.v[j] = pair.x;
        value.v[j + 1] = pair.y;
    }
    return value;
}

/* True unless the value is inf or NaN: a bit test. */
CUDA_INLINE int is_finite(float value)
{
    return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

#endif
