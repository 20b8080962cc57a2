/* test_clip.c - clipping by the norm of all gradients together: PyTorch's numbers, after
 * the scale is taken out, and never in another order. */
#include <math.h>
#include <string.h>

#include "kernels/ops.h"
#include "scaler/topology.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

#define COUNT 5

static const float gradients[COUNT] = {3.0f, -4.0f, 12.0f, 0.5f, -84.0f};
#define NORM 0x1.540182p+6f

/* What PyTorch 2.15's clip_grad_norm_() makes of them. */
static const struct {
    float max_norm, clipped[COUNT];
} pytorch[] = {
    {1.0f,
     {0x1.211fd8p-5f, -0x1.817fccp-5f, 0x1.211fd8p-3f, 0x1.817fccp-8f, -0x1.f9f7bcp-1f}},
    {100.0f, {3.0f, -4.0f, 12.0f, 0.5f, -84.0f}},
    {0.001f,
     {0x1.28103cp-15f, -0x1.8ac050p-15f, 0x1.28103cp-13f, 0x1.8ac050p-18f,
      -0x1.030e34p-10f}},
    {85.0f,
     {0x1.7ffe4cp+1f, -0x1.fffdbap+1f, 0x1.7ffe4cp+3f, 0x1.fffdbap-2f, -0x1.4ffe82p+6f}},
};

static void set_scaled(struct toy *toy, float scale)
{
    float values[TOY_MAX] = {0};
    (void)grad_scaler_scale(&toy->scaler);
    for (int i = 0; i < COUNT; i++)
        values[i] = gradients[i] * scale;
    toy_set_grads(toy, values);
}

static void clipped_gradients_and_their_norm_are_pytorchs(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof pytorch / sizeof *pytorch; k++) {
        struct toy toy;
        float got[TOY_MAX];
        toy_open_with(&toy, 4096.0, 2.0, 2000);
        set_scaled(&toy, 4096.0f);
        assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients,
                                          pytorch[k].max_norm),
                         CALL_OK);
        toy_get_grads(&toy, got);
        // PyTorch adds squares in f32: its norm may differ in the last bit.
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(got[i] - pytorch[k].clipped[i]) <=
                        3e-7f * fabsf(pytorch[k].clipped[i]));
        assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
        assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
        struct step_record record = grad_scaler_record(&toy.scaler);
        assert_true(fabsf(record.grad_norm - NORM) <= 1e-7f * NORM);
        assert_true(!record.was_skipped && record.adam_t == 1);
        toy_close(&toy);
    }
}

/* The weights after a clipped step do not know the scale: it was taken out before. */
static void a_clipped_step_is_the_same_bits_at_every_power_of_two(void **state)
{
    (void)state;
    struct toy_weights first;
    for (int k = 0; k < 4; k++) {
        struct toy toy;
        float scale = (float)(1 << (8 * k));
        toy_open_with(&toy, (double)scale, 2.0, 2000);
        set_scaled(&toy, scale);
        assert_int_equal(
            grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 0.5f), CALL_OK);
        assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
        struct toy_weights weights = toy_weights(&toy);
        if (k == 0)
            first = weights;
        assert_same_weights(&weights, &first);
        toy_close(&toy);
    }
}

static void a_norm_that_is_not_finite_clips_nothing_and_skips(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t k = 0; k < 3; k++) {
        struct toy toy;
        float got[TOY_MAX];
        toy_open_with(&toy, 1024.0, 2.0, 2000);
        struct toy_weights before = toy_weights(&toy);
        set_scaled(&toy, 1024.0f);
        toy_set_grad(&toy, 3, bad[k]);
        assert_int_equal(
            grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f), CALL_OK);
        toy_get_grads(&toy, got);
        assert_true(got[0] == gradients[0] && got[4] == gradients[4]);
        assert_true(!isfinite(got[3])); // still there to be found by who looks
        assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
        assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
        struct toy_weights after = toy_weights(&toy);
        assert_same_weights(&after, &before);
        assert_toy_scale(&toy, 512.0f, 0);
        assert_true(!isfinite(grad_scaler_record(&toy.scaler).grad_norm));
        toy_close(&toy);
    }
}

static void gradients_whose_norm_is_beyond_f32_are_clipped_all_the_same(void **state)
{
    (void)state;
    struct toy toy;
    float got[TOY_MAX];
    toy_open_with(&toy, 1.0, 2.0, 2000);
    (void)grad_scaler_scale(&toy.scaler);
    toy_fill_grads(&toy, 3e38f);
    assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f),
                     CALL_OK);
    toy_get_grads(&toy, got);
    assert_true(isfinite(got[0]) && got[0] > 0.5f && got[0] < 1.0f);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
    struct step_record record = grad_scaler_record(&toy.scaler);
    assert_true(!record.was_skipped && record.grad_norm == 3.40282347e38f);
    toy_close(&toy);
}

static void clipping_is_refused_after_unscale_and_after_step(void **state)
{
    (void)state;
    struct toy toy;
    toy_open_with(&toy, 1024.0, 2.0, 2000);
    assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f),
                     CALL_NOT_SCALED);
    set_scaled(&toy, 1024.0f);
    assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f),
                     CALL_OK);
    assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f),
                     CALL_UNSCALED_TWICE);
    assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
    float before[TOY_MAX], after[TOY_MAX];
    toy_get_grads(&toy, before);
    assert_int_equal(grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 0.1f),
                     CALL_UNSCALE_AFTER_STEP);
    toy_get_grads(&toy, after);
    assert_memory_equal(before, after, sizeof before);
    toy_close(&toy);
}

static void without_a_scale_clipping_still_works_and_inf_still_skips(void **state)
{
    (void)state;
    struct grad_scaler_config config = grad_scaler_default_config();
    config.enabled = 0;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        struct toy toy;
        float got[TOY_MAX];
        toy_open(&toy, toy_device, COUNT, &config);
        set_scaled(&toy, 1.0f);
        if (is_bad)
            toy_set_grad(&toy, 1, INFINITY);
        assert_int_equal(
            grad_scaler_clip(&toy.scaler, &toy.adam.optimizer.gradients, 1.0f), CALL_OK);
        toy_get_grads(&toy, got);
        assert_true(is_bad ? got[4] == gradients[4] : fabsf(got[4]) < 1.0f);
        assert_int_equal(grad_scaler_step(&toy.scaler, &toy.adam.optimizer), CALL_OK);
        assert_int_equal(grad_scaler_update(&toy.scaler), CALL_OK);
        struct step_record record = grad_scaler_record(&toy.scaler);
        assert_int_equal(record.was_skipped, is_bad);
        assert_int_equal(record.adam_t, !is_bad);
        toy_close(&toy);
    }
}

// The same gradients as one block and as two are checked, unscaled and clipped alike.
static void a_list_of_blocks_is_one_gradient(void **state)
{
    (void)state;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        struct toy toy;
        float got[TOY_MAX];
        toy_open_with(&toy, 4096.0, 2.0, 2000);
        struct gradients *list = &toy.adam.optimizer.gradients;
        list->count = 2;
        list->block[1] = (struct grad_block){list->block[0].grads + 2, COUNT - 2};
        list->block[0].n = 2;
        set_scaled(&toy, 4096.0f);
        if (is_bad)
            toy_set_grad(&toy, COUNT - 1, INFINITY);
        assert_int_equal(grad_scaler_clip(&toy.scaler, list, pytorch[0].max_norm),
                         CALL_OK);
        toy_get_grads(&toy, got);
        for (int i = 0; i < COUNT && !is_bad; i++)
            assert_true(fabsf(got[i] - pytorch[0].clipped[i]) <=
                        3e-7f * fabsf(pytorch[0].clipped[i]));
        struct scaler_state scaler = grad_scaler_read(&toy.scaler);
        assert_int_equal(scaler_skips(&scaler), is_bad);
        if (!is_bad)
            assert_true(fabsf(scaler.grad_norm - NORM) <= 2e-7f * NORM);
        toy_close(&toy);
    }
}

static void both_losses_of_d_are_clipped_as_one_gradient(void **state)
{
    (void)state;
    struct toy toy[ROLES];
    struct topology topology;
    struct scaled network[ROLES];
    for (int i = 0; i < ROLES; i++) {
        struct grad_scaler_config config = toy_config(1024.0, 2.0, 2000);
        toy_open(&toy[i], toy_device, COUNT, &config);
        network[i] = (struct scaled){.scaler = &toy[i].scaler,
                                     .optimizer = &toy[i].adam.optimizer,
                                     .clip_norm = 1.0f};
    }
    assert_int_equal(topology_create(&topology, TOPOLOGY_PER_LOSS, SKIP_OWN, network,
                                     toy_passes, GAN_PASSES),
                     STATUS_OK);
    float halves[COUNT], got[TOY_MAX];
    (void)topology_scale(&topology, PASS_D_REAL);
    (void)topology_scale(&topology, PASS_D_FAKE);
    for (int i = 0; i < COUNT; i++)
        halves[i] = gradients[i] * 512.0f;
    const struct memory_ops *memory = &toy_device->ops->memory;
    memory->upload(toy_device, topology_grads(&topology, PASS_D_REAL), halves,
                   sizeof halves);
    memory->upload(toy_device, topology_grads(&topology, PASS_D_FAKE), halves,
                   sizeof halves);
    topology_step(&topology, ROLE_D);
    toy_get_grads(&toy[ROLE_D], got);
    topology_update(&topology, ROLE_D);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabsf(got[i] - pytorch[0].clipped[i]) <= 3e-7f * fabsf(got[i]));
    struct step_record record = grad_scaler_record(&toy[ROLE_D].scaler);
    assert_true(fabsf(record.grad_norm - NORM) <= 1e-7f * NORM);
    topology_release(&topology);
    for (int i = 0; i < ROLES; i++)
        toy_close(&toy[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clipped_gradients_and_their_norm_are_pytorchs),
        cmocka_unit_test(a_clipped_step_is_the_same_bits_at_every_power_of_two),
        cmocka_unit_test(a_norm_that_is_not_finite_clips_nothing_and_skips),
        cmocka_unit_test(gradients_whose_norm_is_beyond_f32_are_clipped_all_the_same),
        cmocka_unit_test(clipping_is_refused_after_unscale_and_after_step),
        cmocka_unit_test(without_a_scale_clipping_still_works_and_inf_still_skips),
        cmocka_unit_test(a_list_of_blocks_is_one_gradient),
        cmocka_unit_test(both_losses_of_d_are_clipped_as_one_gradient),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
