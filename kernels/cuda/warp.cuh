/* warp.cuh - sums over the lanes of a warp, in an order that never changes.
 * Flow:  loss.cu and survey.cu; sums over rows of channels are in rows.cuh.
 * Owns:  nothing. */
#ifndef KERNELS_CUDA_WARP_CUH
#define KERNELS_CUDA_WARP_CUH

#include <cuda_runtime.h>

#define ALL_LANES 0xffffffffu

/* Every lane of the warp calls them; lane 0 gets the sum. */
static __device__ __forceinline__ double warp_sum(double value)
{
    for (unsigned delta = 16; delta; delta >>= 1)
        value += __shfl_down_sync(ALL_LANES, value, delta);
    return value;
}

static __device__ __forceinline__ unsigned long long warp_count(unsigned long long value)
{
    for (unsigned delta = 16; delta; delta >>= 1)
        value += __shfl_down_sync(ALL_LANES, value, delta);
    return value;
}

#endif
