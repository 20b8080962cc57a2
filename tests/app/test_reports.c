/* test_reports.c - faults that users of other trainers have reported, and what this
 * program does instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/run.h"
#include "kernels/base/status.h"
#include "tests/app/disk.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("reports"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static void test_watching_changes_no_byte_of_the_training(void **state)
{
    (void)state;
    char watched[600], unwatched[600], a[32], b[32];
    snprintf(watched, sizeof watched, "%s/watched", out);
    snprintf(unwatched, sizeof unwatched, "%s/unwatched", out);
    twinscale_must("train " SMALL_RUN
                   " --out '%s' --kimg 0.32 --tick 0.016 --img-snap 0.032 "
                   "--preview png",
                   watched);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.32 --tick 0.32 --img-snap 9",
                   unwatched);
    digest_of(run_in(watched), a);
    digest_of(run_in(unwatched), b);
    assert_string_equal(a, b);
}

static void test_every_number_of_samples_makes_a_whole_grid(void **state)
{
    (void)state;
    char text[1024];
    twinscale_must("train " SMALL_RUN " --out '%s/runs' --kimg 0.032", out);
    char runs[600], run[1024];
    snprintf(runs, sizeof runs, "%s/runs", out);
    snprintf(run, sizeof run, "%s", run_in(runs));
    const int counts[] = {1, 5, 7, 32, 33};
    for (int i = 0; i < 5; i++) {
        int n = counts[i];
        twinscale_must("sample '%s' --seeds 0-%d --grid 8x8 -o '%s/n%d.png'", run, n - 1,
                       out, n);
        // IHDR: width and height as big-endian words at byte 16.
        int columns = n < 8 ? n : 8, rows = (n + 7) / 8;
        assert_int_equal(run_command(text, sizeof text,
                                     "od -An -tu1 -j16 -N8 '%s/n%d.png' | awk '{print "
                                     "$3*256+$4, $7*256+$8}'",
                                     out, n),
                         0);
        int width, height;
        assert_int_equal(sscanf(text, "%d %d", &width, &height), 2);
        // Tiles of 32 with 2 between them.
        assert_int_equal(width, 34 * columns - 2);
        assert_int_equal(height, 34 * rows - 2);
    }
}

static void test_a_resume_from_an_older_snapshot_never_goes_back_in_the_logs(void **state)
{
    (void)state;
    char text[4096];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.32 --snap 0.16 --tick 0.032 "
                   "--inject d:3-18:inf",
                   out);
    char run[1024];
    snprintf(run, sizeof run, "%s", run_in(out));
    twinscale_must("train --resume '%s/snapshot-000000.160.safetensors'", run);
    // Steps in stats.jsonl and events.jsonl only rise, and the curves' future is kept
    // aside.
    assert_int_equal(
        run_command(
            text, sizeof text,
            "cd '%s' && for f in stats events; do sed -E "
            "'s/.*\"(Progress\\/step|step)\":(\\{[^}]*\"mean\":)?([0-9.]+).*/\\3/' "
            "$f.jsonl | sort -n -c && test -s $f.jsonl.bak || exit 1; done; "
            "test -e snapshot-000000.320.safetensors.bak && "
            "test -e snapshot-000000.320.safetensors && "
            "grep -c '\"event\":\"skip\"' events.jsonl",
            run),
        0);
    assert_int_equal(atoi(text), 16); // every skip of steps 3 to 18 once
}

static void test_a_resumed_run_logs_what_the_straight_one_did(void **state)
{
    (void)state;
    char text[4096], broken[600], straight[600], a[32], b[32];
    // D skips step 3 and grows again 12 good steps later, G grows after 15: both growths
    // come at step 15 only if scale and tracker survive the end of the first part at step
    // 10.
    const char *both = "--tick 0.032 --mirror --inject d:3:inf --g-growth-interval 15 "
                       "--d-growth-interval 12";
    snprintf(broken, sizeof broken, "%s/broken", out);
    snprintf(straight, sizeof straight, "%s/straight", out);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.32 %s", straight, both);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.16 %s", broken, both);
    twinscale_must("train --resume '%s' --kimg 0.32", run_in(broken));
    // All numbers but times and memory; 0.16 kimg is a mark of both.
    int code =
        run_command(text, sizeof text,
                    "cd '%s' && strip() { sed -E 's/\"(Timing|Resources)[^}]*\\},?//g; "
                    "s/,?\"timestamp\":[0-9.]+//' $1/*/stats.jsonl; "
                    "sed -En 's/,?\"timestamp\":[0-9.]+//; /\"(skip|growth)\"/p' "
                    "$1/*/events.jsonl; }; "
                    "strip straight > a; strip broken > b; diff a b && "
                    "grep -c '\"event\":\"growth\".*\"step\":15,' a",
                    out);
    if (code != 0 || atoi(text) != 2)
        fail_msg("exit %d: %s", code, text);
    digest_of(run_in(straight), a);
    digest_of(run_in(broken), b);
    assert_string_equal(a, b);
}

static int train_on_a_full_disk(const char *folder)
{
    char text[4096];
    EXPECT(fill_disk(folder) == 0);
    int code = twinscale(text, sizeof text, "train " SMALL_RUN " --out '%s' --kimg 0.16",
                         folder);
    if (code != 1 || !strstr(text, "No space left")) {
        fprintf(stderr, "exit %d: %s\n", code, text);
        return 1;
    }
    return 0;
}

static void test_a_full_disk_is_told_before_training_begins(void **state)
{
    (void)state;
    int code = with_small_disk(out, 1024, train_on_a_full_disk);
    if (code == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(code, 0);
}

static int train_until_the_disk_is_full(const char *folder)
{
    static char text[32768];
    char kept[1024];
    int code =
        twinscale(text, sizeof text,
                  "train " SMALL_RUN " --out '%s' --kimg 0.32 --snap 0.016", folder);
    const char *newest = strstr(text, "the newest good one is ");
    if (code != 1 || !strstr(text, "training goes on") || !newest ||
        !strstr(text, "kimg 0.320/0.32") ||
        sscanf(newest, "the newest good one is %1000s", kept) != 1) {
        fprintf(stderr, "exit %d: %s\n", code, text);
        return 1;
    }
    code = twinscale(text, sizeof text, "info '%s'", kept);
    EXPECT(code == 0);
    return 0;
}

static void test_a_disk_that_fills_up_costs_no_step_and_no_older_checkpoint(void **state)
{
    (void)state;
    int code = with_small_disk(out, 3072, train_until_the_disk_is_full);
    if (code == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(code, 0);
}

static int fill_the_disk_in_the_middle(const char *folder)
{
    static char text[32768];
    // Stopped while the disk fills up, so that the run cannot end before.
    int code = run_command(
        text, sizeof text,
        WAIT_FOR "cd '%s' && { '%s' train " SMALL_RUN
                 " --out . --kimg 6.4 --snap 6.4 --tick 0.32 >\"$PWD.log\" 2>&1 & }; "
                 "pid=$!; wait_for '[ -s 0*/stats.jsonl ]'; kill -STOP $pid; "
                 "cat /dev/zero >fill 2>/dev/null; kill -CONT $pid; wait $pid; code=$?; "
                 "cat \"$PWD.log\"; rm \"$PWD.log\"; exit $code",
        folder, TWINSCALE_PROGRAM);
    if (code != 1 || !strstr(text, "lines may be missing from the logs") ||
        !strstr(text, "kimg 6.40/6.4") || !strstr(text, "snapshot-000000.safetensors")) {
        fprintf(stderr, "exit %d: %s\n", code, text);
        return 1;
    }
    return 0;
}

static void test_logs_on_a_full_disk_do_not_end_a_run(void **state)
{
    (void)state;
    int code = with_small_disk(out, 3072, fill_the_disk_in_the_middle);
    if (code == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(code, 0);
}

static void test_a_file_size_limit_is_a_sentence_and_not_a_death(void **state)
{
    (void)state;
    char text[4096];
    int code =
        run_command(text, sizeof text,
                    "ulimit -f 40; '%s' train " SMALL_RUN " --out '%s' --kimg 0.16",
                    TWINSCALE_PROGRAM, out);
    if (code != 1 || !strstr(text, "File too large"))
        fail_msg("exit %d: %s", code, text);
}

static void test_sigusr1_saves_a_snapshot_and_the_run_goes_on(void **state)
{
    (void)state;
    char text[4096];
    int code = run_command(
        text, sizeof text,
        WAIT_FOR "cd '%s' && { '%s' train " SMALL_RUN
                 " --out . --kimg 6400 --snap 6400 --tick 0.16 >log 2>&1 & }; pid=$!; "
                 "snapshots() { ls 0*/snapshot-* 2>/dev/null | wc -l; }; "
                 "wait_for '[ -s 0*/stats.jsonl ]' && kill -USR1 $pid && "
                 "wait_for '[ $(snapshots) -eq 2 ]' && "
                 "ticks=$(count '0*/stats.jsonl') && "
                 "wait_for '[ $(count \"0*/stats.jsonl\") -gt $ticks ]'; went=$?; "
                 "kill -INT $pid; wait $pid; code=$?; cat log; "
                 "[ $went -eq 0 ] || exit 99; exit $code",
        out, TWINSCALE_PROGRAM);
    // One interrupt saves, tells how to go on, and is no failure.
    if (code != 0 || !strstr(text, "--resume"))
        fail_msg("exit %d: %s", code, text);
}

static void test_a_second_interrupt_ends_the_run_at_once(void **state)
{
    (void)state;
    char text[4096];
    // A step of 100 turns takes seconds, and the first interrupt is served after it.
    int code = run_command(
        text, sizeof text,
        WAIT_FOR "cd '%s' && { '%s' train " SMALL_RUN
                 " --batch 1024 --n-dis 100 --out . --kimg 6400 >log 2>&1 & }; pid=$!; "
                 "wait_for '[ -e 0*/snapshot-000000.safetensors ]'; sleep 0.2; "
                 "kill -INT $pid; sleep 0.2; kill -0 $pid || exit 99; kill -INT $pid; "
                 "wait $pid; code=$?; '%s' info 0* >info || exit 98; exit $code",
        out, TWINSCALE_PROGRAM, TWINSCALE_PROGRAM);
    if (code != 130)
        fail_msg("exit %d: %s", code, text);
}

static void test_no_display_and_one_that_is_gone_end_no_run(void **state)
{
    (void)state;
    char text[8192];
    // "-u DISPLAY" takes the name away, "DISPLAY=:4242" names one that is not there.
    const char *const displays[] = {"-u DISPLAY", "DISPLAY=:4242"};
    for (int i = 0; i < 2; i++) {
        int code = run_command(text, sizeof text,
                               "cd '%s' && env -u WAYLAND_DISPLAY -u SDL_VIDEODRIVER %s "
                               "'%s' train " SMALL_RUN
                               " --preview auto --out %d --kimg 0.064 2>&1 && "
                               "test -s %d/*/preview.png && test -s %d/*/scales.png",
                               out, displays[i], TWINSCALE_PROGRAM, i, i, i);
        if (code != 0 || !strstr(text, "preview.png"))
            fail_msg("%s: exit %d: %s", displays[i], code, text);
    }
}

static void test_a_preview_that_is_off_leaves_no_picture_of_it(void **state)
{
    (void)state;
    const char *const words[] = {"off", "png"};
    for (int i = 0; i < 2; i++) {
        char folder[600], path[1200];
        snprintf(folder, sizeof folder, "%s/%s", out, words[i]);
        twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.064 --tick 0.032 "
                       "--preview %s",
                       folder, words[i]);
        snprintf(path, sizeof path, "%s/preview.png", run_in(folder));
        assert_int_equal(access(path, F_OK) == 0, i);
    }
}

static void test_fewer_images_than_a_batch_are_told_with_both_numbers(void **state)
{
    (void)state;
    char text[8192];
    int code = run_command(
        text, sizeof text,
        "cd '%s' && '%s' train " SMALL_RUN " --out runs --kimg 0.032 >/dev/null 2>&1 && "
        "'%s' sample runs/* --seeds 0 --grid 1x1 -o one.png && mkdir few && "
        "for i in 1 2 3 4 5 6; do cp one.png few/$i.png; done && "
        "'%s' train " SMALL_RUN " --data few --out none; code=$?; test ! -e none || "
        "code=99; exit $code",
        out, TWINSCALE_PROGRAM, TWINSCALE_PROGRAM, TWINSCALE_PROGRAM);
    if (code != 4 || !strstr(text, "6 images, fewer than one batch of 16"))
        fail_msg("exit %d: %s", code, text);
    static const char *const works[] = {"scaler", "precision"};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        code = run_command(text, sizeof text,
                           "cd '%s' && '%s' bench %s " SMALL_RUN
                           " --data few --out none; code=$?; test ! -e none || code=99; "
                           "exit $code",
                           out, TWINSCALE_PROGRAM, works[i]);
        if (code != 4 || !strstr(text, "6 images, fewer than one batch of 16"))
            fail_msg("bench %s: exit %d: %s", works[i], code, text);
    }
    // A batch of all of them is enough: every batch is whole, the next epoch fills it up.
    twinscale_must("train " SMALL_RUN
                   " --data '%s/few' --batch 4 --kimg 0.04 --out '%s/4'",
                   out, out);
}

static void test_a_run_stopped_before_its_first_step_draws_its_noise_once(void **state)
{
    (void)state;
    struct run *run = calloc(1, sizeof *run);
    char text[512];
    assert_non_null(run);
    run->trainer.config = small_config();
    snprintf(run->trainer.config.out, sizeof run->trainer.config.out, "%s", out);
    run->saved_at = -1;
    assert_int_equal(trainer_create(&run->trainer, &run->trainer.config), STATUS_OK);
    assert_int_equal(trainer_start_data(&run->trainer), STATUS_OK);
    run->monitor = monitor_create();
    assert_int_equal(run_folder_create(&run->folder, &run->trainer.config, "shapes"),
                     STATUS_OK);
    assert_int_equal(
        report_open(&run->report, &run->trainer, &run->folder, run->monitor, 0, 0),
        STATUS_OK);
    monitor_request(run->monitor, REQUEST_QUIT);
    run_loop(run);
    assert_int_equal(run->status, STATUS_OK);
    assert_true(run->was_stopped && run->trainer.progress.step == 0);
    assert_string_equal(run->last_grid, ""); // noise is no result
    assert_int_equal(run_command(text, sizeof text, "cd '%s' && echo fakes*.png snap*",
                                 run->folder.path),
                     0);
    assert_string_equal(text, "fakes_init.png snapshot-000000.safetensors\n");
    report_close(&run->report);
    monitor_destroy(run->monitor);
    run_folder_close(&run->folder);
    trainer_release(&run->trainer);
    free(run);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_watching_changes_no_byte_of_the_training),
        TEST(test_every_number_of_samples_makes_a_whole_grid),
        TEST(test_a_resume_from_an_older_snapshot_never_goes_back_in_the_logs),
        TEST(test_a_resumed_run_logs_what_the_straight_one_did),
        TEST(test_a_full_disk_is_told_before_training_begins),
        TEST(test_a_disk_that_fills_up_costs_no_step_and_no_older_checkpoint),
        TEST(test_logs_on_a_full_disk_do_not_end_a_run),
        TEST(test_a_file_size_limit_is_a_sentence_and_not_a_death),
        TEST(test_sigusr1_saves_a_snapshot_and_the_run_goes_on),
        TEST(test_a_second_interrupt_ends_the_run_at_once),
        TEST(test_no_display_and_one_that_is_gone_end_no_run),
        TEST(test_a_run_stopped_before_its_first_step_draws_its_noise_once),
        TEST(test_a_preview_that_is_off_leaves_no_picture_of_it),
        TEST(test_fewer_images_than_a_batch_are_told_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
