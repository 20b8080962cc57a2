/* test_change.c - settings changed between two steps: what is applied, kept and
 * refused. */
#include "app/live/change.h"

#include <stdio.h>
#include <string.h>

#include "app/train/train.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static void open_trainer_of(struct trainer *trainer, int scaler, int d_precision)
{
    struct config config = small_config();
    config.scaler = scaler;
    config.d.precision = d_precision;
    config.g.init_scale = config.d.init_scale = 1024.0;
    assert_int_equal(trainer_create(trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK);
}

static void open_trainer(struct trainer *trainer, int scaler)
{
    open_trainer_of(trainer, scaler, OWN_SAME);
}

static void step(struct trainer *trainer)
{
    train_step(trainer);
    if (train_collect_all(trainer) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void change(struct trainer *trainer, const char *request, struct changes *changes)
{
    if (trainer_change(trainer, request, changes) != STATUS_OK)
        fail_msg("%s: %s", request, status_message());
}

static void refuse(struct trainer *trainer, const char *request, const char *words)
{
    struct changes changes;
    char before[4096], after[4096];
    trainer_settable(trainer, before, sizeof before);
    assert_int_equal(trainer_change(trainer, request, &changes), STATUS_USAGE);
    if (!strstr(status_message(), words))
        fail_msg("%s: no \"%s\" in: %s", request, words, status_message());
    trainer_settable(trainer, after, sizeof after);
    assert_string_equal(after, before);
}

static void test_a_change_reaches_the_device_the_config_and_the_next_step(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    open_trainer(&trainer, SCALER_PER_NETWORK);
    step(&trainer);
    change(&trainer, "d.scale=64\nd.growth_interval=2\ng.lr=0.5", &changes);
    assert_int_equal(changes.count, 3);
    assert_string_equal(changes.of[0].text, "g.lr: was 0.0002, is now 0.5");
    // The interval of 2 is in the same request, and one good step has been counted.
    assert_string_equal(changes.of[1].text,
                        "d.scale: was 1024, is now 64; steps without an overflow "
                        "until it grows: 1");
    assert_true(changes.of[1].scale_before == 1024.0f);
    assert_true(changes.of[1].scale_after == 64.0f);
    assert_true(trainer.config.g.lr == 0.5 && trainer.adam[ROLE_G].config.lr == 0.5f);
    assert_int_equal(trainer.config.d.growth_interval, 2);
    assert_true(trainer.last.record[ROLE_D].scale_after == 64.0f);
    step(&trainer);
    const struct step_record *d = &trainer.last.record[ROLE_D];
    assert_true(d->scale_used == 64.0f && d->scale_after == 128.0f);
    assert_true(trainer.last.record[ROLE_G].scale_after == 1024.0f);
    trainer_release(&trainer);
}

static void test_what_is_of_the_run_belongs_to_no_network(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    open_trainer(&trainer, SCALER_SHARED);
    step(&trainer);
    change(&trainer, "kimg=2000\nsnap=7\ngrad_stats=3", &changes);
    assert_int_equal(changes.count, 3);
    assert_string_equal(changes.of[1].text, "snap: was 20, is now 7");
    for (int i = 0; i < changes.count; i++) {
        assert_int_equal(changes.of[i].network, CHANGE_OF_RUN);
        assert_false(change_is_of_scale(&changes.of[i]));
    }
    assert_true(trainer.config.kimg == 2000.0 && trainer.config.snap == 7.0);
    assert_int_equal(trainer.config.grad_stats, 3);
    refuse(&trainer, "snap=0", "snap");
    refuse(&trainer, "tick=3", "cannot be set while a run goes on");
    // One step of the smallest batch lies behind: the end cannot lie there too.
    char request[32];
    snprintf(request, sizeof request, "kimg=%.6f",
             (double)trainer.progress.images / 1000.0);
    refuse(&trainer, request, "has passed, the run is at");
    trainer_release(&trainer);
}

static void test_a_scale_that_never_grows_has_no_word_on_growth(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    open_trainer(&trainer, SCALER_PER_NETWORK);
    change(&trainer, "d.max_scale=512", &changes);
    change(&trainer, "d.scale=256", &changes);
    assert_non_null(
        strstr(changes.of[0].text, "steps without an overflow until it grows: 2000"));
    change(&trainer, "d.scale=512", &changes);
    assert_string_equal(changes.of[0].text, "d.scale: was 256, is now 512");
    trainer_release(&trainer);
}

static void test_a_learning_rate_moves_the_weights_of_the_next_step(void **state)
{
    (void)state;
    struct trainer slow, fast;
    struct changes changes;
    open_trainer(&slow, SCALER_PER_NETWORK);
    open_trainer(&fast, SCALER_PER_NETWORK);
    step(&slow);
    step(&fast);
    const struct net *a = &slow.gan.net[ROLE_D], *b = &fast.gan.net[ROLE_D];
    size_t bytes = a->param_elements * sizeof(float);
    assert_memory_equal(a->params, b->params, bytes);
    change(&fast, "d.lr=0.01", &changes);
    step(&slow);
    step(&fast);
    assert_memory_not_equal(a->params, b->params, bytes);
    trainer_release(&slow);
    trainer_release(&fast);
}

static void test_a_scale_beyond_a_new_limit_is_brought_to_it_and_told(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    open_trainer(&trainer, SCALER_PER_NETWORK);
    step(&trainer);
    change(&trainer, "g.max_scale=256", &changes);
    assert_non_null(strstr(changes.of[0].text, "g.max_scale: was 0, is now 256; "));
    assert_non_null(
        strstr(changes.of[0].text, "1024 is above its maximum and becomes 256"));
    assert_true(trainer.config.g.init_scale == 256.0); // so that --resume takes the limit
    assert_int_equal(config_check(&trainer.config), STATUS_OK);
    change(&trainer, "g.max_scale=256", &changes);
    assert_string_equal(changes.of[0].text, "g.max_scale: is already 256");
    trainer.config.d.init_scale = 0.0; // auto stays auto
    change(&trainer, "d.max_scale=256\nd.min_scale=2", &changes);
    assert_true(trainer.config.d.init_scale == 0.0);
    assert_int_equal(config_check(&trainer.config), STATUS_OK);
    trainer_release(&trainer);
}

static void test_one_scale_for_both_gets_every_change_in_both_networks(void **state)
{
    (void)state;
    static const int kinds[] = {SCALER_SHARED, SCALER_SHARED_PER_STEP};
    for (int i = 0; i < 2; i++) {
        struct trainer trainer;
        struct changes changes;
        open_trainer(&trainer, kinds[i]);
        step(&trainer);
        change(&trainer, "g.scale=32\ng.growth_interval=700\nd.lr=0.001", &changes);
        assert_int_equal(changes.count, 5);
        for (int network = 0; network < ROLES; network++) {
            struct scaler_state scaler = grad_scaler_read(&trainer.scaler[network]);
            assert_true(scaler.scale == 32.0f);
            assert_int_equal(scaler.growth_interval, 700);
        }
        assert_true(trainer.config.g.lr == 2e-4 && trainer.config.d.lr == 0.001);
        refuse(&trainer, "g.scale=32\nd.scale=64", "one scale between them");
        refuse(&trainer, "g.growth_interval=5\nd.growth_interval=6",
               "one scale between them");
        step(&trainer);
        assert_true(trainer.last.record[ROLE_D].scale_used == 32.0f);
        trainer_release(&trainer);
    }
}

static void test_both_of_ds_losses_get_its_scale(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    open_trainer(&trainer, SCALER_PER_LOSS);
    step(&trainer);
    change(&trainer, "d.scale=16\nd.growth_factor=4\nd.growth_interval=1", &changes);
    step(&trainer);
    assert_true(trainer.last.record[ROLE_D].scale_after == 64.0f);
    assert_true(trainer.last.fake_record.scale_after == 64.0f);
    trainer_release(&trainer);
}

static void test_a_refusal_tells_why_and_changes_nothing(void **state)
{
    (void)state;
    struct trainer trainer;
    open_trainer(&trainer, SCALER_PER_NETWORK);
    refuse(&trainer, "d.growth_intervall=5", "did you mean d.growth_interval?");
    refuse(&trainer, "xyzzy=5", "`twinscale ctl RUN` lists what can");
    refuse(&trainer, "g.lr", "expected key=value");
    refuse(&trainer, "=1", "expected key=value");
    refuse(&trainer, "g.lr=fast", "is not a number");
    refuse(&trainer, "g.lr=2", "is out of range");
    refuse(&trainer, "g.scale=0", "is out of range");
    refuse(&trainer, "g.scale=inf", "is not a number");
    refuse(&trainer, "g.lr=0.1\ng.lr=0.2", "given twice");
    refuse(&trainer, "g.lr=0.1\nd.scale=no", "is not a number"); // all or none
    refuse(&trainer, "g.min_scale=64\ng.scale=32", "below the minimum 64");
    refuse(&trainer, "g.max_scale=64\ng.scale=128", "above the maximum 64");
    refuse(&trainer, "g.min_scale=64\ng.max_scale=32", "at most the maximum");
    refuse(&trainer, "g.hysteresis=50", "--max-skips");
    static char long_request[CHANGE_REQUEST + 8];
    memset(long_request, 'a', sizeof long_request - 1);
    refuse(&trainer, long_request, "fewer changes at once");
    trainer_release(&trainer);
}

static void test_without_scaling_only_the_optimizer_can_be_changed(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    char text[4096];
    open_trainer(&trainer, SCALER_OFF);
    trainer_settable(&trainer, text, sizeof text);
    assert_string_equal(text, "g.lr=0.0002\ng.clip_norm=0\nd.lr=0.0002\nd.clip_norm=0\n"
                              "kimg=1000\nsnap=20\ngrad_stats=0");
    refuse(&trainer, "g.scale=64", "no loss scaling");
    change(&trainer, "g.clip_norm=0.5", &changes);
    assert_true(trainer.topology.network[ROLE_G].clip_norm == 0.5f);
    step(&trainer);
    assert_true(trainer.last.record[ROLE_G].grad_norm > 0.0f);
    trainer_release(&trainer);
}

static void test_a_network_without_a_scale_beside_one_with_it_keeps_none(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    char text[4096];
    open_trainer_of(&trainer, SCALER_AUTO, OWN_BF16);
    trainer_settable(&trainer, text, sizeof text);
    assert_non_null(strstr(text, "g.scale=1024\n"));
    assert_null(strstr(text, "d.scale"));
    refuse(&trainer, "d.scale=64", "no loss scaling");
    change(&trainer, "g.scale=64\nd.lr=0.5", &changes);
    assert_int_equal(changes.count, 2);
    assert_int_equal(trainer.scaler[ROLE_D].config.enabled, 0);
    step(&trainer);
    assert_true(trainer.last.record[ROLE_G].scale_used == 64.0f);
    trainer_release(&trainer);
}

static void test_the_list_is_a_request_that_changes_nothing(void **state)
{
    (void)state;
    struct trainer trainer;
    struct changes changes;
    char text[4096], again[4096];
    open_trainer(&trainer, SCALER_PER_NETWORK);
    trainer_settable(&trainer, text, sizeof text);
    change(&trainer, text, &changes);
    assert_int_equal(changes.count, 27); // 12 keys for each network, 3 for the run
    for (int i = 0; i < changes.count; i++)
        assert_non_null(strstr(changes.of[i].text, ": is already "));
    trainer_settable(&trainer, again, sizeof again);
    assert_string_equal(again, text);
    trainer_release(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_reaches_the_device_the_config_and_the_next_step),
        cmocka_unit_test(test_what_is_of_the_run_belongs_to_no_network),
        cmocka_unit_test(test_a_scale_that_never_grows_has_no_word_on_growth),
        cmocka_unit_test(test_a_learning_rate_moves_the_weights_of_the_next_step),
        cmocka_unit_test(test_a_scale_beyond_a_new_limit_is_brought_to_it_and_told),
        cmocka_unit_test(test_one_scale_for_both_gets_every_change_in_both_networks),
        cmocka_unit_test(test_both_of_ds_losses_get_its_scale),
        cmocka_unit_test(test_a_refusal_tells_why_and_changes_nothing),
        cmocka_unit_test(test_without_scaling_only_the_optimizer_can_be_changed),
        cmocka_unit_test(test_a_network_without_a_scale_beside_one_with_it_keeps_none),
        cmocka_unit_test(test_the_list_is_a_request_that_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
