/* launch.cuh - how the .cu files queue their kernels.
 * Flow:  an op of norm.cu, pointwise.cu, ... -> [cuda_launch] -> the device's stream.
 * Owns:  nothing.
 *
 * Kernels are launched through the runtime's plain call, so a .cu file is C++ that any
 * compiler reads. */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#define CUDA_THREADS 256 // of a block, in every kernel that works on more than one thing
#define CUDA_WARPS (CUDA_THREADS / 32)

/* An argument's type is its parameter's, whatever the caller wrote. */
template <class T> struct cuda_as {
    using type = T;
};

/* Queues `kernel` on the device's stream. `op` ("norm.stats") names it in a fault. */
template <class... P>
static void cuda_launch(struct device *device, const char *op, void (*kernel)(P...),
                        dim3 grid, unsigned threads,
                        typename cuda_as<P>::type... arguments)
{
    void *list[] = {const_cast<void *>(static_cast<const void *>(&arguments))...};
    cudaError_t error = cudaLaunchKernel(kernel, grid, dim3(threads), list, 0,
                                         cuda_backend(device)->stream);
    cuda_keep_error(device, op, error);
}

/* Blocks for `items` threads, each of which may take several: no more than fill the
 * device. */
static inline unsigned cuda_blocks(const struct device *device, size_t items)
{
    size_t blocks = (items + CUDA_THREADS - 1) / CUDA_THREADS;
    size_t most = (size_t)cuda_backend(device)->multiprocessors * 8;
    return (unsigned)(blocks < 1 ? 1 : blocks > most && most > 0 ? most : blocks);
}

#endif
