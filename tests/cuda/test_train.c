/* test_train.c - the program as it is shipped, on stand-ins for a GPU: it trains, agrees
 * with the CPU, and says what is wrong when it cannot. What the stand-ins are, and what
 * they look for, is told in tests/cuda/standins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/png_read.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

/* A network of every kind of layer; on stand-ins a step takes a tenth of a second. */
#define NETWORK                                                                  \
    "--data builtin:shapes --resolution 32 --g-width 8 --d-width 8 --latent 16 " \
    "--batch 8 --seed 3 --keep 0 --grid 4x4 "
#define STEPS_20 "--kimg 0.16 --tick 0.008 "
/* A large eps keeps Adam from dividing rounding by a gradient that is itself nearly 0. */
#define SMOOTH "--precision fp32 --g-eps 1e-3 --d-eps 1e-3 "

static const char *in(const char *name)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder, name);
    return path[turn];
}

/* `twinscale <arguments>` on the stand-ins, with more of the environment before it. */
static int on_gpu(char *text, size_t bytes, const char *environment, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

static int on_gpu(char *text, size_t bytes, const char *environment, const char *format,
                  ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    // The plans are kept beside the build: made once, they serve every test and every
    // run.
    return run_command(text, bytes, "env XDG_CACHE_HOME='%s' %s %s '%s' %s", PLAN_CACHE,
                       ON_STANDINS, environment, TWINSCALE_PROGRAM, line);
}

/* A run in folder `name`; its run folder, valid until the fourth next call. */
static const char *gpu_run(const char *name, const char *environment, const char *flags)
{
    static char run[4][1024];
    static int turn;
    char text[8192];
    int code = on_gpu(text, sizeof text, environment,
                      "train " NETWORK "--device cuda:0 --out '%s' %s", in(name), flags);
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
    turn = (turn + 1) % 4;
    snprintf(run[turn], sizeof run[turn], "%s", run_in(in(name)));
    return run[turn];
}

static const char *cpu_run(const char *name, const char *flags)
{
    static char run[1024];
    twinscale_must("train " NETWORK "--device cpu --out '%s' %s", in(name), flags);
    snprintf(run, sizeof run, "%s", run_in(in(name)));
    return run;
}

/* ---- the same numbers ------------------------------------------------------------ */

static void test_twenty_steps_in_fp32_are_the_cpus(void **state)
{
    (void)state;
    const char *flags = SMOOTH STEPS_20 "--preview off";
    double distance =
        run_difference(gpu_run("gpu32", "", flags), cpu_run("cpu32", flags));
    print_message("20 steps in fp32 differ by %.2g\n", distance);
    assert_true(distance < 1e-4);
    // The comparison sees another seed.
    assert_true(run_difference(run_in(in("gpu32")), cpu_run("other", SMOOTH STEPS_20
                                                            "--preview off --seed 4")) >
                1e-2);
}

static void compare_scales(const char *precision)
{
    char flags[256], name[32], gpu[1024], mine[8192], theirs[8192];
    snprintf(flags, sizeof flags,
             STEPS_20 "--preview off --precision %s --scaler "
                      "per-network --g-growth-interval 4 "
                      "--d-growth-interval 6",
             precision);
    snprintf(name, sizeof name, "gpu-%s", precision);
    snprintf(gpu, sizeof gpu, "%s", gpu_run(name, "", flags));
    snprintf(name, sizeof name, "cpu-%s", precision);
    const char *cpu = cpu_run(name, flags);
    assert_string_equal(scale_events(gpu, mine, sizeof mine),
                        scale_events(cpu, theirs, sizeof theirs));
    assert_true(strlen(mine) > 60); // three events and more
    static const char *const losses[] = {"Loss/G/loss", "Loss/D/loss"};
    for (int i = 0; i < 2; i++) {
        double a = mean_of(gpu, losses[i], 0), b = mean_of(cpu, losses[i], 0);
        print_message("%s, %s: %g, on the CPU %g\n", precision, losses[i], a, b);
        assert_true(a > 0.98 * b && a < 1.02 * b);
    }
}

static void test_scales_and_losses_in_half_precision_are_the_cpus(void **state)
{
    (void)state;
    compare_scales("fp16");
    compare_scales("bf16");
}

static void test_a_replayed_step_is_bit_for_bit_the_queued_one(void **state)
{
    (void)state;
    char replayed[32], queued[32], again[32];
    const char *flags = STEPS_20 "--deterministic --preview off --n-dis 2";
    char plain[256];
    snprintf(plain, sizeof plain, "%s --no-graph", flags);
    digest_of(gpu_run("replayed", "", flags), replayed);
    digest_of(gpu_run("queued", "", plain), queued);
    digest_of(gpu_run("again", "", flags), again);
    assert_string_equal(replayed, queued);
    assert_string_equal(replayed, again);
}

static void test_a_resumed_run_is_the_run_never_stopped(void **state)
{
    (void)state;
    char whole[32], resumed[32], text[8192], run[1024];
    digest_of(gpu_run("whole", "", STEPS_20 "--deterministic --preview off"), whole);
    snprintf(run, sizeof run, "%s",
             gpu_run("parts", "", "--kimg 0.08 --deterministic --preview off"));
    int code = on_gpu(text, sizeof text, "", "train --resume '%s' --kimg 0.16", run);
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
    digest_of(run, resumed);
    assert_string_equal(resumed, whole);
}

static void test_an_infinity_between_replays_halves_one_scale_alone(void **state)
{
    (void)state;
    char text[4096];
    const char *run = gpu_run("inject", "",
                              STEPS_20 "--preview off --g-init-scale 1024 "
                                       "--d-init-scale 1024 --inject d:10-11:inf");
    assert_string_equal(scale_events(run, text, sizeof text),
                        "skip D 10 1024 512\nskip D 11 512 256\n");
}

static const char *found_scales(const char *run, char *text, size_t bytes)
{
    run_command(text, bytes, "grep -o '\"largest\":[0-9.]*' '%s/events.jsonl'", run);
    return text;
}

static void test_the_first_scale_is_found_as_on_the_cpu(void **state)
{
    (void)state;
    char mine[256], theirs[256];
    const char *flags =
        "--kimg 0.08 --preview off --g-init-scale auto --d-init-scale auto";
    const char *gpu = gpu_run("auto", "", flags), *cpu = cpu_run("cpu-auto", flags);
    assert_string_equal(found_scales(gpu, mine, sizeof mine),
                        found_scales(cpu, theirs, sizeof theirs));
    assert_int_equal(lines_with(gpu, "events.jsonl", "\"largest\":"), 2);
    assert_int_equal(lines_with(gpu, "events.jsonl", "\"skip\""), 0);
}

static void test_a_storm_builds_the_networks_anew_with_a_layer_in_f32(void **state)
{
    (void)state;
    const char *run = gpu_run("f32", "",
                              STEPS_20 "--preview off --inject g:8-:huge-activation "
                                       "--on-overflow-storm fp32-layer --max-skips 3");
    assert_in_range(lines_with(run, "events.jsonl", "\"fp32_layer\""), 1, 5);
    assert_int_equal(lines_with(run, "events.jsonl", "\"finished\""), 1);
}

static void test_layers_are_looked_at_without_changing_the_run(void **state)
{
    (void)state;
    char looked[32], plain[32], text[4096], path[1200];
    const char *run =
        gpu_run("looked", "", STEPS_20 "--deterministic --preview off --grad-stats 4");
    digest_of(run, looked);
    snprintf(path, sizeof path, "%s/layers.jsonl", run);
    run_command(text, sizeof text, "grep -c grad-stats '%s'", path);
    assert_true(strtol(text, NULL, 10) >= 5);
    // The first steps overflow at the usual start of the scale, and the log says no more
    // than that.
    run_command(text, sizeof text, "grep skipped '%s/log.txt'", run);
    assert_non_null(strstr(text, "the scale was too high for this layer"));
    assert_null(strstr(text, "division by zero"));
    digest_of(gpu_run("unlooked", "", STEPS_20 "--deterministic --preview off"), plain);
    assert_string_equal(looked, plain);
}

/* ---- two ranks ------------------------------------------------------------------- */

#define TWO "STANDIN_DEVICES=2"

static void test_two_ranks_with_synced_norm_are_one_rank(void **state)
{
    (void)state;
    const char *flags = SMOOTH "--kimg 0.048 --preview off --gpus 2 --sync-bn";
    const char *apart = SMOOTH "--kimg 0.048 --preview off --gpus 2";
    char one[1024];
    snprintf(one, sizeof one, "%s",
             gpu_run("one", "", SMOOTH "--kimg 0.048 --preview off"));
    double distance = run_difference(gpu_run("two", TWO, flags), one);
    print_message("two ranks differ from one by %.2g\n", distance);
    assert_true(distance < 1e-5);
    // The comparison sees statistics of each half alone.
    assert_true(run_difference(gpu_run("apart", TWO, apart), one) > 1e-4);
}

static void test_an_infinity_on_one_rank_makes_both_skip(void **state)
{
    (void)state;
    char text[4096];
    // Planted on the last rank; the first one writes the events. That both ranks' scalers
    // are equal is compared at the last snapshot, or the run would fail.
    const char *run = gpu_run("both-skip", TWO,
                              "--kimg 0.048 --preview off --gpus 2 --g-init-scale 1024 "
                              "--d-init-scale 1024 --inject d:3-4:inf");
    assert_string_equal(scale_events(run, text, sizeof text),
                        "skip D 3 1024 512\nskip D 4 512 256\n");
}

/* ---- what the host does meanwhile ------------------------------------------------ */

/* The number after `word` in the last line of the stand-ins' log. */
static long logged(const char *log, const char *word)
{
    char line[1024], last[1024] = "";
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        snprintf(last, sizeof last, "%s", line);
    fclose(file);
    const char *found = strstr(last, word);
    if (!found)
        fail_msg("no \"%s\" in \"%s\"", word, last);
    return strtol(found + strlen(word), NULL, 10);
}

static void test_a_step_is_one_replay_and_leaves_no_memory_behind(void **state)
{
    (void)state;
    char environment[700];
    long launches[2], graphs[2];
    for (int longer = 0; longer < 2; longer++) {
        const char *log = in(longer ? "log40" : "log20");
        snprintf(environment, sizeof environment, "STANDIN_LOG='%s'", log);
        gpu_run(longer ? "forty" : "twenty", environment,
                longer ? "--kimg 0.32 --tick 1 --snap 1 --img-snap 1 --preview off"
                       : "--kimg 0.16 --tick 1 --snap 1 --img-snap 1 --preview off");
        launches[longer] = logged(log, "launches ");
        graphs[longer] = logged(log, "graph_launches ");
        assert_int_equal(logged(log, "live_blocks "), 0);
    }
    // Twenty more steps are twenty more replays, and not one kernel launched by itself.
    assert_int_equal(graphs[1] - graphs[0], 20);
    assert_int_equal(launches[1], launches[0]);
}

static void test_pictures_are_drawn_beside_the_training(void **state)
{
    (void)state;
    char path[1200], with[32], without[32];
    const char *run = gpu_run("preview", "", STEPS_20 "--deterministic --preview png");
    digest_of(run, with);
    static const char *const pictures[] = {"preview.png", "scales.png", "fakes_init.png"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", run, pictures[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        fclose(file);
    }
    digest_of(gpu_run("blind", "", STEPS_20 "--deterministic --preview off"), without);
    assert_string_equal(with, without);
}

static struct picture read_png(const char *path)
{
    static uint8_t bytes[1 << 22];
    struct picture picture;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_int_equal(picture_from_png(bytes, size, &picture), STATUS_OK);
    return picture;
}

/* The mean over all pixels and channels of |a - b|. */
static double mean_error(const char *a, const char *b)
{
    struct picture one = read_png(a), other = read_png(b);
    double sum = 0.0;
    assert_int_equal(picture_bytes(&one), picture_bytes(&other));
    for (size_t i = 0; i < picture_bytes(&one); i++)
        sum += abs(one.pixels[i] - other.pixels[i]);
    double mean = sum / (double)picture_bytes(&one);
    picture_release(&one);
    picture_release(&other);
    return mean;
}

static void test_a_checkpoint_draws_the_same_images_on_both_devices(void **state)
{
    (void)state;
    char text[4096];
    const char *run = cpu_run("drawn", "--kimg 0.16 --preview off --precision fp32");
    twinscale_must("sample '%s' --seeds 0-15 --grid 4x4 --device cpu -o '%s'", run,
                   in("cpu.png"));
    int code = on_gpu(text, sizeof text, "",
                      "sample '%s' --seeds 0-15 --grid 4x4 --device cuda:0 -o '%s'", run,
                      in("gpu.png"));
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
    double error = mean_error(in("cpu.png"), in("gpu.png"));
    print_message("mean absolute error: %g of 255\n", error);
    assert_true(error < 1.0);
}

/* ---- sentences ------------------------------------------------------------------- */

static void expect(int wanted, const char *words, const char *environment,
                   const char *flags)
{
    char text[8192];
    int code = on_gpu(text, sizeof text, environment,
                      "train " NETWORK "--kimg 0.008 --preview off --out '%s' %s",
                      in("none"), flags);
    if (code != wanted || !strstr(text, words))
        fail_msg("%s %s: exit %d (%d expected), \"%s\" not in: %s", environment, flags,
                 code, wanted, words, text);
    run_command(text, sizeof text, "rm -rf '%s'", in("none"));
}

static void test_what_is_missing_for_a_gpu_is_said_in_one_sentence(void **state)
{
    (void)state;
    expect(3, "sees no GPU", "STANDIN_DEVICES=0", "--device cuda:0");
    expect(3, "there is 1 GPU here; choose cuda:0", "", "--device cuda:1");
    expect(3, "choose one of cuda:0 to cuda:2", "STANDIN_DEVICES=3", "--device cuda:3");
    expect(3, "needs 13.0 or newer", "STANDIN_DRIVER=12040", "--device cuda:0");
    expect(3, "cuDNN 91000 was found, this program needs 91900",
           "STANDIN_CUDNN_VERSION=91000", "--device cuda:0");
    expect(3, "has compute capability 7.0, this program needs 7.5",
           "STANDIN_CAPABILITY=70", "--device cuda:0");
    expect(3, "bf16 needs compute capability 8.0 or newer, this GPU has 7.5",
           "STANDIN_CAPABILITY=75", "--device cuda:0 --precision bf16");
    expect(1, "MiB wanted, cuda:0 has", "STANDIN_MEMORY_MB=12", "--device cuda:0");
    expect(1, "give a smaller --batch", "STANDIN_MEMORY_MB=12", "--device cuda:0");
}

static void test_auto_takes_the_gpu_or_tells_why_not(void **state)
{
    (void)state;
    expect(0, "device  NVIDIA", "", "--device auto");
    expect(0, "sees no GPU", "STANDIN_DEVICES=0", "--device auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twenty_steps_in_fp32_are_the_cpus),
        cmocka_unit_test(test_scales_and_losses_in_half_precision_are_the_cpus),
        cmocka_unit_test(test_a_replayed_step_is_bit_for_bit_the_queued_one),
        cmocka_unit_test(test_a_resumed_run_is_the_run_never_stopped),
        cmocka_unit_test(test_an_infinity_between_replays_halves_one_scale_alone),
        cmocka_unit_test(test_the_first_scale_is_found_as_on_the_cpu),
        cmocka_unit_test(test_a_storm_builds_the_networks_anew_with_a_layer_in_f32),
        cmocka_unit_test(test_layers_are_looked_at_without_changing_the_run),
        cmocka_unit_test(test_two_ranks_with_synced_norm_are_one_rank),
        cmocka_unit_test(test_an_infinity_on_one_rank_makes_both_skip),
        cmocka_unit_test(test_a_step_is_one_replay_and_leaves_no_memory_behind),
        cmocka_unit_test(test_pictures_are_drawn_beside_the_training),
        cmocka_unit_test(test_a_checkpoint_draws_the_same_images_on_both_devices),
        cmocka_unit_test(test_what_is_missing_for_a_gpu_is_said_in_one_sentence),
        cmocka_unit_test(test_auto_takes_the_gpu_or_tells_why_not),
    };
    return cmocka_run_group_tests(tests, open_test_folder, close_test_folder);
}
