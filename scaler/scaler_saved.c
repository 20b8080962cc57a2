/* scaler_saved.c - which values a scaler may have, and its state in a checkpoint.
 * PyTorch lets through values that ruin a run without a word (a scale of inf stays inf, a
 * backoff of 0 makes it 0 for ever); here the setting, or the saved state, is refused. */
#include <float.h>
#include <inttypes.h>

#include "kernels/ops.h"
#include "scaler/grad_scaler.h"

// What is allowed, told in one place for flags and for saved states. Subnormal scales are
// refused because 1/scale soon overflows there, and with it every unscaled gradient.
#define ALLOWED_SCALE "a finite f32 from 1.17549435e-38 (2^-126) to 3.40282347e+38"
#define ALLOWED_GROWTH "a finite number above 1"
#define ALLOWED_BACKOFF "a number above 0 and below 1"
#define ALLOWED_INTERVAL "a whole number from 1 to 2147483647"

// Comparisons are false for NaN, which is how these refuse it.
static int scale_is_allowed(double scale)
{
    float rounded = (float)scale;
    return rounded >= FLT_MIN && rounded <= FLT_MAX;
}

static int growth_is_allowed(double growth_factor)
{
    return growth_factor > 1.0 && growth_factor <= DBL_MAX;
}

static int backoff_is_allowed(double backoff_factor)
{
    return backoff_factor > 0.0 && backoff_factor < 1.0;
}

// The growth tracker is an int32: it must be able to reach the interval.
static int interval_is_allowed(int64_t growth_interval)
{
    return growth_interval >= 1 && growth_interval <= INT32_MAX;
}

/* ---- settings -------------------------------------------------------------------- */

static enum status refuse_setting(const char *who, const char *setting, double value,
                                  const char *allowed)
{
    return status_fail(STATUS_USAGE, "--%s-%s: %.9g is not allowed; give %s", who,
                       setting, value, allowed);
}

enum status grad_scaler_check_scale(double scale, const char *who)
{
    if (!scale_is_allowed(scale))
        return refuse_setting(who, "init-scale", scale, ALLOWED_SCALE);
    return STATUS_OK;
}

enum status grad_scaler_check_config(const struct grad_scaler_config *config,
                                     const char *who)
{
    TRY(grad_scaler_check_scale(config->init_scale, who));
    if (!growth_is_allowed(config->growth_factor))
        return refuse_setting(who, "growth-factor", config->growth_factor,
                              ALLOWED_GROWTH);
    if (!backoff_is_allowed(config->backoff_factor))
        return refuse_setting(who, "backoff-factor", config->backoff_factor,
                              ALLOWED_BACKOFF);
    if (!interval_is_allowed(config->growth_interval))
        return status_fail(STATUS_USAGE,
                           "--%s-growth-interval: %" PRId64 " is not allowed; give %s",
                           who, config->growth_interval, ALLOWED_INTERVAL);
    return STATUS_OK;
}

/* ---- saved states ---------------------------------------------------------------- */

struct grad_scaler_saved grad_scaler_save(const struct grad_scaler *scaler)
{
    CHECK(scaler->stage == STAGE_READY, "network %s: save only after update()",
          scaler->name);
    struct scaler_state state = grad_scaler_read(scaler);
    return (struct grad_scaler_saved){
        .scale = (double)scaler_scale(&state),
        .growth_factor = state.growth_factor,
        .backoff_factor = state.backoff_factor,
        .growth_interval = state.growth_interval,
        .growth_tracker = state.enabled ? state.growth_tracker : 0,
        .enabled = state.enabled,
        .adam_t = state.adam_t,
        .updates = state.updates,
        .skipped = state.skipped,
        .skipped_in_a_row = state.skipped_in_a_row,
        .growths = state.growths,
        .backoffs = state.backoffs,
    };
}

static enum status refuse_saved(const char *who, const char *key, double value,
                                const char *allowed)
{
    return status_fail(
        STATUS_DATA,
        "saved scaler of network %s: %s is %.9g, expected %s; resume from an "
        "earlier snapshot",
        who, key, value, allowed);
}

static enum status check_saved_counters(const struct grad_scaler_saved *saved,
                                        const char *who)
{
    const struct {
        const char *key;
        int64_t value;
    } counters[] = {
        {"adam_t", saved->adam_t},   {"updates", saved->updates},
        {"skipped", saved->skipped}, {"skipped_in_a_row", saved->skipped_in_a_row},
        {"growths", saved->growths}, {"backoffs", saved->backoffs},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (counters[i].value < 0)
            return refuse_saved(who, counters[i].key, (double)counters[i].value,
                                "0 or more");
    return STATUS_OK;
}

static enum status check_saved_scale(const struct grad_scaler_saved *saved,
                                     const char *who)
{
    if (!scale_is_allowed(saved->scale))
        return refuse_saved(who, "scale", saved->scale, ALLOWED_SCALE);
    if (!growth_is_allowed(saved->growth_factor))
        return refuse_saved(who, "growth_factor", saved->growth_factor, ALLOWED_GROWTH);
    if (!backoff_is_allowed(saved->backoff_factor))
        return refuse_saved(who, "backoff_factor", saved->backoff_factor,
                            ALLOWED_BACKOFF);
    if (!interval_is_allowed(saved->growth_interval))
        return refuse_saved(who, "growth_interval", (double)saved->growth_interval,
                            ALLOWED_INTERVAL);
    if (saved->growth_tracker < 0 || saved->growth_tracker > INT32_MAX)
        return refuse_saved(who, "_growth_tracker", (double)saved->growth_tracker,
                            "a whole number from 0 to 2147483647");
    return STATUS_OK;
}

enum status grad_scaler_load(struct grad_scaler *scaler,
                             const struct grad_scaler_saved *saved)
{
    CHECK(scaler->stage == STAGE_READY, "network %s: load only after update()",
          scaler->name);
    TRY(check_saved_counters(saved, scaler->name));
    struct scaler_state state = grad_scaler_read(scaler);
    if (scaler->config.enabled) {
        if (!saved->enabled)
            return status_fail(
                STATUS_DATA,
                "saved scaler of network %s: loss scaling was off, so there "
                "is no scale to continue from; resume with --scaler off",
                scaler->name);
        TRY(check_saved_scale(saved, scaler->name));
        state.scale = (float)saved->scale;
        // An interval set below the tracker grows at the next good step.
        int64_t last = scaler->config.growth_interval - 1;
        state.growth_tracker =
            (int32_t)(saved->growth_tracker < last ? saved->growth_tracker : last);
    }
    state.adam_t = saved->adam_t;
    state.updates = saved->updates;
    state.skipped = saved->skipped;
    state.skipped_in_a_row = saved->skipped_in_a_row;
    state.growths = saved->growths;
    state.backoffs = saved->backoffs;
    scaler->device->ops->memory.upload(scaler->device, scaler->state, &state,
                                       sizeof state);
    return STATUS_OK;
}
