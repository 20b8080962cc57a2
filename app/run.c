/* run.c - `twinscale train`: sets a run up, loops, and ends it so that nothing is lost.
 *
 * Training runs on a worker thread; the main thread owns the window, if there is one, and
 * else just waits. A checkpoint is written before the first step, so that a full disk or a
 * folder without permission is known before hours are spent, not after. */
#include "app/run.h"

#include <libgen.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/checkpoint.h"
#include "app/output/window.h"
#include "app/report.h"
#include "app/signals.h"
#include "app/summary.h"
#include "app/train.h"

#define PAUSE_POLL_USEC 20000

struct run {
    struct config config;
    struct trainer trainer;
    struct run_folder folder;
    struct monitor *monitor;
    struct window *window;
    struct report report;
    char last_snapshot[1024]; // "" before the first
    char last_grid[1024];
    int64_t saved_at; // images at the last snapshot, -1 before
    int save_failed;  // the newest attempt did
    int is_paused, is_resumed;
    enum status status;
    char message[1024]; // the worker's, for the main thread
};

/* ---- saving ---------------------------------------------------------------------- */

// "000200" for whole kimg, "000000.128" otherwise, so that no two snapshots share a name.
static const char *kimg_name(double kimg, char *text, size_t bytes)
{
    if (fabs(kimg - floor(kimg + 0.5)) < 5e-7)
        snprintf(text, bytes, "%06.0f", kimg);
    else
        snprintf(text, bytes, "%010.3f", kimg);
    return text;
}

// `kimg` names the file: the mark that was just crossed, or where the run is.
static void save_snapshot(struct run *run, double kimg)
{
    struct trainer *trainer = &run->trainer;
    char name[32], path[1024];
    if (run->saved_at == trainer->progress.images && !run->save_failed)
        return;
    report_state(&run->report, "saving ...");
    run_folder_file(&run->folder, path, sizeof path, "snapshot-%s.safetensors",
                    kimg_name(kimg, name, sizeof name));
    run->save_failed = checkpoint_save(trainer, path) != STATUS_OK;
    if (run->save_failed) {
        report_say(&run->report, "warning: not saved: %s", status_message());
        report_say(&run->report,
                   "         training goes on; the next snapshot tries again");
    } else {
        snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", path);
        run->saved_at = trainer->progress.images;
        run_folder_log(&run->folder, "saved %s", path);
        run_folder_prune(&run->folder, run->config.keep, path);
    }
    report_state(&run->report, run->is_paused ? "paused" : "training");
}

static void save_samples(struct run *run, const char *name)
{
    report_draw_samples(&run->report);
    report_write_samples(&run->report, name, run->last_grid, sizeof run->last_grid);
}

static void save_fakes(struct run *run, double kimg)
{
    char number[32], name[64];
    snprintf(name, sizeof name, "fakes%s.png", kimg_name(kimg, number, sizeof number));
    save_samples(run, name);
}

/* ---- the loop -------------------------------------------------------------------- */

/* True when a multiple of `interval` lies in (before, now]; *mark is the last such. Marks do
 * not depend on where a run was resumed. */
static int crosses(double before, double now, double interval, double *mark)
{
    double multiple = floor(now / interval + 1e-9);
    *mark = multiple * interval;
    return multiple > floor(before / interval + 1e-9);
}

static int is_done(const struct run *run)
{
    return (double)run->trainer.progress.images >= run->config.kimg * 1000.0;
}

static const char *resting_state(const struct run *run)
{
    return run->is_paused ? "paused" : "training";
}

// What keys and signals asked for since the last call; true when the run should end.
static int serve(struct run *run, int requests)
{
    if (requests & REQUEST_SNAPSHOT)
        save_snapshot(run, trainer_kimg(&run->trainer));
    if (requests & REQUEST_EXPORT)
        save_fakes(run, trainer_kimg(&run->trainer));
    return !!(requests & REQUEST_QUIT);
}

// Serves requests, for as long as the run is paused; true when the run should end.
static int serve_requests(struct run *run)
{
    double started = now_seconds();
    int must_end;
    for (;;) {
        int requests = monitor_take_requests(run->monitor) | signals_take();
        int is_paused = !!(requests & REQUEST_PAUSE);
        if (is_paused != run->is_paused) {
            run->is_paused = is_paused;
            report_state(&run->report, resting_state(run));
        }
        must_end = serve(run, requests);
        if (must_end || !is_paused)
            break;
        usleep(PAUSE_POLL_USEC);
    }
    report_maintenance(&run->report, now_seconds() - started);
    return must_end;
}

static enum status one_step(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    double before = trainer_kimg(trainer), started = now_seconds();
    int is_first = run->report.tick.index == 0;
    TRY(train_step(trainer));
    trainer->progress.elapsed_sec += now_seconds() - started;
    report_step(&run->report);
    double now = trainer_kimg(trainer), trained = now_seconds(), mark;
    if (crosses(before, now, run->config.tick, &mark) || is_first)
        report_tick(&run->report);
    if (crosses(before, now, run->config.img_snap, &mark))
        save_fakes(run, mark);
    if (crosses(before, now, run->config.snap, &mark))
        save_snapshot(run, mark);
    report_maintenance(&run->report, now_seconds() - trained);
    return STATUS_OK;
}

static enum status loop(struct run *run)
{
    report_write_reals(&run->report);
    if (run->trainer.progress.step == 0) {
        save_samples(run, "fakes_init.png");
        save_snapshot(run, 0.0);
        if (run->save_failed)
            return status_fail(STATUS_FAILED, "%s", status_message());
    }
    while (!is_done(run)) {
        if (serve_requests(run)) {
            save_snapshot(run, trainer_kimg(&run->trainer));
            report_say(&run->report,
                       "stopped at %.1f kimg; go on with: twinscale train "
                       "--resume %s",
                       trainer_kimg(&run->trainer), run->folder.path);
            return STATUS_OK;
        }
        TRY(one_step(run));
    }
    if (run->report.tick.loss[NETWORK_G].num > 0)
        report_tick(&run->report);
    save_snapshot(run, run->config.kimg);
    save_fakes(run, run->config.kimg);
    report_state(&run->report, "finished");
    report_write_pictures(&run->report);
    return STATUS_OK;
}

static void *worker(void *context)
{
    struct run *run = context;
    run->status = loop(run);
    if (run->status == STATUS_OK && run->save_failed)
        run->status =
            status_fail(STATUS_FAILED,
                        "the last snapshot could not be written (see above); the "
                        "newest good one is %s",
                        run->last_snapshot);
    if (run->status != STATUS_OK) {
        snprintf(run->message, sizeof run->message, "%s", status_message());
        run_folder_log(&run->folder, "error: %s", run->message);
    }
    progress_clear();
    monitor_finish(run->monitor);
    return NULL;
}

/* ---- setting up ------------------------------------------------------------------ */

static void say_run(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    const struct config *config = &run->config;
    struct report *report = &run->report;
    report_say(report, "run     %s", run->folder.path);
    report_say(report, "device  %s", trainer->device->description);
    report_say(report, "data    %s: %zu images of %d x %d x %d%s",
               trainer->dataset->source, trainer->dataset->count, config->resolution,
               config->resolution, trainer->dataset->channels,
               config->mirror ? ", mirrored at random" : "");
    size_t shown =
        trainer->dataset->reject_count < 5 ? trainer->dataset->reject_count : 5;
    for (size_t i = 0; i < trainer->dataset->reject_count; i++) {
        const struct dataset_reject *reject = &trainer->dataset->rejects[i];
        if (i < shown)
            report_say(report, "        skipped %s: %s", reject->path, reject->reason);
        else
            run_folder_log(&run->folder, "skipped %s: %s", reject->path, reject->reason);
    }
    if (trainer->dataset->reject_count > shown)
        report_say(report,
                   "        and %zu more files that cannot be used; log.txt has all",
                   trainer->dataset->reject_count - shown);
    report_say(report, "train   %.4g kimg (%.1f epochs), batch %d, %s, seed %lld",
               config->kimg, config->kimg * 1000.0 / (double)trainer->dataset->count,
               config->batch, precision_name(config->precision), (long long)config->seed);
}

static int uses_window(int preview)
{
    return preview == PREVIEW_AUTO || preview == PREVIEW_WINDOW;
}

static enum status open_window(struct run *run)
{
    if (!uses_window(run->config.preview))
        return STATUS_OK;
    enum status status = window_open("twinscale", run->monitor, &run->window);
    if (status == STATUS_OK || run->config.preview == PREVIEW_WINDOW)
        return status;
    fprintf(stderr, "preview %s\n        preview.png in the run folder shows the same\n",
            status_message());
    return STATUS_OK;
}

static void run_threads(struct run *run)
{
    pthread_t thread;
    signals_install();
    if (pthread_create(&thread, NULL, worker, run) != 0) {
        run->status = STATUS_FAILED;
        snprintf(run->message, sizeof run->message, "the system gave no training thread");
        return;
    }
    if (run->window) {
        window_run(run->window);
        window_close(run->window);
        run->window = NULL;
    }
    pthread_join(thread, NULL);
}

static void print_results(const struct run *run)
{
    char scales[1024];
    if (run->last_grid[0])
        printf("grid: %s\n", run->last_grid);
    run_folder_file(&run->folder, scales, sizeof scales, "scales.png");
    if (access(scales, R_OK) == 0)
        printf("scales: %s\n", scales);
    if (run->last_snapshot[0])
        printf("checkpoint: %s\n", run->last_snapshot);
}

// Everything from here on has a run folder.
static enum status train_in_folder(struct run *run)
{
    run->monitor = monitor_create();
    TRY(open_window(run));
    int draws_preview = run->config.preview == PREVIEW_PNG ||
                        (run->config.preview == PREVIEW_AUTO && !run->window);
    TRY(report_open(&run->report, &run->trainer, &run->folder, run->monitor,
                    run->window != NULL, draws_preview));
    if (run->is_resumed)
        report_recall(&run->report);
    say_run(run);
    TRY(trainer_start_data(&run->trainer));
    run_threads(run);
    print_results(run);
    if (run->status != STATUS_OK)
        return status_fail(run->status, "%s", run->message);
    return STATUS_OK;
}

static enum status dry_run(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    TRY(trainer_start_data(trainer));
    for (int network = 0; network < NETWORK_COUNT; network++)
        summary_print(stdout, &trainer->player[network].net);
    TRY(train_step(trainer)); // the first one warms caches and threads
    double started = now_seconds();
    const int steps = 5;
    for (int i = 0; i < steps; i++)
        TRY(train_step(trainer));
    double images = (double)run->config.batch * run->config.n_dis * steps;
    double per_kimg = (now_seconds() - started) / images * 1000.0;
    char eta[32];
    printf("device: %s\n", trainer->device->description);
    printf("data: %s, %zu images\n", trainer->dataset->source, trainer->dataset->count);
    printf("memory: %.2f GB\n", peak_memory_gb());
    printf("speed: %.0f images/s, %.2f s per kimg\n", 1000.0 / per_kimg, per_kimg);
    printf("time for %.4g kimg: %s\n", run->config.kimg,
           duration_text(per_kimg * run->config.kimg, eta, sizeof eta));
    return STATUS_OK;
}

static enum status new_run(struct run *run)
{
    TRY(config_check(&run->config));
    TRY(trainer_create(&run->trainer, &run->config));
    run->config = run->trainer.config; // with the channels of the data
    if (run->config.dry_run)
        return dry_run(run);
    TRY(run_folder_create(&run->folder, &run->config, run->trainer.dataset->name));
    return train_in_folder(run);
}

/* ---- resuming -------------------------------------------------------------------- */

static enum status merge_settings(struct run *run, const struct checkpoint *checkpoint,
                                  int argc, char **argv)
{
    struct config saved;
    int wants_help;
    char changes[2048] = "";
    TRY(checkpoint_config(checkpoint, &saved));
    run->config = saved;
    TRY(config_parse(&run->config, argc, argv, &wants_help));
    TRY(config_check_resume(&saved, &run->config, changes, sizeof changes));
    if (changes[0])
        fprintf(stderr, "resume  changed: %s\n", changes);
    return config_check(&run->config);
}

static enum status continue_run(struct run *run, const struct checkpoint *checkpoint,
                                const char *path, const struct checkpoint_facts *facts)
{
    char copy[1024];
    TRY(trainer_create(&run->trainer, &run->config));
    TRY(checkpoint_load(checkpoint, &run->trainer));
    snprintf(copy, sizeof copy, "%s", path);
    TRY(run_folder_reopen(&run->folder, dirname(copy), (double)facts->images / 1000.0));
    run_folder_set_aside(&run->folder, (double)facts->images / 1000.0);
    run->is_resumed = 1;
    snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", path);
    run->saved_at = facts->images;
    return train_in_folder(run);
}

static enum status resume_run(struct run *run, int argc, char **argv)
{
    char path[1024], note[512] = "";
    TRY(run_folder_find_snapshot(run->config.resume, path, sizeof path, note,
                                 sizeof note));
    if (note[0])
        fprintf(stderr, "resume  %s\n", note);
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(path, &checkpoint));
    struct checkpoint_facts facts;
    enum status status = checkpoint_facts(checkpoint, &facts);
    if (status == STATUS_OK)
        status = merge_settings(run, checkpoint, argc, argv);
    if (status == STATUS_OK && (double)facts.images >= run->config.kimg * 1000.0) {
        printf("finished: %s has reached %.4g of %.4g kimg; to go on, give a larger "
               "--kimg\n",
               path, (double)facts.images / 1000.0, run->config.kimg);
    } else if (status == STATUS_OK) {
        fprintf(stderr, "resume  %s (step %lld, %.1f kimg)\n", path,
                (long long)facts.step, (double)facts.images / 1000.0);
        status = continue_run(run, checkpoint, path, &facts);
    }
    checkpoint_close(checkpoint);
    return status;
}

/* ---- the command ----------------------------------------------------------------- */

enum status train_command(int argc, char **argv)
{
    struct run *run = calloc(1, sizeof *run);
    CHECK(run);
    run->saved_at = -1;
    int wants_help = 0;
    config_default(&run->config);
    enum status status = config_parse(&run->config, argc, argv, &wants_help);
    if (status == STATUS_OK && wants_help)
        config_print_help(stdout);
    else if (status == STATUS_OK && run->config.resume[0])
        status = resume_run(run, argc, argv);
    else if (status == STATUS_OK)
        status = new_run(run);
    window_close(run->window);
    report_close(&run->report);
    monitor_destroy(run->monitor);
    run_folder_close(&run->folder);
    trainer_release(&run->trainer);
    free(run);
    return status;
}
