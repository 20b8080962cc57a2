#include "kernels/cuda/plan_tune.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdlib.h>

#define RUNS 7

/* Memory for every tensor of the graph, and what measures. */
struct bench {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    void *blocks[PLAN_TENSORS_MAX + 2]; // one of them the workspace
    int count, has_failed;
};

static void keep(struct bench *bench, cudaError_t error)
{
    if (error != cudaSuccess)
        bench->has_failed = 1;
}

static void *block(struct bench *bench, size_t bytes)
{
    void *made = NULL;
    if (bench->has_failed || bytes == 0)
        return NULL;
    keep(bench, cudaMalloc(&made, bytes));
    if (bench->has_failed)
        return NULL;
    bench->blocks[bench->count++] = made;
    keep(bench, cudaMemset(made, 0, bytes));
    return made;
}

static size_t elements(struct shape s)
{
    return (size_t)s.n * (size_t)s.h * (size_t)s.w * (size_t)s.c;
}

static struct plan_pointers tensors_of(struct bench *bench, const struct plan_desc *d)
{
    struct shape w = {d->y.c, d->kernel, d->kernel, d->x.c};
    struct shape out = d->pass == PLAN_FORWARD ? d->y : d->x;
    size_t vector = (size_t)out.c * sizeof(float);
    struct plan_pointers at = {.x = block(bench, elements(d->x) * sizeof(float)),
                               .w = block(bench, elements(w) * sizeof(float)),
                               .y = block(bench, elements(d->y) * sizeof(float))};
    at.bias = block(bench, d->has_bias ? vector : 0);
    at.undo = block(bench, d->undoes ? elements(out) * sizeof(float) : 0);
    at.sum = block(bench, d->makes_sums ? vector : 0);
    at.sumsq = block(bench, d->makes_sums ? vector : 0);
    return at;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// The first run is not counted: it loads the kernel.
static float median_ms(struct bench *bench, cudnnHandle_t handle, struct cuda_plan *plan,
                       const struct plan_pointers *at, void *workspace)
{
    float ms[RUNS];
    for (int run = -1; run < RUNS && !bench->has_failed; run++) {
        keep(bench, cudaEventRecord(bench->begin, bench->stream));
        if (plan_run(handle, plan, at, workspace))
            bench->has_failed = 1;
        keep(bench, cudaEventRecord(bench->end, bench->stream));
        keep(bench, cudaEventSynchronize(bench->end));
        if (run >= 0)
            keep(bench, cudaEventElapsedTime(&ms[run], bench->begin, bench->end));
    }
    if (bench->has_failed)
        return 0.0f;
    qsort(ms, RUNS, sizeof *ms, by_size);
    return ms[RUNS / 2];
}

static int fastest(struct bench *bench, cudnnHandle_t handle, struct cuda_plan *plans,
                   int count, const struct plan_pointers *at, void *workspace)
{
    int best = 0;
    float best_ms = 0.0f;
    for (int i = 0; i < count && !bench->has_failed; i++) {
        float ms = median_ms(bench, handle, &plans[i], at, workspace);
        if (i == 0 || ms < best_ms) {
            best = i;
            best_ms = ms;
        }
    }
    return bench->has_failed ? 0 : best;
}

int plan_tune(struct cudnnContext *handle, struct cuda_plan *plans, int count)
{
    struct bench bench = {.stream = NULL};
    int64_t workspace_bytes = 0;
    for (int i = 0; i < count; i++)
        if (plans[i].workspace_bytes > workspace_bytes)
            workspace_bytes = plans[i].workspace_bytes;
    if (cudnnGetStream(handle, &bench.stream) != CUDNN_STATUS_SUCCESS)
        return 0;
    keep(&bench, cudaEventCreate(&bench.begin));
    keep(&bench, cudaEventCreate(&bench.end));
    struct plan_pointers at = tensors_of(&bench, &plans[0].desc);
    void *workspace = block(&bench, (size_t)workspace_bytes);
    keep(&bench, cudaDeviceSynchronize()); // the zeros are there
    int best = fastest(&bench, handle, plans, count, &at, workspace);
    for (int i = 0; i < bench.count; i++)
        cudaFree(bench.blocks[i]);
    if (bench.begin)
        cudaEventDestroy(bench.begin);
    if (bench.end)
        cudaEventDestroy(bench.end);
    cudaGetLastError(); // a failed measurement is no fault of the run
    return best;
}
