/* diagnosis.h - why an optimizer step was skipped, from what its tensors held.
 * Flow:  train_collect() -> [diagnose] -> report_events.c: a line and a record.
 * Owns:  nothing.
 *
 * Where the step was taken again (probe.h) every tensor is known. Elsewhere the weight
 * gradients tell it: an activation gradient with an inf spoils the weight gradients of
 * all layers below, and one whose layers below are finite overflowed by itself. */
#ifndef APP_RECOVERY_DIAGNOSIS_H
#define APP_RECOVERY_DIAGNOSIS_H

#include "app/train/trainer.h"

enum overflow_cause {
    CAUSE_SCALE,     // the scale was too high: the rule has done what there is to do
    CAUSE_OUTLIER,   // one real image unlike the others (outlier.h)
    CAUSE_GRADIENTS, // gradients are too large at any sensible scale
    CAUSE_WEIGHT, // a weight is inf or NaN: nothing that is computed with it can be right
    CAUSE_FORWARD,   // activations left the range: no loss scale can help
    CAUSE_INVALID,   // NaN in the forward pass without an inf before it: 0/0, a bad exp
    CAUSE_ELSEWHERE, // not to be seen in any tensor of the last batch on this device
    CAUSE_UNKNOWN    // what was seen has more than one explanation: none is given
};

#define OVERFLOW_LAYERS 160 // bytes
#define OVERFLOW_WEIGHT 80

/* What the cause is told from. */
struct overflow_facts {
    int has_place;
    enum survey_kind kind;
    uint64_t inf, nan;
    float max_finite;
    int may_hide_inf;   // told from what came after it: an inf may have become NaN there
    int forward_finite; // all logits were
    int was_repeated;   // the step was taken again ...
    int is_repeatable;  // ... and the same was seen
    int was_tried_at_one; // a third time, at a scale of 1 ...
    int overflows_at_one; // ... where it overflowed too
    int is_half;          // f16: a range of 65504
    int found_inf, found_inf_unscaled;
    float scale, scale_after;     // the larger of two where D's losses have one each
    int is_static, at_floor;      // why a scale may not have been lowered
    char weight[OVERFLOW_WEIGHT]; // "d.conv1.weight[0] is inf", or ""
    int is_in_d; // the layer, or where none is known the network that was skipped
    // For --fp32-layers, to take the tensor out of f16: "d.conv3,d.bn3". "" where that
    // would not mend it.
    char fp32_layers[OVERFLOW_LAYERS];
};
enum overflow_cause overflow_cause(const struct overflow_facts *facts);

/* The cause and the next action, as words for a log line; "" of CAUSE_UNKNOWN. `network`,
 * "G" or "D", is the one that was skipped; `image` names an outlier. */
const char *overflow_advice(enum overflow_cause cause, const struct overflow_facts *facts,
                            const char *network, const char *image, char *text,
                            size_t bytes);
/* "keep what overflowed in f32 with --fp32-layers d.conv3,d.bn3, ", or "". */
#define OVERFLOW_KEEP (OVERFLOW_LAYERS + 64)
const char *overflow_keep_f32(const struct overflow_facts *facts,
                              char text[OVERFLOW_KEEP]);
/* "scale", "outlier" ... for events.jsonl. */
const char *overflow_cause_word(enum overflow_cause cause);

struct diagnosis {
    struct overflow_facts facts;
    struct nonfinite_place place;     // if facts.has_place
    const struct survey_entry *entry; // the same, while the trainer is what it is
    int is_exact;                     // the tensor itself was looked at
    int only_real;    // it is in D's pass over real images, and not in that over fakes
    const char *pass; // "real", "fakes", "generator", or "" where unknown
    enum overflow_cause cause;
};

/* Of a skipped optimizer step `slot` of the step that was last collected. Never an
 * outlier: that takes a trial (outlier.h). */
void diagnose(const struct trainer *trainer, int slot, struct diagnosis *diagnosis);

/* The images that D's step `slot` saw, as positions in the data set: the count, and at
 * most `room` of them. 0 for G, or without memory. */
size_t diagnosis_images(const struct trainer *trainer, int slot, size_t *images,
                        size_t room);

#endif
