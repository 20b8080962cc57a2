/* test_grad_scaler.c - the order of calls, set, and the disabled scaler. */
#include <math.h>
#include <string.h>

#include "tests/scaler/toy.h"
#include "tests/support/support.h"

/* ---- order of calls -------------------------------------------------------------- */

static void a_scaler_starts_with_the_defaults_of_pytorch(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    struct scaler_state start = grad_scaler_read(&toy.scaler);
    assert_toy_scale(&toy, 65536.0f, 0);
    assert_true(start.growth_factor == 2.0 && start.backoff_factor == 0.5);
    assert_int_equal(start.growth_interval, 2000);
    assert_true(start.enabled && start.adam_t == 0 && start.updates == 0);
    toy_close(&toy);
}

static void nothing_may_come_before_the_first_scale(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_fill_grads(&toy, 3.0f);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_NOT_SCALED);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_NOT_SCALED);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_NOT_SCALED);
    float grads[TOY_MAX];
    toy_get_grads(&toy, grads);
    assert_true(grads[0] == 3.0f);
    assert_int_equal(grad_scaler_read(&toy.scaler).updates, 0);
    toy_close(&toy);
}

static void unscaling_twice_is_refused_and_leaves_the_gradients(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 4.0, 2.0, 2000);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 8.0f);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_UNSCALED_TWICE);
    float grads[TOY_MAX];
    toy_get_grads(&toy, grads);
    assert_true(grads[0] == 2.0f);
    toy_close(&toy);
}

static void after_step_neither_unscale_nor_step_is_allowed_until_update(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 8.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    struct toy_weights stepped = toy_weights(&toy);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_UNSCALE_AFTER_STEP);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer),
                     CALL_STEPPED_TWICE);
    float grads[TOY_MAX];
    toy_get_grads(&toy, grads);
    assert_true(grads[0] == 8.0f);
    struct toy_weights now = toy_weights(&toy);
    assert_same_weights(&now, &stepped);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    toy_close(&toy);
}

static void update_needs_a_check_since_the_last_update(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_NOT_CHECKED);
    toy_good_steps(&toy, 1);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_NOT_CHECKED);
    assert_toy_scale(&toy, 65536.0f, 1);
    toy_close(&toy);
}

static void update_is_legal_after_unscale_alone(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    struct toy_weights before = toy_weights(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, NAN);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    assert_toy_scale(&toy, 32768.0f, 0);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    toy_close(&toy);
}

static void a_network_without_gradients_is_an_error_and_no_skip(void **state)
{
    (void)state;
    struct toy toy;
    struct grad_scaler_config config = grad_scaler_default_config();
    toy_open(&toy, toy_device, 0, &config);
    (void)grad_scaler_scale(&toy.scaler);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer),
                     CALL_NOT_CHECKED);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer),
                     CALL_NOT_CHECKED);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_NOT_CHECKED);
    struct scaler_state now = grad_scaler_read(&toy.scaler);
    assert_true(now.updates == 0 && now.skipped == 0 && now.adam_t == 0);
    toy_close(&toy);
}

static void every_wrong_order_has_its_own_sentence(void **state)
{
    (void)state;
    for (int a = CALL_OK; a <= CALL_NOT_CHECKED; a++)
        for (int b = CALL_OK; b < a; b++)
            assert_string_not_equal(grad_scaler_call_text((enum grad_scaler_call)a),
                                    grad_scaler_call_text((enum grad_scaler_call)b));
    assert_non_null(strstr(grad_scaler_call_text(CALL_NOT_SCALED), "first scale"));
    assert_non_null(strstr(grad_scaler_call_text(CALL_UNSCALE_AFTER_STEP), "after step"));
}

/* ---- set, disabled --------------------------------------------------------------- */

static void setting_the_scale_keeps_the_tracker_and_drops_the_checks(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 5);
    toy_good_steps(&toy, 3);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, INFINITY);
    struct toy_weights before = toy_weights(&toy);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_set(&toy.scaler, 1000.5), STATUS_OK);
    assert_toy_scale(&toy, 1000.5f, 3);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    struct scaler_state now = grad_scaler_read(&toy.scaler);
    assert_true(now.found_inf == 0.0f && now.backoffs == 0);
    assert_int_equal(now.skipped, 1);
    assert_int_equal(now.updates, 4);
    // The iteration has ended: the next one begins as after an update.
    toy_good_steps(&toy, 2);
    assert_toy_scale(&toy, 2001.0f, 0);
    toy_close(&toy);
}

static void setting_the_scale_is_possible_before_the_first_iteration(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    assert_int_equal(grad_scaler_set(&toy.scaler, 8.0), STATUS_OK);
    assert_toy_scale(&toy, 8.0f, 0);
    assert_int_equal(grad_scaler_read(&toy.scaler).updates, 0);
    toy_close(&toy);
}

static void a_disabled_scaler_steps_plainly_in_any_order_and_never_adapts(void **state)
{
    (void)state;
    struct grad_scaler_config config = toy_config(65536.0, 2.0, 1);
    config.enabled = 0;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    assert_true(toy_scale(&toy) == 1.0f);
    toy_fill_grads(&toy, 8.0f);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    float grads[TOY_MAX];
    toy_get_grads(&toy, grads);
    assert_true(grads[0] == 8.0f);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    struct scaler_state now = grad_scaler_read(&toy.scaler);
    assert_int_equal(now.adam_t, 2);
    assert_true(toy_scale(&toy) == 1.0f && now.growths == 0 && now.growth_tracker == 0);
    assert_int_equal(grad_scaler_set(&toy.scaler, 8.0), STATUS_OK);
    assert_true(toy_scale(&toy) == 1.0f);
    toy_close(&toy);
}

static void a_disabled_scaler_still_keeps_nan_out_of_the_weights(void **state)
{
    (void)state;
    struct grad_scaler_config config = grad_scaler_default_config();
    config.enabled = 0;
    struct toy toy;
    toy_open(&toy, toy_device, 5, &config);
    toy_good_steps(&toy, 2);
    struct toy_weights before = toy_weights(&toy);
    toy_iterate(&toy, NAN);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    assert_true(grad_scaler_record(&toy.scaler).was_skipped);
    // A second step without update must not inherit the first one's flag.
    toy_fill_grads(&toy, NAN);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    toy_fill_grads(&toy, 1.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_read(&toy.scaler).adam_t, 3);
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scaler_starts_with_the_defaults_of_pytorch),
        cmocka_unit_test(nothing_may_come_before_the_first_scale),
        cmocka_unit_test(unscaling_twice_is_refused_and_leaves_the_gradients),
        cmocka_unit_test(after_step_neither_unscale_nor_step_is_allowed_until_update),
        cmocka_unit_test(update_needs_a_check_since_the_last_update),
        cmocka_unit_test(update_is_legal_after_unscale_alone),
        cmocka_unit_test(a_network_without_gradients_is_an_error_and_no_skip),
        cmocka_unit_test(every_wrong_order_has_its_own_sentence),
        cmocka_unit_test(setting_the_scale_keeps_the_tracker_and_drops_the_checks),
        cmocka_unit_test(setting_the_scale_is_possible_before_the_first_iteration),
        cmocka_unit_test(a_disabled_scaler_steps_plainly_in_any_order_and_never_adapts),
        cmocka_unit_test(a_disabled_scaler_still_keeps_nan_out_of_the_weights),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
