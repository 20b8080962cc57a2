/* isa_avx512.c - the kernels for AVX-512 F, BW, VL and DQ; compiled with those flags. */
#define ISA avx512
#define ISA_NAME "avx512"
#include "kernels/cpu/body.h"
