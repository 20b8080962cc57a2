/* test_main.c - what holds for every command: standard output that cannot be written, and
 * limits of the system, are a sentence and an exit code. */
#include <stdio.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

#define SHORT SMALL_RUN " --threads 1 --kimg 0.032"

static char run[700];

static int make_run(void **state)
{
    char out[600];
    open_test_folder(state);
    snprintf(out, sizeof out, "%s/runs", test_folder);
    twinscale_must("train " SHORT " --out '%s'", out);
    snprintf(run, sizeof run, "%s", run_in(out));
    return 0;
}

// With $T the program, $R a run, in the folder of the test.
static int in_folder(char *text, size_t bytes, const char *before, const char *arguments,
                     const char *after)
{
    return run_command(text, bytes, "T='%s'; R='%s'; cd '%s' && { %s \"$T\" %s %s; }",
                       TWINSCALE_PROGRAM, run, test_folder, before, arguments, after);
}

static void expect(int code, int expected, const char *text, const char *words)
{
    if (code != expected || !strstr(text, words))
        fail_msg("exit %d, expected %d with \"%s\" in: %s", code, expected, words, text);
}

static const char *const printing[] = {
    "--help",
    "--version",
    "help info",
    "train --help",
    "sample --help",
    "info --help",
    "ctl --help",
    "data --help",
    "bench --help",
    "train -n " SHORT,
    "train --out full " SHORT,
    "train --resume \"$R\"",
    "sample \"$R\" -o full.png --force",
    "info \"$R\"",
    "info \"$R\" --digest",
    "info --devices",
    "info --precision",
    "data check builtin:shapes",
    "bench layers --resolution 28 --seconds 0.01 --threads 1",
    "bench precision --seconds 0.01 --out full " SHORT,
};

static void test_no_command_succeeds_when_its_output_cannot_be_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof printing / sizeof *printing; i++) {
        char text[16384];
        int code = in_folder(text, sizeof text, "", printing[i], ">/dev/full");
        expect(code, 1, text, "twinscale: standard output: could not be written");
        expect(in_folder(text, sizeof text, "", printing[i], ">/dev/null"), 0, text, "");
    }
}

static void test_what_a_closed_output_would_have_got_goes_into_no_file(void **state)
{
    (void)state;
    char text[8192];
    int code = in_folder(text, sizeof text, "", "train --out closed " SHORT, ">&- 2>&-");
    expect(code, 1, text, "");
    code = run_command(text, sizeof text,
                       "cd '%s'/closed/0* && cat *.jsonl | grep -v '^{'; grep -c '^run ' "
                       "log.txt",
                       test_folder);
    expect(code, 0, text, "");
    assert_string_equal(text, "1\n");
    expect(in_folder(text, sizeof text, "", "info closed/0* --digest", ""), 0, text, "");
}

static void test_a_reader_that_goes_away_does_not_end_a_run(void **state)
{
    (void)state;
    char text[8192];
    int code = in_folder(text, sizeof text, "{", "train --out pipe " SHORT,
                         "2>&1; echo $? >code; } | head -n 1; sed s/^/code:/ code");
    expect(code, 0, text, "code:1\n");
    code = in_folder(text, sizeof text, "", "info pipe/0*", "");
    expect(code, 0, text, "0.032");
}

static void test_a_limit_on_file_sizes_ends_no_command_without_a_sentence(void **state)
{
    (void)state;
    char text[8192];
    const char *const writing[] = {
        "train --out limit " SHORT,
        "sample \"$R\" -o limit.png",
        "bench layers --resolution 28 --seconds 0.01 --threads 1 --json limit.json",
        "bench precision --seconds 0.01 --out limit " SHORT,
    };
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
        int code = in_folder(text, sizeof text, "( ulimit -f 0; exec", writing[i], ")");
        expect(code, 1, text, "File too large");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_command_succeeds_when_its_output_cannot_be_written),
        cmocka_unit_test(test_what_a_closed_output_would_have_got_goes_into_no_file),
        cmocka_unit_test(test_a_reader_that_goes_away_does_not_end_a_run),
        cmocka_unit_test(test_a_limit_on_file_sizes_ends_no_command_without_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_run, close_test_folder);
}
