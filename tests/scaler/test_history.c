/* test_history.c - a million random decisions per rule, against a model of another make.
 * The scaler keeps trackers; the model keeps the whole past and asks it: how many
 * overflows were there since ..., how long ago was .... Its factors are powers of two, so
 * that a scale is a whole number to it, the exponent. */
#include <math.h>
#include <stdlib.h>

#include "kernels/philox.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

#define STEPS 1000000
#define NO_LIMIT 1000

struct rule {
    const char *name;
    int start, growth, backoff; // exponents
    int floor, ceiling;         // exponents; -NO_LIMIT, NO_LIMIT for none
    int interval, hysteresis, delay, is_static;
    enum hysteresis_refill refill;
    double tolerance;
};

struct past {
    int32_t *overflows; // overflows[n] of the first n steps
    int n;              // steps so far; the first is 1
    int last_overflow, last_good, last_growth, last_backoff; // steps; 0: never
    int exponent;
    int growths, backoffs, was_at_floor;
};

/* ---- the model ------------------------------------------------------------------- */

static int later(int a, int b)
{
    return a > b ? a : b;
}

static void model_overflow(struct past *past, const struct rule *rule)
{
    int n = past->n;
    int since_refill = rule->refill == REFILL_ON_STEP
                           ? n - past->last_good
                           : past->overflows[n] - past->overflows[past->last_growth];
    int since_backoff = past->overflows[n] - past->overflows[past->last_backoff];
    int steps = n - later(past->last_growth, past->last_backoff);
    past->last_overflow = n;
    if (since_refill < rule->hysteresis ||
        (double)since_backoff / (double)steps < rule->tolerance)
        return;
    past->last_backoff = n;
    past->was_at_floor = past->exponent == rule->floor;
    past->backoffs += !past->was_at_floor;
    past->exponent = later(past->exponent - rule->backoff, rule->floor);
}

static void model_good_step(struct past *past, const struct rule *rule)
{
    int stable = past->n - past->last_overflow - rule->delay;
    past->last_good = past->n;
    if (stable <= 0 || stable % rule->interval != 0)
        return;
    past->last_growth = past->n;
    int grown = past->exponent + rule->growth;
    if (grown > rule->ceiling)
        grown = rule->ceiling;
    if (grown > 127) // f32 ends there
        return;
    past->growths += past->exponent != rule->ceiling;
    past->exponent = grown;
}

static void model_step(struct past *past, const struct rule *rule, int found)
{
    past->n += 1;
    past->overflows[past->n] = past->overflows[past->n - 1] + found;
    past->was_at_floor = 0;
    if (rule->is_static)
        return;
    if (found)
        model_overflow(past, rule);
    else
        model_good_step(past, rule);
}

/* ---- both ------------------------------------------------------------------------ */

static struct scaler_state state_of(const struct rule *rule)
{
    struct scaler_state state = {
        .growth_factor = ldexp(1.0, rule->growth),
        .backoff_factor = ldexp(1.0, -rule->backoff),
        .growth_interval = rule->interval,
        .scale = ldexpf(1.0f, rule->start),
        .enabled = 1,
        .is_static = rule->is_static,
        .hysteresis = rule->hysteresis,
        .hysteresis_refill = (int32_t)rule->refill,
        .overflow_tolerance = rule->tolerance,
        .growth_delay = rule->delay,
        .growth_wait = rule->delay,
    };
    if (rule->floor != -NO_LIMIT)
        state.min_scale = ldexpf(1.0f, rule->floor);
    if (rule->ceiling != NO_LIMIT)
        state.max_scale = ldexpf(1.0f, rule->ceiling);
    return state;
}

// Times of calm, of storm and between, so that both limits are met. A scale that nears
// the subnormals is left in peace: what the rule does there, test_rule.c tells.
static int decide(const struct past *past, uint64_t seed)
{
    static const double chances[] = {0.002, 0.15, 0.8, 0.03};
    struct philox_words block = philox(seed, 7, 0, (uint64_t)past->n);
    double chance = chances[past->n / 700 % 4];
    return past->exponent > -110 && (double)block.word[0] < chance * 4294967296.0;
}

static void compare(const struct past *past, const struct scaler_state *state,
                    const struct step_record *record, const struct rule *rule, int found)
{
    if (state->scale == ldexpf(1.0f, past->exponent) &&
        record->at_floor == past->was_at_floor && record->was_skipped == found &&
        state->growths == past->growths && state->backoffs == past->backoffs &&
        state->skipped == past->overflows[past->n] && state->updates == past->n)
        return;
    fail_msg(
        "%s (interval %d, hysteresis %d, refill %d, tolerance %g, delay %d, floor %d, "
        "ceiling %d), step %d: 2^%g, %d growths, %d back-offs, at floor %d; the model "
        "has 2^%d, %d, %d, %d",
        rule->name, rule->interval, rule->hysteresis, (int)rule->refill, rule->tolerance,
        rule->delay, rule->floor, rule->ceiling, past->n, log2((double)state->scale),
        (int)state->growths, (int)state->backoffs, record->at_floor, past->exponent,
        past->growths, past->backoffs, past->was_at_floor);
}

static void run(const struct rule *rule, int steps, uint64_t seed, struct past *past)
{
    struct scaler_state state = state_of(rule);
    int32_t *overflows = past->overflows;
    *past = (struct past){.overflows = overflows, .exponent = rule->start};
    overflows[0] = 0;
    for (int i = 0; i < steps; i++) {
        struct step_record record;
        int found = decide(past, seed);
        state.found_inf = (float)found;
        scaler_finish_step(&state, &record);
        model_step(past, rule, found);
        compare(past, &state, &record, rule, found);
    }
}

static int open_past(void **state)
{
    static struct past past;
    past.overflows = malloc((STEPS + 1) * sizeof *past.overflows);
    *state = &past;
    return past.overflows == NULL;
}

static int close_past(void **state)
{
    free(((struct past *)*state)->overflows);
    return 0;
}

/* ---- the rules ------------------------------------------------------------------- */

#define UNLIMITED \
    .start = 16, .growth = 1, .backoff = 1, .floor = -NO_LIMIT, .ceiling = NO_LIMIT
#define LIMITED .start = 16, .growth = 1, .backoff = 1, .floor = -2, .ceiling = 24

static void a_million_decisions_of_each_rule_agree_with_the_model(void **state)
{
    static const struct rule rules[] = {
        {"PyTorch", UNLIMITED, .interval = 5, .hysteresis = 1},
        {"limits", LIMITED, .interval = 5, .hysteresis = 1},
        {"hysteresis refilled by growth", UNLIMITED, .interval = 3, .hysteresis = 3},
        {"hysteresis refilled by steps", UNLIMITED, .interval = 3, .hysteresis = 2,
         .refill = REFILL_ON_STEP},
        {"tolerance", UNLIMITED, .interval = 3, .hysteresis = 1, .tolerance = 0.3},
        {"delay", UNLIMITED, .interval = 5, .hysteresis = 1, .delay = 1},
        {"DeepSpeed", LIMITED, .interval = 5, .hysteresis = 2, .delay = 1},
        {"fairseq", LIMITED, .interval = 3, .hysteresis = 1, .tolerance = 0.5},
        {"static", LIMITED, .interval = 5, .hysteresis = 1, .is_static = 1},
    };
    struct past *past = *state;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        run(&rules[r], STEPS, r, past);
        assert_true(past->overflows[STEPS] > STEPS / 50);
        if (rules[r].is_static)
            assert_true(past->growths == 0 && past->backoffs == 0);
        else
            assert_true(past->growths > 1000 && past->backoffs > 1000);
    }
}

static void a_million_decisions_of_random_rules_agree_with_the_model(void **state)
{
    struct past *past = *state;
    for (uint32_t k = 0; k < 500; k++) {
        struct philox_words a = philox(11, 1, k, 0), b = philox(11, 1, k, 1);
        struct rule rule = {.name = "random",
                            .start = (int)(a.word[0] % 20),
                            .growth = (int)(a.word[1] % 3) + 1,
                            .backoff = (int)(a.word[2] % 3) + 1,
                            .floor = a.word[3] % 2 ? -(int)(a.word[3] % 16) : -NO_LIMIT,
                            .ceiling =
                                b.word[0] % 2 ? 20 + (int)(b.word[0] % 9) : NO_LIMIT,
                            .interval = (int)(b.word[1] % 9) + 1,
                            .hysteresis = (int)(b.word[1] / 9 % 5) + 1,
                            .refill = b.word[2] % 2 ? REFILL_ON_STEP : REFILL_ON_GROWTH,
                            .delay = (int)(b.word[2] / 2 % 3),
                            .tolerance = k % 2 ? (double)b.word[3] / 4294967296.0 : 0.0};
        run(&rule, STEPS / 500, 1000 + k, past);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_decisions_of_each_rule_agree_with_the_model),
        cmocka_unit_test(a_million_decisions_of_random_rules_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, open_past, close_past);
}
