/* bench_precision.c - `twinscale bench precision`: what a storage type costs in time and
 * memory.
 *
 * Steps are timed in rounds, and the median round counts: one that another program disturbed
 * does not. One type's run is gone before the next is set up, so that all have the machine
 * to themselves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench.h"
#include "app/output/progress.h"
#include "app/train.h"

#define ROUNDS 5
#define WARM_UP 2 // the first warms caches, the second is recorded where there is a graph
#define STEPS_MAX 1e7

struct mode {
    int precision;
    int is_measured;
    char reason[512]; // why it is not; "" where Ctrl-C came before
    double images_per_sec, step_sec;
    int steps;                         // that were timed
    size_t activations[NETWORK_COUNT]; // bytes
    size_t device_bytes;
};

static const int precisions[] = {PRECISION_FP32, PRECISION_FP16, PRECISION_BF16};
#define MODE_COUNT 3

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

/* Every block of device memory that a run allots for itself: networks, optimizers, scalers,
 * average, sampler, images on their way, statistics. Not what the backend keeps for its
 * own work (the workspaces of convolutions). */
static size_t run_bytes(const struct trainer *trainer)
{
    const struct look *look = &trainer->look;
    size_t bytes = trainer->arena.bytes + trainer->topology.arena.bytes +
                   trainer->topology.fake.arena.bytes + trainer->ema.arena.bytes +
                   trainer->feed.arena.bytes + trainer->results.arena.bytes +
                   trainer->sampler.arena.bytes + net_bytes(&trainer->sampler.net) +
                   look->arena.bytes;
    for (int network = 0; network < NETWORK_COUNT; network++) {
        const struct player *player = &trainer->player[network];
        bytes += net_bytes(&player->net) + player->adam.arena.bytes +
                 player->scaler.arena.bytes + trainer->survey[network].arena.bytes +
                 net_bytes(&look->twin[network]);
    }
    for (int pass = 0; pass < LOOK_PASSES; pass++)
        bytes += look->survey[pass].arena.bytes + look->twin_survey[pass].arena.bytes;
    return bytes;
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
        while (train_pending(trainer) > trainer->device->steps_ahead)
            TRY(train_collect(trainer));
        *is_whole = !bench_must_end(bench);
    }
    TRY(train_collect_all(trainer));
    *seconds = now_seconds() - started;
    return STATUS_OK;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum status time_rounds(struct bench *bench, struct trainer *trainer,
                               struct mode *mode)
{
    double seconds, round[ROUNDS];
    int is_whole;
    TRY(time_steps(bench, trainer, WARM_UP, &seconds, &is_whole));
    if (is_whole)
        TRY(time_steps(bench, trainer, 1, &seconds, &is_whole));
    if (!is_whole)
        return STATUS_OK;
    double wanted = ceil(bench->seconds / ROUNDS / fmax(seconds, 1e-6));
    int steps = (int)fmin(fmax(wanted, 1.0), STEPS_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        TRY(time_steps(bench, trainer, steps, &round[i], &is_whole));
        if (!is_whole)
            return STATUS_OK;
    }
    qsort(round, ROUNDS, sizeof *round, ascending);
    mode->is_measured = 1;
    mode->steps = ROUNDS * steps;
    mode->step_sec = round[ROUNDS / 2] / steps;
    mode->images_per_sec = (double)config_step_images(&trainer->config) / mode->step_sec;
    return STATUS_OK;
}

/* ---- one storage type ------------------------------------------------------------ */

static enum status begin(struct comparison *comparison, const struct trainer *trainer)
{
    struct bench *bench = comparison->bench;
    if (bench->folder.path[0])
        return STATUS_OK;
    bench->config.channels = trainer->config.channels;
    snprintf(comparison->device, sizeof comparison->device, "%s",
             trainer->device->description);
    snprintf(comparison->data, sizeof comparison->data, "%s", trainer->dataset->name);
    TRY(bench_open_folder(bench, trainer->dataset->name, "bench-precision"));
    bench_say(bench, "bench   precision: at least %.4g s each, batch %d, %d px",
              bench->seconds, bench->config.batch, bench->config.resolution);
    bench_say(bench, "run     %s", bench->folder.path);
    bench_say(bench, "device  %s", comparison->device);
    return STATUS_OK;
}

static enum status measure_run(struct comparison *comparison, struct mode *mode,
                               struct trainer *trainer)
{
    TRY(begin(comparison, trainer));
    TRY(trainer_start_data(trainer));
    for (int network = 0; network < NETWORK_COUNT; network++)
        mode->activations[network] = trainer->player[network].net.activations.bytes;
    mode->device_bytes = run_bytes(trainer);
    TRY(time_rounds(comparison->bench, trainer, mode));
    if (mode->is_measured)
        bench_say(comparison->bench, "%s    %.1f images/s",
                  precision_name(mode->precision), mode->images_per_sec);
    return STATUS_OK;
}

// A type that this device does not have is a row without numbers, not a failure.
static enum status measure_mode(struct comparison *comparison, struct mode *mode)
{
    struct config config = comparison->bench->config;
    struct trainer *trainer = calloc(1, sizeof *trainer);
    CHECK(trainer, "out of memory");
    config.precision = mode->precision;
    enum status status = trainer_create(trainer, &config);
    if (status == STATUS_OK)
        status = measure_run(comparison, mode, trainer);
    trainer_release(trainer);
    free(trainer);
    int may_be_missing = mode->precision != PRECISION_FP32;
    if (may_be_missing && (status == STATUS_ENVIRONMENT || status == STATUS_DIVERGED)) {
        snprintf(mode->reason, sizeof mode->reason, "%.511s", status_message());
        return STATUS_OK;
    }
    return status;
}

/* ---- what is told ---------------------------------------------------------------- */

static double megabytes(size_t bytes)
{
    return (double)bytes / 1e6;
}

static size_t activation_bytes(const struct mode *mode)
{
    return mode->activations[NETWORK_G] + mode->activations[NETWORK_D];
}

static void print_table(const struct comparison *comparison)
{
    const struct mode *base = &comparison->mode[0];
    printf("%-9s %12s %9s %9s %15s %8s %15s\n", "precision", "images/s", "of fp32",
           "ms/step", "activations MB", "of fp32", "all memory MB");
    for (int i = 0; i < MODE_COUNT; i++) {
        const struct mode *mode = &comparison->mode[i];
        if (!mode->is_measured) {
            printf("%-9s not measured: %s\n", precision_name(mode->precision),
                   mode->reason[0] ? mode->reason : "stopped before");
            continue;
        }
        printf("%-9s %12.1f %8.2fx %9.3f %15.2f %7.0f%% %15.2f\n",
               precision_name(mode->precision), mode->images_per_sec,
               mode->images_per_sec / base->images_per_sec, mode->step_sec * 1e3,
               megabytes(activation_bytes(mode)),
               100.0 * (double)activation_bytes(mode) / (double)activation_bytes(base),
               megabytes(mode->device_bytes));
    }
}

static json_t *mode_json(const struct mode *mode)
{
    json_t *object = json_pack("{s:s, s:b}", "precision", precision_name(mode->precision),
                               "measured", mode->is_measured);
    CHECK(object, "a row could not be written as JSON");
    if (!mode->is_measured) {
        json_object_set_new(object, "reason", json_string(mode->reason));
        return object;
    }
    json_t *numbers =
        json_pack("{s:o, s:o, s:i, s:{s:I, s:I}, s:I}", "images_per_sec",
                  bench_number(mode->images_per_sec), "step_ms",
                  bench_number(mode->step_sec * 1e3), "steps", mode->steps,
                  "activation_bytes", "G", (json_int_t)mode->activations[NETWORK_G], "D",
                  (json_int_t)mode->activations[NETWORK_D], "device_bytes",
                  (json_int_t)mode->device_bytes);
    CHECK(numbers && json_object_update(object, numbers) == 0, "a row of JSON");
    json_decref(numbers);
    return object;
}

static enum status write_json(const struct comparison *comparison)
{
    json_t *settings = bench_settings_json(comparison->bench), *modes = json_array();
    CHECK(modes, "the results could not be written as JSON");
    json_object_del(settings, "precision"); // what the rows differ in
    for (int i = 0; i < MODE_COUNT; i++)
        json_array_append_new(modes, mode_json(&comparison->mode[i]));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "work", "bench precision",
                  "program", "twinscale " TWINSCALE_VERSION, "device", comparison->device,
                  "data", comparison->data, "stopped", comparison->bench->must_end,
                  "modes", modes, "settings", settings);
    CHECK(object, "the results could not be written as JSON");
    return bench_write_json(comparison->bench, object);
}

enum status bench_precision(struct bench *bench)
{
    struct comparison comparison = {.bench = bench};
    TRY(config_check(&bench->config));
    for (int i = 0; i < MODE_COUNT; i++) {
        comparison.mode[i].precision = precisions[i];
        if (!bench_must_end(bench))
            TRY(measure_mode(&comparison, &comparison.mode[i]));
    }
    if (!comparison.mode[0].is_measured) {
        bench_say(bench, "stopped before anything was measured");
        return STATUS_OK;
    }
    print_table(&comparison);
    return write_json(&comparison);
}
