#include "app/guard.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/checkpoint.h"
#include "app/post_mortem.h"
#include "app/report_events.h"
#include "app/storm.h"
#include "app/train.h"

static const char *const names[NETWORK_COUNT] = {"G", "D"};

static void event_storm(struct run *run, const struct storm *storm, const char *action)
{
    event_write(&run->report,
                json_pack("{s:s, s:s, s:s, s:I, s:b, s:f, s:s}", "event", "storm", "net",
                          names[storm->network], "action", action, "skips",
                          (json_int_t)storm->skips, "at_floor", storm->is_at_floor,
                          "scale", (double)storm->scale, "reason", storm->reason));
}

/* ---- warning --------------------------------------------------------------------- */

void guard_warn(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    if (run->config.on_overflow_storm != STORM_WARN)
        return;
    for (int network = 0; network < NETWORK_COUNT; network++) {
        struct storm storm;
        if (trainer->player[network].record.skipped_in_a_row == 0)
            run->in_storm[network] = 0;
        if (run->in_storm[network] || !storm_find_in(trainer, network, &storm))
            continue;
        run->in_storm[network] = 1;
        report_say(&run->report,
                   "warning: %s; training goes on (--on-overflow-storm warn)",
                   storm.reason);
        event_storm(run, &storm, "warn");
    }
}

/* ---- going back ------------------------------------------------------------------ */

void guard_saved(struct run *run)
{
    int is_calm = 1;
    for (int network = 0; network < NETWORK_COUNT; network++)
        is_calm &= run->trainer.player[network].record.skipped_in_a_row == 0;
    if (is_calm || run->config.on_overflow_storm != STORM_ROLLBACK)
        snprintf(run->good_snapshot, sizeof run->good_snapshot, "%s", run->last_snapshot);
}

static enum status lower_scale(struct grad_scaler *scaler, int halvings)
{
    double floor = fmax(scaler->config.min_scale, (double)FLT_MIN);
    if (!scaler->config.enabled)
        return STATUS_OK;
    double scale = ldexp((double)grad_scaler_read(scaler).scale, -halvings);
    return grad_scaler_set(scaler, fmax(scale, floor));
}

// Of a network in the storm, and of the other where they have one scale.
static enum status lower_scales(struct trainer *trainer, const struct storm *storm,
                                int halvings)
{
    enum topology_kind kind = trainer->topology.kind;
    int is_both =
        storm->is_in_both || kind == TOPOLOGY_SHARED || kind == TOPOLOGY_SHARED_PER_STEP;
    for (int i = 0; i < NETWORK_COUNT; i++)
        if (is_both || i == storm->network)
            TRY(lower_scale(&trainer->player[i].scaler, halvings));
    if (kind == TOPOLOGY_PER_LOSS && storm->network == NETWORK_D)
        TRY(lower_scale(&trainer->topology.fake, halvings));
    return STATUS_OK;
}

static struct step_record record_of(const struct grad_scaler *scaler)
{
    struct grad_scaler_saved saved = grad_scaler_save(scaler);
    return (struct step_record){.scale_used = (float)saved.scale,
                                .scale_after = (float)saved.scale,
                                .growth_tracker = (int32_t)saved.growth_tracker,
                                .hysteresis_used = (int32_t)saved.hysteresis_used,
                                .adam_t = saved.adam_t,
                                .updates = saved.updates,
                                .skipped = saved.skipped,
                                .skipped_in_a_row = saved.skipped_in_a_row,
                                .growths = saved.growths,
                                .backoffs = saved.backoffs,
                                .held = saved.held};
}

// What the host knows of the last step is now that of the snapshot.
static void set_records(struct trainer *trainer)
{
    for (int network = 0; network < NETWORK_COUNT; network++)
        trainer->player[network].record = record_of(&trainer->player[network].scaler);
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS)
        trainer->fake_record = record_of(&trainer->topology.fake);
    trainer->last_place = (struct results_place){.step = trainer->progress.step,
                                                 .images = trainer->progress.images};
}

static enum status load(struct trainer *trainer, const char *path)
{
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(path, &checkpoint));
    enum status status = checkpoint_load(checkpoint, trainer);
    checkpoint_close(checkpoint);
    return status;
}

// Steps that were queued behind the last collected one have no future.
static enum status drop_pending(struct trainer *trainer)
{
    while (train_pending(trainer) > 0) {
        enum status status = train_collect(trainer);
        if (status != STATUS_DIVERGED)
            TRY(status);
    }
    return STATUS_OK;
}

static enum status restore(struct run *run, const struct storm *storm)
{
    struct trainer *trainer = &run->trainer;
    struct progress before = trainer->progress;
    TRY(load(trainer, run->good_snapshot));
    int halvings = before.rollbacks + 1 - trainer->progress.rollbacks;
    trainer->progress.rollbacks = before.rollbacks + 1;
    trainer->progress.elapsed_sec = before.elapsed_sec;
    TRY(lower_scales(trainer, storm, halvings));
    set_records(trainer);
    TRY(trainer_start_data(trainer));
    report_rewind(&run->report, before.images);
    run_folder_set_aside(&run->folder, trainer_kimg(trainer));
    snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", run->good_snapshot);
    run->saved_at = -1; // the file there is from before the rollback
    return STATUS_OK;
}

static void tell_rollback(struct run *run, const struct storm *storm, int64_t from_step)
{
    const struct trainer *trainer = &run->trainer;
    const struct step_record *record = &trainer->player[storm->network].record;
    int number = trainer->progress.rollbacks, most = run->config.max_rollbacks;
    const char *slash = strrchr(run->good_snapshot, '/');
    const char *file = slash ? slash + 1 : run->good_snapshot;
    char scale[32];
    report_say(&run->report,
               "rollback %d of %d at step %lld: %s; back to step %lld (%s), %s's scale "
               "%s, another order of images and latents",
               number, most, (long long)from_step, storm->reason,
               (long long)trainer->progress.step, file, names[storm->network],
               scale_text(record->scale_after, scale, sizeof scale));
    event_write(&run->report,
                json_pack("{s:s, s:s, s:i, s:i, s:I, s:s, s:f}", "event", "rollback",
                          "net", names[storm->network], "number", number, "of", most,
                          "from_step", (json_int_t)from_step, "snapshot", file, "scale",
                          (double)record->scale_after));
}

static enum status roll_back(struct run *run, const struct storm *storm)
{
    int64_t from_step = run->trainer.last_place.step;
    event_storm(run, storm, "rollback");
    TRY(drop_pending(&run->trainer));
    report_take_samples(&run->report);
    run->trainer.device->ops->memory.wait(run->trainer.device);
    TRY(restore(run, storm));
    tell_rollback(run, storm, from_step);
    return STATUS_OK;
}

/* ---- giving up ------------------------------------------------------------------- */

static enum status give_up(struct run *run, const struct storm *storm)
{
    char reason[sizeof storm->reason + 320], path[1024];
    int rollbacks = run->trainer.progress.rollbacks;
    snprintf(reason, sizeof reason, "%s", storm->reason);
    if (run->config.on_overflow_storm == STORM_ROLLBACK)
        snprintf(reason, sizeof reason, "%s; given up after %d rollback%s", storm->reason,
                 rollbacks, rollbacks == 1 ? "" : "s");
    event_storm(run, storm, "stop");
    if (post_mortem_write(&run->report, storm, reason, path, sizeof path) == STATUS_OK)
        report_say(&run->report, "post-mortem %s", path);
    else
        report_say(&run->report, "warning: no whole post-mortem: %s", status_message());
    return status_fail(STATUS_DIVERGED, "%s", reason);
}

enum status guard_storm(struct run *run)
{
    struct storm storm;
    CHECK(storm_find(&run->trainer, &storm));
    if (run->config.on_overflow_storm == STORM_ROLLBACK &&
        run->trainer.progress.rollbacks < run->config.max_rollbacks)
        return roll_back(run, &storm);
    return give_up(run, &storm);
}
