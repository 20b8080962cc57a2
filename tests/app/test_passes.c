/* test_passes.c - a pass that no run has yet is a row: trained, looked at, scaled and
 * named like the others. The linker puts passes_choose() of this file before the
 * product's, which adds a penalty on D's logits of real images (the drift term of
 * progressive GANs). */
#include <math.h>
#include <string.h>

#include "app/recovery/diagnosis.h"
#include "app/recovery/init_scale.h"
#include "app/train/train.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

void __wrap_passes_choose(struct passes *passes, const struct config *config);
void __real_passes_choose(struct passes *passes, const struct config *config);

#define PASS_D_PENALTY GAN_PASSES

// Of the rows: what the next trainer has. A weight of 0 of the penalty: no such row.
static struct {
    float penalty, real, fake;
} weights;

void __wrap_passes_choose(struct passes *passes, const struct config *config)
{
    __real_passes_choose(passes, config);
    passes->row[PASS_D_REAL].weight = weights.real;
    passes->row[PASS_D_FAKE].weight = weights.fake;
    if (weights.penalty > 0.0f)
        passes->row[passes->count++] = (struct pass_row){.word = "penalty",
                                                         .trains = ROLE_D,
                                                         .input = INPUT_REAL,
                                                         .loss = LOSS_lsgan,
                                                         .target = 0.0f,
                                                         .weight = weights.penalty};
}

static void open_with(struct trainer *trainer, const struct config *config, float penalty,
                      float others)
{
    weights.penalty = penalty;
    weights.real = weights.fake = others;
    if (trainer_create(trainer, config) != STATUS_OK ||
        trainer_start_data(trainer) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void step(struct trainer *trainer)
{
    train_step(trainer);
    if (train_collect_all(trainer) != STATUS_OK)
        fail_msg("%s", status_message());
}

static struct config exact_config(int scaler)
{
    struct config config = small_config();
    config.precision = PRECISION_FP32;
    config.scaler = scaler;
    config.g.init_scale = config.d.init_scale = 1.0;
    return config;
}

// D's gradients after a first step, for the caller to free with the trainer.
static const float *d_grads(struct trainer *trainer, int scaler, float penalty,
                            float others)
{
    struct config config = exact_config(scaler);
    open_with(trainer, &config, penalty, others);
    step(trainer);
    return trainer->gan.net[ROLE_D].grads;
}

static void assert_gradient_is_a_sum(int scaler)
{
    struct trainer both, without, alone;
    const float *sum = d_grads(&both, scaler, 0.5f, 1.0f);
    const float *first = d_grads(&without, scaler, 0.0f, 1.0f);
    const float *second = d_grads(&alone, scaler, 0.5f, 0.0f);
    double largest = 0.0;
    for (size_t i = 0; i < both.gan.net[ROLE_D].param_elements; i++) {
        double want = (double)first[i] + (double)second[i];
        assert_true(fabs((double)sum[i] - want) < 1e-5 * (1.0 + fabs(want)));
        largest = fmax(largest, fabs((double)second[i]));
    }
    assert_true(largest > 1e-2); // the penalty has a gradient
    trainer_release(&both);
    trainer_release(&without);
    trainer_release(&alone);
}

static void test_the_gradient_of_d_is_that_of_all_its_passes(void **state)
{
    (void)state;
    assert_gradient_is_a_sum(SCALER_OFF);
    assert_gradient_is_a_sum(SCALER_PER_NETWORK);
    assert_gradient_is_a_sum(SCALER_SHARED);
    assert_gradient_is_a_sum(SCALER_PER_LOSS); // at the scale of D on real
}

static void test_each_pass_has_its_own_sums(void **state)
{
    (void)state;
    struct config config = exact_config(SCALER_OFF);
    config.d.accum = config.n_dis = 2;
    struct trainer trainer;
    open_with(&trainer, &config, 0.5f, 1.0f);
    step(&trainer);
    for (int turn = 0; turn < 2; turn++) {
        struct step_losses losses = train_turn_losses(&trainer, turn);
        const struct loss_sums *penalty = &losses.of[PASS_D_PENALTY],
                               *real = &losses.of[PASS_D_REAL];
        assert_true(penalty->count == 2 * config.batch);
        // Half the square of the logits, which are those of the pass on the same images.
        assert_true(fabs(penalty->loss - 0.5 * penalty->score_sq) < 1e-5);
        assert_true(fabs(penalty->score - real->score) < 1e-4);
        assert_true(losses.of[PASS_D_FAKE].score != real->score);
        assert_true(losses.of[PASS_G_MAIN].count == config.batch);
    }
    trainer_release(&trainer);
}

static void test_its_tensors_are_looked_at_and_compared_with_f32(void **state)
{
    (void)state;
    struct config config = small_config();
    config.grad_stats = 1;
    config.g.init_scale = config.d.init_scale = 256.0;
    struct trainer trainer;
    open_with(&trainer, &config, 0.5f, 1.0f);
    step(&trainer);
    const struct probe_view *view = probe_of_step(&trainer);
    assert_non_null(view);
    assert_true(view->has[PASS_D_PENALTY]);
    const struct survey *survey = &trainer.probe.survey[PASS_D_PENALTY];
    assert_int_equal(survey->count, trainer.probe.survey[PASS_D_REAL].count);
    for (int i = 0; i < survey->count; i++) {
        const struct survey_stats *half = &view->stats[PASS_D_PENALTY][i],
                                  *full = &view->reference[PASS_D_PENALTY][i];
        assert_true(half->max_abs > 0.0f && full->max_abs > 0.0f);
        assert_true(fabsf(half->max_abs - full->max_abs) < 0.1f * full->max_abs);
    }
    trainer_release(&trainer);
}

static void test_an_overflow_of_it_skips_d_and_is_named(void **state)
{
    (void)state;
    struct config config = small_config();
    config.g.init_scale = config.d.init_scale = 256.0;
    struct trainer trainer;
    open_with(&trainer, &config, 0x1p30f, 1.0f);
    step(&trainer);
    assert_true(trainer.last.record[ROLE_D].was_skipped);
    assert_true(trainer.last.record[ROLE_D].scale_after == 128.0f);
    assert_false(trainer.last.record[ROLE_G].was_skipped);
    struct diagnosis diagnosis;
    diagnose(&trainer, 0, &diagnosis);
    assert_string_equal(diagnosis.pass, "penalty");
    trainer_release(&trainer);
}

static float found_for_d(float penalty)
{
    struct config config = small_config();
    config.g.init_scale = config.d.init_scale = 0.0; // auto
    struct trainer trainer;
    struct found_scales found = {0};
    open_with(&trainer, &config, penalty, 1.0f);
    assert_int_equal(init_scale_find(&trainer, &found), STATUS_OK);
    float scale = grad_scaler_read(&trainer.scaler[ROLE_D]).scale;
    trainer_release(&trainer);
    return scale;
}

static void test_the_initial_scale_is_one_that_it_bears_too(void **state)
{
    (void)state;
    float without = found_for_d(0.0f), with = found_for_d(0x1p14f);
    assert_true(with > 0.0f && with <= without / 64.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_of_d_is_that_of_all_its_passes),
        cmocka_unit_test(test_each_pass_has_its_own_sums),
        cmocka_unit_test(test_its_tensors_are_looked_at_and_compared_with_f32),
        cmocka_unit_test(test_an_overflow_of_it_skips_d_and_is_named),
        cmocka_unit_test(test_the_initial_scale_is_one_that_it_bears_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
