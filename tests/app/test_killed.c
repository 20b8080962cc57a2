/* test_killed.c - a run that is killed at any moment near its end is finished by a
 * resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/disk.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

#define CALLS_BEFORE \
    6 // of those before the last snapshot: they are covered elsewhere too

#define RUN                                                                       \
    "train " SMALL_RUN " --threads 1 --tick 0.032 --snap 0.048 --img-snap 0.048 " \
    "--kimg 0.056"
#define LAST "snapshot-000000.056.safetensors"

static char out[512], whole[1024];

static int killable(char *text, size_t bytes, const char *variables,
                    const char *arguments)
{
    return run_command(text, bytes, "cd '%s' && %s \"$KILLABLE\" %s", out, variables,
                       arguments);
}

static int make_whole_run(void **state)
{
    (void)state;
    char text[8192], runs[600];
    setenv("KILLABLE", KILLABLE, 1); // for the shell, whatever characters the path has
    snprintf(out, sizeof out, "%s", make_folder("killed"));
    if (killable(text, sizeof text, "TWINSCALE_CALLS=calls", RUN " --out whole") != 0)
        fail_msg("%s", text);
    snprintf(runs, sizeof runs, "%s/whole", out);
    snprintf(whole, sizeof whole, "%s", run_in(runs));
    return 0;
}

static int remove_runs(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static int all_calls(void)
{
    char *text = read_text(in_folder(out, "calls"), NULL);
    int calls = atoi(text);
    free(text);
    return calls;
}

/* Every file of the whole run, the same where its bytes do not depend on the time, and
 * nothing else but what logs had to give up. */
static void assert_is_whole(const char *run, int at)
{
    char text[4096];
    int code = run_command(
        text, sizeof text,
        "cd '%s' && ls -A | sort >../names && cd '%s' && "
        "ls -A | grep -Ev '(jsonl|csv)[.]bak$' | sort | diff ../../whole/names - && "
        "cmp fakes000000.056.png '%s/fakes000000.056.png' && "
        "cmp reals.png '%s/reals.png'",
        whole, run, whole, whole);
    if (code != 0)
        fail_msg("killed at call %d: %s", at, text);
    char got[32], want[32];
    digest_of(run, got);
    digest_of(whole, want);
    assert_string_equal(got, want);
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"finished\""), 1);
    assert_int_equal(lines_with(run, "stats.jsonl", "Progress/tick"),
                     lines_with(whole, "stats.jsonl", "Progress/tick"));
}

/* Kills a run at its call number `at`, resumes it, and looks at what is there. 1 if the
 * last snapshot was there before the resume, 0 if not, -1 if the run had ended before. */
static int kill_and_resume(int at)
{
    char text[8192], place[64], runs[600], run[1024], variables[64], arguments[1200];
    snprintf(place, sizeof place, "killed%d", at);
    snprintf(variables, sizeof variables, "TWINSCALE_KILL_AT=%d", at);
    snprintf(arguments, sizeof arguments, RUN " --out %s", place);
    int code = killable(text, sizeof text, variables, arguments);
    if (code == 0)
        return -1;
    assert_int_equal(code, 137);
    snprintf(runs, sizeof runs, "%s/%s", out, place);
    snprintf(run, sizeof run, "%s", run_in(runs));
    int had_last = path_exists(in_folder(run, LAST));
    twinscale_must("train --resume '%s'", run);
    assert_is_whole(run, at);
    int code_again = twinscale(text, sizeof text, "train --resume '%s'", run);
    assert_int_equal(code_again, 0);
    assert_non_null(strstr(text, "finished: "));
    assert_is_whole(run, at);
    return had_last;
}

static void test_a_run_killed_near_its_end_is_finished_by_a_resume(void **state)
{
    (void)state;
    int behind = 0, before = 0;
    for (int at = all_calls(); at > 0 && before < CALLS_BEFORE; at--) {
        int had_last = kill_and_resume(at);
        behind += had_last == 1;
        before += had_last == 0;
    }
    assert_true(behind >= 10); // the last grid and scales.png alone are that many calls
    assert_int_equal(before, CALLS_BEFORE);
}

static void test_an_old_snapshot_that_has_its_length_is_not_gone_back_to(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run_command(text, sizeof text,
                                 "cp -r '%s' '%s/longer' && cd '%s/longer' && "
                                 "sed -i '/\"finished\"/d' events.jsonl",
                                 whole, out, out),
                     0);
    twinscale_must("train --resume '%s/longer' --kimg 0.096", out);
    assert_int_equal(
        twinscale(text, sizeof text, "train --resume '%s/longer/" LAST "'", out), 0);
    assert_non_null(strstr(text, "finished: "));
    snprintf(text, sizeof text, "%s/longer", out);
    assert_true(path_exists(in_folder(text, "snapshot-000000.096.safetensors")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_killed_near_its_end_is_finished_by_a_resume),
        cmocka_unit_test(test_an_old_snapshot_that_has_its_length_is_not_gone_back_to),
    };
    return cmocka_run_group_tests(tests, make_whole_run, remove_runs);
}
