/* test_public_reports.c - what users of other loss scalers have reported, where a scaler
 * alone can show it. Each test begins with the report, its symptom, and what this one
 * does; whole runs are in tests/app/test_public_reports.c. */
#include <math.h>
#include <string.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

// One iteration with all gradients `grad`, which carry the scale already.
static struct step_record take(struct toy *toy, float grad)
{
    (void)grad_scaler_scale(&toy->scaler);
    toy_fill_grads(toy, grad);
    assert_int_equal(grad_scaler_step(&toy->scaler, &toy->adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy->scaler), CALL_OK);
    return grad_scaler_record(&toy->scaler);
}

/* pytorch#98828: a tiny loss never overflows, so the scale grows to inf and every step is
 * skipped from then on. Here growth that is not finite is refused, and steps go on. */
static void a_loss_of_1e_minus_30_never_grows_the_scale_to_inf(void **state)
{
    (void)state;
    static const double start[] = {1e38, 65536.0}, growth[] = {16.0, 2.0};
    static const float end[] = {1e38f, 0x1p127f};
    for (int i = 0; i < 2; i++) {
        struct toy toy;
        toy_open_with(&toy, start[i], growth[i], 1);
        for (int step = 1; step <= 300; step++) {
            struct step_record record = take(&toy, 1e-30f * toy_scale(&toy));
            assert_false(record.was_skipped);
            assert_int_equal(record.adam_t, step);
        }
        assert_toy_scale(&toy, end[i], 0);
        struct toy_weights weights = toy_weights(&toy); // the first moment is the mean
        assert_true(fabsf(weights.m[0] / 1e-30f - 1.0f) < 1e-5f);
        toy_close(&toy);
    }
}

/* pytorch#99640: scaled gradients are finite, but divided by a tiny scale they are inf,
 * and reach the weights unseen. Here what unscaling makes infinite also skips, and says
 * so. */
static void a_gradient_that_a_tiny_scale_makes_infinite_reaches_no_weight(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 0x1p-10, 2.0, 2000);
    struct toy_weights before = toy_weights(&toy), after;
    struct step_record record = take(&toy, 1e38f);
    after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    assert_true(record.was_skipped);
    assert_true(record.found_inf == 0.0f && record.found_inf_unscaled == 1.0f);
    // The next step, within range, is a step like any other.
    assert_false(take(&toy, 1.0f).was_skipped);
    after = toy_weights(&toy);
    assert_other_params(&after, &before);
    toy_close(&toy);
}

// What both networks' gradients would be without a scale, in iteration `t`.
static void true_grads(int network, int t, float grads[TOY_MAX])
{
    for (int i = 0; i < TOY_MAX; i++)
        grads[i] = ldexpf((float)((i * 7 + t * 5 + network * 3) % 11 - 5), -12);
}

static void backward(struct toy *toy, int network, int t)
{
    float grads[TOY_MAX];
    true_grads(network, t, grads);
    for (int i = 0; i < TOY_MAX; i++)
        grads[i] *= toy_scale(toy); // a scale is a power of two: exact
    (void)grad_scaler_scale(&toy->scaler);
    toy_set_grads(toy, grads);
}

static void step_and_update(struct toy *toy)
{
    assert_int_equal(grad_scaler_step(&toy->scaler, &toy->adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy->scaler), CALL_OK);
}

/* accelerate#174, #439: one global scaler whose update() runs inside every
 * optimizer.step(), so twice an iteration, and the second network's gradients are divided
 * by a scale that they do not carry. Here each network has its own: with both backward
 * passes before both steps, and G's scale growing in between, every weight is that of
 * training without scales. */
static void two_backward_passes_before_two_steps_equal_fp32(void **state)
{
    (void)state;
    static const double scales[] = {65536.0, 64.0};
    static const int64_t intervals[] = {2, 3};
    struct grad_scaler_config plain = toy_config(1.0, 2.0, 2000);
    struct toy scaled[2], single[2];
    plain.enabled = 0;
    for (int n = 0; n < 2; n++) {
        toy_open_with(&scaled[n], scales[n], 2.0, intervals[n]);
        toy_open(&single[n], toy_device, 5, &plain);
    }
    for (int t = 0; t < 12; t++) {
        for (int n = 0; n < 2; n++) {
            backward(&scaled[n], n, t);
            backward(&single[n], n, t);
        }
        for (int n = 1; n >= 0; n--) {
            step_and_update(&scaled[n]);
            step_and_update(&single[n]);
        }
        for (int n = 0; n < 2; n++) {
            struct toy_weights got = toy_weights(&scaled[n]);
            struct toy_weights want = toy_weights(&single[n]);
            assert_same_weights(&got, &want);
            // One update an iteration: after 2 and 3 of them the scale grows, not before.
            assert_toy_scale(&scaled[n],
                             ldexpf((float)scales[n], (t + 1) / (int)intervals[n]),
                             (t + 1) % (int)intervals[n]);
        }
    }
    for (int n = 0; n < 2; n++) {
        toy_close(&scaled[n]);
        toy_close(&single[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_of_1e_minus_30_never_grows_the_scale_to_inf),
        cmocka_unit_test(a_gradient_that_a_tiny_scale_makes_infinite_reaches_no_weight),
        cmocka_unit_test(two_backward_passes_before_two_steps_equal_fp32),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
