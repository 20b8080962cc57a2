/* test_init_scale.c - `init-scale auto`: what is found is the largest that is good, and
 * nothing else of the search stays in the run. */
#include "app/recovery/init_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/forecast.h"
#include "app/train/train.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static struct config small(void)
{
    struct config config = small_config();
    config.batch = 8;
    config.g.init_scale = config.d.init_scale = 0.0;
    return config;
}

static void open_trainer(struct trainer *trainer, const struct config *config)
{
    assert_int_equal(config_check(config), STATUS_OK);
    assert_int_equal(trainer_create(trainer, config), STATUS_OK);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK);
}

static void find(struct trainer *trainer, struct found_scales *found)
{
    if (init_scale_find(trainer, found) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void step(struct trainer *trainer)
{
    train_step(trainer);
    if (train_collect_all(trainer) != STATUS_OK)
        fail_msg("%s", status_message());
}

static float scale_now(const struct grad_scaler *scaler)
{
    return grad_scaler_read(scaler).scale;
}

/* ---- that it is right ------------------------------------------------------------ */

// Optimizer steps of the first step, of what has the scale, that overflow at 2^exponent.
// D does not learn, so that G's first step is on the D that the search has seen.
static int overflows_at(const struct config *config, const struct found_scale *found,
                        int exponent)
{
    struct config once = *config;
    struct trainer trainer;
    int count = 0;
    once.g.init_scale = once.d.init_scale = ldexp(1.0, exponent);
    once.d.lr = 1e-12;
    if (once.scaler != SCALER_PER_LOSS)
        once.scaler = SCALER_STATIC; // no overflow of D moves the scale that G gets
    open_trainer(&trainer, &once);
    step(&trainer);
    for (int slot = 0; slot < trainer.results.record_count; slot++) {
        const struct step_record *record = &trainer.last.view.records[slot];
        if (train_slot_network(&trainer, slot) != found->network)
            continue;
        if (strcmp(found->loss, "fakes") == 0)
            record = &trainer.last.view.fakes[slot];
        count += record->found_inf != 0.0f || record->found_inf_unscaled != 0.0f;
    }
    trainer_release(&trainer);
    return count;
}

static void test_it_is_good_and_twice_it_is_not(void **state)
{
    (void)state;
    static const struct {
        int scaler, g_accum, d_accum, n_dis, recompute, grad_stats, g_precision;
        double g_width;
    } cases[] = {{SCALER_PER_NETWORK, 1, 1, 1, 0, 0, OWN_SAME, 8},
                 {SCALER_PER_NETWORK, 1, 1, 1, 1, 3, OWN_SAME, 16},
                 {SCALER_PER_NETWORK, 1, 1, 1, 0, 0, OWN_FP32, 8},
                 {SCALER_PER_NETWORK, 3, 2, 1, 0, 0, OWN_SAME, 8},
                 {SCALER_PER_NETWORK, 1, 1, 3, 0, 0, OWN_SAME, 8},
                 {SCALER_PER_LOSS, 1, 1, 1, 0, 0, OWN_SAME, 8},
                 {SCALER_PER_LOSS, 2, 3, 2, 0, 0, OWN_SAME, 8},
                 {SCALER_SHARED, 1, 1, 1, 0, 0, OWN_SAME, 8},
                 {SCALER_SHARED_PER_STEP, 2, 1, 2, 0, 0, OWN_SAME, 8},
                 {SCALER_STATIC, 1, 1, 1, 0, 0, OWN_SAME, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = small();
        struct trainer trainer;
        struct found_scales found;
        config.scaler = cases[i].scaler;
        config.g.accum = cases[i].g_accum;
        config.d.accum = cases[i].d_accum;
        config.n_dis = cases[i].n_dis;
        config.recompute = cases[i].recompute;
        config.grad_stats = cases[i].grad_stats;
        config.g.precision = cases[i].g_precision;
        config.g.width = (int)cases[i].g_width;
        open_trainer(&trainer, &config);
        find(&trainer, &found);
        assert_int_equal(found.count, cases[i].scaler == SCALER_PER_LOSS ? 3 : 2);
        for (int k = 0; k < found.count; k++) {
            const struct found_scale *scale = &found.of[k];
            int at = scale->exponent;
            assert_int_equal(scale->kind, FOUND_LIMIT);
            if (overflows_at(&config, scale, at) != 0)
                fail_msg("case %zu, scale %d: 2^%d is not good", i, k, at);
            if (overflows_at(&config, scale, at + 1) == 0)
                fail_msg("case %zu, scale %d: 2^%d is good too", i, k, at + 1);
            assert_true(scale->bad.layer[0] != '\0');
            assert_int_not_equal(scale->bad.kind, SURVEY_ACTIVATION);
        }
        trainer_release(&trainer);
    }
}

static void test_each_scaler_begins_the_margin_below_its_own(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    config.scaler = SCALER_PER_LOSS;
    config.init_margin = 3;
    open_trainer(&trainer, &config);
    find(&trainer, &found);
    const struct grad_scaler *scalers[] = {
        &trainer.scaler[ROLE_G], &trainer.scaler[ROLE_D], &trainer.topology.fake};
    for (int i = 0; i < 3; i++)
        assert_true(scale_now(scalers[i]) == ldexpf(1.0f, found.of[i].exponent - 3) &&
                    found.of[i].start == scale_now(scalers[i]));
    assert_string_equal(found.of[1].loss, "real");
    assert_string_equal(found.of[2].loss, "fakes");
    trainer_release(&trainer);
}

static void test_one_scale_for_both_begins_with_the_smaller(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    config.scaler = SCALER_SHARED;
    config.g.accum = 4; // whose gradients are smaller then
    open_trainer(&trainer, &config);
    find(&trainer, &found);
    int g = found.of[0].exponent, d = found.of[1].exponent, least = g < d ? g : d;
    assert_int_not_equal(g, d);
    for (int network = 0; network < ROLES; network++)
        assert_true(scale_now(&trainer.scaler[network]) ==
                    ldexpf(1.0f, least - config.init_margin));
    assert_non_null(strstr(trainer.found_scales, "the smaller of both networks'"));
    trainer_release(&trainer);
}

static void test_limits_of_the_scale_hold(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    config.g.max_scale = 100.0;
    config.d.min_scale = 1e6;
    open_trainer(&trainer, &config);
    assert_true(scale_now(&trainer.scaler[ROLE_G]) == 100.0f);
    find(&trainer, &found);
    assert_true(scale_now(&trainer.scaler[ROLE_G]) == 100.0f);
    assert_true(scale_now(&trainer.scaler[ROLE_D]) == 1e6f);
    assert_non_null(strstr(trainer.found_scales, "begins at 100, its maximum"));
    assert_non_null(strstr(trainer.found_scales, "begins at 1e+06, its minimum"));
    trainer_release(&trainer);
}

/* ---- that nothing stays ---------------------------------------------------------- */

static void assert_same_block(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof *a);
}

static void assert_same_run(const struct trainer *a, const struct trainer *b)
{
    for (int network = 0; network < ROLES; network++) {
        const struct net *x = &a->gan.net[network], *y = &b->gan.net[network];
        assert_same_block(x->params, y->params, x->param_elements);
        assert_same_block(x->buffers, y->buffers, x->buffer_elements);
        assert_same_block(a->adam[network].m, b->adam[network].m, x->param_elements);
        struct scaler_state s = grad_scaler_read(&a->scaler[network]),
                            t = grad_scaler_read(&b->scaler[network]);
        assert_memory_equal(&s, &t, sizeof s);
    }
    assert_same_block(a->ema.average, b->ema.average, a->gan.net[ROLE_G].param_elements);
    assert_int_equal(*a->feed.draw, *b->feed.draw);
    assert_memory_equal(&a->progress, &b->progress, sizeof a->progress);
}

static void test_nothing_stays_but_the_scale(void **state)
{
    (void)state;
    static const int kinds[] = {SCALER_PER_NETWORK, SCALER_PER_LOSS,
                                SCALER_SHARED_PER_STEP};
    for (int i = 0; i < 3; i++) {
        struct config config = small();
        struct trainer searched, plain;
        struct found_scales found;
        config.scaler = kinds[i];
        config.n_dis = 2;
        config.g.accum = 3;
        config.mirror = 1;
        open_trainer(&searched, &config);
        find(&searched, &found);
        config.g.init_scale = (double)scale_now(&searched.scaler[ROLE_G]);
        config.d.init_scale = (double)scale_now(&searched.scaler[ROLE_D]);
        open_trainer(&plain, &config);
        assert_same_run(&searched, &plain);
        for (int n = 0; n < 4; n++) {
            step(&searched);
            step(&plain);
        }
        assert_same_run(&searched, &plain);
        trainer_release(&searched);
        trainer_release(&plain);
    }
}

static void test_a_forecast_of_the_time_leaves_nothing(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer timed, plain;
    double sec = 0.0;
    config.n_dis = 2;
    config.d.accum = 2;
    config.mirror = 1;
    config.kimg = 1e8; // long, so that it rehearses twice
    config.g.init_scale = config.d.init_scale = 65536.0;
    open_trainer(&timed, &config);
    open_trainer(&plain, &config);
    for (int n = 0; n < 3;
         n++) { // before the first step, and after some, as a resume does
        assert_int_equal(forecast(&timed, &sec), STATUS_OK);
        assert_true(sec > 0.0);
        assert_same_run(&timed, &plain);
        step(&timed);
        step(&plain);
        assert_same_run(&timed, &plain);
    }
    assert_true(forecast_rest(&plain, 0.5) ==
                0.5 * (1e11 - (double)plain.progress.images));
    trainer_release(&timed);
    trainer_release(&plain);
}

static void test_a_scale_that_was_given_is_left_alone(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    config.d.init_scale = 48.0;
    open_trainer(&trainer, &config);
    find(&trainer, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.of[0].network, ROLE_G);
    assert_true(scale_now(&trainer.scaler[ROLE_D]) == 48.0f);
    trainer_release(&trainer);
}

/* ---- where there is nothing to find ---------------------------------------------- */

static void test_a_wide_type_begins_with_the_usual_scale_or_has_none(void **state)
{
    (void)state;
    for (int asks = 0; asks < 2; asks++) {
        struct config config = small();
        struct trainer trainer;
        struct found_scales found;
        config.precision = PRECISION_BF16;
        config.scaler = asks ? SCALER_PER_NETWORK : SCALER_AUTO;
        open_trainer(&trainer, &config);
        find(&trainer, &found);
        assert_int_equal(found.count, asks ? 2 : 0);
        for (int i = 0; i < found.count; i++) {
            assert_int_equal(found.of[i].kind, FOUND_NO_LIMIT);
            assert_int_equal(found.of[i].exponent, 16);
            assert_true(found.of[i].start == 65536.0f);
        }
        assert_int_equal(trainer.found_scales[0] != '\0', asks);
        trainer_release(&trainer);
    }
}

static void fill_weights(struct trainer *trainer, float value)
{
    struct net *d = &trainer->gan.net[ROLE_D];
    for (size_t i = 0; i < d->param_elements; i++)
        d->params[i] = value; // the CPU's memory is the host's
    net_params_changed(d);
}

static void test_gradients_that_are_all_zero_tell_nothing(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    snprintf(config.fp32_layers, sizeof config.fp32_layers, "d.conv4"); // so dL/dlogit is
    open_trainer(&trainer, &config);
    fill_weights(&trainer, 0.0f);
    find(&trainer, &found);
    for (int i = 0; i < found.count; i++) {
        assert_int_equal(found.of[i].kind, FOUND_NO_LIMIT);
        assert_int_equal(found.of[i].exponent, INIT_EXPONENT_MAX);
        assert_true(found.of[i].start == 65536.0f);
    }
    trainer_release(&trainer);
}

static void test_a_bad_weight_is_told_and_no_scale_is_blamed(void **state)
{
    (void)state;
    struct config config = small();
    struct trainer trainer;
    struct found_scales found;
    open_trainer(&trainer, &config);
    fill_weights(&trainer, INFINITY);
    find(&trainer, &found);
    assert_int_equal(found.count, 2);
    for (int i = 0; i < found.count; i++) {
        assert_int_equal(found.of[i].kind, FOUND_NOTHING);
        assert_true(found.of[i].start == 65536.0f);
        assert_int_equal(found.of[i].bad.kind, SURVEY_ACTIVATION);
    }
    assert_non_null(strstr(trainer.found_scales,
                           "D: warning: no scale down to 2^-122 makes the first step's "
                           "gradients finite: first in d.conv1: activation, in the "
                           "forward pass, which no scale can mend; begins at 2^16, as "
                           "without auto"));
    trainer_release(&trainer);
}

/* ---- what it is for -------------------------------------------------------------- */

static int64_t skips_in(const struct config *config, int steps, int64_t skips[2])
{
    struct trainer trainer;
    struct found_scales found;
    open_trainer(&trainer, config);
    find(&trainer, &found);
    for (int i = 0; i < steps; i++)
        step(&trainer);
    for (int network = 0; network < ROLES; network++)
        skips[network] = trainer.last.record[network].skipped;
    trainer_release(&trainer);
    return skips[ROLE_G] + skips[ROLE_D];
}

static void test_a_run_begins_without_the_skips_of_the_usual_scale(void **state)
{
    (void)state;
    struct config config = small();
    int64_t skips[ROLES];
    config.batch = 16;
    config.g.width = config.d.width = 16;
    config.g.init_scale = config.d.init_scale = 65536.0;
    int64_t usual = skips_in(&config, 100, skips);
    print_message("at 65536: G skips %lld, D %lld\n", (long long)skips[ROLE_G],
                  (long long)skips[ROLE_D]);
    assert_true(skips[ROLE_G] > 0 && skips[ROLE_D] > 0);
    config.g.init_scale = config.d.init_scale = 0.0;
    assert_int_equal(skips_in(&config, 100, skips), 0);
    assert_true(usual > 0);
}

/* ---- the real program ------------------------------------------------------------ */

#define AUTO " --g-init-scale auto --d-init-scale auto "

static void test_the_program_tells_it_everywhere_and_resume_keeps_it(void **state)
{
    (void)state;
    char text[16384], out[512], run[1024], whole[32], other[32];
    snprintf(out, sizeof out, "%s", make_folder("init_scale"));
    assert_int_equal(twinscale(text, sizeof text, "train " SMALL_RUN AUTO "-n"), 0);
    assert_non_null(
        strstr(text, "scale: G: the first step's gradients are finite up to"));
    twinscale_must("train " SMALL_RUN AUTO "--out '%s/a' --kimg 0.32 --snap 0.16", out);
    snprintf(run, sizeof run, "%s/a", out);
    snprintf(run, sizeof run, "%s", run_in(run));
    assert_int_equal(run_command(text, sizeof text,
                                 "grep -c '^scale   [GD]: the first step' '%s/log.txt'; "
                                 "grep -c '\"event\":\"init_scale\",\"net\":\"[GD]\"' "
                                 "'%s/events.jsonl'",
                                 run, run),
                     0);
    assert_string_equal(text, "2\n2\n");
    digest_of(run, whole);
    twinscale_must("train --resume '%s/snapshot-000000.160.safetensors' --preview off",
                   run);
    digest_of(run, other);
    assert_string_equal(other, whole);
    assert_int_equal(
        run_command(text, sizeof text, "grep -c 'init_scale' '%s/events.jsonl'", run), 0);
    assert_string_equal(text, "2\n"); // not looked for again
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run), 0);
    assert_non_null(strstr(text, "found at the start:\n  G: the first step's"));
    assert_non_null(strstr(text, "\"g_init_scale\": \"auto\""));
    remove_folder(out);
}

static void test_a_fault_in_the_first_forward_pass_is_one_sentence(void **state)
{
    (void)state;
    char text[16384], out[512];
    snprintf(out, sizeof out, "%s", make_folder("init_scale"));
    assert_int_equal(twinscale(text, sizeof text,
                               "train " SMALL_RUN AUTO "--out '%s' --kimg 0.16 "
                               "--inject d:1:nan-forward",
                               out),
                     0);
    assert_non_null(strstr(text, "scale   D: warning: no scale down to 2^-122"));
    assert_int_equal(
        twinscale(text, sizeof text, "train " SMALL_RUN AUTO "-n --precision fp32"), 0);
    assert_null(strstr(text, "scale: "));
    twinscale_must("train " SMALL_RUN AUTO "--out '%s/b' --kimg 0.016 --precision fp32",
                   out);
    char folder[600];
    snprintf(folder, sizeof folder, "%s/b", out);
    assert_int_equal(run_command(text, sizeof text,
                                 "grep -c 'has no loss scale, so init-scale auto' "
                                 "'%s/log.txt'",
                                 run_in(folder)),
                     0);
    assert_string_equal(text, "2\n");
    remove_folder(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_good_and_twice_it_is_not),
        cmocka_unit_test(test_each_scaler_begins_the_margin_below_its_own),
        cmocka_unit_test(test_one_scale_for_both_begins_with_the_smaller),
        cmocka_unit_test(test_limits_of_the_scale_hold),
        cmocka_unit_test(test_nothing_stays_but_the_scale),
        cmocka_unit_test(test_a_forecast_of_the_time_leaves_nothing),
        cmocka_unit_test(test_a_scale_that_was_given_is_left_alone),
        cmocka_unit_test(test_a_wide_type_begins_with_the_usual_scale_or_has_none),
        cmocka_unit_test(test_gradients_that_are_all_zero_tell_nothing),
        cmocka_unit_test(test_a_bad_weight_is_told_and_no_scale_is_blamed),
        cmocka_unit_test(test_a_run_begins_without_the_skips_of_the_usual_scale),
        cmocka_unit_test(test_the_program_tells_it_everywhere_and_resume_keeps_it),
        cmocka_unit_test(test_a_fault_in_the_first_forward_pass_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
