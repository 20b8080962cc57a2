/* test_recover.c - planted faults of every kind, and what a run does in an overflow
 * storm. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];
static char said[32768]; // what the last run printed

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("guard"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

// Trains in the folder `name` of `out`; the exit code.
static int train(const char *name, const char *arguments)
{
    return twinscale(said, sizeof said, "train " SMALL_RUN " --out '%s/%s' %s", out, name,
                     arguments);
}

static const char *run_of(const char *name)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", out, name);
    return run_in(folder);
}

static void assert_said(const char *words)
{
    if (!strstr(said, words))
        fail_msg("\"%s\" is not in:\n%s", words, said);
}

static int count_in(const char *name, const char *file, const char *words)
{
    return lines_with(run_of(name), file, words);
}

static void assert_exists(const char *name, const char *file)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", run_of(name), file);
    if (access(path, R_OK) != 0)
        fail_msg("%s is missing", path);
}

// A JSON file of the run; the caller's.
static json_t *json_of(const char *name, const char *file)
{
    char path[1200];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", run_of(name), file);
    json_t *json = json_load_file(path, 0, &error);
    if (!json)
        fail_msg("%s: %s", path, error.text);
    return json;
}

/* ---- faults ---------------------------------------------------------------------- */

static void test_a_nan_in_ds_forward_pass_makes_both_skip_and_is_named(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.128 --inject d:5:nan-forward"), 0);
    assert_int_equal(count_in("a", "log.txt", "step 5: D skipped"), 1);
    assert_int_equal(count_in("a", "log.txt", "step 5: G skipped"), 1);
    assert_int_equal(count_in("a", "log.txt", "skipped,"), 2);
    assert_int_equal(count_in("a", "log.txt", "first in d.conv4: activation)"), 2);
    assert_int_equal(count_in("a", "events.jsonl", "\"forward_finite\":false"), 2);
    assert_int_equal(count_in("a", "log.txt", "NaN with no inf before it"), 2);
}

static void test_a_nan_in_gs_forward_pass_is_seen_by_d_and_named_as_gs(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.128 --inject g:5:nan-forward"), 0);
    assert_int_equal(count_in("a", "log.txt", "step 5: D skipped"), 1);
    assert_int_equal(count_in("a", "log.txt", "step 5: G skipped"), 1);
    assert_int_equal(count_in("a", "log.txt", "first in g.conv4: activation)"), 2);
    assert_int_equal(count_in("a", "log.txt", "pass fakes"), 1);
}

/* tanh' = 1 - y^2 is -3.6e9 at 60000: the forward pass is finite, G's first gradient is
 * not, and D does not notice. */
static void test_a_huge_activation_of_g_overflows_on_the_way_back(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.128 --inject g:5:huge-activation"), 0);
    assert_int_equal(count_in("a", "log.txt", "skipped,"), 1);
    assert_int_equal(count_in("a", "log.txt",
                              "G skipped, inf or NaN in its gradients (first in g.conv4: "
                              "activation gradient)"),
                     1);
    assert_int_equal(count_in("a", "events.jsonl", "\"forward_finite\":true"), 1);
}

static void test_a_huge_logit_of_d_shows_in_the_loss_and_skips_nothing(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.128 --tick 0.016 --inject d:8:huge-activation"),
                     0);
    assert_int_equal(count_in("a", "log.txt", "skipped,"), 0);
    // 60000 / 16 images, in the last of eight ticks.
    assert_true(mean_of(run_of("a"), "Loss/D/loss", 7) > 3700.0);
    assert_true(mean_of(run_of("a"), "Loss/G/loss", 7) < 10.0);
}

static void test_a_bad_weight_is_never_saved_and_ends_the_run(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(train("a", "--kimg 1.6 --inject d:5:bad-weight --snap 0.064 "
                                "--max-skips 6"),
                     5);
    assert_said("not saved: d.conv1.weight[0] is inf");
    assert_said(
        "D skipped 6 steps in a row, the last in d.conv1 (activation): "
        "d.conv1.weight[0] is inf, which no loss scale and no precision can mend; "
        "go on from an older snapshot with a lower --d-lr");
    assert_int_equal(count_in("a", "log.txt",
                              "step 5: D skipped, inf or NaN in its gradients (first in "
                              "d.conv1: activation)"),
                     1);
    assert_int_equal(
        count_in("a", "log.txt", "pass real; d.conv1.weight[0] is inf, which no"), 6);
    assert_int_equal(count_in("a", "log.txt", "fp32"), 0);
    assert_int_equal(count_in("a", "events.jsonl", "\"cause\":\"weight\""), 12);
    assert_int_equal(twinscale(text, sizeof text, "sample '%s' --seeds 0-3 -o '%s/g.png'",
                               run_of("a"), out),
                     0);
}

static void test_a_run_that_ends_with_a_bad_weight_has_diverged(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.128 --inject g:7:bad-weight"), 5);
    assert_said("the last snapshot could not be written");
}

static void test_faults_of_several_kinds_come_in_one_run(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(
        train("a", "--kimg 0.16 --inject d:3:inf,g:5:huge-activation,d:8-9:nan"), 0);
    assert_string_equal(scale_events(run_of("a"), text, sizeof text),
                        "skip D 3 1024 512\nskip G 5 1024 512\nskip D 8 512 256\n"
                        "skip D 9 256 128\n");
}

static void test_a_planned_fault_changes_nothing_until_its_step(void **state)
{
    (void)state;
    char with[32], without[32];
    assert_int_equal(train("a", "--kimg 0.128"), 0);
    assert_int_equal(train("b", "--kimg 0.128 --inject d:90:nan-forward,"
                                "g:90:huge-activation,d:90:bad-weight,g:90:inf"),
                     0);
    digest_of(run_of("a"), without);
    digest_of(run_of("b"), with);
    assert_string_equal(with, without);
}

/* ---- stopping -------------------------------------------------------------------- */

static void test_a_run_that_is_given_up_leaves_a_post_mortem(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:5-:inf --max-skips 4"), 5);
    assert_said("post-mortem ");
    // The only grid so far is of noise, drawn before the first step: it is no result.
    assert_exists("a", "fakes_init.png");
    assert_null(strstr(said, "grid: "));
    assert_exists("a", "post-mortem/batch.png");
    assert_int_equal(
        count_in("a", "post-mortem/reason.txt", "D skipped 4 steps in a row"), 1);
    assert_int_equal(count_in("a", "post-mortem/events.jsonl", "\"event\":\"skip\""), 4);
    assert_int_equal(count_in("a", "post-mortem/events.jsonl", "\"event\":\"storm\""), 1);
    json_t *options = json_of("a", "post-mortem/options.json");
    assert_int_equal(json_integer_value(json_object_get(options, "max_skips")), 4);
    json_decref(options);
    json_t *layers = json_of("a", "post-mortem/layers.json"), *tensor;
    assert_int_equal(json_integer_value(json_object_get(layers, "step")), 8);
    int has_conv2 = 0;
    size_t i;
    json_array_foreach(json_object_get(layers, "layers"), i, tensor) has_conv2 |=
        strcmp(json_string_value(json_object_get(tensor, "layer")), "d.conv2") == 0 &&
        json_number_value(json_object_get(tensor, "max")) > 0.0;
    assert_true(has_conv2);
    json_decref(layers);
}

static void test_an_earlier_post_mortem_is_kept(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --max-skips 3 --inject d:2-:inf"), 5);
    for (int i = 4; i <= 5; i++)
        assert_int_equal(twinscale(said, sizeof said,
                                   "train --resume '%s' --kimg 1.6 --max-skips %d "
                                   "--inject d:2-:inf",
                                   run_of("a"), i),
                         5);
    assert_int_equal(count_in("a", "post-mortem.bak/reason.txt", "D skipped 3 steps"), 1);
    assert_int_equal(count_in("a", "post-mortem.bak2/reason.txt", "D skipped 4 steps"),
                     1);
    assert_int_equal(count_in("a", "post-mortem/reason.txt", "D skipped 5 steps"), 1);
}

static void test_a_post_mortem_that_cannot_be_written_keeps_the_exit_code(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(train("a", "--kimg 0.016"), 0);
    assert_int_equal(
        run_command(text, sizeof text, "touch '%s/post-mortem'", run_of("a")), 0);
    assert_int_equal(twinscale(said, sizeof said,
                               "train --resume '%s' --kimg 1.6 --max-skips 3 "
                               "--inject d:2-:inf",
                               run_of("a")),
                     5);
    assert_said("warning: no whole post-mortem: ");
    assert_said("D skipped 3 steps in a row");
}

static void test_an_overflow_at_the_smallest_scale_is_a_storm_at_once(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:5-:inf --d-min-scale 512"), 5);
    assert_said("D overflowed at its smallest loss scale, 512");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"skip\""), 2);
    assert_int_equal(count_in("a", "events.jsonl", "\"at_floor\":true"), 1);
}

/* ---- warning --------------------------------------------------------------------- */

static void test_a_storm_is_warned_of_once_and_the_next_one_again(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.4 --inject d:3-9:inf,d:14-22:inf --max-skips 4 "
                                "--on-overflow-storm warn"),
                     0);
    assert_int_equal(count_in("a", "events.jsonl", "\"action\":\"warn\""), 2);
    assert_int_equal(count_in("a", "log.txt", "training goes on (--on-overflow"), 2);
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"skip\""), 16);
}

static void test_a_scale_stays_one_that_can_be_divided_by(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(train("a", "--kimg 0.32 --d-init-scale 1e-37 --inject d:3-18:inf "
                                "--on-overflow-storm warn"),
                     0);
    assert_int_equal(count_in("a", "log.txt", "overflowed at its smallest loss scale"),
                     1);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_of("a")), 0);
    assert_non_null(strstr(text, "scale 2^-126"));
    // Both steps after the faults were taken: gradients that fade at such a scale are
    // finite.
    assert_non_null(strstr(text, "skipped 16 of 20"));
}

/* ---- going back ------------------------------------------------------------------ */

#define BACK \
    "--inject d:14:bad-weight --max-skips 6 --on-overflow-storm rollback --snap 0.16 "

static void test_a_rollback_takes_the_last_good_snapshot_and_half_the_scale(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(train("a", BACK "--kimg 0.48"), 0);
    assert_said("rollback 1 of 3 at step 19: D skipped 6 steps in a row");
    assert_said("back to step 10 (snapshot-000000.160.safetensors), D's scale 2^9");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"rollback\""), 1);
    assert_int_equal(count_in("a", "events.jsonl", "\"from_step\":19"), 1);
    // What was skipped before it is not part of the run any more.
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_of("a")), 0);
    assert_non_null(strstr(text, "skipped 0 of 30"));
    assert_non_null(strstr(text, "scale 2^9"));
}

static void test_a_run_that_went_back_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    char straight[32], resumed[32], plain[32], run[1024];
    assert_int_equal(train("a", BACK "--kimg 0.48"), 0);
    assert_int_equal(train("b", BACK "--kimg 0.32"), 0);
    snprintf(run, sizeof run, "%s", run_of("b"));
    twinscale_must("train --resume '%s' --kimg 0.48", run);
    digest_of(run_of("a"), straight);
    digest_of(run, resumed);
    assert_string_equal(straight, resumed);
    // Also from before the rollback, which then comes again.
    twinscale_must("train --resume '%s/snapshot-000000.160.safetensors' --kimg 0.48",
                   run);
    digest_of(run, resumed);
    assert_string_equal(straight, resumed);
    assert_int_equal(train("c", "--kimg 0.48"), 0);
    digest_of(run_of("c"), plain);
    assert_string_not_equal(straight, plain);
}

static void test_rollbacks_end_and_each_has_half_the_scale_of_the_last(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:14-:nan --max-skips 4 --snap 0.16 "
                                "--on-overflow-storm rollback --max-rollbacks 2"),
                     5);
    assert_said("rollback 1 of 2 at step 17");
    assert_said("D's scale 2^9");
    assert_said("rollback 2 of 2 at step 17");
    assert_said("D's scale 2^8");
    assert_said("given up after 2 rollbacks");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"rollback\""), 2);
    assert_exists("a", "post-mortem/reason.txt");
}

static void test_after_a_rollback_the_images_come_in_another_order(void **state)
{
    (void)state;
    char text[64], none[1024], one[1024];
#define STORM                                                                      \
    "--kimg 1.6 --inject d:14-:nan --max-skips 4 --snap 0.16 --on-overflow-storm " \
    "rollback "                                                                    \
    "--max-rollbacks "
    assert_int_equal(train("a", STORM "0"), 5);
    assert_int_equal(train("b", STORM "1"), 5);
    assert_int_equal(train("c", STORM "1"), 5);
    snprintf(none, sizeof none, "%s", run_of("a"));
    snprintf(one, sizeof one, "%s", run_of("b"));
    // All three ended in step 17.
    assert_int_equal(run_command(text, sizeof text,
                                 "cmp -s '%s/post-mortem/batch.png' "
                                 "'%s/post-mortem/batch.png'",
                                 none, one),
                     1);
    assert_int_equal(run_command(text, sizeof text,
                                 "cmp -s '%s/post-mortem/batch.png' "
                                 "'%s/post-mortem/batch.png'",
                                 run_of("c"), one),
                     0);
}

static void test_a_snapshot_from_within_a_storm_is_not_gone_back_to(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:9-:inf --max-skips 4 --snap 0.08 "
                                "--on-overflow-storm rollback --max-rollbacks 1"),
                     5);
    // Steps 9 to 12 are the storm; the snapshot of step 10 is whole, but lies within.
    assert_said("back to step 5 (snapshot-000000.080.safetensors)");
    assert_exists("a", "snapshot-000000.160.safetensors.bak");
}

static void test_every_topology_goes_back_and_goes_on(void **state)
{
    (void)state;
    static const char *const topologies[] = {"shared", "shared-per-step", "per-loss",
                                             "static:1024", "off"};
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, BACK "--kimg 0.4 --scaler %s",
                 topologies[i]);
        if (train(topologies[i], arguments) != 0)
            fail_msg("--scaler %s:\n%s", topologies[i], said);
        assert_said("rollback 1 of 3 at step 19");
    }
}

/* ---- f32 ------------------------------------------------------------------------- */

/* 60000 in G's image makes the gradient before its tanh overflow at any scale above 0.2:
 * two steps are a storm. */
#define HUGE_IMAGE "--inject g:5-:huge-activation --max-skips 2 "
#define MENDED HUGE_IMAGE "--on-overflow-storm fp32-layer --snap 0.064 "

static void test_what_overflows_is_moved_to_f32_and_the_run_goes_on(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(train("stop", HUGE_IMAGE "--kimg 0.16"), 5);
    assert_said(
        "keep what overflowed in f32 with --fp32-layers g.conv4,g.tanh,d.conv1, ");
    assert_int_equal(train("a", MENDED "--kimg 0.16"), 0);
    assert_said("step 6: G skipped 2 steps in a row; the last in g.conv4: activation "
                "gradient; in f32 from here on: g.conv4,g.tanh,d.conv1; G's scale begins "
                "again at 2^10");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"fp32_layer\""), 1);
    assert_int_equal(count_in("a", "events.jsonl", "\"action\":\"fp32-layer\""), 1);
    assert_int_equal(
        count_in("a", "events.jsonl", "\"scale_before\":256.0,\"scale_after\":1024.0"),
        1);
    assert_exists("a", "snapshot-000000.096.safetensors");
    // What is saved with the run: the types, the settings, the counters.
    assert_int_equal(twinscale(text, sizeof text, "info '%s' --precision", run_of("a")),
                     0);
    assert_non_null(strstr(text, "g.conv4"));
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_of("a")), 0);
    assert_non_null(strstr(text, "g.conv4,g.tanh,d.conv1"));
    assert_non_null(strstr(text, "skipped 3 of 10"));
    json_t *types = json_of("a", "precision.json");
    char *dump = json_dumps(types, JSON_COMPACT);
    assert_non_null(strstr(dump, "f32"));
    free(dump);
    json_decref(types);
}

static void test_a_run_with_moved_layers_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    char straight[32], resumed[32], run[1024];
    assert_int_equal(train("a", MENDED "--kimg 0.32"), 0);
    assert_int_equal(train("b", MENDED "--kimg 0.16"), 0);
    snprintf(run, sizeof run, "%s", run_of("b"));
    twinscale_must("train --resume '%s' --kimg 0.32", run);
    digest_of(run_of("a"), straight);
    digest_of(run, resumed);
    assert_string_equal(straight, resumed);
    // From the snapshot that the layers were moved with, and from before.
    static const char *const names[] = {"000000.096", "000000.064"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        twinscale_must("train --resume '%s/snapshot-%s.safetensors' --kimg 0.32", run,
                       names[i]);
        digest_of(run, resumed);
        assert_string_equal(straight, resumed);
    }
}

static void test_a_run_that_has_stopped_is_mended_by_a_resume(void **state)
{
    (void)state;
    assert_int_equal(train("a", HUGE_IMAGE "--kimg 0.16 --snap 0.064"), 5);
    twinscale_must("train --resume '%s' --on-overflow-storm fp32-layer", run_of("a"));
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"fp32_layer\""), 1);
}

// What is left in half below the moved layers overflows next, until there is none left.
static void test_layer_after_layer_is_moved_as_each_overflows(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 0.8 --inject g:5-:huge-activation "
                                "--g-min-scale 1024 --on-overflow-storm fp32-layer"),
                     0);
    int moves = count_in("a", "events.jsonl", "\"event\":\"fp32_layer\"");
    assert_true(moves > 1);
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"skip\""), moves);
    assert_int_equal(
        count_in("a", "log.txt", "in f32 from here on: g.conv4,g.tanh,d.conv1;"), 1);
}

static void test_what_f32_cannot_mend_stops_the_run(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:5-:inf --max-skips 4 "
                                "--on-overflow-storm fp32-layer"),
                     5);
    assert_said(
        "step 8: D skipped 4 steps in a row; the last in d.conv1: weight gradient; "
        "in f32 from here on: d.conv1;");
    assert_said("what overflowed in d.conv1 was not fp16, so f32 would not mend it");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"fp32_layer\""), 1);
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"skip\""), 8);
    assert_exists("a", "post-mortem/reason.txt");
    assert_int_equal(train("b", "--kimg 1.6 --inject d:5-:nan-forward --max-skips 4 "
                                "--on-overflow-storm fp32-layer"),
                     5);
    assert_said("NaN in d.conv4 with no inf before it, which f32 would not mend");
    assert_int_equal(count_in("b", "events.jsonl", "\"event\":\"fp32_layer\""), 0);
    assert_exists("b", "post-mortem/reason.txt");
    assert_int_equal(train("c", "--kimg 1.6 --inject d:5-:huge-activation,g:5-:inf "
                                "--max-skips 4 --precision bf16 --scaler per-network "
                                "--on-overflow-storm fp32-layer"),
                     5);
    assert_said("what overflowed in g.conv1 was not fp16");
}

static void test_a_bad_weight_is_not_moved_to_f32(void **state)
{
    (void)state;
    assert_int_equal(train("a", "--kimg 1.6 --inject d:5:bad-weight --max-skips 4 "
                                "--on-overflow-storm fp32-layer"),
                     5);
    assert_said(
        "d.conv1.weight[0] is inf, which no loss scale and no precision can mend; "
        "go on from an older snapshot with a lower --d-lr (--max-skips 4); no layer "
        "is moved to f32, which cannot hold it either");
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"fp32_layer\""), 0);
    json_t *options = json_of("a", "post-mortem/options.json");
    assert_string_equal(json_string_value(json_object_get(options, "fp32_layers")), "");
    json_decref(options);
}

static void test_every_topology_goes_on_in_f32(void **state)
{
    (void)state;
    static const char *const topologies[] = {"shared", "shared-per-step", "per-loss",
                                             "static:1024", "off"};
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, MENDED "--kimg 0.16 --scaler %s",
                 topologies[i]);
        // Without a scale that gradient just fits, now and then.
        if (train(topologies[i], arguments) != 0)
            fail_msg("--scaler %s:\n%s", topologies[i], said);
        if (strcmp(topologies[i], "off") != 0)
            assert_int_equal(
                count_in(topologies[i], "events.jsonl", "\"event\":\"fp32_layer\"") > 0,
                1);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_nan_in_ds_forward_pass_makes_both_skip_and_is_named),
        TEST(test_a_nan_in_gs_forward_pass_is_seen_by_d_and_named_as_gs),
        TEST(test_a_huge_activation_of_g_overflows_on_the_way_back),
        TEST(test_a_huge_logit_of_d_shows_in_the_loss_and_skips_nothing),
        TEST(test_a_bad_weight_is_never_saved_and_ends_the_run),
        TEST(test_a_run_that_ends_with_a_bad_weight_has_diverged),
        TEST(test_faults_of_several_kinds_come_in_one_run),
        TEST(test_a_planned_fault_changes_nothing_until_its_step),
        TEST(test_a_run_that_is_given_up_leaves_a_post_mortem),
        TEST(test_an_earlier_post_mortem_is_kept),
        TEST(test_a_post_mortem_that_cannot_be_written_keeps_the_exit_code),
        TEST(test_an_overflow_at_the_smallest_scale_is_a_storm_at_once),
        TEST(test_a_storm_is_warned_of_once_and_the_next_one_again),
        TEST(test_a_scale_stays_one_that_can_be_divided_by),
        TEST(test_a_rollback_takes_the_last_good_snapshot_and_half_the_scale),
        TEST(test_a_run_that_went_back_resumes_to_the_same_bytes),
        TEST(test_rollbacks_end_and_each_has_half_the_scale_of_the_last),
        TEST(test_after_a_rollback_the_images_come_in_another_order),
        TEST(test_a_snapshot_from_within_a_storm_is_not_gone_back_to),
        TEST(test_every_topology_goes_back_and_goes_on),
        TEST(test_what_overflows_is_moved_to_f32_and_the_run_goes_on),
        TEST(test_a_run_with_moved_layers_resumes_to_the_same_bytes),
        TEST(test_a_run_that_has_stopped_is_mended_by_a_resume),
        TEST(test_layer_after_layer_is_moved_as_each_overflows),
        TEST(test_what_f32_cannot_mend_stops_the_run),
        TEST(test_a_bad_weight_is_not_moved_to_f32),
        TEST(test_every_topology_goes_on_in_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
