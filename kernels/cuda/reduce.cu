/* reduce.cu - the second half of every sum over rows (rows.cuh). */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/rows.cuh"

#define ROWS_A_THREAD 4   // at least, where there are that many
#define BLOCKS_MAX 1024   // of a sum: a few for each multiprocessor of a large GPU
#define FINISH_CHANNELS 8 // of a block of the second kernel: one sector of memory
#define FINISH_LANES (CUDA_THREADS / FINISH_CHANNELS)

struct cover cuda_cover_sums(unsigned rows, int channels, int kinds)
{
    struct cover cover = tiles_over(channels);
    unsigned height = CUDA_THREADS >> cover.lane_bits;
    size_t blocks = rows / (height * ROWS_A_THREAD);
    size_t floats = ((size_t)cover.grid.y << cover.lane_bits) * 8 * (size_t)kinds;
    CHECK(floats <= CUDA_PARTIAL_FLOATS, "%d channels", channels);
    if (blocks > BLOCKS_MAX / cover.grid.y)
        blocks = BLOCKS_MAX / cover.grid.y;
    if (blocks > CUDA_PARTIAL_FLOATS / floats)
        blocks = CUDA_PARTIAL_FLOATS / floats;
    cover.grid.x = blocks < 1 ? 1 : (unsigned)blocks;
    return cover;
}

/* A thread adds one channel's sums of every 32nd block; the block adds those and writes
 * the sums of eight channels of one kind. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_finish_sums_kernel(const float *partial, int blocks, int c_padded, int channels,
                            float *first, float *second, int accumulate)
{
    __shared__ double held[CUDA_THREADS];
    int t = (int)threadIdx.x, kind = (int)blockIdx.y, kinds = (int)gridDim.y;
    int c = (int)blockIdx.x * FINISH_CHANNELS + t % FINISH_CHANNELS;
    double sum = 0.0;
    if (c < channels)
        for (int b = t / FINISH_CHANNELS; b < blocks; b += FINISH_LANES)
            sum += (double)partial[((size_t)b * kinds + kind) * c_padded + c];
    held[t] = sum;
    for (int half = CUDA_THREADS / 2; half >= FINISH_CHANNELS; half /= 2) {
        __syncthreads();
        if (t < half)
            held[t] += held[t + half];
    }
    if (t >= FINISH_CHANNELS || c >= channels)
        return;
    float *to = kind ? second : first;
    to[c] = accumulate ? to[c] + (float)held[t] : (float)held[t];
}

void cuda_finish_sums(struct device *device, const char *op, struct cover cover,
                      int channels, float *first, float *second, int accumulate)
{
    unsigned blocks = (unsigned)(channels + FINISH_CHANNELS - 1) / FINISH_CHANNELS;
    cuda_launch(device, op, cuda_finish_sums_kernel, dim3(blocks, second ? 2 : 1),
                CUDA_THREADS, cuda_backend(device)->partial, (int)cover.grid.x,
                (int)(cover.grid.y << cover.lane_bits) * 8, channels, first, second,
                accumulate);
}
