/* The rule of one loss scale, on a device: the edge cases whose values PyTorch fixes. */
#include <math.h>

#include "kernels/ops.h"
#include "tests/support/support.h"

static struct device *device;

static int open_device(void **state)
{
    (void)state;
    return device_open("ref", 1, &device) != STATUS_OK;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

static struct scaler_state scaler_of(float scale, double growth, double backoff,
                                     int64_t interval)
{
    return (struct scaler_state){.growth_factor = growth,
                                 .backoff_factor = backoff,
                                 .growth_interval = interval,
                                 .scale = scale,
                                 .enabled = 1};
}

static struct step_record step(struct scaler_state *scaler, int found)
{
    struct step_record record;
    scaler->found_inf = found ? 1.0f : 0.0f;
    device->ops->optimizer.scaler_update(device, scaler, &record);
    return record;
}

static void test_pytorchs_own_update_vector(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(4.0f, 2.0, 0.25, 2);
    step(&s, 0);
    assert_true(s.scale == 4.0f && s.growth_tracker == 1);
    step(&s, 0);
    assert_true(s.scale == 8.0f && s.growth_tracker == 0);
    step(&s, 1);
    assert_true(s.scale == 2.0f && s.growth_tracker == 0);
}

static void test_twenty_steps_of_growth_and_backoff(void **state)
{
    (void)state;
    static const char found[] = "00010000111000000100";
    static const float scales[] = {65536,  65536, 131072, 65536, 65536, 65536, 131072,
                                   131072, 65536, 32768,  16384, 16384, 16384, 32768,
                                   32768,  32768, 65536,  32768, 32768, 32768};
    static const int trackers[] = {1, 2, 0, 0, 1, 2, 0, 1, 0, 0,
                                   0, 1, 2, 0, 1, 2, 0, 0, 1, 2};
    struct scaler_state s = scaler_of(65536.0f, 2.0, 0.5, 3);
    for (int i = 0; i < 20; i++) {
        struct step_record record = step(&s, found[i] == '1');
        if (s.scale != scales[i] || s.growth_tracker != trackers[i])
            fail_msg("step %d: scale %g tracker %d, want %g and %d", i, (double)s.scale,
                     s.growth_tracker, (double)scales[i], trackers[i]);
        assert_true(record.scale_after == scales[i]);
        assert_int_equal(record.was_skipped, found[i] == '1');
    }
    assert_int_equal(s.updates, 20);
    assert_int_equal(s.skipped, 5);
    assert_int_equal(s.backoffs, 5);
    assert_int_equal(s.growths, 4);
}

static void test_growth_to_infinity_is_refused(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(1e38f, 16.0, 0.5, 1);
    step(&s, 0);
    assert_true(s.scale == 1e38f);
    assert_int_equal(s.growth_tracker, 0);
    assert_int_equal(s.growths, 0);

    s = scaler_of(65536.0f, 2.0, 0.5, 1);
    for (int i = 0; i < 500; i++)
        step(&s, 0);
    assert_true(s.scale == 0x1p127f);
    assert_int_equal(s.growths, 111);
}

static void test_backoff_goes_below_one_and_ends_at_zero(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(65536.0f, 2.0, 0.5, 2000);
    int below_one = 0, subnormal = 0, infinite_inverse = 0, zero = 0;
    for (int i = 1; i <= 200; i++) {
        step(&s, 1);
        below_one = below_one || s.scale >= 1.0f ? below_one : i;
        subnormal = subnormal || s.scale >= 0x1p-126f ? subnormal : i;
        if (!infinite_inverse && !scale_is_finite(scaler_inverse(&s)))
            infinite_inverse = i;
        zero = zero || s.scale > 0.0f ? zero : i;
    }
    assert_int_equal(below_one, 17);
    assert_int_equal(subnormal, 143);
    assert_int_equal(infinite_inverse, 144);
    assert_int_equal(zero, 166);
    assert_int_equal(s.skipped_in_a_row, 200);
    step(&s, 0);
    assert_true(s.scale == 0.0f); // growth cannot leave 0
    assert_int_equal(s.skipped_in_a_row, 0);
}

static void
test_an_interval_lowered_below_the_tracker_grows_at_the_next_good_step(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(128.0f, 2.0, 0.5, 10);
    for (int i = 0; i < 5; i++)
        step(&s, 0);
    s.growth_interval = 3;
    step(&s, 0);
    assert_true(s.scale == 256.0f);
    assert_int_equal(s.growth_tracker, 0);
}

static void test_the_inverse_is_taken_in_double_and_powers_of_two_are_exact(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(3.0f, 2.0, 0.5, 10);
    assert_true(scaler_inverse(&s) == (float)(1.0 / 3.0));
    float grads[257], scaled[257];
    fill_f32(grads, 257, FILL_RANDOM, 5);
    for (int exponent = -20; exponent <= 24; exponent += 4) {
        s.scale = ldexpf(1.0f, exponent);
        for (int i = 0; i < 257; i++)
            scaled[i] = grads[i] * s.scale;
        device->ops->optimizer.grads_unscale(device, scaled, 257, &s);
        assert_memory_equal(scaled, grads, sizeof grads);
    }
}

static void test_factors_multiply_in_double_and_round_once(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(3.0f, 2.0, 0.3, 10);
    step(&s, 1);
    assert_true(s.scale == 0.899999976f);
    assert_true(s.scale != 3.0f * 0.3f);
}

static void test_a_gradient_that_overflows_by_unscaling_skips_the_step(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(0x1p-10f, 2.0, 0.5, 10);
    float grads[3] = {1.0f, 1e38f, 2.0f};
    device->ops->optimizer.grads_check(device, grads, 3, &s);
    assert_true(s.found_inf == 0.0f && s.found_inf_unscaled == 1.0f);
    assert_true(scaler_must_skip(&s));
    struct step_record record;
    device->ops->optimizer.scaler_update(device, &s, &record);
    assert_true(record.was_skipped == 1 && record.found_inf_unscaled == 1.0f);
    assert_true(s.found_inf_unscaled == 0.0f); // cleared for the next step
}

static void test_a_disabled_scaler_reads_as_one_and_never_moves(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(1024.0f, 2.0, 0.5, 1);
    s.enabled = 0;
    assert_true(scaler_scale(&s) == 1.0f && scaler_inverse(&s) == 1.0f);
    step(&s, 0);
    struct step_record record = step(&s, 1);
    assert_true(s.scale == 1024.0f && s.growth_tracker == 0);
    assert_true(record.scale_used == 1.0f && record.scale_after == 1.0f);
    assert_int_equal(s.updates, 2);
}

static void test_a_record_tells_the_scale_that_was_used(void **state)
{
    (void)state;
    struct scaler_state s = scaler_of(8.0f, 2.0, 0.5, 2);
    s.adam_t = 41;
    struct step_record record = step(&s, 1);
    assert_true(record.scale_used == 8.0f && record.scale_after == 4.0f);
    assert_true(record.found_inf == 1.0f && record.found_inf_unscaled == 0.0f);
    assert_int_equal(record.adam_t, 41);
    assert_int_equal(record.updates, 1);
    assert_int_equal(record.skipped, 1);
    assert_int_equal(record.skipped_in_a_row, 1);
    assert_int_equal(record.backoffs, 1);
    assert_int_equal(record.growths, 0);
}

static void
test_the_second_of_a_shared_scale_takes_over_all_that_the_rule_moves(void **state)
{
    (void)state;
    struct scaler_state from = {.scale = 8.0f,
                                .growth_tracker = 2,
                                .hysteresis_used = 3,
                                .growth_wait = 4,
                                .steps_since_rescale = 5,
                                .overflows_since_rescale = 6,
                                .growths = 7,
                                .backoffs = 9,
                                .adam_t = 10,
                                .updates = 11,
                                .skipped = 12,
                                .skipped_in_a_row = 13,
                                .held = 14,
                                .found_inf = 1.0f,
                                .is_held = 1};
    struct scaler_state to = {.adam_t = 20, .updates = 21, .skipped = 22, .held = 24};
    scaler_take_scale(&to, &from);
    assert_true(to.scale == 8.0f);
    assert_int_equal(to.growth_tracker, 2);
    assert_int_equal(to.hysteresis_used, 3);
    assert_int_equal(to.growth_wait, 4);
    assert_int_equal(to.steps_since_rescale, 5);
    assert_int_equal(to.overflows_since_rescale, 6);
    assert_int_equal(to.growths, 7);
    assert_int_equal(to.backoffs, 9);
    // Its own steps and flags stay its own.
    assert_int_equal(to.adam_t, 20);
    assert_int_equal(to.updates, 21);
    assert_int_equal(to.skipped, 22);
    assert_int_equal(to.skipped_in_a_row, 0);
    assert_int_equal(to.held, 24);
    assert_true(to.found_inf == 0.0f && to.is_held == 0);
}

static void test_clipping_divides_by_the_norm_and_pytorchs_millionth(void **state)
{
    (void)state;
    // 1e-6 is of the size of the norm here: without it the factor would be 1 and 0.5.
    assert_true(clip_factor(1e-6f, 1e-6f) == 0.5f);
    assert_true(fabs((double)clip_factor(2e-6f, 1e-6f) - 1.0 / 3.0) < 1e-6);
    assert_true(clip_factor(0.0f, 1e-6f) == 1.0f);
    assert_true(clip_factor(0.5f, 1.0f) == 1.0f); // small gradients are never enlarged
    assert_true(clip_factor(4.0f, 1.0f) == 1.0f / (4.0f + 1e-6f));
    assert_true(clip_factor(INFINITY, 1.0f) == 1.0f && clip_factor(NAN, 1.0f) == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorchs_own_update_vector),
        cmocka_unit_test(test_twenty_steps_of_growth_and_backoff),
        cmocka_unit_test(test_growth_to_infinity_is_refused),
        cmocka_unit_test(test_backoff_goes_below_one_and_ends_at_zero),
        cmocka_unit_test(
            test_an_interval_lowered_below_the_tracker_grows_at_the_next_good_step),
        cmocka_unit_test(test_the_inverse_is_taken_in_double_and_powers_of_two_are_exact),
        cmocka_unit_test(test_factors_multiply_in_double_and_round_once),
        cmocka_unit_test(test_a_gradient_that_overflows_by_unscaling_skips_the_step),
        cmocka_unit_test(test_a_disabled_scaler_reads_as_one_and_never_moves),
        cmocka_unit_test(test_a_record_tells_the_scale_that_was_used),
        cmocka_unit_test(
            test_the_second_of_a_shared_scale_takes_over_all_that_the_rule_moves),
        cmocka_unit_test(test_clipping_divides_by_the_norm_and_pytorchs_millionth),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
