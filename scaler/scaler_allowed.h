/* scaler_allowed.h - which values a scaler may have, for settings and for saved states.
 * PyTorch lets through values that ruin a run without a word (a scale of inf stays inf, a
 * backoff of 0 makes it 0 for ever); here the setting, or the saved state, is refused.
 * For the files of scaler/ only. */
#ifndef SCALER_SCALER_ALLOWED_H
#define SCALER_SCALER_ALLOWED_H

#include <float.h>
#include <stdint.h>

#include "scaler/grad_scaler.h"

// Subnormal scales are refused because 1/scale soon overflows there, and with it every
// unscaled gradient.
#define ALLOWED_SCALE "a finite f32 from 1.17549435e-38 (2^-126) to 3.40282347e+38"
#define ALLOWED_GROWTH "a finite number above 1"
#define ALLOWED_BACKOFF "a number above 0 and below 1"
#define ALLOWED_INTERVAL "a whole number from 1 to 2147483647"

// Comparisons are false for NaN, which is how these refuse it.
static inline int scale_is_allowed(double scale)
{
    float rounded = (float)scale;
    return rounded >= FLT_MIN && rounded <= FLT_MAX;
}

static inline int growth_is_allowed(double growth_factor)
{
    return growth_factor > 1.0 && growth_factor <= DBL_MAX;
}

static inline int backoff_is_allowed(double backoff_factor)
{
    return backoff_factor > 0.0 && backoff_factor < 1.0;
}

// The growth tracker is an int32: it must be able to reach the interval.
static inline int interval_is_allowed(int64_t growth_interval)
{
    return growth_interval >= 1 && growth_interval <= INT32_MAX;
}

/* Takes over the settings of `config`, all but init_scale. */
void scaler_apply_config(struct scaler_state *state,
                         const struct grad_scaler_config *config);

/* Brings scale, tracker and wait of `state` into its limits, and tells it in
 * scaler->note. */
void scaler_fit_state(struct grad_scaler *scaler, struct scaler_state *state);

#endif
