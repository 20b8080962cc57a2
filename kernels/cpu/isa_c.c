/* isa_c.c - the kernels in plain C, for every CPU. */
#define ISA c
#include "kernels/cpu/body.h"
