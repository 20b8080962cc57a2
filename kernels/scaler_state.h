/* scaler_state.h - one network's loss scale, as it lives on the device, and its rule.
 * Flow:  loss (reads scale) -> grads_check (writes found_inf) -> adam_step (reads found_inf)
 *        -> scaler_update (applies the rule here, writes a step_record for the host).
 * Owns:  nothing: plain data, one per network, in device memory.
 *
 * The rule stands here and not in scaler/, because the one-thread kernel of every backend
 * must run it where the state lives; scaler/ holds the state machine around it.
 * Source: PyTorch torch/amp/grad_scaler.py and AmpKernels.cu (semantics, not code). */
#ifndef KERNELS_SCALER_STATE_H
#define KERNELS_SCALER_STATE_H

#include <stdint.h>
#include <string.h>

struct scaler_state {
    double growth_factor;
    double backoff_factor;
    int64_t growth_interval;
    float scale; // f32 always: 2^17 and more are normal, and no half could hold them
    int32_t growth_tracker;
    int32_t enabled; // 0: scale reads as 1, gradients are still checked, nothing adapts

    // This step: 0 or 1, written by grads_check.
    float found_inf; // a gradient was inf or NaN before unscaling (PyTorch's flag)
    float found_inf_unscaled; // a finite gradient became inf when multiplied by 1/scale

    // Totals. They outlive checkpoints.
    int64_t adam_t;  // Adam's step count: optimizer steps really taken
    int64_t updates; // calls of the rule
    int64_t skipped; // steps not taken
    int64_t skipped_in_a_row;
    int64_t growths;
    int64_t backoffs;
};

/* What the host learns of one step, through a ring that it reads a step late. */
struct step_record {
    float scale_used, scale_after;
    int32_t growth_tracker;
    int32_t was_skipped;
    float found_inf, found_inf_unscaled;
    int64_t adam_t, updates, skipped, skipped_in_a_row, growths, backoffs;
};

#ifdef __CUDACC__
#define DEVICE_INLINE static __host__ __device__ __forceinline__
#else
#define DEVICE_INLINE static inline
#endif

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

/* True when this step must not touch the weights. */
DEVICE_INLINE int scaler_must_skip(const struct scaler_state *state)
{
    return state->found_inf != 0.0f || state->found_inf_unscaled != 0.0f;
}

/* The rule, once per optimizer step.
 *   found inf:  scale = f32(scale * backoff_factor), tracker = 0
 *   otherwise:  tracker += 1; at growth_interval: scale = f32(scale * growth_factor) unless
 *               that is infinite, tracker = 0
 * The tracker is compared with >= where PyTorch writes ==: the same for every state that
 * PyTorch reaches by itself, and an interval lowered below the tracker still grows. */
DEVICE_INLINE void scaler_rule(struct scaler_state *state)
{
    if (!state->enabled)
        return;
    if (scaler_must_skip(state)) {
        state->scale = (float)((double)state->scale * state->backoff_factor);
        state->growth_tracker = 0;
        state->backoffs += 1;
        return;
    }
    state->growth_tracker += 1;
    if (state->growth_tracker < state->growth_interval)
        return;
    float grown = (float)((double)state->scale * state->growth_factor);
    state->growth_tracker = 0;
    if (scale_is_finite(grown)) {
        state->scale = grown;
        state->growths += 1;
    }
}

/* Counts the step, applies the rule, fills the record, clears this step's flags. */
DEVICE_INLINE void scaler_finish_step(struct scaler_state *state,
                                      struct step_record *record)
{
    int skipped = scaler_must_skip(state);
    record->scale_used = scaler_scale(state);
    record->found_inf = state->found_inf;
    record->found_inf_unscaled = state->found_inf_unscaled;
    record->was_skipped = skipped;
    state->updates += 1;
    state->skipped += skipped;
    state->skipped_in_a_row = skipped ? state->skipped_in_a_row + 1 : 0;
    scaler_rule(state);
    state->found_inf = 0.0f;
    state->found_inf_unscaled = 0.0f;
    record->scale_after = scaler_scale(state);
    record->growth_tracker = state->growth_tracker;
    record->adam_t = state->adam_t;
    record->updates = state->updates;
    record->skipped = state->skipped;
    record->skipped_in_a_row = state->skipped_in_a_row;
    record->growths = state->growths;
    record->backoffs = state->backoffs;
}

#endif
