#include "kernels/half.h"

#include <string.h>

#include "kernels/base/status.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* value >> shift, rounded to nearest, ties to even. shift is 1..31. */
static uint32_t shift_to_even(uint32_t value, unsigned shift)
{
    uint32_t half_less_one = (1u << (shift - 1)) - 1u;
    uint32_t is_odd = (value >> shift) & 1u;
    return (value + half_less_one + is_odd) >> shift;
}

uint16_t f16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t size = bits & 0x7fffffffu;

    // NaN keeps its sign and the upper bits of its payload, and becomes quiet.
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((size >> 13) & 0x01ffu));

    // 65520 lies half way between the largest finite half and 2^16: it and all above are
    // inf.
    if (size >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);

    // Normal halves, from 2^-14: the exponent's bias falls from 127 to 15, the fraction
    // from 23 bits to 10. A carry out of the fraction rightly raises the exponent.
    if (size >= 0x38800000u)
        return (uint16_t)(sign | shift_to_even(size - (112u << 23), 13));

    // Subnormal halves count units of 2^-24. Below 2^-25, and at it by the tie, is zero.
    if (size <= 0x33000000u)
        return (uint16_t)sign;
    uint32_t fraction = (size & 0x007fffffu) | 0x00800000u;
    unsigned shift = 126u - (size >> 23);
    return (uint16_t)(sign | shift_to_even(fraction, shift));
}

float f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x03ffu;

    if (exponent == 0x1fu && fraction)
        return float_of(sign | 0x7fc00000u | fraction << 13);
    if (exponent == 0x1fu)
        return float_of(sign | 0x7f800000u);
    if (exponent)
        return float_of(sign | (exponent + 112u) << 23 | fraction << 13);

    // A subnormal is fraction * 2^-24, exact in f32.
    float size = (float)fraction * (1.0f / 16777216.0f);
    return sign ? -size : size;
}

uint16_t bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x0040u);

    // The upper half of a f32; a carry runs into the exponent, and past the largest
    // finite value into infinity. No f32 bits but a NaN's can overflow the sum.
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f32_from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x00400000u;
    return float_of(bits);
}

float element_load(const void *data, enum dtype dtype, size_t index)
{
    switch (dtype) {
    case DTYPE_F32: return ((const float *)data)[index];
    case DTYPE_F16: return f32_from_f16(((const uint16_t *)data)[index]);
    case DTYPE_BF16: return f32_from_bf16(((const uint16_t *)data)[index]);
    default: CHECK(0, "dtype %s is not a float", dtype_name(dtype));
    }
}

void element_store(void *data, enum dtype dtype, size_t index, float value)
{
    switch (dtype) {
    case DTYPE_F32: ((float *)data)[index] = value; return;
    case DTYPE_F16: ((uint16_t *)data)[index] = f16_from_f32(value); return;
    case DTYPE_BF16: ((uint16_t *)data)[index] = bf16_from_f32(value); return;
    default: CHECK(0, "dtype %s is not a float", dtype_name(dtype));
    }
}

float round_to_dtype(float value, enum dtype dtype)
{
    uint32_t room;
    element_store(&room, dtype, 0, value);
    return element_load(&room, dtype, 0);
}

int is_finite_f32(float value)
{
    return (bits_of(value) & 0x7f800000u) != 0x7f800000u;
}
