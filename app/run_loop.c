/* run_loop.c - trains until the end, saving and drawing at every mark that is crossed.
 *
 * A checkpoint is written before the first step, so that a full disk or a folder without
 * permission is known before hours are spent, not after. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/record/checkpoint.h"
#include "app/recover.h"
#include "app/run.h"
#include "app/signals.h"
#include "app/train/train.h"
#include "kernels/base/process.h"
#include "app/files/terminal.h"

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

enum status run_save(struct run *run, double kimg)
{
    struct trainer *trainer = &run->trainer;
    char name[32], path[1024];
    if (run->saved_at == trainer->progress.images && !run->save_failed)
        return STATUS_OK;
    report_take_samples(&run->report); // the sampler is needed for the snapshot
    report_state(&run->report, "saving ...");
    run_folder_follow(&run->folder);
    run_folder_file(&run->folder, path, sizeof path, "snapshot-%s.safetensors",
                    kimg_name(kimg, name, sizeof name));
    enum status status = checkpoint_save(trainer, path);
    run->save_failed = status != STATUS_OK;
    run->save_status = status;
    if (status == STATUS_OK) {
        snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", path);
        run->saved_at = trainer->progress.images;
        signals_note_saved(path, trainer_kimg(trainer));
        // The name is the mark's: the log has where the run is, too.
        run_folder_log(&run->folder, "saved %s (step %lld, %.3f kimg)", path,
                       (long long)trainer->progress.step, trainer_kimg(trainer));
        guard_saved(run);
        run_folder_prune(&run->folder, run->trainer.config.keep, run->good_snapshot);
    }
    report_state(&run->report, resting_state(run));
    return status;
}

static int is_done(const struct run *run)
{
    return (double)run->trainer.progress.images >= run->trainer.config.kimg * 1000.0;
}

static enum status compare_scalers(struct run *run)
{
    TRY(group_order(run->group, ORDER_COMPARE));
    return run_compare_scalers(run);
}

/* A checkpoint that cannot be written does not end a run that could still write one
 * later. Ranks that no longer agree do: what they would write belongs to no run. */
static enum status save_snapshot(struct run *run, double kimg)
{
    int failed_before = run->save_failed;
    TRY(compare_scalers(run));
    if (run_save(run, kimg) == STATUS_OK)
        return STATUS_OK;
    report_print(&run->report, "warning: not saved: %s", status_message());
    if (!failed_before && !is_done(run))
        report_print(&run->report,
                     "         training goes on; the next snapshot tries again");
    return STATUS_OK;
}

enum status run_save_now(struct run *run)
{
    return save_snapshot(run, trainer_kimg(&run->trainer));
}

void run_save_fakes(struct run *run, double kimg)
{
    char number[32], name[64];
    snprintf(name, sizeof name, "fakes%s.png", kimg_name(kimg, number, sizeof number));
    report_draw_samples(&run->report);
    report_write_samples(&run->report, name, run->last_grid, sizeof run->last_grid);
}

// Before any training, so noise: never named as a result at the end.
static void save_initial_fakes(struct run *run)
{
    report_draw_samples(&run->report);
    report_write_samples(&run->report, "fakes_init.png", NULL, 0);
}

/* ---- the loop -------------------------------------------------------------------- */

/* True when a multiple of `interval` lies in (before, now]; *mark is the last such.
 * Marks do not depend on where a run was resumed. */
static int crosses(double before, double now, double interval, double *mark)
{
    double multiple = floor(now / interval + 1e-9);
    *mark = multiple * interval;
    return multiple > floor(before / interval + 1e-9);
}

// What keys and signals asked for since the last call; *must_end when the run should.
static enum status serve(struct run *run, int requests, int *must_end)
{
    TRY(run_serve_control(run, &requests));
    if (requests & REQUEST_SNAPSHOT) {
        TRY(run_save_now(run));
        if (!run->save_failed) { // log.txt has it from run_save()
            progress_clear();
            fprintf(stderr, "saved %s\n", run->last_snapshot);
        }
    }
    if (requests & REQUEST_EXPORT)
        run_save_fakes(run, trainer_kimg(&run->trainer));
    *must_end = !!(requests & REQUEST_QUIT);
    return STATUS_OK;
}

// Reads what steps did until at most `left` of them are still on their way.
static enum status collect(struct run *run, int left)
{
    while (train_pending(&run->trainer) > left) {
        struct recovery recovery;
        TRY(train_collect(&run->trainer));
        report_step(&run->report);
        recovery_decide(&run->trainer, run->in_storm, &recovery);
        TRY(recovery_carry_out(run, &recovery));
    }
    return STATUS_OK;
}

/* Serves requests, for as long as the run is paused; *must_end when the run should. What
 * they ask for is done where the run is: after every step that was queued. */
static enum status serve_requests(struct run *run, int *must_end)
{
    double started = now_seconds();
    for (;;) {
        int requests = monitor_take_requests(run->monitor);
        if (requests)
            TRY(collect(run, 0));
        TRY(serve(run, requests, must_end));
        int is_paused = monitor_is_paused(run->monitor);
        if (is_paused != run->is_paused) {
            run->is_paused = is_paused;
            report_state(&run->report, resting_state(run));
        }
        if (*must_end || !is_paused)
            break;
        monitor_wait_while_paused(run->monitor);
    }
    report_maintenance(&run->report, now_seconds() - started);
    return STATUS_OK;
}

static enum status serve_set_at(struct run *run)
{
    if (set_at_next(&run->set_at, run->trainer.progress.images, -1) < 0)
        return STATUS_OK;
    TRY(collect(run, 0));
    return run_serve_set_at(run);
}

static enum status one_step(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    const struct config *config = &run->trainer.config;
    double before = trainer_kimg(trainer), started = now_seconds(), tick, fakes, snap;
    TRY(group_order(run->group, ORDER_STEP));
    train_step(trainer);
    double now = trainer_kimg(trainer);
    // The last tick is written before the last snapshot: a run that is killed behind that
    // one is only finished by a resume, and takes no step that a tick could tell of.
    int has_tick = crosses(before, now, config->tick, &tick) ||
                   run->report.tick.index == 0 || is_done(run);
    int has_fakes = crosses(before, now, config->img_snap, &fakes);
    int has_snap = crosses(before, now, config->snap, &snap);
    int has_mark = has_tick || has_fakes || has_snap || is_done(run);
    int rollbacks = trainer->progress.rollbacks;
    TRY(collect(run, has_mark ? 0 : trainer->device->steps_ahead));
    if (rollbacks != trainer->progress.rollbacks)
        return STATUS_OK; // no mark was reached after all
    double trained = now_seconds();
    trainer->progress.elapsed_sec += trained - started;
    signals_note_trained(trainer_kimg(trainer));
    if (has_tick)
        report_tick(&run->report);
    if (has_fakes)
        run_save_fakes(run, fakes);
    if (has_snap)
        TRY(save_snapshot(run, snap));
    double seconds = now_seconds() - trained;
    trainer->progress.elapsed_sec += seconds;
    report_maintenance(&run->report, seconds);
    return STATUS_OK;
}

static void write_last_tick(struct run *run)
{
    if (run->report.tick.loss[ROLE_G].num > 0)
        report_tick(&run->report);
}

static enum status stop(struct run *run)
{
    write_last_tick(run);
    TRY(save_snapshot(run, trainer_kimg(&run->trainer)));
    if (run->trainer.progress.step > 0) // else fakes_init.png has the same samples
        run_save_fakes(run, trainer_kimg(&run->trainer));
    if (run->save_failed)
        report_print(&run->report, "stopped at %.1f kimg", trainer_kimg(&run->trainer));
    else
        report_print(&run->report,
                     "stopped at %.1f kimg; go on with: twinscale train --resume %s",
                     trainer_kimg(&run->trainer), run->folder.path);
    return STATUS_OK;
}

static enum status loop(struct run *run, const char **end)
{
    report_write_reals(&run->report);
    TRY(compare_scalers(run));
    if (run->trainer.progress.step == 0) {
        save_initial_fakes(run);
        TRY(run_save(run, 0.0));
    }
    while (!is_done(run)) {
        int must_end;
        TRY(serve_requests(run, &must_end));
        if (must_end) {
            *end = "stopped";
            run->was_stopped = 1;
            return stop(run);
        }
        TRY(serve_set_at(run));
        TRY(one_step(run));
    }
    TRY(save_snapshot(run, run->trainer.config.kimg));
    *end = "finished";
    run_save_fakes(run, run->trainer.config.kimg);
    return STATUS_OK;
}

/* The last tick and the last pictures, however the run ended. The event comes last of
 * all: a run that is killed before it is finished by a resume. */
static void close_reports(struct run *run, const char *end)
{
    write_last_tick(run);
    run_close_control(run);
    report_end(&run->report, end, run->status == STATUS_OK ? "" : run->message);
}

static enum status fail_save(struct run *run)
{
    char path[1024];
    if (run_newest_snapshot(run, path))
        return status_fail(run->save_status,
                           "the last snapshot could not be written (see above); the "
                           "newest good one is %s",
                           path);
    return status_fail(run->save_status,
                       "the last snapshot could not be written (see above), and there is "
                       "no other in %s",
                       run->folder.path);
}

void run_loop(struct run *run)
{
    const char *end = "failed";
    run->status = group_blame(run->group, loop(run, &end));
    if (run->status == STATUS_OK && run->save_failed)
        run->status = fail_save(run);
    if (run->status != STATUS_OK)
        snprintf(run->message, sizeof run->message, "%s", status_message());
    close_reports(run, run->status == STATUS_DIVERGED ? "diverged" : end);
    if (group_check(run->group) != STATUS_OK)
        run_print_last_snapshot(run);
    progress_clear();
}
