/* The fast CPU backend's fused passes at every instruction set: epilogues and batch norm
 * against ref, and the same bits whatever the number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/ops.h"
#include "kernels/ref/ref.h"
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

static struct device open_ref(void)
{
    struct device device = {.name = "ref"};
    assert_int_equal(ref_open(&device), STATUS_OK);
    return device;
}

static const double tolerance[] = {
    [DTYPE_F32] = 2e-5, [DTYPE_F16] = 2e-3, [DTYPE_BF16] = 1.6e-2};

/* Results of one run of a layer, all that a pass writes. */
struct results {
    struct tensor y, dx;
    float *grad, *sums; // sums: y then dx, sum then sumsq
    size_t weights, sum_count;
};

static void results_free(struct results *r)
{
    free(r->y.data);
    free(r->dx.data);
    free(r->grad);
    free(r->sums);
}

/* All three passes of a convolution with bias, activation and sums. */
static struct results run_conv(struct device *device, const struct conv_desc *d,
                               enum activation activation)
{
    struct shape weights = {d->y.c, d->kernel, d->kernel, d->x.c};
    struct tensor x = heap_tensor(d->dtype, d->x), w = heap_tensor(d->dtype, weights);
    struct tensor dy = heap_tensor(d->dtype, d->y);
    fill_tensor(&x, FILL_RANDOM, 1);
    fill_tensor(&w, FILL_RANDOM, 2);
    fill_tensor(&dy, FILL_RANDOM, 3);
    size_t y_c = (size_t)d->y.c, x_c = (size_t)d->x.c;
    float *bias = malloc((y_c + x_c) * sizeof *bias);
    fill_f32(bias, y_c + x_c, FILL_RANDOM, 4);

    struct results r = {.y = heap_tensor(d->out_dtype, d->y),
                        .dx = heap_tensor(d->out_dtype, d->x),
                        .weights = tensor_elements(&w),
                        .sum_count = 2 * (y_c + x_c)};
    r.grad = calloc(r.weights, sizeof *r.grad);
    r.sums = calloc(r.sum_count, sizeof *r.sums);
    struct conv_epilogue up = {bias, activation, 0.2f, r.sums, r.sums + y_c, NULL};
    struct conv_epilogue down = {
        bias + y_c, activation, 0.2f, r.sums + 2 * y_c, r.sums + 2 * y_c + x_c, NULL};
    struct conv_plan *plan;
    assert_int_equal(device->ops->conv.prepare(device, d, &plan), STATUS_OK);
    device->ops->conv.forward(device, plan, &x, &w, &up, &r.y);
    device->ops->conv.dgrad(device, plan, &dy, &w, &down, &r.dx);
    device->ops->conv.wgrad(device, plan, &x, &dy, r.grad, 0);
    device->ops->conv.release(device, plan);
    free(x.data);
    free(w.data);
    free(dy.data);
    free(bias);
    return r;
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

// One row per way through the code: parities, folds of 1 and 3 channels, a fold of
// several bands, dense with many and with one column, several blocks of columns, deep
// products.
static const int convs[][7] = {
    // n, size, in, out, kernel, stride, pad
    {3, 8, 9, 20, 4, 2, 1},  {2, 14, 1, 6, 4, 2, 1},  {2, 10, 3, 5, 3, 1, 1},
    {1, 64, 4, 5, 4, 2, 1},  {5, 7, 12, 64, 7, 1, 0}, {6, 4, 40, 1, 4, 1, 0},
    {2, 4, 7, 300, 4, 2, 1}, {2, 6, 70, 33, 3, 2, 1},
};
enum { CONVS = sizeof convs / sizeof convs[0] };

static struct conv_desc conv_row(int i, enum dtype dtype)
{
    const int *r = convs[i];
    return conv_of(r[0], r[1], r[2], r[3], r[4], r[5], r[6], dtype);
}

/* Half a unit of rounding apart, two sums may round to different halves: compare the sums
 * of stored values with that slack. */
static void assert_conv_close(const struct results *got, const struct results *want,
                              const struct conv_desc *d)
{
    double relative = tolerance[d->dtype], rows = (double)d->x.n * d->x.h * d->x.w;
    double absolute = d->dtype == DTYPE_F32 ? 1e-4 : relative;
    assert_tensors_close("forward", &got->y, &want->y, absolute, relative, 1);
    assert_tensors_close("dgrad", &got->dx, &want->dx, absolute, relative, 1);
    assert_f32_close("wgrad", got->grad, want->grad, want->weights, 2 * absolute,
                     relative, 1);
    assert_f32_close("sums", got->sums, want->sums, want->sum_count,
                     absolute * sqrt(rows), relative, 1);
}

static void test_epilogues_equal_ref_on_every_way_through_the_code(void **state)
{
    (void)state;
    struct device ref = open_ref();
    for (int i = 0; i < ISAS; i++) {
        struct device device = open_at(isa_names[i], 2);
        for (int row = 0; row < CONVS; row++) {
            for (int a = ACTIVATION_NONE; a <= ACTIVATION_TANH; a++) {
                enum dtype dtype = (enum dtype)((row + a) % 3);
                struct conv_desc d = conv_row(row, dtype);
                struct results got = run_conv(&device, &d, (enum activation)a);
                struct results want = run_conv(&ref, &d, (enum activation)a);
                assert_conv_close(&got, &want, &d);
                results_free(&got);
                results_free(&want);
            }
        }
        cpu_close(&device);
    }
    ref_close(&ref);
}

static void assert_same_bits(const struct results *a, const struct results *b)
{
    assert_memory_equal(a->y.data, b->y.data, tensor_bytes(&a->y));
    assert_memory_equal(a->dx.data, b->dx.data, tensor_bytes(&a->dx));
    assert_memory_equal(a->grad, b->grad, a->weights * sizeof(float));
    assert_memory_equal(a->sums, b->sums, a->sum_count * sizeof(float));
}

static void test_convolutions_give_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        for (int row = 0; row < CONVS; row++) {
            struct device one = open_at(isa_names[i], 1), five = open_at(isa_names[i], 5);
            struct conv_desc d = conv_row(row, DTYPE_F16);
            struct results a = run_conv(&one, &d, ACTIVATION_TANH);
            struct results b = run_conv(&five, &d, ACTIVATION_TANH);
            assert_same_bits(&a, &b);
            results_free(&a);
            results_free(&b);
            cpu_close(&one);
            cpu_close(&five);
        }
    }
}

/* ---- batch norm ------------------------------------------------------------------ */

enum { VECTORS = 13 };

struct norm_results {
    struct tensor y, dx;
    float *vectors; // [VECTORS][channels] and bias gradients after them
    size_t floats;
};

static void norm_free(struct norm_results *r)
{
    free(r->y.data);
    free(r->dx.data);
    free(r->vectors);
}

/* All passes of one batch norm with its activation. */
static struct norm_results run_norm(struct device *device, struct shape shape,
                                    enum dtype dtype, enum activation activation)
{
    size_t c = (size_t)shape.c;
    struct norm_results r = {heap_tensor(dtype, shape), heap_tensor(dtype, shape),
                             calloc((VECTORS + 1) * c, sizeof(float)), (VECTORS + 1) * c};
    float *at[VECTORS];
    for (size_t i = 0; i < VECTORS; i++)
        at[i] = r.vectors + i * c;
    fill_f32(at[0], 2 * c, FILL_RANDOM, 5);
    struct norm_vectors v = {at[0], at[1], at[2], at[3],  at[4],  at[5], at[6],
                             at[7], at[8], at[9], at[10], at[11], at[12]};
    struct tensor x = heap_tensor(dtype, shape), dy = heap_tensor(dtype, shape);
    fill_tensor(&x, FILL_RANDOM, 6);
    fill_tensor(&dy, FILL_RANDOM, 7);
    int64_t count = (int64_t)shape.n * shape.h * shape.w;
    const struct norm_ops *norm = &device->ops->norm;
    norm->stats(device, &x, v.sum, v.sumsq);
    norm->finalize(device, &v, shape.c, count, 1e-5f);
    norm->act_forward(device, &x, &v, activation, 0.2f, &r.y);
    norm->act_reduce(device, &dy, &x, &v, activation, 0.2f);
    norm->act_dgrad(device, &dy, &x, &v, activation, 0.2f, count, &r.dx);
    device->ops->pointwise.bias_grad(device, &dy, r.vectors + VECTORS * c, 1);
    free(x.data);
    free(dy.data);
    return r;
}

static const struct shape norm_shapes[] = {
    {1, 1, 2, 1},  {3, 5, 7, 3},     {4, 7, 7, 24},
    {2, 9, 5, 33}, {64, 14, 14, 20}, {1, 2, 3, 515},
};
enum { NORMS = sizeof norm_shapes / sizeof norm_shapes[0] };

static void test_batch_norm_equals_ref(void **state)
{
    (void)state;
    struct device ref = open_ref();
    for (int i = 0; i < ISAS; i++) {
        struct device device = open_at(isa_names[i], 2);
        for (int row = 0; row < NORMS; row++) {
            for (int a = ACTIVATION_NONE; a <= ACTIVATION_TANH; a++) {
                enum dtype dtype = (enum dtype)((row + a) % 3);
                struct norm_results got =
                    run_norm(&device, norm_shapes[row], dtype, (enum activation)a);
                struct norm_results want =
                    run_norm(&ref, norm_shapes[row], dtype, (enum activation)a);
                double slack = tolerance[dtype];
                assert_f32_close("norm vectors", got.vectors, want.vectors, want.floats,
                                 2e-4, 2e-4, 6);
                assert_tensors_close("norm forward", &got.y, &want.y, slack, slack, 6);
                assert_tensors_close("norm dgrad", &got.dx, &want.dx, 5e-4, 1e-3 + slack,
                                     6);
                norm_free(&got);
                norm_free(&want);
            }
        }
        cpu_close(&device);
    }
    ref_close(&ref);
}

static void test_batch_norm_gives_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        struct device one = open_at(isa_names[i], 1), five = open_at(isa_names[i], 5);
        for (int row = 0; row < NORMS; row++) {
            struct norm_results a =
                run_norm(&one, norm_shapes[row], DTYPE_BF16, ACTIVATION_LEAKY_RELU);
            struct norm_results b =
                run_norm(&five, norm_shapes[row], DTYPE_BF16, ACTIVATION_LEAKY_RELU);
            assert_memory_equal(a.y.data, b.y.data, tensor_bytes(&a.y));
            assert_memory_equal(a.dx.data, b.dx.data, tensor_bytes(&a.dx));
            assert_memory_equal(a.vectors, b.vectors, a.floats * sizeof(float));
            norm_free(&a);
            norm_free(&b);
        }
        cpu_close(&one);
        cpu_close(&five);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epilogues_equal_ref_on_every_way_through_the_code),
        cmocka_unit_test(test_convolutions_give_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(test_batch_norm_equals_ref),
        cmocka_unit_test(test_batch_norm_gives_the_same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
