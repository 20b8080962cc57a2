/* cuda_conv.c - the convolution ops of a GPU: plans of cuDNN, or cuBLAS for dense layers.
 *
 * cuda_conv_prepare() builds every plan that the layer will need, so that a step only
 * queues them. Where a plan does not do the whole epilogue, cuda_epilogue() does what is
 * left, in place. */
#include <cublas_v2.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/conv_check.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/conv_plans.h"
#include "kernels/cuda/cuda_dense.h"
#include "kernels/cuda/plan_cache.h"

enum { BF16_NEEDED = 80 }; // compute capability, times ten

struct conv_plan {
    struct conv_desc desc;
    struct shape x, y; // as stored
    int is_dense;
    struct conv_plans plans; // unless dense
    char text[PLAN_TEXT];    // for sentences
};

static size_t elements(struct shape s)
{
    return (size_t)s.n * (size_t)s.h * (size_t)s.w * (size_t)s.c;
}

static size_t weights(const struct conv_plan *plan)
{
    size_t taps = (size_t)plan->desc.kernel * (size_t)plan->desc.kernel;
    return (size_t)plan->y.c * taps * (size_t)plan->x.c;
}

static struct shape stored(const struct device *device, struct shape shape)
{
    shape.c = device_tensor(device, DTYPE_F32, shape, 0).c_stored;
    return shape;
}

/* ---- setup: plans and memory ----------------------------------------------------- */

static enum status check_dtype(const struct device *device, enum dtype dtype)
{
    int has = cuda_backend(device)->compute_capability;
    if (dtype != DTYPE_BF16 || has >= BF16_NEEDED)
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT,
                       "%s: bf16 needs compute capability %d.%d or newer, this GPU has "
                       "%d.%d; give --precision fp16 or fp32",
                       device->name, BF16_NEEDED / 10, BF16_NEEDED % 10, has / 10,
                       has % 10);
}

static void cuda_conv_release(struct device *device, struct conv_plan *plan)
{
    (void)device;
    if (!plan)
        return;
    conv_plans_release(&plan->plans);
    free(plan);
}

static enum status build_plans(struct device *device, struct conv_plan *plan)
{
    const struct cuda_backend *backend = cuda_backend(device);
    struct cudaDeviceProp properties;
    char folder[PLAN_CACHE_PATH / 2];
    cudaError_t error = cudaGetDeviceProperties(&properties, backend->index);
    if (error != cudaSuccess)
        return status_fail(STATUS_ENVIRONMENT,
                           "%s: the driver does not describe this GPU (%s); does "
                           "nvidia-smi show it?",
                           device->name, cudaGetErrorString(error));
    struct plan_maker maker = {.handle = backend->cudnn,
                               .is_deterministic = backend->options.is_deterministic,
                               .allows_tf32 = backend->options.allows_tf32,
                               .tunes = backend->options.tunes_plans,
                               .workspace_max = CONV_WORKSPACE_MAX,
                               .cache_folder = plan_cache_folder(folder, sizeof folder)};
    snprintf(maker.device, sizeof maker.device, "%.100s %d.%d", properties.name,
             properties.major, properties.minor);
    return conv_plans_build(&maker, &plan->desc, device->channel_multiple, &plan->plans);
}

// A product in f32 on its way to a half output, which bias and activation still change.
static size_t dense_scratch_bytes(const struct conv_plan *plan)
{
    const struct conv_desc *d = &plan->desc;
    int has_steps = d->has_bias || d->activation != ACTIVATION_NONE;
    if (!has_steps || d->out_dtype == DTYPE_F32)
        return 0;
    return elements(d->is_transposed ? plan->x : plan->y) * sizeof(float);
}

static enum status grow(struct device *device, struct conv_plan *plan)
{
    struct cuda_backend *backend = cuda_backend(device);
    char what[PLAN_TEXT + 32];
    size_t workspace = plan->is_dense ? dense_workspace_bytes(backend->compute_capability)
                                      : (size_t)conv_plans_workspace(&plan->plans);
    size_t scratch = plan->is_dense ? dense_scratch_bytes(plan) : 0;
    size_t dw =
        plan->desc.is_inference ? 0 : weights(plan) * dtype_bytes(plan->desc.dtype);
    if (dw > scratch)
        scratch = dw;
    snprintf(what, sizeof what, "workspace of %s", plan->text);
    TRY(cuda_grow(device, &backend->workspace, &backend->workspace_bytes, workspace,
                  what));
    snprintf(what, sizeof what, "scratch memory of %s", plan->text);
    TRY(cuda_grow(device, &backend->scratch, &backend->scratch_bytes, scratch, what));
    if (!backend->workspace)
        return STATUS_OK;
    // The block may be a new one, whoever made it grow.
    const char *failure =
        dense_bind(backend->cublas, backend->workspace, backend->workspace_bytes);
    if (failure)
        return status_fail(STATUS_FAILED, "%s: cuBLAS refuses its workspace (%s)",
                           device->name, failure);
    return STATUS_OK;
}

static enum status cuda_conv_prepare(struct device *device, const struct conv_desc *desc,
                                     struct conv_plan **result)
{
    *result = NULL;
    TRY(conv_check(desc));
    TRY(check_dtype(device, desc->dtype));
    struct conv_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return status_fail(STATUS_FAILED, "no memory for the plan of a convolution");
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    plan->desc = *desc;
    plan->x = stored(device, desc->x);
    plan->y = stored(device, desc->y);
    plan->is_dense = dense_fits(desc);
    snprintf(plan->text, sizeof plan->text, "a convolution of %s to %s",
             shape_text(desc->x, x), shape_text(desc->y, y));
    enum status status = plan->is_dense ? STATUS_OK : build_plans(device, plan);
    if (status == STATUS_OK)
        status = grow(device, plan);
    if (status != STATUS_OK) {
        cuda_conv_release(device, plan);
        return status;
    }
    *result = plan;
    return STATUS_OK;
}

/* ---- a pass ---------------------------------------------------------------------- */

/* What one call works on. */
struct call {
    struct device *device;
    struct conv_plan *plan;
    const char *op; // "conv.forward"
    enum plan_pass pass;
    const struct tensor *x, *w, *y;
};

static void check_tensor(const char *what, const struct tensor *t, struct shape shape,
                         struct shape in_memory)
{
    char got[SHAPE_TEXT], want[SHAPE_TEXT];
    CHECK(shape_equal(t->shape, shape), "%s is %s, the plan's is %s", what,
          shape_text(t->shape, got), shape_text(shape, want));
    CHECK(t->c_stored == in_memory.c, "%s stores %d channels, the plan %d", what,
          t->c_stored, in_memory.c);
}

static void check_operand(const char *what, const struct tensor *t, enum dtype dtype)
{
    CHECK(t->dtype == dtype, "%s is %s, the plan's is %s", what, dtype_name(t->dtype),
          dtype_name(dtype));
}

static void check_call(const struct call *call)
{
    const struct conv_plan *plan = call->plan;
    const struct conv_desc *d = &plan->desc;
    check_tensor("x", call->x, d->x, plan->x);
    check_tensor("y", call->y, d->y, plan->y);
    if (call->pass != PLAN_FORWARD)
        check_operand("y", call->y, d->dtype);
    if (call->pass != PLAN_DGRAD)
        check_operand("x", call->x, d->dtype);
    if (!call->w)
        return;
    struct shape w = {d->y.c, d->kernel, d->kernel, d->x.c};
    check_tensor("w", call->w, w, plan->x);
    check_operand("w", call->w, d->dtype);
    CHECK(call->w->n_stored == plan->y.c, "w stores %d rows, the plan %d",
          call->w->n_stored, plan->y.c);
}

static void keep_failure(const struct call *call, const char *failure)
{
    if (failure)
        device_set_fault(call->device, "%s of %s: %s", call->op, call->plan->text,
                         failure);
}

// `dw` is where wgrad puts its result, otherwise NULL; `out` is the result of the others.
static void run_dense(const struct call *call, void *out, enum dtype out_dtype)
{
    const struct cuda_backend *backend = cuda_backend(call->device);
    const struct conv_plan *plan = call->plan;
    struct dense_call dense = {
        .pass = call->pass,
        .rows = plan->x.n,
        .features = plan->x.h * plan->x.w * plan->x.c,
        .outputs = plan->y.c,
        .dtype = plan->desc.dtype,
        .out_dtype = out_dtype,
        .allows_tf32 = backend->options.allows_tf32,
        .x = call->pass == PLAN_DGRAD ? out : call->x->data,
        .w = call->pass == PLAN_WGRAD ? out : call->w->data,
        .y = call->pass == PLAN_FORWARD ? out : call->y->data,
    };
    keep_failure(call, dense_run(backend->cublas, &dense));
}

static void run_plan(const struct call *call, struct cuda_plan *plan,
                     const struct conv_epilogue *e, void *dw)
{
    const struct cuda_backend *backend = cuda_backend(call->device);
    struct plan_pointers at = {.x = call->x->data,
                               .w = dw ? dw : call->w->data,
                               .y = call->y->data,
                               .bias = e->bias,
                               .sum = e->sum,
                               .sumsq = e->sumsq,
                               .undo = e->undo ? e->undo->data : NULL};
    CHECK(plan->plan, "%s: its layer said that it would not be asked for", call->op);
    keep_failure(call, plan_run(backend->cudnn, plan, &at, backend->workspace));
}

/* ---- epilogues ------------------------------------------------------------------- */

static int has_steps(const struct conv_epilogue *e)
{
    return e->bias || e->activation != ACTIVATION_NONE;
}

// Aborts unless the layer announced this epilogue.
static enum conv_use use_of(const struct conv_desc *d, int is_own,
                            const struct conv_epilogue *e)
{
    CHECK(!e->sum == !e->sumsq, "sum and sumsq come both or not at all");
    if (!is_own) {
        CHECK(!e->bias && !e->sum, "the other direction has neither bias nor sums");
        CHECK(e->undo ? e->activation == d->input_activation
                      : e->activation == ACTIVATION_NONE,
              "activation %d, planned %d", e->activation, d->input_activation);
        return e->undo ? CONV_OTHER_UNDO : CONV_OTHER;
    }
    CHECK(!e->undo, "a layer's own output undoes no activation");
    if (!has_steps(e) && !e->sum)
        return CONV_OWN_PLAIN;
    CHECK(!e->bias == !d->has_bias && e->activation == d->activation,
          "bias %d, activation %d; planned %d, %d", !!e->bias, e->activation, d->has_bias,
          d->activation);
    CHECK(!e->sum || d->makes_sums, "sums that were not planned");
    return e->sum ? CONV_OWN_SUMS : has_steps(e) ? CONV_OWN : CONV_OWN_PLAIN;
}

/* What is left of an epilogue after `done`; 1 if anything is. */
static int take_rest(const struct conv_epilogue *e, const struct plan_desc *done,
                     struct conv_epilogue *rest)
{
    *rest = *e;
    if (done->has_bias)
        rest->bias = NULL;
    if (done->activation != ACTIVATION_NONE) {
        rest->activation = ACTIVATION_NONE;
        rest->undo = NULL;
    }
    if (done->makes_sums)
        rest->sum = rest->sumsq = NULL;
    return has_steps(rest) || rest->sum != NULL;
}

static void finish_dense(const struct call *call, const struct conv_epilogue *e,
                         struct tensor *out)
{
    struct cuda_backend *backend = cuda_backend(call->device);
    // Bias and activation want the f32 sum; a gradient's factor and sums do not.
    int is_detour = has_steps(e) && !e->undo && out->dtype != DTYPE_F32;
    void *to = is_detour ? backend->scratch : out->data;
    enum dtype dtype = is_detour ? DTYPE_F32 : out->dtype;
    run_dense(call, to, dtype);
    if (has_steps(e) || e->sum)
        cuda_epilogue(call->device, to, dtype, e, out);
}

static void run_pass(const struct call *call, const struct conv_epilogue *epilogue,
                     struct tensor *out)
{
    static const struct conv_epilogue plain = {.activation = ACTIVATION_NONE};
    const struct conv_epilogue *e = epilogue ? epilogue : &plain;
    const struct conv_desc *d = &call->plan->desc;
    int is_own = (call->pass == PLAN_DGRAD) == !!d->is_transposed;
    check_call(call);
    check_operand("out", out, is_own ? d->out_dtype : d->dtype);
    enum conv_use use = use_of(d, is_own, e);
    if (call->plan->is_dense) {
        finish_dense(call, e, out);
        return;
    }
    struct cuda_plan *plan = conv_plans_find(&call->plan->plans, use);
    struct conv_epilogue rest;
    run_plan(call, plan, e, NULL);
    if (take_rest(e, &plan->desc, &rest))
        cuda_epilogue(call->device, out->data, out->dtype, &rest, out);
}

/* ---- the three passes ------------------------------------------------------------ */

static void cuda_conv_forward(struct device *device, struct conv_plan *plan,
                              const struct tensor *x, const struct tensor *w,
                              const struct conv_epilogue *epilogue, struct tensor *y)
{
    struct call call = {device, plan, "conv.forward", PLAN_FORWARD, x, w, y};
    run_pass(&call, epilogue, y);
}

static void cuda_conv_dgrad(struct device *device, struct conv_plan *plan,
                            const struct tensor *dy, const struct tensor *w,
                            const struct conv_epilogue *epilogue, struct tensor *dx)
{
    struct call call = {device, plan, "conv.dgrad", PLAN_DGRAD, dx, w, dy};
    run_pass(&call, epilogue, dx);
}

static void cuda_conv_wgrad(struct device *device, struct conv_plan *plan,
                            const struct tensor *x, const struct tensor *dy, float *grad,
                            int accumulate)
{
    static const struct conv_epilogue none = {.activation = ACTIVATION_NONE};
    struct call call = {device, plan, "conv.wgrad", PLAN_WGRAD, x, NULL, dy};
    void *dw = cuda_backend(device)->scratch;
    check_call(&call);
    if (plan->is_dense)
        run_dense(&call, dw, plan->desc.dtype);
    else
        run_plan(&call, &plan->plans.plans[CONV_WGRAD], &none, dw);
    cuda_add_wgrad(device, dw, plan->desc.dtype, grad, weights(plan), accumulate);
}

/* ---- telling --------------------------------------------------------------------- */

// The plan that a training layer runs in that pass.
static const struct cuda_plan *plan_of(struct conv_plan *plan, enum pass_kind pass)
{
    const struct conv_desc *d = &plan->desc;
    int is_own = (pass == PASS_DGRAD) == !!d->is_transposed;
    if (pass == PASS_WGRAD)
        return &plan->plans.plans[CONV_WGRAD];
    if (is_own)
        return conv_plans_find(&plan->plans, d->makes_sums ? CONV_OWN_SUMS : CONV_OWN);
    return conv_plans_find(&plan->plans, CONV_OTHER_UNDO);
}

static void cuda_conv_describe(struct device *device, struct conv_plan *plan,
                               enum pass_kind pass, struct conv_way *way)
{
    (void)device;
    *way = (struct conv_way){.algorithm = "cuBLAS",
                             .reason = "one matrix product",
                             .multiplications = conv_macs(&plan->desc),
                             .arithmetic = plan->desc.dtype};
    if (plan->is_dense)
        return;
    const struct cuda_plan *chosen = plan_of(plan, pass);
    snprintf(way->algorithm, sizeof way->algorithm, "cuDNN %d", chosen->engine);
    snprintf(way->reason, sizeof way->reason, "%s tensor cores",
             plan_uses_tensor_cores(chosen) ? "on" : "without");
}

static double cuda_conv_peak(struct device *device, enum dtype dtype)
{
    (void)device;
    (void)dtype;
    return 0.0; // no kernel here measures it
}

void cuda_fill_conv(struct conv_ops *ops)
{
    *ops = (struct conv_ops){
        .prepare = cuda_conv_prepare,
        .release = cuda_conv_release,
        .forward = cuda_conv_forward,
        .dgrad = cuda_conv_dgrad,
        .wgrad = cuda_conv_wgrad,
        .describe = cuda_conv_describe,
        .peak = cuda_conv_peak,
    };
}
