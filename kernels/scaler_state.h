/* scaler_state.h - one network's loss scale, as it lives on the device, and its rule.
 * Flow:  loss (reads scale) -> grads_check (writes found_inf) -> adam_step (reads
 *        found_inf)
 *        -> scaler_update (applies the rule here, writes a step_record for the host).
 * Owns:  nothing: plain data, one per network, in device memory.
 *
 * The rule stands here and not in scaler/, because the one-thread kernel of every backend
 * must run it where the state lives; scaler/ holds the state machine around it.
 * Source: PyTorch torch/amp/grad_scaler.py and AmpKernels.cu (semantics, not code); the
 * rules beyond it are those of Megatron-LM's DynamicGradScaler, DeepSpeed's and fairseq's
 * DynamicLossScaler and apex's update_scale_hysteresis. scaler/grad_scaler.h tells which
 * settings give which. */
#ifndef KERNELS_SCALER_STATE_H
#define KERNELS_SCALER_STATE_H

#include <stdint.h>
#include <string.h>

#include "kernels/device_inline.h"

/* When an overflow that was forgiven stops counting against `hysteresis`. */
enum hysteresis_refill {
    REFILL_ON_GROWTH, // when a growth interval completes (Megatron, DeepSpeed)
    REFILL_ON_STEP    // at every good step: only overflows in a row count (apex)
};

/* Zero in a field of "Rules beyond PyTorch's" is that rule switched off. */
struct scaler_state {
    double growth_factor;
    double backoff_factor;
    double overflow_tolerance; // beyond PyTorch's: see scaler_rule()
    int64_t growth_interval;
    float scale; // f32 always: 2^17 and more are normal, and no half could hold them
    int32_t growth_tracker;
    int32_t enabled; // 0: scale reads as 1, gradients are still checked, nothing adapts

    // This step: 0 or 1, written by grads_check.
    float found_inf; // a gradient was inf or NaN before unscaling (PyTorch's flag)
    float found_inf_unscaled; // a finite gradient became inf when multiplied by 1/scale

    // This step, where several scales train one run (scaler/topology.h).
    float
        found_inf_elsewhere; // another loss of this network overflowed at its own scale
    int32_t is_held;         // the other network overflowed, and holds this step back
    float grad_norm;         // of the unscaled gradients before clipping; 0: not measured

    // Rules beyond PyTorch's.
    int32_t is_static;         // the scale stays; gradients are checked and steps skipped
    float min_scale;           // no back-off goes below; 0: none
    float max_scale;           // no growth goes above; 0: none
    int32_t hysteresis;        // overflows that lower the scale once; 0 and 1: each one
    int32_t hysteresis_refill; // enum hysteresis_refill
    int32_t hysteresis_used;   // overflows counted so far, at most `hysteresis`
    int32_t growth_delay; // good steps after an overflow that the tracker does not count
    int32_t growth_wait;  // of these, still to come
    int64_t steps_since_rescale;     // since the scale last went up or down
    int64_t overflows_since_rescale; // since it last went down

    // Totals. They outlive checkpoints.
    int64_t adam_t;  // Adam's step count: optimizer steps really taken
    int64_t updates; // calls of the rule
    int64_t skipped; // steps not taken
    int64_t skipped_in_a_row;
    int64_t growths;
    int64_t backoffs;
    int64_t held; // steps not taken because of the other network
};

/* What the host learns of one step, through a ring that it reads a step late. */
struct step_record {
    float scale_used, scale_after;
    int32_t growth_tracker;
    int32_t was_skipped; // for an overflow of this network
    int32_t was_held;    // for one of the other; the rule has not been applied
    int32_t at_floor;    // the scale had to go down and is at min_scale already
    int32_t hysteresis_used;
    float found_inf, found_inf_unscaled, found_inf_elsewhere;
    float grad_norm; // unscaled, before clipping; 0: not measured
    int64_t adam_t, updates, skipped, skipped_in_a_row, growths, backoffs, held;
};

/* True when gradients of this record's scale overflowed. */
DEVICE_INLINE int step_has_overflowed(const struct step_record *record)
{
    return record->found_inf != 0.0f || record->found_inf_unscaled != 0.0f;
}

/* True unless the value is inf or NaN: a bit test, so that no flag can fold it away. */
DEVICE_INLINE int scale_is_finite(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* 1/scale: reciprocal in f64, then rounded to f32; 1 when disabled. */
DEVICE_INLINE float scaler_inverse(const struct scaler_state *state)
{
    return state->enabled ? (float)(1.0 / (double)state->scale) : 1.0f;
}

/* The scale that multiplies a loss now. */
DEVICE_INLINE float scaler_scale(const struct scaler_state *state)
{
    return state->enabled ? state->scale : 1.0f;
}

/* True when gradients of this scale overflowed: what the rule goes by. */
DEVICE_INLINE int scaler_overflowed(const struct scaler_state *state)
{
    return state->found_inf != 0.0f || state->found_inf_unscaled != 0.0f;
}

/* True when this network's step is skipped for an overflow of its own. */
DEVICE_INLINE int scaler_skips(const struct scaler_state *state)
{
    return scaler_overflowed(state) || state->found_inf_elsewhere != 0.0f;
}

/* True when this step must not touch the weights. */
DEVICE_INLINE int scaler_must_skip(const struct scaler_state *state)
{
    return scaler_skips(state) || state->is_held;
}

/* True when this overflow lowers the scale; else it only skips.
 *   hysteresis N: the first N-1 overflows since the last refill are forgiven
 *   tolerance T:  forgiven while overflows / steps < T, the steps counted since the scale
 *                 last moved, the overflows since it last went down
 * The uneven pair is fairseq's: a growth starts its count of steps again and keeps that
 * of overflows. */
DEVICE_INLINE int scaler_backs_off(struct scaler_state *state)
{
    if (state->hysteresis_used < state->hysteresis)
        state->hysteresis_used += 1;
    state->overflows_since_rescale += 1;
    double share =
        (double)state->overflows_since_rescale / (double)state->steps_since_rescale;
    return state->hysteresis_used >= state->hysteresis &&
           share >= state->overflow_tolerance;
}

/* scale = max(f32(scale * backoff_factor), min_scale); returns 1 where it was there. */
DEVICE_INLINE int scaler_back_off(struct scaler_state *state)
{
    int at_floor = state->min_scale > 0.0f && state->scale <= state->min_scale;
    float lowered = (float)((double)state->scale * state->backoff_factor);
    state->steps_since_rescale = 0;
    state->overflows_since_rescale = 0;
    state->backoffs += !at_floor;
    state->scale = lowered < state->min_scale ? state->min_scale : lowered;
    return at_floor;
}

/* scale = min(f32(scale * growth_factor), max_scale), unless that is infinite. */
DEVICE_INLINE void scaler_grow(struct scaler_state *state)
{
    int at_ceiling = state->max_scale > 0.0f && state->scale >= state->max_scale;
    float grown = (float)((double)state->scale * state->growth_factor);
    if (state->max_scale > 0.0f && grown > state->max_scale)
        grown = state->max_scale;
    state->steps_since_rescale = 0;
    if (!scale_is_finite(grown))
        return;
    state->scale = grown;
    state->growths += !at_ceiling;
}

/* The rule, once per optimizer step. PyTorch's, where nothing beyond it is set:
 *   found inf:  scale = f32(scale * backoff_factor), tracker = 0
 *   otherwise:  tracker += 1; at growth_interval: scale = f32(scale * growth_factor)
 *               unless that is infinite, tracker = 0
 * The tracker is compared with >= where PyTorch writes ==: the same for every state that
 * PyTorch reaches by itself, and an interval lowered below the tracker still grows.
 * Every overflow sets the tracker to 0, also one that is forgiven, and starts
 * growth_delay again. Returns 1 where the scale had to go down and is at min_scale
 * already. */
DEVICE_INLINE int scaler_rule(struct scaler_state *state)
{
    if (!state->enabled || state->is_static)
        return 0;
    state->steps_since_rescale += 1;
    if (scaler_overflowed(state)) {
        state->growth_tracker = 0;
        state->growth_wait = state->growth_delay;
        return scaler_backs_off(state) ? scaler_back_off(state) : 0;
    }
    if (state->hysteresis_refill == REFILL_ON_STEP)
        state->hysteresis_used = 0;
    if (state->growth_wait > 0) {
        state->growth_wait -= 1;
        return 0;
    }
    state->growth_tracker += 1;
    if (state->growth_tracker < state->growth_interval)
        return 0;
    state->growth_tracker = 0;
    state->hysteresis_used = 0;
    scaler_grow(state);
    return 0;
}

/* Counts the step, and tells the record what was before the rule. */
DEVICE_INLINE void scaler_count_step(struct scaler_state *state,
                                     struct step_record *record)
{
    int skipped = scaler_skips(state);
    record->scale_used = scaler_scale(state);
    record->found_inf = state->found_inf;
    record->found_inf_unscaled = state->found_inf_unscaled;
    record->found_inf_elsewhere = state->found_inf_elsewhere;
    record->grad_norm = state->grad_norm;
    record->was_skipped = skipped;
    record->was_held = state->is_held && !skipped;
    state->updates += 1;
    state->skipped += skipped;
    state->held += record->was_held;
    if (!record->was_held) // a step that was held back neither fails nor succeeds
        state->skipped_in_a_row = skipped ? state->skipped_in_a_row + 1 : 0;
}

/* Clears this step's flags, and tells the record what is after the rule. */
DEVICE_INLINE void scaler_end_step(struct scaler_state *state, struct step_record *record)
{
    state->found_inf = 0.0f;
    state->found_inf_unscaled = 0.0f;
    state->found_inf_elsewhere = 0.0f;
    state->is_held = 0;
    state->grad_norm = 0.0f;
    record->scale_after = scaler_scale(state);
    record->growth_tracker = state->growth_tracker;
    record->hysteresis_used = state->hysteresis_used;
    record->adam_t = state->adam_t;
    record->updates = state->updates;
    record->skipped = state->skipped;
    record->skipped_in_a_row = state->skipped_in_a_row;
    record->growths = state->growths;
    record->backoffs = state->backoffs;
    record->held = state->held;
}

/* Counts the step, applies the rule, fills the record, clears this step's flags. */
DEVICE_INLINE void scaler_finish_step(struct scaler_state *state,
                                      struct step_record *record)
{
    scaler_count_step(state, record);
    record->at_floor = record->was_held ? 0 : scaler_rule(state);
    scaler_end_step(state, record);
}

/* ---- one scale for two optimizers ------------------------------------------------ */

/* Takes over all that the rule moves; flags and step counters stay. */
DEVICE_INLINE void scaler_take_scale(struct scaler_state *to,
                                     const struct scaler_state *from)
{
    to->scale = from->scale;
    to->growth_tracker = from->growth_tracker;
    to->hysteresis_used = from->hysteresis_used;
    to->growth_wait = from->growth_wait;
    to->steps_since_rescale = from->steps_since_rescale;
    to->overflows_since_rescale = from->overflows_since_rescale;
    to->growths = from->growths;
    to->backoffs = from->backoffs;
}

/* PyTorch's update() of one scaler after two optimizers: each step is counted by its own
 * flags, and the rule sees one step, bad if either overflowed. With `holds`, an overflow
 * of the second holds back the next step of the first. */
DEVICE_INLINE void scaler_finish_both(struct scaler_state *first,
                                      struct step_record *first_record,
                                      struct scaler_state *second,
                                      struct step_record *second_record, int holds)
{
    scaler_count_step(first, first_record);
    scaler_count_step(second, second_record);
    if (second->found_inf != 0.0f)
        first->found_inf = 1.0f;
    if (second->found_inf_unscaled != 0.0f)
        first->found_inf_unscaled = 1.0f;
    first_record->at_floor = second_record->at_floor = scaler_rule(first);
    scaler_take_scale(second, first);
    scaler_end_step(first, first_record);
    scaler_end_step(second, second_record);
    first->is_held = holds && second_record->was_skipped;
}

/* ---- what an overflow means to others -------------------------------------------- */

enum overflow_reach {
    OVERFLOW_SKIPS, // to another loss of the same network: its step is skipped as well
    OVERFLOW_HOLDS  // to the other network: its next step is held back
};

/* Tells `to` of an overflow of `from` in this step. */
DEVICE_INLINE void scaler_spread_overflow(const struct scaler_state *from,
                                          struct scaler_state *to, int reach)
{
    if (!scaler_skips(from))
        return;
    if (reach == OVERFLOW_SKIPS)
        to->found_inf_elsewhere = 1.0f;
    else
        to->is_held = 1;
}

/* ---- clipping -------------------------------------------------------------------- */

/* The f32 of the root of a sum of squares: finite exactly when all gradients are. */
DEVICE_INLINE float norm_of_sum(double root)
{
    float norm = (float)root;
    if (!scale_is_finite(norm) && root <= 1.7976931348623157e308)
        return 3.40282347e38f;
    return norm;
}

/* What gradients of this norm are multiplied by: min(max_norm/(norm + 1e-6), 1) in f32; 1
 * where the norm is not finite, so that inf and NaN stay to be seen.
 * Source: PyTorch's torch.nn.utils.clip_grad_norm_. */
DEVICE_INLINE float clip_factor(float norm, float max_norm)
{
    float factor = max_norm / (norm + 1e-6f);
    return scale_is_finite(norm) && factor < 1.0f ? factor : 1.0f;
}

#endif
