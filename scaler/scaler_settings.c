/* scaler_settings.c - which settings a scaler may have, and changing them in a run. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "scaler/scaler_allowed.h"

struct grad_scaler_config grad_scaler_default_config(void)
{
    return (struct grad_scaler_config){.enabled = 1,
                                       .init_scale = 65536.0,
                                       .growth_factor = 2.0,
                                       .backoff_factor = 0.5,
                                       .growth_interval = 2000,
                                       .hysteresis = 1};
}

/* ---- what is refused ------------------------------------------------------------- */

static enum status refuse(const char *who, const char *setting, double value,
                          const char *allowed)
{
    return status_fail(STATUS_USAGE, "--%s-%s: %.9g is not allowed; give %s", who,
                       setting, value, allowed);
}

enum status grad_scaler_check_scale(double scale, const char *who)
{
    if (!scale_is_allowed(scale))
        return refuse(who, "init-scale", scale, ALLOWED_SCALE);
    return STATUS_OK;
}

static enum status check_limits(const struct grad_scaler_config *config, const char *who)
{
    double min = config->min_scale, max = config->max_scale;
    if (min != 0.0 && !scale_is_allowed(min))
        return refuse(who, "min-scale", min, "0 for none, or " ALLOWED_SCALE);
    if (max != 0.0 && !scale_is_allowed(max))
        return refuse(who, "max-scale", max, "0 for none, or " ALLOWED_SCALE);
    if (max != 0.0 && (float)min > (float)max)
        return status_fail(STATUS_USAGE,
                           "--%s-min-scale: %.9g is above --%s-max-scale %.9g; give a "
                           "minimum of at most the maximum",
                           who, min, who, max);
    return STATUS_OK;
}

static enum status check_forgiveness(const struct grad_scaler_config *config,
                                     const char *who)
{
    if (config->hysteresis < 1)
        return refuse(who, "hysteresis", config->hysteresis,
                      "a whole number from 1 (every overflow lowers the scale)");
    if (config->hysteresis_refill != REFILL_ON_GROWTH &&
        config->hysteresis_refill != REFILL_ON_STEP)
        return refuse(who, "hysteresis-refill", config->hysteresis_refill,
                      "growth or step");
    if (!(config->overflow_tolerance >= 0.0 && config->overflow_tolerance < 1.0))
        return refuse(who, "overflow-tolerance", config->overflow_tolerance,
                      "a share of steps from 0 (none) to below 1");
    if (config->hysteresis > 1 && config->overflow_tolerance > 0.0)
        return status_fail(STATUS_USAGE,
                           "--%s-overflow-tolerance: %.9g is given beside "
                           "--%s-hysteresis %d, and both decide which overflows are "
                           "forgiven; give one of them",
                           who, config->overflow_tolerance, who, config->hysteresis);
    if (config->growth_delay < 0)
        return refuse(who, "growth-delay", config->growth_delay,
                      "a whole number from 0 (none)");
    return STATUS_OK;
}

static enum status check_rule(const struct grad_scaler_config *config, const char *who)
{
    if (!growth_is_allowed(config->growth_factor))
        return refuse(who, "growth-factor", config->growth_factor, ALLOWED_GROWTH);
    if (!backoff_is_allowed(config->backoff_factor))
        return refuse(who, "backoff-factor", config->backoff_factor, ALLOWED_BACKOFF);
    if (!interval_is_allowed(config->growth_interval))
        return status_fail(STATUS_USAGE,
                           "--%s-growth-interval: %" PRId64 " is not allowed; give %s",
                           who, config->growth_interval, ALLOWED_INTERVAL);
    TRY(check_limits(config, who));
    return check_forgiveness(config, who);
}

enum status grad_scaler_check_config(const struct grad_scaler_config *config,
                                     const char *who)
{
    TRY(grad_scaler_check_scale(config->init_scale, who));
    TRY(check_rule(config, who));
    float scale = (float)config->init_scale;
    if (scale < (float)config->min_scale)
        return status_fail(STATUS_USAGE,
                           "--%s-init-scale: %.9g is below --%s-min-scale %.9g; give a "
                           "scale from the minimum to the maximum",
                           who, config->init_scale, who, config->min_scale);
    if (config->max_scale != 0.0 && scale > (float)config->max_scale)
        return status_fail(STATUS_USAGE,
                           "--%s-init-scale: %.9g is above --%s-max-scale %.9g; give a "
                           "scale from the minimum to the maximum",
                           who, config->init_scale, who, config->max_scale);
    return STATUS_OK;
}

/* ---- the device's copy ----------------------------------------------------------- */

void scaler_apply_config(struct scaler_state *state,
                         const struct grad_scaler_config *config)
{
    state->enabled = config->enabled;
    state->is_static = config->is_static;
#define RULE(type, name) state->name = (__typeof__(state->name))config->name;
#include "scaler/settings.def"
#undef RULE
}

__attribute__((format(printf, 2, 3))) static void add_note(struct grad_scaler *scaler,
                                                           const char *format, ...)
{
    size_t used = strlen(scaler->note);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(scaler->note + used, sizeof scaler->note - used, format, arguments);
    va_end(arguments);
}

static void fit_scale(struct grad_scaler *scaler, struct scaler_state *state)
{
    float before = state->scale;
    const char *limit = NULL;
    if (before < state->min_scale) {
        state->scale = state->min_scale;
        limit = "below its minimum";
    } else if (state->max_scale > 0.0f && before > state->max_scale) {
        state->scale = state->max_scale;
        limit = "above its maximum";
    }
    if (limit)
        add_note(scaler, "network %s: the loss scale %.9g is %s and becomes %.9g",
                 scaler->name, (double)before, limit, (double)state->scale);
}

void scaler_fit_state(struct grad_scaler *scaler, struct scaler_state *state)
{
    scaler->note[0] = '\0';
    if (!state->enabled)
        return;
    fit_scale(scaler, state);
    if (state->growth_wait > state->growth_delay)
        state->growth_wait = state->growth_delay;
    // An interval set to the tracker or below it grows at the next good step.
    if (state->growth_tracker < state->growth_interval)
        return;
    if (scaler->note[0])
        add_note(scaler, "; ");
    add_note(scaler,
             "network %s: %d good steps are counted and the growth interval is %" PRId64
             ", so the next good step grows",
             scaler->name, state->growth_tracker, state->growth_interval);
    state->growth_tracker = (int32_t)(state->growth_interval - 1);
}

enum status grad_scaler_change(struct grad_scaler *scaler,
                               const struct grad_scaler_config *config)
{
    CHECK(scaler->stage == STAGE_READY, "network %s: change only after update()",
          scaler->name);
    CHECK(scaler->config.enabled == config->enabled,
          "network %s: a scaler is not switched on or off in a run", scaler->name);
    TRY(check_rule(config, scaler->name));

    struct scaler_state state = grad_scaler_read(scaler);
    scaler->config = *config;
    scaler_apply_config(&state, config);
    scaler_fit_state(scaler, &state);
    scaler->device->ops->memory.upload(scaler->device, scaler->state, &state,
                                       sizeof state);
    return STATUS_OK;
}
