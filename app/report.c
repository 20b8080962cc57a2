#include "app/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/view/history_recall.h"
#include "app/forecast.h"
#include "app/record/sinks.h"
#include "app/report_events.h"
#include "app/view/step_point.h"
#include "app/train/train.h"
#include "kernels/base/process.h"
#include "app/files/terminal.h"
#include "app/record/tick.h"

#define PUBLISH_SEC 0.1   // the window redraws at most 10 times a second
#define SAMPLE_SHARE 0.01 // of the time, for drawing samples for the window
#define SAMPLE_SEC_MIN 1.0
#define PICTURE_SHARE 0.01 // of the time, for the pictures of ticks
#define SPEED_SEC_MIN 0.5

/* ---- opening --------------------------------------------------------------------- */

enum status report_open(struct report *report, struct trainer *trainer,
                        struct run_folder *folder, struct monitor *monitor,
                        int has_window, int wants_preview)
{
    memset(report, 0, sizeof *report);
    report->trainer = trainer;
    report->folder = folder;
    report->monitor = monitor;
    atomic_init(&report->has_window, has_window);
    report->wants_preview = wants_preview;
    report->state = "training";
    report->eta_sec = NAN;
    report->tick_started = now_seconds();
    report->images_at_tick = trainer->progress.images;
    report->tile_count = trainer->config.grid_columns * trainer->config.grid_rows;
    size_t image_bytes = tensor_bytes(&trainer->sampler.pixels) / SAMPLER_BATCH;
    report->tiles = calloc((size_t)report->tile_count, image_bytes);
    report->seeds = calloc((size_t)report->tile_count, sizeof *report->seeds);
    if (!report->tiles || !report->seeds)
        return status_fail(STATUS_FAILED,
                           "not enough memory for a grid of %d samples; give a "
                           "smaller --grid",
                           report->tile_count);
    for (int i = 0; i < report->tile_count; i++)
        report->seeds[i] = (uint64_t)i;
    report_watch_open(report);
    report_name_layers(report);
    return STATUS_OK;
}

void report_recall(struct report *report)
{
    char stats[1024], looks[1024], events[1024];
    report->tick.index = history_recall(
        monitor_history(report->monitor),
        run_folder_file(report->folder, stats, sizeof stats, "stats.jsonl"),
        run_folder_file(report->folder, events, sizeof events, "events.jsonl"));
    // Older releases wrote what layers held into stats.jsonl, between the ticks.
    layers_recall(monitor_layers(report->monitor), stats, events);
    layers_recall(monitor_layers(report->monitor),
                  run_folder_file(report->folder, looks, sizeof looks, "layers.jsonl"),
                  events);
    report_watch_recall(report, events);
    event_word(report, "resume", "");
}

void report_close(struct report *report)
{
    free(report->tiles);
    free(report->seeds);
    report->tiles = NULL;
    report->seeds = NULL;
}

void report_print(struct report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    run_folder_print(report->folder, format, arguments);
    va_end(arguments);
}

void report_maintenance(struct report *report, double seconds)
{
    report->maintenance_sec += seconds;
}

/* ---- the window's facts ---------------------------------------------------------- */

// 0 where scaling is off: the readers then say so.
static float scale_now(const struct grad_scaler *scaler, const struct step_record *record)
{
    return scaler->config.enabled ? record->scale_after : 0.0f;
}

static void fill_scale(struct dashboard *facts, int scale,
                       const struct grad_scaler *scaler, const struct step_record *record)
{
    facts->scale[scale] = scale_now(scaler, record);
    facts->growth_tracker[scale] = record->growth_tracker;
    facts->growth_interval[scale] =
        scaler->config.enabled ? scaler->config.growth_interval : 0;
}

static void fill_facts(struct report *report, struct dashboard *facts)
{
    struct trainer *trainer = report->trainer;
    const struct config *config = &trainer->config;
    memset(facts, 0, sizeof *facts);
    if (config->preset[0])
        snprintf(facts->title, sizeof facts->title, "%s on %s", config->preset,
                 trainer->dataset->name);
    else
        snprintf(facts->title, sizeof facts->title, "DCGAN %d on %s", config->resolution,
                 trainer->dataset->name);
    snprintf(facts->run, sizeof facts->run, "%.255s", report->folder->path);
    snprintf(facts->device, sizeof facts->device, "%s", trainer->device->description);
    config_precision_text(config, facts->precision);
    snprintf(facts->state, sizeof facts->state, "%s", report->state);
    facts->has_ended = report->has_ended;
    snprintf(facts->reason, sizeof facts->reason, "%s", report->reason);
    facts->step = trainer->progress.step;
    facts->kimg = trainer_kimg(trainer);
    facts->kimg_total = config->kimg;
    facts->images_per_sec = report->images_per_sec;
    facts->eta_sec = report->eta_sec;
    facts->elapsed_sec = trainer->progress.elapsed_sec;
    facts->epoch = trainer_epoch(trainer);
    for (int network = 0; network < ROLES; network++) {
        facts->skipped[network] = trainer->last.record[network].skipped;
        facts->held[network] = trainer->last.record[network].held;
        facts->clip_norm[network] = trainer->topology.network[network].clip_norm;
        fill_scale(facts, network, &trainer->scaler[network],
                   &trainer->last.record[network]);
    }
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS)
        fill_scale(facts, SCALE_D_FAKE, &trainer->topology.fake,
                   &trainer->last.fake_record);
    facts->grid_columns = config->grid_columns;
    facts->grid_rows = config->grid_rows;
    facts->tile_w = facts->tile_h = config->resolution;
    facts->tile_channels = trainer->dataset->channels;
    facts->tiles_kimg = report->tiles_kimg;
    facts->hover_x = facts->hover_y = -1;
}

void report_publish(struct report *report, const uint8_t *tiles)
{
    struct dashboard facts;
    fill_facts(report, &facts);
    monitor_publish(report->monitor, &facts, tiles);
    report->last_publish = now_seconds();
}

void report_state(struct report *report, const char *state)
{
    report->state = state;
    report_publish(report, NULL);
}

/* ---- after every step ------------------------------------------------------------ */

static void add_loss(struct report *report, int network, double loss)
{
    statistic_add(&report->tick.loss[network], loss);
    report_watch_loss(report, network, loss);
}

static void add_losses(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    struct tick *tick = &report->tick;
    for (int turn = 0; turn < trainer->config.n_dis; turn++) {
        struct step_losses losses = train_turn_losses(trainer, turn);
        const struct loss_sums *real = &losses.of[PASS_D_REAL],
                               *fake = &losses.of[PASS_D_FAKE];
        int64_t reals = (int64_t)real->count, fakes = (int64_t)fake->count;
        add_loss(report, ROLE_D, real->loss / real->count + fake->loss / fake->count);
        statistic_add_sums(&tick->score_real, reals, real->score, real->score_sq);
        statistic_add_sums(&tick->score_fake, fakes, fake->score, fake->score_sq);
        // A sign's square is 1 but for a logit of exactly 0.
        statistic_add_sums(&tick->sign_real, reals, real->sign, real->count);
        statistic_add_sums(&tick->sign_fake, fakes, fake->sign, fake->count);
    }
    struct loss_sums g = train_losses(trainer).of[PASS_G_MAIN];
    add_loss(report, ROLE_G, g.loss / g.count);
}

static void update_speed(struct report *report, int is_tick_end)
{
    const struct trainer *trainer = report->trainer;
    double seconds = now_seconds() - report->tick_started - report->maintenance_sec;
    int64_t images = trainer->progress.images - report->images_at_tick;
    // A tick's first moments say little: keep the last tick's figure until then.
    if (seconds > SPEED_SEC_MIN || is_tick_end || report->images_per_sec == 0.0)
        report->images_per_sec = seconds > 0.0 ? (double)images / seconds : 0.0;
    double left = trainer->config.kimg * 1000.0 - (double)trainer->progress.images;
    report->eta_sec =
        report->images_per_sec > 0.0 ? fmax(left, 0.0) / report->images_per_sec : NAN;
}

// Samples that were being drawn beside the training, and the window.
static void show_step(struct report *report)
{
    double now = now_seconds();
    if (sampler_is_done(&report->trainer->sampler)) {
        report_take_samples(report);
        if (report_draws_preview(report))
            report_write_pictures(report);
    }
    if (atomic_load(&report->has_window) && now - report->last_publish >= PUBLISH_SEC) {
        if (now - report->last_samples >
            fmax(SAMPLE_SEC_MIN, report->sample_cost / SAMPLE_SHARE))
            report_start_samples(report);
        else
            report_publish(report, NULL);
    }
    report_maintenance(report, now_seconds() - now);
}

static void add_record(struct report *report, int slot)
{
    const struct trainer *trainer = report->trainer;
    const struct step_record *record = &trainer->last.view.records[slot];
    int network = train_slot_network(trainer, slot);
    struct tick *tick = &report->tick;
    tick->skipped_in_tick[network] += record->was_skipped;
    statistic_add(&tick->scale_over_tick[network], (double)record->scale_after);
    // The norm of what overflowed is not finite, and a norm of 0 was not measured.
    if (!record->was_skipped && record->grad_norm > 0.0f) {
        statistic_add(&tick->grad_norm[network], (double)record->grad_norm);
        statistic_add(&tick->clipped[network], step_was_clipped(trainer, slot));
    }
    if (slot < trainer->results.fake_count)
        statistic_add(&tick->fake_scale_over_tick,
                      (double)trainer->last.view.fakes[slot].scale_after);
}

void report_step(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    for (int slot = 0; slot < trainer->results.record_count; slot++) {
        add_record(report, slot);
        char place[WATCH_PLACE];
        event_optimizer_step(report, slot, place);
        report_watch(report, slot, place);
    }
    report_layers(report);
    add_losses(report);
    struct history_point point = step_point(trainer);
    history_add(monitor_history(report->monitor), &point);
    update_speed(report, 0);
    progress_bar(trainer_kimg(trainer), trainer->config.kimg, report->images_per_sec,
                 report->eta_sec);
    show_step(report);
}

/* ---- ticks ----------------------------------------------------------------------- */

static void finish_tick(struct report *report, double now)
{
    const struct trainer *trainer = report->trainer;
    struct tick *tick = &report->tick;
    tick->step = trainer->progress.step;
    tick->rollbacks = trainer->progress.rollbacks;
    tick->kimg = trainer_kimg(trainer);
    tick->kimg_total = trainer->config.kimg;
    tick->epoch = trainer_epoch(trainer);
    tick->tick_sec = now - report->tick_started;
    tick->total_sec = trainer->progress.elapsed_sec;
    tick->maintenance_sec = report->maintenance_sec;
    tick->images_per_sec = report->images_per_sec;
    // The first step warms caches: what it would promise is no estimate.
    tick->eta_sec = report->eta_sec;
    if (tick->index == 0)
        tick->eta_sec = report->forecast_sec > 0.0
                            ? forecast_rest(trainer, report->forecast_sec)
                            : (double)NAN;
    tick->cpu_mem_gb = peak_memory_gb();
    for (int network = 0; network < ROLES; network++) {
        tick->scale[network] =
            scale_now(&trainer->scaler[network], &trainer->last.record[network]);
        tick->skipped[network] = trainer->last.record[network].skipped;
        tick->held[network] = trainer->last.record[network].held;
    }
}

// Ticks may be a second apart, and pictures take a tenth of one.
static void draw_pictures(struct report *report)
{
    double begin = now_seconds();
    if (begin - report->last_pictures < report->pictures_cost / PICTURE_SHARE)
        return;
    if (report_draws_preview(report))
        report_start_samples(report);
    report_write_pictures(report);
    report->last_pictures = now_seconds();
    report->pictures_cost = report->last_pictures - begin;
}

void report_tick(struct report *report)
{
    double now = now_seconds();
    update_speed(report, 1);
    finish_tick(report, now);
    sinks_write(report->folder, &report->tick, (double)time(NULL));
    report_publish(report, NULL);
    draw_pictures(report);
    report->tick = (struct tick){.index = report->tick.index + 1};
    // The next tick's clock starts where this one's ended: its pictures belong to the
    // next.
    report->tick_started = now;
    report->maintenance_sec = 0.0;
    report->images_at_tick = report->trainer->progress.images;
}

void report_rewind(struct report *report, int64_t images)
{
    const struct trainer *trainer = report->trainer;
    int told = report->watch.found;
    history_rewind(monitor_history(report->monitor), trainer->progress.step);
    layers_rewind(monitor_layers(report->monitor), trainer->progress.step);
    report->tick = (struct tick){.index = report->tick.index};
    report_watch_open(report);
    report->watch.found = told;
    memset(report->quiet_steps, 0, sizeof report->quiet_steps);
    memset(report->good_scale, 0, sizeof report->good_scale);
    memset(report->far_steps, 0, sizeof report->far_steps);
    report->images_at_tick += trainer->progress.images - images;
}

void report_end(struct report *report, const char *state, const char *reason)
{
    if (reason[0])
        run_folder_log(report->folder, "error: %s", reason);
    report->has_ended = 1;
    snprintf(report->reason, sizeof report->reason, "%s", reason);
    report_state(report, state);
    report_write_pictures(report);
    event_word(report, state, reason);
}

int report_draws_preview(struct report *report)
{
    return report->wants_preview && !atomic_load(&report->has_window);
}
