/* test_gradients.c - what reaches the weights, and what two networks share: nothing. */
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

/* ---- gradients ------------------------------------------------------------------- */

static void a_skipped_step_leaves_params_moments_and_t_bit_for_bit(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_good_steps(&toy, 3);
    struct toy_weights before = toy_weights(&toy);
    assert_int_equal(before.adam_t, 3);
    toy_bad_steps(&toy, 1);
    struct toy_weights after = toy_weights(&toy);
    assert_same_weights(&after, &before);
    toy_good_steps(&toy, 1);
    after = toy_weights(&toy);
    assert_other_params(&after, &before);
    assert_int_equal(after.adam_t, 4);
    toy_close(&toy);
}

static void one_overflow_does_not_spoil_the_next_iteration(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    toy_bad_steps(&toy, 1);
    struct scaler_state now = grad_scaler_read(&toy.scaler);
    assert_true(now.found_inf == 0.0f && now.found_inf_unscaled == 0.0f);
    toy_good_steps(&toy, 10);
    assert_toy_scale(&toy, 32768.0f, 10);
    assert_int_equal(grad_scaler_read(&toy.scaler).skipped, 1);
    toy_close(&toy);
}

static void nan_put_in_after_unscale_is_the_callers_and_reaches_the_weights(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 1.0f);
    assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                     CALL_OK);
    toy_set_grad(&toy, 2, NAN);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    assert_true(isnan(toy_weights(&toy).params[2]));
    assert_false(grad_scaler_record(&toy.scaler).was_skipped);
    toy_close(&toy);
}

static void add_micro_batch(struct toy *toy, const float values[TOY_MAX])
{
    const struct memory_ops *memory = &toy_device->ops->memory;
    float *micro = memory->alloc(toy_device, TOY_MAX * sizeof(float));
    assert_non_null(micro);
    memory->upload(toy_device, micro, values, TOY_MAX * sizeof(float));
    toy_device->ops->pointwise.add(toy_device, toy->net.grads, micro, TOY_MAX);
    memory->release(toy_device, micro);
}

static void an_infinity_in_any_micro_batch_spoils_the_whole_sum(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 64.0, 2.0, 2000);
    float plain[TOY_MAX], up[TOY_MAX], down[TOY_MAX];
    for (int i = 0; i < TOY_MAX; i++)
        plain[i] = up[i] = down[i] = 1.0f;
    up[2] = INFINITY;
    down[2] = -INFINITY; // inf - inf is NaN: still seen
    const float *second[] = {plain, down};
    for (int i = 0; i < 2; i++) {
        struct toy_weights before = toy_weights(&toy);
        (void)grad_scaler_scale(&toy.scaler);
        toy_fill_grads(&toy, 0.0f);
        add_micro_batch(&toy, up);
        add_micro_batch(&toy, second[i]);
        assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
        assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
        struct toy_weights after = toy_weights(&toy);
        assert_same_weights(&after, &before);
    }
    assert_toy_scale(&toy, 16.0f, 0);
    toy_close(&toy);
}

static void unscaling_multiplies_by_the_rounded_double_reciprocal(void **state)
{
    (void)state;
    static const float scales[] = {3.0f,  65537.0f, 0.7f,    1e-30f,
                                   3e30f, 65536.0f, 0x1p-20f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct toy toy;
        toy_open_with(&toy, (double)scales[i], 2.0, 2000);
        (void)grad_scaler_scale(&toy.scaler);
        float scaled = 0.7531f * scales[i];
        toy_fill_grads(&toy, scaled);
        assert_int_equal(grad_scaler_unscale(&toy.scaler, &toy.adam.optimizer.gradients),
                         CALL_OK);
        float grads[TOY_MAX];
        toy_get_grads(&toy, grads);
        float inverse = (float)(1.0 / (double)scales[i]);
        assert_int_equal(float_bits(grads[0]), float_bits(scaled * inverse));
        toy_close(&toy);
    }
}

static void zero_gradients_leave_finite_weights(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_default(&toy);
    struct toy_weights before = toy_weights(&toy);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 0.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    struct toy_weights after = toy_weights(&toy);
    assert_memory_equal(after.params, before.params, sizeof after.params);
    assert_int_equal(after.adam_t, 1);
    toy_close(&toy);
}

/* With logit x -> -inf and target 1 the seed is -scale/N: the first power of two that no
 * half can hold depends on the batch. */
static void
the_f16_loss_seed_overflows_first_at_scale_2_to_the_16_times_batch(void **state)
{
    (void)state;
    static const int batches[] = {1, 2, 16, 32, 64, 256};
    const struct memory_ops *memory = &toy_device->ops->memory;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int n = batches[i];
        struct tensor logits = tensor_of(DTYPE_F32, (struct shape){n, 1, 1, 1}, NULL);
        struct tensor seed = tensor_of(DTYPE_F16, (struct shape){n, 1, 1, 1}, NULL);
        logits.data = memory->alloc(toy_device, tensor_bytes(&logits));
        seed.data = memory->alloc(toy_device, tensor_bytes(&seed));
        struct loss_sums *sums = memory->alloc(toy_device, sizeof *sums);
        float values[256];
        uint16_t seeds[256];
        for (int k = 0; k < n; k++)
            values[k] = -1000.0f;
        memory->upload(toy_device, logits.data, values, (size_t)n * sizeof *values);
        for (int doubled = 0; doubled < 2; doubled++) {
            struct toy toy;
            toy_open_with(&toy, ldexp(n, 15 + doubled), 2.0, 2000);
            toy_device->ops->loss.on_logits(toy_device, LOSS_ns, &logits, 1.0f, 1.0f,
                                            grad_scaler_scale(&toy.scaler), &seed, sums);
            memory->download(toy_device, seeds, seed.data, (size_t)n * sizeof *seeds);
            for (int k = 0; k < n; k++)
                assert_true(f32_from_f16(seeds[k]) == (doubled ? -INFINITY : -32768.0f));
            toy_close(&toy);
        }
        memory->release(toy_device, logits.data);
        memory->release(toy_device, seed.data);
        memory->release(toy_device, sums);
    }
}

/* ---- two networks ---------------------------------------------------------------- */

static void two_scalers_share_nothing(void **state)
{
    (void)state;
    struct grad_scaler_config config_g = toy_config(1024.0, 2.0, 4);
    struct grad_scaler_config config_d = toy_config(65536.0, 3.0, 10);
    config_d.backoff_factor = 0.25;
    struct toy g, d;
    toy_open(&g, toy_device, 5, &config_g);
    toy_open(&d, toy_device, 5, &config_d);
    // D overflows, G does not, in the same iterations: only D skips and backs off.
    struct toy_weights d_before = toy_weights(&d), g_before = toy_weights(&g);
    for (int i = 0; i < 3; i++) {
        toy_bad_steps(&d, 1);
        toy_good_steps(&g, 1);
    }
    struct toy_weights d_after = toy_weights(&d), g_after = toy_weights(&g);
    assert_same_weights(&d_after, &d_before);
    assert_other_params(&g_after, &g_before);
    assert_toy_scale(&d, 1024.0f, 0);
    assert_toy_scale(&g, 1024.0f, 3);
    assert_int_equal(grad_scaler_read(&d.scaler).skipped, 3);
    assert_int_equal(grad_scaler_read(&g.scaler).skipped, 0);
    toy_close(&g);
    toy_close(&d);
}

static void each_scaler_counts_its_own_updates(void **state)
{
    (void)state;
    struct toy g, d;
    toy_open_with(&g, 1024.0, 2.0, 10);
    toy_open_with(&d, 1024.0, 2.0, 10);
    for (int i = 0; i < 10; i++) { // five D steps for each G step
        toy_good_steps(&d, 5);
        toy_good_steps(&g, 1);
    }
    assert_toy_scale(&d, 32768.0f, 0);
    assert_toy_scale(&g, 2048.0f, 0);
    assert_int_equal(grad_scaler_record(&d.scaler).updates, 50);
    assert_int_equal(grad_scaler_record(&g.scaler).updates, 10);
    toy_close(&g);
    toy_close(&d);
}

static void the_record_tells_the_scale_used_and_the_scale_after(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 256.0, 2.0, 2);
    toy_good_steps(&toy, 2);
    struct step_record record = grad_scaler_record(&toy.scaler);
    assert_true(record.scale_used == 256.0f && record.scale_after == 512.0f);
    assert_true(!record.was_skipped && record.growths == 1 && record.adam_t == 2);
    toy_bad_steps(&toy, 1);
    record = grad_scaler_record(&toy.scaler);
    assert_true(record.scale_used == 512.0f && record.scale_after == 256.0f);
    assert_true(record.was_skipped && record.found_inf != 0.0f && record.backoffs == 1);
    assert_true(record.updates == 3 && record.skipped == 1 && record.adam_t == 2);
    toy_close(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skipped_step_leaves_params_moments_and_t_bit_for_bit),
        cmocka_unit_test(one_overflow_does_not_spoil_the_next_iteration),
        cmocka_unit_test(nan_put_in_after_unscale_is_the_callers_and_reaches_the_weights),
        cmocka_unit_test(an_infinity_in_any_micro_batch_spoils_the_whole_sum),
        cmocka_unit_test(unscaling_multiplies_by_the_rounded_double_reciprocal),
        cmocka_unit_test(zero_gradients_leave_finite_weights),
        cmocka_unit_test(
            the_f16_loss_seed_overflows_first_at_scale_2_to_the_16_times_batch),
        cmocka_unit_test(two_scalers_share_nothing),
        cmocka_unit_test(each_scaler_counts_its_own_updates),
        cmocka_unit_test(the_record_tells_the_scale_used_and_the_scale_after),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
