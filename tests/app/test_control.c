/* test_control.c - `twinscale ctl` and its socket: the real program, runs that were
 * killed, long paths, silent clients. */
#include "app/live/control.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/config/config.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("control"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* ---- the real program -------------------------------------------------------------- */

// Starts a run in `out`, does `then` once it has stepped ($RUN, $T), and ends it by
// `signal`.
static int while_it_runs(char *text, size_t bytes, const char *flags, const char *then,
                         const char *signal)
{
    return run_command(
        text, bytes,
        "T='%s'; \"$T\" train " SMALL_RUN " --out '%s' --kimg 6400 %s >/dev/null 2>&1 "
        "& pid=$!; n=0; while [ ! -s '%s'/0*/stats.jsonl ] && [ $n -lt 12000 ]; do sleep "
        "0.05; n=$((n+1)); done; RUN=$(echo '%s'/0*); %s; code=$?; kill -%s $pid; wait "
        "$pid; exit $code",
        TWINSCALE_PROGRAM, out, flags, out, out, then, signal);
}

static int count(const char *file, const char *pattern)
{
    char text[64];
    (void)run_command(text, sizeof text, "grep -c '%s' '%s/%s'", pattern, run_in(out),
                      file);
    return atoi(text);
}

static void test_a_change_is_told_logged_and_kept_by_resume(void **state)
{
    (void)state;
    char text[16384];
    int code = while_it_runs(text, sizeof text, "",
                             "\"$T\" ctl \"$RUN\" g.growth_interval=777 d.max_scale=512",
                             "TERM");
    if (code != 0 || !strstr(text, "g.growth_interval: was 2000, is now 777\n") ||
        !strstr(text, "1024 is above its maximum and becomes 512"))
        fail_msg("exit %d: %s", code, text);
    assert_int_equal(count("log.txt", "g.growth_interval: was 2000, is now 777"), 1);
    assert_int_equal(count("events.jsonl",
                           "\"event\":\"change\",\"net\":\"G\",\"key\":\"g."
                           "growth_interval\",\"before\":\"2000\","
                           "\"after\":\"777\""),
                     1);
    assert_int_equal(count("events.jsonl",
                           "\"key\":\"d.max_scale\".*\"scale_before\":1024.0"
                           ",\"scale_after\":512.0"),
                     1);
    // Nothing is left of the socket, and the snapshot holds both changes.
    assert_int_equal(
        run_command(text, sizeof text, "test ! -e '%s/control'", run_in(out)), 0);
    assert_int_equal(twinscale(text, sizeof text, "train --resume '%s' -n", run_in(out)),
                     0);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "777"));
    assert_non_null(strstr(text, "scale 2^9"));
}

static void test_alone_it_lists_and_a_refusal_is_code_2(void **state)
{
    (void)state;
    char text[16384];
    int code = while_it_runs(text, sizeof text, "",
                             "\"$T\" ctl \"$RUN\"; \"$T\" ctl \"$RUN\" d.scal=5; test $? "
                             "= 2 || exit 99; \"$T\" "
                             "ctl \"$RUN\" g.lr=7; test $? = 2",
                             "TERM");
    if (code != 0 || !strstr(text, "g.lr=0.0002\n") || !strstr(text, "d.scale=1024\n") ||
        !strstr(text, "did you mean d.scale?") || !strstr(text, "is out of range"))
        fail_msg("exit %d: %s", code, text);
    assert_int_equal(count("events.jsonl", "\"change\""), 0);
}

static void test_a_pause_holds_until_resume_and_stop_ends_with_a_snapshot(void **state)
{
    (void)state;
    char text[16384];
    // The loops end as soon as what they wait for is there; a run that hangs ends them at
    // 12000.
    int code = while_it_runs(
        text, sizeof text, "",
        "\"$T\" ctl \"$RUN\" pause || exit 90; \"$T\" ctl \"$RUN\" pause || exit 91; "
        "a=$(\"$T\" ctl \"$RUN\" | head -n 1); sleep 0.3; "
        "b=$(\"$T\" ctl \"$RUN\" | head -n 1); echo \"$a\"; test \"$a\" = \"$b\" || exit "
        "92; "
        "\"$T\" ctl \"$RUN\" save || exit 93; "
        "\"$T\" ctl \"$RUN\" pause d.scale=5 && exit 94; "
        "\"$T\" ctl \"$RUN\" snap=50 kimg=6500 grad_stats=1000 || exit 95; "
        "\"$T\" ctl \"$RUN\" kimg=0.016 && exit 96; "
        "\"$T\" ctl \"$RUN\" resume || exit 97; n=0; "
        "while test \"$(\"$T\" ctl \"$RUN\" | sed -n 's/.* at step/step/p')\" = "
        "\"${b#* at }\" && [ $n -lt 12000 ]; do sleep 0.05; n=$((n+1)); done; "
        "test $n -lt 12000 || exit 98; \"$T\" ctl \"$RUN\" stop || exit 99; wait $pid",
        "0");
    if (code != 0 || !strstr(text, "paused at ") || !strstr(text, "already paused at ") ||
        !strstr(text, "paused at step ") || !strstr(text, "saved ") ||
        !strstr(text, "training goes on at ") || !strstr(text, "stops at ") ||
        !strstr(text, "kimg: was 6400, is now 6500\nsnap: was 20, is now 50\n") ||
        !strstr(text, "has passed, the run is at"))
        fail_msg("exit %d: %s", code, text);
    assert_int_equal(count("log.txt", "stopped at "), 1);
    assert_int_equal(count("events.jsonl", "\"change\",\"key\":\"kimg\""), 1);
    assert_int_equal(twinscale(text, sizeof text, "info '%s'", run_in(out)), 0);
    assert_non_null(strstr(text, "6500"));
}

static void test_a_killed_run_is_told_and_its_socket_replaced(void **state)
{
    (void)state;
    char text[16384];
    (void)while_it_runs(text, sizeof text, "", "true", "KILL");
    assert_int_equal(run_command(text, sizeof text, "test -S '%s/control'", run_in(out)),
                     0);
    assert_int_equal(twinscale(text, sizeof text, "ctl '%s' g.lr=0.1", run_in(out)), 2);
    assert_non_null(strstr(text, "no run is going on there"));
    char run[600];
    snprintf(run, sizeof run, "%s", run_in(out));
    int code = run_command(
        text, sizeof text,
        "'%s' train --resume '%s' --preview off >/dev/null 2>&1 & pid=$!; n=0; "
        "while "
        "! '%s' ctl '%s' g.lr=0.001 && [ $n -lt 12000 ]; do sleep 0.05; n=$((n+1)); "
        "done; "
        "kill -TERM $pid; wait $pid",
        TWINSCALE_PROGRAM, run, TWINSCALE_PROGRAM, run);
    if (code != 0 || !strstr(text, "g.lr: was 0.0002, is now 0.001"))
        fail_msg("exit %d: %s", code, text);
}

static void test_wrong_use_of_ctl_has_its_sentences(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(twinscale(text, sizeof text, "ctl"), 2);
    assert_non_null(strstr(text, "expected the folder of a run"));
    assert_int_equal(twinscale(text, sizeof text, "ctl --fast"), 2);
    assert_non_null(strstr(text, "no such option"));
    assert_int_equal(twinscale(text, sizeof text, "ctl '%s/nowhere'", out), 2);
    assert_non_null(strstr(text, "No such file or directory"));
    assert_int_equal(twinscale(text, sizeof text, "ctl '%s' g.lr=1", out), 2);
    assert_non_null(strstr(text, "no run is going on there"));
    assert_int_equal(
        twinscale(text, sizeof text, "ctl '%s' $(printf 'g.lr=%%05000d' 1)", out), 2);
    assert_non_null(strstr(text, "more than 1023 bytes"));
    assert_int_equal(twinscale(text, sizeof text, "ctl --help"), 0);
    assert_non_null(strstr(text, "g.growth_interval=500"));
}

/* ---- the socket -------------------------------------------------------------------- */

struct asker {
    pthread_t thread;
    char folder[1200], answer[CONTROL_BYTES], message[512];
    enum status status;
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    asker->status = control_ask(asker->folder, "hello", asker->answer);
    snprintf(asker->message, sizeof asker->message, "%s", status_message());
    return NULL;
}

static const char *wait_for_request(struct control *control)
{
    const char *request = NULL;
    for (int i = 0; i < 60000 && !(request = control_take(control)); i++)
        usleep(10000);
    return request;
}

static void test_a_folder_with_a_path_beyond_107_bytes_is_reached(void **state)
{
    (void)state;
    static struct asker asker;
    struct monitor *monitor = monitor_create();
    struct control *control;
    char text[256];
    snprintf(asker.folder, sizeof asker.folder, "%s/%0120d/%0120d", out, 1, 2);
    assert_int_equal(run_command(text, sizeof text, "mkdir -p '%s'", asker.folder), 0);
    assert_int_equal(control_open(asker.folder, monitor, &control), STATUS_OK);
    assert_null(control_take(control));
    pthread_create(&asker.thread, NULL, ask, &asker);
    const char *request = wait_for_request(control);
    assert_non_null(request);
    assert_string_equal(request, "hello");
    assert_int_equal(monitor_take_requests(monitor), REQUEST_CONTROL);
    control_answer(control, STATUS_OK, "good day");
    pthread_join(asker.thread, NULL);
    assert_int_equal(asker.status, STATUS_OK);
    assert_string_equal(asker.answer, "good day");
    control_close(control);
    monitor_destroy(monitor);
}

static void test_who_waits_when_a_run_ends_is_told(void **state)
{
    (void)state;
    static struct asker asker;
    struct monitor *monitor = monitor_create();
    struct control *control;
    snprintf(asker.folder, sizeof asker.folder, "%s", out);
    assert_int_equal(control_open(out, monitor, &control), STATUS_OK);
    pthread_create(&asker.thread, NULL, ask, &asker);
    assert_non_null(wait_for_request(control));
    control_close(control);
    pthread_join(asker.thread, NULL);
    assert_int_equal(asker.status, STATUS_USAGE);
    assert_string_equal(asker.message, "the run has ended; nothing is changed");
    monitor_destroy(monitor);
}

static void test_a_folder_that_takes_no_socket_is_a_sentence(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    struct control *control = NULL;
    assert_int_equal(control_open("/proc/self", monitor, &control), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "the run goes on"));
    assert_null(control);
    control_close(control);
    monitor_destroy(monitor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_change_is_told_logged_and_kept_by_resume,
                                        enter, leave),
        cmocka_unit_test_setup_teardown(test_alone_it_lists_and_a_refusal_is_code_2,
                                        enter, leave),
        cmocka_unit_test_setup_teardown(
            test_a_pause_holds_until_resume_and_stop_ends_with_a_snapshot, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_killed_run_is_told_and_its_socket_replaced,
                                        enter, leave),
        cmocka_unit_test_setup_teardown(test_wrong_use_of_ctl_has_its_sentences, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(
            test_a_folder_with_a_path_beyond_107_bytes_is_reached, enter, leave),
        cmocka_unit_test_setup_teardown(test_who_waits_when_a_run_ends_is_told, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(test_a_folder_that_takes_no_socket_is_a_sentence,
                                        enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
