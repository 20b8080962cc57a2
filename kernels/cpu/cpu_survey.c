/* cpu_survey.c - what pieces of memory hold: a look at parts of them, on all threads. */
#include "kernels/cpu/backend.h"

enum { PARTS = 64, PART_LEAST = 4096 }; // of a span, and the elements of a part

struct survey_job {
    const struct isa *isa;
    struct survey_span span;
    size_t part; // elements
    struct survey_stats stats[PARTS];
};

static void look_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct survey_job *job = job_pointer;
    size_t first = task * job->part, rest = job->span.n - first;
    size_t offset = first * dtype_bytes(job->span.dtype);
    struct survey_span part = {.data = (const char *)job->span.data + offset,
                               .n = rest < job->part ? rest : job->part,
                               .dtype = job->span.dtype};
    job->isa->survey(&part, &job->stats[task]);
}

static struct survey_stats sum_of(const struct survey_stats *parts, size_t count)
{
    struct survey_stats sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.sum += parts[i].sum;
        sum.sumsq += parts[i].sumsq;
        sum.inf += parts[i].inf;
        sum.nan += parts[i].nan;
        sum.zero += parts[i].zero;
        sum.subnormal += parts[i].subnormal;
        if (parts[i].max_abs > sum.max_abs)
            sum.max_abs = parts[i].max_abs;
    }
    return sum;
}

static void cpu_survey_survey(struct device *device, const struct survey_span *spans,
                              int count, const struct scaler_state *gate,
                              struct survey_stats *stats)
{
    if (gate && !scaler_must_skip(gate))
        return;
    struct survey_job job = {.isa = cpu_backend(device)->isa};
    for (int i = 0; i < count; i++) {
        size_t n = spans[i].n, part = (n + PARTS - 1) / PARTS;
        job.span = spans[i];
        job.part = part < PART_LEAST ? PART_LEAST : part;
        size_t parts = (n + job.part - 1) / job.part;
        cpu_parallel(device, parts, look_task, &job);
        stats[i] = sum_of(job.stats, parts);
    }
}

void cpu_fill_survey(struct survey_ops *ops)
{
    ops->survey = cpu_survey_survey;
}
