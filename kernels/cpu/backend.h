/* backend.h - what the CPU backend keeps between ops, and how it uses threads.
 * Flow:  cpu_open() makes it; every cpu_*.c takes it from device->backend.
 * Owns:  scratch and a slab per thread, one workspace, each as large as the largest plan
 *        asks.
 */
#ifndef KERNELS_CPU_BACKEND_H
#define KERNELS_CPU_BACKEND_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/pool.h"
#include "kernels/device.h"
#include "kernels/ops.h"

// Reductions are cut into at most so many parts, whatever the number of threads, and the
// parts are added in order: the same bits on every machine of one instruction set.
#define REDUCE_PARTS 64
#define REDUCE_FLOATS (1 << 20) // room for the parts' sums

// Blocks of weights whose points a thread may keep for an op: 1 MB, since from beyond its
// second-level cache it does not have them sooner than it makes them.
#define WINO_RIGHTS 5

#define WINO_RESULT (WINO_POINTS * (WINO_TILES * WINO_COLS + 16)) // of one task

/* One thread's buffers, reused by every op; on cache lines of its own. */
struct scratch {
    // GEMM_ROWS x GEMM_LEFT_STEP, or GEMM_PANEL_ROWS x GEMM_DEPTH
    _Alignas(64) float *left;
    float *right;  // GEMM_DEPTH x GEMM_COLS: wgrad's window columns
    float *result; // GEMM_PANEL_ROWS x GEMM_RESULT_STEP
    float *line;   // GEMM_COLS + 32
    float *points; // WINO_RESULT: a Winograd task's products
    // Of the blocks of tiles in this thread's share: points that one op makes and the
    // next multiplies; before them the weights' points. Grown by conv prepare(). Other
    // threads come here only to help.
    float *slab;
    size_t slab_floats;
    uint64_t right_made[WINO_RIGHTS]; // by which Winograd op
};

/* Which way convolutions go; TWINSCALE_CONV sets it. */
enum conv_choice {
    CONV_AUTO,     // whichever is estimated to be faster
    CONV_DIRECT,   // never Winograd
    CONV_WINOGRAD, // Winograd wherever the shape allows it
};

struct cpu_backend {
    const struct isa *isa;
    struct ops ops;
    struct ops ref; // what is not overridden, and what overrides fall back to
    enum conv_choice conv_choice;
    int threads;
    struct pool *pool;
    struct scratch *scratch; // [threads]
    float *scratch_block;
    uint64_t wino_ops; // that multiply by points of weights: so many have run
    float *workspace;  // grown by conv prepare(), used by one op at a time
    size_t workspace_floats;
    float *reduce; // REDUCE_FLOATS
};

static inline struct cpu_backend *cpu_backend(const struct device *device)
{
    return (struct cpu_backend *)device->backend;
}

/* Runs run(job, task, thread) for every task, each once, on any thread in any order.
 * Tasks must write disjoint memory; their number must not depend on the number of
 * threads. */
void cpu_parallel(const struct device *device, size_t tasks,
                  void (*run)(void *job, size_t task, int thread), void *job);

/* Makes the workspace, or the slab of one thread, at least this large; for prepare(). */
enum status cpu_reserve_workspace(struct device *device, size_t floats);
enum status cpu_reserve_slab(struct device *device, int thread, size_t floats);

/* Parts that `rows` rows of `channels` sums each are cut into, and the rows of a part. */
struct reduce_parts {
    size_t count, rows;
};
struct reduce_parts cpu_reduce_parts(size_t rows, size_t channels);

/* to[c] = sum over parts, in order, in f64. parts [count][stride]. */
void cpu_combine(const float *parts, size_t count, size_t stride, size_t channels,
                 float *to);

void cpu_fill_conv(struct conv_ops *ops);
double cpu_peak(struct device *device, enum dtype dtype);
void cpu_fill_norm(struct norm_ops *ops);
void cpu_fill_pointwise(struct pointwise_ops *ops);
void cpu_fill_bias_grad(struct pointwise_ops *ops); // with the norms, whose sums it is
void cpu_fill_resample(struct resample_ops *ops);
void cpu_fill_image(struct image_ops *ops);
void cpu_fill_optimizer(struct optimizer_ops *ops);
void cpu_fill_survey(struct survey_ops *ops);

#endif
