#include "scaler/watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void watch_begin(struct watch *watch, int64_t g_interval, int64_t d_interval)
{
    memset(watch, 0, sizeof *watch);
    watch->of[ROLE_G].growth_interval = g_interval;
    watch->of[ROLE_D].growth_interval = d_interval;
    watch->of[ROLE_G].skip_rate = watch->of[ROLE_D].skip_rate = -1.0;
}

/* ---- oscillation ----------------------------------------------------------------- */

static void add_swing(struct watched *own, int64_t step, float scale, const char *place)
{
    int64_t slot = own->swings % WATCH_SWINGS;
    own->swing[slot] = (struct watch_swing){.step = step, .scale = scale};
    snprintf(own->swing[slot].place, WATCH_PLACE, "%s", place);
    own->swing_update[slot] = own->updates;
    own->swings += 1;
}

// True when the oldest of the last WATCH_SWINGS is recent enough.
static int oscillates(const struct watched *own)
{
    if (own->swings < WATCH_SWINGS || own->growth_interval <= 0)
        return 0;
    int64_t oldest = own->swing_update[own->swings % WATCH_SWINGS];
    return own->updates - oldest <= WATCH_INTERVALS * own->growth_interval;
}

/* A scale that grows has been good for an interval. After a swing nothing is proven until
 * the scale grows again: however deep the fall, it is one. */
static int follow_scale(struct watched *own, int64_t step,
                        const struct step_record *record, const char *place)
{
    int was_moved_elsewhere = own->scale != 0.0f && record->scale_used != own->scale;
    own->scale = record->scale_after;
    if (was_moved_elsewhere)
        own->good = 0.0f;
    if (!record->was_skipped) {
        if (record->scale_after > record->scale_used)
            own->good = record->scale_used;
        return 0;
    }
    if (record->scale_used > own->good / WATCH_DEPTH)
        return 0;
    own->good = 0.0f;
    add_swing(own, step, record->scale_used, place);
    return oscillates(own);
}

/* ---- two networks ---------------------------------------------------------------- */

static int is_stuck(struct watched *own, struct watched *other,
                    const struct step_record *record)
{
    int was_taken = !record->was_skipped && !record->was_held;
    if (!record->was_skipped)
        own->stuck = 0;
    else if (own->other_taken > 0)
        own->stuck += 1;
    own->other_taken = 0;
    other->other_taken += was_taken;
    return own->stuck >= WATCH_STUCK;
}

static int skips_apart(struct watched *own, const struct watched *other,
                       const struct step_record *record)
{
    own->rate_steps += 1;
    own->rate_skips += record->was_skipped;
    if (own->rate_steps < WATCH_RATE_STEPS)
        return 0;
    own->skip_rate = (double)own->rate_skips / (double)own->rate_steps;
    own->rate_steps = own->rate_skips = 0;
    if (other->skip_rate < 0.0)
        return 0;
    double high = fmax(own->skip_rate, other->skip_rate);
    double low = fmin(own->skip_rate, other->skip_rate);
    return high > WATCH_OFTEN && low < WATCH_SELDOM;
}

static int scales_apart(struct watched *own, const struct watched *other)
{
    if (own->growth_interval <= 0 || own->scale <= 0.0f || other->scale <= 0.0f)
        return 0;
    double apart = fabs(log2((double)own->scale / (double)other->scale));
    own->apart = apart > WATCH_APART ? own->apart + 1 : 0;
    return own->apart >= own->growth_interval;
}

int watch_step(struct watch *watch, int network, int64_t step,
               const struct step_record *record, const char *place)
{
    struct watched *own = &watch->of[network], *other = &watch->of[!network];
    int is_g = network == ROLE_G, found = 0;
    own->updates += 1;
    if (follow_scale(own, step, record, place))
        found |= is_g ? WATCH_OSCILLATES_G : WATCH_OSCILLATES_D;
    if (is_stuck(own, other, record))
        found |= is_g ? WATCH_STUCK_G : WATCH_STUCK_D;
    if (skips_apart(own, other, record))
        found |= WATCH_SKIPS_APART;
    if (scales_apart(own, other))
        found |= WATCH_SCALES_APART;
    found &= ~watch->found;
    watch->found |= found;
    return found;
}
