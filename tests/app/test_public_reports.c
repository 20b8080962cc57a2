/* test_public_reports.c - what users of other trainers have reported of loss scaling, as
 * runs of this one. Each test begins with the report, its symptom, and what happens here;
 * what a scaler alone can show is in tests/scaler/test_public_reports.c. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/safetensors.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];
static char said[32768]; // what the last run printed

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("public_reports"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static const char *run_of(const char *name)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", out, name);
    return run_in(folder);
}

// Trains in the folder `name` of `out`, which must end with `code`; the run folder.
static const char *train(const char *name, int code, const char *arguments)
{
    int got = twinscale(said, sizeof said, "train " SMALL_RUN " --out '%s/%s' %s", out,
                        name, arguments);
    if (got != code)
        fail_msg("exit %d, %d expected: %s", got, code, said);
    return run_of(name);
}

static void assert_said(const char *words)
{
    if (!strstr(said, words))
        fail_msg("\"%s\" is not in:\n%s", words, said);
}

static struct safetensors_file *snapshot(const char *run, const char *kimg)
{
    char path[1200];
    struct safetensors_file *file;
    snprintf(path, sizeof path, "%s/snapshot-%s.safetensors", run, kimg);
    if (safetensors_open(path, &file) != STATUS_OK)
        fail_msg("%s", status_message());
    return file;
}

/* True when all weights and moments of a network ("g.", "d.") are the same bits in two
 * snapshots of a run. What batch norm has seen moves in a skipped step too. */
static int same_weights(const char *run, const char *kimg, const char *later,
                        const char *network)
{
    struct safetensors_file *one = snapshot(run, kimg), *other = snapshot(run, later);
    int compared = 0, is_same = 1;
    for (size_t i = 0; i < safetensors_count(one); i++) {
        const struct safetensor *tensor = safetensors_at(one, i);
        if (strncmp(tensor->name, network, 2) != 0 || strstr(tensor->name, "running_") ||
            strstr(tensor->name, "ema"))
            continue;
        const struct safetensor *same = safetensors_find(other, tensor->name);
        assert_non_null(same);
        is_same &= memcmp(tensor->data, same->data, tensor->bytes) == 0;
        compared++;
    }
    safetensors_close(one);
    safetensors_close(other);
    assert_true(compared > 10);
    return is_same;
}

// A snapshot with a weight that is inf or NaN is never written.
static void assert_saved_at(const char *run, int64_t step)
{
    assert_int_equal(facts_of(run).step, step);
}

/* apex#114: one network overflows for many steps, the other trains on and gains an
 * "insurmountable advantage". Here it is counted, told, and --skip both prevents it. */
static void test_a_network_that_overflows_alone_is_counted_and_told(void **state)
{
    (void)state;
    const char *storm = "--kimg 0.8 --inject d:10-40:inf --max-skips 50 --snap 0.016";
    char both[160], text[16384];
    const char *run = train("own", 0, storm);
    assert_true(same_weights(run, "000000.144", "000000.640", "d.")); // steps 10 to 40
    assert_false(same_weights(run, "000000.144", "000000.640", "g."));
    assert_false(same_weights(run, "000000.640", "000000.656", "d."));
    assert_int_equal(facts_of(run).scaler[ROLE_D].skipped, 31);
    assert_int_equal(facts_of(run).scaler[ROLE_G].skipped, 0);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run), 0);
    assert_non_null(strstr(text, "skipped 31 of 50"));
    assert_int_equal(lines_with(run, "log.txt", "steps while G took all of its own"), 1);

    snprintf(both, sizeof both, "%s --skip both", storm);
    run = train("both", 0, both);
    assert_true(same_weights(run, "000000.144", "000000.640", "d."));
    assert_true(same_weights(run, "000000.144", "000000.640", "g."));
    assert_false(same_weights(run, "000000.640", "000000.656", "g."));
    assert_int_equal(facts_of(run).scaler[ROLE_G].held, 31);
    assert_int_equal(lines_with(run, "log.txt", "steps while G took all of its own"), 0);
}

/* apex#179: every iteration "attempted loss scale 1", later 0, and a ZeroDivisionError.
 * Here the run is given up with a reason after K skips; told to go on all the same, it
 * keeps a scale that has an inverse. */
static void test_an_overflow_in_every_step_ends_the_run_with_its_reason(void **state)
{
    (void)state;
    const char *run = train("stop", 5, "--kimg 8 --inject d:1-:inf --snap 0.016");
    assert_said("D skipped 25 steps in a row, the last in d.conv1 (weight gradient): its "
                "gradients stay inf or NaN down to a loss scale of");
    assert_true(same_weights(run, "000000", "000000.384", "d."));
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"skip\""), 25);

    run = train("warn", 0,
                "--kimg 3.2 --inject d:1-:inf --snap 1.6 --d-init-scale 65536 "
                "--on-overflow-storm warn");
    struct grad_scaler_saved d = facts_of(run).scaler[ROLE_D];
    assert_int_equal(d.skipped, 200);
    assert_true(d.scale == (double)FLT_MIN);
    assert_true(same_weights(run, "000000", "000003.200", "d."));
    assert_saved_at(run, 200);
}

/* stylegan2-pytorch#100: a NaN that is there whatever the scale halves it from 65536 to 2
 * and below 1 "forever". Here the run ends after K skips, and says what no scale can
 * mend: NaN in the gradients alone, or in the forward pass already. */
static void test_a_nan_at_every_scale_is_told_from_an_overflow(void **state)
{
    (void)state;
    const char *run = train("backward", 5, "--kimg 8 --inject d:1-:nan");
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"skip\""), 25);
    assert_int_equal(lines_with(run, "log.txt", "0 inf, 1 NaN"), 25);
    assert_int_equal(lines_with(run, "events.jsonl", "\"forward_finite\":true"), 25);

    run = train("forward", 5, "--kimg 8 --inject d:1-:nan-forward");
    assert_said(
        "D skipped 25 steps in a row, the last in d.conv4 (activation): NaN with no "
        "inf before it");
    assert_true(lines_with(run, "events.jsonl", "\"forward_finite\":false") >= 25);
    assert_int_equal(lines_with(run, "events.jsonl", "\"forward_finite\":true"), 0);
}

/* apex#318, #834, #715: the scale falls to 1e-294, to 0, or differs between ranks. Here
 * the ranks share what each has found, so their scales stay the same, and none below
 * 2^-126. */
static void test_ranks_keep_one_scale_that_has_an_inverse(void **state)
{
    (void)state;
    // Planted on the last rank alone; every checkpoint compares the scalers of all ranks.
    int code =
        run_command(said, sizeof said,
                    "timeout 1800 '%s' train " SMALL_RUN
                    " --threads 1 --gpus 2 --out '%s/ranks' --kimg 0.4 --snap 0.08 "
                    "--d-init-scale 1e-36 --inject d:3-22:inf "
                    "--on-overflow-storm warn",
                    CPU_RANKS, out);
    if (code != 0)
        fail_msg("exit %d: %s", code, said);
    struct grad_scaler_saved d = facts_of(run_of("ranks")).scaler[ROLE_D];
    assert_int_equal(d.skipped, 20);
    assert_int_equal(d.updates, 25);
    assert_true(d.scale == (double)FLT_MIN);
    assert_int_equal(facts_of(run_of("ranks")).scaler[ROLE_G].skipped, 0);
}

/* apex#864: "gradient overflow, reducing to 262144" every 2000 steps is taken for a
 * fault. It is how a scale finds its place: here it is told as a skip, never as a
 * warning. */
static void test_the_saw_tooth_beyond_the_plateau_is_no_warning(void **state)
{
    (void)state;
    const char *run = train("saw", 0,
                            "--kimg 6.4 --g-init-scale 65536 --d-init-scale 65536 "
                            "--g-growth-interval 50 --d-growth-interval 50");
    struct checkpoint_facts facts = facts_of(run);
    for (int i = 0; i < ROLES; i++) { // up and down again, each of them
        print_message("%c: grown %lld, backed off %lld\n", "GD"[i],
                      (long long)facts.scaler[i].growths,
                      (long long)facts.scaler[i].backoffs);
        assert_true(facts.scaler[i].growths >= 2 && facts.scaler[i].backoffs >= 1);
    }
    assert_true(lines_with(run, "log.txt", "nothing needs to be done") >= 2);
    assert_int_equal(lines_with(run, "log.txt", "arning"), 0);
    assert_null(strstr(said, "arning"));
}

/* tensorflow#38357: a scale that may not fall below 1 makes it impossible to train what
 * needs less. Here there is no floor unless one is asked for. */
static void test_a_scale_of_a_quarter_is_reached_and_trained_at(void **state)
{
    (void)state;
    // What overflows at every scale above 1/4: from 1024, twelve halvings.
    const char *quarter = "--kimg 0.32 --inject d:1-12:inf --snap 0.016";
    char floored[160];
    const char *run = train("free", 0, quarter);
    assert_true(facts_of(run).scaler[ROLE_D].scale == 0.25);
    assert_int_equal(facts_of(run).scaler[ROLE_D].skipped, 12);
    assert_false(same_weights(run, "000000.192", "000000.320", "d."));

    snprintf(floored, sizeof floored, "%s --d-min-scale 1", quarter);
    run = train("floor", 5, floored);
    assert_said("D overflowed at its smallest loss scale, 1, the last in d.conv1 (weight "
                "gradient): lower --d-lr or --d-min-scale");
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"skip\""), 11);
}

/* Paddle#67895: gradients that are not cleared after a skip keep their inf, and the scale
 * shrinks to 0. Here every step's gradients begin anew. */
static void test_one_overflow_is_one_skip(void **state)
{
    (void)state;
    char text[512];
    static const char *const ways[] = {"", "--n-dis 1 --d-accum 2 --g-accum 2",
                                       "--scaler per-loss"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char name[16], arguments[160];
        snprintf(name, sizeof name, "%zu", i);
        snprintf(arguments, sizeof arguments, "--kimg 0.32 --inject d:5:inf,g:5:inf %s",
                 ways[i]);
        const char *run = train(name, 0, arguments);
        assert_string_equal(scale_events(run, text, sizeof text),
                            "skip D 5 1024 512\nskip G 5 1024 512\n");
    }
}

/* lightweight-gan#92, gigagan#40, #60: "NaN detected, loading from checkpoint" without
 * end, for what is loaded meets the same NaN again. Here each return has half the scale
 * and other data, and after N of them the run is given up; what passes by, it leaves
 * behind. */
static void test_going_back_ends_after_n_times_or_in_a_finished_run(void **state)
{
    (void)state;
    const char *run = train("endless", 5,
                            "--kimg 8 --inject d:14-:nan --max-skips 4 --snap 0.16 "
                            "--on-overflow-storm rollback --max-rollbacks 3");
    assert_said("D's scale 2^9");
    assert_said("D's scale 2^8");
    assert_said("D's scale 2^7");
    assert_said("given up after 3 rollbacks");
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"rollback\""), 3);

    run = train("once", 0,
                "--kimg 0.48 --inject d:14:bad-weight --max-skips 4 --snap 0.16 "
                "--on-overflow-storm rollback --max-rollbacks 3");
    struct checkpoint_facts facts = facts_of(run);
    assert_int_equal(facts.rollbacks, 1);
    assert_int_equal(facts.scaler[ROLE_D].adam_t, 30);
    assert_saved_at(run, 30);
}

/* tensorflow#48662: a gradient penalty of D in mixed precision makes the one, global
 * scale fall to 1. There is no penalty here; what it did - D alone overflows, again and
 * again - is planted. D's own scale falls; G's stays where it was, as it does not with
 * one scale for both. */
static void test_overflows_of_d_alone_do_not_lower_gs_scale(void **state)
{
    (void)state;
    const char *penalty = "--kimg 0.8 --inject d:5-14:inf,d:16-25:inf --max-skips 15";
    char shared[160];
    struct checkpoint_facts facts = facts_of(train("own", 0, penalty));
    assert_true(facts.scaler[ROLE_D].scale == ldexp(1.0, -10));
    assert_true(facts.scaler[ROLE_G].scale >= ldexp(1.0, 10));
    assert_int_equal(facts.scaler[ROLE_G].adam_t, 50);

    snprintf(shared, sizeof shared, "%s --scaler shared", penalty);
    facts = facts_of(train("shared", 0, shared));
    assert_true(facts.scaler[ROLE_G].scale == ldexp(1.0, -10));
}

/* pytorch#40497: NaN after epochs of training although a scaler was used, and no word of
 * where. Here the first tensor that was not finite is named, and the weights are
 * whole. */
static void test_a_nan_after_epochs_is_traced_to_its_tensor(void **state)
{
    (void)state;
    const char *run = train("late", 0, "--kimg 1.6 --inject g:90:huge-activation");
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"skip\""), 1);
    assert_int_equal(lines_with(run, "log.txt",
                                "step 90: G skipped, inf or NaN in its gradients (first "
                                "in g.conv4: activation gradient)"),
                     1);
    assert_int_equal(facts_of(run).scaler[ROLE_G].adam_t, 99);
    assert_saved_at(run, 100);
}

/* Megatron-LM#602, composer#3226: every step so far was skipped, so the optimizer has no
 * state, and the checkpoint fails or is empty. Here moments exist from the start. */
static void test_a_run_of_nothing_but_skips_is_saved_and_resumed(void **state)
{
    (void)state;
    char whole[32], resumed[32], run[1024];
    const char *fault = "--inject d:1:inf,g:1:inf";
    char arguments[96];
    snprintf(arguments, sizeof arguments, "--kimg 0.064 %s", fault);
    digest_of(train("whole", 0, arguments), whole);
    snprintf(arguments, sizeof arguments, "--kimg 0.016 %s", fault);
    snprintf(run, sizeof run, "%s", train("parts", 0, arguments));
    struct checkpoint_facts facts = facts_of(run);
    assert_int_equal(facts.step, 1);
    for (int i = 0; i < ROLES; i++) {
        assert_int_equal(facts.scaler[i].adam_t, 0);
        assert_int_equal(facts.scaler[i].skipped, 1);
        assert_true(facts.scaler[i].scale == 512.0);
    }
    twinscale_must("train --resume '%s' --kimg 0.064", run);
    digest_of(run, resumed);
    assert_string_equal(resumed, whole);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_network_that_overflows_alone_is_counted_and_told),
        TEST(test_an_overflow_in_every_step_ends_the_run_with_its_reason),
        TEST(test_a_nan_at_every_scale_is_told_from_an_overflow),
        TEST(test_ranks_keep_one_scale_that_has_an_inverse),
        TEST(test_the_saw_tooth_beyond_the_plateau_is_no_warning),
        TEST(test_a_scale_of_a_quarter_is_reached_and_trained_at),
        TEST(test_one_overflow_is_one_skip),
        TEST(test_going_back_ends_after_n_times_or_in_a_finished_run),
        TEST(test_overflows_of_d_alone_do_not_lower_gs_scale),
        TEST(test_a_nan_after_epochs_is_traced_to_its_tensor),
        TEST(test_a_run_of_nothing_but_skips_is_saved_and_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
