/* diagnosis_words.c - what the facts of an overflow come to, and how that is said. */
#include <stdio.h>

#include "app/recovery/diagnosis.h"

/* ---- the cause ------------------------------------------------------------------- */

static int is_forward(const struct overflow_facts *facts)
{
    return !facts->forward_finite ||
           (facts->has_place && facts->kind == SURVEY_ACTIVATION);
}

// NaN and no inf before it: inf - inf, where ops in between are not seen, makes that too.
static int is_nan_alone(const struct overflow_facts *facts)
{
    return facts->has_place && facts->nan > 0 && facts->inf == 0;
}

enum overflow_cause overflow_cause(const struct overflow_facts *facts)
{
    if (facts->weight[0])
        return CAUSE_WEIGHT;
    // Finite at a scale below 1, and beyond the largest f32 without it.
    if (!facts->has_place && !facts->found_inf && facts->found_inf_unscaled)
        return CAUSE_GRADIENTS;
    if (facts->forward_finite &&
        (!facts->has_place || (facts->was_repeated && !facts->is_repeatable)))
        return CAUSE_ELSEWHERE;
    if (is_forward(facts))
        return is_nan_alone(facts) && !facts->may_hide_inf ? CAUSE_INVALID
                                                           : CAUSE_FORWARD;
    if (is_nan_alone(facts) && !facts->may_hide_inf)
        return CAUSE_UNKNOWN;
    if (facts->scale <= 1.0f || facts->overflows_at_one)
        return CAUSE_GRADIENTS;
    // f16's range is narrow: most often it is the scale. Beyond the largest f32 both are
    // rare.
    return facts->is_half || facts->was_tried_at_one ? CAUSE_SCALE : CAUSE_UNKNOWN;
}

const char *overflow_cause_word(enum overflow_cause cause)
{
    static const char *const words[] = {
        [CAUSE_SCALE] = "scale",         [CAUSE_OUTLIER] = "outlier",
        [CAUSE_GRADIENTS] = "gradients", [CAUSE_WEIGHT] = "weight",
        [CAUSE_FORWARD] = "forward",     [CAUSE_INVALID] = "invalid",
        [CAUSE_ELSEWHERE] = "elsewhere", [CAUSE_UNKNOWN] = "unknown"};
    return words[cause];
}

/* ---- the words ------------------------------------------------------------------- */

const char *overflow_keep_f32(const struct overflow_facts *facts,
                              char text[OVERFLOW_KEEP])
{
    text[0] = '\0';
    if (facts->fp32_layers[0])
        snprintf(text, OVERFLOW_KEEP,
                 "keep what overflowed in f32 with --fp32-layers %s, ",
                 facts->fp32_layers);
    return text;
}

// "--d-lr", or what keeps more of the range where the precision is the limit.
static void advise_range(const struct overflow_facts *facts, char letter, char *text,
                         size_t bytes)
{
    char keep[OVERFLOW_KEEP];
    if (facts->is_half)
        snprintf(text, bytes, "lower --%c-lr, %sor train with --precision bf16 or fp32",
                 letter, overflow_keep_f32(facts, keep));
    else
        snprintf(text, bytes, "lower --%c-lr", letter);
}

// A scale is lowered but for a rule that says otherwise, and the advice follows that
// rule.
static void print_scale(const struct overflow_facts *facts, char letter, char *text,
                        size_t bytes)
{
    const char *too_high = "the scale was too high for this layer";
    if (facts->scale_after < facts->scale)
        snprintf(text, bytes, "%s; it has been lowered, nothing needs to be done",
                 too_high);
    else if (facts->is_static)
        snprintf(text, bytes, "%s and stays as it is; lower --%c-init-scale", too_high,
                 letter);
    else if (facts->at_floor)
        snprintf(text, bytes, "%s and may not be lowered; lower --%c-min-scale", too_high,
                 letter);
    else
        snprintf(text, bytes,
                 "%s; it is not lowered yet (--%c-hysteresis, --%c-overflow-tolerance)",
                 too_high, letter, letter);
}

const char *overflow_advice(enum overflow_cause cause, const struct overflow_facts *facts,
                            const char *network, const char *image, char *text,
                            size_t bytes)
{
    char range[OVERFLOW_KEEP + 96];
    // What a layer's forward pass makes follows from its own network's weights; a
    // gradient from the loss of the one that was to take the step.
    char layers = facts->is_in_d ? 'd' : 'g', skipped = network[0] == 'G' ? 'g' : 'd';
    advise_range(facts, cause == CAUSE_FORWARD ? layers : skipped, range, sizeof range);
    text[0] = '\0';
    switch (cause) {
    case CAUSE_SCALE: print_scale(facts, skipped, text, bytes); break;
    case CAUSE_OUTLIER:
        snprintf(text, bytes,
                 "one real image is unlike the others: without it the gradients of this "
                 "batch are less than a quarter; look at %s",
                 image);
        break;
    case CAUSE_GRADIENTS:
        snprintf(text, bytes, "%s; %s",
                 facts->is_half
                     ? "a gradient is beyond fp16's 65504 even at a loss scale of 1"
                     : "gradients are beyond the largest f32",
                 range);
        break;
    case CAUSE_WEIGHT:
        snprintf(text, bytes,
                 "%s, which no loss scale and no precision can mend; go on from an older "
                 "snapshot with a lower --%c-lr",
                 facts->weight, layers);
        break;
    case CAUSE_FORWARD:
        snprintf(text, bytes,
                 "activations left the range of the forward pass, so no loss scale can "
                 "help; %s",
                 range);
        break;
    case CAUSE_INVALID:
        snprintf(text, bytes,
                 "NaN with no inf before it, and no weight is NaN: a division by zero or "
                 "an exp out of range; go on from an older snapshot with a lower --%c-lr",
                 layers);
        break;
    case CAUSE_ELSEWHERE:
        snprintf(text, bytes,
                 "no tensor of the last batch here holds it: an earlier batch of the "
                 "step, another device, or a fault planted with --inject");
        break;
    case CAUSE_UNKNOWN: break;
    }
    return text;
}
