/* test_saved.c - settings and saved states that would ruin a run are refused with a
 * sentence, and a loaded scaler has the same future as one that was never stopped. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

static void assert_told(enum status got, enum status want, const char *setting,
                        const char *value, const char *allowed)
{
    assert_int_equal(got, want);
    const char *words[] = {setting, value, allowed};
    for (int i = 0; i < 3; i++)
        if (strstr(status_message(), words[i]) == NULL)
            fail_msg("\"%s\" does not tell \"%s\"", status_message(), words[i]);
}

/* ---- settings -------------------------------------------------------------------- */

static void a_ruinous_scale_is_refused_with_setting_value_and_range(void **state)
{
    (void)state;
    static const struct {
        double scale;
        const char *text;
    } bad[] = {{INFINITY, "inf"}, {NAN, "nan"},     {0.0, "0"},         {-1.0, "-1"},
               {1e39, "1e+39"},   {1e-46, "1e-46"}, {-INFINITY, "inf"}, {1e-39, "1e-39"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct grad_scaler_config config = toy_config(bad[i].scale, 2.0, 2000);
        assert_told(grad_scaler_check_config(&config, "g"), STATUS_USAGE,
                    "--g-init-scale", bad[i].text, "2^-126");
        struct grad_scaler scaler;
        assert_int_equal(grad_scaler_create(&scaler, toy_device, "d", &config),
                         STATUS_USAGE);
        assert_non_null(strstr(status_message(), "--d-init-scale"));
        grad_scaler_release(&scaler);
    }
}

static void ruinous_factors_are_refused_with_setting_value_and_range(void **state)
{
    (void)state;
    static const double growths[] = {1.0, 0.5, 0.0, -2.0, INFINITY, NAN};
    static const double backoffs[] = {0.0, 1.0, -0.5, 1.5, INFINITY, NAN};
    for (int i = 0; i < 6; i++) {
        struct grad_scaler_config config = toy_config(65536.0, growths[i], 2000);
        assert_told(grad_scaler_check_config(&config, "g"), STATUS_USAGE,
                    "--g-growth-factor", "is not allowed", "above 1");
        config = toy_config(65536.0, 2.0, 2000);
        config.backoff_factor = backoffs[i];
        assert_told(grad_scaler_check_config(&config, "d"), STATUS_USAGE,
                    "--d-backoff-factor", "is not allowed", "above 0 and below 1");
    }
    struct grad_scaler_config config = toy_config(65536.0, 0.75, 2000);
    assert_told(grad_scaler_check_config(&config, "g"), STATUS_USAGE, "--g-growth-factor",
                "0.75", "above 1");
}

static void an_interval_below_one_or_beyond_the_tracker_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t interval;
        const char *text;
    } bad[] = {{0, " 0 "}, {-3, "-3"}, {2147483648, "2147483648"}};
    for (int i = 0; i < 3; i++) {
        struct grad_scaler_config config = toy_config(65536.0, 2.0, bad[i].interval);
        assert_told(grad_scaler_check_config(&config, "d"), STATUS_USAGE,
                    "--d-growth-interval", bad[i].text, "from 1 to 2147483647");
    }
}

static void the_ends_of_every_range_are_accepted(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(FLT_MAX, 1.0001, 1);
    config.backoff_factor = 0.999;
    assert_int_equal(grad_scaler_check_config(&config, "g"), STATUS_OK);
    config = toy_config(FLT_MIN, 1e6, INT32_MAX);
    config.backoff_factor = 1e-6;
    assert_int_equal(grad_scaler_check_config(&config, "g"), STATUS_OK);
}

static void setting_a_ruinous_scale_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    static const double bad[] = {INFINITY, NAN, 0.0, -4.0, 1e39, 1e-46};
    for (int i = 0; i < 6; i++)
        assert_int_equal(grad_scaler_set(&toy.scaler, bad[i]), STATUS_USAGE);
    assert_toy_scale(&toy, 65536.0f, 0);
    toy_close(&toy);
}

/* ---- saved states ---------------------------------------------------------------- */

static struct grad_scaler_saved sound_saved(void)
{
    return (struct grad_scaler_saved){.scale = 3.0,
                                      .growth_factor = 4.0,
                                      .backoff_factor = 0.5,
                                      .growth_interval = 2,
                                      .enabled = 1};
}

static void loading_replaces_scale_and_tracker_but_keeps_the_configs_factors(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(6.0, 7.0, 10);
    config.backoff_factor = 0.8;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 7);
    assert_toy_scale(&toy, 6.0f, 7);
    struct grad_scaler_saved saved = sound_saved();
    saved.adam_t = 41;
    saved.updates = 50;
    saved.skipped = 9;
    saved.skipped_in_a_row = 2;
    saved.growths = 5;
    saved.backoffs = 8;
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    assert_toy_scale(&toy, 3.0f, 0);
    struct scaler_state now = grad_scaler_read(&toy.scaler);
    assert_true(now.growth_factor == 7.0 && now.backoff_factor == 0.8);
    assert_int_equal(now.growth_interval, 10);
    assert_true(now.adam_t == 41 && now.updates == 50 && now.skipped == 9);
    assert_true(now.skipped_in_a_row == 2 && now.growths == 5 && now.backoffs == 8);
    toy_close(&toy);
}

static void a_ruinous_saved_state_is_refused_by_name_and_changes_nothing(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_good_steps(&toy, 2);
    struct grad_scaler_saved bad[17];
    const char *key[17] = {"scale",
                           "scale",
                           "scale",
                           "scale",
                           "growth_factor",
                           "backoff_factor",
                           "backoff_factor",
                           "growth_interval",
                           "_growth_tracker",
                           "_growth_tracker",
                           "adam_t",
                           "skipped_in_a_row",
                           "updates",
                           "hysteresis_used",
                           "growth_wait",
                           "steps_since_rescale",
                           "overflows_since_rescale"};
    for (int i = 0; i < 17; i++)
        bad[i] = sound_saved();
    bad[0].scale = INFINITY;
    bad[1].scale = NAN;
    bad[2].scale = 0.0;
    bad[3].scale = 0x1p-128; // 1/scale is infinite
    bad[4].growth_factor = 1.0;
    bad[5].backoff_factor = 0.0;
    bad[6].backoff_factor = NAN;
    bad[7].growth_interval = 0;
    bad[8].growth_tracker = -1;
    bad[9].growth_tracker = (int64_t)INT32_MAX + 1;
    bad[10].adam_t = -1;
    bad[11].skipped_in_a_row = -1;
    bad[12].updates = INT64_MIN;
    bad[13].hysteresis_used = (int64_t)INT32_MAX + 1;
    bad[14].growth_wait = -1;
    bad[15].steps_since_rescale = -1;
    bad[16].overflows_since_rescale = -1;
    for (int i = 0; i < 17; i++) {
        assert_told(grad_scaler_load(&toy.scaler, &bad[i]), STATUS_DATA, "network g",
                    key[i], "expected");
        assert_toy_scale(&toy, 65536.0f, 2);
        assert_int_equal(grad_scaler_read(&toy.scaler).adam_t, 2);
    }
    toy_close(&toy);
}

static void
a_tracker_saved_at_one_below_the_interval_grows_at_the_first_good_step(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 5);
    struct grad_scaler_saved saved = sound_saved();
    saved.growth_tracker = 4;
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    assert_toy_scale(&toy, 3.0f, 4);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 6.0f, 0);
    toy_close(&toy);
}

static void a_tracker_beyond_a_lowered_interval_still_grows(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 3);
    struct grad_scaler_saved saved = sound_saved();
    saved.growth_tracker = 1999; // PyTorch would count on past 3 and never grow again
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    assert_toy_scale(&toy, 3.0f, 2);
    toy_good_steps(&toy, 1);
    assert_toy_scale(&toy, 6.0f, 0);
    toy_good_steps(&toy, 3);
    assert_toy_scale(&toy, 12.0f, 0);
    toy_close(&toy);
}

static void a_state_saved_with_scaling_off_is_refused_where_it_is_on(void **state)
{
    (void)state;
    struct grad_scaler_config config = grad_scaler_default_config();
    config.enabled = 0;
    struct toy off, on;
    toy_open(&off, toy_device, 5, &config);
    toy_good_steps(&off, 3);
    struct grad_scaler_saved saved = grad_scaler_save(&off.scaler);
    assert_true(saved.enabled == 0 && saved.scale == 1.0 && saved.growth_tracker == 0);
    toy_open_default(&on);
    assert_told(grad_scaler_load(&on.scaler, &saved), STATUS_DATA, "network g",
                "loss scaling was off", "--scaler off");
    assert_toy_scale(&on, 65536.0f, 0);
    toy_close(&on);
    toy_close(&off);
}

static void a_disabled_scaler_takes_the_counters_of_any_state_and_no_scale(void **state)
{
    (void)state;
    struct grad_scaler_config config = grad_scaler_default_config();
    config.enabled = 0;
    struct toy off;
    toy_open(&off, toy_device, 5, &config);
    struct grad_scaler_saved saved = sound_saved();
    saved.adam_t = 7;
    assert_int_equal(grad_scaler_load(&off.scaler, &saved), STATUS_OK);
    assert_true(toy_scale(&off) == 1.0f);
    toy_good_steps(&off, 1);
    assert_int_equal(grad_scaler_read(&off.scaler).adam_t, 8);
    saved.enabled = 0;
    assert_int_equal(grad_scaler_load(&off.scaler, &saved), STATUS_OK);
    assert_int_equal(grad_scaler_read(&off.scaler).adam_t, 7);
    toy_close(&off);
}

static void save_and_load_give_back_every_field(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 1.7, 6);
    toy_good_steps(&toy, 9);
    toy_bad_steps(&toy, 2);
    toy_good_steps(&toy, 4);
    struct grad_scaler_saved saved = grad_scaler_save(&toy.scaler);
    assert_true(saved.growth_factor == 1.7 && saved.growth_interval == 6);
    assert_true(saved.growth_tracker == 4 && saved.adam_t == 13 && saved.skipped == 2);
    struct toy other;
    toy_open_with(&other, 1.0, 1.7, 6);
    assert_int_equal(grad_scaler_load(&other.scaler, &saved), STATUS_OK);
    struct scaler_state a = grad_scaler_read(&toy.scaler);
    struct scaler_state b = grad_scaler_read(&other.scaler);
    assert_memory_equal(&a, &b, sizeof a);
    toy_close(&toy);
    toy_close(&other);
}

// A decision per step, from a small generator: about one overflow in nine.
static int overflows(int step)
{
    uint32_t hash = (uint32_t)(step + 1) * 2654435761u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    return (hash ^ hash >> 13) % 9 == 0;
}

static void run_steps(struct toy *toy, int from, int to)
{
    for (int i = from; i < to; i++)
        toy_iterate(toy, overflows(i) ? NAN : 0.0f);
}

static void copy_optimizer(struct toy *to, const struct toy *from)
{
    const struct memory_ops *memory = &toy_device->ops->memory;
    size_t bytes = TOY_MAX * sizeof(float);
    memory->copy(toy_device, to->net.params, from->net.params, bytes);
    memory->copy(toy_device, to->adam.m, from->adam.m, bytes);
    memory->copy(toy_device, to->adam.v, from->adam.v, bytes);
}

static void assert_same_future_after(const struct grad_scaler_config *config, int stop,
                                     const struct toy *whole)
{
    struct toy first, second;
    toy_open(&first, toy_device, 5, config);
    toy_open(&second, toy_device, 5, config);
    run_steps(&first, 0, stop);
    struct grad_scaler_saved saved = grad_scaler_save(&first.scaler);
    assert_int_equal(grad_scaler_load(&second.scaler, &saved), STATUS_OK);
    assert_string_equal(second.scaler.note, "");
    copy_optimizer(&second, &first);
    run_steps(&second, stop, 300);

    struct scaler_state a = grad_scaler_read(&whole->scaler);
    struct scaler_state b = grad_scaler_read(&second.scaler);
    assert_memory_equal(&a, &b, sizeof a);
    struct toy_weights want = toy_weights(whole), got = toy_weights(&second);
    assert_same_weights(&got, &want);
    toy_close(&first);
    toy_close(&second);
}

static void a_resumed_run_has_the_future_of_one_that_was_never_stopped(void **state)
{
    (void)state;
    static const int stops[] = {1, 2, 3, 50, 123, 124, 125, 126, 299};
    struct grad_scaler_config configs[5];
    for (int i = 0; i < 5; i++)
        configs[i] = toy_config(1000.0, 1.3, 3);
    configs[1].hysteresis = 3;
    configs[2].hysteresis = 2;
    configs[2].hysteresis_refill = REFILL_ON_STEP;
    configs[3].overflow_tolerance = 0.2;
    configs[4].growth_delay = 2;
    configs[4].min_scale = 500.0;
    configs[4].max_scale = 2000.0;
    for (int c = 0; c < 5; c++) {
        struct toy whole;
        toy_open(&whole, toy_device, 5, &configs[c]);
        run_steps(&whole, 0, 300);
        assert_true(grad_scaler_read(&whole.scaler).skipped > 20);
        for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
            assert_same_future_after(&configs[c], stops[i], &whole);
        toy_close(&whole);
    }
}

static void the_rules_beyond_pytorchs_save_and_load_what_they_count(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 6);
    config.hysteresis = 3;
    config.growth_delay = 2;
    struct toy toy, other;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 5);
    toy_bad_steps(&toy, 2);
    toy_good_steps(&toy, 1);
    struct grad_scaler_saved saved = grad_scaler_save(&toy.scaler);
    assert_true(saved.hysteresis_used == 2 && saved.growth_wait == 1);
    assert_true(saved.steps_since_rescale == 8 && saved.overflows_since_rescale == 2);
    toy_open(&other, toy_device, 5, &config);
    assert_int_equal(grad_scaler_load(&other.scaler, &saved), STATUS_OK);
    toy_bad_steps(&other, 1); // the third
    assert_toy_scale(&other, 32.0f, 0);
    toy_close(&toy);
    toy_close(&other);
}

static void a_state_without_the_newer_counts_loads_as_if_none_were_counted(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 6);
    config.hysteresis = 2;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_bad_steps(&toy, 1);
    struct grad_scaler_saved saved = sound_saved(); // PyTorch's five keys
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 3.0f, 0); // forgiven
    toy_bad_steps(&toy, 1);
    assert_toy_scale(&toy, 1.5f, 0);
    toy_close(&toy);
}

static void a_saved_scale_beyond_the_limits_is_brought_to_them_and_told(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(64.0, 2.0, 6);
    config.min_scale = 8.0;
    config.max_scale = 128.0;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    struct grad_scaler_saved saved = sound_saved();
    saved.growth_tracker = 1;
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    assert_toy_scale(&toy, 8.0f, 1);
    assert_string_equal(toy.scaler.note,
                        "network g: the loss scale 3 is below its minimum "
                        "and becomes 8");
    saved.scale = 65536.0;
    assert_int_equal(grad_scaler_load(&toy.scaler, &saved), STATUS_OK);
    assert_toy_scale(&toy, 128.0f, 1);
    assert_string_equal(toy.scaler.note, "network g: the loss scale 65536 is above its "
                                         "maximum and becomes 128");
    toy_close(&toy);
}

static void save(struct toy *toy)
{
    (void)grad_scaler_save(&toy->scaler);
}

static void saving_in_the_middle_of_an_iteration_aborts(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 1.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_true(toy_aborts(&toy, save));
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ruinous_scale_is_refused_with_setting_value_and_range),
        cmocka_unit_test(ruinous_factors_are_refused_with_setting_value_and_range),
        cmocka_unit_test(an_interval_below_one_or_beyond_the_tracker_is_refused),
        cmocka_unit_test(the_ends_of_every_range_are_accepted),
        cmocka_unit_test(setting_a_ruinous_scale_is_refused_and_changes_nothing),
        cmocka_unit_test(
            loading_replaces_scale_and_tracker_but_keeps_the_configs_factors),
        cmocka_unit_test(a_ruinous_saved_state_is_refused_by_name_and_changes_nothing),
        cmocka_unit_test(
            a_tracker_saved_at_one_below_the_interval_grows_at_the_first_good_step),
        cmocka_unit_test(a_tracker_beyond_a_lowered_interval_still_grows),
        cmocka_unit_test(a_state_saved_with_scaling_off_is_refused_where_it_is_on),
        cmocka_unit_test(a_disabled_scaler_takes_the_counters_of_any_state_and_no_scale),
        cmocka_unit_test(save_and_load_give_back_every_field),
        cmocka_unit_test(a_resumed_run_has_the_future_of_one_that_was_never_stopped),
        cmocka_unit_test(the_rules_beyond_pytorchs_save_and_load_what_they_count),
        cmocka_unit_test(a_state_without_the_newer_counts_loads_as_if_none_were_counted),
        cmocka_unit_test(a_saved_scale_beyond_the_limits_is_brought_to_them_and_told),
        cmocka_unit_test(saving_in_the_middle_of_an_iteration_aborts),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
