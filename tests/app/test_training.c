/* test_training.c - the program trains, survives a kill, and keeps its networks apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("training"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static void test_d_beats_chance_and_g_answers(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 4.8 --tick 0.8", out);
    const char *run = run_in(out);
    // A sign is +1 for a logit > 0: chance is 0 for both.
    assert_true(mean_of(run, "Loss/signs/real", 1) > 0.2);
    assert_true(mean_of(run, "Loss/signs/fake", 1) < -0.2);
    // With D guessing, G's loss would stay at log 2; it must leave it.
    assert_true(mean_of(run, "Loss/G/loss", 1) > 1.0);
    assert_true(mean_of(run, "Loss/D/loss", 1) < 1.3);
}

// Of logits with this mean: the least that their mean loss can be, by Jensen's
// inequality.
static double least_loss(double score, double target)
{
    return fmax(score, 0.0) - score * target + log1p(exp(-fabs(score)));
}

static void test_ds_loss_is_that_on_real_images_and_that_on_fakes(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.016 --tick 0.016", out);
    const char *run = run_in(out);
    double real = least_loss(mean_of(run, "Loss/scores/real", 0), 1.0);
    double fake = least_loss(mean_of(run, "Loss/scores/fake", 0), 0.0);
    double loss = mean_of(run, "Loss/D/loss", 0);
    assert_true(real > 0.1 && fake > 0.1);
    assert_true(loss >= real + fake - 1e-6 && loss < 2.0 * (real + fake));
    assert_true(mean_of(run, "Loss/G/loss", 0) > 0.1);
}

// 0.3 / 0.1 is a little below 3 in binary: the mark of 0.3 kimg must not be missed there,
// nor come again a step later.
static void test_every_mark_of_kimg_comes_once(void **state)
{
    (void)state;
    char text[4096];
    twinscale_must("train " SMALL_RUN " --out '%s' --batch 20 --kimg 0.6 --tick 0.1 "
                   "--snap 0.1 --img-snap 0.2",
                   out);
    assert_int_equal(
        run_command(
            text, sizeof text,
            "cd '%s' && kimg=$(grep -o '\"Progress.kimg\":{[^}]*}' stats.jsonl | "
            "sed -E 's/.*\"mean\":([0-9.]+).*/\\1/'); "
            "export LC_ALL=C; fakes=$(ls | sed -n 's/^fakes\\(0.*\\).png/\\1/p'); "
            "snaps=$(ls | sed -n 's/^snapshot-\\(.*\\).safetensors$/\\1/p'); "
            "echo $kimg, $fakes, $snaps",
            run_in(out)),
        0);
#define MARKS "000000.100 000000.200 000000.300 000000.400 000000.500 000000.600"
    assert_string_equal(text, "0.02 0.1 0.2 0.3 0.4 0.5 0.6, 000000.200 000000.400 "
                              "000000.600, " MARKS " 000000\n");
}

static void test_a_run_keeps_as_many_snapshots_as_it_is_given(void **state)
{
    (void)state;
    char text[4096];
    twinscale_must("train " SMALL_RUN " --keep 2 --out '%s' --kimg 0.128 --snap 0.032",
                   out);
    assert_int_equal(
        run_command(text, sizeof text, "cd '%s' && echo snapshot-*", run_in(out)), 0);
    assert_string_equal(
        text, "snapshot-000000.096.safetensors snapshot-000000.128.safetensors\n");
}

static void test_a_killed_run_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    char straight[600], broken[600], whole[32], resumed[32], text[4096];
    snprintf(straight, sizeof straight, "%s/straight", out);
    snprintf(broken, sizeof broken, "%s/broken", out);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.64 --snap 0.32", straight);
    // The other run would go on for long; it is killed once its step 20 is on disk.
    int code = run_command(
        text, sizeof text,
        "'%s' train " SMALL_RUN " --out '%s' --kimg 640 --snap 0.32 >/dev/null 2>&1 & "
        "pid=$!; n=0; while [ ! -e '%s'/*/snapshot-000000.320.safetensors ] && "
        "[ $n -lt 12000 ]; do sleep 0.05; n=$((n+1)); done; kill -9 $pid; wait $pid; "
        "test -e '%s'/*/snapshot-000000.320.safetensors",
        TWINSCALE_PROGRAM, broken, broken, broken);
    assert_int_equal(code, 0);
    char run[1024];
    snprintf(run, sizeof run, "%s", run_in(broken));
    twinscale_must("train --resume '%s/snapshot-000000.320.safetensors' --kimg 0.64",
                   run);
    digest_of(run_in(straight), whole);
    digest_of(run, resumed);
    assert_string_equal(whole, resumed);
    // A digest that could not tell two states apart would prove nothing.
    char halfway[1100], before[32];
    snprintf(halfway, sizeof halfway, "%s/snapshot-000000.320.safetensors", run);
    digest_of(halfway, before);
    assert_string_not_equal(whole, before);
}

static void test_the_number_of_threads_changes_no_byte(void **state)
{
    (void)state;
    char one[600], two[600], digest_one[32], digest_two[32];
    snprintf(one, sizeof one, "%s/one", out);
    snprintf(two, sizeof two, "%s/two", out);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.16 --threads 1", one);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.16 --threads 2", two);
    digest_of(run_in(one), digest_one);
    digest_of(run_in(two), digest_two);
    assert_string_equal(digest_one, digest_two);
}

static void test_an_overflow_in_d_leaves_g_stepping(void **state)
{
    (void)state;
    char text[16384], path[1100];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.192 --inject d:5-9:inf", out);
    const char *run = run_in(out);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run), 0);
    assert_non_null(strstr(text, "skipped 0 of 12"));
    assert_non_null(strstr(text, "skipped 5 of 12"));
    assert_non_null(strstr(text, "scale 2^10"));
    assert_non_null(strstr(text, "scale 2^5"));
    snprintf(path, sizeof path, "%s/events.jsonl", run);
    assert_int_equal(run_command(text, sizeof text,
                                 "test $(grep -c '\"net\":\"D\"' '%s') -eq 5 && "
                                 "! grep '\"net\":\"G\"' '%s'",
                                 path, path),
                     0);
    assert_int_equal(
        run_command(text, sizeof text,
                    "grep -c 'D skipped, inf or NaN in its gradients (first in "
                    "d.conv1: weight gradient)' '%s/log.txt'",
                    run),
        0);
    assert_int_equal(atoi(text), 5);
}

static void test_endless_overflows_end_the_run_with_its_own_code(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(twinscale(text, sizeof text,
                               "train " SMALL_RUN
                               " --out '%s' --kimg 1.6 --inject g:3-:nan "
                               "--max-skips 10",
                               out),
                     5);
    assert_non_null(strstr(text, "G skipped 10 steps in a row"));
    // The checkpoint from before is whole, and nothing in it is NaN.
    assert_int_equal(twinscale(text, sizeof text, "sample '%s' --seeds 0-3 -o '%s/g.png'",
                               run_in(out), out),
                     0);
}

static void test_half_and_single_precision_stay_together(void **state)
{
    (void)state;
    char half[600], single[600];
    snprintf(half, sizeof half, "%s/half", out);
    snprintf(single, sizeof single, "%s/single", out);
    const char *arguments = "--kimg 3.2 --tick 0.32"; // 200 steps, a tick every 20
    twinscale_must("train " SMALL_RUN " --out '%s' %s --precision fp16", half, arguments);
    twinscale_must("train " SMALL_RUN " --out '%s' %s --precision fp32", single,
                   arguments);
    const char *keys[] = {"Loss/G/loss", "Loss/D/loss"};
    for (int i = 0; i < 2; i++) {
        char run[1024];
        snprintf(run, sizeof run, "%s", run_in(half));
        double h = mean_of(run, keys[i], 1), s = mean_of(run_in(single), keys[i], 1);
        print_message("%s over 200 steps: fp16 %.4f, fp32 %.4f\n", keys[i], h, s);
        assert_true(fabs(h - s) < 0.1 * s);
    }
}

static void test_every_skip_among_several_d_steps_is_told(void **state)
{
    (void)state;
    char text[1024];
    // The fault spoils all three D steps of steps 2 and 3.
    twinscale_must(
        "train " SMALL_RUN " --out '%s' --kimg 0.24 --n-dis 3 --inject d:2-3:inf", out);
    assert_int_equal(run_command(text, sizeof text,
                                 "sed -n 's/.*\"scale_after\":\\([0-9.]*\\).*/\\1/p' "
                                 "'%s/events.jsonl' | tr '\\n' ' '",
                                 run_in(out)),
                     0);
    // From 1024, halved once for each: none is lost, none is told twice.
    assert_string_equal(text, "512.0 256.0 128.0 64.0 32.0 16.0 ");
}

static void test_more_d_steps_per_g_step_count_their_own_updates(void **state)
{
    (void)state;
    char text[16384];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.48 --n-dis 3", out);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "skipped 0 of 10"));
    assert_non_null(strstr(text, "skipped 0 of 30"));
}

// As ctl has it: init-scale has done its work, and what it was is no reason to refuse a
// limit.
static void test_a_resume_takes_limits_on_the_other_side_of_init_scale(void **state)
{
    (void)state;
    char text[16384], run[1024];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.064", out);
    snprintf(run, sizeof run, "%s", run_in(out));
    twinscale_must("train --resume '%s' --kimg 0.128 --g-max-scale 256 "
                   "--d-min-scale 4096",
                   run);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run), 0);
    assert_non_null(strstr(text, "G  scale 2^8"));
    assert_non_null(strstr(text, "D  scale 2^12"));
    assert_int_equal(
        run_command(text, sizeof text,
                    "grep -c 'network g: the loss scale 1024 is above its maximum and "
                    "becomes 256' '%s/log.txt'",
                    run),
        0);
    twinscale_must("train --resume '%s' --kimg 0.192", run);
    // In a new run it is a contradiction, and so is one limit beyond the other.
    assert_int_equal(twinscale(text, sizeof text,
                               "train " SMALL_RUN " --out '%s' --kimg 0.064 "
                               "--g-max-scale 256",
                               out),
                     2);
    assert_non_null(strstr(text, "--g-init-scale: 1024 is above --g-max-scale 256"));
    assert_int_equal(twinscale(text, sizeof text,
                               "train --resume '%s' --kimg 0.256 --g-min-scale 512", run),
                     2);
    assert_non_null(strstr(text, "--g-min-scale: 512 is above --g-max-scale 256"));
    assert_int_equal(twinscale(text, sizeof text,
                               "train --resume '%s' --kimg 0.256 --d-init-scale 1", run),
                     2);
    assert_non_null(strstr(text, "--resume cannot change it"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_d_beats_chance_and_g_answers),
        TEST(test_ds_loss_is_that_on_real_images_and_that_on_fakes),
        TEST(test_every_mark_of_kimg_comes_once),
        TEST(test_a_run_keeps_as_many_snapshots_as_it_is_given),
        TEST(test_a_killed_run_resumes_to_the_same_bytes),
        TEST(test_the_number_of_threads_changes_no_byte),
        TEST(test_an_overflow_in_d_leaves_g_stepping),
        TEST(test_endless_overflows_end_the_run_with_its_own_code),
        TEST(test_half_and_single_precision_stay_together),
        TEST(test_every_skip_among_several_d_steps_is_told),
        TEST(test_more_d_steps_per_g_step_count_their_own_updates),
        TEST(test_a_resume_takes_limits_on_the_other_side_of_init_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
