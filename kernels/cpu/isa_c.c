/* isa_c.c - the kernels in plain C, for every CPU. */
#define ISA c
#define ISA_NAME "c"
#include "kernels/cpu/body.h"
