/* test_diagnosis.c - which cause an overflow is put down to, and what is said about
 * it. */
#include "app/recovery/diagnosis.h"

#include <math.h>
#include <string.h>

#include "app/input/batch.h"
#include "app/train/train.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

/* ---- the cause ------------------------------------------------------------------- */

// One inf among D's activation gradients, just after the scale grew.
static struct overflow_facts usual_facts(void)
{
    return (struct overflow_facts){.has_place = 1,
                                   .kind = SURVEY_ACTIVATION_GRADIENT,
                                   .inf = 1,
                                   .max_finite = 65472.0f,
                                   .forward_finite = 1,
                                   .is_half = 1,
                                   .found_inf = 1,
                                   .was_repeated = 1,
                                   .is_repeatable = 1,
                                   .is_in_d = 1,
                                   .scale = 131072.0f,
                                   .scale_after = 65536.0f};
}

static void test_an_overflow_after_a_growth_is_the_scales(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    facts.kind = SURVEY_WEIGHT_GRADIENT;
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    facts.nan = 100; // inf * 0 further down
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
}

static void test_gradients_that_no_scale_above_1_can_hold_are_to_blame(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    facts.overflows_at_one = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_GRADIENTS);
    facts.overflows_at_one = 0;
    facts.scale = 0.5f;
    assert_int_equal(overflow_cause(&facts), CAUSE_GRADIENTS);
    facts.scale = 256.0f;
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    // bf16 and f32 have a range in which neither is usual: a step at a scale of 1 decides
    // it.
    facts.is_half = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_UNKNOWN);
    facts.was_tried_at_one = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    facts.overflows_at_one = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_GRADIENTS);
}

static void test_a_bad_weight_comes_before_all_that_follows_from_it(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    snprintf(facts.weight, sizeof facts.weight, "d.conv1.weight[0] is inf");
    assert_int_equal(overflow_cause(&facts), CAUSE_WEIGHT);
    facts.kind = SURVEY_ACTIVATION;
    facts.forward_finite = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_WEIGHT);
}

static void test_what_a_repeated_step_does_not_show_is_not_explained_by_it(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    facts.is_repeatable = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_ELSEWHERE);
    facts.was_repeated = 0; // a device that has gone on
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    facts.forward_finite = 0;
    facts.was_repeated = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_FORWARD);
}

static void test_no_loss_scale_is_blamed_for_the_forward_pass(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    facts.kind = SURVEY_ACTIVATION;
    facts.forward_finite = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_FORWARD);
    facts.has_place = 0; // of a batch that is gone
    assert_int_equal(overflow_cause(&facts), CAUSE_FORWARD);
}

static void test_nan_without_inf_is_invalid_where_the_forward_pass_has_it(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    facts.inf = 0;
    facts.nan = 3;
    assert_int_equal(overflow_cause(&facts), CAUSE_UNKNOWN);
    // Where only the step's end is seen, inf - inf may have made it: an ordinary
    // overflow.
    facts.may_hide_inf = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_SCALE);
    facts.may_hide_inf = 0;
    facts.kind = SURVEY_ACTIVATION;
    facts.forward_finite = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_INVALID);
}

static void test_what_no_tensor_shows_is_told_by_the_flags(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    facts.has_place = 0;
    assert_int_equal(overflow_cause(&facts), CAUSE_ELSEWHERE);
    facts.found_inf = 0;
    facts.found_inf_unscaled = 1;
    assert_int_equal(overflow_cause(&facts), CAUSE_GRADIENTS);
}

static int advises(enum overflow_cause cause, const struct overflow_facts *facts,
                   const char *network, const char *words)
{
    char text[512];
    return strstr(overflow_advice(cause, facts, network, "", text, sizeof text), words) !=
           NULL;
}

static void test_the_advice_follows_the_rule_that_kept_the_scale(void **state)
{
    (void)state;
    struct overflow_facts facts = usual_facts();
    assert_true(advises(CAUSE_SCALE, &facts, "D", "it has been lowered, nothing needs"));
    facts.scale_after = facts.scale;
    assert_true(advises(CAUSE_SCALE, &facts, "D", "not lowered yet (--d-hysteresis"));
    facts.at_floor = 1;
    assert_true(advises(CAUSE_SCALE, &facts, "G", "lower --g-min-scale"));
    facts.is_static = 1;
    assert_true(advises(CAUSE_SCALE, &facts, "D", "lower --d-init-scale"));
}

static void test_each_cause_has_an_action_with_a_flag_of_its_network(void **state)
{
    (void)state;
    // Of a gradient the network that was skipped counts, of the forward pass the layer's.
    static const struct {
        enum overflow_cause cause;
        int is_by_layer;
    } with_flag[] = {{CAUSE_GRADIENTS, 0},

                     {CAUSE_FORWARD, 1},
                     {CAUSE_INVALID, 1},
                     {CAUSE_WEIGHT, 1}};
    struct overflow_facts facts = usual_facts();
    char text[512];
    for (size_t i = 0; i < sizeof with_flag / sizeof *with_flag; i++)
        for (int layer = 0; layer < 2; layer++)
            for (int skipped = 0; skipped < 2; skipped++) {
                int is_d = with_flag[i].is_by_layer ? layer : skipped;
                facts.is_in_d = layer;
                assert_true(advises(with_flag[i].cause, &facts, skipped ? "D" : "G",
                                    is_d ? "--d-lr" : "--g-lr"));
                assert_false(advises(with_flag[i].cause, &facts, skipped ? "D" : "G",
                                     is_d ? "--g-lr" : "--d-lr"));
            }
    facts.is_in_d = 1;
    overflow_advice(CAUSE_FORWARD, &facts, "D", "", text, sizeof text);
    assert_non_null(strstr(text, "no loss scale can help"));
    assert_non_null(strstr(text, "lower --d-lr, or train with --precision bf16 or fp32"));
    snprintf(facts.fp32_layers, sizeof facts.fp32_layers, "d.conv3,d.bn3");
    static const enum overflow_cause with_layers[] = {CAUSE_GRADIENTS, CAUSE_FORWARD};
    for (size_t i = 0; i < sizeof with_layers / sizeof *with_layers; i++)
        assert_non_null(strstr(
            overflow_advice(with_layers[i], &facts, "D", "", text, sizeof text),
            "lower --d-lr, keep what overflowed in f32 with --fp32-layers d.conv3,d.bn3, "
            "or train with"));
    facts.is_half = 0; // which is already so
    overflow_advice(CAUSE_FORWARD, &facts, "D", "", text, sizeof text);
    assert_null(strstr(text, "--precision"));
    overflow_advice(CAUSE_OUTLIER, &facts, "D", "image 7 of the data", text, sizeof text);
    assert_non_null(strstr(text, "look at image 7 of the data"));
    assert_string_equal(
        overflow_advice(CAUSE_UNKNOWN, &facts, "D", "", text, sizeof text), "");
}

/* ---- in a trainer ---------------------------------------------------------------- */

static void open_trainer_with(struct trainer *trainer, double g_scale, double d_scale,
                              int steps_ahead, const char *fp32_layers)
{
    struct config config = small_config();
    config.max_skips = 100;
    config.g.init_scale = g_scale;
    config.d.init_scale = d_scale;
    snprintf(config.fp32_layers, sizeof config.fp32_layers, "%s", fp32_layers);
    assert_int_equal(trainer_create(trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK);
    // A device that runs ahead cannot take a step again.
    trainer->device->steps_ahead = steps_ahead;
}

static void open_trainer(struct trainer *trainer, double g_scale, double d_scale,
                         int steps_ahead)
{
    open_trainer_with(trainer, g_scale, d_scale, steps_ahead, "");
}

static void step(struct trainer *trainer)
{
    train_step(trainer);
    if (train_collect_all(trainer) != STATUS_OK)
        fail_msg("%s", status_message());
}

static int same_bytes(const struct trainer *a, const struct trainer *b, int network)
{
    const struct net *x = &a->gan.net[network], *y = &b->gan.net[network];
    return memcmp(x->params, y->params, x->param_elements * sizeof(float)) == 0 &&
           memcmp(x->buffers, y->buffers, x->buffer_elements * sizeof(float)) == 0;
}

static void test_taking_a_step_again_leaves_weights_and_statistics_alone(void **state)
{
    (void)state;
    struct trainer again, plain;
    open_trainer(&again, 1e9, 1e10, 0);
    open_trainer(&plain, 1e9, 1e10, 1);
    for (int i = 0; i < 24; i++) {
        step(&again);
        step(&plain);
        assert_int_equal(again.last.view.records[0].was_skipped,
                         plain.last.view.records[0].was_skipped);
        assert_int_equal(probe_of_skip(&again, 0) != NULL,
                         again.last.view.records[0].was_skipped);
        assert_null(probe_of_skip(&plain, 0));
    }
    for (int network = 0; network < ROLES; network++) {
        assert_true(again.last.record[network].skipped > 5);
        assert_true(again.last.record[network].adam_t > 0);
        assert_true(same_bytes(&again, &plain, network));
    }
    trainer_release(&again);
    trainer_release(&plain);
}

// True when one of D's two passes has its first inf or NaN where `told` has.
static int is_first_of_a_pass(const struct trainer *trainer, const struct diagnosis *told)
{
    const struct probe_view *view = probe_of_skip(trainer, 0);
    for (int pass = PASS_D_REAL; pass <= PASS_D_FAKE; pass++) {
        struct nonfinite_place place;
        if (survey_first_nonfinite(&trainer->probe.survey[pass], view->stats[pass],
                                   &place) &&
            strcmp(place.layer, told->place.layer) == 0 && place.kind == told->facts.kind)
            return 1;
    }
    return 0;
}

// What its weight gradients tell agrees with what the tensors themselves hold.
static void test_a_device_that_runs_ahead_names_the_same_place(void **state)
{
    (void)state;
    struct trainer again, plain;
    int compared = 0;
    open_trainer(&again, 64, 1e7, 0);
    open_trainer(&plain, 64, 1e7, 1);
    for (int i = 0; i < 20; i++) {
        struct diagnosis exact, told;
        step(&again);
        step(&plain);
        if (!again.last.view.records[0].was_skipped)
            continue;
        diagnose(&again, 0, &exact);
        diagnose(&plain, 0, &told);
        assert_true(exact.is_exact && exact.facts.has_place);
        assert_true(!told.is_exact && told.facts.has_place);
        assert_int_equal(exact.facts.forward_finite, 1);
        assert_true(exact.facts.inf > 0);
        if (!is_first_of_a_pass(&again, &told))
            fail_msg("step %d: told %s %s, found %s %s", i + 1, told.place.layer,
                     told.place.tensor, exact.place.layer, exact.place.tensor);
        compared += 1;
    }
    assert_true(compared > 2);
    trainer_release(&again);
    trainer_release(&plain);
}

// D.conv3's outputs are far beyond 65504, and its batch norm brings them back to 1.
static void make_conv3_huge(struct trainer *trainer)
{
    struct net *d = &trainer->gan.net[ROLE_D];
    int param = 0;
    while (strcmp(d->param[param].name, "conv3.weight") != 0)
        param += 1;
    for (size_t i = 0; i < tensor_elements(&d->param[param].shape); i++)
        d->params[d->param[param].offset + i] = 3e4f;
    net_params_changed(d);
}

static void test_a_layer_with_huge_weights_is_named_in_the_forward_pass(void **state)
{
    (void)state;
    struct trainer trainer;
    struct diagnosis diagnosis;
    open_trainer(&trainer, 64, 64, 0);
    make_conv3_huge(&trainer);
    step(&trainer);
    assert_int_equal(trainer.last.view.records[0].was_skipped, 1);
    diagnose(&trainer, 0, &diagnosis);
    assert_int_equal(diagnosis.facts.forward_finite, 0);
    assert_string_equal(diagnosis.place.layer, "d.conv3");
    assert_string_equal(diagnosis.place.tensor, "activation");
    assert_string_equal(diagnosis.pass, "real");
    assert_int_equal(diagnosis.cause, CAUSE_FORWARD);
    assert_string_equal(diagnosis.facts.fp32_layers, "d.conv3,d.bn3");
    trainer_release(&trainer);
}

/* ---- what f32 would mend --------------------------------------------------------- */

// That layer's output in f32 is cast to f16 where bn3 reads it, and what comes is NaN.
static void test_an_inf_made_by_a_cast_is_one_of_range(void **state)
{
    (void)state;
    struct trainer trainer;
    struct diagnosis diagnosis;
    open_trainer_with(&trainer, 64, 64, 0, "d.conv3");
    make_conv3_huge(&trainer);
    step(&trainer);
    assert_int_equal(trainer.last.view.records[0].was_skipped, 1);
    diagnose(&trainer, 0, &diagnosis);
    assert_string_equal(diagnosis.place.layer, "d.bn3");
    assert_int_equal(diagnosis.facts.inf, 0);
    assert_int_equal(diagnosis.cause, CAUSE_FORWARD);
    assert_string_equal(diagnosis.facts.fp32_layers, "d.bn3,d.act3,d.conv4");
    trainer_release(&trainer);
}

static void test_the_layers_that_are_named_mend_the_forward_pass(void **state)
{
    (void)state;
    struct trainer trainer;
    open_trainer_with(&trainer, 64, 64, 0, "d.conv3,d.bn3");
    make_conv3_huge(&trainer);
    step(&trainer);
    assert_int_equal(trainer.last.view.records[0].was_skipped, 0);
    assert_int_equal(trainer.last.view.records[1].was_skipped, 0);
    trainer_release(&trainer);
}

static void test_no_layer_is_named_where_all_are_f32_already(void **state)
{
    (void)state;
    struct trainer trainer;
    struct diagnosis diagnosis;
    open_trainer_with(&trainer, 64, 64, 0, "*");
    trainer.gan.net[ROLE_D].params[0] = INFINITY;
    step(&trainer);
    assert_int_equal(trainer.last.view.records[0].was_skipped, 1);
    diagnose(&trainer, 0, &diagnosis);
    assert_int_equal(diagnosis.facts.has_place, 1);
    assert_string_equal(diagnosis.facts.fp32_layers, "");
    trainer_release(&trainer);
}

// Where an overflow lies, and what would have to be f32, of G's first skipped step.
static void diagnose_g(const char *inject, struct diagnosis *diagnosis)
{
    struct trainer trainer;
    open_trainer(&trainer, 1024, 64, 0);
    snprintf(trainer.config.inject, sizeof trainer.config.inject, "%s", inject);
    step(&trainer);
    assert_int_equal(trainer.last.view.records[1].was_skipped, 1);
    diagnose(&trainer, 1, diagnosis);
    trainer_release(&trainer);
}

static void test_a_gradient_of_gs_last_layer_is_made_by_ds_first(void **state)
{
    (void)state;
    struct diagnosis diagnosis;
    diagnose_g("g:1:huge-activation", &diagnosis);
    assert_string_equal(diagnosis.facts.fp32_layers, "g.conv4,g.tanh,d.conv1");
    diagnose_g("g:1:nan-forward", &diagnosis); // f32 has a NaN too
    assert_string_equal(diagnosis.facts.fp32_layers, "");
    diagnose_g("g:1:inf", &diagnosis);
    assert_string_equal(diagnosis.facts.fp32_layers, "g.conv1");
}

static void test_the_images_of_a_skipped_step_are_those_that_d_saw(void **state)
{
    (void)state;
    struct trainer trainer;
    size_t images[64], seen[48];
    open_trainer(&trainer, 64, 64, 0);
    for (int i = 0; i < 3; i++)
        step(&trainer);
    assert_int_equal(diagnosis_images(&trainer, 0, images, 64), 16);
    batch_indices(trainer.dataset, 0, 0, 48, seen);
    assert_memory_equal(images, seen + 32, 16 * sizeof *images);
    assert_int_equal(diagnosis_images(&trainer, 1, images, 64), 0); // G's: none
    trainer_release(&trainer);
}

// An image whose bytes are fine cannot be huge, so the normalised batch is made so.
static void test_a_pass_that_alone_overflows_is_told_from_the_other(void **state)
{
    (void)state;
    struct trainer trainer;
    struct diagnosis diagnosis;
    open_trainer(&trainer, 64, 0x1p22, 0);
    // Real logits far below 0 have a gradient of 1/16 each, fakes' far below have none.
    struct net *d = &trainer.gan.net[ROLE_D];
    const struct param *head = &d->param[d->param_count - 1];
    for (size_t i = 0; i < tensor_elements(&head->shape); i++)
        d->params[head->offset + i] = -0.5f;
    net_params_changed(d);
    step(&trainer);
    assert_int_equal(trainer.last.view.records[0].was_skipped, 1);
    diagnose(&trainer, 0, &diagnosis);
    assert_string_equal(diagnosis.pass, "real");
    assert_int_equal(diagnosis.only_real, 1);
    assert_int_equal(diagnosis.cause, CAUSE_SCALE);
    trainer_release(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_overflow_after_a_growth_is_the_scales),
        cmocka_unit_test(test_gradients_that_no_scale_above_1_can_hold_are_to_blame),
        cmocka_unit_test(test_a_bad_weight_comes_before_all_that_follows_from_it),
        cmocka_unit_test(test_what_a_repeated_step_does_not_show_is_not_explained_by_it),
        cmocka_unit_test(test_the_advice_follows_the_rule_that_kept_the_scale),
        cmocka_unit_test(test_no_loss_scale_is_blamed_for_the_forward_pass),
        cmocka_unit_test(test_nan_without_inf_is_invalid_where_the_forward_pass_has_it),
        cmocka_unit_test(test_what_no_tensor_shows_is_told_by_the_flags),
        cmocka_unit_test(test_each_cause_has_an_action_with_a_flag_of_its_network),
        cmocka_unit_test(test_taking_a_step_again_leaves_weights_and_statistics_alone),
        cmocka_unit_test(test_a_device_that_runs_ahead_names_the_same_place),
        cmocka_unit_test(test_a_layer_with_huge_weights_is_named_in_the_forward_pass),
        cmocka_unit_test(test_an_inf_made_by_a_cast_is_one_of_range),
        cmocka_unit_test(test_the_layers_that_are_named_mend_the_forward_pass),
        cmocka_unit_test(test_no_layer_is_named_where_all_are_f32_already),
        cmocka_unit_test(test_a_gradient_of_gs_last_layer_is_made_by_ds_first),
        cmocka_unit_test(test_the_images_of_a_skipped_step_are_those_that_d_saw),
        cmocka_unit_test(test_a_pass_that_alone_overflows_is_told_from_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
