/* cpu_optimizer.c - one sweep over a net's flat blocks per op, cut among threads. */
#include <math.h>

#include "kernels/cpu/backend.h"

enum { PIECE = 32768 }; // elements of a task

/* Elements [first, first + count) of the task. */
struct piece {
    size_t first, count;
};

static struct piece piece_of(size_t n, size_t task)
{
    size_t first = task * PIECE;
    return (struct piece){first, n - first < PIECE ? n - first : PIECE};
}

static size_t pieces(size_t n)
{
    return (n + PIECE - 1) / PIECE;
}

struct flat_job {
    const struct isa *isa;
    float *to;
    const float *from;
    size_t n;
    float factor;
    unsigned found; // or-ed by every task
    struct adam_sweep adam;
    int is_skipped; // of Adam: only the average moves
};

static void check_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct flat_job *job = job_pointer;
    struct piece piece = piece_of(job->n, task);
    unsigned found =
        job->isa->grads_check(job->from + piece.first, piece.count, job->factor);
    if (found)
        __atomic_fetch_or(&job->found, found, __ATOMIC_RELAXED);
}

static void cpu_optimizer_grads_check(struct device *device, const float *grads, size_t n,
                                      struct scaler_state *state)
{
    struct flat_job job = {.isa = cpu_backend(device)->isa,
                           .from = grads,
                           .n = n,
                           .factor = scaler_inverse(state)};
    cpu_parallel(device, pieces(n), check_task, &job);
    if (job.found & 1u)
        state->found_inf = 1.0f;
    if (job.found & 2u)
        state->found_inf_unscaled = 1.0f;
}

static void scale_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct flat_job *job = job_pointer;
    struct piece piece = piece_of(job->n, task);
    job->isa->scale(job->to + piece.first, piece.count, job->factor);
}

static void cpu_optimizer_grads_unscale(struct device *device, float *grads, size_t n,
                                        const struct scaler_state *state)
{
    struct flat_job job = {.isa = cpu_backend(device)->isa,
                           .to = grads,
                           .n = n,
                           .factor = scaler_inverse(state)};
    cpu_parallel(device, pieces(n), scale_task, &job);
}

/* ---- clipping -------------------------------------------------------------------- */

enum { NORM_PARTS = 256 }; // at most; each of whole PIECEs

struct norm_job {
    const float *from;
    size_t n, part; // elements of a part
    double sum[NORM_PARTS];
};

// Eight sums beside each other, which is what a vector register of doubles holds.
static void norm_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct norm_job *job = job_pointer;
    size_t first = task * job->part;
    size_t count = job->n - first < job->part ? job->n - first : job->part;
    const float *from = job->from + first;
    double sum[8] = {0}, rest = 0.0;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t lane = 0; lane < 8; lane++)
            sum[lane] += (double)from[i + lane] * (double)from[i + lane];
    for (; i < count; i++)
        rest += (double)from[i] * (double)from[i];
    for (size_t lane = 0; lane < 8; lane++)
        rest += sum[lane];
    job->sum[task] = rest;
}

static void cpu_optimizer_grads_norm(struct device *device, const float *grads, size_t n,
                                     float *norm)
{
    size_t part = (pieces(n) + NORM_PARTS - 1) / NORM_PARTS * PIECE;
    size_t parts = part ? (n + part - 1) / part : 0;
    struct norm_job job = {.from = grads, .n = n, .part = part};
    double sum = 0.0;
    cpu_parallel(device, parts, norm_task, &job);
    for (size_t i = 0; i < parts; i++)
        sum += job.sum[i];
    *norm = norm_of_sum(sqrt(sum));
}

static void cpu_optimizer_grads_clip(struct device *device, float *grads, size_t n,
                                     float max_norm, const float *norm)
{
    struct flat_job job = {.isa = cpu_backend(device)->isa,
                           .to = grads,
                           .n = n,
                           .factor = clip_factor(*norm, max_norm)};
    if (job.factor != 1.0f)
        cpu_parallel(device, pieces(n), scale_task, &job);
}

/* ---- Adam ------------------------------------------------------------------------ */

static void adam_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct flat_job *job = job_pointer;
    struct piece piece = piece_of(job->n, task);
    struct adam_sweep sweep = job->adam;
    const struct adam_args *args = sweep.args;
    sweep.first = piece.first;
    sweep.count = piece.count;
    if (!job->is_skipped)
        job->isa->adam(&sweep);
    if (args->ema) // while this piece of the weights is in the cache
        job->isa->ema(args->ema + piece.first, args->params + piece.first, piece.count,
                      *args->ema_decay);
}

static void cpu_optimizer_adam_step(struct device *device, const struct adam_args *args,
                                    int is_unscaled, struct scaler_state *state)
{
    int is_skipped = scaler_must_skip(state);
    if (is_skipped && !args->ema)
        return;
    double t = (double)(state->adam_t + 1);
    double correction1 = 1.0 - pow((double)args->beta1, t);
    double correction2 = 1.0 - pow((double)args->beta2, t);
    struct flat_job job = {
        .isa = cpu_backend(device)->isa,
        .n = args->n,
        .is_skipped = is_skipped,
        .adam = {.args = args,
                 .inverse_scale = is_unscaled ? 1.0f : scaler_inverse(state),
                 .step_size = (float)((double)args->lr / correction1),
                 .root_v_scale = (float)sqrt(correction2)},
    };
    cpu_parallel(device, pieces(args->n), adam_task, &job);
    state->adam_t += !is_skipped;
}

struct copy_job {
    const struct isa *isa;
    struct sweep sweep;
};

static void copy_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct copy_job *job = job_pointer;
    struct sweep sweep = job->sweep;
    struct piece piece = piece_of(sweep.count, task);
    sweep.first = piece.first;
    sweep.count = piece.count;
    job->isa->cast(&sweep);
}

static void cpu_optimizer_half_copy(struct device *device, const float *params,
                                    void *half, enum dtype half_dtype, size_t n)
{
    struct copy_job job = {.isa = cpu_backend(device)->isa,
                           .sweep = {.a = params,
                                     .a_dtype = DTYPE_F32,
                                     .out = half,
                                     .out_dtype = half_dtype,
                                     .count = n}};
    cpu_parallel(device, pieces(n), copy_task, &job);
}

void cpu_fill_optimizer(struct optimizer_ops *ops)
{
    ops->grads_check = cpu_optimizer_grads_check;
    ops->grads_unscale = cpu_optimizer_grads_unscale;
    ops->adam_step = cpu_optimizer_adam_step;
    ops->half_copy = cpu_optimizer_half_copy;
    ops->grads_norm = cpu_optimizer_grads_norm;
    ops->grads_clip = cpu_optimizer_grads_clip;
}
