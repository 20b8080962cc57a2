/* grad_scaler.c - the state machine around the rule of kernels/scaler_state.h.
 * The host keeps only the order of calls; every number lives on the device, so that a
 * step reads nothing back. */
#include "scaler/grad_scaler.h"

#include "kernels/ops.h"
#include "scaler/scaler_allowed.h"

const char *grad_scaler_call_text(enum grad_scaler_call call)
{
    switch (call) {
    case CALL_OK: return "fine";
    case CALL_NOT_SCALED:
        return "unscale, step or update was called before the first scale: multiply the "
               "loss by grad_scaler_scale() first";
    case CALL_UNSCALED_TWICE: return "unscale was already called since the last update";
    case CALL_UNSCALE_AFTER_STEP:
        return "unscale was called after step: call it before, or not at all";
    case CALL_STEPPED_TWICE: return "step was already called since the last update";
    case CALL_NOT_CHECKED:
        return "no check for inf and NaN was recorded since the last update: the network "
               "has no gradients, or update was called without unscale or step";
    }
    return "unknown";
}

/* ---- device state ---------------------------------------------------------------- */

static void write_state(struct grad_scaler *scaler, const struct scaler_state *state)
{
    scaler->device->ops->memory.upload(scaler->device, scaler->state, state,
                                       sizeof *state);
}

struct scaler_state grad_scaler_read(const struct grad_scaler *scaler)
{
    struct scaler_state state;
    scaler->device->ops->memory.download(scaler->device, &state, scaler->state,
                                         sizeof state);
    return state;
}

struct step_record grad_scaler_record(const struct grad_scaler *scaler)
{
    struct step_record record;
    scaler->device->ops->memory.download(scaler->device, &record, scaler->record,
                                         sizeof record);
    return record;
}

enum status grad_scaler_create(struct grad_scaler *scaler, struct device *device,
                               const char *name, const struct grad_scaler_config *config)
{
    *scaler = (struct grad_scaler){0};
    TRY(grad_scaler_check_config(config, name));

    *scaler = (struct grad_scaler){.device = device, .name = name, .config = *config};
    arena_begin(&scaler->arena, device, "loss scaler");
    arena_reserve(&scaler->arena, (void **)&scaler->state, sizeof *scaler->state);
    arena_reserve(&scaler->arena, (void **)&scaler->record, sizeof *scaler->record);
    arena_reserve(&scaler->arena, (void **)&scaler->norms,
                  GRAD_BLOCKS_MAX * sizeof *scaler->norms);
    enum status status = arena_commit(&scaler->arena);
    if (status != STATUS_OK) {
        grad_scaler_release(scaler);
        return status;
    }

    struct scaler_state state = {.scale = (float)config->init_scale,
                                 .growth_wait = config->growth_delay};
    scaler_apply_config(&state, config);
    write_state(scaler, &state);
    return STATUS_OK;
}

void grad_scaler_release(struct grad_scaler *scaler)
{
    if (scaler == NULL || scaler->device == NULL)
        return;
    arena_release(&scaler->arena);
    *scaler = (struct grad_scaler){0};
}

/* ---- one iteration --------------------------------------------------------------- */

struct scaler_state *grad_scaler_scale(struct grad_scaler *scaler)
{
    scaler->has_scaled = 1;
    return scaler->state;
}

static size_t elements_of(const struct gradients *gradients)
{
    size_t sum = 0;
    for (int i = 0; i < gradients->count; i++)
        sum += gradients->block[i].n;
    return sum;
}

/* A network without parameters records no check, which step and update then refuse. */
static void check_gradients(struct grad_scaler *scaler, const struct gradients *gradients)
{
    if (elements_of(gradients) == 0)
        return;
    for (int i = 0; i < gradients->count; i++)
        scaler->device->ops->optimizer.grads_check(scaler->device,
                                                   gradients->block[i].grads,
                                                   gradients->block[i].n, scaler->state);
    // Ranks of a group skip together.
    _Static_assert(offsetof(struct scaler_state, found_inf_unscaled) ==
                       offsetof(struct scaler_state, found_inf) + sizeof(float),
                   "found_inf and found_inf_unscaled are neighbours");
    scaler->device->ops->group.max_f32(scaler->device, &scaler->state->found_inf, 2);
    scaler->is_checked = 1;
}

static void end_iteration(struct grad_scaler *scaler)
{
    scaler->stage = STAGE_READY;
    scaler->is_checked = 0;
}

enum grad_scaler_call grad_scaler_unscale(struct grad_scaler *scaler,
                                          const struct gradients *gradients)
{
    if (!scaler->config.enabled)
        return CALL_OK;
    if (!scaler->has_scaled)
        return CALL_NOT_SCALED;
    if (scaler->stage == STAGE_UNSCALED)
        return CALL_UNSCALED_TWICE;
    if (scaler->stage == STAGE_STEPPED)
        return CALL_UNSCALE_AFTER_STEP;

    check_gradients(scaler, gradients);
    for (int i = 0; scaler->is_checked && i < gradients->count; i++)
        scaler->device->ops->optimizer.grads_unscale(
            scaler->device, gradients->block[i].grads, gradients->block[i].n,
            scaler->state);
    scaler->stage = STAGE_UNSCALED;
    return CALL_OK;
}

void grad_scaler_limit_norm(struct grad_scaler *scaler, const struct gradients *gradients,
                            float max_norm)
{
    const struct optimizer_ops *ops = &scaler->device->ops->optimizer;
    float *norm = &scaler->state->grad_norm;
    for (int i = 0; i < gradients->count; i++)
        ops->grads_norm(scaler->device, gradients->block[i].grads, gradients->block[i].n,
                        gradients->count > 1 ? scaler->norms + i : norm);
    if (gradients->count > 1) // the norm of all is that of the norms
        ops->grads_norm(scaler->device, scaler->norms, (size_t)gradients->count, norm);
    for (int i = 0; i < gradients->count; i++)
        ops->grads_clip(scaler->device, gradients->block[i].grads, gradients->block[i].n,
                        max_norm, norm);
}

enum grad_scaler_call grad_scaler_clip(struct grad_scaler *scaler,
                                       const struct gradients *gradients, float max_norm)
{
    CHECK(max_norm > 0.0f, "network %s: a norm of %g", scaler->name, (double)max_norm);
    enum grad_scaler_call call = grad_scaler_unscale(scaler, gradients);
    if (call != CALL_OK || elements_of(gradients) == 0)
        return call;
    grad_scaler_limit_norm(scaler, gradients, max_norm);
    return CALL_OK;
}

enum grad_scaler_call grad_scaler_step(struct grad_scaler *scaler,
                                       struct optimizer *optimizer)
{
    if (scaler->config.enabled && !scaler->has_scaled)
        return CALL_NOT_SCALED;
    if (scaler->config.enabled && scaler->stage == STAGE_STEPPED)
        return CALL_STEPPED_TWICE;
    // Disabled, a second step is a second plain step, which the first one's flags must
    // not skip.
    if (scaler->stage == STAGE_STEPPED)
        (void)grad_scaler_update(scaler);

    if (scaler->stage == STAGE_READY)
        check_gradients(scaler, &optimizer->gradients);
    if (!scaler->is_checked)
        return CALL_NOT_CHECKED;
    optimizer->step(optimizer, scaler->stage == STAGE_UNSCALED, scaler->state);
    scaler->stage = STAGE_STEPPED;
    return CALL_OK;
}

enum grad_scaler_call grad_scaler_update(struct grad_scaler *scaler)
{
    if (scaler->config.enabled && !scaler->has_scaled)
        return CALL_NOT_SCALED;
    if (!scaler->is_checked)
        return scaler->config.enabled ? CALL_NOT_CHECKED : CALL_OK;
    scaler->device->ops->optimizer.scaler_update(scaler->device, scaler->state,
                                                 scaler->record);
    end_iteration(scaler);
    return CALL_OK;
}

static enum status check_new_scale(const struct grad_scaler *scaler, double new_scale)
{
    const struct grad_scaler_config *config = &scaler->config;
    TRY(grad_scaler_check_scale(new_scale, scaler->name));
    if ((float)new_scale < (float)config->min_scale)
        return status_fail(STATUS_USAGE,
                           "network %s: a scale of %.9g is below its minimum %.9g; give "
                           "more, or lower the minimum first",
                           scaler->name, new_scale, config->min_scale);
    if (config->max_scale != 0.0 && (float)new_scale > (float)config->max_scale)
        return status_fail(STATUS_USAGE,
                           "network %s: a scale of %.9g is above its maximum %.9g; give "
                           "less, or raise the maximum first",
                           scaler->name, new_scale, config->max_scale);
    return STATUS_OK;
}

enum status grad_scaler_set(struct grad_scaler *scaler, double new_scale)
{
    TRY(check_new_scale(scaler, new_scale));
    if (!scaler->config.enabled)
        return STATUS_OK;

    // A step taken or skipped in this iteration is counted; only the rule is replaced.
    struct scaler_state state = grad_scaler_read(scaler);
    struct step_record record = grad_scaler_record(scaler);
    int is_held = scaler->stage == STAGE_STEPPED ? 0 : state.is_held; // one yet to come
    if (scaler->stage == STAGE_STEPPED)
        scaler_count_step(&state, &record);
    state.scale = (float)new_scale;
    state.steps_since_rescale = state.overflows_since_rescale = 0;
    record.at_floor = 0;
    scaler_end_step(&state, &record);
    state.is_held = is_held;
    write_state(scaler, &state);
    scaler->device->ops->memory.upload(scaler->device, scaler->record, &record,
                                       sizeof record);
    end_iteration(scaler);
    return STATUS_OK;
}
