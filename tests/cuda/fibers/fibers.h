/* fibers.h - lets g++ and clang++ compile a .cu file for the CPU, where every CUDA
 * thread of a block is a fiber.
 * Flow:  -include fibers.h, the .cu file unchanged -> cudaLaunchKernel() or the CUDA
 *        runtime's stand-in -> [fibers::run] -> the kernel, once per thread.
 * Owns:  nothing here; fibers.cpp owns the stacks and the running block.
 *
 *     g++ -x c++ -include tests/cuda/fibers/fibers.h kernels/cuda/norm.cu
 *
 * What a GPU does at once is done in an order that the environment variable FIBER_ORDER
 * chooses: fwd (the default), rev, or randN with a seed N. Within it a warp runs as far
 * as it can before the next one starts, the worst case for a forgotten barrier.
 * __shared__ memory is all NaN when a block begins. What CUDA leaves undefined ends the
 * program with exit code FIBERS_EXIT and a sentence: a barrier that some threads never
 * reach, a vote or shuffle that a lane of its mask stays away from, a shuffle that reads
 * a lane outside it.
 *
 * Kernels have static __shared__ arrays and plain parameters. Not modelled: blocks that
 * run at the same time, the order of memory writes between threads without a barrier,
 * speed. */
#ifndef TESTS_CUDA_FIBERS_FIBERS_H
#define TESTS_CUDA_FIBERS_FIBERS_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define FIBERS_EXIT 99

/* Where the running fiber stands, under CUDA's own names. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

/* __shared__ arrays of all kernels lie in one section, which is filled with NaN before
 * every block. The alignment leaves poisoned gaps between them. */
#undef __shared__
#define __shared__ static __attribute__((section("fibers_shared"), aligned(64)))
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace fibers
{

/* A place in a kernel where threads wait for each other. */
struct site {
    const char *what; // "__syncthreads"
    const char *file;
    int line;
};

/* Runs thunk(args) once for every thread of every block. One kernel at a time, whoever
 * calls. Ends the program when a CUDA device would refuse the sizes. */
void run(const char *name, void (*thunk)(void **), dim3 grid, dim3 block,
         size_t shared_bytes, void **args);

/* Waits for every thread of the block; how many of them gave a `vote` that is not 0. */
int meet_block(int vote, site at);

/* Waits for the lanes of `mask`, then: bit i is set if lane i gave a vote; or the value
 * that lane `source` gave. */
unsigned vote_in_warp(unsigned mask, int vote, site at);
uint64_t read_lane(unsigned mask, uint64_t value, int source, site at);

/* The calling thread's lane, 0..31. */
int lane();

/* Ends the program and says where the running fiber stands. */
[[noreturn]] void stop(const char *why, site at);

/* ---- arguments ------------------------------------------------------------------- */

template <class T> T argument(const void *place)
{
    T value;
    memcpy(static_cast<void *>(&value), place, sizeof value);
    return value;
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void **args, std::index_sequence<I...>)
{
    kernel(argument<A>(args[I])...);
    (void)args; // a kernel may have no parameters
}

/* ---- registration ---------------------------------------------------------------- */

/* Makes a kernel known by name: to messages, and to the CUDA runtime's stand-in where the
 * program has one. */
void register_kernel(const char *name, const void *kernel, int argument_count,
                     const size_t *sizes, void (*thunk)(void **));

template <auto kernel> struct known;

template <class... A, void (*kernel)(A...)> struct known<kernel> {
    static_assert((std::is_trivially_copyable_v<A> && ...),
                  "a kernel's parameters are plain data");

    static void thunk(void **args)
    {
        call(kernel, args, std::index_sequence_for<A...>{});
    }

    explicit known(const char *name)
    {
        static const size_t sizes[] = {sizeof(A)..., 0};
        register_kernel(name, reinterpret_cast<const void *>(kernel), sizeof...(A), sizes,
                        thunk);
    }
};

/* The name under which a kernel was registered. */
const char *name_of(const void *kernel);

/* args[0] holds the kernel, the others its arguments. */
template <class... A> void thunk_of_any(void **args)
{
    call(argument<void (*)(A...)>(args[0]), args + 1, std::index_sequence_for<A...>{});
}

} // namespace fibers

#define FIBERS_KERNEL(kernel) static const fibers::known<&kernel> known_##kernel(#kernel)

/* The plain runtime call with the typed kernel: the kernel has run when it returns. */
template <class... A>
cudaError_t cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void **args,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr)
{
    (void)stream;
    void *all[sizeof...(A) + 1] = {&kernel};
    for (size_t i = 0; i < sizeof...(A); i++)
        all[i + 1] = args[i];
    fibers::run(fibers::name_of(reinterpret_cast<const void *>(kernel)),
                fibers::thunk_of_any<A...>, grid, block, shared_bytes, all);
    return cudaSuccess;
}

/* ---- barriers, votes, shuffles --------------------------------------------------- */

// Each ends in the place of the call, for messages.
#define FIBERS_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define FIBERS_SITE          \
    fibers::site             \
    {                        \
        __func__, file, line \
    }

inline void __syncthreads(FIBERS_PLACE)
{
    fibers::meet_block(0, FIBERS_SITE);
}

inline int __syncthreads_count(int vote, FIBERS_PLACE)
{
    return fibers::meet_block(vote, FIBERS_SITE);
}

inline int __syncthreads_or(int vote, FIBERS_PLACE)
{
    return fibers::meet_block(vote, FIBERS_SITE) != 0;
}

inline int __syncthreads_and(int vote, FIBERS_PLACE)
{
    return fibers::meet_block(!vote, FIBERS_SITE) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, FIBERS_PLACE)
{
    fibers::vote_in_warp(mask, 0, FIBERS_SITE);
}

inline unsigned __ballot_sync(unsigned mask, int vote, FIBERS_PLACE)
{
    return fibers::vote_in_warp(mask, vote, FIBERS_SITE);
}

inline int __any_sync(unsigned mask, int vote, FIBERS_PLACE)
{
    return fibers::vote_in_warp(mask, vote, FIBERS_SITE) != 0;
}

inline int __all_sync(unsigned mask, int vote, FIBERS_PLACE)
{
    return fibers::vote_in_warp(mask, !vote, FIBERS_SITE) == 0;
}

namespace fibers
{

/* The value that lane `source` gave; its own where `source` is not `in_range`. */
template <class T> T shuffle(unsigned mask, T value, int source, bool in_range, site at)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t),
                  "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, static_cast<const void *>(&value), sizeof value);
    bits = read_lane(mask, bits, in_range ? source : lane(), at);
    memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}

inline int segment(int width)
{
    return lane() & ~(width - 1);
}

} // namespace fibers

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, FIBERS_PLACE)
{
    int from = fibers::segment(width) + (source & (width - 1));
    return fibers::shuffle(mask, value, from, true, FIBERS_SITE);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, FIBERS_PLACE)
{
    int from = fibers::lane() - static_cast<int>(delta);
    return fibers::shuffle(mask, value, from, from >= fibers::segment(width),
                           FIBERS_SITE);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, FIBERS_PLACE)
{
    int from = fibers::lane() + static_cast<int>(delta);
    return fibers::shuffle(mask, value, from, from < fibers::segment(width) + width,
                           FIBERS_SITE);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, FIBERS_PLACE)
{
    int from = fibers::lane() ^ bits;
    return fibers::shuffle(mask, value, from, from < fibers::segment(width) + width,
                           FIBERS_SITE);
}

#include "tests/cuda/fibers/fibers_math.h"

#endif
