/* half.h - IEEE binary16 and bfloat16, to and from f32.
 * Flow:  used by ref, by the plain C body of cpu, by tests, and wherever the host reads a
 *        half tensor. Vector bodies (F16C, AVX-512) must give the same bits.
 *
 * Rounding is to nearest, ties to even; half subnormals are kept; a finite value beyond
 * the range becomes an infinity (|x| >= 65520 for f16); NaN stays NaN (quiet).
 * Source: IEEE 754-2019, binary16; bfloat16 is the upper half of a binary32. */
#ifndef KERNELS_HALF_H
#define KERNELS_HALF_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/tensor.h"

#define F16_MAX 65504.0f

uint16_t f16_from_f32(float value);
float f32_from_f16(uint16_t bits);
uint16_t bf16_from_f32(float value);
float f32_from_bf16(uint16_t bits);

/* Element `index` of an array of `dtype` (f32, f16 or bf16), as f32; and the store, which
 * rounds. Slow and obvious: for ref, tests and host code. */
float element_load(const void *data, enum dtype dtype, size_t index);
void element_store(void *data, enum dtype dtype, size_t index, float value);

/* The value that storing `value` as `dtype` leaves. */
float round_to_dtype(float value, enum dtype dtype);

/* True unless `value` is an infinity or a NaN; a bit test, which no compiler flag
 * folds. */
int is_finite_f32(float value);

#endif
