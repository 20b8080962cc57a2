/* samples.cu - small kernels that are right, and others with one planted fault each.
 * Flow:  test_fibers.c -> [samples NAME] -> what it prints and its exit code.
 *
 * Exit codes: 0 the kernel's result is right, 1 it is wrong, 2 no such sample,
 * FIBERS_EXIT the fibers saw something that CUDA leaves undefined. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ALL 0xffffffffu

/* ---- right ones ------------------------------------------------------------------ */

static __device__ __forceinline__ float warp_sum(float value)
{
    for (unsigned delta = 16; delta; delta >>= 1)
        value += __shfl_down_sync(ALL, value, delta);
    return value;
}

/* A thread adds its elements, a block all of them; one block. */
__global__ void __launch_bounds__(1024) sum_kernel(const float *values, int n, float *sum)
{
    __shared__ float of_warps[32];
    float mine = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        mine += values[i];
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0.0f;
        mine = warp_sum(mine);
        if (threadIdx.x == 0)
            *sum = mine;
    }
}

/* Every thread of a grid of three dimensions writes its own number. */
__global__ void number_kernel(unsigned *numbers)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    atomicAdd(&numbers[block * threads + thread], block * threads + thread + 1);
}

/* A block of 64 turns an array round through shared memory, lanes through shuffles. */
__global__ void turn_kernel(const int *from, int *turned, int *votes)
{
    __shared__ int held[64];
    int i = (int)threadIdx.x;
    held[i] = from[i];
    int even = __syncthreads_count(from[i] % 2 == 0);
    int swapped = __shfl_xor_sync(ALL, held[63 - i], 1);
    turned[i] = __shfl_xor_sync(ALL, swapped, 1);
    unsigned low = __ballot_sync(ALL, from[i] < 10);
    int any = __any_sync(ALL, from[i] == 40), every = __all_sync(ALL, from[i] < 32);
    int up = __shfl_up_sync(ALL, i, 1), first = __shfl_sync(ALL, i, 0, 8);
    __syncwarp();
    if (i % 32 == 9) {
        int *mine = votes + i / 32 * 6;
        mine[0] = even, mine[1] = (int)low, mine[2] = any, mine[3] = every;
        mine[4] = up, mine[5] = first;
    }
}

/* Halves of the warp vote apart from each other; lanes beyond n leave early. */
__global__ void halves_kernel(int n, unsigned *votes)
{
    unsigned lane = threadIdx.x;
    if ((int)lane >= n)
        return;
    unsigned side = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    unsigned vote = lane < 16 ? __ballot_sync(side, lane % 2) : __ballot_sync(side, 1);
    votes[lane] = vote;
}

/* Sixteen bytes at a time: halves and bfloats to float, doubled, and back. */
__global__ void double_kernel(const uint4 *from, uint4 *to, int is_half)
{
    uint4 bits = __ldg(&from[threadIdx.x]);
    if (is_half) {
        __half2 *pairs = (__half2 *)&bits;
        for (int i = 0; i < 4; i++) {
            float2 pair = __half22float2(pairs[i]);
            pairs[i] = __floats2half2_rn(pair.x * 2.0f, pair.y * 2.0f);
        }
    } else {
        __nv_bfloat162 *pairs = (__nv_bfloat162 *)&bits;
        for (int i = 0; i < 4; i++) {
            float2 pair = __bfloat1622float2(pairs[i]);
            pairs[i] = __floats2bfloat162_rn(pair.x * 2.0f, pair.y * 2.0f);
        }
    }
    to[threadIdx.x] = bits;
}

/* One thread; claim i of those below sets bit i of *wrong if it is false. */
__global__ void math_kernel(unsigned *wrong)
{
    __shared__ float sum;
    __shared__ unsigned word;
    sum = 1.5f;
    word = 5;
    const bool claims[] = {
        __umulhi(0x80000000u, 6u) == 3u && __brev(1u) == 0x80000000u,
        __popc(0xf0f0u) == 8 && __clz(1) == 31 && __clz(0) == 32 && __ffs(8) == 4,
        __float_as_uint(1.0f) == 0x3f800000u && __int_as_float(0x40000000) == 2.0f,
        min(1.0f, NAN) == 1.0f && max(-3, 2) == 2 && min(3u, 5u) == 3u,
        __float2int_rn(2.5f) == 2 && __float2int_rz(-2.7f) == -2,
        __float2int_rn(3e9f) == 2147483647 && __float2uint_rn(-1.0f) == 0u,
        rsqrtf(4.0f) == 0.5f && __fmaf_rn(2.0f, 3.0f, 4.0f) == 10.0f,
        __saturatef(NAN) == 0.0f && fabsf(cospif(1.0f) + 1.0f) < 1e-6f,
        fabsf(__expf(1.0f) - 2.7182818f) < 1e-5f && __fdividef(1.0f, 4.0f) == 0.25f,
        atomicAdd(&sum, 2) == 1.5f && sum == 3.5f,
        atomicOr(&word, 8u) == 5 && atomicMax(&word, 2u) == 13,
        atomicCAS(&word, 13u, 1u) == 13 && atomicExch(&word, 9u) == 1 && word == 9,
    };
    for (unsigned i = 0; i < sizeof claims / sizeof claims[0]; i++)
        *wrong |= (unsigned)!claims[i] << i;
}

/* ---- faulty ones ----------------------------------------------------------------- */

/* sum_kernel without its barrier. */
__global__ void sum_without_barrier_kernel(const float *values, int n, float *sum)
{
    __shared__ float of_warps[32];
    float mine = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        mine += values[i];
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = mine;
    if (threadIdx.x < 32) {
        mine = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0.0f;
        mine = warp_sum(mine);
        if (threadIdx.x == 0)
            *sum = mine;
    }
}

__global__ void divergent_barrier_kernel(float *values)
{
    if (threadIdx.x < 40)
        __syncthreads(); // PLANTED divergent_barrier
    values[threadIdx.x] = 1.0f;
}

__global__ void two_barriers_kernel(float *values)
{
    if (threadIdx.x < 40)
        __syncthreads();
    else
        __syncthreads();
    values[threadIdx.x] = 1.0f;
}

__global__ void divergent_vote_kernel(float *values)
{
    if (threadIdx.x < 40)
        values[threadIdx.x] = (float)__any_sync(ALL, 1); // PLANTED divergent_vote
    else
        __syncwarp();
}

__global__ void shuffle_outside_kernel(float *values)
{
    float value = (float)threadIdx.x;
    if (threadIdx.x < 16)
        value += __shfl_down_sync(0xffffu, value, 1); // PLANTED shuffle_outside
    values[threadIdx.x] = value;
}

__global__ void shuffle_ended_kernel(float *values, int n)
{
    if ((int)threadIdx.x >= n)
        return;
    values[threadIdx.x] = __shfl_down_sync(ALL, 1.0f, 1); // PLANTED shuffle_ended
}

__global__ void not_in_mask_kernel(float *values)
{
    values[threadIdx.x] = (float)__any_sync(0xfu, 1); // PLANTED not_in_mask
}

__global__ void uninitialised_kernel(float *values)
{
    __shared__ float held[64];
    if (threadIdx.x != 7)
        held[threadIdx.x] = 1.0f;
    __syncthreads();
    values[threadIdx.x] = held[threadIdx.x];
}

/* The block before leaves nothing behind for the next. */
__global__ void left_over_kernel(float *values)
{
    __shared__ float held[64];
    if (blockIdx.x == 0)
        held[threadIdx.x] = 1.0f;
    __syncthreads();
    values[blockIdx.x * blockDim.x + threadIdx.x] = held[threadIdx.x];
}

static __device__ __forceinline__ float element(const float *array, unsigned i)
{
    return array[i];
}

__global__ void beyond_shared_kernel(float *values)
{
    __shared__ float held[62];
    if (threadIdx.x < 62)
        held[threadIdx.x] = 1.0f;
    __syncthreads();
    values[threadIdx.x] = element(held, threadIdx.x);
}

__global__ void trap_kernel(void)
{
    __trap();
}

/* ---- the program ----------------------------------------------------------------- */

static int failures;

static void expect(int is_right, const char *what)
{
    if (is_right)
        return;
    printf("wrong: %s\n", what);
    failures += 1;
}

template <class... P, class... A>
static void launch(void (*kernel)(P...), dim3 grid, dim3 block, A... arguments)
{
    void *args[] = {&arguments..., nullptr};
    expect(cudaLaunchKernel(kernel, grid, block, args, 0, 0) == cudaSuccess, "launch");
}

static float values[4096], result;

static void run_sum(void (*kernel)(const float *, int, float *))
{
    for (int i = 0; i < 4096; i++)
        values[i] = (float)(i % 17);
    static const unsigned threads[] = {1024, 256, 32};
    for (int t = 0; t < 3; t++) {
        float want = 0.0f;
        for (int i = 0; i < 4001; i++)
            want += values[i];
        result = -1.0f;
        launch(kernel, dim3(1), dim3(threads[t]), (const float *)values, 4001, &result);
        expect(result == want, "the sum");
    }
}

static void run_number(void)
{
    static unsigned numbers[2 * 3 * 4 * 5 * 6 * 7];
    launch(number_kernel, dim3(2, 3, 4), dim3(5, 6, 7), (unsigned *)numbers);
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        expect(numbers[i] == i + 1, "a thread's number");
}

static void run_turn(void)
{
    int from[64], turned[64], votes[12];
    for (int i = 0; i < 64; i++)
        from[i] = i;
    launch(turn_kernel, dim3(1), dim3(64), (const int *)from, (int *)turned,
           (int *)votes);
    for (int i = 0; i < 64; i++)
        expect(turned[i] == 63 - i, "an element");
    const int want[12] = {32, 0x3ff, 0, 1, 8, 8, 32, 0, 1, 0, 40, 40};
    for (int i = 0; i < 12; i++)
        expect(votes[i] == want[i], "a vote");
}

static void run_halves(void)
{
    unsigned votes[32] = {0};
    launch(halves_kernel, dim3(1), dim3(32), 20, (unsigned *)votes);
    expect(votes[0] == 0xaaaau && votes[15] == 0xaaaau, "the lower half's vote");
    expect(votes[16] == 0xf0000u && votes[19] == 0xf0000u, "the upper half's vote");
    expect(votes[20] == 0, "a lane that has ended");
}

static void run_double(void)
{
    __half halves[64], doubled[64];
    __nv_bfloat16 bfloats[64], twice[64];
    alignas(16) char from[128], to[128];
    for (int i = 0; i < 64; i++) {
        halves[i] = __float2half((float)i * 0.37f);
        bfloats[i] = __float2bfloat16((float)i * 0.37f);
    }
    memcpy(from, halves, sizeof from);
    launch(double_kernel, dim3(1), dim3(8), (const uint4 *)from, (uint4 *)to, 1);
    memcpy(doubled, to, sizeof to);
    memcpy(from, bfloats, sizeof from);
    launch(double_kernel, dim3(1), dim3(8), (const uint4 *)from, (uint4 *)to, 0);
    memcpy(twice, to, sizeof to);
    for (int i = 0; i < 64; i++) {
        expect(__half2float(doubled[i]) == 2.0f * __half2float(halves[i]), "a half");
        expect(__bfloat162float(twice[i]) == 2.0f * __bfloat162float(bfloats[i]),
               "a bfloat");
    }
}

static void run_math(void)
{
    unsigned wrong = 0;
    launch(math_kernel, dim3(1), dim3(1), (unsigned *)&wrong);
    expect(wrong == 0, "arithmetic");
    if (wrong)
        printf("claims 0x%x of math_kernel\n", wrong);
}

/* A faulty kernel over 64 or 128 floats that ought to become numbers. */
static void run_floats(void (*kernel)(float *), unsigned blocks)
{
    launch(kernel, dim3(blocks), dim3(64), (float *)values);
    for (unsigned i = 0; i < 64 * blocks; i++)
        expect(!isnan(values[i]), "a value is NaN");
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    if (!strcmp(name, "right")) {
        run_sum(sum_kernel);
        run_number();
        run_turn();
        run_halves();
        run_double();
        run_math();
    } else if (!strcmp(name, "missing_barrier")) {
        run_sum(sum_without_barrier_kernel);
    } else if (!strcmp(name, "divergent_barrier")) {
        run_floats(divergent_barrier_kernel, 1);
    } else if (!strcmp(name, "two_barriers")) {
        run_floats(two_barriers_kernel, 1);
    } else if (!strcmp(name, "divergent_vote")) {
        run_floats(divergent_vote_kernel, 1);
    } else if (!strcmp(name, "shuffle_outside")) {
        run_floats(shuffle_outside_kernel, 1);
    } else if (!strcmp(name, "shuffle_ended")) {
        launch(shuffle_ended_kernel, dim3(1), dim3(64), (float *)values, 20);
    } else if (!strcmp(name, "not_in_mask")) {
        run_floats(not_in_mask_kernel, 1);
    } else if (!strcmp(name, "uninitialised")) {
        run_floats(uninitialised_kernel, 1);
    } else if (!strcmp(name, "left_over")) {
        run_floats(left_over_kernel, 2);
    } else if (!strcmp(name, "beyond_shared")) {
        run_floats(beyond_shared_kernel, 1);
    } else if (!strcmp(name, "trap")) {
        launch(trap_kernel, dim3(1), dim3(1));
    } else if (!strcmp(name, "too_many_threads")) {
        launch(trap_kernel, dim3(1), dim3(1025));
    } else if (!strcmp(name, "no_blocks")) {
        launch(trap_kernel, dim3(0), dim3(32));
#ifndef __CUDACC__ // no compiler of CUDA lets that pass
    } else if (!strcmp(name, "outside")) {
        __syncthreads();
#endif
    } else {
        fprintf(stderr, "samples: no sample \"%s\"\n", name);
        return 2;
    }
    if (failures == 0)
        printf("right\n");
    return failures != 0;
}
