/* Whole runs on several ranks, with CPUs in the place of GPUs (cpu_ranks.c). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/app/data_folder.h"
#include "tests/app/make_png.h"
#include "tests/app/runs.h"

#define RUN SMALL_RUN " --threads 1 "

/* Runs the program; `before` is put before its name. Everything that it printed into
 * `text`, which ends when the last process has ended. */
static int ranks(char *text, size_t bytes, const char *before, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int ranks(char *text, size_t bytes, const char *before, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return run_command(text, bytes, "%s timeout 900 '%s' train %s", before, CPU_RANKS,
                       line);
}

static void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static int times(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

static void must(int code, int wanted, const char *text)
{
    if (code != wanted)
        fail_msg("exit %d, %d expected: %s", code, wanted, text);
}

static const char *new_run(const char *name, const char *before, const char *flags)
{
    char text[8192];
    must(ranks(text, sizeof text, before, RUN "--out '%s' %s", in(name), flags), 0, text);
    return run_in(in(name));
}

/* ---- the same numbers ------------------------------------------------------------ */

/* Sums over two halves round otherwise than one sum: by about 1e-7 of a value. A large
 * eps keeps Adam from dividing such differences by a gradient that is itself nearly 0,
 * so that after six steps of two networks they are still small. */
#define SMOOTH "--precision fp32 --g-eps 1e-3 --d-eps 1e-3 --kimg 0.096 "
#define ROUNDING 1e-5

static void test_several_ranks_with_synced_norm_are_one_rank(void **state)
{
    (void)state;
    char one[1024], two[1024], four[1024], apart[1024];
    snprintf(one, sizeof one, "%s", new_run("one", "", SMOOTH));
    snprintf(two, sizeof two, "%s", new_run("two", "", SMOOTH "--gpus 2 --sync-bn"));
    snprintf(four, sizeof four, "%s", new_run("four", "", SMOOTH "--gpus 4 --sync-bn"));
    snprintf(apart, sizeof apart, "%s", new_run("apart", "", SMOOTH "--gpus 2"));
    double of_two = run_difference(two, one), of_four = run_difference(four, one);
    print_message("2 ranks %.2g, 4 ranks %.2g, without --sync-bn %.2g\n", of_two, of_four,
                  run_difference(apart, one));
    assert_true(of_two < ROUNDING);
    assert_true(of_four < ROUNDING);
    // The comparison sees what is not the same: statistics of each half alone.
    assert_true(run_difference(apart, one) > 10.0 * ROUNDING);
}

static void test_a_resumed_run_of_ranks_is_the_run_never_stopped(void **state)
{
    (void)state;
    char text[8192], whole[32], resumed[32];
    digest_of(new_run("whole", "", "--gpus 2 --kimg 0.128"), whole);
    char run[1024];
    snprintf(run, sizeof run, "%s", new_run("parts", "", "--gpus 2 --kimg 0.064"));
    must(ranks(text, sizeof text, "", "--resume '%s' --kimg 0.128", run), 0, text);
    assert_says(text, "ranks   2, each with 8 images of a batch");
    digest_of(run, resumed);
    assert_string_equal(resumed, whole);
    // On one GPU again: allowed, and told.
    must(ranks(text, sizeof text, "", "--resume '%s' --kimg 0.16 --gpus 1", run), 0,
         text);
    assert_says(text, "--gpus: \"2\" is now \"1\"");
    assert_int_equal(times(text, "ranks "), 0);
}

/* What the checkpoint at the end says, for which the scalers of all ranks were
 * compared. */
static struct checkpoint_facts assert_skipped(const char *run, int64_t steps, int64_t d,
                                              int64_t g)
{
    struct checkpoint_facts facts = facts_of(run);
    assert_int_equal(facts.step, steps);
    assert_int_equal(facts.scaler[ROLE_D].skipped, d);
    assert_int_equal(facts.scaler[ROLE_G].skipped, g);
    return facts;
}

static void test_an_overflow_on_the_last_rank_makes_all_skip(void **state)
{
    (void)state;
    const char *run = new_run("skip", "", "--gpus 2 --kimg 0.096 --inject d:3:inf");
    struct checkpoint_facts facts = assert_skipped(run, 6, 1, 0);
    assert_int_equal(facts.scaler[ROLE_D].adam_t, 5);
    assert_float_equal(facts.scaler[ROLE_D].scale, 512.0, 0.0);
    assert_float_equal(facts.scaler[ROLE_G].scale, 1024.0, 0.0);
}

static void test_all_ranks_find_one_scale_to_begin_with(void **state)
{
    (void)state;
    // Every checkpoint compares the scalers of all ranks, the first before the first
    // step.
    char text[8192];
    must(ranks(text, sizeof text, "",
               RUN "--out '%s' --gpus 2 --kimg 0.096 --g-init-scale auto --d-init-scale "
                   "auto --scaler per-loss --init-margin 7",
               in("found")),
         0, text);
    assert_int_equal(times(text, "the first step's gradients are finite up to"), 3);
    struct checkpoint_facts facts = facts_of(run_in(in("found")));
    assert_int_equal(facts.step, 6);
    assert_int_equal(facts.scaler[ROLE_D].skipped, 0);
    assert_int_equal(facts.scaler[ROLE_G].skipped, 0);
    assert_float_not_equal(facts.scaler[ROLE_G].scale, 1024.0, 0.0);
    // One rank alone is not finite in its forward pass: no rank finds anything.
    must(ranks(text, sizeof text, "",
               RUN "--out '%s' --gpus 2 --kimg 0.096 --d-init-scale auto "
                   "--inject d:1:nan-forward",
               in("one_bad")),
         0, text);
    assert_int_equal(times(text, "no scale down to 2^-122"), 1);
}

static void test_a_nan_in_one_ranks_forward_pass_makes_all_skip(void **state)
{
    (void)state;
    const char *run = new_run("kinds", "",
                              "--gpus 2 --kimg 0.096 --inject "
                              "d:3:nan-forward,g:5:nan-forward");
    assert_skipped(run, 6, 2, 2);
}

static void test_a_storm_that_is_warned_of_does_not_end_any_rank(void **state)
{
    (void)state;
    const char *run = new_run("warned", "",
                              "--gpus 2 --kimg 0.192 --inject d:3-8:inf --max-skips 3 "
                              "--on-overflow-storm warn");
    assert_skipped(run, 12, 6, 0);
}

// Where one rank alone finds what the sum has hidden or made, in found_inf_unscaled say.
static void test_what_one_rank_alone_finds_makes_all_skip(void **state)
{
    (void)state;
    const char *run =
        new_run("found", "TEST_FAULT=1:5:found", "--gpus 3 --batch 15 --kimg 0.09");
    assert_skipped(run, 6, 1, 0);
}

static void test_scalers_that_differ_end_the_run_at_the_next_checkpoint(void **state)
{
    (void)state;
    char text[8192];
    int code = ranks(text, sizeof text, "TEST_FAULT=1:5:skip",
                     RUN "--out '%s' --gpus 2 --kimg 0.16 --snap 0.08", in("differ"));
    must(code, 1, text);
    assert_int_equal(times(text, "twinscale: "), 1);
    assert_says(text, "twinscale: scaler_d of rank 1 (process ");
    assert_says(text, "\"scale\":512.0 there, \"scale\":1024.0 here");
    assert_int_equal(facts_of(run_in(in("differ"))).step, 0);
}

/* ---- the end of a run ------------------------------------------------------------ */

static void test_a_rank_that_dies_leaves_the_last_snapshot_intact(void **state)
{
    (void)state;
    char text[8192], log[65536], path[1200];
    int code = ranks(text, sizeof text, "TEST_FAULT=1:15:kill",
                     RUN "--out '%s' --gpus 2 --kimg 0.32 --snap 0.08", in("dies"));
    must(code, 1, text);
    assert_says(text, "twinscale: rank 1 (process ");
    assert_says(text, ") was killed by signal 9 (Killed)\n");
    assert_says(text, "the last snapshot is good: twinscale train --resume ");
    const char *run = run_in(in("dies"));
    assert_int_equal(facts_of(run).step, 5);
    snprintf(path, sizeof path, "%s/log.txt", run);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    log[fread(log, 1, sizeof log - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(times(log, "error: rank 1 (process "), 1);
    must(ranks(text, sizeof text, "", "--resume '%s' --kimg 0.16", run), 0, text);
}

static void test_a_fault_of_one_ranks_device_is_the_reason_of_the_end(void **state)
{
    (void)state;
    char text[8192];
    int code = ranks(text, sizeof text, "TEST_FAULT=2:6:device",
                     RUN "--out '%s' --gpus 4 --kimg 0.32", in("fault"));
    must(code, 1, text);
    assert_says(text, "twinscale: rank 2 (process ");
    assert_says(text, ") ended the run: cpu: conv_wgrad [64,4,4,32]: planted\n");
}

static void test_a_gpu_that_is_not_there_is_told_once(void **state)
{
    (void)state;
    char text[8192];
    int code = ranks(text, sizeof text, "TEST_LACKS=cuda:2",
                     RUN "--out '%s' --device cuda:1 --gpus 4", in("lacks"));
    must(code, 3, text);
    assert_int_equal(times(text, "\n"), 1);
    assert_says(text, "twinscale: rank 1 (process ");
    assert_says(text, ") ended the run: device cuda:2: there is none\n");
    assert_int_not_equal(access(in("lacks"), F_OK), 0);
}

static void test_all_ranks_see_a_divergence_and_one_says_it(void **state)
{
    (void)state;
    char text[8192];
    int code = ranks(text, sizeof text, "",
                     RUN "--out '%s' --gpus 2 --kimg 3.2 --inject g:3-:nan --max-skips 4",
                     in("diverges"));
    must(code, 5, text);
    assert_says(
        text,
        "twinscale: G skipped 4 steps in a row, the last in g.conv1 (weight gradient): "
        "its gradients stay inf or NaN");
    assert_int_equal(times(text, "skipped 4 steps in a row"), 1);
}

static void test_ctrl_c_on_all_processes_saves_and_ends_with_0(void **state)
{
    (void)state;
    char text[8192];
    // As a terminal does: to every process of the group.
    int code = run_command(text, sizeof text,
                           "setsid sh -c \"trap '' INT; (trap - INT; exec '%s' train " RUN
                           "--out '%s' --gpus 2 --kimg 3200) & child=\\$!; n=0; while "
                           "[ ! -s '%s'/0*/stats.jsonl ] && [ \\$n -lt 12000 ]; do sleep "
                           "0.05; n=\\$((n+1)); done; kill -INT 0; wait \\$child\"",
                           CPU_RANKS, in("stops"), in("stops"));
    must(code, 0, text);
    assert_int_equal(times(text, "stopped at "), 1);
    const char *run = run_in(in("stops"));
    struct checkpoint_facts facts = facts_of(run);
    assert_true(facts.step > 0);
    must(ranks(text, sizeof text, "", "--resume '%s' --kimg %.3f", run,
               (double)facts.images / 1000.0 + 0.064),
         0, text);
    assert_int_equal(facts_of(run).step, facts.step + 4);
}

static void test_a_change_reaches_every_rank_after_the_same_step(void **state)
{
    (void)state;
    // Ranks whose scalers differed would end the run at its last snapshot.
    char text[16384];
    int code = run_command(
        text, sizeof text,
        "T='%s'; \"$T\" train " RUN
        "--out '%s' --gpus 2 --kimg 3200 & pid=$!; n=0; while "
        "! \"$T\" ctl '%s'/0* d.scale=64 d.growth_interval=1000000 2>/dev/null && [ $n "
        "-lt "
        "12000 ]; do sleep 0.05; n=$((n+1)); done; \"$T\" ctl '%s'/0* d.scal=1; kill "
        "-TERM "
        "$pid; wait $pid",
        CPU_RANKS, in("changed"), in("changed"), in("changed"));
    must(code, 0, text);
    assert_says(text, "d.growth_interval: was ");
    assert_says(text, "is now 64; steps without an overflow until it grows: ");
    assert_says(text, "did you mean d.scale?");
    assert_says(text, "stopped at ");
    struct checkpoint_facts facts = facts_of(run_in(in("changed")));
    assert_true(facts.scaler[ROLE_D].scale == 64.0);
}

/* ---- what is said ---------------------------------------------------------------- */

static void test_a_change_at_a_kimg_reaches_every_rank(void **state)
{
    (void)state;
    char text[8192];
    must(ranks(text, sizeof text, "",
               RUN "--out '%s' --gpus 2 --kimg 0.128 --snap 0.016 "
                   "--set-at 0.06:d.scale=64,g.lr=1e-3",
               in("planned")),
         0, text);
    assert_int_equal(
        times(text,
              "is now 64; steps without an overflow until it grows: 1996 (--set-at)"),
        1);
    assert_true(facts_of(run_in(in("planned"))).scaler[ROLE_D].scale == 64.0);
    must(ranks(text, sizeof text, "", RUN "--gpus 2 --set-at 1:g.lr=7"), 2, text);
    assert_int_equal(times(text, "is out of range"), 1);
}

static void test_a_dry_run_of_two_ranks_reports_once_and_writes_nothing(void **state)
{
    (void)state;
    char text[16384];
    int code =
        ranks(text, sizeof text, "", RUN "--out '%s' --gpus 2 --dry-run", in("dry"));
    must(code, 0, text);
    assert_int_equal(times(text, "speed: "), 1);
    assert_int_equal(times(text, "Generator"), 1);
    assert_says(text, "ranks: 2, each with 8 images of a batch\n");
    assert_int_not_equal(access(in("dry"), F_OK), 0);
}

static void test_files_that_cannot_be_used_are_said_once(void **state)
{
    (void)state;
    char text[16384], name[64];
    shell("mkdir \"$1\"", in("photos"));
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "photos/%d.png", i);
        write_png(in(name), 32, 32, 0, i % 2 ? grey_40 : grey_80);
    }
    write_file(in("photos/broken.png"), "no image", 8);
    int code =
        ranks(text, sizeof text, "", RUN "--data '%s' --out '%s' --gpus 2 --kimg 0.032",
              in("photos"), in("rejects"));
    must(code, 0, text);
    assert_int_equal(times(text, "broken.png"), 1);
}

static void test_processes_of_a_launcher_train_one_run(void **state)
{
    (void)state;
    char text[16384], one[32], other[32];
    char launcher[] = "MASTER_ADDR=127.0.0.1 WORLD_SIZE=2";
    int port = 20000 + (int)getpid() % 10000;
    must(run_command(
             text, sizeof text,
             "export %s MASTER_PORT=%d; RANK=1 LOCAL_RANK=1 '%s' train " RUN
             "--out '%s' --kimg 0.096 & "
             "RANK=0 LOCAL_RANK=0 '%s' train " RUN "--out '%s' --kimg 0.096 && wait $!",
             launcher, port, CPU_RANKS, in("elsewhere"), CPU_RANKS, in("launched")),
         0, text);
    assert_int_equal(times(text, "ranks   2, each with 8 images"), 1);
    assert_int_not_equal(access(in("elsewhere"), F_OK), 0);
    digest_of(run_in(in("launched")), one);
    digest_of(new_run("forked", "", "--gpus 2 --kimg 0.096"), other);
    assert_string_equal(one, other);
}

static void test_launched_processes_with_other_flags_are_told(void **state)
{
    (void)state;
    char text[16384];
    int port = 20000 + (int)getpid() % 10000;
    int code = run_command(text, sizeof text,
                           "export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 MASTER_PORT=%d; "
                           "RANK=1 LOCAL_RANK=1 '%s' train " RUN "--seed 4 2>/dev/null & "
                           "RANK=0 LOCAL_RANK=0 '%s' train " RUN,
                           port, CPU_RANKS, CPU_RANKS);
    must(code, 1, text);
    assert_says(text, "twinscale: the settings of rank 1 (");
    assert_says(text, "start every process with the same flags and snapshot");
}

/* ---- the window ------------------------------------------------------------------ */

// What the program prints, from its start until SIGTERM ends the window that stays.
static int ranks_in_a_window(char *text, size_t bytes, const char *flags)
{
    return run_command(text, bytes,
                       WAIT_FOR
                       "cd '%s' && rm -f log && { SDL_VIDEODRIVER=dummy '%s' train " RUN
                       "--preview window %s >log 2>&1 & }; pid=$!; "
                       "wait_for 'grep -q \"window stays\" log'; cat log; "
                       "children=$(pgrep -P $pid); kill -TERM $pid; wait $pid; "
                       "code=$?; echo \"children: $children;\"; "
                       "tail -n +$(($(grep -n 'window stays' log | cut -d: -f1) "
                       "+ 1)) log; exit $code",
                       in(""), CPU_RANKS, flags);
}

static void test_the_window_stays_and_the_other_ranks_end(void **state)
{
    (void)state;
    char text[8192];
    int code = ranks_in_a_window(text, sizeof text, "--gpus 2 --out stays --kimg 0.064");
    must(code, 0, text);
    assert_says(text, "checkpoint: stays/");
    assert_says(text, "the window stays open: press q");
    assert_says(text, "children: ;");
}

static void test_the_window_of_a_run_that_diverged_shows_why_once(void **state)
{
    (void)state;
    for (int gpus = 1; gpus <= 2; gpus++) {
        char text[8192], flags[128];
        snprintf(flags, sizeof flags,
                 "--gpus %d --out why%d --kimg 1 --inject d:2-:inf --max-skips 3", gpus,
                 gpus);
        must(ranks_in_a_window(text, sizeof text, flags), 5, text);
        if (times(text, "D skipped 3 steps in a row") != 1)
            fail_msg("the reason is not there once: %s", text);
        assert_says(text, "children: ;");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_several_ranks_with_synced_norm_are_one_rank),
        DATA_TEST(test_a_resumed_run_of_ranks_is_the_run_never_stopped),
        DATA_TEST(test_an_overflow_on_the_last_rank_makes_all_skip),
        DATA_TEST(test_all_ranks_find_one_scale_to_begin_with),
        DATA_TEST(test_a_nan_in_one_ranks_forward_pass_makes_all_skip),
        DATA_TEST(test_a_storm_that_is_warned_of_does_not_end_any_rank),
        DATA_TEST(test_what_one_rank_alone_finds_makes_all_skip),
        DATA_TEST(test_scalers_that_differ_end_the_run_at_the_next_checkpoint),
        DATA_TEST(test_a_rank_that_dies_leaves_the_last_snapshot_intact),
        DATA_TEST(test_a_fault_of_one_ranks_device_is_the_reason_of_the_end),
        DATA_TEST(test_a_gpu_that_is_not_there_is_told_once),
        DATA_TEST(test_all_ranks_see_a_divergence_and_one_says_it),
        DATA_TEST(test_ctrl_c_on_all_processes_saves_and_ends_with_0),
        DATA_TEST(test_a_change_reaches_every_rank_after_the_same_step),
        DATA_TEST(test_a_change_at_a_kimg_reaches_every_rank),
        DATA_TEST(test_a_dry_run_of_two_ranks_reports_once_and_writes_nothing),
        DATA_TEST(test_files_that_cannot_be_used_are_said_once),
        DATA_TEST(test_processes_of_a_launcher_train_one_run),
        DATA_TEST(test_launched_processes_with_other_flags_are_told),
        DATA_TEST(test_the_window_stays_and_the_other_ranks_end),
        DATA_TEST(test_the_window_of_a_run_that_diverged_shows_why_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
