/* test_bench_layers.c - `twinscale bench layers`: its rows, what they are measured by,
 * and what the environment changes. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char folder[512], file[600];

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("bench-layers"));
    snprintf(file, sizeof file, "%s/layers.json", folder);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

/* ---- what a measurement left ----------------------------------------------------- */

static char text[32768];

/* Runs it with these variables of the environment and settings. */
static json_t *measure(const char *environment, const char *settings)
{
    json_error_t error;
    int code = run_command(text, sizeof text,
                           "%s '%s' bench layers " SMALL_RUN
                           " --device cpu --seconds 0.02 --json '%s' %s",
                           environment, TWINSCALE_PROGRAM, file, settings);
    json_t *object = json_load_file(file, 0, &error);
    if (code != 0 || !object)
        fail_msg("exit %d, %s: %s", code, error.text, text);
    return object;
}

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

static const json_t *find_pass(const json_t *object, const char *layer, const char *pass)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(object, "passes"), i, row)
    {
        if (!strcmp(word(row, "layer"), layer) && !strcmp(word(row, "pass"), pass))
            return row;
    }
    return NULL;
}

/* The rows whose algorithm is `name`. */
static int count_of(const json_t *object, const char *name)
{
    int count = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(object, "passes"), i, row)
    {
        count += strcmp(word(row, "algorithm"), name) == 0;
    }
    return count;
}

/* ---- rows ------------------------------------------------------------------------ */

static void test_every_pass_of_a_training_step_is_a_row(void **state)
{
    (void)state;
    static const struct {
        const char *layer;
        int runs[3];  // forward, dgrad, wgrad; 0: not run
        double kmacs; // of one image, width 8
    } rows[] = {
        {"g.conv1", {5, 0, 2}, 16 * 16 * 32 / 1e3},
        {"g.conv2", {5, 2, 2}, 8 * 8 * 4 * 32 * 16 / 1e3},
        {"g.conv3", {5, 2, 2}, 16 * 16 * 4 * 16 * 8 / 1e3},
        {"g.conv4", {5, 2, 2}, 32 * 32 * 4 * 8 * 3 / 1e3},
        {"d.conv1", {10, 2, 8}, 16 * 16 * 16 * 3 * 8 / 1e3},
        {"d.conv2", {10, 10, 8}, 8 * 8 * 16 * 8 * 16 / 1e3},
        {"d.conv3", {10, 10, 8}, 4 * 4 * 16 * 16 * 32 / 1e3},
        {"d.conv4", {10, 10, 8}, 16 * 32 / 1e3},
    };
    static const char *const passes[] = {"forward", "dgrad", "wgrad"};
    // Two steps of D of two batches each, one of G of two.
    json_t *object = measure("", "--n-dis 2 --d-accum 2 --g-accum 2");
    size_t found = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int pass = 0; pass < 3; pass++) {
            const json_t *row = find_pass(object, rows[i].layer, passes[pass]);
            if (!row != !rows[i].runs[pass])
                fail_msg("%s %s", rows[i].layer, passes[pass]);
            if (!row)
                continue;
            found++;
            assert_true(number(row, "runs") == rows[i].runs[pass]);
            assert_true(fabs(number(row, "macs") - 16e3 * rows[i].kmacs) < 1e-3);
        }
    }
    assert_int_equal(json_array_size(json_object_get(object, "passes")), found);
    json_decref(object);
}

static void test_the_numbers_of_a_row_agree_and_no_share_exceeds_the_peak(void **state)
{
    (void)state;
    static const char *const settings[] = {"--precision fp16", "--precision bf16",
                                           "--precision fp32",
                                           "--g-precision bf16 --fp32-layers d.conv2"};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        double ms = 0.0, multiplications = 0.0;
        size_t i;
        json_t *row, *object = measure("", settings[s]);
        const json_t *peaks = json_object_get(object, "peak_gflops");
        json_array_foreach(json_object_get(object, "passes"), i, row)
        {
            double share = number(row, "share_of_peak"),
                   peak = number(peaks, word(row, "arithmetic"));
            double work = 2e-6 * number(row, "multiplications") / number(row, "ms");
            assert_true(share > 0.0 && share <= 1.0);
            assert_true(fabs(work / peak / share - 1.0) < 1e-6);
            assert_true(fabs(number(row, "gflops") * number(row, "ms") /
                                 (2e-6 * number(row, "macs")) -
                             1.0) < 1e-6);
            ms += number(row, "runs") * number(row, "ms");
            multiplications += number(row, "runs") * number(row, "multiplications");
        }
        const json_t *step = json_object_get(object, "step");
        assert_true(fabs(number(step, "ms") / ms - 1.0) < 1e-6);
        assert_true(fabs(number(step, "multiplications") / multiplications - 1.0) < 1e-6);
        assert_true(number(step, "share_of_peak") <= 1.0);
        assert_true(number(object, "rounds") == 7.0);
        assert_true(json_is_false(json_object_get(object, "stopped")));
        json_decref(object);
    }
}

static void test_the_table_has_the_rows_and_fits_100_columns(void **state)
{
    (void)state;
    json_decref(measure("TWINSCALE_CONV=winograd", ""));
    assert_non_null(strstr(text, "\nlayer     pass    algorithm"));
    assert_non_null(strstr(text, "\nd.conv2   wgrad   winograd "));
    assert_non_null(strstr(text, "GFLOP/s of f32 multiply-adds in registers"));
    assert_non_null(strstr(text, "\nall runs of a step "));
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "results: ", 9) != 0) // a path
            assert_true(length <= 100);
        line += length + (line[length] == '\n');
    }
}

/* ---- choosing -------------------------------------------------------------------- */

static void test_the_environment_chooses_algorithm_and_instructions(void **state)
{
    (void)state;
    json_t *object = measure("TWINSCALE_CONV=direct", "");
    assert_int_equal(count_of(object, "winograd"), 0);
    assert_string_equal(word(find_pass(object, "d.conv2", "wgrad"), "reason"),
                        "TWINSCALE_CONV=direct");
    json_decref(object);
    object = measure("TWINSCALE_CONV=winograd TWINSCALE_ISA=c", "--threads 1");
    assert_int_equal(count_of(object, "winograd"), 18); // all but the dense ones
    assert_non_null(strstr(word(object, "device"), ", c, 1 thread"));
    const json_t *row = find_pass(object, "d.conv2", "forward");
    assert_true(number(row, "multiplications") == number(row, "macs") * 25 / 64);
    json_decref(object);
    int code = run_command(text, sizeof text,
                           "TWINSCALE_CONV=fft '%s' bench layers --device cpu",
                           TWINSCALE_PROGRAM);
    assert_int_equal(code, 2);
    assert_non_null(strstr(text, "\"fft\": expected auto, direct or winograd"));
}

static void test_a_backend_that_knows_no_peak_says_so(void **state)
{
    (void)state;
    json_t *object = measure("", "--device ref --batch 2");
    assert_non_null(strstr(text, "peak    not known"));
    const json_t *row = find_pass(object, "g.conv2", "dgrad");
    assert_string_equal(word(row, "algorithm"), "loops");
    assert_true(json_is_null(json_object_get(row, "share_of_peak")));
    assert_true(
        json_is_null(json_object_get(json_object_get(object, "peak_gflops"), "f32")));
    json_decref(object);
}

static void test_no_data_is_needed(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *words;
    } rows[] = {
        {"--resolution 28 --batch 4 --g-width 8 --d-width 8", "work    28 px, batch 4"},
        {"--preset dcgan32 --batch 2 --g-width 8", "work    dcgan32, 32 px, batch 2"},
        {"--batch 2", "work    fmnist-quick, 28 px, batch 2, fp16\n"},
        {"--batch 2 --g-precision bf16 --fp32-layers d.conv2",
         "batch 2, G bf16, D fp16 + f32\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = run_command(text, sizeof text,
                               "cd '%s' && '%s' bench layers --device cpu "
                               "--seconds 0.01 %s; ls | wc -l",
                               folder, TWINSCALE_PROGRAM, rows[i].arguments);
        if (code != 0 || !strstr(text, rows[i].words) || !strstr(text, "\n0\n"))
            fail_msg("%s: exit %d: %s", rows[i].arguments, code, text);
    }
}

/* ---- ends ------------------------------------------------------------------------ */

static void test_ctrl_c_tells_the_rounds_that_are_whole(void **state)
{
    (void)state;
    int code = run_command(text, sizeof text,
                           "'%s' bench layers " SMALL_RUN
                           " --device cpu --seconds 600 --json '%s' 2>'%s/log' & "
                           "until grep -q ^bench '%s/log' 2>/dev/null; do "
                           "sleep 0.05; done; kill -INT $!; wait $!; "
                           "code=$?; cat '%s/log'; exit $code",
                           TWINSCALE_PROGRAM, file, folder, folder, folder);
    if (code != 0 || !strstr(text, "stopped before anything was measured"))
        fail_msg("exit %d: %s", code, text);
    FILE *written = fopen(file, "r"); // there is nothing to tell
    assert_null(written);
}

static void test_what_cannot_be_measured_is_told_in_one_sentence(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *words, *arguments;
    } rows[] = {
        {2, "--json: is empty; give the name of the .json to write", "--json ''"},
        {2, "--json: its value is missing; give the file to write", "--json"},
        {1, "/nowhere/layers.json", "--json /nowhere/layers.json"},
        {2,
         "--seconds: \"0\" is out of range; give a number of seconds above 0 and at most "
         "3600",
         "--seconds 0"},
        {2, "--seeds", "--seeds 3"},
        {2, "--gpus: bench layers measures one device, and 2 were given", "--gpus 2"},
        {2, "--dry-run: bench layers begins runs of its own", "--dry-run"},
        {2, "--batch: 1 image", "--batch 1"},
        {4, "nowhere", "--data /nowhere --resolution 32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "bench layers %s", rows[i].arguments);
        twinscale_refuses(rows[i].code, rows[i].words, arguments);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_every_pass_of_a_training_step_is_a_row),
        TEST(test_the_numbers_of_a_row_agree_and_no_share_exceeds_the_peak),
        TEST(test_the_table_has_the_rows_and_fits_100_columns),
        TEST(test_the_environment_chooses_algorithm_and_instructions),
        TEST(test_a_backend_that_knows_no_peak_says_so),
        TEST(test_no_data_is_needed),
        TEST(test_ctrl_c_tells_the_rounds_that_are_whole),
        TEST(test_what_cannot_be_measured_is_told_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
