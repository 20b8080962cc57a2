/* test_conv.c - the convolutions of the CUDA backend against ref: plans of the real cuDNN
 * and products of cuBLAS, executed by the stand-ins, with our own kernels on fibers.
 *
 * Operands are small whole numbers, so that sums are exact in any order, and only tanh
 * and the sums over channels need a tolerance. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/support/support.h"

static struct device *ref, *cuda;

static int open_devices(void **state)
{
    (void)state;
    if (device_open("ref", 1, &ref) != STATUS_OK ||
        device_open("cuda:0", 1, &cuda) != STATUS_OK) {
        print_error("%s\n", status_message());
        return -1;
    }
    ref->channel_multiple = cuda->channel_multiple; // the same layout
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    device_close(cuda);
    device_close(ref);
    return 0;
}

/* ---- tensors on both devices ----------------------------------------------------- */

/* `host` is what ref computes on; `there` is the same memory on the CUDA device. */
struct pair {
    struct tensor host, there;
};

static struct pair make_pair(enum dtype dtype, struct shape shape, int is_weight)
{
    struct pair pair;
    pair.host = device_tensor(ref, dtype, shape, is_weight);
    pair.there = pair.host;
    pair.host.data = calloc(1, tensor_bytes(&pair.host));
    pair.there.data = cuda->ops->memory.alloc(cuda, tensor_bytes(&pair.host));
    assert_non_null(pair.host.data);
    assert_non_null(pair.there.data);
    return pair;
}

static void free_pair(struct pair *pair)
{
    free(pair->host.data);
    cuda->ops->memory.release(cuda, pair->there.data);
}

static void send(struct pair *pair)
{
    cuda->ops->memory.upload(cuda, pair->there.data, pair->host.data,
                             tensor_bytes(&pair->host));
}

// -4 .. 4, padding left at zero.
static void fill_pair(struct pair *pair, uint64_t seed)
{
    struct tensor *t = &pair->host;
    size_t rows = (size_t)t->shape.n * (size_t)t->shape.h * (size_t)t->shape.w;
    for (size_t row = 0; row < rows; row++)
        for (int c = 0; c < t->shape.c; c++) {
            uint64_t index = row * (uint64_t)t->shape.c + (uint64_t)c;
            float value = (float)(philox(seed, 77, 0, index).word[0] % 9) - 4.0f;
            element_store(t->data, t->dtype, row * (size_t)t->c_stored + (size_t)c,
                          value);
        }
    send(pair);
}

static void assert_pair_agrees(const char *what, const struct conv_desc *d,
                               const struct pair *pair, double relative)
{
    struct tensor got = pair->host;
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    got.data = malloc(tensor_bytes(&got));
    cuda->ops->memory.download(cuda, got.data, pair->there.data, tensor_bytes(&got));
    assert_int_equal(device_fault(cuda), STATUS_OK);
    for (size_t i = 0; i < tensor_stored(&got); i++) {
        double g = (double)element_load(got.data, got.dtype, i);
        double w = (double)element_load(pair->host.data, got.dtype, i);
        double off = g > w ? g - w : w - g, size = w < 0 ? -w : w;
        if (!(off <= relative * size + 0.01 * relative))
            fail_msg("%s, %s to %s, %s: element %zu: got %.9g, want %.9g", what,
                     shape_text(d->x, x), shape_text(d->y, y), dtype_name(d->dtype), i, g,
                     w);
    }
    free(got.data);
}

/* ---- one layer ------------------------------------------------------------------- */

static const struct conv_desc layers[] = {
    // A discriminator's first layer, and one before a batch norm that undoes leaky ReLU.
    {.x = {3, 8, 8, 3},
     .y = {3, 4, 4, 16},
     .kernel = 4,
     .stride = 2,
     .pad = 1,
     .activation = ACTIVATION_LEAKY_RELU,
     .slope = 0.25f},
    {.x = {2, 8, 8, 16},
     .y = {2, 4, 4, 24},
     .kernel = 4,
     .stride = 2,
     .pad = 1,
     .makes_sums = 1,
     .input_activation = ACTIVATION_LEAKY_RELU,
     .input_slope = 0.25f},
    // The same after ReLU, with a bias: other epilogues are cuDNN's, and other are ours.
    {.x = {2, 8, 8, 8},
     .y = {2, 8, 8, 16},
     .kernel = 3,
     .stride = 1,
     .pad = 1,
     .has_bias = 1,
     .makes_sums = 1,
     .activation = ACTIVATION_RELU,
     .input_activation = ACTIVATION_RELU},
    // A generator's: before a batch norm, and the last one.
    {.x = {2, 8, 8, 16},
     .y = {2, 4, 4, 24},
     .kernel = 4,
     .stride = 2,
     .pad = 1,
     .is_transposed = 1,
     .makes_sums = 1},
    {.x = {2, 8, 8, 1},
     .y = {2, 4, 4, 16},
     .kernel = 4,
     .stride = 2,
     .pad = 1,
     .is_transposed = 1,
     .has_bias = 1,
     .activation = ACTIVATION_TANH},
    // Dense: a latent to a map, a map to a logit, and one with an activation.
    {.x = {3, 4, 4, 16},
     .y = {3, 1, 1, 10},
     .kernel = 4,
     .stride = 1,
     .is_transposed = 1,
     .makes_sums = 1},
    {.x = {5, 7, 7, 8},
     .y = {5, 1, 1, 1},
     .kernel = 7,
     .stride = 1,
     .out_dtype = DTYPE_F32,
     .has_bias = 1,
     .input_activation = ACTIVATION_LEAKY_RELU,
     .input_slope = 0.25f},
    // Its sums are too large for a half: rounding twice, before the bias too, would show.
    {.x = {4, 5, 5, 64},
     .y = {4, 1, 1, 16},
     .kernel = 5,
     .stride = 1,
     .has_bias = 1,
     .makes_sums = 1,
     .activation = ACTIVATION_LEAKY_RELU,
     .slope = 0.25f},
};

/* A layer on both devices, with everything it may be asked for. */
struct layer_case {
    struct conv_desc desc;
    struct conv_plan *plan[2];
    struct pair x, w, y, bias, sum, sumsq, grad, undo;
};

static void open_case(struct layer_case *c, const struct conv_desc *desc,
                      enum dtype dtype)
{
    memset(c, 0, sizeof *c);
    c->desc = *desc;
    struct conv_desc *d = &c->desc;
    d->dtype = dtype;
    if (d->out_dtype != DTYPE_F32 || desc->is_transposed || !desc->has_bias ||
        desc->y.c != 1)
        d->out_dtype = dtype;
    if (ref->ops->conv.prepare(ref, d, &c->plan[0]) != STATUS_OK ||
        cuda->ops->conv.prepare(cuda, d, &c->plan[1]) != STATUS_OK)
        fail_msg("%s", status_message());
    struct shape w = {d->y.c, d->kernel, d->kernel, d->x.c};
    struct shape vector = {1, 1, 1, d->is_transposed ? d->x.c : d->y.c};
    c->x = make_pair(dtype, d->x, 0);
    c->y = make_pair(dtype, d->y, 0);
    c->w = make_pair(dtype, w, 1);
    c->bias = make_pair(DTYPE_F32, vector, 0);
    c->sum = make_pair(DTYPE_F32, vector, 0);
    c->sumsq = make_pair(DTYPE_F32, vector, 0);
    c->grad = make_pair(DTYPE_F32, w, 1);
    c->undo = make_pair(dtype, d->is_transposed ? d->y : d->x, 0);
    fill_pair(&c->x, 1);
    fill_pair(&c->y, 2);
    fill_pair(&c->w, 3);
    fill_pair(&c->bias, 4);
    fill_pair(&c->undo, 5);
}

static void close_case(struct layer_case *c)
{
    struct pair *pairs[] = {&c->x,   &c->w,     &c->y,    &c->bias,
                            &c->sum, &c->sumsq, &c->grad, &c->undo};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        free_pair(pairs[i]);
    ref->ops->conv.release(ref, c->plan[0]);
    cuda->ops->conv.release(cuda, c->plan[1]);
}

static double relative_of(enum dtype dtype, enum activation activation)
{
    if (activation != ACTIVATION_TANH)
        return 0.0;
    return dtype == DTYPE_F16 ? 1.0 / 512 : dtype == DTYPE_BF16 ? 1.0 / 64 : 1e-5;
}

/* One pass with one epilogue on both devices. The tensors' `there` lie in `on_cuda`. */
static void compare_pass(struct layer_case *c, const char *what, int is_own,
                         struct conv_epilogue e, int has_bias, int has_sums, int has_undo)
{
    const struct conv_desc *d = &c->desc;
    int is_dgrad = is_own == !!d->is_transposed;
    struct pair *in = is_dgrad ? &c->y : &c->x;
    struct pair out =
        make_pair(is_own ? d->out_dtype : d->dtype, is_dgrad ? d->x : d->y, 0);
    struct conv_epilogue on[2] = {e, e};
    if (has_bias) {
        on[0].bias = c->bias.host.data;
        on[1].bias = c->bias.there.data;
    }
    if (has_sums) {
        on[0].sum = c->sum.host.data;
        on[0].sumsq = c->sumsq.host.data;
        on[1].sum = c->sum.there.data;
        on[1].sumsq = c->sumsq.there.data;
    }
    if (has_undo) {
        on[0].undo = &c->undo.host;
        on[1].undo = &c->undo.there;
    }
    const struct conv_ops *r = &ref->ops->conv, *g = &cuda->ops->conv;
    (is_dgrad ? r->dgrad : r->forward)(ref, c->plan[0], &in->host, &c->w.host, &on[0],
                                       &out.host);
    (is_dgrad ? g->dgrad : g->forward)(cuda, c->plan[1], &in->there, &c->w.there, &on[1],
                                       &out.there);
    double relative = relative_of(out.host.dtype, e.activation);
    assert_pair_agrees(what, d, &out, relative);
    if (has_sums) {
        struct tensor *sums[] = {&c->sum.host, &c->sumsq.host};
        for (int i = 0; i < 2; i++) // beyond the shape anything may stand
            sums[i]->c_stored = sums[i]->shape.c;
        assert_pair_agrees("sum", d, &c->sum, 1e-5 + relative);
        assert_pair_agrees("sumsq", d, &c->sumsq, 1e-5 + relative);
    }
    free_pair(&out);
}

static void compare_outputs(struct layer_case *c)
{
    const struct conv_desc *d = &c->desc;
    struct conv_epilogue plain = {.activation = ACTIVATION_NONE};
    struct conv_epilogue own = {.activation = d->activation, .slope = d->slope};
    struct conv_epilogue undo = {.activation = d->input_activation,
                                 .slope = d->input_slope};
    compare_pass(c, "own output, plain", 1, plain, 0, 0, 0);
    compare_pass(c, "own output", 1, own, d->has_bias, 0, 0);
    if (d->makes_sums)
        compare_pass(c, "own output with sums", 1, own, d->has_bias, 1, 0);
    if (d->is_inference)
        return;
    compare_pass(c, "other direction", 0, plain, 0, 0, 0);
    if (d->input_activation != ACTIVATION_NONE)
        compare_pass(c, "other direction, undone", 0, undo, 0, 0, 1);
}

static void compare_wgrad(struct layer_case *c)
{
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        ref->ops->conv.wgrad(ref, c->plan[0], &c->x.host, &c->y.host, c->grad.host.data,
                             accumulate);
        cuda->ops->conv.wgrad(cuda, c->plan[1], &c->x.there, &c->y.there,
                              c->grad.there.data, accumulate);
        assert_pair_agrees("wgrad", &c->desc, &c->grad, 0.0);
    }
}

// A dense layer is cuBLAS's; of any other cuDNN's engine is told.
static void check_what_is_told(const struct layer_case *c)
{
    const struct conv_desc *d = &c->desc;
    int is_dense = d->y.h == 1 && d->y.w == 1;
    for (int pass = 0; pass < PASS_KINDS; pass++) {
        struct conv_way way;
        cuda->ops->conv.describe(cuda, c->plan[1], (enum pass_kind)pass, &way);
        assert_int_equal(strncmp(way.algorithm, is_dense ? "cuBLAS" : "cuDNN ", 6), 0);
        assert_int_equal(way.arithmetic, d->dtype);
        assert_true(way.multiplications == (double)d->y.n * d->y.h * d->y.w * d->y.c *
                                               d->kernel * d->kernel * d->x.c);
    }
}

static void compare_layers(enum dtype dtype)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct layer_case c;
        open_case(&c, &layers[i], dtype);
        compare_outputs(&c);
        compare_wgrad(&c);
        check_what_is_told(&c);
        close_case(&c);
    }
}

static void test_every_pass_agrees_with_ref_in_f16(void **state)
{
    (void)state;
    compare_layers(DTYPE_F16);
}

static void test_every_pass_agrees_with_ref_in_bf16(void **state)
{
    (void)state;
    compare_layers(DTYPE_BF16);
}

static void test_every_pass_agrees_with_ref_in_f32(void **state)
{
    (void)state;
    compare_layers(DTYPE_F32);
}

static void test_a_sampling_layer_agrees_with_ref(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct conv_desc desc = layers[i];
        struct layer_case c;
        desc.is_inference = 1;
        desc.input_activation = ACTIVATION_NONE;
        open_case(&c, &desc, DTYPE_F16);
        struct conv_epilogue own = {.activation = desc.activation, .slope = desc.slope};
        compare_pass(&c, "sample", 1, own, desc.has_bias, 0, 0);
        if (desc.makes_sums) // batch norm's statistics, computed anew
            compare_pass(&c, "sample with sums", 1, own, desc.has_bias, 1, 0);
        close_case(&c);
    }
}

/* ---- refusals -------------------------------------------------------------------- */

static void assert_refused(struct conv_desc desc, const char *fact)
{
    struct conv_plan *plan;
    assert_int_equal(cuda->ops->conv.prepare(cuda, &desc, &plan), STATUS_FAILED);
    assert_null(plan);
    assert_non_null(strstr(status_message(), fact));
}

static void test_sizes_that_do_not_agree_are_refused_in_a_sentence(void **state)
{
    (void)state;
    struct conv_desc desc = layers[0];
    desc.dtype = desc.out_dtype = DTYPE_F16;
    desc.y.h = 5;
    assert_refused(desc, "give 3x4x4x16; choose sizes that agree");
    desc.y.h = 4;
    desc.stride = 0;
    assert_refused(desc, "every size must be 1 or more");
    desc.stride = 2;
    desc.out_dtype = DTYPE_BF16;
    assert_refused(desc, "reads f16 and writes bf16");
}

static void test_memory_that_a_layer_wants_and_does_not_get_is_a_sentence(void **state)
{
    (void)state;
    // The weight gradient alone is 2^52 bytes.
    struct conv_desc desc = {.x = {1, 1 << 8, 1 << 8, 1 << 17},
                             .y = {1, 1, 1, 1 << 18},
                             .kernel = 1 << 8,
                             .stride = 1,
                             .dtype = DTYPE_F16,
                             .out_dtype = DTYPE_F16};
    assert_refused(desc, "scratch memory of a convolution of 1x256x256x131072");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pass_agrees_with_ref_in_f16),
        cmocka_unit_test(test_every_pass_agrees_with_ref_in_bf16),
        cmocka_unit_test(test_every_pass_agrees_with_ref_in_f32),
        cmocka_unit_test(test_a_sampling_layer_agrees_with_ref),
        cmocka_unit_test(test_sizes_that_do_not_agree_are_refused_in_a_sentence),
        cmocka_unit_test(test_memory_that_a_layer_wants_and_does_not_get_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
