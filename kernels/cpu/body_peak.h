/* body_peak.h - the multiply-adds of body_gemm.h with nothing around them: how fast they
 * can be at all. */
#ifndef KERNELS_CPU_BODY_PEAK_H
#define KERNELS_CPU_BODY_PEAK_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

// Every chain reads its own last result, so that nothing can be taken out of the loop.
ALWAYS_INLINE VEC peak_step(VEC sum, VEC factor, const int pairs)
{
#ifdef HAS_PAIRS
    if (pairs)
        return v_dot(factor, factor, sum);
#endif
    (void)pairs;
    return v_fma(sum, factor, factor);
}

/* The sums stay finite and normal: floats go to 1, pairs add 1/2 a step. */
ALWAYS_INLINE float peak_of(size_t steps, VEC factor, const int pairs)
{
    VEC sum[PEAK_CHAINS], total = v_zero();
#pragma GCC unroll 12
    for (int i = 0; i < PEAK_CHAINS; i++)
        sum[i] = v_set1((float)i);
    for (size_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++)
            sum[i] = peak_step(sum[i], factor, pairs);
    }
    for (int i = 0; i < PEAK_CHAINS; i++)
        total = v_add(total, sum[i]);
    return v_total(total);
}

static float floats_peak(size_t steps)
{
    return peak_of(steps, v_set1(0.5f), 0);
}

#ifdef HAS_PAIRS
static float pairs_peak(size_t steps)
{
    return peak_of(steps, v_pair(v_set1(0.5f), v_set1(0.5f)), 1);
}
#endif

#endif
