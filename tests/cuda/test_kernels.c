/* The product's CUDA kernels on fibers, in what the tests of all backends do not ask:
 * the same bits in every order of the threads, and what convolutions use of them. The
 * slots of the op contract are compared with ref by tests/kernels/test_ops_*.c, compiled
 * for fiber_device_open(). */
#include <stdlib.h>

#include "kernels/cuda/backend.h"
#include "kernels/ref/ref.h"
#include "tests/cuda/fibers/device.h"

#define OPEN_DEVICE fiber_device_open
#include "tests/kernels/backends.h"

static const char *const orders[] = {"fwd", "rev", "rand1", "rand2", "rand3"};
#define ORDERS (sizeof orders / sizeof orders[0])

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const enum activation activations[] = {ACTIVATION_NONE, ACTIVATION_RELU,
                                              ACTIVATION_LEAKY_RELU, ACTIVATION_TANH};
static const struct shape shapes[] = {
    {1, 1, 1, 1},   {1, 1, 1, 8},  {2, 3, 5, 7},   {4, 4, 4, 17},   {3, 2, 1, 9},
    {4, 28, 28, 3}, {4, 8, 8, 64}, {2, 2, 2, 300}, {64, 1, 1, 512},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define SLOPE 0.2f

enum { CHANNELS_MAX = 512 };

/* ---- the same bits in every order ------------------------------------------------ */

/* What the reductions of one tensor leave. */
struct reduced {
    _Alignas(64) float vectors[5][CHANNELS_MAX];
    struct loss_sums sums;
    struct scaler_state scaler;
};

static void reduce(struct device *device, const struct tensor *dy, const struct tensor *x,
                   struct reduced *r)
{
    static _Alignas(64) float ones[CHANNELS_MAX], halves[CHANNELS_MAX];
    for (int c = 0; c < CHANNELS_MAX; c++)
        ones[c] = 1.0f, halves[c] = 0.5f;
    memset(r, 0, sizeof *r);
    struct norm_vectors v = {.gamma = ones,
                             .beta = halves,
                             .mean = halves,
                             .inv_std = ones,
                             .scale = ones,
                             .shift = halves,
                             .sum_dz = r->vectors[2],
                             .sum_dz_xhat = r->vectors[3]};
    device->ops->norm.stats(device, x, r->vectors[0], r->vectors[1]);
    device->ops->norm.act_reduce(device, dy, x, &v, ACTIVATION_LEAKY_RELU, SLOPE);
    device->ops->pointwise.bias_grad(device, dy, r->vectors[4], 0);

    struct tensor logits = padded_tensor(DTYPE_F32, (struct shape){x->shape.n, 1, 1, 1});
    struct tensor seed = padded_tensor(DTYPE_F16, logits.shape);
    fill_tensor(&logits, FILL_RANDOM, 3);
    r->scaler = (struct scaler_state){.scale = 1024.0f, .enabled = 1};
    device->ops->loss.on_logits(device, LOSS_ns, &logits, 1.0f, 1.0f, &r->scaler, &seed,
                                 &r->sums);
    if (x->dtype == DTYPE_F32)
        device->ops->optimizer.grads_check(device, x->data, tensor_stored(x), &r->scaler);
    free(logits.data);
    free(seed.data);
}

static void test_reductions_are_the_same_bits_in_every_order(void **state)
{
    (void)state;
    static struct reduced first, again;
    struct device *device = backends[0].device[0];
    for (size_t s = 0; s < SHAPES; s++) {
        for (size_t d = 0; d < 3; d++) {
            struct tensor x = padded_tensor(dtypes[d], shapes[s]);
            struct tensor dy = padded_tensor(dtypes[d], shapes[s]);
            fill_tensor(&x, FILL_RANDOM, s);
            fill_tensor(&dy, FILL_RANDOM, s + 1);
            for (size_t o = 0; o < ORDERS; o++) {
                setenv("FIBER_ORDER", orders[o], 1);
                reduce(device, &dy, &x, o ? &again : &first);
                if (o && memcmp(&first, &again, sizeof first))
                    fail_msg("shape %zu, %s: the bits of order %s are not those of %s", s,
                             dtype_name(dtypes[d]), orders[o], orders[0]);
            }
            free(x.data);
            free(dy.data);
        }
    }
}

/* ---- for convolutions ------------------------------------------------------------ */

static void check_add_wgrad(enum dtype dtype, size_t n, int accumulate, uint64_t seed)
{
    struct shape shape = {1, 1, 1, (int)n};
    struct tensor dw = heap_tensor(dtype, shape), grad = heap_tensor(DTYPE_F32, shape);
    struct tensor want = heap_tensor(DTYPE_F32, shape);
    fill_tensor(&dw, FILL_EDGE, seed);
    fill_tensor(&grad, FILL_RANDOM, seed + 1);
    for (size_t i = 0; i < n; i++) {
        float before = accumulate ? element_load(grad.data, DTYPE_F32, i) : 0.0f;
        element_store(want.data, DTYPE_F32, i, before + element_load(dw.data, dtype, i));
    }
    if (!accumulate)
        poison(&grad);
    cuda_add_wgrad(backends[0].device[0], dw.data, dtype, grad.data, n, accumulate);
    assert_tensors_close("cuda_add_wgrad", &grad, &want, 0.0, 0.0, seed);
    free(dw.data);
    free(grad.data);
    free(want.data);
}

static void test_a_weight_gradient_is_added_as_it_was_stored(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 9, 15, 16, 33, 1000, 40000};
    for (size_t o = 0; o < 3; o++) {
        setenv("FIBER_ORDER", orders[o], 1);
        for (size_t d = 0; d < 3; d++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                for (int accumulate = 0; accumulate < 2; accumulate++)
                    check_add_wgrad(dtypes[d], sizes[i], accumulate, i);
    }
}

/* An epilogue over sums that a convolution left, and what it should have made. */
struct finish {
    struct tensor from, out, want, undo;
    _Alignas(64) float bias[CHANNELS_MAX], sum[CHANNELS_MAX], sumsq[CHANNELS_MAX];
    float want_sum[CHANNELS_MAX], want_sumsq[CHANNELS_MAX];
    struct conv_epilogue epilogue;
};

static void finish_begin(struct finish *f, struct shape shape, enum dtype from,
                         enum dtype to, enum fill fill, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    f->from = padded_tensor(from, shape);
    f->out = padded_tensor(to, shape);
    f->want = padded_tensor(to, shape);
    f->undo = padded_tensor(to, shape);
    fill_for(&f->from, fill, seed);
    fill_for(&f->undo, fill, seed + 1);
    fill_f32(f->bias, (size_t)shape.c, FILL_RANDOM, seed + 2);
    poison(&f->out);
}

static void finish_end(struct finish *f)
{
    struct tensor *all[] = {&f->from, &f->out, &f->want, &f->undo};
    for (size_t i = 0; i < 4; i++)
        free(all[i]->data);
}

/* The meaning of conv_epilogue, from ops.h. */
static void finish_as_written(struct finish *f)
{
    const struct conv_epilogue *e = &f->epilogue;
    double sums[CHANNELS_MAX] = {0}, squares[CHANNELS_MAX] = {0};
    for (size_t i = 0; i < tensor_elements(&f->want); i++) {
        size_t place = place_of(&f->want, i), c = i % (size_t)f->want.shape.c;
        float value = element_load(f->from.data, f->from.dtype, place);
        if (e->undo) {
            float y = element_load(e->undo->data, e->undo->dtype, place);
            value *= ref_activation_slope(y, y, e->activation, e->slope);
        } else {
            value = ref_activate(value + (e->bias ? e->bias[c] : 0.0f), e->activation,
                                 e->slope);
        }
        element_store(f->want.data, f->want.dtype, place, value);
        double stored = (double)element_load(f->want.data, f->want.dtype, place);
        sums[c] += stored;
        squares[c] += stored * stored;
    }
    for (int c = 0; c < f->want.shape.c; c++) {
        f->want_sum[c] = (float)sums[c];
        f->want_sumsq[c] = (float)squares[c];
    }
}

/* Runs it apart from `from`, then in place where the dtypes agree. */
static void check_finish(struct finish *f, const char *what, uint64_t seed)
{
    struct device *device = backends[0].device[0];
    enum dtype to = f->out.dtype;
    size_t channels = (size_t)f->out.shape.c,
           pixels = tensor_elements(&f->out) / channels;
    struct bounds bounds = {.of_magnitude = 1e-6,
                            .absolute = unit_absolute(to),
                            .relative = 1e-5 + unit_relative(to)};
    struct bounds of_sums = {.of_magnitude = 4e-5 * (double)pixels * 8.0,
                             .relative = 1e-5 + unit_relative(to)};
    finish_as_written(f);
    cuda_epilogue(device, f->from.data, f->from.dtype, &f->epilogue, &f->out);
    assert_within("cuda_epilogue", what, "apart", &f->out, &f->want, &bounds, seed);
    if (f->epilogue.sum) {
        assert_vector_within("cuda_epilogue", "sum", f->sum, f->want_sum, channels,
                             &of_sums, seed);
        assert_vector_within("cuda_epilogue", "sumsq", f->sumsq, f->want_sumsq, channels,
                             &of_sums, seed);
    }
    if (f->from.dtype != to)
        return;
    cuda_epilogue(device, f->from.data, to, &f->epilogue, &f->from);
    assert_memory_equal(f->from.data, f->out.data, tensor_bytes(&f->out));
}

/* Every epilogue of one tensor: with and without bias and sums, and undoing. */
static void check_finishes(struct shape shape, enum dtype from, enum dtype to,
                           enum activation activation, uint64_t seed)
{
    static struct finish f;
    for (int which = 0; which < 10; which++) {
        enum fill fill = which < 5 ? FILL_RANDOM : FILL_EDGE;
        int has_bias = which % 5 & 1, has_sums = which % 5 >> 1 & 1;
        int is_undo = which % 5 == 4;
        if (fill == FILL_EDGE && has_sums)
            continue; // the largest halves' squares: nothing that a sum could be held to
        finish_begin(&f, shape, from, to, fill, seed);
        f.epilogue = (struct conv_epilogue){.bias = has_bias ? f.bias : NULL,
                                            .activation = activation,
                                            .slope = SLOPE,
                                            .sum = has_sums ? f.sum : NULL,
                                            .sumsq = has_sums ? f.sumsq : NULL,
                                            .undo = is_undo ? &f.undo : NULL};
        char what[64];
        snprintf(what, sizeof what, "%s, activation %d%s%s%s", dtype_name(from),
                 (int)activation, has_bias ? ", bias" : "", has_sums ? ", sums" : "",
                 is_undo ? ", undo" : "");
        check_finish(&f, what, seed);
        finish_end(&f);
    }
}

static void test_an_epilogue_by_itself_does_what_the_contract_says(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        setenv("FIBER_ORDER", orders[s % ORDERS], 1);
        for (size_t from = 0; from < 3; from++)
            for (size_t to = 0; to < 3; to++)
                for (size_t a = 0; a < 4; a++)
                    check_finishes(shapes[s], dtypes[from], dtypes[to], activations[a],
                                   100 * s + 10 * from + to);
    }
}

/* ---- surveys --------------------------------------------------------------------- */

static void compare_stats(const struct survey_stats *got, const struct survey_stats *want,
                          const struct survey_span *span, size_t i)
{
    if (got->inf != want->inf || got->nan != want->nan || got->zero != want->zero ||
        got->subnormal != want->subnormal || got->max_abs != want->max_abs)
        fail_msg("survey, span %zu of %zu %s: %llu inf, %llu NaN, %llu zero, %llu "
                 "subnormal, max %g; want %llu, %llu, %llu, %llu, %g",
                 i, span->n, dtype_name(span->dtype), (unsigned long long)got->inf,
                 (unsigned long long)got->nan, (unsigned long long)got->zero,
                 (unsigned long long)got->subnormal, (double)got->max_abs,
                 (unsigned long long)want->inf, (unsigned long long)want->nan,
                 (unsigned long long)want->zero, (unsigned long long)want->subnormal,
                 (double)want->max_abs);
    double sum_size = (double)span->n * (double)want->max_abs;
    assert_true(fabs(got->sum - want->sum) <= 1e-6 * sum_size);
    assert_true(fabs(got->sumsq - want->sumsq) <= 1e-6 * want->sumsq ||
                got->sumsq == want->sumsq);
}

static void test_surveys_agree_and_look_only_when_the_gate_is_open(void **state)
{
    (void)state;
    enum { SPANS = 15 };
    static const size_t sizes[] = {1, 7, 8, 1001, 40000};
    struct device *device = backends[0].device[0];
    struct survey_span spans[SPANS];
    struct survey_stats got[SPANS], want[SPANS];
    for (size_t i = 0; i < SPANS; i++) {
        struct tensor t =
            heap_tensor(dtypes[i % 3], (struct shape){1, 1, 1, (int)sizes[i / 3]});
        fill_tensor(&t, i % 2 ? FILL_EDGE : FILL_RANDOM, i);
        spans[i] = (struct survey_span){t.data, sizes[i / 3], t.dtype};
    }
    ref->ops->survey.survey(ref, spans, SPANS, NULL, want);
    for (size_t o = 0; o < ORDERS; o++) {
        setenv("FIBER_ORDER", orders[o], 1);
        memset(got, 0xff, sizeof got);
        device->ops->survey.survey(device, spans, SPANS, NULL, got);
        for (size_t i = 0; i < SPANS; i++)
            compare_stats(&got[i], &want[i], &spans[i], i);
    }
    struct survey_stats kept[SPANS];
    memcpy(kept, got, sizeof kept);
    struct scaler_state gate = {.scale = 1.0f, .enabled = 1};
    memset(got, 0xff, sizeof got);
    device->ops->survey.survey(device, spans, SPANS, &gate, got);
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(((unsigned char *)got)[i], 0xff);
    gate.found_inf = 1.0f;
    device->ops->survey.survey(device, spans, SPANS, &gate, got);
    for (size_t i = 0; i < SPANS; i++)
        compare_stats(&got[i], &kept[i], &spans[i], i);
    for (size_t i = 0; i < SPANS; i++)
        free((void *)(uintptr_t)spans[i].data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_are_the_same_bits_in_every_order),
        cmocka_unit_test(test_a_weight_gradient_is_added_as_it_was_stored),
        cmocka_unit_test(test_an_epilogue_by_itself_does_what_the_contract_says),
        cmocka_unit_test(test_surveys_agree_and_look_only_when_the_gate_is_open),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
