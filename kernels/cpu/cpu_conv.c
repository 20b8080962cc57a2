/* cpu_conv.c - the three passes of a convolution as products of packed matrices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv_check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/pass_choice.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/wgrad.h"
#include "kernels/cpu/winograd.h"

struct conv_plan {
    struct conv_desc desc;
    int is_dense; // y is 1x1 and the kernel covers x: one plain matrix product
    struct pass_choice choice[PASS_KINDS];
    // Of each pass the one that was chosen.
    struct product forward, dgrad;
    struct fold fold;
    struct wgrad wgrad;
    struct winograd winograd;
};

static struct window forward_window(const struct conv_desc *d)
{
    return (struct window){.height = d->x.h,
                           .width = d->x.w,
                           .channels = d->x.c,
                           .grid_h = d->y.h,
                           .grid_w = d->y.w,
                           .step = d->stride,
                           .top = -d->pad,
                           .left = -d->pad,
                           .taps_h = d->kernel,
                           .taps_w = d->kernel};
}

static void plan_forward(struct conv_plan *plan, const struct isa *isa)
{
    const struct conv_desc *d = &plan->desc;
    struct product *product = &plan->forward;
    product->phases[0] = (struct phase){
        .window = forward_window(d),
        .rows = (size_t)d->y.n * (size_t)d->y.h * (size_t)d->y.w,
        .depth = d->kernel * d->kernel * d->x.c,
    };
    product->phase_count = 1;
    product->cols = product->channels = d->y.c;
    product->out_h = d->y.h;
    product->out_w = d->y.w;
    product->out_step = 1;
    product->is_turned = 1;
    gemm_plan(product, isa);
}

/* One product with all elements of a sample as columns. */
static void plan_dense_dgrad(struct conv_plan *plan, const struct isa *isa)
{
    const struct conv_desc *d = &plan->desc;
    struct product *product = &plan->dgrad;
    product->cols = d->x.h * d->x.w * d->x.c;
    product->channels = d->x.c;
    product->out_h = product->out_w = product->out_step = 1;
    product->kernel = product->weight_step = 1;
    product->weight_channels = product->cols;
    product->phases[0] = (struct phase){.window = {.height = 1,
                                                   .width = 1,
                                                   .channels = d->y.c,
                                                   .grid_h = 1,
                                                   .grid_w = 1,
                                                   .step = 1,
                                                   .taps_h = 1,
                                                   .taps_w = 1},
                                        .rows = (size_t)d->y.n,
                                        .depth = d->y.c};
    product->phase_count = 1;
    gemm_plan(product, isa);
}

/* Along one axis, the taps that reach input pixels of one parity.
 * Pixel h = first + i*stride is reached by tap r when (h + pad - r) is a multiple of the
 * stride: r = tap_first + t*stride, and then from y pixel (h + pad - tap_first)/stride -
 * t. Read with t descending, those y pixels ascend: a window of `taps` pixels at i +
 * window_first, whose first tap is the last of them. */
struct axis_phase {
    int pixels, taps, last_tap, window_first;
};

static struct axis_phase axis_phase(int first, int size, const struct conv_desc *d)
{
    int tap_first = (first + d->pad) % d->stride;
    struct axis_phase axis = {0};
    axis.pixels = (size - first + d->stride - 1) / d->stride;
    if (tap_first < d->kernel)
        axis.taps = (d->kernel - tap_first + d->stride - 1) / d->stride;
    axis.last_tap = tap_first + (axis.taps - 1) * d->stride;
    axis.window_first = (first + d->pad - tap_first) / d->stride - (axis.taps - 1);
    return axis;
}

static void plan_dgrad(struct conv_plan *plan, const struct isa *isa)
{
    const struct conv_desc *d = &plan->desc;
    struct product *product = &plan->dgrad;
    product->cols = product->channels = product->weight_channels = d->x.c;
    product->out_h = d->x.h;
    product->out_w = d->x.w;
    product->out_step = product->weight_step = d->stride;
    product->kernel = d->kernel;
    for (int top = 0; top < d->stride && top < d->x.h; top++) {
        struct axis_phase h = axis_phase(top, d->x.h, d);
        for (int left = 0; left < d->stride && left < d->x.w; left++) {
            struct axis_phase w = axis_phase(left, d->x.w, d);
            product->phases[product->phase_count++] = (struct phase){
                .window = {.height = d->y.h,
                           .width = d->y.w,
                           .channels = d->y.c,
                           .grid_h = h.pixels,
                           .grid_w = w.pixels,
                           .step = 1,
                           .top = h.window_first,
                           .left = w.window_first,
                           .taps_h = h.taps,
                           .taps_w = w.taps},
                .rows = (size_t)d->x.n * (size_t)h.pixels * (size_t)w.pixels,
                .depth = h.taps * w.taps * d->y.c,
                .out_top = top,
                .out_left = left,
                .tap_h = h.last_tap,
                .tap_w = w.last_tap};
        }
    }
    gemm_plan(product, isa);
}

static void plan_wgrad(struct conv_plan *plan, const struct isa *isa)
{
    const struct conv_desc *d = &plan->desc;
    plan->wgrad.window = forward_window(d);
    plan->wgrad.depth = (size_t)d->y.n * (size_t)d->y.h * (size_t)d->y.w;
    plan->wgrad.rows = d->y.c;
    plan->wgrad.cols = d->kernel * d->kernel * d->x.c;
    wgrad_plan(&plan->wgrad, isa);
}

static void cpu_conv_release(struct device *device, struct conv_plan *plan)
{
    (void)device;
    if (!plan)
        return;
    free(plan->forward.phases);
    free(plan->dgrad.phases);
    free(plan);
}

/* Plans every way that the shape allows, and chooses. */
static void plan_passes(struct conv_plan *plan, const struct cpu_backend *backend)
{
    const struct isa *isa = backend->isa;
    struct wino_fits fits = winograd_plan(&plan->winograd, &plan->desc, backend);
    int can_fold = !plan->is_dense && fold_plan(&plan->fold, &plan->desc, isa);
    plan_forward(plan, isa);
    if (plan->is_dense)
        plan_dense_dgrad(plan, isa);
    else if (!can_fold)
        plan_dgrad(plan, isa);
    plan_wgrad(plan, isa);
    const struct pass_options options[] = {
        [PASS_FORWARD] = {fits.forward, 0, plan->forward.cols},
        [PASS_DGRAD] = {fits.dgrad, can_fold, plan->dgrad.cols},
        [PASS_WGRAD] = {fits.wgrad, 0, plan->wgrad.cols},
    };
    for (int pass = 0; pass < PASS_KINDS; pass++)
        plan->choice[pass] =
            choose_pass(backend, &plan->winograd, (enum pass_kind)pass, &options[pass]);
}

static int goes_by(const struct conv_plan *plan, enum pass_kind pass,
                   enum algorithm algorithm)
{
    return plan->choice[pass].algorithm == algorithm;
}

/* What the hungriest pass needs. */
static size_t workspace_floats(const struct conv_plan *plan)
{
    const struct winograd *winograd = &plan->winograd;
    const size_t passes[] = {
        goes_by(plan, PASS_FORWARD, ALGORITHM_WINOGRAD)
            ? winograd->forward.workspace_floats
            : plan->forward.workspace_floats,
        goes_by(plan, PASS_DGRAD, ALGORITHM_WINOGRAD) ? winograd->dgrad.workspace_floats
        : goes_by(plan, PASS_DGRAD, ALGORITHM_FOLD)   ? plan->fold.workspace_floats
                                                      : plan->dgrad.workspace_floats,
        goes_by(plan, PASS_WGRAD, ALGORITHM_WINOGRAD) ? winograd->wgrad.workspace_floats
                                                      : plan->wgrad.workspace_floats,
    };
    size_t most = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        most = passes[i] > most ? passes[i] : most;
    return most;
}

/* The workspace, and where Winograd goes, the slabs. */
static enum status reserve_room(struct device *device, const struct conv_plan *plan)
{
    const struct wino_pass *const passes[PASS_KINDS] = {
        [PASS_FORWARD] = &plan->winograd.forward,
        [PASS_DGRAD] = &plan->winograd.dgrad,
        [PASS_WGRAD] = &plan->winograd.wgrad};
    int threads = cpu_backend(device)->threads;
    TRY(cpu_reserve_workspace(device, workspace_floats(plan)));
    for (int pass = PASS_FORWARD; pass < PASS_KINDS; pass++)
        for (int i = 0; i < threads; i++)
            if (goes_by(plan, (enum pass_kind)pass, ALGORITHM_WINOGRAD))
                TRY(cpu_reserve_slab(
                    device, i,
                    winograd_slab_floats(&plan->winograd, passes[pass], threads, i)));
    return STATUS_OK;
}

static enum status cpu_conv_prepare(struct device *device, const struct conv_desc *desc,
                                    struct conv_plan **result)
{
    char x[SHAPE_TEXT];
    TRY(conv_check(desc));
    struct conv_plan *plan = calloc(1, sizeof *plan);
    size_t phases = (size_t)desc->stride * (size_t)desc->stride;
    if (plan) {
        plan->forward.phases = calloc(1, sizeof *plan->forward.phases);
        plan->dgrad.phases = calloc(phases, sizeof *plan->dgrad.phases);
    }
    if (!plan || !plan->forward.phases || !plan->dgrad.phases) {
        cpu_conv_release(device, plan);
        return status_fail(STATUS_FAILED, "convolution of x %s: no memory for its plan",
                           shape_text(desc->x, x));
    }
    plan->desc = *desc;
    plan->is_dense = desc->y.h == 1 && desc->y.w == 1 && desc->pad == 0 &&
                     desc->kernel == desc->x.h && desc->kernel == desc->x.w;
    plan_passes(plan, cpu_backend(device));

    enum status status = reserve_room(device, plan);
    if (status != STATUS_OK) {
        cpu_conv_release(device, plan);
        return status;
    }
    *result = plan;
    return STATUS_OK;
}

/* Shape and padding of an operand; the CPU stores no padding. The dtype is the tensor's
 * own: packing widens any, the epilogue rounds to any. */
static void check_operand(const char *name, const struct tensor *tensor,
                          struct shape shape)
{
    char found[SHAPE_TEXT], wanted[SHAPE_TEXT];
    CHECK(shape_equal(tensor->shape, shape), "%s is %s, the plan has %s", name,
          shape_text(tensor->shape, found), shape_text(shape, wanted));
    CHECK(tensor->dtype <= DTYPE_BF16, "%s is %s, not a float", name,
          dtype_name(tensor->dtype));
    CHECK(tensor->c_stored == shape.c && tensor->n_stored == shape.n,
          "%s is padded to %d rows, %d channels", name, tensor->n_stored,
          tensor->c_stored);
}

static struct shape weight_shape(const struct conv_desc *d)
{
    return (struct shape){d->y.c, d->kernel, d->kernel, d->x.c};
}

/* Winograd undoes an activation as it stores. Elsewhere a sum is stored before the
 * gradient multiplies it, which the contract allows, and the passes need not know of it.
 * Returns the epilogue that remains for them. */
static const struct conv_epilogue *without_undo(const struct conv_epilogue *epilogue)
{
    return epilogue && epilogue->undo ? NULL : epilogue;
}

static void finish_undo(struct device *device, const struct conv_epilogue *epilogue,
                        struct tensor *out)
{
    if (epilogue && epilogue->undo)
        device->ops->pointwise.act_backward(device, out, epilogue->undo,
                                            epilogue->activation, epilogue->slope, out);
}

static void cpu_conv_forward(struct device *device, struct conv_plan *plan,
                             const struct tensor *x, const struct tensor *w,
                             const struct conv_epilogue *epilogue, struct tensor *y)
{
    const struct conv_desc *d = &plan->desc;
    check_operand("x", x, d->x);
    check_operand("w", w, weight_shape(d));
    check_operand("y", y, d->y);
    if (goes_by(plan, PASS_FORWARD, ALGORITHM_WINOGRAD))
        return winograd_forward(&plan->winograd, device, x, w, epilogue, y);
    gemm_run(&plan->forward, device, x, w, without_undo(epilogue), y);
    finish_undo(device, epilogue, y);
}

static void cpu_conv_dgrad(struct device *device, struct conv_plan *plan,
                           const struct tensor *dy, const struct tensor *w,
                           const struct conv_epilogue *epilogue, struct tensor *dx)
{
    const struct conv_desc *d = &plan->desc;
    check_operand("dy", dy, d->y);
    check_operand("w", w, weight_shape(d));
    check_operand("dx", dx, d->x);
    if (goes_by(plan, PASS_DGRAD, ALGORITHM_WINOGRAD))
        return winograd_dgrad(&plan->winograd, device, dy, w, epilogue, dx);
    if (goes_by(plan, PASS_DGRAD, ALGORITHM_FOLD))
        fold_run(&plan->fold, device, dy, w, without_undo(epilogue), dx);
    else
        gemm_run(&plan->dgrad, device, dy, w, without_undo(epilogue), dx);
    finish_undo(device, epilogue, dx);
}

static void cpu_conv_wgrad(struct device *device, struct conv_plan *plan,
                           const struct tensor *x, const struct tensor *dy, float *grad,
                           int accumulate)
{
    const struct conv_desc *d = &plan->desc;
    check_operand("x", x, d->x);
    check_operand("dy", dy, d->y);
    if (goes_by(plan, PASS_WGRAD, ALGORITHM_WINOGRAD))
        winograd_wgrad(&plan->winograd, device, x, dy, d->dtype, grad, accumulate);
    else
        wgrad_run(&plan->wgrad, device, x, dy, d->dtype, grad, accumulate);
}

/* ---- telling --------------------------------------------------------------------- */

static void describe_product(const struct product *product, const struct isa *isa,
                             enum dtype dtype, struct conv_way *way)
{
    way->multiplications = gemm_multiplications(product);
    way->arithmetic = gemm_isa(product, isa, dtype, dtype)->arithmetic;
}

static void cpu_conv_describe(struct device *device, struct conv_plan *plan,
                              enum pass_kind pass, struct conv_way *way)
{
    const struct isa *isa = cpu_backend(device)->isa;
    const struct conv_desc *d = &plan->desc;
    const struct pass_choice *choice = &plan->choice[pass];
    *way = (struct conv_way){.arithmetic = isa->arithmetic};
    snprintf(way->algorithm, sizeof way->algorithm, "%s",
             algorithm_name(choice->algorithm));
    memcpy(way->reason, choice->reason, sizeof way->reason);
    if (choice->algorithm == ALGORITHM_WINOGRAD) {
        way->multiplications = winograd_multiplications(&plan->winograd);
    } else if (choice->algorithm == ALGORITHM_FOLD) {
        way->multiplications = fold_multiplications(&plan->fold);
        way->arithmetic = isa_for(isa, d->dtype, d->dtype, d->y.c)->arithmetic;
    } else if (pass == PASS_WGRAD) {
        way->multiplications = conv_macs(d);
        way->arithmetic = wgrad_isa(&plan->wgrad, isa, d->dtype, d->dtype)->arithmetic;
    } else {
        describe_product(pass == PASS_FORWARD ? &plan->forward : &plan->dgrad, isa,
                         d->dtype, way);
    }
}

void cpu_fill_conv(struct conv_ops *ops)
{
    ops->prepare = cpu_conv_prepare;
    ops->release = cpu_conv_release;
    ops->forward = cpu_conv_forward;
    ops->dgrad = cpu_conv_dgrad;
    ops->wgrad = cpu_conv_wgrad;
    ops->describe = cpu_conv_describe;
    ops->peak = cpu_peak;
}
