/* check_ops.c - every op of a device against ref, whose sums are in f64.
 *     check_ops DEVICE [--tf32 | --spoil]
 * Prints one JSON object a line: op, dtype, shape, err (relative L2), tol, ok; exits 1
 * when one is not ok. Outputs begin as NaN, so what an op forgets to write is seen. For
 * the GPU acceptance run; with "cpu" it checks itself, and with --spoil, which makes the
 * first element of every result wrong, that it sees. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/ops.h"

static struct device *ref, *device;
static int failures, uses_tf32, spoils;

/* ---- one tensor on both devices -------------------------------------------------- */

/* The same values in ref's memory, without padding beyond the device's, and on the
 * device. */
struct pair {
    struct tensor ref, dev;
};

static float value_at(uint64_t seed, size_t i)
{
    return 2.0f * philox_unit(philox(seed, 77, 0, i / 4).word[i % 4]) - 1.0f;
}

static struct pair make_pair(enum dtype dtype, struct shape shape, int is_weight)
{
    struct pair pair;
    pair.dev = pair.ref = device_tensor(device, dtype, shape, is_weight);
    pair.ref.data = ref->ops->memory.alloc(ref, tensor_bytes(&pair.ref));
    pair.dev.data = device->ops->memory.alloc(device, tensor_bytes(&pair.dev));
    CHECK(pair.ref.data && pair.dev.data);
    return pair;
}

static void free_pair(struct pair *pair)
{
    ref->ops->memory.release(ref, pair->ref.data);
    device->ops->memory.release(device, pair->dev.data);
}

static size_t pixels_of(const struct tensor *tensor)
{
    return (size_t)tensor->shape.n * (size_t)tensor->shape.h * (size_t)tensor->shape.w;
}

static void upload(struct pair *pair)
{
    device->ops->memory.upload(device, pair->dev.data, pair->ref.data,
                               tensor_bytes(&pair->ref));
}

static void fill_pair(struct pair *pair, uint64_t seed, float size)
{
    struct tensor *t = &pair->ref;
    for (size_t pixel = 0, i = 0; pixel < pixels_of(t); pixel++)
        for (int c = 0; c < t->shape.c; c++, i++)
            element_store(t->data, t->dtype, pixel * (size_t)t->c_stored + (size_t)c,
                          size * value_at(seed, i));
    upload(pair);
}

static void poison_pair(struct pair *pair)
{
    memset(pair->ref.data, 0xff, tensor_bytes(&pair->ref));
    upload(pair);
}

/* ---- reporting ------------------------------------------------------------------- */

static double tolerance(enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return uses_tf32 ? 1e-3 : 1e-5;
    return dtype == DTYPE_F16 ? 1.5e-3 : 1e-2;
}

/* Relative L2 distance over what the shape names; inf when one is NaN and the other is
 * not, or when the padding is not zero. */
static void report(const char *op, struct pair *pair, enum dtype dtype, const char *shape)
{
    const struct tensor *t = &pair->ref;
    char *got = malloc(tensor_bytes(&pair->dev));
    CHECK(got);
    device->ops->memory.download(device, got, pair->dev.data, tensor_bytes(&pair->dev));
    if (spoils)
        element_store(got, t->dtype, 0, 1000.0f + element_load(got, t->dtype, 0));
    double distance = 0.0, size = 0.0;
    for (size_t pixel = 0; pixel < pixels_of(t); pixel++) {
        for (int c = 0; c < t->c_stored; c++) {
            size_t place = pixel * (size_t)t->c_stored + (size_t)c;
            double g = (double)element_load(got, t->dtype, place);
            double w =
                c < t->shape.c ? (double)element_load(t->data, t->dtype, place) : 0.0;
            if (c >= t->shape.c && g != 0.0)
                distance = INFINITY;
            else if (isfinite(w) && isfinite(g))
                distance += (g - w) * (g - w), size += w * w;
            else if (isfinite(w) != isfinite(g))
                distance = INFINITY;
        }
    }
    free(got);
    double error = distance == 0.0 ? 0.0 : sqrt(distance / (size > 0.0 ? size : 1.0));
    double allowed = tolerance(dtype);
    int is_ok = error <= allowed;
    failures += !is_ok;
    printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"shape\": \"%s\", \"err\": %.3g, "
           "\"tol\": %.3g, \"ok\": %s}\n",
           op, dtype_name(dtype), shape, isfinite(error) ? error : 1e308, allowed,
           is_ok ? "true" : "false");
    fflush(stdout);
}

/* ---- convolutions ---------------------------------------------------------------- */

struct geometry {
    int n, size, c, k, kernel, stride, pad;
};

// Layers of the published networks, thin and odd ones, tails, a batch of one.
static const struct geometry geometries[] = {
    {4, 32, 3, 64, 4, 2, 1},  {4, 16, 64, 128, 4, 2, 1}, {2, 8, 128, 256, 4, 2, 1},
    {8, 4, 64, 1, 4, 1, 0},   {8, 4, 128, 100, 4, 1, 0}, {3, 7, 48, 1, 7, 1, 0},
    {1, 9, 5, 7, 3, 1, 1},    {2, 15, 8, 24, 3, 2, 1},   {5, 11, 12, 20, 1, 1, 0},
    {4, 14, 24, 48, 4, 2, 1}, {3, 28, 1, 24, 4, 2, 1},
};

struct conv_case {
    struct conv_desc desc;
    struct conv_plan *plan_ref, *plan_dev;
    struct pair x, w, y;
    char shape[SHAPE_TEXT * 2];
};

static void open_case(struct conv_case *conv, const struct geometry *g, enum dtype dtype,
                      int is_transposed)
{
    int out = (g->size + 2 * g->pad - g->kernel) / g->stride + 1;
    conv->desc = (struct conv_desc){.x = {g->n, g->size, g->size, g->c},
                                    .y = {g->n, out, out, g->k},
                                    .kernel = g->kernel,
                                    .stride = g->stride,
                                    .pad = g->pad,
                                    .dtype = dtype,
                                    .out_dtype = dtype,
                                    .is_transposed = is_transposed,
                                    .has_bias = 1,
                                    .activation = ACTIVATION_LEAKY_RELU,
                                    .slope = 0.2f,
                                    .input_activation = ACTIVATION_LEAKY_RELU,
                                    .input_slope = 0.2f};
    CHECK(ref->ops->conv.prepare(ref, &conv->desc, &conv->plan_ref) == STATUS_OK, "%s",
          status_message());
    if (device->ops->conv.prepare(device, &conv->desc, &conv->plan_dev) != STATUS_OK) {
        fprintf(stderr, "check_ops: %s\n", status_message());
        exit(1);
    }
    conv->x = make_pair(dtype, conv->desc.x, 0);
    conv->y = make_pair(dtype, conv->desc.y, 0);
    conv->w = make_pair(dtype, (struct shape){g->k, g->kernel, g->kernel, g->c}, 1);
    fill_pair(&conv->w, 3, 0.2f);
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    snprintf(conv->shape, sizeof conv->shape, "%s-%s", shape_text(conv->desc.x, x),
             shape_text(conv->desc.y, y));
}

static void close_case(struct conv_case *conv)
{
    ref->ops->conv.release(ref, conv->plan_ref);
    device->ops->conv.release(device, conv->plan_dev);
    free_pair(&conv->x);
    free_pair(&conv->w);
    free_pair(&conv->y);
}

/* The layer's own output with its epilogue, and the other direction with its own. */
static void check_both_directions(struct conv_case *conv, enum dtype dtype)
{
    int is_transposed = conv->desc.is_transposed;
    struct pair *out = is_transposed ? &conv->x : &conv->y;
    struct pair *in = is_transposed ? &conv->y : &conv->x;
    struct shape channels = {1, 1, 1, out->ref.shape.c};
    struct pair bias = make_pair(DTYPE_F32, channels, 0);
    fill_pair(&bias, 5, 1.0f);
    fill_pair(in, 1, 1.0f);
    poison_pair(out);
    struct conv_epilogue epilogue = {
        .bias = bias.ref.data, .activation = ACTIVATION_LEAKY_RELU, .slope = 0.2f};
    struct conv_epilogue on_device = epilogue;
    on_device.bias = bias.dev.data;
    const struct conv_ops *r = &ref->ops->conv, *d = &device->ops->conv;
    (is_transposed ? r->dgrad : r->forward)(ref, conv->plan_ref, &in->ref, &conv->w.ref,
                                            &epilogue, &out->ref);
    (is_transposed ? d->dgrad : d->forward)(device, conv->plan_dev, &in->dev,
                                            &conv->w.dev, &on_device, &out->dev);
    report(is_transposed ? "conv_transpose+bias+leaky_relu" : "conv+bias+leaky_relu", out,
           dtype, conv->shape);

    struct pair below = make_pair(dtype, in->ref.shape, 0);
    fill_pair(&below, 9, 1.0f);
    fill_pair(out, 2, 1.0f);
    poison_pair(in);
    struct conv_epilogue undo = {
        .activation = ACTIVATION_LEAKY_RELU, .slope = 0.2f, .undo = &below.ref};
    struct conv_epilogue undo_on_device = undo;
    undo_on_device.undo = &below.dev;
    (is_transposed ? r->forward : r->dgrad)(ref, conv->plan_ref, &out->ref, &conv->w.ref,
                                            &undo, &in->ref);
    (is_transposed ? d->forward : d->dgrad)(device, conv->plan_dev, &out->dev,
                                            &conv->w.dev, &undo_on_device, &in->dev);
    report(is_transposed ? "conv_transpose.dgrad" : "conv.dgrad", in, dtype, conv->shape);
    free_pair(&below);
    free_pair(&bias);
}

static void check_wgrad(struct conv_case *conv, enum dtype dtype)
{
    fill_pair(&conv->x, 1, 1.0f);
    fill_pair(&conv->y, 2, 1.0f);
    struct pair grad = make_pair(DTYPE_F32, conv->w.ref.shape, 1);
    poison_pair(&grad);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        ref->ops->conv.wgrad(ref, conv->plan_ref, &conv->x.ref, &conv->y.ref,
                             grad.ref.data, accumulate);
        device->ops->conv.wgrad(device, conv->plan_dev, &conv->x.dev, &conv->y.dev,
                                grad.dev.data, accumulate);
        report(accumulate ? "conv.wgrad, added" : "conv.wgrad", &grad, dtype,
               conv->shape);
    }
    free_pair(&grad);
}

static void check_convolutions(enum dtype dtype)
{
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
        for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
            struct conv_case conv;
            open_case(&conv, &geometries[i], dtype, is_transposed);
            check_both_directions(&conv, dtype);
            if (!is_transposed)
                check_wgrad(&conv, dtype);
            close_case(&conv);
        }
    }
}

/* ---- batch norm ------------------------------------------------------------------ */

enum { VECTORS = 13 };

struct norm_case {
    struct pair vector[VECTORS];
    struct norm_vectors ref, dev;
};

// The fields of struct norm_vectors, all pointers to f32, in order.
static void open_norm(struct norm_case *norm, int channels)
{
    float *on_ref[VECTORS], *on_dev[VECTORS];
    _Static_assert(sizeof norm->ref == sizeof on_ref, "one pair for each vector");
    for (int i = 0; i < VECTORS; i++) {
        norm->vector[i] = make_pair(DTYPE_F32, (struct shape){1, 1, 1, channels}, 0);
        fill_pair(&norm->vector[i], 20 + (uint64_t)i, 1.0f);
        on_ref[i] = norm->vector[i].ref.data;
        on_dev[i] = norm->vector[i].dev.data;
    }
    memcpy(&norm->ref, on_ref, sizeof norm->ref);
    memcpy(&norm->dev, on_dev, sizeof norm->dev);
}

static struct pair *vector_of(struct norm_case *norm, float *const *field)
{
    return &norm->vector[((const char *)field - (const char *)&norm->ref) /
                         (ptrdiff_t)sizeof(float *)];
}

static void check_norm(enum dtype dtype, struct shape shape)
{
    char text[SHAPE_TEXT];
    shape_text(shape, text);
    int64_t count = (int64_t)shape.n * shape.h * shape.w;
    struct norm_case norm;
    open_norm(&norm, shape.c);
    struct pair x = make_pair(dtype, shape, 0), y = make_pair(dtype, shape, 0);
    fill_pair(&x, 1, 2.0f);
    poison_pair(&y);
    const struct norm_ops *r = &ref->ops->norm, *d = &device->ops->norm;
    r->stats(ref, &x.ref, norm.ref.sum, norm.ref.sumsq);
    d->stats(device, &x.dev, norm.dev.sum, norm.dev.sumsq);
    report("norm.stats", vector_of(&norm, &norm.ref.sumsq), DTYPE_F32, text);
    r->finalize(ref, &norm.ref, shape.c, count, 1e-5f);
    d->finalize(device, &norm.dev, shape.c, count, 1e-5f);
    report("norm.finalize", vector_of(&norm, &norm.ref.shift), DTYPE_F32, text);
    r->commit(ref, &norm.ref, shape.c, 0.1f);
    d->commit(device, &norm.dev, shape.c, 0.1f);
    report("norm.commit", vector_of(&norm, &norm.ref.running_var), DTYPE_F32, text);
    r->act_forward(ref, &x.ref, &norm.ref, ACTIVATION_RELU, 0.0f, &y.ref);
    d->act_forward(device, &x.dev, &norm.dev, ACTIVATION_RELU, 0.0f, &y.dev);
    report("norm.act_forward", &y, dtype, text);
    fill_pair(&y, 4, 1.0f);
    r->act_reduce(ref, &y.ref, &x.ref, &norm.ref, ACTIVATION_RELU, 0.0f);
    d->act_reduce(device, &y.dev, &x.dev, &norm.dev, ACTIVATION_RELU, 0.0f);
    report("norm.act_reduce", vector_of(&norm, &norm.ref.sum_dz_xhat), dtype, text);
    r->act_dgrad(ref, &y.ref, &x.ref, &norm.ref, ACTIVATION_RELU, 0.0f, count, &y.ref);
    d->act_dgrad(device, &y.dev, &x.dev, &norm.dev, ACTIVATION_RELU, 0.0f, count, &y.dev);
    report("norm.act_dgrad", &y, dtype, text);
    for (int i = 0; i < VECTORS; i++)
        free_pair(&norm.vector[i]);
    free_pair(&x);
    free_pair(&y);
}

/* ---- resampling ------------------------------------------------------------------ */

static void check_resampling(enum dtype dtype)
{
    struct pair large = make_pair(dtype, (struct shape){3, 12, 20, 24}, 0);
    struct pair small = make_pair(dtype, (struct shape){3, 6, 10, 24}, 0);
    fill_pair(&large, 8, 1.0f);
    poison_pair(&small);
    ref->ops->resample.down(ref, &large.ref, 0.25f, &small.ref);
    device->ops->resample.down(device, &large.dev, 0.25f, &small.dev);
    report("resample.down", &small, dtype, "3x12x20x24");
    fill_pair(&small, 9, 1.0f);
    poison_pair(&large);
    ref->ops->resample.up(ref, &small.ref, 0.25f, &large.ref);
    device->ops->resample.up(device, &small.dev, 0.25f, &large.dev);
    report("resample.up", &large, dtype, "3x6x10x24");
    free_pair(&large);
    free_pair(&small);
}

/* ---- the rest of a step ---------------------------------------------------------- */

static void check_inputs_and_losses(enum dtype dtype)
{
    struct shape shape = {5, 9, 9, 3}, logits = {37, 1, 1, 1}, latents = {7, 1, 1, 101};
    struct pair pixels = make_pair(DTYPE_U8, shape, 0),
                image = make_pair(dtype, shape, 0);
    unsigned char *bytes = pixels.ref.data;
    for (size_t i = 0; i < tensor_stored(&pixels.ref); i++)
        bytes[i] = (unsigned char)(i * 7);
    upload(&pixels);
    poison_pair(&image);
    ref->ops->image.from_u8(ref, &pixels.ref, 1, 42, NULL, 3, &image.ref);
    device->ops->image.from_u8(device, &pixels.dev, 1, 42, NULL, 3, &image.dev);
    report("image.from_u8", &image, dtype, "5x9x9x3");
    struct pair z = make_pair(dtype, latents, 0);
    poison_pair(&z);
    ref->ops->image.normal(ref, 42, STREAM_LATENT, NULL, 3, &z.ref);
    device->ops->image.normal(device, 42, STREAM_LATENT, NULL, 3, &z.dev);
    report("image.normal", &z, dtype, "7x1x1x101");

    struct pair x = make_pair(DTYPE_F32, logits, 0), seed = make_pair(dtype, logits, 0);
    struct pair state = make_pair(DTYPE_F32, (struct shape){1, 1, 1, 64}, 0);
    struct pair sums = make_pair(DTYPE_F32, (struct shape){1, 1, 1, 64}, 0);
    struct scaler_state scaler = {.scale = 1024.0f, .enabled = 1};
    memcpy(state.ref.data, &scaler, sizeof scaler);
    upload(&state);
    fill_pair(&x, 6, 8.0f);
    for (int i = 0; i < LOSS_KINDS; i++) {
        enum loss_kind kind = (enum loss_kind)i;
        poison_pair(&seed);
        ref->ops->loss.on_logits(ref, kind, &x.ref, 0.9f, 1.0f, state.ref.data, &seed.ref,
                                 sums.ref.data);
        device->ops->loss.on_logits(device, kind, &x.dev, 0.9f, 1.0f, state.dev.data,
                                    &seed.dev, sums.dev.data);
        report("loss.on_logits", &seed, dtype, "37x1x1x1");
    }
    struct pair *all[] = {&pixels, &image, &z, &x, &seed, &state, &sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_pair(all[i]);
}

static void check_optimizer(enum dtype half)
{
    enum { N = 10007 };
    struct shape flat = {1, 1, 1, N};
    struct pair p = make_pair(DTYPE_F32, flat, 0), g = make_pair(DTYPE_F32, flat, 0);
    struct pair m = make_pair(DTYPE_F32, flat, 0), v = make_pair(DTYPE_F32, flat, 0);
    struct pair ema = make_pair(DTYPE_F32, flat, 0), h = make_pair(half, flat, 0);
    struct pair state = make_pair(DTYPE_F32, (struct shape){1, 1, 1, 64}, 0);
    struct pair decay = make_pair(DTYPE_F32, (struct shape){1, 1, 1, 1}, 0);
    struct scaler_state scaler = {.scale = 1024.0f, .enabled = 1};
    memcpy(state.ref.data, &scaler, sizeof scaler);
    upload(&state);
    fill_pair(&p, 1, 1.0f);
    fill_pair(&g, 2, 1000.0f);
    fill_pair(&ema, 3, 1.0f);
    element_store(decay.ref.data, DTYPE_F32, 0, 0.99f);
    upload(&decay);
    struct adam_args args = {.params = p.ref.data,
                             .half = half == DTYPE_F32 ? NULL : h.ref.data,
                             .half_dtype = half,
                             .grads = g.ref.data,
                             .m = m.ref.data,
                             .v = v.ref.data,
                             .n = N,
                             .lr = 2e-3f,
                             .beta1 = 0.5f,
                             .beta2 = 0.999f,
                             .eps = 1e-8f,
                             .ema = ema.ref.data,
                             .ema_decay = decay.ref.data};
    struct adam_args on_device = args;
    on_device.params = p.dev.data;
    on_device.half = half == DTYPE_F32 ? NULL : h.dev.data;
    on_device.grads = g.dev.data;
    on_device.m = m.dev.data;
    on_device.v = v.dev.data;
    on_device.ema = ema.dev.data;
    on_device.ema_decay = decay.dev.data;
    for (int step = 0; step < 3; step++) {
        ref->ops->optimizer.grads_check(ref, g.ref.data, N, state.ref.data);
        device->ops->optimizer.grads_check(device, g.dev.data, N, state.dev.data);
        ref->ops->optimizer.adam_step(ref, &args, 0, state.ref.data);
        device->ops->optimizer.adam_step(device, &on_device, 0, state.dev.data);
    }
    report("optimizer.adam_step", &p, DTYPE_F32, "10007");
    report("optimizer.adam_step, average", &ema, DTYPE_F32, "10007");
    if (half != DTYPE_F32)
        report("optimizer.adam_step, half copy", &h, half, "10007");
    struct pair *all[] = {&p, &g, &m, &v, &ema, &h, &state, &decay};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_pair(all[i]);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: check_ops DEVICE [--tf32 | --spoil]\n");
        return 2;
    }
    uses_tf32 = argc > 2 && strcmp(argv[2], "--tf32") == 0;
    spoils = argc > 2 && strcmp(argv[2], "--spoil") == 0;
    struct device_options options = {.allows_tf32 = uses_tf32, .is_deterministic = 1};
    if (device_open("ref", 1, &ref) != STATUS_OK ||
        device_open_with(argv[1], &options, &device) != STATUS_OK) {
        fprintf(stderr, "check_ops: %s\n", status_message());
        return 3;
    }
    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    for (int i = 0; i < 3; i++) {
        check_convolutions(dtypes[i]);
        check_norm(dtypes[i], (struct shape){8, 7, 7, 48});
        check_norm(dtypes[i], (struct shape){3, 5, 1, 13});
        check_resampling(dtypes[i]);
        check_inputs_and_losses(dtypes[i]);
        check_optimizer(dtypes[i]);
    }
    int has_fault = device_fault(device) != STATUS_OK;
    if (has_fault)
        fprintf(stderr, "check_ops: %s\n", status_message());
    device_close(device);
    device_close(ref);
    return failures > 0 || has_fault;
}
