#include "app/recover.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/record/checkpoint.h"
#include "app/post_mortem.h"
#include "app/report_events.h"
#include "app/recovery/storm.h"
#include "app/train/train.h"
#include "kernels/base/text.h"

static void event_storm(struct run *run, const struct storm *storm, const char *action)
{
    event_write(&run->report,
                json_pack("{s:s, s:s, s:s, s:I, s:b, s:f, s:s}", "event", "storm", "net",
                          role_letter(storm->network), "action", action, "skips",
                          (json_int_t)storm->skips, "at_floor", storm->is_at_floor,
                          "scale", (double)storm->scale, "reason", storm->reason));
}

/* ---- the decision ---------------------------------------------------------------- */

static void decide_warnings(const struct trainer *trainer, int in_storm[ROLES],
                            struct recovery *recovery)
{
    for (int network = 0; network < ROLES; network++) {
        if (trainer->last.record[network].skipped_in_a_row == 0)
            in_storm[network] = 0;
        if (in_storm[network] ||
            !storm_find_in(trainer, network, &recovery->warning[network]))
            continue;
        in_storm[network] = recovery->warns_of[network] = 1;
        recovery->action = RECOVERY_WARN;
    }
}

void recovery_decide(const struct trainer *trainer, int in_storm[ROLES],
                     struct recovery *recovery)
{
    const struct config *config = &trainer->config;
    int rollbacks = trainer->progress.rollbacks;
    recovery->action = RECOVERY_CONTINUE;
    recovery->why[0] = '\0';
    memset(recovery->warns_of, 0, sizeof recovery->warns_of);
    if (config->on_overflow_storm == STORM_WARN) {
        decide_warnings(trainer, in_storm, recovery);
        return;
    }
    if (!storm_find(trainer, &recovery->storm))
        return;
    recovery->action = RECOVERY_STOP;
    if (config->on_overflow_storm == STORM_F32)
        recovery->action = RECOVERY_MOVE_TO_F32;
    if (config->on_overflow_storm != STORM_ROLLBACK)
        return;
    if (rollbacks < config->max_rollbacks)
        recovery->action = RECOVERY_ROLL_BACK;
    else
        snprintf(recovery->why, sizeof recovery->why, "given up after %d rollback%s",
                 rollbacks, PLURAL(rollbacks));
}

/* ---- warning --------------------------------------------------------------------- */

static void warn(struct run *run, const struct storm *storm)
{
    report_print(&run->report, "warning: %s; training goes on (--on-overflow-storm warn)",
                 storm->reason);
    event_storm(run, storm, "warn");
}

/* ---- going back ------------------------------------------------------------------ */

void guard_saved(struct run *run)
{
    int is_calm = 1;
    for (int network = 0; network < ROLES; network++)
        is_calm &= run->trainer.last.record[network].skipped_in_a_row == 0;
    if (is_calm || run->trainer.config.on_overflow_storm != STORM_ROLLBACK)
        snprintf(run->good_snapshot, sizeof run->good_snapshot, "%s", run->last_snapshot);
}

/* The scalers of a storm: its network's, and the other's where they have one scale. Their
 * number. */
static int scalers_in(struct trainer *trainer, const struct storm *storm,
                      struct grad_scaler *scalers[ROLES + 1])
{
    enum topology_kind kind = trainer->topology.kind;
    int count = 0, is_both = storm->is_in_both || kind == TOPOLOGY_SHARED ||
                             kind == TOPOLOGY_SHARED_PER_STEP;
    for (int i = 0; i < ROLES; i++)
        if (is_both || i == storm->network)
            scalers[count++] = &trainer->scaler[i];
    if (kind == TOPOLOGY_PER_LOSS && (is_both || storm->network == ROLE_D))
        scalers[count++] = &trainer->topology.fake;
    return count;
}

static enum status lower_scale(struct grad_scaler *scaler, int halvings)
{
    double floor = fmax(scaler->config.min_scale, (double)FLT_MIN);
    if (!scaler->config.enabled)
        return STATUS_OK;
    double scale = ldexp((double)grad_scaler_read(scaler).scale, -halvings);
    return grad_scaler_set(scaler, fmax(scale, floor));
}

static struct step_record record_of(const struct grad_scaler *scaler)
{
    struct grad_scaler_saved saved = grad_scaler_save(scaler);
    return (struct step_record){.scale_used = (float)saved.scale,
                                .scale_after = (float)saved.scale,
                                .growth_tracker = (int32_t)saved.growth_tracker,
                                .hysteresis_used = (int32_t)saved.hysteresis_used,
#define COUNT(name) .name = saved.name,
#define TRACK(name)
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
                                .held = saved.held};
}

// What the host knows of the last step is now that of the snapshot.
static void set_records(struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++)
        trainer->last.record[network] = record_of(&trainer->scaler[network]);
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS)
        trainer->last.fake_record = record_of(&trainer->topology.fake);
    trainer->last.place = (struct results_place){.step = trainer->progress.step,
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
        TRY(train_collect(trainer));
    }
    return STATUS_OK;
}

static enum status load_good_snapshot(struct run *run)
{
    struct checkpoint *checkpoint;
    struct checkpoint_facts facts;
    TRY(checkpoint_open(run->good_snapshot, &checkpoint));
    enum status status = checkpoint_facts(checkpoint, &facts);
    if (status == STATUS_OK)
        status = run_take_back_set_at(run, facts.images);
    if (status == STATUS_OK)
        status = checkpoint_load(checkpoint, &run->trainer);
    checkpoint_close(checkpoint);
    return status;
}

static enum status restore(struct run *run, const struct storm *storm)
{
    struct trainer *trainer = &run->trainer;
    struct progress before = trainer->progress;
    TRY(load_good_snapshot(run));
    int halvings = before.rollbacks + 1 - trainer->progress.rollbacks;
    trainer->progress.rollbacks = before.rollbacks + 1;
    trainer->progress.elapsed_sec = before.elapsed_sec;
    struct grad_scaler *scalers[ROLES + 1];
    int count = scalers_in(trainer, storm, scalers);
    for (int i = 0; i < count; i++)
        TRY(lower_scale(scalers[i], halvings));
    set_records(trainer);
    TRY(trainer_start_data(trainer));
    report_rewind(&run->report, before.images);
    run_folder_set_aside(&run->folder, trainer_kimg(trainer));
    snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", run->good_snapshot);
    run->saved_at = -1; // the file there is from before the rollback
    return STATUS_OK;
}

static void log_rollback(struct run *run, const struct storm *storm, int64_t from_step)
{
    const struct trainer *trainer = &run->trainer;
    const struct step_record *record = &trainer->last.record[storm->network];
    int number = trainer->progress.rollbacks, most = run->trainer.config.max_rollbacks;
    const char *slash = strrchr(run->good_snapshot, '/');
    const char *file = slash ? slash + 1 : run->good_snapshot;
    char scale[32];
    report_print(&run->report,
                 "rollback %d of %d at step %lld: %s; back to step %lld (%s), %s's scale "
                 "%s, another order of images and latents",
                 number, most, (long long)from_step, storm->reason,
                 (long long)trainer->progress.step, file, role_letter(storm->network),
                 scale_text(record->scale_after, scale, sizeof scale));
    event_write_scales(&run->report,
                       json_pack("{s:s, s:s, s:i, s:i, s:I, s:s, s:f}", "event",
                                 "rollback", "net", role_letter(storm->network), "number",
                                 number, "of", most, "from_step", (json_int_t)from_step,
                                 "snapshot", file, "scale", (double)record->scale_after));
}

static enum status roll_back(struct run *run, const struct storm *storm)
{
    int64_t from_step = run->trainer.last.place.step;
    event_storm(run, storm, "rollback");
    TRY(drop_pending(&run->trainer));
    report_take_samples(&run->report);
    run->trainer.device->ops->memory.wait(run->trainer.device);
    TRY(restore(run, storm));
    log_rollback(run, storm, from_step);
    return STATUS_OK;
}

/* ---- moving a layer to f32 ------------------------------------------------------- */

// Steps that were queued behind the last collected one are steps of the run.
static enum status take_pending(struct run *run)
{
    while (train_pending(&run->trainer) > 0) {
        TRY(train_collect(&run->trainer));
        report_step(&run->report);
    }
    return STATUS_OK;
}

/* What the scale was lowered for is gone, and what it was before the storm is not kept:
 * it begins again as the run did. What init-scale auto found was of layers in other
 * types. */
static enum status begin_again(struct grad_scaler *scaler)
{
    struct grad_scaler_saved saved = grad_scaler_save(scaler);
    saved.scale = scaler->config.init_scale;
    saved.growth_wait = scaler->config.growth_delay;
    saved.growth_tracker = saved.hysteresis_used = saved.skipped_in_a_row = 0;
    saved.steps_since_rescale = saved.overflows_since_rescale = 0;
    return grad_scaler_load(scaler, &saved);
}

// STATUS_DIVERGED with the reason where f32 would not mend the storm.
static enum status check_layers(const struct storm *storm)
{
    const struct diagnosis *skip = &storm->skip;
    if (skip->facts.fp32_layers[0])
        return STATUS_OK;
    if (!skip->facts.has_place)
        return status_fail(STATUS_DIVERGED,
                           "no tensor shows which layer it was, so none is moved to f32");
    if (skip->cause == CAUSE_WEIGHT)
        return status_fail(STATUS_DIVERGED, "no layer is moved to f32, which cannot hold "
                                            "it either");
    if (skip->facts.inf == 0 && !skip->facts.may_hide_inf)
        return status_fail(STATUS_DIVERGED,
                           "NaN in %s with no inf before it, which f32 would not mend",
                           skip->place.layer);
    return status_fail(STATUS_DIVERGED,
                       "what overflowed in %s was not fp16, so f32 would not mend it",
                       skip->place.layer);
}

static enum status add_layers(struct config *config, const char *layers)
{
    size_t used = strlen(config->fp32_layers);
    if (used + strlen(layers) + 2 > sizeof config->fp32_layers)
        return status_fail(STATUS_DIVERGED,
                           "--fp32-layers has no room for %s beside the %zu characters "
                           "that are there",
                           layers, used);
    snprintf(config->fp32_layers + used, sizeof config->fp32_layers - used, "%s%s",
             used ? "," : "", layers);
    return STATUS_OK;
}

/* The run as it goes on, in a snapshot: that is what is read into the new networks, and
 * what a resume begins with. A weight that is inf or NaN is refused there. */
static enum status save_with_layers(struct run *run, const struct storm *storm)
{
    struct trainer *trainer = &run->trainer;
    char before[CONFIG_TEXT];
    struct grad_scaler *scalers[ROLES + 1];
    int count = scalers_in(trainer, storm, scalers);
    TRY(check_layers(storm));
    snprintf(before, sizeof before, "%s", trainer->config.fp32_layers);
    TRY(add_layers(&trainer->config, storm->skip.facts.fp32_layers));
    for (int i = 0; i < count; i++)
        TRY(begin_again(scalers[i]));
    run->saved_at = -1;
    enum status status = run_save(run, trainer_kimg(trainer));
    if (status != STATUS_OK)
        snprintf(trainer->config.fp32_layers, sizeof before, "%s", before);
    return status;
}

static void log_layers(struct run *run, const struct storm *storm)
{
    const struct trainer *trainer = &run->trainer;
    double scale = (double)trainer->last.record[storm->network].scale_after;
    const char *layers = storm->skip.facts.fp32_layers,
               *name = role_letter(storm->network);
    char text[32];
    report_print(&run->report,
                 "step %lld: %s; the last in %s: %s; in f32 from here on: %s; %s's scale "
                 "begins again at %s",
                 (long long)trainer->progress.step, storm->what, storm->skip.place.layer,
                 storm->skip.place.tensor, layers, name,
                 scale_text((float)scale, text, sizeof text));
    event_write_scales(&run->report, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f}",
                                               "event", "fp32_layer", "net", name,
                                               "layer", storm->skip.place.layer, "tensor",
                                               storm->skip.place.tensor, "layers", layers,
                                               "fp32_layers", trainer->config.fp32_layers,
                                               "scale_before", (double)storm->scale,
                                               "scale_after", scale));
    history_mark(monitor_history(run->report.monitor), storm->network);
}

// From the snapshot that was just written.
static enum status rebuild(struct run *run)
{
    struct trainer *trainer = &run->trainer;
    report_take_samples(&run->report);
    TRY(trainer_rebuild(trainer));
    TRY(load(trainer, run->last_snapshot));
    set_records(trainer);
    memset(run->report.quiet_steps, 0, sizeof run->report.quiet_steps);
    TRY(trainer_start_data(trainer));
    if (run_write_layer_types(run) != STATUS_OK)
        report_print(&run->report, "warning: %s", status_message());
    return STATUS_OK;
}

static enum status go_on_in_f32(struct run *run, const struct storm *storm)
{
    enum status status = rebuild(run);
    if (status == STATUS_OK)
        log_layers(run, storm);
    else
        run_print_last_snapshot(run);
    return status;
}

/* ---- giving up ------------------------------------------------------------------- */

// `why` may be "": what was done instead of stopping, and did not help.
static enum status give_up(struct run *run, const struct storm *storm, const char *why)
{
    char reason[sizeof storm->reason + 320], path[1024];
    snprintf(reason, sizeof reason, "%s%s%.300s", storm->reason, why[0] ? "; " : "", why);
    event_storm(run, storm, "stop");
    if (post_mortem_write(&run->report, storm, reason, path, sizeof path) == STATUS_OK)
        report_print(&run->report, "post-mortem %s", path);
    else
        report_print(&run->report, "warning: no whole post-mortem: %s", status_message());
    return status_fail(STATUS_DIVERGED, "%s", reason);
}

static enum status move_or_stop(struct run *run, const struct storm *storm)
{
    char why[512];
    event_storm(run, storm, "fp32-layer");
    TRY(take_pending(run));
    if (save_with_layers(run, storm) == STATUS_OK)
        return go_on_in_f32(run, storm);
    snprintf(why, sizeof why, "%s", status_message());
    return give_up(run, storm, why);
}

enum status recovery_carry_out(struct run *run, const struct recovery *recovery)
{
    switch (recovery->action) {
    case RECOVERY_CONTINUE: break;
    case RECOVERY_WARN:
        for (int network = 0; network < ROLES; network++)
            if (recovery->warns_of[network])
                warn(run, &recovery->warning[network]);
        break;
    case RECOVERY_ROLL_BACK: return roll_back(run, &recovery->storm);
    case RECOVERY_MOVE_TO_F32: return move_or_stop(run, &recovery->storm);
    case RECOVERY_STOP: return give_up(run, &recovery->storm, recovery->why);
    }
    return STATUS_OK;
}
