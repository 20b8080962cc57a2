/* truth.h - why a step was skipped, found by taking it again in another trainer.
 * Flow:  a trainer after a skip -> [truth_of] -> measure.c compares it with what was
 *        said.
 * Owns:  an fp16 and an f32 trainer of the same settings.
 *
 * Nothing of diagnosis.h, probe.h or outlier.h is used: weights, images and latents of
 * the skipped step are put into the other trainers, its passes run there at other scales,
 * in f32, and with single images replaced, and gradients and logits are looked at on the
 * host. */
#ifndef TESTS_DIAGNOSIS_TRUTH_H
#define TESTS_DIAGNOSIS_TRUTH_H

#include "app/train/trainer.h"

struct truth {
    struct trainer half, single;
    float *params[ROLES]; // of before the step
    int was_quiet;        // the caller's: the skip came after a long quiet spell
};

void truth_open(struct truth *truth, const struct config *config);
void truth_close(struct truth *truth);

/* Before every step. */
void truth_remember(struct truth *truth, const struct trainer *trainer);

/* Of a skip of `network` in the step that was just collected, with one D step, of as many
 * batches as G's: a word of events.jsonl's "cause". Of several batches the last is the
 * one that a run can look at: what is in an earlier one alone is "elsewhere". */
const char *truth_of(struct truth *truth, const struct trainer *trainer, int network);

#endif
