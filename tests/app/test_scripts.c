/* The shell scripts, run in a copy of their folders with blanks, a quote and a dollar in
 * its path, where apt-get, cmake, ctest and their like are small programs that write down
 * how they were called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/support.h"

#define OUTPUT_BYTES 16384

static char folder[1024];
static char in_quotes[2048]; // the folder, as it stands between a shell's single quotes
static char output[OUTPUT_BYTES]; // what the script printed
static char calls[OUTPUT_BYTES];  // what it called, a line each

// The programs that the scripts see besides the shell's own. LOG, MISSING and the like
// are variables that each test sets.
static const struct {
    const char *name, *text;
} fakes[] = {
    {"dpkg-query", "for package; do :; done\n"
                   "case \" $MISSING \" in *\" $package \"*) exit 1 ;; esac\n"
                   "printf installed\n"},
    {"apt-cache", "[ \"${KNOWN-yes}\" = yes ]\n"},
    {"apt-get", "echo \"apt-get $*\" >>\"$LOG\"\n"
                "case \"$*\" in *\"${FAILS-nothing at all}\"*) exit 100 ;; esac\n"},
    {"id", "echo \"${USER_ID-0}\"\n"},
    {"sudo", "echo sudo >>\"$LOG\"\nexec \"$@\"\n"},
    {"nproc", "echo 4\n"},
    {"pkg-config", "case \" $MISSING \" in *\" $2 \"*) exit 1 ;; esac\n"},
    {"cmake",
     "echo \"cmake $*\" >>\"$LOG\"\n"
     "case \"$*\" in *\"${FAILS-nothing at all}\"*) exit 1 ;; esac\n"
     "[ \"$1\" = --build ] || { mkdir -p \"$4\" && echo >\"$4/CMakeCache.txt\"; }\n"
     "[ \"$1\" != --build ] || ln -sf \"$BIN/twinscale\" \"$2/twinscale\"\n"},
    {"twinscale",
     "case \" $HAS \" in *\" ${TWINSCALE_ISA-none} \"*) echo \"cpu: X, $TWINSCALE_ISA, 2 "
     "threads\"; esac\n[ \"$1\" != info ] || exit 0\n"
     "echo twinscale >>\"$LOG\"\nfor word; do echo \"[$word]\" >>\"$LOG\"; done\n"
     "echo \"grid: here.png\"\n"},
    // Writes as many tests as RELEASE or SANITIZE have, as ctest does.
    {"ctest", "echo \"ctest $*\" >>\"$LOG\"\n"
              "[ -z \"${TWINSCALE_ISA-}\" ] || "
              "echo \"under $TWINSCALE_ISA $TWINSCALE_THREADS\" >>\"$LOG\"\n"
              "while [ \"$1\" != --output-junit ]; do shift; done\n"
              "case \"$2\" in *release*) counts=$RELEASE ;; *) counts=$SANITIZE ;; esac\n"
              "[ -n \"$counts\" ] || exit \"${CTEST_EXIT-0}\"\n"
              "eval \"$counts\"; left=$((tests - failures - disabled - skipped))\n"
              "several() { for i in $(seq \"$1\"); do\n"
              "    printf '	<testcase name=\"a\" status=\"%s\">\\n' \"$2\"\n"
              "    printf '		<system-out>x\\n</system-out>\\n	"
              "</testcase>\\n'; done; }\n"
              "{ several \"$left\" run; several \"$failures\" fail\n"
              "several \"$disabled\" disabled; several \"$skipped\" notrun; } >\"$2\"\n"
              "exit \"${CTEST_EXIT-0}\"\n"},
};

static void write_fake(const char *name, const char *text)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/bin/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s", text);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void put_in_quotes(void)
{
    size_t used = 0;
    for (const char *c = folder; *c; c++)
        used += (size_t)snprintf(in_quotes + used, sizeof in_quotes - used,
                                 *c == '\'' ? "'\\''" : "%c", *c);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("a b'c$d \xc3\xa9"));
    put_in_quotes();
    int status = run_command(
        output, sizeof output,
        "set -e; cd '%s'; mkdir bin tree tree/app tree/tests elsewhere\n"
        "cp '%s'/../app/install_packages.sh '%s'/../app/quickstart.sh tree/app\n"
        "cp '%s'/run.sh '%s'/count.awk tree/tests\n"
        "for tool in sh env dirname sed rm ln mkdir mktemp cat chmod awk sort uniq seq; "
        "do\n"
        "    ln -s \"$(command -v \"$tool\")\" bin; done\n",
        in_quotes, TESTS_IN_QUOTES, TESTS_IN_QUOTES, TESTS_IN_QUOTES, TESTS_IN_QUOTES);
    if (status != 0)
        fail_msg("%s", output);
    for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++)
        write_fake(fakes[i].name, fakes[i].text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

static void remove_fake(const char *name)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/bin/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* Runs a script of the copy from another folder, seeing the fakes only. `variables` are
 * shell assignments. Fills output and calls; returns the exit code. */
static int run_script(const char *variables, const char *script, const char *arguments)
{
    char log[OUTPUT_BYTES];
    int code =
        run_command(output, sizeof output,
                    "cd '%s/elsewhere'; rm -f ../log; %s\n"
                    "export MISSING KNOWN FAILS USER_ID RELEASE SANITIZE CTEST_EXIT HAS\n"
                    "unset ASAN_OPTIONS UBSAN_OPTIONS TWINSCALE_ISA TWINSCALE_THREADS\n"
                    "export LOG='%s/log' BIN='%s/bin' PATH='%s/bin'\n"
                    "sh '%s/tree/%s' %s",
                    in_quotes, variables, in_quotes, in_quotes, in_quotes, in_quotes,
                    script, arguments);
    calls[0] = '\0';
    if (run_command(log, sizeof log, "cat '%s/log' 2>/dev/null", in_quotes) == 0)
        snprintf(calls, sizeof calls, "%s", log);
    return code;
}

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" is not in:\n%s", words, text);
}

static const char *last_line(char *text)
{
    size_t length = strlen(text);
    while (length && text[length - 1] == '\n')
        text[--length] = '\0';
    char *start = strrchr(text, '\n');
    return start ? start + 1 : text;
}

#define DEFAULTS \
    "MISSING='' KNOWN=yes FAILS='nothing at all' USER_ID=0 CTEST_EXIT=0 HAS=''; "
#define INSTALL "app/install_packages.sh"

/* ---- packages -------------------------------------------------------------------- */

static void test_nothing_is_done_where_all_is_installed(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS, INSTALL, ""), 0);
    assert_string_equal(output, "");
    assert_string_equal(calls, "");
}

static void test_what_is_missing_is_said_and_installed_with_one_update(void **state)
{
    (void)state;
    const char *missing = DEFAULTS "MISSING='cmake libpng-dev libcmocka-dev'";
    assert_int_equal(run_script(missing, INSTALL, ""), 0);
    assert_has(output, "Installing, to build and run twinscale: cmake libpng-dev\n");
    assert_string_equal(calls, "apt-get -q update\n"
                               "apt-get -q install -y --no-install-recommends cmake "
                               "libpng-dev\n");
    assert_int_equal(run_script(missing, INSTALL, "--tests"), 0);
    assert_has(output, "twinscale and its tests: cmake libpng-dev libcmocka-dev\n");
}

static void test_sudo_is_used_only_by_those_who_are_not_root(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS "MISSING=cmake USER_ID=1000", INSTALL, ""), 0);
    assert_string_equal(calls, "sudo\napt-get -q update\nsudo\n"
                               "apt-get -q install -y --no-install-recommends cmake\n");
    assert_has(output, "sudo may ask for your password");

    remove_fake("sudo");
    assert_int_equal(run_script(DEFAULTS "MISSING=cmake USER_ID=1000", INSTALL, ""), 3);
    assert_string_equal(calls, "");
    assert_has(output, "Let root run:\n    apt-get install cmake\n");
}

static void
test_a_package_that_cannot_be_installed_stops_only_if_it_is_needed(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS "MISSING='cmake' FAILS=cmake", INSTALL, ""), 3);
    assert_has(output, "apt-get could not install: cmake");

    const char *optional =
        "MISSING='dataset-fashion-mnist fonts-dejavu-core' FAILS=dataset";
    char variables[256];
    snprintf(variables, sizeof variables, DEFAULTS "%s", optional);
    assert_int_equal(run_script(variables, INSTALL, ""), 0);
    assert_has(output, "Going on without dataset-fashion-mnist.");
    assert_has(calls, "install -y --no-install-recommends fonts-dejavu-core\n");
    snprintf(variables, sizeof variables, DEFAULTS "%s KNOWN=no", optional);
    assert_int_equal(run_script(variables, INSTALL, ""), 0);
    assert_string_equal(calls, "");
}

static void test_a_failed_update_is_told_and_the_old_lists_are_tried(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS "MISSING=cmake FAILS=update", INSTALL, ""), 0);
    assert_has(output, "apt-get update failed; going on");
    assert_has(calls, "install -y --no-install-recommends cmake\n");
}

static void test_a_system_without_apt_get_is_told_what_is_missing(void **state)
{
    (void)state;
    remove_fake("dpkg-query");
    assert_int_equal(run_script(DEFAULTS "MISSING='cairo cmocka'", INSTALL, ""), 3);
    assert_has(output, "programs: cc ninja\n");
    assert_has(output, "(pkg-config names): cairo\n");
    assert_int_equal(run_script(DEFAULTS "MISSING='cmocka'", INSTALL, "--tests"), 3);
    assert_has(output, "what is missing and its tests:");
    assert_has(output, "(pkg-config names): cmocka\n");

    write_fake("cc", "");
    write_fake("ninja", "");
    assert_int_equal(run_script(DEFAULTS, INSTALL, ""), 0);
    assert_string_equal(output, "");
}

static void test_an_unknown_option_of_the_installer_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS, INSTALL, "--all"), 2);
    assert_has(output, "\"--all\" is not an option; the only one is --tests");
}

/* ---- quickstart ------------------------------------------------------------------ */

static void test_quickstart_builds_and_hands_every_word_on(void **state)
{
    (void)state;
    char expected[8192];
    for (int turn = 0; turn < 2; turn++) { // twice, since an earlier build may be there
        assert_int_equal(
            run_script(DEFAULTS, "app/quickstart.sh", "--data 'my cats' --kimg 2"), 0);
        snprintf(
            expected, sizeof expected,
            "cmake -S %s/tree -B %s/tree/build%s\n"
            "cmake --build %s/tree/build --target twinscale --parallel 4\n"
            "twinscale\n[train]\n[--preset]\n[fmnist-quick]\n[--out]\n[%s/tree/outputs]\n"
            "[--data]\n[my cats]\n[--kimg]\n[2]\n",
            folder, folder, turn ? "" : " -G Ninja", folder, folder);
        assert_string_equal(calls, expected);
        assert_string_equal(output, "grid: here.png\n");
    }
}

static void test_quickstart_stops_where_the_build_fails(void **state)
{
    (void)state;
    assert_int_not_equal(run_script(DEFAULTS "FAILS=--build", "app/quickstart.sh", ""),
                         0);
    assert_null(strstr(calls, "[train]"));
}

static void test_quickstart_help_neither_installs_nor_builds(void **state)
{
    (void)state;
    assert_int_equal(run_script(DEFAULTS "MISSING=cmake", "app/quickstart.sh", "--help"),
                     0);
    assert_has(output, "usage: sh app/quickstart.sh");
    assert_string_equal(calls, "");
}

/* ---- the test runner ------------------------------------------------------------- */

#define COUNTS(tests, failures, disabled, skipped)                           \
    "'tests=\"" #tests "\" failures=\"" #failures "\" disabled=\"" #disabled \
    "\" skipped=\"" #skipped "\"'"

static void assert_closing_line(const char *variables, int code, const char *line)
{
    int got = run_script(variables, "tests/run.sh", "");
    char copy[OUTPUT_BYTES];
    snprintf(copy, sizeof copy, "%s", output);
    if (got != code || strcmp(last_line(copy), line) != 0)
        fail_msg("exit code %d, want %d with \"%s\":\n%s", got, code, line, output);
}

static void test_the_runner_closes_with_the_counts_of_both_builds(void **state)
{
    (void)state;
    assert_closing_line(DEFAULTS
                        "RELEASE=" COUNTS(5, 0, 0, 1) " SANITIZE=" COUNTS(5, 0, 1, 1),
                        0, "7 passed, 0 failed, 3 skipped");
    assert_has(calls, "-DTWINSCALE_WERROR=ON\n");
    assert_has(calls, "-DTWINSCALE_SANITIZE=ON -DTWINSCALE_CUDA=OFF\n");
    assert_closing_line(DEFAULTS "CTEST_EXIT=8 RELEASE=" COUNTS(
                            5, 2, 0, 1) " SANITIZE=" COUNTS(12, 1, 0, 0),
                        1, "13 passed, 3 failed, 1 skipped");
}

static void test_the_runner_never_takes_nothing_for_a_success(void **state)
{
    (void)state;
    // No test at all, no results file, an exit code that the counts do not explain.
    assert_closing_line(DEFAULTS
                        "RELEASE=" COUNTS(0, 0, 0, 0) " SANITIZE=" COUNTS(4, 0, 0, 0),
                        1, "4 passed, 1 failed, 0 skipped");
    assert_closing_line(DEFAULTS "RELEASE='' SANITIZE=" COUNTS(4, 0, 0, 0), 1,
                        "4 passed, 1 failed, 0 skipped");
    assert_closing_line(DEFAULTS "CTEST_EXIT=8 RELEASE=" COUNTS(
                            3, 0, 0, 0) " SANITIZE=" COUNTS(4, 0, 0, 0),
                        1, "7 passed, 2 failed, 0 skipped");
}

static void
test_a_build_that_fails_counts_as_failed_and_the_other_still_runs(void **state)
{
    (void)state;
    assert_closing_line(DEFAULTS "FAILS=-DTWINSCALE_WERROR=ON RELEASE=" COUNTS(
                            9, 0, 0, 0) " SANITIZE=" COUNTS(4, 0, 0, 0),
                        1, "4 passed, 1 failed, 0 skipped");
    assert_has(output, "tests-release: does not build");
}

static void test_leaks_are_looked_for_only_where_that_works(void **state)
{
    (void)state;
    const char *counts =
        DEFAULTS "RELEASE=" COUNTS(1, 0, 0, 0) " SANITIZE=" COUNTS(1, 0, 0, 0);
    write_fake("cc", "while [ \"$1\" != -o ]; do shift; done\n"
                     "printf '#!/bin/sh\\nexit 1\\n' >\"$2\"; chmod +x \"$2\"\n");
    assert_closing_line(counts, 0, "2 passed, 0 failed, 0 skipped");
    assert_has(output, "LeakSanitizer does not work here");
    write_fake("cc", "while [ \"$1\" != -o ]; do shift; done\n"
                     "printf '#!/bin/sh\\nexit 0\\n' >\"$2\"; chmod +x \"$2\"\n");
    assert_closing_line(counts, 0, "2 passed, 0 failed, 0 skipped");
    assert_null(strstr(output, "LeakSanitizer"));
}

/* Lines of `calls` that begin with the words. */
static int called(const char *words)
{
    int count = 0;
    for (const char *at = calls; (at = strstr(at, words)); at++)
        count += at == calls || at[-1] == '\n';
    return count;
}

static void
test_the_suite_runs_under_each_instruction_set_on_one_two_and_four(void **state)
{
    (void)state;
    const char *variables = DEFAULTS "HAS='c avx2' RELEASE=" COUNTS(5, 0, 0, 1);
    assert_int_equal(run_script(variables, "tests/run.sh", "--isa all"), 0);
    // What this CPU and every emulator here lack is counted, and named before the counts.
    assert_has(output,
               "avx512 on 4 thread(s): skipped, neither this CPU nor an emulator\x20"
               "has it\navx512-bf16 on 1 thread(s): skipped");
    assert_string_equal(last_line(output), "24 passed, 0 failed, 12 skipped");
    assert_int_equal(called("under c "), 3);
    assert_int_equal(called("under avx2 4"), 1);
    assert_int_equal(called("under "), 6);
    assert_null(strstr(calls, "SANITIZE"));

    assert_int_equal(run_script(variables, "tests/run.sh", "--isa c --threads 2 -R x"),
                     0);
    assert_int_equal(called("under c 2"), 1);
    assert_int_equal(called("under "), 1);
    assert_has(calls, " -R x\n");
}

static void test_one_of_them_follows_by_turns(void **state)
{
    (void)state;
    const char *variables = DEFAULTS
        "HAS='c avx2' RELEASE=" COUNTS(5, 0, 0, 1) " SANITIZE=" COUNTS(5, 0, 0, 1);
    assert_int_equal(run_script(variables, "tests/run.sh", "--turn 124"),
                     0); // 12 x 10 + 4
    assert_has(output, "again: sh tests/run.sh --isa avx2 --threads 2\n");
    assert_int_equal(called("under avx2 2"), 1);
    assert_int_equal(called("under "), 1);
    assert_string_equal(last_line(output), "12 passed, 0 failed, 3 skipped");
}

static void test_what_no_cpu_has_is_refused_before_anything_is_built(void **state)
{
    (void)state;
    static const char *const wrong[] = {"--isa sse9", "--isa c --threads 3", "--turn x",
                                        "--isa"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_script(DEFAULTS, "tests/run.sh", wrong[i]), 2);
        assert_has(output, "tests/run.sh: --");
        assert_string_equal(calls, "");
    }
}

static void test_the_runner_stops_where_a_package_is_missing(void **state)
{
    (void)state;
    int code = run_script(DEFAULTS "MISSING=xdotool FAILS=xdotool", "tests/run.sh", "");
    assert_int_equal(code, 3);
    assert_null(strstr(calls, "cmake"));
}

#define SCRIPT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(test_nothing_is_done_where_all_is_installed),
        SCRIPT_TEST(test_what_is_missing_is_said_and_installed_with_one_update),
        SCRIPT_TEST(test_sudo_is_used_only_by_those_who_are_not_root),
        SCRIPT_TEST(test_a_package_that_cannot_be_installed_stops_only_if_it_is_needed),
        SCRIPT_TEST(test_a_failed_update_is_told_and_the_old_lists_are_tried),
        SCRIPT_TEST(test_a_system_without_apt_get_is_told_what_is_missing),
        SCRIPT_TEST(test_an_unknown_option_of_the_installer_is_refused),
        SCRIPT_TEST(test_quickstart_builds_and_hands_every_word_on),
        SCRIPT_TEST(test_quickstart_stops_where_the_build_fails),
        SCRIPT_TEST(test_quickstart_help_neither_installs_nor_builds),
        SCRIPT_TEST(test_the_runner_closes_with_the_counts_of_both_builds),
        SCRIPT_TEST(test_the_runner_never_takes_nothing_for_a_success),
        SCRIPT_TEST(test_a_build_that_fails_counts_as_failed_and_the_other_still_runs),
        SCRIPT_TEST(test_leaks_are_looked_for_only_where_that_works),
        SCRIPT_TEST(test_the_suite_runs_under_each_instruction_set_on_one_two_and_four),
        SCRIPT_TEST(test_one_of_them_follows_by_turns),
        SCRIPT_TEST(test_what_no_cpu_has_is_refused_before_anything_is_built),
        SCRIPT_TEST(test_the_runner_stops_where_a_package_is_missing),
    };
    return cmocka_run_group_tests_name("scripts", tests, NULL, NULL);
}
