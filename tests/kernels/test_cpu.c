/* The fast CPU backend, at every instruction set of this machine: how one is chosen, and
 * its vector words against the plain meaning of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/half.h"
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

/* Runs check(device) on one device per instruction set. */
static void at_every_isa(void (*check)(struct device *device))
{
    for (int i = 0; i < ISAS; i++) {
        struct device device = open_at(isa_names[i], 2);
        check(&device);
        cpu_close(&device);
    }
}

static void test_the_plain_c_kernels_can_be_asked_for(void **state)
{
    (void)state;
    struct device device = open_at("c", 3);
    assert_non_null(strstr(device.description, ", c, 3 threads"));
    cpu_close(&device);
}

static void test_avx512_turns_dot_products_of_bf16_off(void **state)
{
    (void)state;
    struct device best = open_at("avx512-bf16", 1), without = open_at("avx512", 1);
    int has_pairs = strstr(best.description, ", avx512-bf16,") != NULL;
    assert_null(strstr(without.description, "bf16"));
    assert_true(has_pairs == (strcmp(best.description, without.description) != 0));
    cpu_close(&best);
    cpu_close(&without);
}

static void test_an_unknown_instruction_set_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    struct device device = {.name = "cpu", .threads = 1};
    setenv("TWINSCALE_ISA", "sse9", 1);
    assert_int_equal(cpu_open(&device), STATUS_USAGE);
    unsetenv("TWINSCALE_ISA");
    assert_non_null(
        strstr(status_message(), "\"sse9\": expected avx512-bf16, avx512, avx2 or c"));
    cpu_close(&device); // never opened: fine
}

/* ---- half conversions ------------------------------------------------------------ */

static void check_widening(struct device *device)
{
    enum { COUNT = 65536 };
    uint16_t *bits = malloc(COUNT * sizeof *bits);
    float *wide = malloc(COUNT * sizeof *wide);
    for (int i = 0; i < COUNT; i++)
        bits[i] = (uint16_t)i;
    for (int dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
        struct tensor from =
            tensor_of((enum dtype)dtype, (struct shape){1, 1, 1, COUNT}, bits);
        struct tensor to = tensor_of(DTYPE_F32, from.shape, wide);
        device->ops->pointwise.cast(device, &from, &to);
        for (int i = 0; i < COUNT; i++) {
            float want = element_load(bits, (enum dtype)dtype, (size_t)i);
            if (memcmp(&wide[i], &want, sizeof want) != 0 &&
                !(isnan(want) && isnan(wide[i])))
                fail_msg("%s %s 0x%04x: got %a, want %a", device->description,
                         dtype_name((enum dtype)dtype), i, (double)wide[i], (double)want);
        }
    }
    free(bits);
    free(wide);
}

static void test_every_half_widens_to_the_value_that_half_h_gives(void **state)
{
    (void)state;
    at_every_isa(check_widening);
}

/* A sweep over all exponents and mantissas of f32, and every tie of f16 and its
 * neighbours. */
static size_t fill_sweep(float *values)
{
    size_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 9973) {
        uint32_t word = (uint32_t)bits;
        memcpy(&values[n++], &word, sizeof word);
    }
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float low = f32_from_f16((uint16_t)half),
              high = f32_from_f16((uint16_t)(half + 1));
        float tie = half + 1 < 0x7c00 ? low + (high - low) / 2 : 65520.0f;
        values[n++] = tie;
        values[n++] = nextafterf(tie, 0.0f);
        values[n++] = -nextafterf(tie, INFINITY);
    }
    return n;
}

static void check_rounding(struct device *device)
{
    float *values = malloc(600000 * sizeof *values);
    size_t n = fill_sweep(values);
    assert_true(n <= 600000);
    uint16_t *bits = malloc(n * sizeof *bits);
    for (int dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
        device->ops->optimizer.half_copy(device, values, bits, (enum dtype)dtype, n);
        for (size_t i = 0; i < n; i++) {
            uint16_t want =
                dtype == DTYPE_F16 ? f16_from_f32(values[i]) : bf16_from_f32(values[i]);
            float got = element_load(bits, (enum dtype)dtype, i);
            if (bits[i] != want && !(isnan(values[i]) && isnan(got)))
                fail_msg("%s %s of %a: got 0x%04x, want 0x%04x", device->description,
                         dtype_name((enum dtype)dtype), (double)values[i], bits[i], want);
        }
    }
    free(values);
    free(bits);
}

static void test_rounding_to_half_gives_the_bits_of_half_h(void **state)
{
    (void)state;
    at_every_isa(check_rounding);
}

/* ---- activations ----------------------------------------------------------------- */

static void check_tanh(struct device *device)
{
    enum { COUNT = 400001 };
    struct tensor x = heap_tensor(DTYPE_F32, (struct shape){1, 1, 1, COUNT});
    struct tensor y = heap_tensor(DTYPE_F32, x.shape);
    float *in = x.data, *out = y.data;
    for (int i = 0; i < COUNT; i++) // from 2^-30 to 2^5 of either sign
        in[i] = (i % 2 ? -1.0f : 1.0f) * exp2f(-30.0f + 35.0f * (float)i / (float)COUNT);
    in[0] = 0.0f;
    in[1] = INFINITY;
    in[2] = -INFINITY;
    in[3] = NAN;
    in[4] = 0x1p-149f;
    device->ops->pointwise.act_forward(device, &x, ACTIVATION_TANH, 0.0f, &y);
    assert_true(isnan(out[3]));
    for (int i = 0; i < COUNT; i++) {
        double want = tanh((double)in[i]);
        double ulp =
            (double)(nextafterf(fabsf((float)want), INFINITY) - fabsf((float)want));
        if (i != 3 && !(fabs((double)out[i] - want) <= 2.0 * ulp))
            fail_msg("%s tanh(%a): got %a, want %a", device->description, (double)in[i],
                     (double)out[i], want);
    }
    free(x.data);
    free(y.data);
}

static void test_tanh_is_within_two_units_of_the_last_place(void **state)
{
    (void)state;
    at_every_isa(check_tanh);
}

static void check_activations(struct device *device)
{
    struct ops ref;
    ref_fill_ops(&ref);
    for (int n = 1; n < 40; n++) { // every tail
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            struct tensor x = heap_tensor((enum dtype)dtype, (struct shape){1, 1, n, 3});
            struct tensor dy = heap_tensor(x.dtype, x.shape);
            struct tensor got = heap_tensor(x.dtype, x.shape);
            struct tensor want = heap_tensor(x.dtype, x.shape);
            fill_tensor(&x, FILL_EDGE, (uint64_t)n);
            fill_tensor(&dy, FILL_EDGE, (uint64_t)n + 100);
            for (int a = ACTIVATION_NONE; a <= ACTIVATION_LEAKY_RELU; a++) {
                enum activation activation = (enum activation)a;
                device->ops->pointwise.act_forward(device, &x, activation, 0.2f, &got);
                ref.pointwise.act_forward(NULL, &x, activation, 0.2f, &want);
                assert_tensors_close("act_forward", &got, &want, 0, 0, (uint64_t)n);
                device->ops->pointwise.act_backward(device, &dy, &x, activation, 0.2f,
                                                    &got);
                ref.pointwise.act_backward(NULL, &dy, &x, activation, 0.2f, &want);
                assert_tensors_close("act_backward", &got, &want, 0, 0, (uint64_t)n);
            }
            free(x.data);
            free(dy.data);
            free(got.data);
            free(want.data);
        }
    }
}

static void test_relu_and_leaky_relu_equal_ref_with_inf_and_nan(void **state)
{
    (void)state;
    at_every_isa(check_activations);
}

/* ---- optimizer ------------------------------------------------------------------- */

enum { PARAMS = 40003 }; // more than one task, and a tail

struct adam_case {
    float *params, *grads, *m, *v;
    uint16_t *half;
    struct adam_args args;
};

static struct adam_case adam_case(void)
{
    struct adam_case c = {
        malloc(PARAMS * sizeof(float)),   malloc(PARAMS * sizeof(float)),
        calloc(PARAMS, sizeof(float)),    calloc(PARAMS, sizeof(float)),
        calloc(PARAMS, sizeof(uint16_t)), {0}};
    fill_f32(c.params, PARAMS, FILL_RANDOM, 1);
    fill_f32(c.grads, PARAMS, FILL_RANDOM, 2);
    c.args = (struct adam_args){.params = c.params,
                                .half = c.half,
                                .half_dtype = DTYPE_F16,
                                .grads = c.grads,
                                .m = c.m,
                                .v = c.v,
                                .n = PARAMS,
                                .lr = 2e-4f,
                                .beta1 = 0.5f,
                                .beta2 = 0.999f,
                                .eps = 1e-8f};
    return c;
}

static void adam_free(struct adam_case *c)
{
    free(c->params);
    free(c->grads);
    free(c->m);
    free(c->v);
    free(c->half);
}

static void check_adam(struct device *device)
{
    struct ops ref;
    ref_fill_ops(&ref);
    struct adam_case got = adam_case(), want = adam_case();
    struct scaler_state got_state = {.scale = 1024.0f, .enabled = 1};
    struct scaler_state want_state = got_state;
    for (int step = 0; step < 5; step++) {
        device->ops->optimizer.adam_step(device, &got.args, 0, &got_state);
        ref.optimizer.adam_step(NULL, &want.args, 0, &want_state);
    }
    assert_int_equal(got_state.adam_t, 5);
    assert_memory_equal(got.params, want.params, PARAMS * sizeof(float));
    assert_memory_equal(got.m, want.m, PARAMS * sizeof(float));
    assert_memory_equal(got.v, want.v, PARAMS * sizeof(float));
    assert_memory_equal(got.half, want.half, PARAMS * sizeof(uint16_t));

    // A skipped step touches nothing.
    got_state.found_inf = 1.0f;
    device->ops->optimizer.adam_step(device, &got.args, 0, &got_state);
    assert_int_equal(got_state.adam_t, 5);
    assert_memory_equal(got.params, want.params, PARAMS * sizeof(float));
    assert_memory_equal(got.m, want.m, PARAMS * sizeof(float));

    // The average moves with a step that is taken and with one that is skipped.
    float decay = 0.99f;
    got.args.ema = calloc(PARAMS, sizeof(float));
    want.args.ema = calloc(PARAMS, sizeof(float));
    got.args.ema_decay = want.args.ema_decay = &decay;
    for (int skips = 0; skips < 2; skips++) {
        got_state.found_inf = want_state.found_inf = (float)skips;
        device->ops->optimizer.adam_step(device, &got.args, 0, &got_state);
        ref.optimizer.adam_step(NULL, &want.args, 0, &want_state);
        assert_int_equal(got_state.adam_t, 6);
        assert_memory_equal(got.params, want.params, PARAMS * sizeof(float));
        assert_memory_equal(got.args.ema, want.args.ema, PARAMS * sizeof(float));
    }
    free(got.args.ema);
    free(want.args.ema);
    adam_free(&got);
    adam_free(&want);
}

static void test_adam_and_ema_equal_ref_bit_for_bit(void **state)
{
    (void)state;
    at_every_isa(check_adam);
}

static void check_finite_check(struct device *device)
{
    float *grads = malloc(PARAMS * sizeof *grads);
    const struct {
        float value, scale, found_inf, found_inf_unscaled;
    } rows[] = {{1.0f, 65536.0f, 0, 0},
                {INFINITY, 65536.0f, 1, 0},
                {-INFINITY, 1.0f, 1, 0},
                {NAN, 65536.0f, 1, 0},
                {3e38f, 0.5f, 0, 1}};
    const size_t places[] = {0, 17, 32767, 32768, PARAMS - 1};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            struct scaler_state state = {.scale = rows[r].scale, .enabled = 1};
            fill_f32(grads, PARAMS, FILL_RANDOM, 3);
            grads[places[p]] = rows[r].value;
            device->ops->optimizer.grads_check(device, grads, PARAMS, &state);
            assert_true(state.found_inf == rows[r].found_inf);
            assert_true(state.found_inf_unscaled == rows[r].found_inf_unscaled);
        }
    }
    free(grads);
}

static void test_one_inf_or_nan_anywhere_in_the_gradients_is_found(void **state)
{
    (void)state;
    at_every_isa(check_finite_check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_plain_c_kernels_can_be_asked_for),
        cmocka_unit_test(test_avx512_turns_dot_products_of_bf16_off),
        cmocka_unit_test(test_an_unknown_instruction_set_is_refused_with_the_known_ones),
        cmocka_unit_test(test_every_half_widens_to_the_value_that_half_h_gives),
        cmocka_unit_test(test_rounding_to_half_gives_the_bits_of_half_h),
        cmocka_unit_test(test_tanh_is_within_two_units_of_the_last_place),
        cmocka_unit_test(test_relu_and_leaky_relu_equal_ref_with_inf_and_nan),
        cmocka_unit_test(test_adam_and_ema_equal_ref_bit_for_bit),
        cmocka_unit_test(test_one_inf_or_nan_anywhere_in_the_gradients_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
