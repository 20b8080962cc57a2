/* test_change.c - settings of a scaler that are changed while it runs, its limits, and
 * the scale that does not move. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

static void assert_told(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" does not tell \"%s\"", text, words);
}

/* ---- what is refused ------------------------------------------------------------- */

static void settings_that_contradict_are_refused_with_both_values(void **state)
{
    (void)state;
    const struct {
        double init, min, max, tolerance;
        int hysteresis, refill, delay;
        const char *told;
    } bad[] = {
        {4, 8, 0, 0, 1, 0, 0, "--g-init-scale: 4 is below --g-min-scale 8; give"},
        {64, 0, 32, 0, 1, 0, 0, "--g-init-scale: 64 is above --g-max-scale 32; give"},
        {64, 32, 16, 0, 1, 0, 0, "--g-min-scale: 32 is above --g-max-scale 16; give"},
        {64, -1, 0, 0, 1, 0, 0, "--g-min-scale: -1 is not allowed; give 0 for none, or"},
        {64, 1e-40, 0, 0, 1, 0, 0, "--g-min-scale: 1e-40 is not allowed"},
        {64, NAN, 0, 0, 1, 0, 0, "--g-min-scale: nan is not allowed"},
        {64, 0, INFINITY, 0, 1, 0, 0, "--g-max-scale: inf is not allowed; give 0 for"},
        {64, 0, 1e39, 0, 1, 0, 0, "--g-max-scale: 1e+39 is not allowed"},
        {64, 0, 0, 1, 1, 0, 0, "--g-overflow-tolerance: 1 is not allowed; give a share"},
        {64, 0, 0, -0.1, 1, 0, 0, "--g-overflow-tolerance: -0.1 is not allowed"},
        {64, 0, 0, NAN, 1, 0, 0, "--g-overflow-tolerance: nan is not allowed"},
        {64, 0, 0, 0, 0, 0, 0, "--g-hysteresis: 0 is not allowed; give a whole number"},
        {64, 0, 0, 0, 2, 2, 0, "--g-hysteresis-refill: 2 is not allowed; give growth or"},
        {64, 0, 0, 0, 1, 0, -1, "--g-growth-delay: -1 is not allowed; give a whole"},
        {64, 0, 0, 0.5, 2, 0, 0,
         "--g-overflow-tolerance: 0.5 is given beside --g-hysteresis 2, and both decide"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct grad_scaler_config config = toy_config(bad[i].init, 2.0, 2000);
        config.min_scale = bad[i].min;
        config.max_scale = bad[i].max;
        config.overflow_tolerance = bad[i].tolerance;
        config.hysteresis = bad[i].hysteresis;
        config.hysteresis_refill = bad[i].refill;
        config.growth_delay = bad[i].delay;
        assert_int_equal(grad_scaler_check_config(&config, "g"), STATUS_USAGE);
        assert_told(status_message(), bad[i].told);
    }
}

static void a_scale_may_begin_at_either_limit(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 2000);
    config.min_scale = config.max_scale = 64.0;
    assert_int_equal(grad_scaler_check_config(&config, "g"), STATUS_OK);
}

static void setting_a_scale_beyond_the_limits_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 2000);
    config.min_scale = 1.0;
    config.max_scale = 1024.0;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    assert_int_equal(grad_scaler_set(&toy.scaler, 0.5), STATUS_USAGE);
    assert_told(status_message(),
                "network g: a scale of 0.5 is below its minimum 1; give");
    assert_int_equal(grad_scaler_set(&toy.scaler, 2048.0), STATUS_USAGE);
    assert_told(status_message(), "a scale of 2048 is above its maximum 1024; give less");
    assert_toy_scale(&toy, 64.0f, 0);
    assert_int_equal(grad_scaler_set(&toy.scaler, 1024.0), STATUS_OK);
    assert_toy_scale(&toy, 1024.0f, 0);
    toy_close(&toy);
}

static void a_change_that_would_ruin_the_run_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 5);
    toy_good_steps(&toy, 3);
    struct scaler_state before = grad_scaler_read(&toy.scaler);
    struct grad_scaler_config config = toy.scaler.config;
    config.growth_interval = 3;
    config.backoff_factor = 1.0;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_USAGE);
    assert_told(status_message(), "--g-backoff-factor: 1 is not allowed; give a number");
    struct scaler_state after = grad_scaler_read(&toy.scaler);
    assert_memory_equal(&after, &before, sizeof after);
    assert_int_equal(toy.scaler.config.growth_interval, 5);
    assert_string_equal(toy.scaler.note, "");
    toy_close(&toy);
}

/* ---- what changes ---------------------------------------------------------------- */

static void factors_and_interval_change_from_the_next_step_on(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 5);
    toy_good_steps(&toy, 2);
    struct grad_scaler_config config = toy.scaler.config;
    config.growth_interval = 3;
    config.growth_factor = 4.0;
    config.backoff_factor = 0.125;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    assert_string_equal(toy.scaler.note, "");
    assert_int_equal(toy.scaler.config.growth_interval, 3); // what is read and saved
    assert_true(toy.scaler.config.growth_factor == 4.0);
    assert_toy_scale(&toy, 64.0f, 2);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 256.0f, 0);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 32.0f, 0);
    toy_close(&toy);
}

static void
an_interval_changed_below_the_tracker_grows_at_the_next_good_step(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 2000);
    toy_good_steps(&toy, 9);
    struct grad_scaler_config config = toy.scaler.config;
    config.growth_interval = 4;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    assert_string_equal(toy.scaler.note,
                        "network g: 9 good steps are counted and the growth interval is "
                        "4, so the next good step grows");
    assert_toy_scale(&toy, 64.0f, 3);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 128.0f, 0);
    toy_close(&toy);
}

static void a_scale_beyond_new_limits_is_brought_to_them_and_told(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 65536.0, 2.0, 5);
    toy_good_steps(&toy, 4);
    struct grad_scaler_config config = toy.scaler.config;
    config.max_scale = 1024.0;
    config.growth_interval = 2;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    assert_told(toy.scaler.note,
                "network g: the loss scale 65536 is above its maximum and "
                "becomes 1024; network g: 4 good steps are counted");
    assert_toy_scale(&toy, 1024.0f, 1);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 1024.0f, 0); // the ceiling

    config.max_scale = 0.0;
    config.min_scale = 4096.0;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    assert_string_equal(toy.scaler.note, "network g: the loss scale 1024 is below its "
                                         "minimum and becomes 4096");
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 4096.0f, 0); // the floor
    assert_int_equal(grad_scaler_record(&toy.scaler).at_floor, 1);
    toy_close(&toy);
}

static void hysteresis_can_be_switched_on_and_off_in_a_run(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 5);
    struct grad_scaler_config config = toy.scaler.config;
    config.hysteresis = 3;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    toy_bad_steps(&toy, 2);
    assert_toy_scale(&toy, 64.0f, 0);
    config.hysteresis = 1;
    assert_int_equal(grad_scaler_change(&toy.scaler, &config), STATUS_OK);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 32.0f, 0);
    toy_close(&toy);
}

static void change(struct toy *toy)
{
    (void)grad_scaler_change(&toy->scaler, &toy->scaler.config);
}

static void changing_in_the_middle_of_an_iteration_aborts(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 1.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_true(toy_aborts(&toy, change));
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    toy_close(&toy);
}

/* ---- what does not --------------------------------------------------------------- */

static void a_static_scale_stays_and_still_keeps_inf_from_the_weights(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(1024.0, 2.0, 2);
    config.is_static = 1;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 7);
    assert_toy_scale(&toy, 1024.0f, 0);
    struct toy_weights before = toy_weights(&toy);
    toy_bad_steps(&toy, 3);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    assert_toy_scale(&toy, 1024.0f, 0);
    struct step_record record = grad_scaler_record(&toy.scaler);
    assert_true(record.was_skipped && record.scale_used == 1024.0f);
    assert_true(record.skipped == 3 && record.skipped_in_a_row == 3 &&
                record.adam_t == 7);
    assert_true(record.growths == 0 && record.backoffs == 0 && record.at_floor == 0);
    assert_int_equal(grad_scaler_set(&toy.scaler, 256.0), STATUS_OK);
    toy_good_steps(&toy, 2);
    assert_toy_scale(&toy, 256.0f, 0);
    toy_close(&toy);
}

static void a_scale_set_by_hand_begins_a_new_share_of_overflows(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 2000);
    config.overflow_tolerance = 0.3;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 8);
    toy_bad_steps(&toy, 2); // 2 of 10
    assert_toy_scale(&toy, 64.0f, 0);
    assert_int_equal(grad_scaler_set(&toy.scaler, 64.0), STATUS_OK);
    toy_good_steps(&toy, 3);
    toy_bad_steps(&toy, 1); // 1 of 4, not 3 of 14
    assert_toy_scale(&toy, 64.0f, 0);
    toy_bad_steps(&toy, 1); // 2 of 5
    assert_toy_scale(&toy, 32.0f, 0);
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_contradict_are_refused_with_both_values),
        cmocka_unit_test(a_scale_may_begin_at_either_limit),
        cmocka_unit_test(
            setting_a_scale_beyond_the_limits_is_refused_and_changes_nothing),
        cmocka_unit_test(a_change_that_would_ruin_the_run_is_refused_and_changes_nothing),
        cmocka_unit_test(factors_and_interval_change_from_the_next_step_on),
        cmocka_unit_test(
            an_interval_changed_below_the_tracker_grows_at_the_next_good_step),
        cmocka_unit_test(a_scale_beyond_new_limits_is_brought_to_them_and_told),
        cmocka_unit_test(hysteresis_can_be_switched_on_and_off_in_a_run),
        cmocka_unit_test(changing_in_the_middle_of_an_iteration_aborts),
        cmocka_unit_test(a_static_scale_stays_and_still_keeps_inf_from_the_weights),
        cmocka_unit_test(a_scale_set_by_hand_begins_a_new_share_of_overflows),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
