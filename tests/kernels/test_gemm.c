/* The CPU's packed GEMM and the convolutions over it, against plain loops in f64, at
 * every instruction set that this machine has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/support/support.h"

static const char *const isa_names[] = {"avx512-bf16", "avx512", "avx2", "c"};
#define ISAS (int)(sizeof isa_names / sizeof isa_names[0])

static struct device open_at(const char *isa, int threads)
{
    struct device device = {.name = "cpu", .threads = threads};
    setenv("TWINSCALE_ISA", isa, 1);
    assert_int_equal(cpu_open(&device), STATUS_OK);
    unsetenv("TWINSCALE_ISA");
    return device;
}

/* A convolution with the operands of its three passes and room for their results. */
struct bench {
    struct conv_desc desc;
    struct tensor x, w, dy, y, dx;
    float *grad;
    size_t weights;
};

static struct bench bench_of(struct conv_desc desc, enum fill fill, uint64_t seed)
{
    struct shape w = {desc.y.c, desc.kernel, desc.kernel, desc.x.c};
    struct bench b = {.desc = desc,
                      .x = heap_tensor(desc.dtype, desc.x),
                      .w = heap_tensor(desc.dtype, w),
                      .dy = heap_tensor(desc.dtype, desc.y),
                      .y = heap_tensor(desc.out_dtype, desc.y),
                      .dx = heap_tensor(desc.out_dtype, desc.x)};
    b.weights = tensor_elements(&b.w);
    b.grad = calloc(b.weights, sizeof *b.grad);
    fill_tensor(&b.x, fill, seed);
    fill_tensor(&b.w, fill, seed + 1);
    fill_tensor(&b.dy, fill, seed + 2);
    return b;
}

/* An inf, a NaN and zeros among ordinary values. */
static void plant_edges(struct bench *b)
{
    struct tensor *all[] = {&b->x, &b->w, &b->dy};
    for (size_t i = 0; i < 3; i++) {
        size_t n = tensor_elements(all[i]);
        element_store(all[i]->data, all[i]->dtype, n / 2, 0.0f);
        element_store(all[i]->data, all[i]->dtype, n / 3, 0.0f);
    }
    element_store(b->x.data, b->x.dtype, tensor_elements(&b->x) / 2, INFINITY);
    element_store(b->dy.data, b->dy.dtype, tensor_elements(&b->dy) - 1, NAN);
}

static void bench_free(struct bench *b)
{
    free(b->x.data);
    free(b->w.data);
    free(b->dy.data);
    free(b->y.data);
    free(b->dx.data);
    free(b->grad);
}

#define OUTSIDE SIZE_MAX // the padding around x: a zero, multiplied like any other

/* Calls visit for every product x*w that belongs to y, by the definition in ops.h. */
static void for_each_product(const struct conv_desc *d,
                             void (*visit)(void *to, size_t x, size_t w, size_t y),
                             void *to)
{
    int y_pixels = d->y.n * d->y.h * d->y.w, taps = d->kernel * d->kernel;
    for (int i = 0; i < y_pixels * taps; i++) {
        int pixel = i / taps, tap = i % taps;
        int n = pixel / (d->y.h * d->y.w);
        int h = pixel / d->y.w % d->y.h * d->stride - d->pad + tap / d->kernel;
        int v = pixel % d->y.w * d->stride - d->pad + tap % d->kernel;
        int is_inside = h >= 0 && h < d->x.h && v >= 0 && v < d->x.w;
        for (int j = 0; j < d->y.c * d->x.c; j++) {
            int k = j / d->x.c, c = j % d->x.c;
            size_t x = (size_t)(((n * d->x.h + h) * d->x.w + v) * d->x.c + c);
            visit(to, is_inside ? x : OUTSIDE, (size_t)((k * taps + tap) * d->x.c + c),
                  (size_t)(pixel * d->y.c + k));
        }
    }
}

struct plain {
    const struct bench *bench;
    double *y, *dx, *dw;
};

static double at(const struct tensor *tensor, size_t index)
{
    return (double)element_load(tensor->data, tensor->dtype, index);
}

static void add_product(void *to, size_t x, size_t w, size_t y)
{
    struct plain *plain = to;
    double value = x == OUTSIDE ? 0.0 : at(&plain->bench->x, x);
    plain->y[y] += value * at(&plain->bench->w, w);
    plain->dw[w] += value * at(&plain->bench->dy, y);
    if (x != OUTSIDE)
        plain->dx[x] += at(&plain->bench->dy, y) * at(&plain->bench->w, w);
}

/* |got - want| within the rounding of the sum and of the store; inf and NaN must agree.
 */
static void assert_close(const char *what, const struct conv_desc *d, const void *got,
                         enum dtype dtype, const double *want, size_t n, double sum_error)
{
    static const double ulp[] = {
        [DTYPE_F32] = 0x1p-24, [DTYPE_F16] = 0x1p-11, [DTYPE_BF16] = 0x1p-8};
    for (size_t i = 0; i < n; i++) {
        double g = (double)element_load(got, dtype, i);
        double w = (double)round_to_dtype((float)want[i], dtype);
        double bound = sum_error + 2 * ulp[dtype] * fabs(want[i]) + 0x1p-24;
        if ((isnan(g) && isnan(w)) || g == w || fabs(g - w) <= bound)
            continue;
        char x[SHAPE_TEXT], y[SHAPE_TEXT];
        fail_msg("%s of x %s, y %s, kernel %d stride %d: [%zu] got %g, want %g", what,
                 shape_text(d->x, x), shape_text(d->y, y), d->kernel, d->stride, i, g, w);
    }
}

static void check_conv(struct device *device, struct conv_desc desc, enum fill fill)
{
    struct bench b = bench_of(desc, fill == FILL_EDGE ? FILL_RANDOM : fill, 7);
    if (fill == FILL_EDGE)
        plant_edges(&b);
    struct plain plain = {.bench = &b,
                          .y = calloc(tensor_elements(&b.y), sizeof(double)),
                          .dx = calloc(tensor_elements(&b.dx), sizeof(double)),
                          .dw = calloc(b.weights, sizeof(double))};
    for_each_product(&desc, add_product, &plain);

    struct conv_plan *plan;
    assert_int_equal(device->ops->conv.prepare(device, &desc, &plan), STATUS_OK);
    device->ops->conv.forward(device, plan, &b.x, &b.w, NULL, &b.y);
    device->ops->conv.dgrad(device, plan, &b.dy, &b.w, NULL, &b.dx);
    device->ops->conv.wgrad(device, plan, &b.x, &b.dy, b.grad, 0);

    double error = fill == FILL_SMALL_INTEGERS ? 0 : 1e-4;
    assert_close("forward", &desc, b.y.data, desc.out_dtype, plain.y,
                 tensor_elements(&b.y), error);
    assert_close("dgrad", &desc, b.dx.data, desc.out_dtype, plain.dx,
                 tensor_elements(&b.dx), error);
    for (size_t i = 0; i < b.weights; i++) // stored as f32, rounded to dtype
        assert_true(isnan(b.grad[i]) ||
                    b.grad[i] == round_to_dtype(b.grad[i], desc.dtype));
    struct tensor grad = heap_tensor(desc.dtype, b.w.shape);
    for (size_t i = 0; i < b.weights; i++)
        element_store(grad.data, desc.dtype, i, b.grad[i]);
    assert_close("wgrad", &desc, grad.data, desc.dtype, plain.dw, b.weights, error);

    // Accumulating adds the rounded gradient to what is there.
    float *twice = malloc(b.weights * sizeof *twice);
    memcpy(twice, b.grad, b.weights * sizeof *twice);
    device->ops->conv.wgrad(device, plan, &b.x, &b.dy, twice, 1);
    for (size_t i = 0; i < b.weights; i++)
        assert_true(isnan(twice[i]) ? isnan(b.grad[i] + b.grad[i])
                                    : twice[i] == b.grad[i] + b.grad[i]);

    device->ops->conv.release(device, plan);
    free(twice);
    free(grad.data);
    free(plain.y);
    free(plain.dx);
    free(plain.dw);
    bench_free(&b);
}

static struct conv_desc conv_of(int n, int size, int in, int out, int kernel, int stride,
                                int pad, enum dtype dtype)
{
    int y = (size + 2 * pad - kernel) / stride + 1;
    return (struct conv_desc){.x = {n, size, size, in},
                              .y = {n, y, y, out},
                              .kernel = kernel,
                              .stride = stride,
                              .pad = pad,
                              .dtype = dtype,
                              .out_dtype = dtype};
}

/* A 1x1 convolution is the product [m, k] x [k, n]; its dgrad and wgrad are the other
 * two. */
static void check_products(const char *isa, enum fill fill)
{
    static const int sizes[][3] = {
        // m, n, k: ones, tails around every tile, more than one block each way
        {1, 1, 1},     {1, 33, 7},    {13, 5, 3},   {97, 31, 17},
        {12, 32, 256}, {25, 33, 257}, {2, 300, 5},  {193, 65, 11},
        {7, 4, 300},   {600, 3, 19},  {5, 17, 511},
    };
    struct device device = open_at(isa, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++)
            check_conv(&device,
                       conv_of(sizes[i][0], 1, sizes[i][2], sizes[i][1], 1, 1, 0,
                               (enum dtype)dtype),
                       fill);
    cpu_close(&device);
}

static void test_gemm_equals_a_plain_triple_loop_for_odd_sizes(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++)
        check_products(isa_names[i], FILL_RANDOM);
}

static void test_gemm_of_small_integers_is_exact(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++)
        check_products(isa_names[i], FILL_SMALL_INTEGERS);
}

static void check_convolutions(const char *isa)
{
    static const int rows[][7] = {
        // n, size, in, out, kernel, stride, pad
        {2, 8, 3, 5, 4, 2, 1},
        {3, 7, 1, 9, 4, 2, 1},
        {2, 14, 5, 24, 4, 2, 1},
        {2, 4, 6, 1, 4, 1, 0},
        {2, 7, 33, 3, 7, 1, 0},
        {1, 9, 2, 3, 3, 1, 1},
        {2, 10, 3, 2, 3, 3, 0},
        {1, 11, 4, 6, 2, 3, 1}, // kernel < stride: pixels
                                // without taps
        {1, 8, 35, 40, 3, 2, 1},
        {5, 5, 2, 2, 5, 4, 2},
        {1, 6, 7, 3, 1, 2, 0},
    };
    struct device device = open_at(isa, 3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int *r = rows[i];
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++)
            check_conv(
                &device,
                conv_of(r[0], r[1], r[2], r[3], r[4], r[5], r[6], (enum dtype)dtype),
                FILL_RANDOM);
    }
    cpu_close(&device);
}

static void test_convolutions_equal_their_definition(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++)
        check_convolutions(isa_names[i]);
}

static void test_inf_and_nan_reach_every_sum_they_belong_to_and_no_other(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        struct device device = open_at(isa_names[i], 2);
        check_conv(&device, conv_of(2, 9, 3, 5, 4, 2, 1, DTYPE_F32), FILL_EDGE);
        check_conv(&device, conv_of(2, 6, 20, 40, 4, 2, 1, DTYPE_F32), FILL_EDGE);
        cpu_close(&device);
    }
}

/* y[k] = x[0] w[k][0] + x[1] w[k][1] for the same weights in every column; the other
 * channels, which make the product deep enough for pairs, are zeros. */
static float dot_of_bf16(struct device *device, float x0, float w0, float x1, float w1)
{
    enum { COLS = 40, CHANNELS = 32 };
    struct conv_desc desc = conv_of(1, 1, CHANNELS, COLS, 1, 1, 0, DTYPE_BF16);
    desc.out_dtype = DTYPE_F32;
    struct bench b = bench_of(desc, FILL_RANDOM, 1);
    memset(b.x.data, 0, CHANNELS * sizeof(uint16_t));
    memset(b.w.data, 0, COLS * CHANNELS * sizeof(uint16_t));
    element_store(b.x.data, DTYPE_BF16, 0, x0);
    element_store(b.x.data, DTYPE_BF16, 1, x1);
    for (size_t k = 0; k < COLS; k++) {
        element_store(b.w.data, DTYPE_BF16, CHANNELS * k, w0);
        element_store(b.w.data, DTYPE_BF16, CHANNELS * k + 1, w1);
    }
    struct conv_plan *plan;
    assert_int_equal(device->ops->conv.prepare(device, &desc, &plan), STATUS_OK);
    device->ops->conv.forward(device, plan, &b.x, &b.w, NULL, &b.y);
    float first = ((float *)b.y.data)[0], last = ((float *)b.y.data)[COLS - 1];
    assert_memory_equal(&first, &last, sizeof first);
    device->ops->conv.release(device, plan);
    bench_free(&b);
    return first;
}

static void
test_dot_products_of_bf16_take_subnormals_for_zeros_and_lose_no_inf(void **state)
{
    (void)state;
    const float subnormal = 0x1p-130f, large = 0x1p120f;
    for (int i = 0; i < ISAS; i++) {
        struct device device = open_at(isa_names[i], 1);
        int has_pairs = strstr(device.description, ", avx512-bf16,") != NULL;
        assert_true(dot_of_bf16(&device, 3, 5, 7, 11) == 92);
        // The one difference between the instruction and widened operands.
        assert_true(dot_of_bf16(&device, subnormal, large, 1, 1) ==
                    (has_pairs ? 1.0f : 1.0f + 0x1p-10f));
        assert_true(dot_of_bf16(&device, large, large, 1, 1) == INFINITY);
        assert_true(isnan(dot_of_bf16(&device, INFINITY, 0, 1, 1)));
        assert_true(!isfinite(dot_of_bf16(&device, large, large, -large, large)));
        assert_true(!isfinite(dot_of_bf16(&device, INFINITY, subnormal, 1, 1)));
        cpu_close(&device);
    }
}

static void test_a_convolution_that_does_not_fit_is_refused_with_its_shapes(void **state)
{
    (void)state;
    struct device device = open_at("c", 1);
    struct conv_desc desc = conv_of(2, 8, 3, 5, 4, 2, 1, DTYPE_F16);
    desc.y.h = 5;
    struct conv_plan *plan;
    assert_int_equal(device.ops->conv.prepare(&device, &desc, &plan), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "2x8x8x3"));
    assert_non_null(strstr(status_message(), "2x5x4x5"));
    cpu_close(&device);
}

static void test_a_workspace_that_cannot_be_had_is_refused_with_its_bytes(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip_because("the sanitizer ends the program where malloc would return NULL");
#endif
    struct device device = open_at("c", 1);
    struct conv_desc desc = conv_of(1, 1, 1 << 22, 1 << 22, 1, 1, 0, DTYPE_F16);
    struct conv_plan *plan;
    assert_int_equal(device.ops->conv.prepare(&device, &desc, &plan), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "convolution workspace: 7"));
    cpu_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_equals_a_plain_triple_loop_for_odd_sizes),
        cmocka_unit_test(test_gemm_of_small_integers_is_exact),
        cmocka_unit_test(test_convolutions_equal_their_definition),
        cmocka_unit_test(test_inf_and_nan_reach_every_sum_they_belong_to_and_no_other),
        cmocka_unit_test(
            test_dot_products_of_bf16_take_subnormals_for_zeros_and_lose_no_inf),
        cmocka_unit_test(test_a_convolution_that_does_not_fit_is_refused_with_its_shapes),
        cmocka_unit_test(test_a_workspace_that_cannot_be_had_is_refused_with_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
