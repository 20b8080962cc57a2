/* bench_scaler.c - `twinscale bench scaler`: the same run under every topology of loss
 * scales.
 *
 * All runs of a seed begin with the same weights and see the same images and latents in
 * the same order, so that what differs is the scaler alone. Diverging is a result here,
 * not a failure. */
#include "app/bench/bench_scaler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench/bench_diversity.h"
#include "app/recovery/init_scale.h"
#include "app/input/batch.h"
#include "app/files/json_text.h"
#include "kernels/base/process.h"
#include "app/files/terminal.h"
#include "app/view/history.h"
#include "app/view/step_point.h"
#include "app/recovery/storm.h"
#include "app/train/train.h"

#define GRID_SIDE 16
#define SEED_LAST 9007199254740992LL // as --seed has it: 2^53
_Static_assert(GRID_SIDE *GRID_SIDE == BENCH_SAMPLES, "the sampler's grid holds them");

static const int choices[BENCH_CHOICES] = {SCALER_PER_NETWORK,     SCALER_SHARED,
                                           SCALER_SHARED_PER_STEP, SCALER_PER_LOSS,
                                           SCALER_STATIC,          SCALER_OFF};

const char *bench_scaler_name(int scaler)
{
    static const char *const names[] = {[SCALER_AUTO] = "auto",
                                        [SCALER_PER_NETWORK] = "per-network",
                                        [SCALER_SHARED] = "shared",
                                        [SCALER_SHARED_PER_STEP] = "shared-per-step",
                                        [SCALER_PER_LOSS] = "per-loss",
                                        [SCALER_STATIC] = "static",
                                        [SCALER_OFF] = "off"};
    return names[scaler];
}

/* ---- one run --------------------------------------------------------------------- */

struct session {
    struct bench_result *result;
    struct bench_run *run;
    struct trainer *trainer;
    struct history *history;
    double started, all_started;
};

static void write_skip(struct session *session, int slot)
{
    const struct trainer *trainer = session->trainer;
    const struct step_record *record = &trainer->last.view.records[slot];
    json_t *event = json_pack(
        "{s:s, s:s, s:I, s:s, s:I, s:f, s:f}", "event", "skip", "scaler",
        bench_scaler_name(session->run->scaler), "seed", (json_int_t)session->run->seed,
        "net", train_slot_network(trainer, slot) == ROLE_G ? "G" : "D", "step",
        (json_int_t)trainer->last.place.step, "scale_before", (double)record->scale_used,
        "scale_after", (double)record->scale_after);
    char *line = json_text(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(event);
    if (line)
        run_folder_line(&session->result->bench->folder, RUN_LOG_EVENTS, line);
    free(line);
}

// What the step that was just collected adds to the curves.
static void keep_step(struct session *session)
{
    const struct trainer *trainer = session->trainer;
    struct history_point point = step_point(trainer);
    for (int slot = 0; slot < trainer->results.record_count; slot++)
        if (trainer->last.view.records[slot].was_skipped)
            write_skip(session, slot);
    history_add(session->history, &point);
    session->run->steps = point.step;
}

static void show_progress(const struct session *session)
{
    const struct bench_result *result = session->result;
    double each = session->trainer->config.kimg, now = now_seconds();
    double here = fmin(trainer_kimg(session->trainer), each);
    double done = here + each * (double)(session->run - result->run);
    double total = each * (double)result->run_count;
    double rate = 1000.0 * here / fmax(now - session->started, 1e-3);
    progress_bar(done, total, rate,
                 (now - session->all_started) * (total - done) / fmax(done, 1e-9));
}

static enum status collect(struct session *session, int left)
{
    while (train_pending(session->trainer) > left) {
        TRY(train_collect(session->trainer));
        keep_step(session);
        TRY(storm_check(session->trainer));
    }
    return STATUS_OK;
}

static enum status train_steps(struct session *session)
{
    struct trainer *trainer = session->trainer;
    while ((double)trainer->progress.images < trainer->config.kimg * 1000.0) {
        if (bench_must_end(session->result->bench)) {
            session->run->end = BENCH_STOPPED;
            break;
        }
        train_step(trainer);
        TRY(collect(session, trainer->device->steps_ahead));
        show_progress(session);
    }
    return collect(session, 0);
}

/* ---- what it came to ------------------------------------------------------------- */

// Means over the last tenth of the steps: one step's loss says little.
static void mean_losses(struct bench_run *run, const struct history_point *points,
                        size_t count)
{
    size_t last = (count + 9) / 10;
    for (int network = 0; network < ROLES; network++) {
        double sum = 0.0;
        for (size_t i = count - last; i < count; i++)
            sum += (double)points[i].loss[network];
        run->loss[network] = last > 0 && isfinite(sum) ? sum / (double)last : (double)NAN;
    }
}

static void read_records(const struct trainer *trainer, struct bench_run *run)
{
    for (int network = 0; network < ROLES; network++) {
        const struct step_record *record = &trainer->last.record[network];
        run->skipped[network] = record->skipped;
        run->held[network] = record->held;
        if (trainer->scaler[network].config.enabled)
            run->scale[network] = record->scale_after;
    }
    if (trainer->results.fake_count)
        run->fake_scale = trainer->last.fake_record.scale_after;
}

static enum status draw_samples(struct trainer *trainer, struct bench_run *run,
                                int keeps_tiles)
{
    size_t bytes = tensor_bytes(&trainer->sampler.pixels) / SAMPLER_BATCH;
    uint64_t seeds[BENCH_SAMPLES];
    uint8_t *pixels = malloc(BENCH_SAMPLES * bytes);
    CHECK_MEMORY(pixels, "pixels of samples");
    for (int i = 0; i < BENCH_SAMPLES; i++)
        seeds[i] = (uint64_t)i;
    sampler_load(&trainer->sampler, trainer->device, trainer->ema.average);
    sampler_start(&trainer->sampler, seeds, BENCH_SAMPLES);
    enum status status = sampler_finish(&trainer->sampler, pixels);
    if (status == STATUS_OK)
        run->diversity = bench_diversity(pixels, BENCH_SAMPLES, bytes);
    if (status == STATUS_OK && keeps_tiles) {
        run->tiles = malloc(BENCH_SHOWN * bytes);
        CHECK_MEMORY(run->tiles, "a row of samples");
        memcpy(run->tiles, pixels, BENCH_SHOWN * bytes);
    }
    free(pixels);
    return status;
}

static enum status finish_run(struct session *session)
{
    struct bench_run *run = session->run;
    int is_first_seed = run->seed == session->result->bench->config.seed;
    size_t room = 0;
    run->point_count = history_copy(session->history, &run->points, &room);
    mean_losses(run, run->points, run->point_count);
    if (!is_first_seed) {
        free(run->points);
        run->points = NULL;
        run->point_count = 0;
    }
    read_records(session->trainer, run);
    run->seconds = now_seconds() - session->started;
    return draw_samples(session->trainer, run, is_first_seed);
}

/* ---- what all runs have in common ------------------------------------------------ */

static enum status measure_reals(struct bench_result *result,
                                 const struct trainer *trainer)
{
    const struct dataset *dataset = trainer->dataset;
    size_t bytes = tensor_bytes(&trainer->sampler.pixels) / SAMPLER_BATCH;
    size_t count = dataset->count < BENCH_SAMPLES ? dataset->count : BENCH_SAMPLES;
    uint8_t *pixels = malloc(count * bytes);
    CHECK_MEMORY(pixels, "pixels of samples");
    enum status status =
        batch_first_images(dataset, (uint64_t)trainer->config.seed, count, pixels);
    if (status == STATUS_OK && count >= 2)
        result->real_diversity = bench_diversity(pixels, count, bytes);
    free(pixels);
    return status;
}

/* Before the first run: device and data are good, so there is something to write
 * about. */
static enum status begin(struct bench_result *result, const struct trainer *trainer)
{
    struct bench *bench = result->bench;
    char precision[PRECISION_TEXT];
    if (bench->folder.path[0])
        return STATUS_OK;
    bench->config.channels = trainer->config.channels;
    bench->config.resolution = trainer->config.resolution;
    snprintf(result->device, sizeof result->device, "%s", trainer->device->description);
    snprintf(result->data, sizeof result->data, "%s", trainer->dataset->name);
    result->data_count = trainer->dataset->count;
    TRY(measure_reals(result, trainer));
    TRY(bench_open_folder(bench, trainer->dataset->name, "bench-scaler"));
    bench_print(
        bench, "bench   scaler: %d runs of %.4g kimg, batch %d, %s, seeds %lld-%lld",
        result->run_count, bench->config.kimg, bench->config.batch,
        config_precision_text(&bench->config, precision), (long long)bench->config.seed,
        (long long)bench->config.seed + bench->seeds - 1);
    bench_print(bench, "run     %s", bench->folder.path);
    bench_print(bench, "device  %s", result->device);
    bench_print(bench, "data    %s: %zu images of %d x %d x %d", trainer->dataset->source,
                trainer->dataset->count, bench->config.resolution,
                bench->config.resolution, bench->config.channels);
    for (int i = 0; i < BENCH_CHOICES; i++)
        if (result->choice[i].is_left_out)
            bench_print(bench, "warning: %s is left out: %s",
                        bench_scaler_name(result->choice[i].scaler),
                        result->choice[i].reason);
    char head[BENCH_LINE];
    bench_table_head(head);
    bench_print(bench, "       %s", head);
    return STATUS_OK;
}

static void log_run(struct bench_result *result, const struct bench_run *run)
{
    char line[BENCH_LINE];
    bench_run_line(run, line);
    bench_print(result->bench, "%2d/%d  %s", (int)(run - result->run) + 1,
                result->run_count, line);
    if (run->end == BENCH_DIVERGED)
        bench_print(result->bench, "       diverged at step %lld: %s",
                    (long long)run->steps, run->reason);
    json_t *object = bench_run_json(run);
    char *text = json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (text)
        run_folder_line(&result->bench->folder, RUN_LOG_STATS, text);
    free(text);
}

static enum status train_one(struct session *session, const struct config *config)
{
    struct bench_run *run = session->run;
    TRY(bench_create_trainer(session->result->bench, session->trainer, config));
    // It may refuse the data, and then no folder is left.
    TRY(trainer_start_data(session->trainer));
    TRY(begin(session->result, session->trainer));
    struct found_scales found;
    TRY(init_scale_find(session->trainer, &found));
    run->end = BENCH_FINISHED;
    session->started = now_seconds();
    enum status status = train_steps(session);
    if (status == STATUS_DIVERGED) {
        run->end = BENCH_DIVERGED;
        snprintf(run->reason, sizeof run->reason, "%.511s", status_message());
        status = STATUS_OK;
    }
    TRY(status);
    TRY(finish_run(session));
    log_run(session->result, run);
    return STATUS_OK;
}

static enum status run_all(struct bench_result *result)
{
    struct trainer *trainer = calloc(1, sizeof *trainer);
    CHECK_MEMORY(trainer, "a trainer");
    enum status status = STATUS_OK;
    double started = now_seconds();
    for (int i = 0; i < result->run_count && status == STATUS_OK; i++) {
        struct session session = {.result = result,
                                  .run = &result->run[i],
                                  .trainer = trainer,
                                  .history = history_create(),
                                  .all_started = started};
        CHECK_MEMORY(session.history, "the curve of the scales");
        struct config config = result->bench->config;
        config.scaler = session.run->scaler;
        // As `train --scaler static` does.
        if (config.scaler == SCALER_STATIC && !result->bench->has_own_scale)
            config.g.init_scale = config.d.init_scale = 0.0;
        config.seed = session.run->seed;
        config.grid_columns = config.grid_rows = GRID_SIDE;
        if (!bench_must_end(result->bench))
            status = train_one(&session, &config);
        trainer_release(trainer);
        history_destroy(session.history);
    }
    free(trainer);
    return status;
}

/* ---- all of them ----------------------------------------------------------------- */

// Settings may rule out a topology (two rules for one scale), but not per-network.
static enum status choose(struct bench_result *result)
{
    for (int i = 0; i < BENCH_CHOICES; i++) {
        struct bench_choice *choice = &result->choice[i];
        struct config config = result->bench->config;
        config.scaler = choice->scaler = choices[i];
        enum status status = config_check(&config);
        if (status == STATUS_OK)
            continue;
        if (choice->scaler == SCALER_PER_NETWORK)
            return status;
        choice->is_left_out = 1;
        snprintf(choice->reason, sizeof choice->reason, "%.511s", status_message());
    }
    return STATUS_OK;
}

static void list_runs(struct bench_result *result)
{
    const struct bench *bench = result->bench;
    result->run = calloc((size_t)(BENCH_CHOICES * bench->seeds), sizeof *result->run);
    CHECK_MEMORY(result->run, "the results");
    for (int i = 0; i < BENCH_CHOICES; i++)
        for (int seed = 0; seed < bench->seeds && !result->choice[i].is_left_out; seed++)
            result->run[result->run_count++] =
                (struct bench_run){.scaler = result->choice[i].scaler,
                                   .seed = bench->config.seed + seed,
                                   .loss = {NAN, NAN},
                                   .diversity = NAN};
}

enum status bench_scaler(struct bench *bench)
{
    struct bench_result result = {.bench = bench, .real_diversity = NAN};
    if (bench->config.seed > SEED_LAST - bench->seeds + 1)
        return status_fail(STATUS_USAGE,
                           "--seed: %d seeds from %lld on go beyond the last one, %lld; "
                           "give a smaller one",
                           bench->seeds, (long long)bench->config.seed, SEED_LAST);
    TRY(choose(&result));
    list_runs(&result);
    enum status status = run_all(&result);
    if (status == STATUS_OK && bench->folder.path[0])
        status = bench_scaler_report(&result);
    else if (status == STATUS_OK)
        bench_print(bench, "stopped before the first run");
    for (int i = 0; i < result.run_count; i++) {
        free(result.run[i].points);
        free(result.run[i].tiles);
    }
    free(result.run);
    return status;
}
