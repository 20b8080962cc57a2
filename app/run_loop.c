/* run_loop.c - trains until the end, saving and drawing at every mark that is crossed.
 *
 * A checkpoint is written before the first step, so that a full disk or a folder without
 * permission is known before hours are spent, not after. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/checkpoint.h"
#include "app/run.h"
#include "app/train.h"

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

static const char *resting_state(const struct run *run)
{
    return run->is_paused ? "paused" : "training";
}

// `kimg` names the file: the mark that was just crossed, or where the run is.
static enum status save(struct run *run, double kimg)
{
    struct trainer *trainer = &run->trainer;
    char name[32], path[1024];
    if (run->saved_at == trainer->progress.images && !run->save_failed)
        return STATUS_OK;
    report_state(&run->report, "saving ...");
    run_folder_file(&run->folder, path, sizeof path, "snapshot-%s.safetensors",
                    kimg_name(kimg, name, sizeof name));
    enum status status = checkpoint_save(trainer, path);
    run->save_failed = status != STATUS_OK;
    if (status == STATUS_OK) {
        snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", path);
        run->saved_at = trainer->progress.images;
        run_folder_log(&run->folder, "saved %s", path);
        run_folder_prune(&run->folder, run->config.keep, path);
    }
    report_state(&run->report, resting_state(run));
    return status;
}

static int is_done(const struct run *run)
{
    return (double)run->trainer.progress.images >= run->config.kimg * 1000.0;
}

// A checkpoint that cannot be written does not end a run that could still write one later.
static void save_snapshot(struct run *run, double kimg)
{
    int failed_before = run->save_failed;
    if (save(run, kimg) == STATUS_OK)
        return;
    report_say(&run->report, "warning: not saved: %s", status_message());
    if (!failed_before && !is_done(run))
        report_say(&run->report,
                   "         training goes on; the next snapshot tries again");
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

// What keys and signals asked for since the last call; true when the run should end.
static int serve(struct run *run, int requests)
{
    if (requests & REQUEST_SNAPSHOT) {
        save_snapshot(run, trainer_kimg(&run->trainer));
        if (!run->save_failed)
            report_say(&run->report, "saved %s", run->last_snapshot);
    }
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
        int requests = monitor_take_requests(run->monitor);
        int is_paused = !!(requests & REQUEST_PAUSE);
        if (is_paused != run->is_paused) {
            run->is_paused = is_paused;
            report_state(&run->report, resting_state(run));
        }
        must_end = serve(run, requests);
        if (must_end || !is_paused)
            break;
        monitor_wait_while_paused(run->monitor);
    }
    report_maintenance(&run->report, now_seconds() - started);
    return must_end;
}

static enum status one_step(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    double before = trainer_kimg(trainer), started = now_seconds();
    int is_first = run->report.tick.index == 0;
    enum status status = train_step(trainer);
    trainer->progress.elapsed_sec += now_seconds() - started;
    if (status == STATUS_OK || status == STATUS_DIVERGED) // both have taken the step
        report_step(&run->report);
    TRY(status);
    double now = trainer_kimg(trainer), trained = now_seconds(), mark;
    if (crosses(before, now, run->config.tick, &mark) || is_first)
        report_tick(&run->report);
    if (crosses(before, now, run->config.img_snap, &mark))
        save_fakes(run, mark);
    if (crosses(before, now, run->config.snap, &mark))
        save_snapshot(run, mark);
    double seconds = now_seconds() - trained;
    trainer->progress.elapsed_sec += seconds;
    report_maintenance(&run->report, seconds);
    return STATUS_OK;
}

static enum status loop(struct run *run, const char **end)
{
    report_write_reals(&run->report);
    if (run->trainer.progress.step == 0) {
        save_samples(run, "fakes_init.png");
        TRY(save(run, 0.0));
    }
    while (!is_done(run)) {
        if (serve_requests(run)) {
            *end = "stopped";
            save_snapshot(run, trainer_kimg(&run->trainer));
            save_fakes(run, trainer_kimg(&run->trainer));
            report_say(&run->report,
                       "stopped at %.1f kimg; go on with: twinscale train "
                       "--resume %s",
                       trainer_kimg(&run->trainer), run->folder.path);
            return STATUS_OK;
        }
        TRY(one_step(run));
    }
    *end = "finished";
    save_snapshot(run, run->config.kimg);
    save_fakes(run, run->config.kimg);
    return STATUS_OK;
}

// The last tick and the last pictures, however the run ended.
static void close_reports(struct run *run, const char *end)
{
    if (run->report.tick.loss[NETWORK_G].num > 0)
        report_tick(&run->report);
    report_end(&run->report, end, run->status == STATUS_OK ? "" : run->message);
}

void run_loop(struct run *run)
{
    const char *end = "failed";
    run->status = loop(run, &end);
    if (run->status == STATUS_OK && run->save_failed)
        run->status =
            status_fail(STATUS_FAILED,
                        "the last snapshot could not be written (see above); the "
                        "newest good one is %s",
                        run->last_snapshot);
    if (run->status != STATUS_OK)
        snprintf(run->message, sizeof run->message, "%s", status_message());
    close_reports(run, run->status == STATUS_DIVERGED ? "diverged" : end);
    progress_clear();
    monitor_finish(run->monitor);
}
