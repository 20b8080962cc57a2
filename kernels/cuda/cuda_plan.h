/* cuda_plan.h - one execution plan of cuDNN: a convolution pass and what is fused to it.
 * Flow:  conv_plans.c says what a layer needs -> [plan_build] -> cuda_conv.c runs it.
 * Owns:  the plan and a few variant packs (the pointers of one call, in cuDNN's words).
 *        Borrows: the handle, the device description.
 *
 * A thin layer over the graph API of cuDNN 9, whose C interface is all descriptors and
 * attributes: describe tensors and operations, ask the heuristics for engine
 * configurations, take the first that passes the filters, finalize it. A plan that was
 * built once is kept on disk (plan_cache.h) and needs neither heuristics nor compiler
 * again.
 *
 * Plans are built for a handle, that is for the GPU of this process, or, without any GPU,
 * for a description of one: then `handle` is NULL, and all but plan_run() works.
 * Source: NVIDIA, cuDNN documentation, "Graph API" and "Deviceless ahead-of-time
 * compilation". */
#ifndef KERNELS_CUDA_CUDA_PLAN_H
#define KERNELS_CUDA_CUDA_PLAN_H

#include <stdint.h>

#include "kernels/ops.h"

struct cudnnContext; // cudnnHandle_t

enum plan_pass { PLAN_FORWARD, PLAN_DGRAD, PLAN_WGRAD };

/* One graph: the pass of a square convolution (conv_desc's formula), then what follows
 * it: bias, activation and sums, or the gradient of an activation, as conv_epilogue says.
 * Shapes and channels are the stored ones. */
struct plan_desc {
    enum plan_pass pass;
    struct shape x, y;
    int kernel, stride, pad;
    enum dtype dtype;     // of what the convolution reads
    enum dtype out_dtype; // of what the graph writes: y, x or dw
    int has_bias, makes_sums;
    enum activation activation; // or, with undoes, the one whose gradient it is
    float slope;
    int undoes;
};

/* For whom plans are built, and what they must keep to. */
struct plan_maker {
    struct cudnnContext *handle; // or NULL:
    void *devprop;               // a finalized device description of cuDNN's
    char device[128];            // name and compute capability, for the cache's key

    int is_deterministic; // refuse engines that may give other bits the next time
    int allows_tf32;      // f32 may use tensor cores
    int tunes;            // time the first candidates; needs a handle
    int64_t workspace_max;
    const char *cache_folder; // NULL: nothing is kept on disk

    // What happened so far.
    int built, reloaded; // plans
    char reason[512];    // cuDNN's words on the last candidate that failed
};

/* The tensors of one call; what the graph has no use for is ignored. */
struct plan_pointers {
    const void *x, *w, *y; // one of them is the output
    const void *bias, *undo;
    float *sum, *sumsq;
};

#define PLAN_TENSORS_MAX 6
#define PLAN_PACKS 8

struct plan_pack {
    void *pack; // cudnnBackendDescriptor_t, or NULL
    void *pointers[PLAN_TENSORS_MAX];
    void *workspace;
};

struct cuda_plan {
    struct plan_desc desc;
    void *plan; // cudnnBackendDescriptor_t; NULL: there is none
    int64_t workspace_bytes;
    int engine;
    unsigned numerical_notes, behavior_notes; // bit i: note i of cuDNN's enum
    int is_reloaded;
    // The calls of a step are the same every step, so their packs are made in the first.
    struct plan_pack packs[PLAN_PACKS];
    int next_pack;
};

/* What the notes say. */
int plan_uses_tensor_cores(const struct cuda_plan *plan);
int plan_is_deterministic(const struct cuda_plan *plan);
int plan_is_compiled_at_run_time(const struct cuda_plan *plan);

/* "fwd 64x32x32x8 to 64x16x16x64 k4 s2 p1 f16 bias leaky": graph, in one line. */
#define PLAN_TEXT 192
const char *plan_text(const struct plan_desc *desc, char text[PLAN_TEXT]);

/* Fills *plan and returns 1, or returns 0 where cuDNN has no plan for this graph within
 * the filters; maker->reason says why the last candidate failed. With wants_tensor_cores
 * an engine without them is none. */
int plan_build(struct plan_maker *maker, const struct plan_desc *desc,
               int wants_tensor_cores, struct cuda_plan *plan);
void plan_release(struct cuda_plan *plan);

/* Queues the plan on the handle's stream. NULL, or cuDNN's reason; valid until the next
 * call on this thread. `workspace` has plan->workspace_bytes. */
const char *plan_run(struct cudnnContext *handle, struct cuda_plan *plan,
                     const struct plan_pointers *at, void *workspace);

/* A device description from cuDNN's JSON, for plan_maker.devprop; NULL if it is none. */
void *plan_devprop(const char *json, size_t bytes);
void plan_devprop_release(void *devprop);

/* ---- for plan_cache.c and plan_tune.c -------------------------------------------- */

/* cuDNN's own JSON of a finalized plan, on the heap, and back. NULL or 0 on failure. */
char *plan_to_json(const struct cuda_plan *plan, size_t *bytes);
int plan_from_json(struct plan_maker *maker, const char *json, size_t bytes,
                   struct cuda_plan *plan);

#endif
