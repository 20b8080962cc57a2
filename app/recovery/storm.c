#include "app/recovery/storm.h"

#include <stdio.h>

#include "app/train/train.h"
#include "scaler/watch.h"

// In any of the network's optimizer steps, at any of its scales.
static int is_at_floor(const struct trainer *trainer, int network)
{
    const struct results_view *last = &trainer->last.view;
    for (int slot = 0; slot < trainer->results.record_count; slot++) {
        if (train_slot_network(trainer, slot) != network ||
            !last->records[slot].was_skipped)
            continue;
        if (last->records[slot].at_floor ||
            (slot < trainer->results.fake_count && last->fakes[slot].at_floor))
            return 1;
    }
    return 0;
}

// Of the network's optimizer steps in the step: its last one that was skipped.
static void diagnose_last_skip(const struct trainer *trainer, struct storm *storm)
{
    for (int slot = trainer->results.record_count - 1; slot >= 0; slot--)
        if (train_slot_network(trainer, slot) == storm->network &&
            trainer->last.view.records[slot].was_skipped) {
            diagnose(trainer, slot, &storm->skip);
            return;
        }
}

// ", the last in g.conv3 (activation)": where it is born, before anything is advised.
static const char *place_text(const struct storm *storm, char *text, size_t bytes)
{
    const struct diagnosis *skip = &storm->skip;
    text[0] = '\0';
    if (skip->facts.has_place)
        snprintf(text, bytes, ", the last in %s (%s)", skip->place.layer,
                 skip->place.tensor);
    return text;
}

static void log_reason(const struct trainer *trainer, struct storm *storm)
{
    const char *name = storm->network == ROLE_G ? "G" : "D";
    char letter = storm->network == ROLE_G ? 'g' : 'd';
    char *what = storm->what, keep[OVERFLOW_KEEP], advice[512], place[WATCH_PLACE + 16];
    const char *where = place_text(storm, place, sizeof place);
    enum overflow_cause cause = storm->skip.cause;
    overflow_keep_f32(&storm->skip.facts, keep);
    if (storm->is_at_floor)
        snprintf(what, sizeof storm->what, "%s overflowed at its smallest loss scale, %g",
                 name, (double)storm->scale);
    else
        snprintf(what, sizeof storm->what, "%s skipped %lld step%s in a row", name,
                 (long long)storm->skips, PLURAL(storm->skips));
    if (cause == CAUSE_WEIGHT || cause == CAUSE_FORWARD || cause == CAUSE_INVALID)
        snprintf(
            storm->reason, sizeof storm->reason, "%s%s: %s (--max-skips %d)", what, where,
            overflow_advice(cause, &storm->skip.facts, name, "", advice, sizeof advice),
            trainer->config.max_skips);
    else if (storm->is_at_floor)
        snprintf(storm->reason, sizeof storm->reason,
                 "%s%s: lower --%c-lr or --%c-min-scale, %sor use --precision fp32", what,
                 where, letter, letter, keep);
    else
        snprintf(storm->reason, sizeof storm->reason,
                 "%s%s: its gradients stay inf or NaN down to a loss scale of %g; lower "
                 "--%c-lr, %sor use --precision fp32 (--max-skips %d)",
                 what, where, (double)storm->scale, letter, keep,
                 trainer->config.max_skips);
}

int storm_find_in(const struct trainer *trainer, int network, struct storm *storm)
{
    const struct step_record *record = &trainer->last.record[network];
    int at_floor = is_at_floor(trainer, network);
    if (!at_floor && record->skipped_in_a_row < trainer->config.max_skips)
        return 0;
    *storm = (struct storm){.network = network,
                            .is_at_floor = at_floor,
                            .skips = record->skipped_in_a_row,
                            .scale = record->scale_after};
    diagnose_last_skip(trainer, storm);
    log_reason(trainer, storm);
    return 1;
}

int storm_find(const struct trainer *trainer, struct storm *storm)
{
    struct storm of_g;
    int is_in_g = storm_find_in(trainer, ROLE_G, &of_g);
    if (!storm_find_in(trainer, ROLE_D, storm)) {
        if (is_in_g)
            *storm = of_g;
        return is_in_g;
    }
    storm->is_in_both = is_in_g;
    return 1;
}

enum status storm_check(const struct trainer *trainer)
{
    struct storm storm;
    if (trainer->config.on_overflow_storm == STORM_WARN || !storm_find(trainer, &storm))
        return STATUS_OK;
    return status_fail(STATUS_DIVERGED, "%s", storm.reason);
}

enum status storm_collect(struct trainer *trainer, int left)
{
    while (train_pending(trainer) > left) {
        TRY(train_collect(trainer));
        TRY(storm_check(trainer));
    }
    return STATUS_OK;
}
