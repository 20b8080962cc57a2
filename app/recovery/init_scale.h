/* init_scale.h - `--g-init-scale auto`: the loss scale to begin with, from the first
 * step.
 * Flow:  trainer_start_data() -> [init_scale_find] -> the scalers' scales, and what was
 *        found
 *        -> log, events.jsonl, --dry-run, info.
 * Owns:  nothing that lasts.
 *
 * Looked for is the largest power of two at which every gradient of the first step's
 * batches is finite, in the sense of the scaler's own check. The first step is rehearsed:
 * all of its passes, no optimizer step, the scale the only thing that differs. A
 * rehearsal at a scale that is good also tells the headroom of every tensor of the
 * backward pass, so that the answer is guessed at once; a rehearsal at it and one at
 * twice it then prove it. Where the headroom does not tell (it cannot see what is rounded
 * to half on its way into an f32 sum), the search goes on by doubling and halving its
 * stride. Typically 3 to 5 rehearsals.
 *
 * The run begins init_margin powers of two below that: in the steps to come gradients
 * grow. The default is 5, because in nine runs (fmnist-quick, dcgan32 and a small DCGAN
 * on shapes, three seeds each) that began at what was found, scales had gone down by 1 to
 * 5 powers of two after 1000 steps, skipping 3 to 9 of them. A start that is too low
 * costs little: f16 has 40 powers of two, and the scale grows. It begins at
 * config_init_scale(), as without auto, where
 *   - no scale is good: then the forward pass is at fault, and a lower start would not
 *   help;
 *   - none is bad: all gradients are 0, and nothing is known of those to come;
 *   - no gradient is stored in f16, and 65536 is good: f32's range has no use for more.
 * With one scale for both networks, the smaller start is that of both.
 *
 * Nothing of it stays in the run but the scale: weights, running statistics, the order of
 * images and latents and all counters are as before. A fault that --inject plants in an
 * activation of step 1 is there in the rehearsals; one in a weight or a gradient is not.
 * On several devices every rank has to call it, and all find the same. */
#ifndef APP_RECOVERY_INIT_SCALE_H
#define APP_RECOVERY_INIT_SCALE_H

#include "app/train/trainer.h"
#include "nets/survey.h"

/* The powers of two that are tried: all that init-scale may be. */
enum { INIT_EXPONENT_MIN = -122, INIT_EXPONENT_MAX = 126 };

enum found_kind {
    FOUND_LIMIT,    // 2^exponent is good and twice it is not
    FOUND_NO_LIMIT, // 2^exponent is good, and the largest that was tried
    FOUND_NOTHING   // no scale is good
};

/* One scale that was looked for. */
struct found_scale {
    int network;
    const char *loss; // "" or, where D has two scales, "real", "fakes"
    enum found_kind kind;
    int exponent;
    float start; // what the run begins with
    // What is inf or NaN at twice it, first in backward order; layer "" where this rank
    // has not seen it.
    struct nonfinite_place bad;
};

struct found_scales {
    int count; // 0: not asked for
    struct found_scale of[3];
    int rehearsals;
    double seconds;
};

/* Looks for every scale whose init-scale is auto and sets it; before the first step, with
 * the data started. trainer->found_scales then holds a sentence a line. */
enum status init_scale_find(struct trainer *trainer, struct found_scales *found);

/* "G: the first step's gradients are finite up to 2^19 (at 2^20 not: g.conv1: weight
 * gradient); begins at 2^17". Returns `text`. */
#define INIT_SCALE_LINE 320
const char *init_scale_line(const struct trainer *trainer,
                            const struct found_scale *found, char text[INIT_SCALE_LINE]);

#endif
