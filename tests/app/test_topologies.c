/* test_topologies.c - runs of the program with one, two and three loss scales, with steps
 * that are held back, clipped, and made of several batches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("topologies"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* Lines of a file of the only run that match a basic regular expression. */
static int count(const char *file, const char *pattern)
{
    char text[64];
    (void)run_command(text, sizeof text, "grep -c '%s' '%s/%s'", pattern, run_in(out),
                      file);
    return atoi(text);
}

/* ---- what a run tells ------------------------------------------------------------ */

static void test_an_overflow_of_d_lowers_the_scale_that_both_share(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN
                   " --out '%s' --kimg 0.096 --scaler shared --inject d:3-4:inf",
                   out);
    assert_int_equal(count("log.txt", "D skipped.*scale 2^10 -> 2^9"), 1);
    assert_int_equal(count("log.txt", "G.s scale went down with the other.s to 2^8$"), 1);
    assert_int_equal(count("events.jsonl", "\"backoff\",\"net\":\"G\""), 2);
    assert_int_equal(count("log.txt", "G skipped"), 0);
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "skipped 0 of 6"));
    assert_non_null(strstr(text, "skipped 2 of 6"));
    assert_null(strstr(text, "scale 2^10"));
}

static void test_a_scale_that_moves_after_each_step_moves_for_both(void **state)
{
    (void)state;
    // Both count for its growth: two good steps an iteration.
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.096 --scaler shared-per-step "
                   "--n-dis 1 --g-growth-interval 6 --d-growth-interval 6",
                   out);
    assert_int_equal(count("log.txt", "step 3: D.s scale grew to 2^11"), 1);
    assert_int_equal(count("log.txt", "step 3: G.s scale grew to 2^11"), 1);
    assert_int_equal(count("log.txt", "step 6: G.s scale grew to 2^12"), 1);
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    const char *first = strstr(text, "scale 2^12");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "scale 2^12"));
}

static void test_a_scale_per_loss_tells_which_loss_overflowed(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.128 --scaler per-loss "
                   "--d-growth-interval 4 --inject d:3:inf",
                   out);
    assert_int_equal(count("log.txt", "step 3: D skipped, inf or NaN.*scale 2^10 -> 2^9, "
                                      "on fakes 2^10 -> 2^10; overflow: real"),
                     1);
    assert_int_equal(count("log.txt", "step 4: D.s scale on fakes grew to 2^11"), 1);
    assert_int_equal(count("log.txt", "step 7: D.s scale grew to 2^10"), 1);
    assert_int_equal(count("events.jsonl", "\"skip\".*\"loss\":\"real\""), 1);
    assert_true(count("stats.jsonl", "\"Scale/D_fake\"") > 0);
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "\n  G       scale 2^10 "));
    assert_non_null(strstr(text, "\n  D real  scale 2^10 "));
    assert_non_null(strstr(text, "\n  D fake  scale 2^12 "));
    assert_non_null(strstr(text, "growth tracker 0 of 4  skipped 1 of 8"));
}

static void test_steps_that_are_held_back_are_told_and_counted(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN
                   " --out '%s' --kimg 0.096 --tick 0.096 --skip both --inject d:3-4:inf",
                   out);
    assert_int_equal(count("log.txt", "G held back, because D overflowed"), 2);
    assert_int_equal(count("events.jsonl", "\"held\",\"net\":\"G\""), 2);
    assert_int_equal(count("events.jsonl", "\"skip\",\"net\":\"G\""), 0);
    assert_int_equal(count("stats.jsonl", "\"Scale/G_held\":{\"num\":1,\"mean\":2.0"), 1);
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "skipped 0 of 6  held back 2"));
    assert_null(strstr(text, "skipped 2 of 6  held back"));
}

static void test_norms_are_told_where_gradients_are_clipped(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.096 --g-clip-norm 1", out);
    // A norm of the unscaled gradients: at a scale of 1024 the scaled would be hundreds.
    double norm = mean_of(run_in(out), "Grad/G_norm", 0);
    assert_true(norm > 0.1 && norm < 50.0);
    double clipped = mean_of(run_in(out), "Grad/G_clipped", 0);
    assert_true(norm > 1.0 ? clipped > 0.0 : clipped < 1.0);
    assert_int_equal(count("stats.jsonl", "Grad/D_norm"), 0);
}

/* ---- the same bytes -------------------------------------------------------------- */

static void digest_in(const char *folder, char digest[32])
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", out, folder);
    digest_of(run_in(path), digest);
}

static void resume_to_the_same_bytes(const char *name, const char *flags)
{
    char whole[32], resumed[32], folder[64], path[700];
    twinscale_must("train " SMALL_RUN " --out '%s/%s-whole' --kimg 0.32 %s", out, name,
                   flags);
    twinscale_must("train " SMALL_RUN " --out '%s/%s-parts' --kimg 0.16 %s", out, name,
                   flags);
    snprintf(path, sizeof path, "%s/%s-parts", out, name);
    twinscale_must("train --resume '%s' --kimg 0.32", run_in(path));
    snprintf(folder, sizeof folder, "%s-whole", name);
    digest_in(folder, whole);
    snprintf(folder, sizeof folder, "%s-parts", name);
    digest_in(folder, resumed);
    if (strcmp(whole, resumed) != 0)
        fail_msg("%s: %s after a resume, %s without", name, resumed, whole);
}

static void test_every_topology_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    // G overflows in the last step before the resume: D's first one after it is held.
    resume_to_the_same_bytes("held", "--skip both --inject g:10:inf");
    resume_to_the_same_bytes("shared", "--scaler shared --inject g:10:inf");
    resume_to_the_same_bytes("each", "--scaler shared-per-step --g-growth-interval 3 "
                                     "--d-growth-interval 3");
    resume_to_the_same_bytes("losses", "--scaler per-loss --d-growth-interval 4 --skip "
                                       "both --inject d:9:inf --d-clip-norm 2");
    resume_to_the_same_bytes("batches", "--d-accum 2 --g-accum 3 --mirror");
}

static void test_steps_of_several_batches_count_their_images(void **state)
{
    (void)state;
    char text[16384];
    twinscale_must("train " SMALL_RUN
                   " --out '%s' --kimg 0.384 --n-dis 2 --d-accum 3 --g-accum 2",
                   out);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    // 96 images a step: four steps of G, eight of D.
    assert_non_null(strstr(text, "skipped 0 of 4"));
    assert_non_null(strstr(text, "skipped 0 of 8"));
}

// The first of `flags` and the others make the same state.
static void assert_same_runs(const char *const *flags, size_t many)
{
    char first[32], digest[32], path[600];
    for (size_t i = 0; i < many; i++) {
        snprintf(path, sizeof path, "%s/%s%zu", out, flags[0][0] ? "static" : "", i);
        twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.08 %s", path, flags[i]);
        digest_of(run_in(path), digest);
        if (i == 0)
            memcpy(first, digest, sizeof first);
        if (strcmp(first, digest) != 0)
            fail_msg("%s: %s, not %s", flags[i], digest, first);
    }
}

static void test_where_nothing_overflows_flags_for_overflows_change_no_byte(void **state)
{
    (void)state;
    static const char *const flags[] = {"", "--scaler shared", "--skip both",
                                        "--g-clip-norm 1e30 --d-clip-norm 1e30",
                                        "--scaler shared --skip both --d-clip-norm 1e30"};
    assert_same_runs(flags, sizeof flags / sizeof *flags);
    static const char *const statics[] = {"--scaler static", "--scaler static:1024"};
    assert_same_runs(statics, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_an_overflow_of_d_lowers_the_scale_that_both_share),
        TEST(test_a_scale_that_moves_after_each_step_moves_for_both),
        TEST(test_a_scale_per_loss_tells_which_loss_overflowed),
        TEST(test_steps_that_are_held_back_are_told_and_counted),
        TEST(test_norms_are_told_where_gradients_are_clipped),
        TEST(test_every_topology_resumes_to_the_same_bytes),
        TEST(test_steps_of_several_batches_count_their_images),
        TEST(test_where_nothing_overflows_flags_for_overflows_change_no_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
