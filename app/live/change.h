/* change.h - settings of a run that is going on, changed between two of its steps.
 * Flow:  "d.scale=1024" of ctl or a key -> [trainer_change] -> scalers, optimizers,
 *        config.
 * Owns:  nothing.
 *
 * Of each network: lr, clip_norm, scale, and every setting of its loss scaler; of the
 * run: kimg, snap and grad_stats. All changes of one request are made, or none. They go
 * into trainer->config, so that checkpoints and
 * --resume keep them. With one scale for both networks, what is asked of one network's
 * scaler is done to both. On several GPUs every rank makes the same change after the same
 * step (run_control.c). */
#ifndef APP_LIVE_CHANGE_H
#define APP_LIVE_CHANGE_H

#include "app/train/trainer.h"

#define CHANGES_MAX 64
#define CHANGE_REQUEST 1024 // bytes of a request: one message between ranks has as many

#define CHANGE_OF_RUN (-1) // in the place of a network

struct change {
    int network;     // or CHANGE_OF_RUN
    const char *key; // "d.scale"
    char before[64], after[64];
    float scale_before, scale_after; // of its network; 0 where scaling is off
    float fake_scale_before,
        fake_scale_after; // of D's loss on fakes; 0 without that scale
    char text[512];       // one sentence
};

struct changes {
    int count;
    struct change of[CHANGES_MAX];
};

/* `request`: "key=value", or several, one on a line. No step may be on its way.
 * STATUS_USAGE with the reason for a refusal; nothing is changed then. */
enum status trainer_change(struct trainer *trainer, const char *request,
                           struct changes *changes);

/* The same without a run: what trainer_change() would say to a trainer with these
 * settings, which are the changed ones afterwards. `source` begins a sentence on a value,
 * as in config_set(). */
enum status change_check(struct config *config, const char *request, const char *source);

/* True for "g.scale" and "d.scale": the only keys that are state, and no settings. */
int change_is_of_scale(const struct change *change);

/* What can be set in this run, as "key=value" lines with the present values. */
void trainer_settable(const struct trainer *trainer, char *text, size_t bytes);

#endif
