/* standin.h - what the stand-in of the CUDA runtime offers to its neighbours: the shim
 * before cuDNN, the stand-ins of cuBLAS and NCCL, and the module with the kernels' CPU
 * bodies.
 * Flow:  library call -> [standin_enqueue] -> the stream's queue -> run on the CPU.
 *
 * What is wrong with a call is printed at once as `standin VIOLATION: ...`, and a program
 * that had any ends with exit code STANDIN_EXIT. Touching memory in a forbidden way ends
 * the program there and then with STANDIN_EXIT_FATAL and `standin FATAL: ...`. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#define STANDIN_EXIT 98
#define STANDIN_EXIT_FATAL 97

#ifdef __cplusplus
extern "C" {
#endif

void standin_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What _exit() becomes: the account is given, and then the process ends. */
void standin_end(int code);

/* 1 if `bytes` from `pointer` lie in one live block of device memory; complains if
 * not. */
int standin_is_device(const void *pointer, size_t bytes, const char *what);

/* Queues run(copy of data). Device addresses that stand in the data at multiples of 8
 * bytes count as in use until it ran. Returns an error if the stream cannot take work. */
cudaError_t standin_enqueue(cudaStream_t stream, const char *what, void (*run)(void *),
                            const void *data, size_t bytes);

/* From now on work also runs when nobody waits for it, a little late. Groups need that:
 * one rank's device waits for another's, whose host may be waiting for something else. */
void standin_run_in_background(void);

/* Around a wait for another process, in a run() of standin_enqueue(): lets other threads
 * use their streams meanwhile. */
int standin_pause(void);
void standin_resume(int paused);

/* 1 while work given to the stream is being captured. */
int standin_is_capturing(cudaStream_t stream);

/* 1 if a captured graph that is not destroyed holds `pointer` in the data of an op that
 * standin_enqueue() took, at a multiple of 8 bytes. */
int standin_is_in_graph(const void *pointer);

/* 1 if there is a device to work on (see STANDIN_DEVICES, STANDIN_DRIVER). */
int standin_has_device(void);

/* Gives a kernel its CPU body; sizes[i] is that of argument i. Called by the module named
 * in STANDIN_KERNELS while it is loaded. `name` is the kernel's own, or as the compiler
 * mangles it; sizes stays with the caller. */
void standin_register_kernel(const char *name, int argument_count, const size_t *sizes,
                             void (*thunk)(void **),
                             void (*run)(const char *name, void (*thunk)(void **),
                                         dim3 grid, dim3 block, size_t shared_bytes,
                                         void **arguments));

#ifdef __cplusplus
}
#endif

#endif
