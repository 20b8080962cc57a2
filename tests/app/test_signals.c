/* test_signals.c - what each signal does to the program, in set-up and while it
 * trains. */
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/signals.h"
#include "tests/app/make_png.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

// A run that goes on until it is ended; its steps take milliseconds.
#define ENDLESS SMALL_RUN " --threads 1 --kimg 6400000 --snap 6400000"

static int run_in_folder(char *text, size_t bytes, const char *script)
{
    return run_command(text, bytes, WAIT_FOR "T='%s'; R='%s'; cd '%s' && { %s; }",
                       TWINSCALE_PROGRAM, CPU_RANKS, test_folder, script);
}

static void must(int code, int expected, const char *text)
{
    if (code != expected)
        fail_msg("exit %d, expected %d: %s", code, expected, text);
}

static void says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("expected \"%s\" in: %s", words, text);
}

/* ---- while it trains ------------------------------------------------------------- */

static void test_every_signal_that_foretells_the_end_saves_and_ends_with_0(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *name, *request;
    } rows[] = {
#define X(number, name, request, help) {number, name, #request},
        SIGNALS_TABLE(X)
#undef X
    };
    int tried = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char script[1024], text[8192], line[64];
        if (strcmp(rows[i].request, "QUIT") != 0)
            continue;
        tried++;
        snprintf(script, sizeof script,
                 "rm -rf runs; { \"$T\" train " ENDLESS " --out runs >log 2>&1 & }; "
                 "pid=$!; wait_for '[ -s runs/0*/stats.jsonl ]'; kill -%d $pid; "
                 "wait $pid; code=$?; cat log; ls runs/0*; exit $code",
                 rows[i].number);
        must(run_in_folder(text, sizeof text, script), 0, text);
        snprintf(line, sizeof line, "%s: stopping after this step, then saving",
                 rows[i].name);
        says(text, line);
        says(text, "go on with: twinscale train --resume");
        says(text, "checkpoint: runs/");
        assert_null(strstr(text, "\ncontrol\n")); // of the folder's files
        char folder[600];
        snprintf(folder, sizeof folder, "%s/runs", test_folder);
        assert_true(facts_of(run_in(folder)).step > 0);
    }
    assert_int_equal(tried, 6);
}

static void test_the_limit_of_cpu_time_saves_and_ends_with_0(void **state)
{
    (void)state;
    char text[8192];
    must(run_in_folder(text, sizeof text,
                       "ulimit -S -t 2; \"$T\" train " ENDLESS " --out cpu"),
         0, text);
    says(text, "SIGXCPU: stopping after this step, then saving");
    says(text, "stopped at ");
}

static void test_a_terminal_that_is_closed_loses_no_work(void **state)
{
    (void)state;
    char out[600], ticks[700], text[64];
    snprintf(out, sizeof out, "%s/closed", test_folder);
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) {
        char line[4096];
        snprintf(line, sizeof line, "exec '%s' train " ENDLESS " --out '%s'",
                 TWINSCALE_PROGRAM, out);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    snprintf(ticks, sizeof ticks,
             WAIT_FOR "cd '%s' && wait_for '[ -s closed/0*/stats.jsonl ]'", test_folder);
    assert_int_equal(run_command(text, sizeof text, "%s", ticks), 0);
    close(terminal);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    // The results went to a terminal that is gone, which is no success for a script.
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 1);
    const char *run = run_in(out);
    assert_true(facts_of(run).step > 0);
    assert_true(lines_with(run, "log.txt", "stopped at ") == 1);
}

static void test_nohup_leaves_a_closed_terminal_without_effect(void **state)
{
    (void)state;
    char text[8192];
    must(run_in_folder(text, sizeof text,
                       "{ nohup \"$T\" train " ENDLESS " --out nohup >log 2>&1 & }; "
                       "pid=$!; wait_for '[ -s nohup/0*/stats.jsonl ]'; kill -HUP $pid; "
                       "ticks=$(count 'nohup/0*/stats.jsonl'); "
                       "wait_for '[ $(count \"nohup/0*/stats.jsonl\") -gt $ticks ]'; "
                       "went=$?; kill -TERM $pid; wait $pid || exit 98; cat log; "
                       "exit $went"),
         0, text);
    assert_null(strstr(text, "SIGHUP"));
}

// The step that is begun would take many minutes.
#define ONE_STEP                                                                   \
    "--data builtin:shapes --resolution 64 --g-width 64 --d-width 64 --batch 128 " \
    "--n-dis 100 --preview off --grid 2x2 --threads 1 --kimg 6400000"

static void
test_ctrl_c_is_answered_while_a_step_runs_and_the_second_says_what_is_lost(void **state)
{
    (void)state;
    char text[8192];
    must(run_in_folder(
             text, sizeof text,
             "{ \"$T\" train " ONE_STEP " --out step >log 2>&1 & }; pid=$!; "
             "wait_for '[ -S step/0*/control ]' && "
             "wait_for '[ -e step/0*/snapshot-000000.safetensors ]'; kill -INT $pid; "
             "wait_for 'grep -q again log' || exit 99; kill -TERM $pid; "
             "kill -0 $pid || exit 97; kill -INT $pid; wait $pid; code=$?; cat log; "
             "ls step/0*; exit $code"),
         130, text);
    says(text, "Ctrl-C: stopping after this step, then saving; Ctrl-C again ends at "
               "once, without saving\n");
    says(text,
         "twinscale: ended without saving: 0.000 kimg since the newest snapshot are "
         "lost; go on from it with: twinscale train --resume step/");
    says(text, "\nsnapshot-000000.safetensors\n");
    assert_null(strstr(text, "\ncontrol\n"));
}

/* ---- in set-up ------------------------------------------------------------------- */

static unsigned noise(int x, int y, int c)
{
    return (unsigned)(x * 7919 + y * 104729 + c * 31) * 2654435761u >> 24;
}

// A folder whose pictures take minutes to read.
static void make_slow_data(void)
{
    char path[600], text[256];
    snprintf(path, sizeof path, "%s/big.png", test_folder);
    write_png(path, 1500, 1500, 2, noise);
    must(run_in_folder(text, sizeof text,
                       "mkdir slow && n=0 && while [ $n -lt 3000 ]; do "
                       "ln -s ../big.png slow/$n.png; n=$((n+1)); done"),
         0, text);
}

// $OUT is not made and nothing else either; the program is ended while it does
// `arguments`.
static void expect_end_in_set_up(const char *arguments)
{
    char script[2048], text[8192];
    snprintf(script, sizeof script,
             "rm -rf none; { \"$T\" %s --threads 1 >log 2>&1 & }; pid=$!; "
             "wait_for '[ \"$(ls -l /proc/$pid/task | wc -l)\" -gt 2 ]'; "
             "kill -TERM $pid; wait $pid; code=$?; cat log; [ ! -e none ] || exit 99; "
             "[ -z \"$(ls -A | grep part)\" ] || exit 98; exit $code",
             arguments);
    must(run_in_folder(text, sizeof text, script), 130, text);
    says(text, "twinscale: ended by SIGTERM during set-up; nothing was written\n");
}

static void test_set_up_ends_at_once_and_leaves_nothing(void **state)
{
    (void)state;
    make_slow_data();
    expect_end_in_set_up("train --preview off --resolution 32 --data slow --out none");
    expect_end_in_set_up("train --preview off --resolution 32 --data slow -n --out none");
    expect_end_in_set_up("bench scaler --resolution 32 --data slow --out none");
    expect_end_in_set_up("bench precision --resolution 32 --data slow --out none");
    expect_end_in_set_up("bench layers --resolution 32 --data slow --json x.json");
    // Steps that measure the scale, before there is a folder.
    expect_end_in_set_up("train " ONE_STEP
                         " --g-init-scale auto --precision fp16 --out none");
}

static void test_other_commands_end_by_the_signal(void **state)
{
    (void)state;
    char text[8192];
    int code = run_in_folder(text, sizeof text,
                             "{ \"$T\" data check slow >log 2>&1 & }; pid=$!; "
                             "kill -TERM $pid; wait $pid");
    must(code, 128 + SIGTERM, text);
}

static void test_ranks_in_set_up_end_with_the_first(void **state)
{
    (void)state;
    char text[8192];
    must(run_in_folder(
             text, sizeof text,
             "rm -rf none; { \"$R\" train --preview off --resolution 32 --batch 8 --gpus "
             "2 "
             "--data slow --threads 1 --out none >log 2>&1 & }; pid=$!; "
             "wait_for '[ -n \"$(pgrep -P $pid)\" ]'; child=$(pgrep -P $pid); "
             "kill -INT $pid; wait $pid; code=$?; wait_for '! kill -0 $child 2>/dev/null'"
             "; cat log; [ ! -e none ] || exit 99; exit $code"),
         130, text);
    says(text, "ended by Ctrl-C during set-up; nothing was written\n");
    assert_null(strstr(text, "gave no reason"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_signal_that_foretells_the_end_saves_and_ends_with_0),
        cmocka_unit_test(test_the_limit_of_cpu_time_saves_and_ends_with_0),
        cmocka_unit_test(test_a_terminal_that_is_closed_loses_no_work),
        cmocka_unit_test(test_nohup_leaves_a_closed_terminal_without_effect),
        cmocka_unit_test(
            test_ctrl_c_is_answered_while_a_step_runs_and_the_second_says_what_is_lost),
        cmocka_unit_test(test_set_up_ends_at_once_and_leaves_nothing),
        cmocka_unit_test(test_other_commands_end_by_the_signal),
        cmocka_unit_test(test_ranks_in_set_up_end_with_the_first),
    };
    return cmocka_run_group_tests(tests, open_test_folder, close_test_folder);
}
