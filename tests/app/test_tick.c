/* test_tick.c - numbers that are right, lines that a person reads at a glance. */
#include "tests/support/support.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/record/tick.h"
#include "kernels/base/process.h"
#include "kernels/base/text.h"
#include "app/files/terminal.h"
#include "kernels/base/status.h"
#include "tests/app/disk.h"

/* ---- statistics ------------------------------------------------------------------ */

static void test_mean_and_deviation_are_those_of_the_population(void **state)
{
    (void)state;
    struct statistic statistic = {0};
    static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    for (int i = 0; i < 8; i++)
        statistic_add(&statistic, values[i]);
    assert_int_equal(statistic.num, 8);
    assert_true(statistic_mean(&statistic) == 5.0);
    assert_true(statistic_std(&statistic) == 2.0);

    struct statistic by_sums = {0};
    statistic_add_sums(&by_sums, 3, 10, 36);
    statistic_add_sums(&by_sums, 5, 30, 196);
    assert_memory_equal(&by_sums, &statistic, sizeof statistic);
}

static void test_one_value_has_no_deviation_and_none_has_no_mean(void **state)
{
    (void)state;
    struct statistic one = {0}, none = {0}, equal = {0}, infinite = {0};
    statistic_add(&one, 0.1);
    assert_true(statistic_mean(&one) == 0.1);
    assert_true(statistic_std(&one) == 0.0);
    assert_true(isnan(statistic_mean(&none)));
    assert_true(isnan(statistic_std(&none)));
    for (int i = 0; i < 1000; i++) // rounding must not make a root of less than nothing
        statistic_add(&equal, 0.1);
    assert_true(statistic_std(&equal) >= 0.0 && statistic_std(&equal) < 1e-6);
    statistic_add(&infinite, (double)INFINITY);
    statistic_add(&infinite, 1.0);
    assert_true(statistic_mean(&infinite) == 1.0);
    assert_true(statistic_std(&infinite) == 0.0);
}

/* ---- numbers for people ---------------------------------------------------------- */

static void test_durations_read_like_speech(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {0.4, "0s"},
        {59.4, "59s"},
        {59.6, "1m 00s"},
        {123, "2m 03s"},
        {3599, "59m 59s"},
        {3600, "1h 00m 00s"},
        {5901, "1h 38m 21s"},
        {86399, "23h 59m 59s"},
        {86400, "1d 00h"},
        {273600, "3d 04h"},
        {1e300, "9999999d 00h"},
        {-1, "?"},
        {(double)NAN, "?"},
        {(double)INFINITY, "?"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(duration_text(cases[i].seconds, text, sizeof text),
                            cases[i].text);
}

static void test_scales_are_powers_of_two_where_they_can_be(void **state)
{
    (void)state;
    static const struct {
        float scale;
        const char *text;
    } cases[] = {
        {65536.0f, "2^16"},      {1.0f, "2^0"},         {0.25f, "2^-2"},
        {0x1p127f, "2^127"},     {0x1p-149f, "2^-149"}, {1000.0f, "1000"},
        {65535.0f, "6.554e+04"}, {0.0f, "0"},           {-2.0f, "-2"},
        {INFINITY, "inf"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(scale_text(cases[i].scale, text, sizeof text), cases[i].text);
    assert_non_null(strstr(scale_text(NAN, text, sizeof text), "nan"));
}

static void test_counts_and_rates_have_separators(void **state)
{
    (void)state;
    char text[32];
    static const struct {
        int64_t count;
        const char *text;
    } counts[] = {{0, "0"},
                  {999, "999"},
                  {1000, "1,000"},
                  {-123456, "-123,456"},
                  {1234567, "1,234,567"},
                  {INT64_MIN, "-9,223,372,036,854,775,808"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_string_equal(count_text(counts[i].count, text, sizeof text),
                            counts[i].text);
    assert_string_equal(rate_text(0.0, text, sizeof text), "0.0");
    assert_string_equal(rate_text(99.94, text, sizeof text), "99.9");
    assert_string_equal(rate_text(99.96, text, sizeof text), "100");
    assert_string_equal(rate_text(1234.5, text, sizeof text), "1,235");
    assert_string_equal(rate_text((double)NAN, text, sizeof text), "?");
    assert_string_equal(rate_text((double)INFINITY, text, sizeof text), "?");
}

/* ---- the tick line --------------------------------------------------------------- */

static struct tick example(void)
{
    struct tick tick = {.index = 12,
                        .step = 750,
                        .rollbacks = 2,
                        .kimg = 48.0,
                        .kimg_total = 200.0,
                        .epoch = 0.8,
                        .tick_sec = 4.0,
                        .total_sec = 40.5,
                        .maintenance_sec = 0.25,
                        .images_per_sec = 1234.0,
                        .eta_sec = 123.0,
                        .scale = {65536.0f, 32768.0f},
                        .skipped = {0, 3},
                        .skipped_in_tick = {0, 1},
                        .cpu_mem_gb = 0.5};
    statistic_add(&tick.loss[ROLE_G], 1.0);
    statistic_add(&tick.loss[ROLE_G], 1.5);
    statistic_add(&tick.loss[ROLE_D], 0.98);
    statistic_add_sums(&tick.score_real, 4, 2.0, 5.0);
    statistic_add(&tick.scale_over_tick[ROLE_G], 65536.0);
    statistic_add(&tick.scale_over_tick[ROLE_D], 65536.0);
    statistic_add(&tick.scale_over_tick[ROLE_D], 32768.0);
    return tick;
}

static void test_the_tick_line_says_it_all(void **state)
{
    (void)state;
    struct tick tick = example();
    char line[256];
    tick_line(&tick, line, sizeof line);
    assert_string_equal(line,
                        "tick 12   kimg  48.0/200 (0.80 ep)   1,234 img/s  eta 2m 03s   "
                        "mean loss G 1.250  D 0.980   scale G 2^16 D 2^15  "
                        "skip G 0 D 3 (+1)");
}

static void test_the_lines_of_a_run_stand_under_each_other(void **state)
{
    (void)state;
    struct tick tick = example(), later = example();
    later.index = 9;
    later.kimg = 199.9;
    later.images_per_sec = 987.0;
    later.eta_sec = 9.0;
    later.loss[ROLE_G] = later.loss[ROLE_D] = (struct statistic){0};
    statistic_add(&later.loss[ROLE_G], 12345.6);
    statistic_add(&later.loss[ROLE_D], -0.5);
    later.scale[ROLE_G] = 256.0f;
    later.skipped[ROLE_G] = 7;
    char first[256], second[256];
    tick_line(&tick, first, sizeof first);
    tick_line(&later, second, sizeof second);
    static const char *const words[] = {"kimg", "img/s", "eta", "loss",
                                        "D ",   "scale", "skip"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(strstr(first, words[i]) - first,
                         strstr(second, words[i]) - second);
}

static void test_short_runs_show_more_decimals(void **state)
{
    (void)state;
    struct tick tick = example();
    char line[256];
    tick.kimg = 0.064;
    tick.kimg_total = 0.5;
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "kimg 0.064/0.5 (0.80 ep)"));
    tick.kimg = 1.25;
    tick.kimg_total = 8;
    tick.epoch = 20.83;
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "kimg 1.25/8 (20.8 ep)"));
    tick.kimg_total = 25000;
    tick.epoch = 416.7;
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "kimg     1.2/25000 (417 ep)"));
}

static void test_values_that_are_none_are_shown_as_such(void **state)
{
    (void)state;
    struct tick tick = example();
    tick.loss[ROLE_G] = tick.loss[ROLE_D] = (struct statistic){0};
    statistic_add(&tick.loss[ROLE_D], (double)NAN);
    tick.eta_sec = (double)NAN;
    tick.scale[ROLE_G] = 1000.0f;
    char line[256];
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "eta ?  "));
    assert_non_null(strstr(line, "loss G -      D "));
    assert_non_null(strstr(line, "D nan "));
    assert_non_null(strstr(line, "scale G 1000 D 2^15"));
    statistic_add(&tick.loss[ROLE_G], 3e9);
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "loss G 3.0e+09 D"));
}

static void test_no_numbers_make_the_tick_line_too_long(void **state)
{
    (void)state;
    struct tick tick = example();
    tick.index = 123456;
    tick.kimg = 12345.6;
    tick.kimg_total = 25000;
    tick.epoch = 1234;
    tick.images_per_sec = 123456;
    tick.eta_sec = 1e6;
    tick.loss[ROLE_G].sum = tick.loss[ROLE_D].sum = -1e30;
    tick.skipped[ROLE_G] = tick.skipped[ROLE_D] = 123456;
    tick.skipped_in_tick[ROLE_G] = tick.skipped_in_tick[ROLE_D] = 12345;
    char line[256];
    tick_line(&tick, line, sizeof line);
    assert_in_range(strlen(line), 120, TICK_LINE_MAX);
    assert_non_null(strstr(line, "skip G 123,456 D 123,456")); // (+12,345) has given way
    tick.kimg = tick.kimg_total = tick.epoch = tick.images_per_sec = 1e300;
    tick_line(&tick, line, sizeof line);
    assert_int_equal(strlen(line), TICK_LINE_MAX);
    assert_null(strchr(line, '\n'));
}

/* ---- stats.jsonl ----------------------------------------------------------------- */

static json_t *parsed(const struct tick *tick)
{
    char *text = tick_json(tick, 1700000000.125);
    assert_null(strchr(text, '\n'));
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("%s in %s", error.text, text);
    free(text);
    return json;
}

static void assert_entry(json_t *json, const char *key, int num, double mean, double std)
{
    json_t *entry = json_object_get(json, key);
    if (!entry)
        fail_msg("no %s", key);
    assert_int_equal(json_integer_value(json_object_get(entry, "num")), num);
    assert_true(json_is_number(json_object_get(entry, "mean")));
    if (json_number_value(json_object_get(entry, "mean")) != mean ||
        json_number_value(json_object_get(entry, "std")) != std)
        fail_msg("%s: mean %.17g, std %.17g", key,
                 json_number_value(json_object_get(entry, "mean")),
                 json_number_value(json_object_get(entry, "std")));
}

static void test_stats_have_every_key_in_the_form_of_stylegan(void **state)
{
    (void)state;
    struct tick tick = example();
    statistic_add(&tick.score_fake, -1.0);
    statistic_add(&tick.sign_real, 1.0);
    statistic_add(&tick.sign_fake, -1.0);
    json_t *json = parsed(&tick);
    assert_int_equal(json_object_size(json), 22);
    assert_entry(json, "Progress/tick", 1, 12, 0);
    assert_entry(json, "Progress/kimg", 1, 48, 0);
    assert_entry(json, "Progress/step", 1, 750, 0);
    assert_entry(json, "Progress/epoch", 1, 0.8, 0);
    assert_entry(json, "Progress/rollbacks", 1, 2, 0);
    assert_entry(json, "Timing/total_sec", 1, 40.5, 0);
    assert_entry(json, "Timing/sec_per_tick", 1, 4, 0);
    assert_entry(json, "Timing/sec_per_kimg", 1, 0.810372771474878, 0);
    assert_entry(json, "Timing/maintenance_sec", 1, 0.25, 0);
    assert_entry(json, "Timing/images_per_sec", 1, 1234, 0);
    assert_entry(json, "Loss/G/loss", 2, 1.25, 0.25);
    assert_entry(json, "Loss/D/loss", 1, 0.98, 0);
    assert_entry(json, "Loss/scores/real", 4, 0.5, 1);
    assert_entry(json, "Loss/scores/fake", 1, -1, 0);
    assert_entry(json, "Loss/signs/real", 1, 1, 0);
    assert_entry(json, "Loss/signs/fake", 1, -1, 0);
    assert_entry(json, "Scale/G", 1, 65536, 0);
    assert_entry(json, "Scale/D", 2, 49152, 16384);
    assert_entry(json, "Scale/G_skipped", 1, 0, 0);
    assert_entry(json, "Scale/D_skipped", 1, 3, 0);
    assert_entry(json, "Resources/cpu_mem_gb", 1, 0.5, 0);
    assert_true(json_real_value(json_object_get(json, "timestamp")) == 1700000000.125);
    json_decref(json);
}

static void test_what_only_some_runs_have_is_told_by_those(void **state)
{
    (void)state;
    struct tick tick = example();
    statistic_add(&tick.grad_norm[ROLE_D], 4.0);
    statistic_add(&tick.grad_norm[ROLE_D], 6.0);
    statistic_add(&tick.clipped[ROLE_D], 0.0);
    statistic_add(&tick.clipped[ROLE_D], 1.0);
    statistic_add(&tick.fake_scale_over_tick, 512.0);
    tick.held[ROLE_G] = 7;
    json_t *json = parsed(&tick);
    assert_int_equal(json_object_size(json), 26);
    assert_entry(json, "Grad/D_norm", 2, 5, 1);
    assert_entry(json, "Grad/D_clipped", 2, 0.5, 0.5);
    assert_entry(json, "Scale/D_fake", 1, 512, 0);
    assert_entry(json, "Scale/G_held", 1, 7, 0);
    json_decref(json);
}

static void assert_null_entry(json_t *json, const char *key, int num)
{
    json_t *entry = json_object_get(json, key);
    assert_int_equal(json_integer_value(json_object_get(entry, "num")), num);
    assert_true(json_is_null(json_object_get(entry, "mean")));
    assert_true(json_is_null(json_object_get(entry, "std")));
}

static void test_a_few_nan_do_not_hide_the_mean_of_the_others(void **state)
{
    (void)state;
    struct tick tick = example(); // G's losses are 1 and 1.5
    for (int i = 0; i < 4; i++)
        statistic_add(&tick.loss[ROLE_G], -(double)NAN);
    statistic_add(&tick.loss[ROLE_D], (double)INFINITY);
    statistic_add_sums(&tick.score_real, 64, (double)NAN, 1.0);
    char line[256];
    tick_line(&tick, line, sizeof line);
    assert_non_null(strstr(line, "mean loss G 1.250 (4 nan) D 0.980 (1 inf) "));
    json_t *json = parsed(&tick);
    assert_entry(json, "Loss/G/loss", 2, 1.25, 0.25);
    assert_entry(json, "Loss/D/loss", 1, 0.98, 0);
    json_t *g = json_object_get(json, "Loss/G/loss");
    json_t *d = json_object_get(json, "Loss/D/loss");
    json_t *score = json_object_get(json, "Loss/scores/real");
    assert_int_equal(json_integer_value(json_object_get(g, "nan")), 4);
    assert_null(json_object_get(g, "inf"));
    assert_int_equal(json_integer_value(json_object_get(d, "inf")), 1);
    assert_null(json_object_get(d, "nan"));
    assert_int_equal(json_integer_value(json_object_get(score, "nan")), 64);
    assert_int_equal(json_integer_value(json_object_get(score, "num")), 4);
    json_decref(json);
}

static void test_what_is_not_finite_is_null(void **state)
{
    (void)state;
    struct tick tick = example();
    tick.images_per_sec = 0.0;
    tick.scale_over_tick[ROLE_G] = (struct statistic){0};
    tick.loss[ROLE_D] = (struct statistic){0};
    statistic_add(&tick.loss[ROLE_D], (double)NAN);
    json_t *json = parsed(&tick);
    assert_null_entry(json, "Loss/D/loss", 0);
    assert_null_entry(json, "Loss/scores/fake", 0);
    assert_null_entry(json, "Timing/sec_per_kimg", 0);
    assert_entry(json, "Scale/G", 1, 65536, 0); // no step in the tick: the scale now
    json_decref(json);
}

/* ---- the bar --------------------------------------------------------------------- */

static struct bar a_bar(int columns)
{
    return (struct bar){.done = 48,
                        .total = 200,
                        .images_per_sec = 1234,
                        .eta_sec = 123,
                        .columns = columns};
}

/* Columns that UTF-8 text takes: bytes that begin a character. */
static size_t columns_of(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void test_the_bar_fills_the_terminal_but_one_column(void **state)
{
    (void)state;
    char text[512];
    struct bar bar = a_bar(80);
    bar_text(&bar, text, sizeof text);
    assert_string_equal(text, " 24% [#######-------------------------]  48.0/200 kimg  "
                              "1,234 img/s  eta 2m 03s");
    bar.is_utf8 = 1;
    bar_text(&bar, text, sizeof text);
    assert_int_equal(columns_of(text), 79);
    assert_non_null(strstr(text, " 24% ▕███████▋      "));
    for (int columns = 50; columns < 300; columns++) {
        bar.columns = columns;
        bar_text(&bar, text, sizeof text);
        assert_in_range(columns_of(text), columns < 110 ? 40 : 100, columns - 1);
    }
}

static void test_a_narrow_terminal_keeps_the_most_important(void **state)
{
    (void)state;
    char text[512];
    struct bar bar = a_bar(45);
    bar_text(&bar, text, sizeof text);
    assert_string_equal(text, " 24% 48.0/200 kimg  1,234 img/s  eta 2m 03s");
    for (int columns = 0; columns < 50; columns++) {
        bar.columns = columns;
        bar_text(&bar, text, sizeof text);
        assert_in_range(strlen(text), 5, columns > 6 ? columns - 1 : 5);
    }
}

static void test_the_bar_is_full_only_when_done(void **state)
{
    (void)state;
    char text[512];
    struct bar bar = a_bar(80);
    bar.done = 199.99;
    bar_text(&bar, text, sizeof text);
    assert_memory_equal(text, " 99% [", 6);
    assert_non_null(strstr(text, "#-]"));
    bar.done = 200;
    bar_text(&bar, text, sizeof text);
    assert_memory_equal(text, "100% [", 6);
    assert_null(strchr(text, '-'));
    bar.done = 300; // resumed with a smaller total
    bar_text(&bar, text, sizeof text);
    assert_memory_equal(text, "100% [", 6);
    bar.total = 0;
    bar.done = (double)NAN;
    bar_text(&bar, text, sizeof text);
    assert_memory_equal(text, "  0% [", 6);
}

/* ---- terminals ------------------------------------------------------------------- */

static const char *const *environment;

/* Runs with a terminal of 100 columns as stderr; NULL when there are no terminals. */
static char *on_terminal(const char *const *variables, void (*body)(void))
{
    static char text[4096];
    environment = variables;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return NULL;
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (terminal < 0 || ioctl(terminal, TIOCSWINSZ, &size) != 0)
        return NULL;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        clearenv();
        for (const char *const *variable = environment; *variable; variable++)
            putenv((char *)(uintptr_t)*variable);
        dup2(terminal, STDERR_FILENO);
        body();
        fflush(NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    // The terminal is still open here, so that reading ends only where nothing is left.
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < sizeof text &&
           (got = read(master, text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(terminal);
    close(master);
    return text;
}

static char *on_terminal_or_skip(const char *const *variables, void (*body)(void))
{
    char *text = on_terminal(variables, body);
    if (!text) {
        skip_because("this machine has no pseudo terminals");
    }
    return text;
}

static void draw_twice_and_clear(void)
{
    progress_clear(); // nothing to clear yet
    progress_bar(48, 200, 1234, 123);
    progress_bar(49, 200, 1234, 122); // within a tenth of a second: not drawn
    progress_clear();
    progress_clear();
    fputs("a line", stderr);
}

static const char *const utf8_terminal[] = {"TERM=xterm", "LANG=C.UTF-8", NULL};

static void test_the_bar_is_drawn_on_a_terminal_and_removed(void **state)
{
    (void)state;
    const char *text = on_terminal_or_skip(utf8_terminal, draw_twice_and_clear);
    assert_memory_equal(text, "\r 24% ▕\033[36m████", 11);
    assert_non_null(
        strstr(text, "48.0/200 kimg  1,234 img/s  eta 2m 03s\033[K\r\033[Ka line"));
    assert_null(strstr(text, "49.0/200"));
}

static void print_two_ticks(void)
{
    progress_print_tick("tick 1  kimg 1.0/2  mean loss G 1 D 2  skip G 0 D 0");
    progress_print_tick(
        "tick 12   kimg  48.0/200 (0.80 ep)   1,234 img/s  eta 2m 03s   "
        "mean loss G 1.250  D 0.980   scale G 2^16 D 2^15  skip G 0 D 3 (+1)");
}

static void test_a_tick_too_wide_for_the_terminal_takes_two_lines(void **state)
{
    (void)state;
    const char *text = on_terminal_or_skip(utf8_terminal, print_two_ticks); // 100 columns
    assert_string_equal(
        text, "tick 1  kimg 1.0/2  mean loss G 1 D 2  skip G 0 D 0\r\n"
              "tick 12   kimg  48.0/200 (0.80 ep)   1,234 img/s  eta 2m 03s   \r\n"
              "          mean loss G 1.250  D 0.980   scale G 2^16 D 2^15  skip G 0 D 3 "
              "(+1)\r\n");
}

static void test_colour_and_blocks_can_be_turned_off(void **state)
{
    (void)state;
    static const char *const plain[] = {"TERM=xterm", "LANG=C.UTF-8", "LC_ALL=C",
                                        "NO_COLOR=1", NULL};
    const char *text = on_terminal_or_skip(plain, draw_twice_and_clear);
    assert_memory_equal(text, "\r 24% [###", 10);
    assert_null(strstr(text, "\033[36m"));
    static const char *const empty[] = {"TERM=xterm", "LC_CTYPE=de_DE.utf8",
                                        "NO_COLOR=", NULL};
    text = on_terminal_or_skip(empty, draw_twice_and_clear);
    assert_non_null(strstr(text, "\033[36m█")); // an empty NO_COLOR asks for nothing
}

static void test_a_dumb_terminal_gets_lines_only(void **state)
{
    (void)state;
    static const char *const dumb[] = {"TERM=dumb", "LANG=C.UTF-8", NULL};
    static const char *const none[] = {"LANG=C.UTF-8", NULL};
    assert_string_equal(on_terminal_or_skip(dumb, draw_twice_and_clear), "a line");
    assert_string_equal(on_terminal_or_skip(none, draw_twice_and_clear), "a line");
}

static int draw_in_a_file(const char *place)
{
    (void)place;
    setenv("TERM", "xterm", 1);
    draw_twice_and_clear();
    return progress_has_color();
}

static void test_a_file_gets_no_bar_and_no_colour(void **state)
{
    (void)state;
    char text[256];
    assert_int_equal(with_stderr(text, sizeof text, "", draw_in_a_file), 0);
    assert_string_equal(text, "a line");
}

/* ---- measurements ---------------------------------------------------------------- */

static void test_memory_and_time_are_measured(void **state)
{
    (void)state;
    double before = peak_memory_gb(), started = now_seconds();
    assert_true(before > 0.0005 && before < 100.0);
    size_t bytes = 100u << 20;
    char *block = malloc(bytes);
    assert_non_null(block);
    memset(block, 1, bytes);
    double after = peak_memory_gb();
    assert_true(block[bytes / 2] == 1);
    free(block);
    assert_true(after - before > 0.08 && after - before < 0.2);
    assert_true(peak_memory_gb() >= after); // the peak stays
    usleep(20000);
    double passed = now_seconds() - started;
    assert_true(passed >= 0.02 && passed < 3600.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean_and_deviation_are_those_of_the_population),
        cmocka_unit_test(test_one_value_has_no_deviation_and_none_has_no_mean),
        cmocka_unit_test(test_durations_read_like_speech),
        cmocka_unit_test(test_scales_are_powers_of_two_where_they_can_be),
        cmocka_unit_test(test_counts_and_rates_have_separators),
        cmocka_unit_test(test_the_tick_line_says_it_all),
        cmocka_unit_test(test_the_lines_of_a_run_stand_under_each_other),
        cmocka_unit_test(test_short_runs_show_more_decimals),
        cmocka_unit_test(test_values_that_are_none_are_shown_as_such),
        cmocka_unit_test(test_no_numbers_make_the_tick_line_too_long),
        cmocka_unit_test(test_stats_have_every_key_in_the_form_of_stylegan),
        cmocka_unit_test(test_what_only_some_runs_have_is_told_by_those),
        cmocka_unit_test(test_a_few_nan_do_not_hide_the_mean_of_the_others),
        cmocka_unit_test(test_what_is_not_finite_is_null),
        cmocka_unit_test(test_the_bar_fills_the_terminal_but_one_column),
        cmocka_unit_test(test_a_narrow_terminal_keeps_the_most_important),
        cmocka_unit_test(test_the_bar_is_full_only_when_done),
        cmocka_unit_test(test_the_bar_is_drawn_on_a_terminal_and_removed),
        cmocka_unit_test(test_a_tick_too_wide_for_the_terminal_takes_two_lines),
        cmocka_unit_test(test_colour_and_blocks_can_be_turned_off),
        cmocka_unit_test(test_a_dumb_terminal_gets_lines_only),
        cmocka_unit_test(test_a_file_gets_no_bar_and_no_colour),
        cmocka_unit_test(test_memory_and_time_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
