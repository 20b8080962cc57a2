/* test_logs.c - what a run's logs hold, line by line, for those who read them by
 * program. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int make_out(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("logs"));
    return 0;
}

static int remove_out(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

// A run in `out`/`name`, valid until the next call.
static const char *run_of(const char *name)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", out, name);
    return run_in(folder);
}

static json_t *next_line(FILE *file)
{
    static char *text;
    static size_t room;
    if (getline(&text, &room, file) <= 0) {
        free(text);
        text = NULL;
        room = 0;
        return NULL;
    }
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!line)
        fail_msg("no JSON: %s", text);
    return line;
}

static FILE *open_in(const char *run, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static void test_every_line_of_stats_is_a_tick_as_stylegan_writes_it(void **state)
{
    (void)state;
    // Skips from the first step on, looks at layers, and ticks between them.
    twinscale_must("train " SMALL_RUN " --out '%s/ticks' --kimg 0.32 --tick 0.064 "
                   "--grad-stats 3 --inject d:1-4:inf,g:9:nan",
                   out);
    FILE *stats = open_in(run_of("ticks"), "stats.jsonl");
    double before = 0.0;
    int ticks = 0;
    for (json_t *line; (line = next_line(stats)); json_decref(line)) {
        json_t *kimg = json_object_get(json_object_get(line, "Progress/kimg"), "mean");
        assert_true(json_is_number(kimg));
        assert_true(json_number_value(kimg) > before);
        before = json_number_value(kimg);
        const char *key;
        json_t *value;
        json_object_foreach(line, key, value)
        {
            if (strcmp(key, "timestamp") == 0)
                continue;
            assert_true(json_is_integer(json_object_get(value, "num")));
            assert_non_null(json_object_get(value, "std"));
        }
        ticks++;
    }
    fclose(stats);
    assert_int_equal(ticks, 6); // the first step's, and one each 0.064 kimg
    assert_int_equal(lines_with(run_of("ticks"), "layers.jsonl", "\"reason\":\"skip D\""),
                     4);
    assert_int_equal(lines_with(run_of("ticks"), "layers.jsonl", "\"reason\":\"skip G\""),
                     1);
    assert_int_equal(
        lines_with(run_of("ticks"), "layers.jsonl", "\"reason\":\"grad-stats\""), 7);
}

static void test_a_few_steps_with_nan_leave_the_tick_its_mean(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s/nan' --kimg 0.32 --tick 0.32 "
                   "--inject g:6-8:nan-forward",
                   out);
    const char *run = run_of("nan");
    assert_int_equal(lines_with(run, "log.txt", "-nan"), 0);
    assert_int_equal(lines_with(run, "log.txt", " (3 nan)"), 1);
    FILE *stats = open_in(run, "stats.jsonl");
    json_t *line, *last = NULL;
    while ((line = next_line(stats))) {
        json_decref(last);
        last = line;
    }
    fclose(stats);
    json_t *loss = json_object_get(last, "Loss/G/loss");
    assert_true(isfinite(json_number_value(json_object_get(loss, "mean"))) &&
                json_is_number(json_object_get(loss, "mean")));
    assert_int_equal(json_integer_value(json_object_get(loss, "nan")), 3);
    assert_int_equal(json_integer_value(json_object_get(loss, "num")), 16); // of 19
    json_decref(last);
}

static void test_the_log_has_every_line_of_the_terminal(void **state)
{
    (void)state;
    char text[8192], run[1100];
    assert_int_equal(twinscale(text, sizeof text,
                               "train " SMALL_RUN " --out '%s/lines' --kimg 0.064", out),
                     0);
    snprintf(run, sizeof run, "%s", run_of("lines"));
    char *line = strstr(text, "run     ");
    assert_non_null(line);
    int lines = 0;
    for (line = strtok(line, "\n"); line; line = strtok(NULL, "\n"), lines++)
        if (lines_with(run, "log.txt", line) != 1)
            fail_msg("log.txt has no line \"%s\"", line);
    assert_true(lines >= 8); // run, device, data, train, two ticks and the results
    assert_int_equal(lines_with(run, "log.txt", "checkpoint: "), 1);
}

static void test_the_heat_map_of_an_older_release_comes_back(void **state)
{
    (void)state;
    char text[512];
    twinscale_must("train " SMALL_RUN " --out '%s/older' --kimg 0.064 --inject d:2:inf",
                   out);
    // As that release wrote it: what layers held is in stats.jsonl, and nowhere else.
    assert_int_equal(run_command(text, sizeof text,
                                 "cd '%s' && cat stats.jsonl >>layers.jsonl && "
                                 "mv layers.jsonl stats.jsonl && rm stats.png",
                                 run_of("older")),
                     0);
    twinscale_must("train --resume '%s' --kimg 0.128 --inject ''", run_of("older"));
    assert_int_equal(run_command(text, sizeof text,
                                 "cd '%s' && test -s stats.png && ! test -s layers.jsonl",
                                 run_of("older")),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_line_of_stats_is_a_tick_as_stylegan_writes_it),
        cmocka_unit_test(test_a_few_steps_with_nan_leave_the_tick_its_mean),
        cmocka_unit_test(test_the_log_has_every_line_of_the_terminal),
        cmocka_unit_test(test_the_heat_map_of_an_older_release_comes_back),
    };
    return cmocka_run_group_tests(tests, make_out, remove_out);
}
