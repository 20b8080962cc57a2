/* run.c - `twinscale train`: sets a run up and ends it so that nothing is lost. */
#include "app/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/live/control.h"
#include "app/forecast.h"
#include "app/signals.h"
#include "app/recovery/storm.h"
#include "app/record/layer_types.h"
#include "app/report_events.h"
#include "app/record/summary.h"
#include "app/train/train.h"
#include "kernels/base/process.h"
#include "kernels/base/text.h"

/* ---- setting up ------------------------------------------------------------------ */

// All, or the first few where they are many.
static size_t rejects_shown(const struct dataset *dataset)
{
    return dataset->reject_count > 6 ? 5 : dataset->reject_count;
}

static void print_passed_over(struct run *run)
{
    const struct dataset *dataset = run->trainer.dataset;
    size_t count = dataset->reject_count, shown = rejects_shown(dataset);
    for (size_t i = 0; i < shown; i++)
        report_print(&run->report, "        passed over %s: %s", dataset->rejects[i].path,
                     dataset->rejects[i].reason);
    if (count > shown)
        report_print(&run->report,
                     "        and %zu more files that cannot be used; log.txt has all",
                     count - shown);
    for (size_t i = shown; i < count; i++)
        run_folder_log(&run->folder, "        passed over %s: %s",
                       dataset->rejects[i].path, dataset->rejects[i].reason);
}

static void print_data_notes(struct run *run)
{
    struct data_notes notes;
    data_notes(run->trainer.dataset, &run->asked, &notes);
    for (int i = 0; i < notes.count; i++)
        report_print(&run->report, "        %s", notes.line[i]);
}

// What the settings of a resume have made of the scales that were saved.
static void print_scales(struct run *run)
{
    for (int network = 0; network < ROLES; network++)
        if (run->trainer.scaler[network].note[0])
            report_print(&run->report, "        %s", run->trainer.scaler[network].note);
}

/* What lies between the forward and the backward pass of both networks, what --recompute
 * spares of that, and the block that holds it with gradients and what is made again. */
struct activation_bytes {
    size_t kept, unkept, all;
};

static struct activation_bytes activation_bytes(const struct trainer *trainer)
{
    struct activation_bytes bytes = {0};
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &trainer->gan.net[network];
        bytes.kept += net->kept_bytes;
        bytes.unkept += net->unkept_bytes;
        bytes.all += net->activations.bytes;
    }
    return bytes;
}

// "33.0 MB of activations kept for the backward pass, 23.1 MB (41 %) less than ..."
static const char *recompute_text(const struct trainer *trainer, char text[160])
{
    struct activation_bytes bytes = activation_bytes(trainer);
    snprintf(
        text, 160,
        "%.1f MB of activations kept for the backward pass, %.1f MB (%.0f %%) less by "
        "--recompute; %.1f MB with gradients",
        (double)bytes.kept / 1e6, (double)bytes.unkept / 1e6,
        100.0 * (double)bytes.unkept / (double)(bytes.kept + bytes.unkept),
        (double)bytes.all / 1e6);
    return text;
}

static void print_recompute_note(struct run *run)
{
    char text[160];
    if (run->trainer.config.recompute)
        report_print(&run->report, "memory  %s", recompute_text(&run->trainer, text));
}

// What init-scale auto found, or why it had nothing to look for.
static void print_found_scales(struct run *run)
{
    const struct config *config = &run->trainer.config;
    const struct network_config *own[] = {[ROLE_G] = &config->g, [ROLE_D] = &config->d};
    for (int network = 0; network < ROLES; network++)
        if (!run->is_resumed && own[network]->init_scale == 0.0 &&
            !run->trainer.scaler[network].config.enabled)
            report_print(
                &run->report,
                "scale   %c has no loss scale, so init-scale auto has nothing to "
                "find",
                network == ROLE_G ? 'G' : 'D');
    for (int i = 0; i < run->found.count; i++) {
        char line[INIT_SCALE_LINE];
        report_print(&run->report, "scale   %s",
                     init_scale_line(&run->trainer, &run->found.of[i], line));
        event_found_scale(&run->report, &run->found, i);
    }
}

// Who has hours to wait should know it before the first of them.
static void print_forecast(struct run *run)
{
    const struct trainer *trainer = &run->trainer;
    char time[32], rate[32];
    double rest = forecast_rest(trainer, run->forecast_sec);
    if (rest < FORECAST_LONG_SEC)
        return;
    report_print(
        &run->report,
        "time    about %s for %s%.4g kimg on this machine, at %s images/s; Ctrl-C "
        "saves, and --resume goes on",
        duration_text(rest, time, sizeof time),
        trainer->progress.images > 0 ? "the other " : "",
        run->trainer.config.kimg - trainer_kimg(trainer),
        rate_text(1.0 / run->forecast_sec, rate, sizeof rate));
}

static void print_run(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    const struct config *config = &run->trainer.config;
    struct report *report = &run->report;
    char precision[PRECISION_TEXT];
    report_print(report, "run     %s", run->folder.path);
    if (run->changes[0])
        report_print(report, "changed %s", run->changes);
    print_scales(run);
    report_print(report, "device  %s", trainer->device->description);
    if (trainer->device->note[0])
        report_print(report, "        %s", trainer->device->note);
    report_print(report, "data    %s: %zu image%s of %d x %d x %d%s",
                 trainer->dataset->source, trainer->dataset->count,
                 PLURAL(trainer->dataset->count), config->resolution, config->resolution,
                 trainer->dataset->channels,
                 config->mirror ? ", mirrored at random" : "");
    print_data_notes(run);
    print_passed_over(run);
    if (run->group)
        report_print(report, "ranks   %d, each with %d images of a batch", config->gpus,
                     trainer_rows(trainer));
    report_print(report, "train   %.4g kimg (%.1f epochs), batch %d, %s, seed %lld",
                 config->kimg, config->kimg * 1000.0 / (double)trainer->dataset->count,
                 config->batch, config_precision_text(config, precision),
                 (long long)config->seed);
    print_recompute_note(run);
    print_found_scales(run);
    print_forecast(run);
}

static int uses_window(int preview)
{
    return preview == PREVIEW_AUTO || preview == PREVIEW_WINDOW;
}

static enum status open_window(struct run *run)
{
    if (!uses_window(run->trainer.config.preview))
        return STATUS_OK;
    enum status status = window_open("twinscale", run->monitor, &run->window);
    if (status == STATUS_OK || run->trainer.config.preview == PREVIEW_WINDOW)
        return status;
    int has_display = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
    fprintf(stderr, "preview preview.png in the run folder (%s)\n",
            has_display ? status_message() : "no display here");
    return STATUS_OK;
}

// A run that cannot be reached is a run all the same.
static void open_control(struct run *run)
{
    if (control_open(run->folder.path, run->monitor, &run->control) != STATUS_OK)
        report_print(&run->report, "warning: %s", status_message());
    signals_on_end(run_leave_at_once, run);
}

void run_close_control(struct run *run)
{
    signals_on_end(run_tell_ranks, run); // which no longer looks at the socket
    control_close(run->control);
    run->control = NULL;
}

static void *worker(void *argument)
{
    struct run *run = argument;
    run_loop(run);
    run_end(run);
    monitor_finish(run->monitor);
    return NULL;
}

static void run_threads(struct run *run)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, run) != 0) {
        run->status = STATUS_FAILED;
        snprintf(run->message, sizeof run->message, "the system gave no training thread");
        run_close_control(run);
        return;
    }
    if (run->window) {
        window_run(run->window);
        atomic_store(&run->report.has_window, 0); // closed, or its server is gone
        window_close(run->window);
        run->window = NULL;
    }
    pthread_join(thread, NULL);
}

enum status run_prepare(struct run *run)
{
    TRY(trainer_start_data(&run->trainer));
    if (run->trainer.config.dry_run || !run_is_first(run))
        return STATUS_OK;
    return open_window(run);
}

enum status run_write_layer_types(const struct run *run)
{
    const struct gan *gan = &run->trainer.gan;
    const struct net *nets[] = {&gan->net[ROLE_G], &gan->net[ROLE_D]};
    char path[1024];
    return layer_types_write(
        run_folder_file(&run->folder, path, sizeof path, "precision.json"), nets, ROLES);
}

enum status run_train(struct run *run)
{
    TRY(run_write_layer_types(run));
    TRY(report_open(&run->report, &run->trainer, &run->folder, run->monitor,
                    run->window != NULL, run->trainer.config.preview != PREVIEW_OFF));
    run->report.forecast_sec = run->forecast_sec;
    if (run->is_resumed)
        report_recall(&run->report);
    print_run(run);
    open_control(run);
    run_threads(run);
    if (run->status != STATUS_OK)
        return status_fail(run->status, "%s", run->message);
    return STATUS_OK;
}

// By itself, in the numbers of one step: D learns from two batches where G learns from
// one.
static double recompute_seconds(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    const struct memory_ops *memory = &trainer->device->ops->memory;
    const int turns = 10;
    memory->wait(trainer->device);
    double started = now_seconds();
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < 2 * config_step_batches(config); i++)
            net_recompute(&trainer->gan.net[ROLE_D]);
        for (int i = 0; i < config->g.accum; i++)
            net_recompute(&trainer->gan.net[ROLE_G]);
    }
    memory->wait(trainer->device);
    return (now_seconds() - started) / turns;
}

static void print_recompute(struct trainer *trainer, double per_kimg)
{
    char text[160];
    double per_step = per_kimg * (double)config_step_images(&trainer->config) / 1000.0;
    printf("recompute: %s; %.1f %% of a step's time is for that\n",
           recompute_text(trainer, text), 100.0 * recompute_seconds(trainer) / per_step);
}

static void print_data(const struct run *run)
{
    const struct dataset *dataset = run->trainer.dataset;
    struct data_notes notes;
    printf("data: %s, %zu image%s of %d x %d x %d\n", dataset->source, dataset->count,
           PLURAL(dataset->count), dataset->resolution, dataset->resolution,
           dataset->channels);
    data_notes(dataset, &run->asked, &notes);
    for (int i = 0; i < notes.count; i++)
        printf("      %s\n", notes.line[i]);
    size_t count = dataset->reject_count, shown = rejects_shown(dataset);
    for (size_t i = 0; i < shown; i++)
        printf("      passed over %s: %s\n", dataset->rejects[i].path,
               dataset->rejects[i].reason);
    if (count > shown)
        printf("      and %zu more files that cannot be used; twinscale data check names "
               "all\n",
               count - shown);
}

static void print_dry(struct run *run, double per_kimg)
{
    struct trainer *trainer = &run->trainer;
    char eta[32];
    for (int network = 0; network < ROLES; network++)
        summary_print(stdout, &trainer->gan.net[network]);
    printf("device: %s\n", trainer->device->description);
    if (run->group)
        printf("ranks: %d, each with %d images of a batch\n", run->trainer.config.gpus,
               trainer_rows(trainer));
    print_data(run);
    printf("settings (others are at their defaults; --show-config lists all):\n");
    config_print_origins(stdout, &run->trainer.config, &run->origins, 1);
    for (int i = 0; i < run->found.count; i++) {
        char line[INIT_SCALE_LINE];
        printf("scale: %s\n", init_scale_line(trainer, &run->found.of[i], line));
    }
    printf("memory: %.2f GB\n", peak_memory_gb());
    if (run->trainer.config.recompute)
        print_recompute(trainer, per_kimg);
    printf("speed: %.0f images/s, %.2f s per kimg\n", 1000.0 / per_kimg, per_kimg);
    printf("time for %.4g kimg: %s\n", run->trainer.config.kimg,
           duration_text(per_kimg * run->trainer.config.kimg, eta, sizeof eta));
}

enum status run_dry(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    // The first warms caches and threads, the second is recorded where there is a graph.
    const int warm_up = 2, steps = 5;
    double started = 0.0;
    for (int i = 0; i < warm_up + steps; i++) {
        train_step(trainer);
        int is_end = i + 1 == warm_up || i + 1 == warm_up + steps;
        TRY(storm_collect(trainer, is_end ? 0 : trainer->device->steps_ahead));
        if (i + 1 == warm_up)
            started = now_seconds();
    }
    double images = (double)config_step_images(&run->trainer.config) * steps;
    double per_kimg = (now_seconds() - started) / images * 1000.0;
    if (run_is_first(run))
        print_dry(run, per_kimg);
    return STATUS_OK;
}

static enum status new_run(struct run *run)
{
    TRY(run_settle_gpus(run, 1));
    if (run->trainer.config.show_config)
        return run_show_config(run);
    TRY(config_check(&run->trainer.config));
    TRY(set_at_open(&run->set_at, &run->trainer.config, NULL, 0));
    run_begin_data(run);
    TRY(run_create(run, 0));
    run_follow_data(run, run->trainer.dataset);
    TRY(run_prepare(run));
    TRY(init_scale_find(&run->trainer, &run->found));
    if (run->trainer.config.dry_run)
        return run_dry(run);
    TRY(forecast(&run->trainer, &run->forecast_sec));
    if (!run_is_first(run))
        return run_follow(run);
    signals_answer(RUN_ANSWER);
    TRY(run_folder_create(&run->folder, &run->trainer.config,
                          run->trainer.dataset->name));
    return run_train(run);
}

static enum status any_run(struct run *run, int argc, char **argv)
{
    TRY(group_read_environment(&run->place));
    return run->trainer.config.resume[0] ? resume_run(run, argc, argv) : new_run(run);
}

/* ---- the command ----------------------------------------------------------------- */

enum status train_command(int argc, char **argv)
{
    struct run *run = calloc(1, sizeof *run);
    CHECK_MEMORY(run, "a run");
    run->saved_at = -1;
    int wants_help = 0;
    run->monitor = monitor_create();
    CHECK_MEMORY(run->monitor, "a run");
    enum status status = signals_open(run->monitor);
    int has_signals = status == STATUS_OK;
    config_default(&run->trainer.config);
    run->trainer.config.gpus = 0; // not asked for, yet
    config_origins_begin(&run->origins, ORIGIN_DEFAULT);
    if (status == STATUS_OK)
        status =
            config_parse(&run->trainer.config, argc, argv, &wants_help, &run->origins);
    if (status == STATUS_OK && wants_help)
        config_print_help(stdout);
    else if (status == STATUS_OK)
        status = any_run(run, argc, argv);
    status = group_blame(run->group, status);
    status = group_leave(run->group, status);
    signals_on_end(NULL, NULL);
    window_close(run->window);
    report_close(&run->report);
    run_folder_close(&run->folder);
    trainer_release(&run->trainer);
    group_close(run->group,
                status); // a forked rank ends here, without the thread for signals
    if (has_signals)
        signals_close();
    monitor_destroy(run->monitor);
    free(run);
    return status;
}
