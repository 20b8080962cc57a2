/* cpu_pointwise.c - flat sweeps, cut into pieces that fit a core's cache. */
#include "kernels/cpu/backend.h"

enum { PIECE = 16384 }; // elements of a task

struct sweep_job {
    struct sweep sweep; // of everything; a task takes its piece
    void (*run)(const struct sweep *sweep);
};

static void sweep_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct sweep_job *job = job_pointer;
    struct sweep piece = job->sweep;
    piece.first = task * PIECE;
    piece.count -= piece.first;
    if (piece.count > PIECE)
        piece.count = PIECE;
    job->run(&piece);
}

static void sweep_run(struct device *device, struct sweep sweep,
                      void (*run)(const struct sweep *sweep))
{
    struct sweep_job job = {sweep, run};
    cpu_parallel(device, (sweep.count + PIECE - 1) / PIECE, sweep_task, &job);
}

/* Padding is zero and every activation keeps zero, so sweeps run over all that is stored.
 */
static void check_same(const struct tensor *a, const struct tensor *b)
{
    char first[SHAPE_TEXT], second[SHAPE_TEXT];
    CHECK(shape_equal(a->shape, b->shape) && a->c_stored == b->c_stored &&
              a->n_stored == b->n_stored,
          "%s and %s", shape_text(a->shape, first), shape_text(b->shape, second));
}

static void cpu_pointwise_act_forward(struct device *device, const struct tensor *x,
                                      enum activation activation, float slope,
                                      struct tensor *y)
{
    check_same(x, y);
    struct sweep sweep = {.a = x->data,
                          .a_dtype = x->dtype,
                          .out = y->data,
                          .out_dtype = y->dtype,
                          .count = tensor_stored(x),
                          .activation = activation,
                          .slope = slope};
    sweep_run(device, sweep, cpu_backend(device)->isa->activate);
}

static void cpu_pointwise_act_backward(struct device *device, const struct tensor *dy,
                                       const struct tensor *y, enum activation activation,
                                       float slope, struct tensor *dx)
{
    check_same(dy, y);
    check_same(dy, dx);
    struct sweep sweep = {.a = dy->data,
                          .a_dtype = dy->dtype,
                          .b = y->data,
                          .b_dtype = y->dtype,
                          .out = dx->data,
                          .out_dtype = dx->dtype,
                          .count = tensor_stored(dy),
                          .activation = activation,
                          .slope = slope};
    sweep_run(device, sweep, cpu_backend(device)->isa->activate_backward);
}

static void cpu_pointwise_cast(struct device *device, const struct tensor *from,
                               struct tensor *to)
{
    check_same(from, to);
    struct sweep sweep = {.a = from->data,
                          .a_dtype = from->dtype,
                          .out = to->data,
                          .out_dtype = to->dtype,
                          .count = tensor_stored(from)};
    sweep_run(device, sweep, cpu_backend(device)->isa->cast);
}

static void cpu_pointwise_add_tensors(struct device *device, const struct tensor *a,
                                      const struct tensor *b, struct tensor *y)
{
    check_same(a, b);
    check_same(a, y);
    struct sweep sweep = {.a = a->data,
                          .a_dtype = a->dtype,
                          .b = b->data,
                          .b_dtype = b->dtype,
                          .out = y->data,
                          .out_dtype = y->dtype,
                          .count = tensor_stored(a)};
    sweep_run(device, sweep, cpu_backend(device)->isa->add_tensors);
}

struct add_job {
    const struct isa *isa;
    float *to;
    const float *from;
    size_t n;
};

static void add_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct add_job *job = job_pointer;
    size_t first = task * PIECE;
    size_t n = job->n - first < PIECE ? job->n - first : PIECE;
    job->isa->add(job->to + first, job->from + first, n);
}

static void cpu_pointwise_add(struct device *device, float *to, const float *from,
                              size_t n)
{
    struct add_job job = {cpu_backend(device)->isa, to, from, n};
    cpu_parallel(device, (n + PIECE - 1) / PIECE, add_task, &job);
}

void cpu_fill_pointwise(struct pointwise_ops *ops)
{
    ops->act_forward = cpu_pointwise_act_forward;
    ops->act_backward = cpu_pointwise_act_backward;
    ops->cast = cpu_pointwise_cast;
    ops->add_tensors = cpu_pointwise_add_tensors;
    ops->add = cpu_pointwise_add;
    cpu_fill_bias_grad(ops);
}
