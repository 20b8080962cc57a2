/* isa_avx512_bf16.c - the kernels for AVX-512 with dot products of bf16 pairs. */
#define ISA avx512_bf16
#define ISA_NAME "avx512-bf16"
#include "kernels/cpu/body.h"
