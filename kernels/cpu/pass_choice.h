/* pass_choice.h - which algorithm each pass of a convolution takes, and why.
 * Flow:  cpu_conv.c plans a convolution -> [choose_pass] -> what its passes run, and what
 *        conv.describe() tells.
 * Owns:  nothing.
 *
 *   algorithm  which passes                       how
 *   winograd   kernel 4, stride 2, padding 1      25 multiplications for 64; winograd.h
 *   fold       dgrad into at most 4 channels      all taps of a pixel at once; fold.h
 *   thin       at most 4 columns of a product     dot products along the depth; gemm.c
 *   direct     all others                         a product of packed matrices; gemm.h,
 *                                                 and wgrad.h
 *
 * Winograd is taken where it is estimated to cost less than the direct way and its error
 * stays within twice that one's (winograd_estimate()). TWINSCALE_CONV = direct never
 * takes it, TWINSCALE_CONV = winograd takes it wherever the shape allows. */
#ifndef KERNELS_CPU_PASS_CHOICE_H
#define KERNELS_CPU_PASS_CHOICE_H

#include "kernels/cpu/winograd.h"

enum algorithm {
    ALGORITHM_DIRECT,
    ALGORITHM_THIN,
    ALGORITHM_FOLD,
    ALGORITHM_WINOGRAD,
};

struct pass_choice {
    enum algorithm algorithm;
    char reason[sizeof((struct conv_way *)0)->reason];
};

/* What shape and size allow. */
struct pass_options {
    int can_winograd; // it was planned for this pass
    int can_fold;
    int columns; // of the direct product
};

/* Chooses for one pass of winograd->desc. */
struct pass_choice choose_pass(const struct cpu_backend *backend,
                               const struct winograd *winograd, enum pass_kind pass,
                               const struct pass_options *options);

const char *algorithm_name(enum algorithm algorithm);

#endif
