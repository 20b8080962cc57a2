/* stored.h - numbers as they stand in memory: f32, IEEE half, bfloat16. */
#ifndef TESTS_CUDA_STORED_H
#define TESTS_CUDA_STORED_H

#include <stdint.h>
#include <string.h>

enum stored { STORED_F32, STORED_F16, STORED_BF16 };

static inline float stored_read(const void *memory, long index, enum stored type)
{
    float value;
    if (type == STORED_F32)
        return ((const float *)memory)[index];
    if (type == STORED_F16)
        return (float)((const _Float16 *)memory)[index];
    uint32_t bits = (uint32_t)((const uint16_t *)memory)[index] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// To the nearest, ties to even; a NaN stays one.
static inline uint16_t bf16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void stored_write(void *memory, long index, enum stored type, float value)
{
    if (type == STORED_F32)
        ((float *)memory)[index] = value;
    else if (type == STORED_F16)
        ((_Float16 *)memory)[index] = (_Float16)value;
    else
        ((uint16_t *)memory)[index] = bf16_bits(value);
}

static inline float stored_round(float value, enum stored type)
{
    if (type == STORED_F32)
        return value;
    if (type == STORED_F16)
        return (float)(_Float16)value;
    uint16_t bits = bf16_bits(value);
    return stored_read(&bits, 0, STORED_BF16);
}

#endif
