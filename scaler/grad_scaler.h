/* grad_scaler.h - one network's loss scaler: PyTorch's GradScaler, bit for bit.
 * Flow:  loss (times scale) -> backward -> [unscale] -> [step] -> [update] -> record.
 * Owns:  its device state and the last record (one arena).  Borrows: device, optimizer.
 *
 * Order within one iteration, checked at every call:
 *     grad_scaler_scale(s);              // device pointer that the loss reads
 *     ... backward ...
 *     grad_scaler_unscale(s, &o->gradients);      // optional: to look at true gradients
 *     grad_scaler_clip(s, &o->gradients, norm);   // or this: unscales and clips them
 *     grad_scaler_step(s, o);            // checks, steps or skips
 *     grad_scaler_update(s);             // applies the rule, once
 *
 * Differences from PyTorch, all of them guards: settings that ruin a run are refused; a
 * finite gradient that the unscaling makes infinite also skips; a disabled scaler still
 * checks, so that no NaN reaches a weight; a tracker beyond a lowered interval grows.
 *
 * Rules beyond PyTorch's are off by default. With factors 2 and 0.5 the scale takes the
 * same values as that of
 *     PyTorch, Keras 3         the defaults (Keras begins at 2^15)
 *     tf-keras, MindSpore      min_scale 1
 *     apex amp                 max_scale 2^24
 *     apex fp16_utils          min_scale 1, growth_interval 1000, init_scale 2^32
 *     apex hysteresis          hysteresis N, REFILL_ON_STEP
 *     Megatron-LM              hysteresis 2, min_scale 1, growth_interval 1000
 *     DeepSpeed                the same, and in newer versions growth_delay 1; with its
 *                              consecutive_hysteresis REFILL_ON_STEP
 *     DeepSpeed, fused Adam    growth_delay 1, min_scale 1, growth_interval 1000
 *     fairseq                  overflow_tolerance T, min_scale 2^-13
 * Where DeepSpeed raises "already at minimum" and fairseq its FloatingPointError, the
 * step's record says at_floor; what follows is the caller's decision. With other factors
 * the last bit of a scale may differ from Megatron's, which rounds the factor to f32, and
 * from those that keep the scale in f64.
 *
 * Source: torch/amp/grad_scaler.py (behaviour); apex/amp/scaler.py, apex
 * fp16_utils/loss_scaler.py and csrc/update_scale_hysteresis.cu; megatron/core/optimizer/
 * grad_scaler.py; deepspeed/runtime/fp16/loss_scaler.py and fused_optimizer.py; fairseq/
 * optim/dynamic_loss_scaler.py; keras and tf_keras loss_scale_optimizer.py; mindspore
 * nn/wrap/loss_scale.py. */
#ifndef SCALER_GRAD_SCALER_H
#define SCALER_GRAD_SCALER_H

#include <stdint.h>

#include "kernels/arena.h"
#include "kernels/scaler_state.h"
#include "nets/optim/optimizer.h"

struct grad_scaler_config {
    int enabled;
    double init_scale; // a normal f32 after rounding: 2^-126 .. 3.4e38
    int is_static;     // the scale stays; steps are checked and skipped all the same
#define RULE(type, name) type name;
#include "scaler/settings.def"
#undef RULE
};

/* 65536, 2, 0.5, 2000, and nothing beyond: PyTorch's. */
struct grad_scaler_config grad_scaler_default_config(void);

/* STATUS_USAGE with setting, value and allowed range; `who` ("g", "d") is the network. */
enum status grad_scaler_check_config(const struct grad_scaler_config *config,
                                     const char *who);
enum status grad_scaler_check_scale(double scale, const char *who);

enum grad_scaler_stage { STAGE_READY, STAGE_UNSCALED, STAGE_STEPPED };

/* The five wrong orders of calls (and fine). Gradients are untouched when one is
 * returned. A network without parameters has nothing to check: its step is
 * CALL_NOT_CHECKED, neither a skip nor a success. Disabled, no order is wrong: unscale
 * and update do nothing that is not needed, and every step is a plain, checked step. */
enum grad_scaler_call {
    CALL_OK,
    CALL_NOT_SCALED,     // unscale, step or update before the first scale
    CALL_UNSCALED_TWICE, // unscale after unscale
    CALL_UNSCALE_AFTER_STEP,
    CALL_STEPPED_TWICE, // step after step
    CALL_NOT_CHECKED,   // update (or step) with no check recorded since the last update
};
const char *grad_scaler_call_text(enum grad_scaler_call call);

struct grad_scaler {
    struct device *device;
    const char *name; // "g" or "d"
    struct grad_scaler_config config;
    enum grad_scaler_stage stage;
    int has_scaled;             // scale() was called at least once
    int is_checked;             // gradients were looked at since the last update
    struct scaler_state *state; // device
    struct step_record *record; // device; the last update's
    float *norms;               // device: [GRAD_BLOCKS_MAX], of single blocks
    // What the last load or change had to bring into the settings' limits, as a sentence;
    // "" for nothing.
    char note[256];
    struct arena arena;
};

enum status grad_scaler_create(struct grad_scaler *scaler, struct device *device,
                               const char *name, const struct grad_scaler_config *config);
void grad_scaler_release(struct grad_scaler *scaler);

/* The device state that a loss op multiplies its seed by. */
struct scaler_state *grad_scaler_scale(struct grad_scaler *scaler);
enum grad_scaler_call grad_scaler_unscale(struct grad_scaler *scaler,
                                          const struct gradients *gradients);
/* Unscales, measures the norm of all gradients together (state->grad_norm, for the step's
 * record), and multiplies them so that it is at most max_norm (> 0). There is no clipping
 * without unscaling, so none of gradients that carry a scale. Gradients with an inf or
 * NaN are left as they are: their step is skipped. Instead of unscale(), and refused
 * where that is. */
enum grad_scaler_call grad_scaler_clip(struct grad_scaler *scaler,
                                       const struct gradients *gradients, float max_norm);
/* The second half of it, for gradients that are unscaled. */
void grad_scaler_limit_norm(struct grad_scaler *scaler, const struct gradients *gradients,
                            float max_norm);
enum grad_scaler_call grad_scaler_step(struct grad_scaler *scaler,
                                       struct optimizer *optimizer);
enum grad_scaler_call grad_scaler_update(struct grad_scaler *scaler);

/* PyTorch's update(new_scale): sets the scale, leaves the tracker, drops the collected
 * checks, ends the iteration; nothing when disabled. Also allowed before the first
 * scale(). STATUS_USAGE where init_scale would be refused, and beyond min_scale and
 * max_scale. Waits for the device. */
enum status grad_scaler_set(struct grad_scaler *scaler, double new_scale);

/* Other settings from the next step on: a copy of scaler->config with some of them
 * changed. Scale, tracker and counters stay; a scale beyond the new limits is brought to
 * the nearer one, a tracker at or above the new interval to interval - 1, and `note`
 * tells it. init_scale has no meaning any more and is not looked at; `enabled` cannot
 * change (CHECK). STATUS_USAGE with setting, value and range, and nothing is changed.
 * Only between iterations. Waits for the device. */
enum status grad_scaler_change(struct grad_scaler *scaler,
                               const struct grad_scaler_config *config);

/* Host copies; they wait for the device (not for use inside a step). */
struct scaler_state grad_scaler_read(const struct grad_scaler *scaler);
struct step_record grad_scaler_record(const struct grad_scaler *scaler);

/* PyTorch's five keys, and what a checkpoint keeps besides. */
struct grad_scaler_saved {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
    int enabled;
    // Of the rules beyond PyTorch's all 0 in a checkpoint that does not have them.
#define COUNT(name) int64_t name;
#define TRACK(name) int64_t name;
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
    // Of several scales (topology.h); 0 where there is one, or each is alone.
    int64_t held;
    int is_held; // the next step will be
};
/* STATUS_DATA with field, value and range for a state, of an enabled scaler, that would
 * ruin a run. `who` names the scaler in the sentence. */
enum status grad_scaler_check_saved(const struct grad_scaler_saved *saved,
                                    const char *who);
/* Only between iterations (after update): CHECK aborts otherwise. */
struct grad_scaler_saved grad_scaler_save(const struct grad_scaler *scaler);
/* Refuses (STATUS_DATA) a saved state with values that would ruin the run, naming them,
 * and one that a disabled scaler saved (it holds no scale) unless this one is disabled
 * too. Settings of `scaler->config` that differ from the saved ones are the caller's to
 * decide; load takes the saved scale and tracker and counters, and the CONFIG's factors.
 * A tracker at or above the config's interval becomes interval - 1, a scale beyond the
 * config's limits the nearer one, and `note` tells it. A disabled scaler takes the
 * counters only. Only between iterations. */
enum status grad_scaler_load(struct grad_scaler *scaler,
                             const struct grad_scaler_saved *saved);

#endif
