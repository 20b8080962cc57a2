/* cpu_norm.c - batch norm: fused passes over rows of pixels, on all threads. The vectors
 * of channels (finalize, commit) are ref's: they are short. */
#include "kernels/cpu/backend.h"

static size_t pixel_rows(const struct tensor *t)
{
    return (size_t)t->shape.n * (size_t)t->shape.h * (size_t)t->shape.w;
}

static void check_pair(const struct tensor *a, const struct tensor *b)
{
    char first[SHAPE_TEXT], second[SHAPE_TEXT];
    CHECK(shape_equal(a->shape, b->shape), "%s and %s", shape_text(a->shape, first),
          shape_text(b->shape, second));
    CHECK(a->c_stored == a->shape.c && b->c_stored == b->shape.c, "padded to %d and %d",
          a->c_stored, b->c_stored);
}

struct norm_job {
    const struct isa *isa;
    struct norm_rows rows; // all of them; a task takes its part
    struct reduce_parts parts;
    float *sums; // [parts][2][channels]
    int has_squares;
};

static struct norm_job norm_job(struct device *device, const struct tensor *x)
{
    struct norm_job job = {.isa = cpu_backend(device)->isa,
                           .rows = {.x = x->data,
                                    .x_dtype = x->dtype,
                                    .row_count = pixel_rows(x),
                                    .channels = (size_t)x->shape.c},
                           .sums = cpu_backend(device)->reduce};
    job.parts = cpu_reduce_parts(job.rows.row_count, job.rows.channels);
    return job;
}

static struct norm_rows part_rows(const struct norm_job *job, size_t task)
{
    struct norm_rows rows = job->rows;
    rows.row_first = task * job->parts.rows;
    rows.row_count -= rows.row_first;
    if (rows.row_count > job->parts.rows)
        rows.row_count = job->parts.rows;
    return rows;
}

/* Where a reducing task writes its sums; the second vector follows the first. */
static float *part_sums(const struct norm_job *job, size_t task)
{
    return job->sums + task * 2 * job->rows.channels;
}

static void combine(const struct norm_job *job, float *first, float *second)
{
    size_t channels = job->rows.channels;
    cpu_combine(job->sums, job->parts.count, 2 * channels, channels, first);
    if (second)
        cpu_combine(job->sums + channels, job->parts.count, 2 * channels, channels,
                    second);
}

static void stats_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct norm_job *job = job_pointer;
    struct norm_rows rows = part_rows(job, task);
    float *sum = part_sums(job, task);
    job->isa->channel_sums(&rows, sum, job->has_squares ? sum + rows.channels : NULL);
}

static void cpu_norm_stats(struct device *device, const struct tensor *x, float *sum,
                           float *sumsq)
{
    check_pair(x, x);
    struct norm_job job = norm_job(device, x);
    job.has_squares = 1;
    cpu_parallel(device, job.parts.count, stats_task, &job);
    combine(&job, sum, sumsq);
}

static void cpu_pointwise_bias_grad(struct device *device, const struct tensor *dy,
                                    float *grad, int accumulate)
{
    check_pair(dy, dy);
    struct norm_job job = norm_job(device, dy);
    cpu_parallel(device, job.parts.count, stats_task, &job);
    float *total = job.sums + job.rows.channels; // free: there are no squares
    combine(&job, total, NULL);
    for (size_t c = 0; c < job.rows.channels; c++)
        grad[c] = (accumulate ? grad[c] : 0.0f) + total[c];
}

static void forward_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct norm_job *job = job_pointer;
    struct norm_rows rows = part_rows(job, task);
    job->isa->norm_forward(&rows);
}

static void cpu_norm_act_forward(struct device *device, const struct tensor *x,
                                 const struct norm_vectors *v, enum activation activation,
                                 float slope, struct tensor *y)
{
    check_pair(x, y);
    struct norm_job job = norm_job(device, x);
    job.rows.vectors = v;
    job.rows.out = y->data;
    job.rows.out_dtype = y->dtype;
    job.rows.activation = activation;
    job.rows.slope = slope;
    cpu_parallel(device, job.parts.count, forward_task, &job);
}

static struct norm_job backward_job(struct device *device, const struct tensor *dy,
                                    const struct tensor *x, const struct norm_vectors *v,
                                    enum activation activation, float slope)
{
    check_pair(x, dy);
    struct norm_job job = norm_job(device, x);
    job.rows.vectors = v;
    job.rows.dy = dy->data;
    job.rows.dy_dtype = dy->dtype;
    job.rows.activation = activation;
    job.rows.slope = slope;
    return job;
}

static void reduce_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct norm_job *job = job_pointer;
    struct norm_rows rows = part_rows(job, task);
    float *sum = part_sums(job, task);
    job->isa->norm_reduce(&rows, sum, sum + rows.channels);
}

static void cpu_norm_act_reduce(struct device *device, const struct tensor *dy,
                                const struct tensor *x, const struct norm_vectors *v,
                                enum activation activation, float slope)
{
    struct norm_job job = backward_job(device, dy, x, v, activation, slope);
    cpu_parallel(device, job.parts.count, reduce_task, &job);
    combine(&job, v->sum_dz, v->sum_dz_xhat);
}

static void dgrad_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct norm_job *job = job_pointer;
    struct norm_rows rows = part_rows(job, task);
    job->isa->norm_dgrad(&rows);
}

static void cpu_norm_act_dgrad(struct device *device, const struct tensor *dy,
                               const struct tensor *x, const struct norm_vectors *v,
                               enum activation activation, float slope, int64_t count,
                               struct tensor *dx)
{
    check_pair(x, dx);
    struct norm_job job = backward_job(device, dy, x, v, activation, slope);
    job.rows.out = dx->data;
    job.rows.out_dtype = dx->dtype;
    job.rows.inv_count = (float)(1.0 / (double)count);
    cpu_parallel(device, job.parts.count, dgrad_task, &job);
}

void cpu_fill_norm(struct norm_ops *ops)
{
    ops->stats = cpu_norm_stats;
    ops->act_forward = cpu_norm_act_forward;
    ops->act_reduce = cpu_norm_act_reduce;
    ops->act_dgrad = cpu_norm_act_dgrad;
}

void cpu_fill_bias_grad(struct pointwise_ops *ops)
{
    ops->bias_grad = cpu_pointwise_bias_grad;
}
