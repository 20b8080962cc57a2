/* test_pytorch_cases.c - the tests that PyTorch runs on its GradScaler, for this one, on
 * every device that always exists. Source: test/test_torch.py and test/test_cuda.py of
 * PyTorch (what they assert). */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

static const char *const device_names[] = {"ref", "cpu"};
#define DEVICES 2

static struct device *open_named(int which)
{
    struct device *device;
    enum status status = device_open(device_names[which], 0, &device);
    if (status != STATUS_OK)
        fail_msg("%s: %s", device_names[which], status_message());
    return device;
}

static void close_named(struct device *device)
{
    assert_int_equal(device_fault(device), STATUS_OK);
    device_close(device);
}

static float found_inf(const struct toy *toy)
{
    return grad_scaler_read(&toy->scaler).found_inf;
}

/* ---- unscale --------------------------------------------------------------------- */

static void unscaling_fours_by_a_scale_of_four_gives_ones(void **state)
{
    (void)state;
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct grad_scaler_config config = toy_config(4.0, 2.0, 2000);
        struct toy toy;
        toy_open(&toy, device, TOY_MAX, &config);
        (void)grad_scaler_scale(&toy.scaler);
        toy_fill_grads(&toy, 4.0f);
        assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                         CALL_OK);
        float grads[TOY_MAX];
        toy_get_grads(&toy, grads);
        for (int i = 0; i < TOY_MAX; i++)
            assert_true(grads[i] == 1.0f);
        assert_true(found_inf(&toy) == 0.0f);
        toy_close(&toy);
        close_named(device);
    }
}

// Infinities, quiet and signalling NaN, both signs, largest and smallest payload.
static const uint32_t bad_bits[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u,
                                    0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu};

static void assert_found_at(struct toy *toy, size_t at, uint32_t bits)
{
    size_t n = toy->net.param_elements;
    (void)grad_scaler_scale(&toy->scaler);
    toy_fill_grads(toy, 1.0f);
    toy_set_grad(toy, at, float_of_bits(bits));
    assert_int_equal(grad_scaler_unscale(&toy->scaler, &toy->adam.optimizer.gradients),
                     CALL_OK);
    if (found_inf(toy) != (at < n ? 1.0f : 0.0f))
        fail_msg("%s: bits %08x at %zu of %zu: found_inf %g", toy->device->name, bits, at,
                 n, (double)found_inf(toy));
    assert_int_equal(grad_scaler_set(&toy->scaler, 65536.0), STATUS_OK);
}

static void
every_inf_and_nan_is_found_at_every_place_and_none_beyond_the_end(void **state)
{
    (void)state;
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct grad_scaler_config config = grad_scaler_default_config();
        struct toy toy;
        toy_open(&toy, device, 1, &config);
        for (size_t n = 1; n <= 67; n++) { // tails of every vector width
            toy.net.param_elements = toy.adam.optimizer.gradients.block[0].n = n;
            for (size_t at = 0; at <= n; at++)
                for (size_t i = 0; i < sizeof bad_bits / sizeof *bad_bits; i++)
                    assert_found_at(&toy, at, bad_bits[i]);
        }
        toy_close(&toy);
        close_named(device);
    }
}

static void the_largest_and_smallest_finite_gradients_are_not_overflows(void **state)
{
    (void)state;
    static const float finite[] = {FLT_MAX,   -FLT_MAX,   FLT_MIN,
                                   0x1p-149f, -0x1p-149f, -0.0f};
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct grad_scaler_config config = grad_scaler_default_config();
        struct toy toy;
        toy_open(&toy, device, 37, &config);
        for (size_t i = 0; i < sizeof finite / sizeof *finite; i++) {
            (void)grad_scaler_scale(&toy.scaler);
            toy_fill_grads(&toy, finite[i]);
            assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
            assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
            assert_false(grad_scaler_record(&toy.scaler).was_skipped);
        }
        toy_close(&toy);
        close_named(device);
    }
}

static void a_scale_of_1e38_with_growth_16_stays_finite(void **state)
{
    (void)state;
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct grad_scaler_config config = toy_config(1e38, 16.0, 1);
        struct toy toy;
        toy_open(&toy, device, 5, &config);
        toy_good_steps(&toy, 4);
        assert_toy_scale(&toy, 1e38f, 0);
        toy_close(&toy);
        close_named(device);
    }
}

/* ---- scaled training against an unscaled control --------------------------------- */

#define BATCHES 4
#define SKIP_AT 2
#define NEVER (-1)

struct run {
    int is_control; // no scaler at all: Adam alone, which leaves out the skipped step
    int is_enabled;
    int unscales;    // calls unscale before step
    float clip_norm; // 0: none
    int inject_at;   // iteration, or NEVER
    int micro_batches;
};

/* Gradients of 1/2 |params - target|^2 times `factor`: a toy training. */
static void add_gradients(struct toy *toy, int iteration, float factor, int accumulate)
{
    float params[TOY_MAX], grads[TOY_MAX] = {0};
    toy->device->ops->memory.download(toy->device, params, toy->net.params,
                                      sizeof params);
    if (accumulate)
        toy_get_grads(toy, grads);
    for (int i = 0; i < TOY_MAX; i++) {
        float target = 0.11f * (float)(i % 7) + 0.05f * (float)iteration;
        grads[i] += factor * (params[i] - target);
    }
    toy_set_grads(toy, grads);
}

/* Clips on the host, as an optional step between unscale and step. */
static void clip_gradients(struct toy *toy, float norm_max)
{
    float grads[TOY_MAX];
    double sum = 0;
    toy_get_grads(toy, grads);
    for (int i = 0; i < TOY_MAX; i++)
        sum += (double)grads[i] * (double)grads[i];
    float factor = norm_max / (float)sqrt(sum);
    for (int i = 0; i < TOY_MAX; i++)
        grads[i] *= factor < 1.0f ? factor : 1.0f;
    toy_set_grads(toy, grads);
}

static void train_step(struct toy *toy, const struct run *run, int iteration)
{
    struct scaler_state scaler = grad_scaler_read(&toy->scaler);
    (void)grad_scaler_scale(&toy->scaler);
    float factor = scaler_scale(&scaler) / (float)run->micro_batches;
    for (int micro = 0; micro < run->micro_batches; micro++)
        add_gradients(toy, iteration, factor, micro > 0);
    if (run->inject_at == iteration) {
        if (run->is_control)
            return;
        toy_set_grad(toy, 13, INFINITY);
    }
    if (run->unscales)
        assert_int_equal(
            grad_scaler_unscale(&toy->scaler, &toy->adam.optimizer.gradients), CALL_OK);
    if (run->clip_norm > 0)
        clip_gradients(toy, run->clip_norm);
    if (run->is_control) {
        adam_step(&toy->adam.optimizer, 0, toy->scaler.state);
        return;
    }
    assert_int_equal(grad_scaler_step(&toy->scaler, &toy->adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy->scaler), CALL_OK);
}

static float train(struct device *device, const struct run *run,
                   struct toy_weights *weights)
{
    struct grad_scaler_config config = toy_config(128.0, 2.0, 1);
    config.enabled = run->is_enabled;
    struct toy toy;
    toy_open(&toy, device, TOY_MAX, &config);
    struct toy_weights start = toy_weights(&toy);
    for (int i = 0; i < BATCHES; i++)
        train_step(&toy, run, i);
    *weights = toy_weights(&toy);
    assert_other_params(weights, &start);
    float scale = toy_scale(&toy);
    toy_close(&toy);
    return scale;
}

/* The run with a scaler equals the same run without one, optimizer state included. */
static void assert_equals_control(struct run run, float final_scale)
{
    struct run control = run;
    control.is_control = 1;
    control.is_enabled = 0;
    control.unscales = 0;
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct toy_weights got, want;
        assert_true(train(device, &run, &got) == final_scale);
        (void)train(device, &control, &want);
        assert_same_weights(&got, &want);
        assert_int_equal(got.adam_t, BATCHES - (run.inject_at != NEVER));
        close_named(device);
    }
}

static void
scaled_training_equals_unscaled_training_that_skips_the_same_step(void **state)
{
    (void)state;
    float final_scale = 128.0f * 2 * 2 * 2 * 0.5f; // three steps taken, one skipped
    for (int unscales = 0; unscales < 2; unscales++)
        assert_equals_control((struct run){.is_enabled = 1,
                                           .unscales = unscales,
                                           .inject_at = SKIP_AT,
                                           .micro_batches = 1},
                              final_scale);
}

static void scaled_training_without_overflow_equals_unscaled_training(void **state)
{
    (void)state;
    assert_equals_control(
        (struct run){.is_enabled = 1, .inject_at = NEVER, .micro_batches = 1}, 2048.0f);
}

static void training_with_a_disabled_scaler_equals_unscaled_training(void **state)
{
    (void)state;
    for (int unscales = 0; unscales < 2; unscales++)
        for (int injects = 0; injects < 2; injects++)
            assert_equals_control((struct run){.unscales = unscales,
                                               .inject_at = injects ? SKIP_AT : NEVER,
                                               .micro_batches = 1},
                                  1.0f);
}

static void
clipping_between_unscale_and_step_equals_clipping_without_a_scaler(void **state)
{
    (void)state;
    assert_equals_control((struct run){.is_enabled = 1,
                                       .unscales = 1,
                                       .clip_norm = 0.2f,
                                       .inject_at = SKIP_AT,
                                       .micro_batches = 1},
                          512.0f);
}

static void accumulating_two_scaled_micro_batches_equals_two_unscaled_ones(void **state)
{
    (void)state;
    assert_equals_control(
        (struct run){.is_enabled = 1, .inject_at = SKIP_AT, .micro_batches = 2}, 512.0f);
}

static void of_two_networks_only_the_one_that_overflows_skips(void **state)
{
    (void)state;
    struct run hurt = {.is_enabled = 1, .inject_at = SKIP_AT, .micro_batches = 1};
    struct run whole = {.is_enabled = 1, .inject_at = NEVER, .micro_batches = 1};
    struct grad_scaler_config config = toy_config(128.0, 2.0, 1);
    for (int which = 0; which < DEVICES; which++) {
        struct device *device = open_named(which);
        struct toy g, d;
        toy_open(&g, device, TOY_MAX, &config);
        toy_open(&d, device, TOY_MAX, &config);
        for (int i = 0; i < BATCHES; i++) { // interleaved, as a GAN trains
            train_step(&d, &hurt, i);
            train_step(&g, &whole, i);
        }
        assert_toy_scale(&d, 512.0f, 0);
        assert_toy_scale(&g, 2048.0f, 0);
        struct toy_weights alone, beside = toy_weights(&g);
        (void)train(device, &whole, &alone);
        assert_same_weights(&beside, &alone);
        assert_int_equal(grad_scaler_read(&d.scaler).adam_t, BATCHES - 1);
        toy_close(&g);
        toy_close(&d);
        close_named(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unscaling_fours_by_a_scale_of_four_gives_ones),
        cmocka_unit_test(
            every_inf_and_nan_is_found_at_every_place_and_none_beyond_the_end),
        cmocka_unit_test(the_largest_and_smallest_finite_gradients_are_not_overflows),
        cmocka_unit_test(a_scale_of_1e38_with_growth_16_stays_finite),
        cmocka_unit_test(
            scaled_training_equals_unscaled_training_that_skips_the_same_step),
        cmocka_unit_test(scaled_training_without_overflow_equals_unscaled_training),
        cmocka_unit_test(training_with_a_disabled_scaler_equals_unscaled_training),
        cmocka_unit_test(
            clipping_between_unscale_and_step_equals_clipping_without_a_scaler),
        cmocka_unit_test(accumulating_two_scaled_micro_batches_equals_two_unscaled_ones),
        cmocka_unit_test(of_two_networks_only_the_one_that_overflows_skips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
