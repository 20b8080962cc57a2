/* bench_precision.c - `twinscale bench precision`: what a storage type costs in time and
 * memory, without --recompute and with it.
 *
 * Steps are timed in rounds, and the median round counts: one that another program
 * disturbed does not. What --recompute adds is a few hundredths of a step, less than a
 * busy machine drifts in a minute: so the run without and the run with it are set up
 * together and take their rounds in turns. Both are gone before the next precision
 * begins. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench/bench.h"
#include "kernels/base/process.h"
#include "app/recovery/storm.h"
#include "app/train/train.h"

#define ROUNDS 15
#define WARM_UP 2 // the first warms caches, the second is recorded where there is a graph
#define STEPS_MAX 1e7
#define MODE_NAME 32

struct mode {
    int precision, recomputes;
    int is_measured;
    char reason[512]; // why it is not; "" where Ctrl-C came before
    double images_per_sec, step_sec;
    struct bench_spread speed; // of images_per_sec, over the rounds
    // Of one that recomputes: shares of what the same precision without keeps and takes.
    double memory_saved, time_added;
    struct bench_spread added; // of time_added
    int steps;                 // that were timed
    size_t activations[ROLES]; // bytes, with their gradients
    size_t kept;               // of them, from the forward pass to the backward
    size_t device_bytes;
};

static const int precisions[] = {PRECISION_FP32, PRECISION_FP16, PRECISION_BF16};
#define PRECISION_COUNT ((int)(sizeof precisions / sizeof *precisions))
#define MODE_COUNT (2 * PRECISION_COUNT) // each is followed by itself with --recompute

struct comparison {
    struct bench *bench;
    struct mode mode[MODE_COUNT];
    char device[160], data[64];
};

/* ---- memory ---------------------------------------------------------------------- */

static size_t net_bytes(const struct net *net)
{
    return net->parameters.bytes + net->activations.bytes;
}

/* Every block of device memory that a run allocates for itself: networks, optimizers,
 * scalers, average, sampler, images on their way, statistics. Not what the backend keeps
 * for its own work (the workspaces of convolutions). */
static size_t run_bytes(const struct trainer *trainer)
{
    const struct probe *probe = &trainer->probe;
    size_t bytes = trainer->arena.bytes + trainer->topology.arena.bytes +
                   trainer->topology.fake.arena.bytes + trainer->ema.arena.bytes +
                   trainer->feed.arena.bytes + trainer->results.arena.bytes +
                   trainer->sampler.arena.bytes + net_bytes(&trainer->sampler.net) +
                   probe->arena.bytes;
    for (int network = 0; network < ROLES; network++) {
        bytes +=
            net_bytes(&trainer->gan.net[network]) + trainer->adam[network].arena.bytes +
            trainer->scaler[network].arena.bytes + trainer->survey[network].arena.bytes +
            net_bytes(&probe->reference.net[network]);
    }
    for (int pass = 0; pass < probe->passes; pass++)
        bytes +=
            probe->survey[pass].arena.bytes + probe->reference_survey[pass].arena.bytes;
    return bytes;
}

static size_t activation_bytes(const struct mode *mode)
{
    return mode->activations[ROLE_G] + mode->activations[ROLE_D];
}

/* ---- time ------------------------------------------------------------------------ */

// The seconds of `steps` steps; *is_whole is 0 where Ctrl-C ended them.
static enum status time_steps(struct bench *bench, struct trainer *trainer, int steps,
                              double *seconds, int *is_whole)
{
    double started = now_seconds();
    *is_whole = 1;
    for (int i = 0; i < steps && *is_whole; i++) {
        train_step(trainer);
        TRY(storm_collect(trainer, trainer->device->steps_ahead));
        *is_whole = !bench_must_end(bench);
    }
    TRY(storm_collect(trainer, 0));
    *seconds = now_seconds() - started;
    return STATUS_OK;
}

// The steps of a round, after the first steps of both; 0 where Ctrl-C ended them.
static enum status warm_up(struct bench *bench, struct trainer *trainer, int *steps)
{
    double seconds = 0.0;
    int is_whole = 1;
    *steps = 0;
    for (int run = 0; run < 2 && is_whole; run++) {
        TRY(time_steps(bench, &trainer[run], WARM_UP, &seconds, &is_whole));
        if (is_whole)
            TRY(time_steps(bench, &trainer[run], 1, &seconds, &is_whole));
    }
    double wanted = ceil(bench->seconds / ROUNDS / fmax(seconds, 1e-6));
    if (is_whole)
        *steps = (int)fmin(fmax(wanted, 1.0), STEPS_MAX);
    return STATUS_OK;
}

static void keep_times(struct mode *mode, const struct config *config, int steps,
                       double round[ROUNDS])
{
    mode->is_measured = 1;
    mode->steps = ROUNDS * steps;
    mode->step_sec = bench_median(round, ROUNDS) / steps;
    double images = (double)config_step_images(config) * steps;
    mode->images_per_sec = images / steps / mode->step_sec;
    struct bench_spread seconds = bench_spread(round, ROUNDS);
    mode->speed = (struct bench_spread){images / seconds.high, images / seconds.low};
}

// Two runs, and their modes, in turns.
static enum status time_rounds(struct bench *bench, struct trainer *trainer,
                               struct mode *mode)
{
    double round[2][ROUNDS], added[ROUNDS];
    int steps, is_whole;
    TRY(warm_up(bench, trainer, &steps));
    if (steps == 0)
        return STATUS_OK;
    for (int i = 0; i < ROUNDS; i++) {
        for (int run = 0; run < 2; run++) {
            TRY(time_steps(bench, &trainer[run], steps, &round[run][i], &is_whole));
            if (!is_whole)
                return STATUS_OK;
        }
        added[i] = round[1][i] / round[0][i] - 1.0;
    }
    for (int run = 0; run < 2; run++)
        keep_times(&mode[run], &trainer[run].config, steps, round[run]);
    mode[1].time_added = bench_median(added, ROUNDS);
    mode[1].added = bench_spread(added, ROUNDS);
    mode[1].memory_saved = 1.0 - (double)mode[1].kept / (double)mode[0].kept;
    return STATUS_OK;
}

/* ---- one precision --------------------------------------------------------------- */

static const char *mode_name(const struct mode *mode, char text[MODE_NAME])
{
    snprintf(text, MODE_NAME, "%s%s", precision_name(mode->precision),
             mode->recomputes ? " recompute" : "");
    return text;
}

static enum status begin(struct comparison *comparison, const struct trainer *trainer)
{
    struct bench *bench = comparison->bench;
    if (bench->folder.path[0])
        return STATUS_OK;
    bench->config.channels = trainer->config.channels;
    bench->config.resolution = trainer->config.resolution;
    snprintf(comparison->device, sizeof comparison->device, "%s",
             trainer->device->description);
    snprintf(comparison->data, sizeof comparison->data, "%s", trainer->dataset->name);
    TRY(bench_open_folder(bench, trainer->dataset->name, "bench-precision"));
    bench_print(bench, "bench   precision: at least %.4g s each, batch %d, %d px",
                bench->seconds, bench->config.batch, bench->config.resolution);
    bench_print(bench, "run     %s", bench->folder.path);
    bench_print(bench, "device  %s", comparison->device);
    return STATUS_OK;
}

static enum status set_up(struct comparison *comparison, struct mode *mode,
                          struct trainer *trainer)
{
    struct config config = comparison->bench->config;
    config.precision = mode->precision;
    config.recompute = mode->recomputes;
    TRY(bench_create_trainer(comparison->bench, trainer, &config));
    // It may refuse the data, and then no folder is left.
    TRY(trainer_start_data(trainer));
    TRY(begin(comparison, trainer));
    for (int network = 0; network < ROLES; network++) {
        mode->activations[network] = trainer->gan.net[network].activations.bytes;
        mode->kept += trainer->gan.net[network].kept_bytes;
    }
    mode->device_bytes = run_bytes(trainer);
    return STATUS_OK;
}

static enum status measure_runs(struct comparison *comparison, struct mode *mode,
                                struct trainer *trainer)
{
    char name[MODE_NAME];
    for (int run = 0; run < 2; run++)
        TRY(set_up(comparison, &mode[run], &trainer[run]));
    TRY(time_rounds(comparison->bench, trainer, mode));
    for (int run = 0; run < 2; run++)
        if (mode[run].is_measured)
            bench_print(comparison->bench, "%-14s %.1f images/s (%.1f to %.1f)",
                        mode_name(&mode[run], name), mode[run].images_per_sec,
                        mode[run].speed.low, mode[run].speed.high);
    return STATUS_OK;
}

/* A type that this device does not have, or that does not train, is two rows without
 * numbers, not a failure: --recompute gives the same bits. */
static enum status measure_precision(struct comparison *comparison, struct mode *mode)
{
    struct trainer *trainer = calloc(2, sizeof *trainer);
    CHECK_MEMORY(trainer, "a trainer");
    enum status status = measure_runs(comparison, mode, trainer);
    for (int run = 0; run < 2; run++)
        trainer_release(&trainer[run]);
    free(trainer);
    int may_be_missing = mode->precision != PRECISION_FP32;
    if (!may_be_missing || (status != STATUS_ENVIRONMENT && status != STATUS_DIVERGED))
        return status;
    for (int run = 0; run < 2; run++)
        snprintf(mode[run].reason, sizeof mode[run].reason, "%.511s", status_message());
    return STATUS_OK;
}

/* ---- what is told ---------------------------------------------------------------- */

static double megabytes(size_t bytes)
{
    return (double)bytes / 1e6;
}

static void print_mode(const struct mode *mode, const struct mode *base)
{
    char speed[40];
    snprintf(speed, sizeof speed, "%.1f-%.1f", mode->speed.low, mode->speed.high);
    printf(" %9.1f %17s %7.2fx %8.3f %14.2f %7.0f%% %13.2f", mode->images_per_sec, speed,
           mode->images_per_sec / base->images_per_sec, mode->step_sec * 1e3,
           megabytes(activation_bytes(mode)),
           100.0 * (double)activation_bytes(mode) / (double)activation_bytes(base),
           megabytes(mode->device_bytes));
    if (mode->recomputes)
        printf(" %5.1f%% %+6.1f%% (%+.1f to %+.1f)", 100.0 * mode->memory_saved,
               100.0 * mode->time_added, 100.0 * mode->added.low,
               100.0 * mode->added.high);
    printf("\n");
}

static void print_table(const struct comparison *comparison)
{
    printf("%-14s %9s %17s %8s %8s %14s %8s %13s %6s %7s\n", "precision", "images/s",
           "middle half", "of fp32", "ms/step", "activations MB", "of fp32",
           "all memory MB", "saved", "added");
    for (int i = 0; i < MODE_COUNT; i++) {
        const struct mode *mode = &comparison->mode[i];
        char name[MODE_NAME];
        printf("%-14s", mode_name(mode, name));
        if (mode->is_measured)
            print_mode(mode, &comparison->mode[0]);
        else
            printf(" not measured: %s\n",
                   mode->reason[0] ? mode->reason : "stopped before");
    }
    printf(
        "images/s: the median of %d rounds; middle half: of these rounds, so that a busy "
        "machine\nis seen; activations: with their gradients; saved: of those kept for "
        "the "
        "backward pass,\nagainst the same precision without --recompute; added: time, "
        "the "
        "median of rounds in\nturns, and the middle half of them. Differences within "
        "that "
        "are noise.\n",
        ROUNDS);
}

static json_t *spread_json(const struct bench_spread *spread)
{
    return json_pack("[o, o]", bench_number(spread->low), bench_number(spread->high));
}

static json_t *mode_json(const struct mode *mode)
{
    json_t *object =
        json_pack("{s:s, s:b, s:b}", "precision", precision_name(mode->precision),
                  "recompute", mode->recomputes, "measured", mode->is_measured);
    CHECK_MEMORY(object, "the results");
    if (!mode->is_measured) {
        json_object_set_new(object, "reason", json_string(mode->reason));
        return object;
    }
    json_t *numbers =
        json_pack("{s:o, s:o, s:i, s:{s:I, s:I}, s:I, s:I}", "images_per_sec",
                  bench_number(mode->images_per_sec), "step_ms",
                  bench_number(mode->step_sec * 1e3), "steps", mode->steps,
                  "activation_bytes", "G", (json_int_t)mode->activations[ROLE_G], "D",
                  (json_int_t)mode->activations[ROLE_D], "kept_bytes",
                  (json_int_t)mode->kept, "device_bytes", (json_int_t)mode->device_bytes);
    CHECK(numbers && json_object_update(object, numbers) == 0, "a row of JSON");
    json_decref(numbers);
    json_object_set_new(object, "images_per_sec_quartiles", spread_json(&mode->speed));
    if (mode->recomputes) {
        json_object_set_new(object, "time_added_quartiles", spread_json(&mode->added));
        json_object_set_new(object, "memory_saved", bench_number(mode->memory_saved));
        json_object_set_new(object, "time_added", bench_number(mode->time_added));
    }
    return object;
}

static enum status write_json(const struct comparison *comparison)
{
    json_t *settings = bench_settings_json(comparison->bench), *modes = json_array();
    CHECK_MEMORY(modes, "the results");
    json_object_del(settings, "precision"); // what the rows differ in
    json_object_del(settings, "recompute");
    for (int i = 0; i < MODE_COUNT; i++)
        json_array_append_new(modes, mode_json(&comparison->mode[i]));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "work", "bench precision",
                  "program", "twinscale " TWINSCALE_VERSION, "device", comparison->device,
                  "data", comparison->data, "stopped", comparison->bench->must_end,
                  "modes", modes, "settings", settings);
    CHECK_MEMORY(object, "the results");
    return bench_write_json(comparison->bench, object);
}

enum status bench_precision(struct bench *bench)
{
    struct comparison comparison = {.bench = bench};
    TRY(config_check(&bench->config));
    for (int i = 0; i < PRECISION_COUNT; i++) {
        struct mode *mode = &comparison.mode[2 * i];
        mode[0].precision = mode[1].precision = precisions[i];
        mode[1].recomputes = 1;
        if (!bench_must_end(bench))
            TRY(measure_precision(&comparison, mode));
    }
    if (!comparison.mode[0].is_measured) {
        bench_print(bench, "stopped before anything was measured");
        return STATUS_OK;
    }
    print_table(&comparison);
    return write_json(&comparison);
}
