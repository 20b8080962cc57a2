/* isa_avx2.c - the kernels for AVX2, FMA and F16C; compiled with those flags. */
#define ISA avx2
#define ISA_NAME "avx2"
#include "kernels/cpu/body.h"
