/* ref_conv.c - the three passes of a convolution, as the formulas of ops.h say.
 *
 * Each pass first unpacks its operands into plain f32 arrays without padding, owned by
 * the plan; then the loops run over those. */
#include <stdlib.h>
#include <string.h>

#include "kernels/conv_check.h"
#include "kernels/half.h"
#include "kernels/ref/ref.h"

struct conv_plan {
    struct conv_desc desc;
    float *x, *w, *y; // x or dx, w or dw, y or dy, unpacked
};

static size_t elements(struct shape s)
{
    return (size_t)s.n * (size_t)s.h * (size_t)s.w * (size_t)s.c;
}

static struct shape weight_shape(const struct conv_desc *d)
{
    return (struct shape){d->y.c, d->kernel, d->kernel, d->x.c};
}

/* ---- setup ----------------------------------------------------------------------- */

static void ref_conv_release(struct device *device, struct conv_plan *plan)
{
    (void)device;
    if (!plan)
        return;
    free(plan->x);
    free(plan->w);
    free(plan->y);
    free(plan);
}

static enum status ref_conv_prepare(struct device *device, const struct conv_desc *desc,
                                    struct conv_plan **result)
{
    *result = NULL;
    TRY(conv_check(desc));
    size_t x = elements(desc->x), w = elements(weight_shape(desc)), y = elements(desc->y);
    struct conv_plan *plan = calloc(1, sizeof *plan);
    if (plan) {
        plan->desc = *desc;
        plan->x = calloc(x, sizeof(float));
        plan->w = calloc(w, sizeof(float));
        plan->y = calloc(y, sizeof(float));
    }
    if (!plan || !plan->x || !plan->w || !plan->y) {
        char x_text[SHAPE_TEXT], y_text[SHAPE_TEXT];
        ref_conv_release(device, plan);
        return status_fail(STATUS_FAILED,
                           "convolution of %s to %s: no memory for %zu bytes; choose a "
                           "smaller batch",
                           shape_text(desc->x, x_text), shape_text(desc->y, y_text),
                           (x + w + y) * sizeof(float));
    }
    *result = plan;
    return STATUS_OK;
}

/* ---- between tensors and plain arrays -------------------------------------------- */

static void check_tensor(const char *what, const struct tensor *t, struct shape shape)
{
    char got[SHAPE_TEXT], want[SHAPE_TEXT];
    CHECK(shape_equal(t->shape, shape), "%s is %s, the plan's is %s", what,
          shape_text(t->shape, got), shape_text(shape, want));
    CHECK(t->c_stored >= shape.c && t->n_stored >= shape.n,
          "%s stores %d rows, %d channels", what, t->n_stored, t->c_stored);
}

static void unpack(const char *what, const struct tensor *t, struct shape shape,
                   enum dtype dtype, float *to)
{
    check_tensor(what, t, shape);
    CHECK(t->dtype == dtype, "%s is %s, the plan's is %s", what, dtype_name(t->dtype),
          dtype_name(dtype));
    for (size_t row = 0; row < ref_rows(t); row++)
        for (int c = 0; c < shape.c; c++)
            *to++ = element_load(t->data, dtype, ref_place(t, row, c));
}

/* sum * act'(undo), at one element. */
static float undone(const struct conv_epilogue *e, float sum, size_t row, int c)
{
    float y = element_load(e->undo->data, e->undo->dtype, ref_place(e->undo, row, c));
    return sum * ref_activation_slope(y, y, e->activation, e->slope);
}

/* Bias, activation, store, and the channels' sums, over sums[rows][channels]. */
static void finish(const struct conv_desc *d, const struct conv_epilogue *epilogue,
                   const float *sums, struct tensor *out)
{
    static const struct conv_epilogue plain = {.activation = ACTIVATION_NONE};
    const struct conv_epilogue *e = epilogue ? epilogue : &plain;
    CHECK(out->dtype == d->dtype || out->dtype == d->out_dtype,
          "out is %s, the plan's %s", dtype_name(out->dtype), dtype_name(d->out_dtype));
    CHECK(!e->sum == !e->sumsq, "sum and sumsq come both or not at all");
    CHECK(!e->undo || (!e->bias && !e->sum), "a gradient has neither bias nor sums");
    if (e->undo)
        ref_check_shapes("conv undo", e->undo, out);
    int channels = out->shape.c;
    for (int c = 0; c < channels; c++) {
        double sum = 0.0, sumsq = 0.0;
        for (size_t row = 0; row < ref_rows(out); row++) {
            float z = sums[row * (size_t)channels + (size_t)c];
            if (e->bias)
                z += e->bias[c];
            float value = round_to_dtype(
                e->undo ? undone(e, z, row, c) : ref_activate(z, e->activation, e->slope),
                out->dtype);
            element_store(out->data, out->dtype, ref_place(out, row, c), value);
            sum += (double)value;
            sumsq += (double)value * (double)value;
        }
        if (e->sum) {
            e->sum[c] = (float)sum;
            e->sumsq[c] = (float)sumsq;
        }
    }
    ref_clear_padding(out);
}

/* ---- the taps -------------------------------------------------------------------- */

/* Element (n, h, w, 0) of a plain array, or NULL outside the picture. */
static const float *pixel(const float *data, struct shape s, int n, int h, int w)
{
    if (h < 0 || h >= s.h || w < 0 || w >= s.w)
        return NULL;
    return data + ((((size_t)n * (size_t)s.h + (size_t)h) * (size_t)s.w + (size_t)w) *
                   (size_t)s.c);
}

/* w[k,r,s,0]. */
static const float *tap(const struct conv_plan *plan, int k, int r, int s)
{
    return pixel(plan->w, weight_shape(&plan->desc), k, r, s);
}

/* The y index that x index `i` meets under tap `r`: (i + pad - r)/stride, or -1. */
static int narrow_index(const struct conv_desc *d, int i, int r)
{
    int shifted = i + d->pad - r;
    return shifted >= 0 && shifted % d->stride == 0 ? shifted / d->stride : -1;
}

/* ---- the three passes ------------------------------------------------------------ */

/* y[n,p,q,k], summed over r, then s, then c. */
static float forward_element(const struct conv_plan *plan, int n, int p, int q, int k)
{
    const struct conv_desc *d = &plan->desc;
    double sum = 0.0;
    for (int r = 0; r < d->kernel; r++) {
        for (int s = 0; s < d->kernel; s++) {
            const float *w = tap(plan, k, r, s);
            const float *x = pixel(plan->x, d->x, n, p * d->stride - d->pad + r,
                                   q * d->stride - d->pad + s);
            for (int c = 0; x && c < d->x.c; c++)
                sum += (double)x[c] * (double)w[c];
        }
    }
    return (float)sum;
}

static void ref_conv_forward(struct device *device, struct conv_plan *plan,
                             const struct tensor *x, const struct tensor *w,
                             const struct conv_epilogue *epilogue, struct tensor *y)
{
    (void)device;
    const struct conv_desc *d = &plan->desc;
    unpack("x", x, d->x, d->dtype, plan->x);
    unpack("w", w, weight_shape(d), d->dtype, plan->w);
    check_tensor("y", y, d->y);
    float *out = plan->y;
    for (int n = 0; n < d->y.n; n++)
        for (int p = 0; p < d->y.h; p++)
            for (int q = 0; q < d->y.w; q++)
                for (int k = 0; k < d->y.c; k++)
                    *out++ = forward_element(plan, n, p, q, k);
    finish(d, epilogue, plan->y, y);
}

/* dx[n,h,w,c], summed over r, then s, then k. */
static float dgrad_element(const struct conv_plan *plan, int n, int h, int w, int c)
{
    const struct conv_desc *d = &plan->desc;
    double sum = 0.0;
    for (int r = 0; r < d->kernel; r++) {
        for (int s = 0; s < d->kernel; s++) {
            const float *dy =
                pixel(plan->y, d->y, n, narrow_index(d, h, r), narrow_index(d, w, s));
            for (int k = 0; dy && k < d->y.c; k++)
                sum += (double)dy[k] * (double)tap(plan, k, r, s)[c];
        }
    }
    return (float)sum;
}

static void ref_conv_dgrad(struct device *device, struct conv_plan *plan,
                           const struct tensor *dy, const struct tensor *w,
                           const struct conv_epilogue *epilogue, struct tensor *dx)
{
    (void)device;
    const struct conv_desc *d = &plan->desc;
    unpack("dy", dy, d->y, d->dtype, plan->y);
    unpack("w", w, weight_shape(d), d->dtype, plan->w);
    check_tensor("dx", dx, d->x);
    float *out = plan->x;
    for (int n = 0; n < d->x.n; n++)
        for (int h = 0; h < d->x.h; h++)
            for (int column = 0; column < d->x.w; column++)
                for (int c = 0; c < d->x.c; c++)
                    *out++ = dgrad_element(plan, n, h, column, c);
    finish(d, epilogue, plan->x, dx);
}

/* dw[k,r,s,c], summed over n, then p, then q. */
static float wgrad_element(const struct conv_plan *plan, int k, int r, int s, int c)
{
    const struct conv_desc *d = &plan->desc;
    double sum = 0.0;
    for (int n = 0; n < d->y.n; n++) {
        for (int p = 0; p < d->y.h; p++) {
            for (int q = 0; q < d->y.w; q++) {
                const float *x = pixel(plan->x, d->x, n, p * d->stride - d->pad + r,
                                       q * d->stride - d->pad + s);
                if (x)
                    sum += (double)pixel(plan->y, d->y, n, p, q)[k] * (double)x[c];
            }
        }
    }
    return (float)sum;
}

/* grad is stored like the weights: rows to dy's stored channels, channels to x's. */
static void ref_conv_wgrad(struct device *device, struct conv_plan *plan,
                           const struct tensor *x, const struct tensor *dy, float *grad,
                           int accumulate)
{
    (void)device;
    const struct conv_desc *d = &plan->desc;
    unpack("x", x, d->x, d->dtype, plan->x);
    unpack("dy", dy, d->y, d->dtype, plan->y);
    struct tensor stored = tensor_of(DTYPE_F32, weight_shape(d), grad);
    stored.n_stored = dy->c_stored;
    stored.c_stored = x->c_stored;
    size_t row = 0;
    for (int k = 0; k < d->y.c; k++) {
        for (int r = 0; r < d->kernel; r++) {
            for (int s = 0; s < d->kernel; s++, row++) {
                for (int c = 0; c < d->x.c; c++) {
                    float *to = grad + ref_place(&stored, row, c);
                    float dw = round_to_dtype(wgrad_element(plan, k, r, s, c), d->dtype);
                    *to = accumulate ? *to + dw : dw;
                }
            }
        }
    }
    ref_clear_padding(&stored);
}

static void ref_conv_describe(struct device *device, struct conv_plan *plan,
                              enum pass_kind pass, struct conv_way *way)
{
    (void)device;
    (void)pass;
    *way = (struct conv_way){.algorithm = "loops",
                             .reason = "the definition itself",
                             .multiplications = conv_macs(&plan->desc),
                             .arithmetic = DTYPE_F32};
}

static double ref_conv_peak(struct device *device, enum dtype dtype)
{
    (void)device;
    (void)dtype;
    return 0.0; // nobody wonders how fast it is
}

void ref_fill_conv(struct conv_ops *ops)
{
    *ops = (struct conv_ops){
        .prepare = ref_conv_prepare,
        .release = ref_conv_release,
        .forward = ref_conv_forward,
        .dgrad = ref_conv_dgrad,
        .wgrad = ref_conv_wgrad,
        .describe = ref_conv_describe,
        .peak = ref_conv_peak,
    };
}
