/* test_rule.c - every edge value of growth and back-off. */
#include <math.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

/* ---- the rule -------------------------------------------------------------------- */

static void two_good_steps_grow_and_an_overflow_backs_off(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(4.0, 2.0, 2);
    config.backoff_factor = 0.25;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 4.0f, 1);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 8.0f, 0);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 2.0f, 0);
    toy_close(&toy);
}

static void an_interval_of_three_gives_the_published_curve(void **state)
{
    (void)state;
    static const char found[] = "00010000111000000100";
    static const float scale[] = {65536,  65536, 131072, 65536, 65536, 65536, 131072,
                                  131072, 65536, 32768,  16384, 16384, 16384, 32768,
                                  32768,  32768, 65536,  32768, 32768, 32768};
    static const int tracker[] = {1, 2, 0, 0, 1, 2, 0, 1, 0, 0,
                                  0, 1, 2, 0, 1, 2, 0, 0, 1, 2};
    struct toy toy;
    toy_open_with(&toy, 65536.0, 2.0, 3);
    for (int i = 0; found[i]; i++) {
        toy_iterate(&toy, found[i] == '1' ? INFINITY : 0.0f);
        assert_toy_scale(&toy, scale[i], tracker[i]);
    }
    toy_close(&toy);
}

static void growth_to_infinity_is_refused_and_the_tracker_starts_again(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 1e38, 16.0, 2);
    toy_good_steps(&toy, 2);
    assert_toy_scale(&toy, 1e38f, 0);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 1e38f, 1);
    assert_int_equal(grad_scaler_read(&toy.scaler).growths, 0);
    toy_close(&toy);
}

static void doubling_65536_stops_at_two_to_the_127_after_111_growths(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 65536.0, 2.0, 1);
    toy_good_steps(&toy, 110);
    assert_toy_scale(&toy, 0x1p126f, 0);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 0x1p127f, 0);
    toy_good_steps(&toy, 5);
    assert_toy_scale(&toy, 0x1p127f, 0);
    assert_int_equal(grad_scaler_read(&toy.scaler).growths, 111);
    toy_close(&toy);
}

static void the_seventeenth_overflow_in_a_row_goes_below_one(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_bad_steps(&toy, 16);
    assert_toy_scale(&toy, 1.0f, 0);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 0.5f, 0);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped_in_a_row, 17);
    toy_good_steps(&toy, 1);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped_in_a_row, 0);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped, 17);
    toy_close(&toy);
}

static void overflows_without_end_reach_zero_and_never_a_weight(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_good_steps(&toy, 3);
    struct toy_weights before = toy_weights(&toy);
    toy_bad_steps(&toy, 142);
    assert_toy_scale(&toy, 0x1p-126f, 0);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 0x1p-127f, 0); // subnormal
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 0x1p-128f, 0); // 1/scale is infinite from here on
    toy_bad_steps(&toy, 21);
    assert_toy_scale(&toy, 0x1p-149f, 0);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 0.0f, 0);
    // Zero gradients times an infinite 1/scale are NaN; PyTorch would step with them.
    toy_good_steps(&toy, 2);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped, 168);
    toy_close(&toy);
}

static void a_gradient_that_unscaling_makes_infinite_is_skipped(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 0x1p-10, 2.0, 2000);
    struct toy_weights before = toy_weights(&toy);
    toy_iterate(&toy, 1e38f);
    struct step_record record = grad_scaler_record(&toy.scaler);
    assert_true(record.found_inf == 0.0f && record.found_inf_unscaled != 0.0f);
    assert_true(record.was_skipped);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    assert_toy_scale(&toy, 0x1p-11f, 0);
    toy_close(&toy);
}

static void an_interval_of_one_grows_at_every_good_step(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 1.0, 3.0, 1);
    toy_good_steps(&toy, 3);
    assert_toy_scale(&toy, 27.0f, 0);
    toy_close(&toy);
}

static void a_found_flag_of_two_counts_as_one_back_off(void **state)
{
    (void)state;
    struct scaler_state scaler = {.growth_factor = 2.0,
                                  .backoff_factor = 0.5,
                                  .growth_interval = 2000,
                                  .scale = 128.0f,
                                  .enabled = 1,
                                  .found_inf = 2.0f};
    struct step_record record;
    scaler_finish_step(&scaler, &record);
    assert_true(scaler.scale == 64.0f && scaler.backoffs == 1 && scaler.skipped == 1);
}

static void factors_multiply_in_double_and_round_once(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(3.0, 1.1, 1);
    config.backoff_factor = 0.3;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 0.899999976f, 0);
    assert_true(3.0f * 0.3f != 0.899999976f); // what rounding the factor first would give
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, (float)((double)0.899999976f * 1.1), 0);
    toy_close(&toy);
}

static void
at_the_plateau_an_overflow_every_interval_plus_one_is_the_normal_saw(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 65536.0, 2.0, 50);
    int overflow_at[64], count = 0;
    for (int i = 0; i < 1000; i++) {
        int overflows = toy_scale(&toy) > 0x1p20f;
        if (overflows)
            overflow_at[count++] = i;
        toy_iterate(&toy, overflows ? INFINITY : 0.0f);
    }
    assert_true(count > 10);
    for (int i = 1; i < count; i++)
        assert_int_equal(overflow_at[i] - overflow_at[i - 1], 51);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped, count);
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_good_steps_grow_and_an_overflow_backs_off),
        cmocka_unit_test(an_interval_of_three_gives_the_published_curve),
        cmocka_unit_test(growth_to_infinity_is_refused_and_the_tracker_starts_again),
        cmocka_unit_test(doubling_65536_stops_at_two_to_the_127_after_111_growths),
        cmocka_unit_test(the_seventeenth_overflow_in_a_row_goes_below_one),
        cmocka_unit_test(overflows_without_end_reach_zero_and_never_a_weight),
        cmocka_unit_test(a_gradient_that_unscaling_makes_infinite_is_skipped),
        cmocka_unit_test(an_interval_of_one_grows_at_every_good_step),
        cmocka_unit_test(a_found_flag_of_two_counts_as_one_back_off),
        cmocka_unit_test(factors_multiply_in_double_and_round_once),
        cmocka_unit_test(
            at_the_plateau_an_overflow_every_interval_plus_one_is_the_normal_saw),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
