/* cases_kernel.h - the kernels that the cases launch.
 *   add   data[i] += amount    data [count]
 *   fill  data[i] = value
 * cases_kernel.cu is compiled by nvcc; cases_kernel_cpu.c has their CPU bodies. */
#ifndef TESTS_CUDA_CASES_KERNEL_H
#define TESTS_CUDA_CASES_KERNEL_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* By the compiler's launch, and by cudaLaunchKernel() with `blocks` blocks. */
void add_by_syntax(float *data, int count, float amount, cudaStream_t stream);
cudaError_t add_by_call(float *data, int count, float amount, unsigned blocks,
                        cudaStream_t stream);

cudaError_t fill_by_call(float *data, int count, float value, cudaStream_t stream);

/* A kernel that has no CPU body. */
cudaError_t launch_unknown(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
