/* scaler_saved.c - a scaler's state in a checkpoint, and which of them are refused. */
#include "kernels/ops.h"
#include "scaler/scaler_allowed.h"

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
#define COUNT(name) .name = state.name,
#define TRACK(name) .name = state.name,
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
        .held = state.held,
        .is_held = state.is_held,
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
#define COUNT(name) {#name, saved->name},
#define TRACK(name) {#name, saved->name},
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
        {"held", saved->held},
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
    return STATUS_OK;
}

// What the device keeps in an int32.
static enum status check_saved_trackers(const struct grad_scaler_saved *saved,
                                        const char *who)
{
    const struct {
        const char *key;
        int64_t value;
    } trackers[] = {
        {"_growth_tracker", saved->growth_tracker},
        {"hysteresis_used", saved->hysteresis_used},
        {"growth_wait", saved->growth_wait},
    };
    for (size_t i = 0; i < sizeof trackers / sizeof *trackers; i++)
        if (trackers[i].value < 0 || trackers[i].value > INT32_MAX)
            return refuse_saved(who, trackers[i].key, (double)trackers[i].value,
                                "a whole number from 0 to 2147483647");
    return STATUS_OK;
}

enum status grad_scaler_check_saved(const struct grad_scaler_saved *saved,
                                    const char *who)
{
    TRY(check_saved_counters(saved, who));
    TRY(check_saved_scale(saved, who));
    return check_saved_trackers(saved, who);
}

static void take_scale(struct scaler_state *state, const struct grad_scaler_saved *saved)
{
    state->scale = (float)saved->scale;
    state->growth_tracker = (int32_t)saved->growth_tracker;
#define COUNT(name)
#define TRACK(name) state->name = (__typeof__(state->name))saved->name;
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
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
                "is not a scale to continue from; resume with --scaler off",
                scaler->name);
        TRY(grad_scaler_check_saved(saved, scaler->name));
        take_scale(&state, saved);
    }
#define COUNT(name) state.name = saved->name;
#define TRACK(name)
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
    state.held = saved->held;
    state.is_held = saved->is_held != 0;
    scaler_fit_state(scaler, &state);
    scaler->device->ops->memory.upload(scaler->device, scaler->state, &state,
                                       sizeof state);
    return STATUS_OK;
}
