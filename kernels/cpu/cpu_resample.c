/* cpu_resample.c - resample_ops, by lines of the output. */
#include "kernels/cpu/backend.h"

enum { LINES = 4 }; // of a task

struct resample_job {
    struct resample_lines lines; // of everything; a task takes its own
    void (*run)(const struct resample_lines *lines);
};

static void resample_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct resample_job *job = job_pointer;
    struct resample_lines own = job->lines;
    own.first = task * LINES;
    own.count =
        job->lines.count - own.first < LINES ? job->lines.count - own.first : LINES;
    job->run(&own);
}

// Padding is zero and stays zero, so all stored channels are taken.
static void run(struct device *device, const struct tensor *x, float factor,
                struct tensor *y, int k, void (*body)(const struct resample_lines *lines))
{
    CHECK(x->c_stored == y->c_stored && x->n_stored == y->n_stored);
    struct resample_job job = {
        .run = body,
        .lines = {.x = x->data,
                  .y = y->data,
                  .x_dtype = x->dtype,
                  .y_dtype = y->dtype,
                  .count = (size_t)y->n_stored * (size_t)y->shape.h,
                  .width = (size_t)y->shape.w,
                  .channels = (size_t)y->c_stored,
                  .k = (size_t)k,
                  .factor = factor}};
    cpu_parallel(device, (job.lines.count + LINES - 1) / LINES, resample_task, &job);
}

static void cpu_resample_down(struct device *device, const struct tensor *x, float factor,
                              struct tensor *y)
{
    run(device, x, factor, y, shape_ratio("resample.down", x->shape, y->shape),
        cpu_backend(device)->isa->resample_down);
}

static void cpu_resample_up(struct device *device, const struct tensor *x, float factor,
                            struct tensor *y)
{
    run(device, x, factor, y, shape_ratio("resample.up", y->shape, x->shape),
        cpu_backend(device)->isa->resample_up);
}

void cpu_fill_resample(struct resample_ops *ops)
{
    *ops = (struct resample_ops){.down = cpu_resample_down, .up = cpu_resample_up};
}
