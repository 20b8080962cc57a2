/* test_bench.c - `twinscale bench`: the numbers it tells, in whole runs of the program,
 * and the sentences where it cannot. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/bench/bench_diversity.h"
#include "tests/app/make_png.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("bench"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* ---- diversity ------------------------------------------------------------------- */

// The definition, pair by pair.
static double slow_diversity(const uint8_t *pixels, size_t images, size_t bytes)
{
    double sum = 0.0, pairs = 0.0;
    for (size_t i = 0; i < images; i++)
        for (size_t j = i + 1; j < images; j++, pairs += 1.0)
            for (size_t p = 0; p < bytes; p++)
                sum += abs(pixels[i * bytes + p] - pixels[j * bytes + p]) / 255.0;
    return sum / pairs / (double)bytes;
}

static void test_diversity_is_the_mean_difference_of_all_pairs(void **state)
{
    (void)state;
    uint8_t pixels[17 * 29];
    uint32_t word = 12345;
    for (size_t i = 0; i < sizeof pixels; i++) {
        word = word * 1664525u + 1013904223u;
        pixels[i] = i % 7 == 0 ? 255 : i % 11 == 0 ? 0 : (uint8_t)(word >> 24);
    }
    static const size_t counts[] = {2, 3, 17};
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(bench_diversity(pixels, counts[i], 29) -
                         slow_diversity(pixels, counts[i], 29)) < 1e-12);
}

static void test_diversity_is_0_for_equal_images_and_1_for_black_and_white(void **state)
{
    (void)state;
    const uint8_t equal[] = {9, 200, 9, 200, 9, 200}, apart[] = {0, 0, 255, 255};
    assert_true(bench_diversity(equal, 3, 2) == 0.0);
    assert_true(bench_diversity(apart, 2, 2) == 1.0);
}

/* ---- what a benchmark left ------------------------------------------------------- */

static json_t *results(void)
{
    char path[1100];
    json_error_t error;
    snprintf(path, sizeof path, "%s/bench.json", run_in(out));
    json_t *object = json_load_file(path, 0, &error);
    if (!object)
        fail_msg("%s: %s", path, error.text);
    return object;
}

// The run of that scaler and seed, or NULL.
static json_t *find_run(const json_t *object, const char *scaler, int seed)
{
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(object, "runs"), i, run)
    {
        if (strcmp(json_string_value(json_object_get(run, "scaler")), scaler) == 0 &&
            json_integer_value(json_object_get(run, "seed")) == seed)
            return run;
    }
    return NULL;
}

/* run[key][network]; -1 for null. */
static double number(const json_t *object, const char *scaler, const char *key,
                     const char *network)
{
    const json_t *run = find_run(object, scaler, 3);
    if (!run)
        fail_msg("no run of %s", scaler);
    const json_t *value = json_object_get(run, key);
    if (network)
        value = json_object_get(value, network);
    if (!value)
        fail_msg("%s has no %s", scaler, key);
    return json_is_null(value) ? -1.0 : json_number_value(value);
}

static int has_lines(const char *file, const char *pattern)
{
    char text[64];
    (void)run_command(text, sizeof text, "grep -c '%s' '%s/%s'", pattern, run_in(out),
                      file);
    return atoi(text);
}

static void assert_is_png(const char *name, unsigned width)
{
    char path[1100];
    unsigned char head[24];
    snprintf(path, sizeof path, "%s/%s", run_in(out), name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(head[18] << 8 | head[19], width);
}

static unsigned slope(int x, int y, int c)
{
    return (unsigned)(4 * x + 2 * y + 50 * c) & 255;
}

/* ---- bench scaler ---------------------------------------------------------------- */

static const char *const scalers[] = {"per-network", "shared", "shared-per-step",
                                      "per-loss",    "static", "off"};

static void test_an_overflow_of_d_moves_the_scales_that_its_topology_says(void **state)
{
    (void)state;
    twinscale_must("bench scaler " SMALL_RUN
                   " --out '%s' --kimg 0.064 --seeds 1 --inject d:2:inf",
                   out);
    static const struct {
        const char *scaler;
        double g, d; // -1: not scaled
    } rows[] = {{"per-network", 1024, 512},    {"shared", 512, 512},
                {"shared-per-step", 512, 512}, {"per-loss", 1024, 512},
                {"static", 1024, 1024},        {"off", -1, -1}};
    json_t *object = results();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(number(object, rows[i].scaler, "scale", "G") == rows[i].g);
        assert_true(number(object, rows[i].scaler, "scale", "D") == rows[i].d);
        assert_true(number(object, rows[i].scaler, "skipped", "G") == 0.0);
        assert_true(number(object, rows[i].scaler, "skipped", "D") == 1.0);
        assert_true(number(object, rows[i].scaler, "steps", NULL) == 4.0);
    }
    assert_true(number(object, "per-loss", "scale", "D_fake") == 1024.0);
    json_decref(object);
    assert_int_equal(has_lines("events.jsonl", "\"skip\".*\"net\":\"D\",\"step\":2"), 6);
    assert_is_png("bench.png", 1520);
}

static void test_every_scaler_finds_the_scale_that_it_begins_with(void **state)
{
    (void)state;
    twinscale_must("bench scaler " SMALL_RUN " --out '%s' --kimg 0.016 --seeds 1 "
                   "--g-init-scale auto --d-init-scale auto "
                   "--init-margin 10",
                   out);
    json_t *object = results();
    double g = number(object, "per-network", "scale", "G");
    double d = number(object, "per-network", "scale", "D");
    assert_true(g > 0.0 && g < 1024.0 && d > 0.0 && d < 1024.0);
    assert_true(number(object, "static", "scale", "D") == d);
    assert_true(number(object, "shared", "scale", "D") == (g < d ? g : d));
    assert_true(number(object, "shared", "scale", "G") == (g < d ? g : d));
    assert_true(number(object, "per-loss", "scale", "D") >= d);
    assert_true(number(object, "off", "scale", "D") == -1.0);
    json_decref(object);
}

static void test_where_nothing_overflows_all_scalers_train_the_same(void **state)
{
    (void)state;
    twinscale_must("bench scaler " SMALL_RUN
                   " --out '%s' --kimg 0.08 --seeds 1 --precision fp32",
                   out);
    json_t *object = results();
    double g = number(object, "off", "loss", "G"), d = number(object, "off", "loss", "D");
    double diversity = number(object, "off", "diversity", NULL);
    assert_true(g > 0.0 && d > 0.0 && diversity > 0.0 && diversity < 0.5);
    for (size_t i = 0; i < sizeof scalers / sizeof *scalers; i++) {
        // Scales of powers of two change no bit in f32; only per-loss adds in another
        // order.
        double room = strcmp(scalers[i], "per-loss") == 0 ? 1e-3 : 0.0;
        assert_true(fabs(number(object, scalers[i], "loss", "G") - g) <= room);
        assert_true(fabs(number(object, scalers[i], "loss", "D") - d) <= room);
    }
    assert_true(json_number_value(json_object_get(object, "real_diversity")) > 0.05);
    json_decref(object);
}

static void test_every_seed_is_a_run_with_a_mean_below(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text,
                               "bench scaler " SMALL_RUN " --out '%s' --kimg 0.032 "
                               "--seeds=2",
                               out),
                     0);
    json_t *object = results();
    for (size_t i = 0; i < sizeof scalers / sizeof *scalers; i++) {
        assert_non_null(find_run(object, scalers[i], 3));
        assert_non_null(find_run(object, scalers[i], 4));
    }
    assert_int_equal(json_array_size(json_object_get(object, "runs")), 12);
    // Another seed is another run.
    const char *loss = "loss";
    double first = number(object, "off", loss, "G");
    json_t *second = json_object_get(find_run(object, "off", 4), loss);
    assert_true(json_number_value(json_object_get(second, "G")) != first);
    json_decref(object);
    assert_int_equal(has_lines("stats.jsonl", "\"end\":\"finished\""), 12);
    int means = 0;
    for (const char *at = text; (at = strstr(at, "2 of 2 finished")); at++)
        means++;
    assert_int_equal(means, 6);
}

static void test_runs_that_diverge_are_rows_with_a_reason(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text,
                               "bench scaler " SMALL_RUN " --out '%s' --kimg 0.16 "
                               "--seeds 1 --max-skips 3 --inject g:2-:nan",
                               out),
                     0);
    assert_non_null(strstr(text, "diverged at step 4: G skipped 3 steps in a row"));
    json_t *object = results();
    for (size_t i = 0; i < sizeof scalers / sizeof *scalers; i++) {
        const json_t *run = find_run(object, scalers[i], 3);
        assert_string_equal(json_string_value(json_object_get(run, "end")), "diverged");
        assert_non_null(strstr(json_string_value(json_object_get(run, "reason")),
                               "G skipped 3 steps in a row"));
    }
    json_decref(object);
}

static void test_topologies_that_the_settings_rule_out_are_told(void **state)
{
    (void)state;
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text,
                               "bench scaler " SMALL_RUN " --out '%s' --kimg 0.032 "
                               "--seeds 1 --d-growth-interval 7",
                               out),
                     0);
    assert_non_null(strstr(text, "shared          left out: --g-growth-interval"));
    json_t *object = results();
    assert_int_equal(json_array_size(json_object_get(object, "left_out")), 2);
    assert_int_equal(json_array_size(json_object_get(object, "runs")), 4);
    assert_null(find_run(object, "shared", 3));
    json_decref(object);
}

static void test_ctrl_c_ends_after_the_step_and_tells_what_is_known(void **state)
{
    (void)state;
    char text[16384];
    int code = run_command(text, sizeof text,
                           "'%s' bench scaler " SMALL_RUN " --out '%s' --kimg 1000 & "
                           "until grep -q ^data '%s'/*/log.txt 2>/dev/null; do "
                           "sleep 0.05; done; kill -INT $!; wait $!",
                           TWINSCALE_PROGRAM, out, out);
    if (code != 0 || !strstr(text, "stopped after 0 of 18 runs"))
        fail_msg("exit %d: %s", code, text);
    json_t *object = results();
    assert_true(json_is_true(json_object_get(object, "stopped")));
    assert_int_equal(json_array_size(json_object_get(object, "runs")), 1);
    assert_string_equal(
        json_string_value(json_object_get(find_run(object, "per-network", 3), "end")),
        "stopped");
    json_decref(object);
    assert_is_png("bench.png", 520);
}

// Every run after the first would read them again, which no signal ends.
static void test_all_runs_of_a_benchmark_read_the_data_once(void **state)
{
    (void)state;
    static const char *const works[] = {"scaler --kimg 0.8 --seeds 1",
                                        "precision --seconds 1"};
    char pictures[600], path[700], text[16384];
    snprintf(pictures, sizeof pictures, "%s/pictures", out);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        assert_int_equal(mkdir(pictures, 0777), 0);
        for (int k = 0; k < 16; k++) {
            snprintf(path, sizeof path, "%s/%d.png", pictures, k);
            write_png(path, 32, 32, 2, slope);
        }
        int code = run_command(text, sizeof text,
                               WAIT_FOR "cd '%s' && { '%s' bench %s " SMALL_RUN
                                        " --data pictures --out %zu & } && "
                                        "wait_for 'grep -qs ^device %zu/*/log.txt'; "
                                        "rm -r pictures; wait $!",
                               out, TWINSCALE_PROGRAM, works[i], i, i);
        if (code != 0 || !strstr(text, "results: ") || strstr(text, "not measured"))
            fail_msg("bench %s: exit %d: %s", works[i], code, text);
    }
}

static void
test_ctrl_c_between_the_first_run_and_the_last_tells_what_is_known(void **state)
{
    (void)state;
    char text[16384];
    int code = run_command(text, sizeof text,
                           WAIT_FOR "cd '%s' && { '%s' bench scaler " SMALL_RUN
                                    " --out many --kimg 0.016 --seeds 100 & } && "
                                    "wait_for 'grep -qs \"^ 1/600\" many/*/log.txt'; "
                                    "kill -INT $!; wait $!",
                           out, TWINSCALE_PROGRAM);
    if (code != 0 || !strstr(text, "stopped after ") || !strstr(text, " of 600 runs"))
        fail_msg("exit %d: %s", code, text);
}

/* ---- bench precision ------------------------------------------------------------- */

static double mode_number(const json_t *mode, const char *key)
{
    return json_number_value(json_object_get(mode, key));
}

static double activations(const json_t *mode)
{
    const json_t *bytes = json_object_get(mode, "activation_bytes");
    return mode_number(bytes, "G") + mode_number(bytes, "D");
}

// What a run with more settings printed and wrote; the caller lets go of the object.
static json_t *precisions(char *text, size_t bytes, const char *settings)
{
    assert_int_equal(twinscale(text, bytes,
                               "bench precision " SMALL_RUN
                               " --out '%s' --device cpu --seconds 0.05 %s",
                               out, settings),
                     0);
    return results();
}

// The quartiles of `key` are there, and what is told of it lies between them.
static void assert_has_spread(const json_t *mode, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "%s_quartiles", key);
    const json_t *spread = json_object_get(mode, name);
    assert_int_equal(json_array_size(spread), 2);
    double low = json_number_value(json_array_get(spread, 0));
    double high = json_number_value(json_array_get(spread, 1));
    double middle = mode_number(mode, key), slack = 1e-6 * fabs(middle);
    if (!(low <= middle + slack && middle <= high + slack && low < high))
        fail_msg("%s: %g is not from %g to %g", key, middle, low, high);
}

static void test_half_precision_halves_the_activations(void **state)
{
    (void)state;
    char text[16384];
    json_t *object = precisions(text, sizeof text, "");
    const json_t *modes = json_object_get(object, "modes");
    const json_t *fp32 = json_array_get(modes, 0);
    assert_int_equal(json_array_size(modes), 6);
    for (size_t i = 0; i < 6; i++) {
        static const char *const names[] = {"fp32", "fp16", "bf16"};
        const json_t *mode = json_array_get(modes, i);
        assert_string_equal(json_string_value(json_object_get(mode, "precision")),
                            names[i / 2]);
        assert_int_equal(json_is_true(json_object_get(mode, "recompute")), i % 2);
        assert_non_null(strstr(text, names[i / 2]));
        assert_true(json_is_true(json_object_get(mode, "measured")));
        assert_true(mode_number(mode, "images_per_sec") > 0.0);
        assert_has_spread(mode, "images_per_sec");
        assert_true(
            fabs(mode_number(mode, "images_per_sec") * mode_number(mode, "step_ms") -
                 16e3) < 1.0); // a batch a step
        assert_true(mode_number(mode, "device_bytes") > activations(mode));
        double share = activations(mode) / activations(fp32);
        if (i % 2 == 0)
            assert_true(i == 0 ? share == 1.0 : share > 0.49 && share < 0.55);
    }
    json_decref(object);
}

static void test_recomputing_is_a_row_of_its_own_with_what_it_saves_and_adds(void **state)
{
    (void)state;
    char text[16384];
    json_t *object = precisions(text, sizeof text, "");
    const json_t *modes = json_object_get(object, "modes");
    for (size_t i = 0; i < 6; i += 2) {
        const json_t *without = json_array_get(modes, i),
                     *with = json_array_get(modes, i + 1);
        double saved = mode_number(with, "memory_saved");
        assert_null(json_object_get(without, "memory_saved"));
        assert_null(json_object_get(without, "time_added"));
        assert_true(saved > 0.1 && saved < 0.6);
        double kept = mode_number(with, "kept_bytes");
        assert_true(fabs(saved - (1.0 - kept / mode_number(without, "kept_bytes"))) <
                    1e-6);
        assert_true(activations(with) < activations(without) && kept < activations(with));
        double added = mode_number(with, "time_added");
        assert_true(json_is_real(json_object_get(with, "time_added")));
        assert_has_spread(with, "time_added");
        assert_true(added > -0.9 &&
                    added < 9.0); // a share, whatever else the machine does
    }
    assert_non_null(strstr(text, "\nfp32 recompute "));
    assert_non_null(strstr(text, "\nfp16 recompute "));
    assert_non_null(strstr(text, "\nbf16 recompute "));
    const json_t *settings = json_object_get(object, "settings");
    assert_null(json_object_get(settings, "recompute"));
    assert_null(json_object_get(settings, "precision"));
    json_decref(object);
}

static void test_a_type_that_cannot_train_is_a_row_with_its_reason(void **state)
{
    (void)state;
    char text[16384];
    // Only fp16 is scaled unless asked, and no gradient of an f16 bears this scale.
    json_t *object = precisions(text, sizeof text,
                                "--max-skips 2 --g-init-scale 1e38 --d-init-scale 1e38");
    assert_non_null(strstr(text, "fp16           not measured: "));
    assert_non_null(strstr(text, "fp16 recompute not measured: "));
    const json_t *modes = json_object_get(object, "modes");
    for (size_t i = 2; i < 4; i++) {
        const json_t *fp16 = json_array_get(modes, i);
        assert_true(json_is_false(json_object_get(fp16, "measured")));
        assert_non_null(strstr(json_string_value(json_object_get(fp16, "reason")),
                               "skipped 2 steps in a row"));
    }
    assert_true(json_is_true(json_object_get(json_array_get(modes, 4), "measured")));
    json_decref(object);
}

/* ---- sentences ------------------------------------------------------------------- */

static void test_what_cannot_be_measured_is_told_in_one_sentence(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *words, *arguments;
    } rows[] = {
        {2, "measure what? Give scaler, precision or layers", ""},
        {2, "there is no \"scalar\", did you mean scaler; give", "scalar"},
        {2, "there is no \"zzzz\"; give scaler, precision or layers", "zzzz"},
        {2, "--seeds: \"0\" is out of range; give a whole number of runs from 1 to 100",
         "scaler --seeds 0"},
        {2, "--seeds: \"many\" is not a number", "scaler --seeds=many"},
        {2, "--seeds: \"1.5\" is not a whole number", "scaler --seeds 1.5"},
        {2, "--seeds: its value is missing; give a number", "scaler --seeds"},
        {2, "--seconds: \"0\" is out of range; give a number of seconds",
         "precision --seconds 0"},
        {2, "--seconds: \"soon\" is not a number", "precision --seconds soon"},
        {2, "--seconds", "scaler --seconds 3"},
        {2, "--scaler: bench scaler compares all of its choices",
         "scaler --scaler shared"},
        {2, "--precision: bench precision compares all", "precision --precision=fp16"},
        {2, "--g-precision: bench precision compares all",
         "precision --g-precision fp32"},
        {2, "--d-precision: bench precision compares all",
         "precision --d-precision fp32"},
        {2, "--recompute: bench precision compares all", "precision --recompute"},
        {2, "--recompute: bench precision compares all", "precision --no-recompute"},
        {2, "--resume: bench scaler begins runs of its own", "scaler --resume x"},
        {2, "--dry-run: bench precision begins runs of its own", "precision -n"},
        {2, "--gpus: bench scaler measures one device, and 2 were", "scaler --gpus 2"},
        {2, "--set-at: in bench layers all settings stay", "layers --set-at 1:g.lr=1e-4"},
        {2, "--on-overflow-storm: bench scaler mends no run, and this is fp32-layer",
         "scaler --on-overflow-storm fp32-layer"},
        {2, "--on-overflow-storm: bench precision mends no run, and this is rollback",
         "precision --on-overflow-storm rollback"},
        {2, "--kimg: 0.001 kimg is less than one batch", "scaler --kimg 0.001"},
        {2, "--g-min-scale", "scaler --g-min-scale 1e9"},
        {2, "--seed: 2 seeds from 9007199254740992 on go beyond the last",
         "scaler --seed 9007199254740992 --seeds 2"},
        {4, "nowhere", "scaler --data /nowhere --resolution 32"},
        {4, "nowhere", "precision --data /nowhere --resolution 32"},
        {1, "folder for runs", "precision --data builtin:shapes --out /proc/none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "bench %s", rows[i].arguments);
        twinscale_refuses(rows[i].code, rows[i].words, arguments);
    }
}

static void test_help_fits_90_columns_and_names_all(void **state)
{
    (void)state;
    static const char *const words[] = {"bench --help", "bench scaler --help", "bench -h",
                                        "help bench"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[8192];
        assert_int_equal(twinscale(text, sizeof text, "%s", words[i]), 0);
        assert_non_null(strstr(text, "twinscale bench scaler"));
        assert_non_null(strstr(text, "twinscale bench precision"));
        assert_non_null(strstr(text, "twinscale bench layers"));
        assert_non_null(strstr(text, "TWINSCALE_CONV"));
        for (const char *line = text; *line;) {
            size_t length = strcspn(line, "\n");
            assert_true(length <= 90);
            line += length + (line[length] == '\n');
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_diversity_is_the_mean_difference_of_all_pairs),
        TEST(test_diversity_is_0_for_equal_images_and_1_for_black_and_white),
        TEST(test_an_overflow_of_d_moves_the_scales_that_its_topology_says),
        TEST(test_every_scaler_finds_the_scale_that_it_begins_with),
        TEST(test_where_nothing_overflows_all_scalers_train_the_same),
        TEST(test_every_seed_is_a_run_with_a_mean_below),
        TEST(test_runs_that_diverge_are_rows_with_a_reason),
        TEST(test_topologies_that_the_settings_rule_out_are_told),
        TEST(test_ctrl_c_ends_after_the_step_and_tells_what_is_known),
        TEST(test_all_runs_of_a_benchmark_read_the_data_once),
        TEST(test_ctrl_c_between_the_first_run_and_the_last_tells_what_is_known),
        TEST(test_half_precision_halves_the_activations),
        TEST(test_recomputing_is_a_row_of_its_own_with_what_it_saves_and_adds),
        TEST(test_a_type_that_cannot_train_is_a_row_with_its_reason),
        TEST(test_what_cannot_be_measured_is_told_in_one_sentence),
        TEST(test_help_fits_90_columns_and_names_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
