/* test_overflows.c - what a run tells of its overflows, of its layers, and of scales that
 * misbehave. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/report.h"
#include "app/run.h"
#include "app/train/train.h"
#include "tests/app/data_folder.h"
#include "tests/app/make_png.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512];

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("overflows"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

// The objects of a run's file that have `key` (with that text, if one is given).
static json_t *lines_of(const char *run, const char *name, const char *key,
                        const char *value)
{
    char path[1100], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_t *lines = json_array();
    while (getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_t *found = json_object_get(object, key);
        if (found && (!value || strcmp(json_string_value(found), value) == 0))
            json_array_append(lines, object);
        json_decref(object);
    }
    free(line);
    fclose(file);
    return lines;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    if (!json_is_number(number))
        fail_msg("no number %s", key);
    return json_number_value(number);
}

static int count_in_log(const char *run, const char *words)
{
    char text[64];
    run_command(text, sizeof text, "grep -c -- '%s' '%s/log.txt'", words, run);
    return atoi(text);
}

/* ---- skips ----------------------------------------------------------------------- */

static void test_an_overflow_tells_its_layer_tensor_counts_and_cause(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.32 --d-init-scale 1e9", out);
    const char *run = run_in(out);
    json_t *skips = lines_of(run, "events.jsonl", "event", "skip");
    assert_true(json_array_size(skips) > 3);
    for (size_t i = 0; i < json_array_size(skips); i++) {
        json_t *skip = json_array_get(skips, i);
        assert_string_equal(text_of(skip, "net"), "D");
        assert_int_equal(text_of(skip, "layer")[0], 'd');
        assert_non_null(strstr(text_of(skip, "tensor"), "gradient"));
        assert_true(json_is_true(json_object_get(skip, "exact")));
        assert_true(json_is_true(json_object_get(skip, "forward_finite")));
        assert_true(number_of(skip, "inf") >= 1.0);
        assert_true(number_of(skip, "nan") == 0.0);
        assert_true(number_of(skip, "max_finite") >= 0.0);
        assert_true(number_of(skip, "scale_after") ==
                    number_of(skip, "scale_before") / 2);
        assert_string_equal(text_of(skip, "cause"), "scale");
        assert_int_equal(json_array_size(json_object_get(skip, "files")), 0);
    }
    assert_int_equal(count_in_log(run,
                                  "D skipped, inf or NaN.*(first in d\\..*gradient); "
                                  "scale .* inf, 0 NaN, largest finite .* the scale "
                                  "was too high for this layer"),
                     json_array_size(skips));
    json_decref(skips);
}

static void test_what_the_step_does_not_show_again_lies_elsewhere(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.08 --inject g:3:nan", out);
    json_t *skips = lines_of(run_in(out), "events.jsonl", "event", "skip");
    assert_int_equal(json_array_size(skips), 1);
    json_t *skip = json_array_get(skips, 0);
    assert_string_equal(text_of(skip, "net"), "G");
    assert_string_equal(text_of(skip, "tensor"), "weight gradient");
    assert_true(number_of(skip, "step") == 3.0 && number_of(skip, "nan") == 1.0);
    assert_string_equal(text_of(skip, "cause"), "elsewhere");
    json_decref(skips);
    assert_int_equal(count_in_log(run_in(out), "a fault planted with --inject"), 1);
}

static void test_the_files_of_a_skipped_batch_of_d_are_named(void **state)
{
    (void)state;
    char data[600];
    snprintf(data, sizeof data, "%s/faces", out);
    run_command((char[256]){0}, 256, "mkdir '%s' '%s/runs'", data, out);
    for (int i = 0; i < 32; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/face%02d.png", data, i);
        write_png(path, 32, 32, 2, colours);
    }
    twinscale_must("train " SMALL_RUN " --data '%s' --out '%s/runs' --kimg 0.08 "
                   "--inject d:3:inf",
                   data, out);
    char runs[600];
    snprintf(runs, sizeof runs, "%s/runs", out);
    json_t *skips = lines_of(run_in(runs), "events.jsonl", "event", "skip");
    assert_int_equal(json_array_size(skips), 1);
    json_t *files = json_object_get(json_array_get(skips, 0), "files");
    json_t *images = json_object_get(json_array_get(skips, 0), "images");
    assert_int_equal(json_array_size(files), 16);
    assert_int_equal(json_array_size(images), 16);
    for (size_t i = 0; i < 16; i++) {
        const char *name = json_string_value(json_array_get(files, i));
        assert_non_null(strstr(name, "faces/face"));
        assert_int_equal(access(name, R_OK), 0);
        assert_int_equal(json_integer_value(json_array_get(images, i)),
                         strtol(strstr(name, "faces/face") + 10, NULL, 10));
        for (size_t k = 0; k < i; k++) // a batch within one epoch has each image once
            assert_string_not_equal(name, json_string_value(json_array_get(files, k)));
    }
    json_decref(skips);
}

/* ---- statistics ------------------------------------------------------------------ */

static double mean_share(json_t *look, const char *layer_of, const char *tensor,
                         const char *key)
{
    json_t *entries = json_object_get(look, "layers"), *entry;
    size_t i;
    double sum = 0.0, count = 0.0;
    json_array_foreach(entries, i, entry)
    {
        if (text_of(entry, "layer")[0] != layer_of[0] ||
            strcmp(text_of(entry, "tensor"), tensor) != 0)
            continue;
        sum += number_of(entry, key);
        count += 1.0;
    }
    assert_true(count > 0.0);
    return sum / count;
}

static void test_statistics_are_told_every_n_steps_and_change_nothing(void **state)
{
    (void)state;
    char with[600], without[600], a[32], b[32], path[1200];
    snprintf(with, sizeof with, "%s/with", out);
    snprintf(without, sizeof without, "%s/without", out);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.16 --grad-stats 4", with);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.16", without);
    digest_of(run_in(with), a);
    digest_of(run_in(without), b);
    assert_string_equal(a, b);
    json_t *looks = lines_of(run_in(with), "layers.jsonl", "layers", NULL), *look;
    assert_int_equal(json_array_size(looks), 3); // steps 1, 4 and 8 of 10
    look = json_array_get(looks, 2);
    assert_true(number_of(look, "step") == 8.0);
    assert_string_equal(text_of(look, "reason"), "grad-stats");
    assert_true(mean_share(look, "d", "activation gradient", "finite") == 1.0);
    assert_true(mean_share(look, "g", "activation", "std") > 0.01);
    assert_true(fabs(mean_share(look, "g", "weight gradient", "headroom")) < 40.0);
    json_decref(looks);
    snprintf(path, sizeof path, "%s/stats.png", run_in(with));
    assert_int_equal(access(path, R_OK), 0);
    looks = lines_of(run_in(without), "layers.jsonl", "layers", NULL);
    assert_int_equal(json_array_size(looks), 0);
    json_decref(looks);
    snprintf(path, sizeof path, "%s/stats.png", run_in(without));
    assert_int_not_equal(access(path, R_OK), 0);
}

// The gradients of the first step at a scale of 2^exponent.
static json_t *look_at_scale(int exponent, const char *precision)
{
    char folder_of_it[700];
    snprintf(folder_of_it, sizeof folder_of_it, "%s/%s%d", out, precision, exponent);
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.016 --grad-stats 1 "
                   "--precision %s --scaler per-network --d-init-scale %g "
                   "--g-init-scale %g",
                   folder_of_it, precision, ldexp(1, exponent), ldexp(1, exponent));
    json_t *looks = lines_of(run_in(folder_of_it), "layers.jsonl", "layers", NULL);
    json_t *look = json_incref(json_array_get(looks, 0));
    json_decref(looks);
    return look;
}

static void test_underflow_shows_where_the_scale_is_too_small(void **state)
{
    (void)state;
    const char *kind = "activation gradient";
    json_t *low = look_at_scale(-24, "fp16"), *middle = look_at_scale(-12, "fp16");
    json_t *high = look_at_scale(14, "fp16");
    double lost[] = {mean_share(low, "d", kind, "lost"),
                     mean_share(middle, "d", kind, "lost"),
                     mean_share(high, "d", kind, "lost")};
    double subnormal[] = {mean_share(middle, "d", kind, "subnormal"),
                          mean_share(high, "d", kind, "subnormal")};
    // 2^-24 leaves nothing, 2^-12 little that is normal; at 2^14 all zeros are f32's own.
    assert_true(lost[0] > 0.9);
    assert_true(lost[1] > 0.01 && lost[1] < 0.5);
    assert_true(lost[2] < 0.001);
    assert_true(subnormal[0] > 0.5);
    assert_true(subnormal[1] < 0.01);
    // 26 doublings of the scale are 26 doublings less of headroom.
    double headroom = mean_share(middle, "d", kind, "headroom") -
                      mean_share(high, "d", kind, "headroom");
    assert_true(fabs(headroom - 26.0) < 0.1);
    json_decref(low);
    json_decref(middle);
    json_decref(high);
}

static void test_bf16_loses_nothing_where_f16_does(void **state)
{
    (void)state;
    json_t *look = look_at_scale(-12, "bf16");
    assert_true(mean_share(look, "d", "activation gradient", "lost") < 0.001);
    json_decref(look);
}

static void test_an_overflow_has_its_statistics_without_being_asked_for(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.08 --inject d:3:inf", out);
    json_t *looks = lines_of(run_in(out), "layers.jsonl", "layers", NULL);
    assert_int_equal(json_array_size(looks), 1);
    json_t *look = json_array_get(looks, 0);
    assert_string_equal(text_of(look, "reason"), "skip D");
    assert_true(number_of(look, "step") == 3.0);
    assert_true(number_of(look, "scale_d") == 1024.0);
    assert_true(mean_share(look, "d", "activation gradient", "max") > 0.0);
    json_decref(looks);
}

/* ---- scales that misbehave ------------------------------------------------------- */

static void test_a_network_that_is_stuck_is_warned_of_once(void **state)
{
    (void)state;
    char text[8192];
    int code =
        twinscale(text, sizeof text,
                  "train " SMALL_RUN " --out '%s' --kimg 0.384 --inject d:2-20:inf", out);
    assert_int_equal(code, 0);
    json_t *drifts = lines_of(run_in(out), "events.jsonl", "event", "drift");
    assert_int_equal(json_array_size(drifts), 1);
    assert_string_equal(text_of(json_array_get(drifts, 0), "kind"), "stuck");
    json_decref(drifts);
    assert_int_equal(count_in_log(run_in(out), "warning: D skipped its last 12 steps"),
                     1);
    assert_non_null(
        strstr(text, "warning: D skipped its last 12 steps while G took all"));
}

static void test_what_was_warned_of_is_not_said_again_after_a_resume(void **state)
{
    (void)state;
    char run[1024];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.384 --inject d:2-20:inf",
                   out);
    snprintf(run, sizeof run, "%s", run_in(out));
    twinscale_must("train --resume '%s' --kimg 0.8 --inject d:26-44:inf", run);
    assert_int_equal(count_in_log(run, "warning: D skipped its last 12 steps"), 1);
    // Of the other network it is news.
    twinscale_must("train --resume '%s' --kimg 1.2 --inject g:52-70:inf", run);
    assert_int_equal(count_in_log(run, "warning: G skipped its last 12 steps"), 1);
    json_t *drifts = lines_of(run, "events.jsonl", "event", "drift");
    assert_int_equal(json_array_size(drifts), 2);
    assert_string_equal(text_of(json_array_get(drifts, 0), "net"), "D");
    json_decref(drifts);
}

static void test_every_finding_is_recalled_from_its_event(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int finding;
    } told[] = {
        {"{\"event\":\"oscillation\",\"net\":\"G\"}", WATCH_OSCILLATES_G},
        {"{\"event\":\"oscillation\",\"net\":\"D\"}", WATCH_OSCILLATES_D},
        {"{\"event\":\"drift\",\"kind\":\"stuck\",\"net\":\"G\"}", WATCH_STUCK_G},
        {"{\"event\":\"drift\",\"kind\":\"stuck\",\"net\":\"D\"}", WATCH_STUCK_D},
        {"{\"event\":\"drift\",\"kind\":\"skips\"}", WATCH_SKIPS_APART},
        {"{\"event\":\"drift\",\"kind\":\"scales\"}", WATCH_SCALES_APART},
        {"{\"event\":\"stuck\",\"net\":\"G\"}", 0},
        {"{\"event\":\"drift\"}", 0},
        {"noise", 0},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        char path[600];
        struct report report;
        memset(&report, 0, sizeof report);
        snprintf(path, sizeof path, "%s/events.jsonl", out);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%s\n", told[i].line);
        fclose(file);
        report_watch_recall(&report, path);
        assert_int_equal(report.watch.found, told[i].finding);
    }
}

// A run in this process, whose planted faults come as the test wants them.
struct live {
    struct trainer trainer;
    struct run_folder folder;
    struct monitor *monitor;
    struct report report;
};

static struct config live_config(void)
{
    struct config config;
    config_default(&config);
    snprintf(config.data, sizeof config.data, "builtin:shapes");
    snprintf(config.out, sizeof config.out, "%s", out);
    config.resolution = 32;
    config.g.width = config.d.width = 4;
    config.latent = 8;
    config.batch = 4;
    config.threads = 1;
    config.kimg = 10;
    config.preview = PREVIEW_OFF;
    config.grid_columns = config.grid_rows = 1;
    config.g.init_scale = config.d.init_scale = 256;
    config.g.growth_interval = config.d.growth_interval = 4;
    config.g.max_scale = config.d.max_scale = 512;
    return config;
}

static void open_live(struct live *live)
{
    struct config config = live_config();
    memset(live, 0, sizeof *live);
    assert_int_equal(trainer_create(&live->trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(&live->trainer), STATUS_OK);
    assert_int_equal(run_folder_create(&live->folder, &config, "shapes"), STATUS_OK);
    live->monitor = monitor_create();
    assert_int_equal(
        report_open(&live->report, &live->trainer, &live->folder, live->monitor, 0, 0),
        STATUS_OK);
}

static void close_live(struct live *live)
{
    report_close(&live->report);
    monitor_destroy(live->monitor);
    run_folder_close(&live->folder);
    trainer_release(&live->trainer);
}

static void step_live(struct live *live, int d_overflows)
{
    struct config *config = &live->trainer.config;
    snprintf(config->inject, sizeof config->inject, "d:%lld:inf",
             d_overflows ? (long long)live->trainer.progress.step + 1 : 1000000LL);
    train_step(&live->trainer);
    assert_int_equal(train_collect_all(&live->trainer), STATUS_OK);
    report_step(&live->report);
}

static void test_an_oscillation_is_told_once_with_its_swings(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    for (int i = 0; i < 160; i++)
        step_live(&live, i % 32 >= 27); // five overflows in a row, then growth to 512
    json_t *events = lines_of(live.folder.path, "events.jsonl", "event", "oscillation");
    assert_int_equal(json_array_size(events), 1);
    json_t *event = json_array_get(events, 0), *swings = json_object_get(event, "swings");
    assert_string_equal(text_of(event, "net"), "D");
    assert_int_equal(json_array_size(swings), WATCH_SWINGS);
    for (size_t i = 0; i < WATCH_SWINGS; i++) {
        json_t *swing = json_array_get(swings, i);
        assert_string_equal(text_of(swing, "place"), "d.conv1: weight gradient");
        assert_in_range((int)number_of(swing, "at") % 32, 28, 32);
    }
    json_decref(events);
    assert_int_equal(count_in_log(live.folder.path,
                                  "D.s scale oscillates.*a learning rate "
                                  "that is too high.*unstable.*--fp32-layers d.conv1).*"
                                  "unlike the others"),
                     1);
    close_live(&live);
}

static void test_one_overflow_per_growth_is_not_worth_a_word(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    for (int i = 0; i < 160; i++)
        step_live(&live, i % 5 == 4);
    assert_int_equal(count_in_log(live.folder.path, "warning"), 0);
    close_live(&live);
}

static void test_a_forward_pass_out_of_range_says_that_no_scale_can_help(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    struct net *d = &live.trainer.gan.net[ROLE_D];
    for (int i = 0; i < d->param_count; i++)
        for (size_t k = 0; strcmp(d->param[i].name, "conv2.weight") == 0 &&
                           k < tensor_elements(&d->param[i].shape);
             k++)
            d->params[d->param[i].offset + k] = 6e4f;
    net_params_changed(d);
    step_live(&live, 0);
    json_t *skips = lines_of(live.folder.path, "events.jsonl", "cause", "forward");
    assert_true(json_array_size(skips) >= 1);
    json_t *skip = json_array_get(skips, 0);
    assert_string_equal(text_of(skip, "net"), "D");
    assert_true(json_is_false(json_object_get(skip, "forward_finite")));
    assert_string_equal(text_of(skip, "layer"), "d.conv2");
    assert_string_equal(text_of(skip, "tensor"), "activation");
    assert_true(number_of(skip, "inf") > 0.0);
    json_decref(skips);
    assert_int_equal(count_in_log(live.folder.path,
                                  "no loss scale can help; lower --d-lr, keep what "
                                  "overflowed in f32 with --fp32-layers d.conv2,d.bn2, "
                                  "or train with --precision bf16 or fp32"),
                     1);
    close_live(&live);
}

static void test_a_device_that_runs_ahead_tells_what_is_left_of_a_skip(void **state)
{
    (void)state;
    struct live live;
    open_live(&live);
    live.trainer.device->steps_ahead = 1;
    step_live(&live, 1);
    json_t *looks = lines_of(live.folder.path, "layers.jsonl", "layers", NULL), *entry;
    size_t i, counts[2] = {0, 0};
    assert_int_equal(json_array_size(looks), 1);
    json_t *look = json_array_get(looks, 0);
    assert_string_equal(text_of(look, "reason"), "skip D");
    json_array_foreach(json_object_get(look, "layers"), i, entry)
    {
        counts[0] += strcmp(text_of(entry, "tensor"), "activation") == 0;
        counts[1] += strcmp(text_of(entry, "tensor"), "weight gradient") == 0;
        if (strcmp(text_of(entry, "layer"), "d.conv1") == 0 &&
            strcmp(text_of(entry, "tensor"), "weight gradient") == 0)
            assert_true(number_of(entry, "finite") < 1.0);
    }
    assert_int_equal(counts[0] + counts[1], i);
    assert_true(counts[0] > 0 && counts[1] > 0);
    json_decref(looks);
    json_t *skips = lines_of(live.folder.path, "events.jsonl", "event", "skip");
    assert_true(json_is_false(json_object_get(json_array_get(skips, 0), "exact")));
    json_decref(skips);
    close_live(&live);
}

/* ---- losses ---------------------------------------------------------------------- */

static void test_a_loss_that_stays_far_out_is_warned_of_once(void **state)
{
    (void)state;
    char run[1024];
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.96 "
                   "--inject d:2-:huge-activation",
                   out);
    snprintf(run, sizeof run, "%s", run_in(out));
    assert_int_equal(
        count_in_log(run, "warning: D.s loss has been above 50 for 32 steps"), 1);
    twinscale_must("train --resume '%s' --kimg 1.6", run);
    json_t *losses = lines_of(run, "events.jsonl", "event", "loss");
    assert_int_equal(json_array_size(losses), 1);
    json_t *loss = json_array_get(losses, 0);
    assert_string_equal(text_of(loss, "net"), "D");
    assert_true(number_of(loss, "step") == 33.0);
    assert_true(number_of(loss, "loss") > 50.0);
    json_decref(losses);
}

static void test_a_usual_loss_or_a_short_excursion_is_not_warned_of(void **state)
{
    (void)state;
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 1.28 "
                   "--inject d:2-32:huge-activation,d:34-64:huge-activation",
                   out);
    assert_int_equal(count_in_log(run_in(out), "loss has been above"), 0);
}

/* ---- storms ---------------------------------------------------------------------- */

/* 60000 in G's image overflows the gradient before its tanh at G's scale of 2^13 and also
 * at an eighth of it, while steps without it are good up to four times that: what is a
 * storm does not depend on how a CPU rounds. */
static struct config storm_config(void)
{
    struct config config = live_config();
    config.g.width = config.d.width = 8;
    config.latent = config.batch = 16;
    config.seed = 3;
    config.kimg = 0.32;
    config.g.init_scale = 8192;
    config.g.max_scale = config.d.max_scale = 0;
    config.g.growth_interval = config.d.growth_interval = 2000;
    config.max_skips = 2;
    config.on_overflow_storm = STORM_F32;
    snprintf(config.inject, sizeof config.inject, "g:5-:huge-activation");
    return config;
}

// As on a GPU: step 7 is on its way when the storm of step 6 is seen.
static void test_steps_on_their_way_stay_when_a_layer_is_moved_to_f32(void **state)
{
    (void)state;
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->trainer.config = storm_config();
    run->saved_at = -1;
    assert_int_equal(trainer_create(&run->trainer, &run->trainer.config), STATUS_OK);
    assert_int_equal(trainer_start_data(&run->trainer), STATUS_OK);
    run->trainer.device->steps_ahead = 1;
    run->monitor = monitor_create();
    assert_int_equal(run_folder_create(&run->folder, &run->trainer.config, "shapes"),
                     STATUS_OK);
    assert_int_equal(
        report_open(&run->report, &run->trainer, &run->folder, run->monitor, 0, 0),
        STATUS_OK);
    run_loop(run);
    if (run->status != STATUS_OK)
        fail_msg("%s", run->message);
    json_t *moves = lines_of(run->folder.path, "events.jsonl", "event", "fp32_layer");
    assert_true(json_array_size(moves) >= 1);
    assert_true(number_of(json_array_get(moves, 0), "step") == 7.0);
    json_decref(moves);
    assert_int_equal(run->trainer.progress.step, 20);
    assert_int_equal(history_count(monitor_history(run->monitor)), 20);
    assert_int_equal(run->trainer.last.record[ROLE_G].updates, 20);
    report_close(&run->report);
    monitor_destroy(run->monitor);
    run_folder_close(&run->folder);
    trainer_release(&run->trainer);
    free(run);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_overflow_tells_its_layer_tensor_counts_and_cause),
        TEST(test_what_the_step_does_not_show_again_lies_elsewhere),
        TEST(test_a_forward_pass_out_of_range_says_that_no_scale_can_help),
        TEST(test_the_files_of_a_skipped_batch_of_d_are_named),
        TEST(test_statistics_are_told_every_n_steps_and_change_nothing),
        TEST(test_underflow_shows_where_the_scale_is_too_small),
        TEST(test_bf16_loses_nothing_where_f16_does),
        TEST(test_an_overflow_has_its_statistics_without_being_asked_for),
        TEST(test_a_network_that_is_stuck_is_warned_of_once),
        TEST(test_what_was_warned_of_is_not_said_again_after_a_resume),
        TEST(test_every_finding_is_recalled_from_its_event),
        TEST(test_an_oscillation_is_told_once_with_its_swings),
        TEST(test_one_overflow_per_growth_is_not_worth_a_word),
        TEST(test_a_loss_that_stays_far_out_is_warned_of_once),
        TEST(test_a_usual_loss_or_a_short_excursion_is_not_warned_of),
        TEST(test_steps_on_their_way_stay_when_a_layer_is_moved_to_f32),
        TEST(test_a_device_that_runs_ahead_tells_what_is_left_of_a_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
