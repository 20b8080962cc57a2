/* cases_kernel.cu - kernels of plain C++, launched in both ways that nvcc offers. */
#include "tests/cuda/standins/cases_kernel.h"

__global__ void case_add_kernel(float *data, int count, float amount)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        data[i] += amount;
}

__global__ void case_fill_kernel(float *data, int count, float value)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        data[i] = value;
}

__global__ void case_unknown_kernel(int)
{
}

void add_by_syntax(float *data, int count, float amount, cudaStream_t stream)
{
    case_add_kernel<<<(unsigned)(count + 63) / 64, 64, 0, stream>>>(data, count, amount);
}

cudaError_t add_by_call(float *data, int count, float amount, unsigned blocks,
                        cudaStream_t stream)
{
    void *arguments[] = {&data, &count, &amount};
    return cudaLaunchKernel((const void *)case_add_kernel, dim3(blocks), dim3(64),
                            arguments, 0, stream);
}

cudaError_t fill_by_call(float *data, int count, float value, cudaStream_t stream)
{
    void *arguments[] = {&data, &count, &value};
    return cudaLaunchKernel((const void *)case_fill_kernel,
                            dim3((unsigned)(count + 63) / 64), dim3(64), arguments, 0,
                            stream);
}

cudaError_t launch_unknown(cudaStream_t stream)
{
    int nothing = 0;
    void *arguments[] = {&nothing};
    return cudaLaunchKernel((const void *)case_unknown_kernel, dim3(1), dim3(1),
                            arguments, 0, stream);
}
