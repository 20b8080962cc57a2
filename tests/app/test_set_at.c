/* test_set_at.c - `--set-at`: each change comes once, at its kimg, however the run gets
 * there. */
#include "app/live/set_at.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("set_at"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* ---- when ------------------------------------------------------------------------ */

static struct config with(const char *changes)
{
    struct config config;
    config_default(&config);
    snprintf(config.data, sizeof config.data, "builtin:shapes");
    snprintf(config.set_at, sizeof config.set_at, "%s", changes);
    config.batch = 16;
    config.kimg = 10.0;
    return config;
}

static struct set_at opened(const char *changes)
{
    struct set_at set_at;
    struct config config = with(changes);
    if (set_at_open(&set_at, &config, NULL, 0) != STATUS_OK)
        fail_msg("%s: %s", changes, status_message());
    return set_at;
}

static void test_a_change_is_due_at_one_boundary(void **state)
{
    (void)state;
    static const struct {
        const char *changes;
        int64_t images;
    } rows[] = {{"0:g.lr=0.1", 0},       {"0.001:g.lr=0.1", 16}, {"0.016:g.lr=0.1", 16},
                {"0.0161:g.lr=0.1", 32}, {"0.3:g.lr=0.1", 304},  {"0.32:g.lr=0.1", 320}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct set_at set_at = opened(rows[i].changes);
        for (int64_t images = 0; images < 400; images += 16)
            assert_int_equal(set_at_next(&set_at, images, -1),
                             images == rows[i].images ? 0 : -1);
    }
    struct set_at both = opened("0.02:g.lr=0.1,0.03:d.lr=0.1,0.04:d.lr=0.2");
    assert_int_equal(set_at_next(&both, 32, -1), 0);
    assert_int_equal(set_at_next(&both, 32, 0), 1);
    assert_int_equal(set_at_next(&both, 32, 1), -1);
    assert_int_equal(set_at_next(&both, 48, -1), 2);
}

static void test_what_was_made_is_taken_back_from_the_last_on(void **state)
{
    (void)state;
    struct set_at set_at = opened("0.02:g.lr=0.1");
    struct changes changes = {.count = 4,
                              .of = {{.key = "g.lr", .before = "1e-4", .after = "2e-4"},
                                     {.key = "d.scale", .before = "4", .after = "8"},
                                     {.key = "d.lr", .before = "1e-4", .after = "1e-4"},
                                     {.key = "g.beta", .before = "1", .after = "2"}}};
    set_at_made(&set_at, &changes, 32);
    changes.of[0].before[0] = '3';
    set_at_made(&set_at, &changes, 64);
    assert_null(set_at_undo(&set_at, 80)); // the run has gone on
    assert_string_equal(set_at_undo(&set_at, 64), "g.lr=3e-4\ng.beta=1");
    assert_null(set_at_undo(&set_at, 64)); // scales come back with the snapshot
    assert_string_equal(set_at_undo(&set_at, 0), "g.lr=1e-4\ng.beta=1");
    assert_null(set_at_undo(&set_at, 0));
}

/* ---- what is refused --------------------------------------------------------------- */

static void refuse(const char *changes, const char *saved, int64_t images,
                   const char *words)
{
    struct set_at set_at;
    struct config config = with(changes), before = with(saved ? saved : "");
    assert_int_equal(set_at_open(&set_at, &config, saved ? &before : NULL, images),
                     STATUS_USAGE);
    if (!strstr(status_message(), words))
        fail_msg("%s: no \"%s\" in: %s", changes, words, status_message());
}

static void test_what_cannot_be_set_is_refused_at_the_start(void **state)
{
    (void)state;
    refuse("1:g.lrr=1", NULL, 0,
           "g.lrr: cannot be set while a run goes on; did you mean");
    refuse("1:g.lr=1e-3,g.width=8", NULL, 0, "g.width: cannot be set");
    refuse("1:g.lr=7", NULL, 0,
           "--set-at: \"7\" is out of range; give a number from 1e-12 to 1 (in --set-at "
           "1:g.lr=7)");
    refuse("1:d.scale=0", NULL, 0, "d.scale: \"0\" is out of range");
    refuse("1:g.lr=1e-3,g.lr=1e-4", NULL, 0, "(in --set-at 1:g.lr=1e-3,g.lr=1e-4)");
    // Each with the settings that the ones before it leave.
    refuse("1:g.max_scale=32,g.scale=32,2:g.scale=64", NULL, 0,
           "g.scale: 64 is above the maximum 32");
    (void)opened("1:g.scale=64,2:g.max_scale=32");
}

static void test_only_scales_that_there_are_can_be_set(void **state)
{
    (void)state;
    struct set_at set_at;
    struct config config = with("1:g.scale=64");
    config.d.precision = OWN_FP32;
    assert_int_equal(set_at_open(&set_at, &config, NULL, 0), STATUS_OK);
    config = with("1:d.scale=64");
    config.d.precision = OWN_FP32;
    assert_int_equal(set_at_open(&set_at, &config, NULL, 0), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "this network has no loss scaling"));
}

static void test_a_resume_may_repeat_the_past_and_not_rewrite_it(void **state)
{
    (void)state;
    struct set_at set_at;
    struct config now = with("1:g.lr=1e-3,6:g.lr=1e-4"), saved = with("1:g.lr=1e-3");
    assert_int_equal(set_at_open(&set_at, &now, &saved, 5008), STATUS_OK);
    refuse("1:g.lr=2e-3,6:g.lr=1e-4", "1:g.lr=1e-3", 5008,
           "--set-at: 1 kimg has passed, the run is at 5.008; give a later kimg");
    // Of the boundary where it goes on, nothing was made yet.
    now = with("5:g.lr=1e-3");
    assert_int_equal(set_at_open(&set_at, &now, &saved, 5008), STATUS_OK);
    assert_int_equal(set_at_next(&set_at, 5008, -1), 0);
    // What is past is not checked with the settings of now.
    now = with("1:g.scale=64");
    now.g.max_scale = 32.0;
    now.g.init_scale = 32.0;
    assert_int_equal(set_at_open(&set_at, &now, &now, 5008), STATUS_OK);
}

static void test_what_ctl_has_made_impossible_does_not_end_a_resume(void **state)
{
    (void)state;
    struct set_at set_at;
    struct config plan = with("6:g.scale=64,g.lr=1e-4,7:g.lr=1e-5"), limited = plan;
    limited.g.max_scale = limited.g.init_scale = 32.0;
    assert_int_equal(set_at_open(&set_at, &limited, &limited, 5008), STATUS_OK);
    // By a flag of this resume it is refused, and so is what is new.
    assert_int_equal(set_at_open(&set_at, &limited, &plan, 5008), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "above the maximum 32"));
    struct config unplanned = limited;
    unplanned.set_at[0] = '\0';
    assert_int_equal(set_at_open(&set_at, &limited, &unplanned, 5008), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "(in --set-at 6:g.scale=64,g.lr=1e-4)"));
}

/* ---- the real program ------------------------------------------------------------ */

#define CHANGES "--set-at 0.1:d.scale=64,g.lr=1e-3,0.2:g.lr=1e-4,d.growth_interval=7 "

static const char *run_of(const char *name)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", out, name);
    return run_in(folder);
}

static int count_in(const char *name, const char *file, const char *words)
{
    char text[64];
    (void)run_command(text, sizeof text, "grep -c -- '%s' '%s/%s'", words, run_of(name),
                      file);
    return atoi(text);
}

static void test_a_run_changes_them_as_ctl_does(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s/a' --kimg 0.32 " CHANGES, out);
    assert_int_equal(
        count_in("a", "log.txt",
                 "step 7: d.scale: was 1024, is now 64; steps without an overflow until "
                 "it grows: .* (--set-at)"),
        1);
    assert_int_equal(
        count_in("a", "log.txt", "step 13: g.lr: was 0.001, is now 0.0001 (--set-at)"),
        1);
    assert_int_equal(count_in("a", "events.jsonl",
                              "\"event\":\"change\",\"net\":\"D\",\"key\":\"d.scale\","
                              "\"before\":\"1024\",\"after\":\"64\",\"scale_before\":"
                              "1024.0,\"scale_after\":64.0,\"by\":\"--set-at\","
                              "\"step\":7,\"kimg\":0.112"),
                     1);
    assert_int_equal(count_in("a", "events.jsonl", "\"event\":\"change\""), 4);
    // The interval of 7 was counted from where the tracker was.
    assert_int_equal(count_in("a", "events.jsonl", "\"growth\",\"net\":\"D\""), 1);
}

static void test_a_resumed_run_makes_each_change_once(void **state)
{
    (void)state;
    char name[16], whole[32], resumed[32], path[1200];
    twinscale_must("train " SMALL_RUN " --out '%s/whole' --kimg 0.32 " CHANGES, out);
    digest_of(run_of("whole"), whole);
    // Stopped before all, between two, at the boundary of one, and after all.
    static const char *const stops[] = {"0.064", "0.160", "0.208", "0.256"};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        snprintf(name, sizeof name, "part%zu", i);
        twinscale_must("train " SMALL_RUN
                       " --out '%s/%s' --kimg 0.304 --snap 0.016 " CHANGES,
                       out, name);
        snprintf(path, sizeof path, "%s/snapshot-000000.%s.safetensors", run_of(name),
                 stops[i] + 2);
        twinscale_must("train --resume '%s' --kimg 0.32 --preview off", path);
        digest_of(run_of(name), resumed);
        if (strcmp(resumed, whole) != 0)
            fail_msg("resumed at %s kimg: %s is not %s", stops[i], resumed, whole);
        assert_int_equal(count_in(name, "events.jsonl", "\"event\":\"change\""), 4);
    }
    // A run without them is another.
    twinscale_must("train " SMALL_RUN " --out '%s/plain' --kimg 0.32", out);
    digest_of(run_of("plain"), resumed);
    assert_string_not_equal(resumed, whole);
    char said[4096];
    assert_int_equal(twinscale(said, sizeof said,
                               "train --resume '%s' --kimg 0.64 --set-at 0.1:g.lr=0.5",
                               run_of("plain")),
                     2);
    assert_non_null(strstr(said, "0.1 kimg has passed, the run is at 0.32"));
}

static void test_a_rollback_takes_back_what_is_to_come_again(void **state)
{
    (void)state;
    // Back from step 16 to the snapshot of step 10, past the change after step 13.
    twinscale_must("train " SMALL_RUN " --out '%s/a' --kimg 0.32 --snap 0.16 " CHANGES
                   "--inject d:14-16:inf --max-skips 3 --on-overflow-storm rollback",
                   out);
    assert_int_equal(count_in("a", "log.txt", "rollback 1 of 3 at step 16"), 1);
    assert_int_equal(count_in("a", "log.txt",
                              "step 16: g.lr: was 0.0001, is now 0.001 (--set-at, taken "
                              "back by the rollback)"),
                     1);
    assert_int_equal(count_in("a", "log.txt",
                              "step 16: d.growth_interval: was 7, is now 2000 (--set-at, "
                              "taken back by the rollback)"),
                     1);
    assert_int_equal(
        count_in("a", "log.txt", "step 13: g.lr: was 0.001, is now 0.0001 (--set-at)"),
        2);
    assert_int_equal(count_in("a", "log.txt", "step 7: d.scale: was"), 1);
}

static void test_a_new_growth_interval_is_the_one_that_scales_are_watched_by(void **state)
{
    (void)state;
    // Three times the scale grows after 4 good steps, and falls to a quarter of that.
    twinscale_must("train " SMALL_RUN " --out '%s/a' --kimg 0.4 "
                   "--set-at 0:d.growth_interval=4 "
                   "--inject d:5-7:inf,d:12-14:inf,d:19-21:inf",
                   out);
    assert_int_equal(count_in("a", "log.txt",
                              "D.s scale oscillates: 3 overflows at scales that had been "
                              "good for 4 steps"),
                     1);
}

static void test_a_rollback_has_the_limits_that_the_snapshot_had(void **state)
{
    (void)state;
    // From step 14, at a minimum of 3000, to step 10, at a maximum of 2000.
    twinscale_must("train " SMALL_RUN " --out '%s/a' --kimg 0.32 --snap 0.16 "
                   "--d-max-scale 2000 --set-at 0.2:d.min_scale=3000,d.max_scale=4000 "
                   "--inject d:14:inf --on-overflow-storm rollback",
                   out);
    assert_int_equal(count_in("a", "log.txt", "is not set"), 0);
    assert_int_equal(
        count_in("a", "log.txt", "d.max_scale: was 4000, is now 2000.*taken back"), 1);
    assert_int_equal(count_in("a", "log.txt", "back to step 10 .*, D.s scale 2^9,"), 1);
    assert_int_equal(
        count_in("a", "events.jsonl", "\"event\":\"rollback\".*\"scale_d\":512.0"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_is_due_at_one_boundary),
        cmocka_unit_test(test_what_was_made_is_taken_back_from_the_last_on),
        cmocka_unit_test(test_what_cannot_be_set_is_refused_at_the_start),
        cmocka_unit_test(test_only_scales_that_there_are_can_be_set),
        cmocka_unit_test(test_a_resume_may_repeat_the_past_and_not_rewrite_it),
        cmocka_unit_test(test_what_ctl_has_made_impossible_does_not_end_a_resume),
        cmocka_unit_test_setup_teardown(test_a_run_changes_them_as_ctl_does, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(test_a_resumed_run_makes_each_change_once, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(test_a_rollback_takes_back_what_is_to_come_again,
                                        enter, leave),
        cmocka_unit_test_setup_teardown(
            test_a_new_growth_interval_is_the_one_that_scales_are_watched_by, enter,
            leave),
        cmocka_unit_test_setup_teardown(
            test_a_rollback_has_the_limits_that_the_snapshot_had, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
