/* test_precisions.c - runs whose networks and layers differ in type, and what is told of
 * it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("precisions"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* A short run in out/NAME; its folder lands in `run`. */
static void train(const char *name, const char *arguments, char run[1024])
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", out, name);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.128 %s", folder, arguments);
    snprintf(run, 1024, "%s", run_in(folder));
}

static void assert_same_run(const char *one, const char *other)
{
    char runs[2][1024], digests[2][32];
    train("one", one, runs[0]);
    train("other", other, runs[1]);
    for (int i = 0; i < 2; i++) {
        digest_of(runs[i], digests[i]);
        remove_folder(runs[i]);
    }
    if (strcmp(digests[0], digests[1]) != 0)
        fail_msg("\"%s\" and \"%s\" are not the same run", one, other);
}

static void assert_told(const char *words, const char *command, const char *run)
{
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "%s '%s'", command, run), 0);
    if (!strstr(text, words))
        fail_msg("twinscale %s: no \"%s\" in\n%s", command, words, text);
}

static void assert_refused(const char *words, const char *command)
{
    char text[16384];
    assert_int_equal(twinscale(text, sizeof text, "%s", command), 2);
    if (!strstr(text, words))
        fail_msg("twinscale %s: no \"%s\" in\n%s", command, words, text);
}

/* ---- networks -------------------------------------------------------------------- */

static void test_precision_is_that_of_each_network_unless_it_has_its_own(void **state)
{
    (void)state;
    assert_same_run("--precision fp32", "--g-precision fp32 --d-precision fp32");
}

static void test_two_half_networks_are_a_half_run(void **state)
{
    (void)state;
    assert_same_run("--precision fp16",
                    "--precision fp32 --g-precision fp16 --d-precision fp16");
}

static void test_networks_of_two_types_meet_at_the_image(void **state)
{
    (void)state;
    static const char *const mixed[] = {"--g-precision fp32 --d-precision fp16",
                                        "--g-precision fp16 --d-precision fp32",
                                        "--g-precision bf16 --d-precision fp32",
                                        "--g-precision fp16 --d-precision bf16",
                                        "--g-precision fp16 --fp32-layers g.tanh,d.act*",
                                        "--d-precision fp16 --fp32-layers d.conv1"};
    char single[1024], run[1024], name[16];
    train("single", "--precision fp32", single);
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        snprintf(name, sizeof name, "mixed%zu", i);
        train(name, mixed[i], run);
        double difference = run_difference(run, single);
        // Adam's first steps are the sign of the gradient: none that is lost stays small.
        if (!(difference > 0.0 && difference < 0.5))
            fail_msg("%s: %g from the fp32 run", mixed[i], difference);
    }
}

#define OFF                                                                              \
    "  scale 2^0      growth tracker 0 of 2000  skipped 0 of 8  grown 0  backed off 0  " \
    "(off)"

static void test_gradients_that_pass_through_fp16_have_a_loss_scale(void **state)
{
    (void)state;
    char run[1024], text[64];
    train("g", "--g-precision fp16 --d-precision bf16", run);
    assert_told("G  scale 2^10", "info", run);
    assert_told("D" OFF, "info", run);
    assert_int_equal(
        run_command(text, sizeof text, "grep -c 'G fp16, D bf16' '%s/log.txt'", run), 0);
    // G's gradients come through D, whatever G itself is stored in.
    train("d", "--g-precision fp32", run);
    assert_told("G  scale 2^10", "info", run);
    assert_told("D  scale 2^10", "info", run);
    train("b", "--g-precision bf16 --d-precision fp16", run);
    assert_told("G  scale 2^10", "info", run);
    train("neither", "--g-precision bf16 --d-precision fp32", run);
    assert_told("G" OFF, "info", run);
    assert_told("D" OFF, "info", run);
}

static void test_auto_is_per_network_behind_a_half_discriminator(void **state)
{
    (void)state;
    assert_same_run("--g-precision fp32", "--g-precision fp32 --scaler per-network");
}

/* ---- layers ---------------------------------------------------------------------- */

static void test_all_layers_in_f32_are_an_fp32_run(void **state)
{
    (void)state;
    assert_same_run("--scaler off --precision fp32",
                    "--scaler off --precision fp16 --fp32-layers '*'");
}

static void test_all_layers_of_one_network_in_f32_are_that_network_in_fp32(void **state)
{
    (void)state;
    assert_same_run("--scaler off --d-precision fp32",
                    "--scaler off --fp32-layers 'd.*'");
}

static void test_a_pattern_that_names_no_layer_ends_the_run_before_it_begins(void **state)
{
    (void)state;
    char command[1024], text[64];
    snprintf(command, sizeof command,
             "train " SMALL_RUN " --out '%s' --fp32-layers d.conv2,d.conv7", out);
    assert_refused("--fp32-layers: \"d.conv7\" names no layer; the layers are g.conv1, "
                   "g.bn1, ",
                   command);
    assert_int_not_equal(run_command(text, sizeof text, "ls '%s'/00*", out), 0);
}

static void test_a_run_with_f32_layers_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    const char *types = "--g-precision bf16 --fp32-layers d.conv2,g.bn*";
    char whole[1024], cut[1024], digests[2][32], arguments[256];
    train("whole", types, whole);
    snprintf(arguments, sizeof arguments, "%s --snap 0.064", types);
    train("cut", arguments, cut);
    char command[256];
    (void)run_command(command, sizeof command, "rm '%s'/snapshot-000000.128*", cut);
    twinscale_must("train --resume '%s' --preview off", cut);
    digest_of(whole, digests[0]);
    digest_of(cut, digests[1]);
    assert_string_equal(digests[0], digests[1]);
    snprintf(command, sizeof command, "train --resume '%.180s' --fp32-layers g.bn1", cut);
    assert_refused("--fp32-layers: the run has \"d.conv2,g.bn*\"", command);
}

static void test_statistics_of_layers_work_where_types_differ(void **state)
{
    (void)state;
    // Each probed step compares a half run with its f32 reference, row by row, and
    // changes nothing.
    assert_same_run("--fp32-layers d.conv2,g.act1 --g-precision bf16",
                    "--fp32-layers d.conv2,g.act1 --g-precision bf16 --grad-stats 2");
}

/* ---- recomputation --------------------------------------------------------------- */

static void test_outputs_that_are_made_again_change_no_bit_of_a_run(void **state)
{
    (void)state;
    assert_same_run("--grad-stats 3", "--grad-stats 3 --recompute");
    assert_same_run("--precision bf16 --d-accum 2 --g-accum 2 --n-dis 2 --kimg 0.256",
                    "--precision bf16 --d-accum 2 --g-accum 2 --n-dis 2 --kimg 0.256 "
                    "--recompute");
    assert_same_run("--inject d:3:inf --fp32-layers d.conv2,g.bn2",
                    "--inject d:3:inf --fp32-layers d.conv2,g.bn2 --recompute");
}

static void test_the_memory_and_the_time_of_making_outputs_again_are_told(void **state)
{
    (void)state;
    char text[8192], run[1024], command[64];
    assert_int_equal(twinscale(text, sizeof text, "train " SMALL_RUN " -n --recompute"),
                     0);
    const char *line = strstr(text, "recompute: ");
    assert_non_null(line);
    double bytes = 0, unkept = 0, share = 0, all = 0, time = 0;
    assert_int_equal(sscanf(line,
                            "recompute: %lf MB of activations kept for the backward "
                            "pass, %lf MB (%lf %%) less by --recompute; %lf MB with "
                            "gradients; %lf %%",
                            &bytes, &unkept, &share, &all, &time),
                     5);
    assert_true(all > bytes);
    assert_true(unkept > 0.0 && share > 10.0 && share < 50.0);
    assert_true(time > 0.0 && time < 50.0);
    train("told", "--recompute", run);
    assert_int_equal(run_command(command, sizeof command,
                                 "grep -c 'less by --recompute' '%s/log.txt'", run),
                     0);
}

/* ---- what is told ---------------------------------------------------------------- */

static const char *type_in(json_t *layers, const char *name, const char *key)
{
    size_t index;
    json_t *layer;
    json_array_foreach(layers, index, layer)
    {
        if (!strcmp(json_string_value(json_object_get(layer, "layer")), name))
            return json_string_value(json_object_get(layer, key));
    }
    fail_msg("precision.json has no %s", name);
    return NULL;
}

static void test_a_run_keeps_and_tells_the_types_of_its_layers(void **state)
{
    (void)state;
    char run[1024], path[1100];
    train("types", "--d-precision bf16 --fp32-layers g.conv2", run);
    snprintf(path, sizeof path, "%s/precision.json", run);
    json_t *file = json_load_file(path, 0, NULL);
    json_t *layers = json_object_get(file, "layers");
    assert_int_equal(json_array_size(layers), 20);
    assert_string_equal(type_in(layers, "g.conv2", "output"), "f32");
    assert_string_equal(type_in(layers, "g.conv2", "gradients"), "f32");
    assert_string_equal(type_in(layers, "g.bn2", "operands"), "f16");
    assert_string_equal(type_in(layers, "d.conv1", "operands"), "bf16");
    assert_string_equal(type_in(layers, "d.conv4", "output"), "f32");
    assert_string_equal(type_in(layers, "d.conv4", "gradients"), "bf16");
    assert_string_equal(type_in(layers, "d.bn2", "parameters"), "f32");
    json_decref(file);
    assert_told("g.conv2       conv transpose          f32       f32     f32        f32",
                "info --precision", run);
    assert_told("d.conv3       conv                    bf16      bf16    bf16       f32",
                "info --precision", run);
}

static void test_info_prints_the_policy_with_its_sources(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(twinscale(text, sizeof text, "info --precision"), 0);
    assert_non_null(strstr(text, "autocast lower_precision_fp: conv2d"));
    assert_non_null(strstr(text, "autocast fp32: binary_cross_entropy_with_logits"));
    assert_non_null(strstr(text, "aten/src/ATen/autocast_mode.h"));
}

static double psnr_of(const char *run, const char *precision)
{
    char text[4096];
    int code = twinscale(text, sizeof text,
                         "sample '%s' --seeds 0-15 --force --precision %s -o '%s/x.png'",
                         run, precision, out);
    const char *line = strstr(text, "psnr: ");
    if (code != 0 || !line)
        fail_msg("sample --precision %s: exit %d, %s", precision, code, text);
    return strtod(line + 6, NULL);
}

static void test_samples_in_half_are_close_to_those_in_f32(void **state)
{
    (void)state;
    char run[1024], text[4096];
    train("sampled", "--precision fp32", run);
    double f16 = psnr_of(run, "fp16"), bf16 = psnr_of(run, "bf16");
    assert_true(f16 > 50.0 && f16 < 1e9);
    assert_true(bf16 > 35.0 && bf16 < f16);
    // Without the flag the images are those of the run, and f32 is f32: nothing is
    // compared.
    static const char *const others[] = {"", "--precision fp32"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(twinscale(text, sizeof text, "sample '%s' %s -o '%s/y%d.png'",
                                   run, others[i], out, i),
                         0);
        assert_null(strstr(text, "psnr"));
    }
    char command[2048];
    snprintf(command, sizeof command, "sample '%s' --precision fp8", run);
    assert_refused("--precision fp8: expected fp16, bf16 or fp32", command);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_precision_is_that_of_each_network_unless_it_has_its_own),
        TEST(test_two_half_networks_are_a_half_run),
        TEST(test_networks_of_two_types_meet_at_the_image),
        TEST(test_gradients_that_pass_through_fp16_have_a_loss_scale),
        TEST(test_auto_is_per_network_behind_a_half_discriminator),
        TEST(test_all_layers_in_f32_are_an_fp32_run),
        TEST(test_all_layers_of_one_network_in_f32_are_that_network_in_fp32),
        TEST(test_a_pattern_that_names_no_layer_ends_the_run_before_it_begins),
        TEST(test_a_run_with_f32_layers_resumes_to_the_same_bytes),
        TEST(test_statistics_of_layers_work_where_types_differ),
        TEST(test_outputs_that_are_made_again_change_no_bit_of_a_run),
        TEST(test_the_memory_and_the_time_of_making_outputs_again_are_told),
        TEST(test_a_run_keeps_and_tells_the_types_of_its_layers),
        TEST(test_info_prints_the_policy_with_its_sources),
        TEST(test_samples_in_half_are_close_to_those_in_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
