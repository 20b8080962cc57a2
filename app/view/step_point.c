#include "app/view/step_point.h"

#include <math.h>

#include "app/train/train.h"

int step_was_clipped(const struct trainer *trainer, int slot)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    float most = trainer->topology.network[train_slot_network(trainer, slot)].clip_norm;
    return most > 0.0f && !record->was_skipped &&
           clip_factor(record->grad_norm, most) < 1.0f;
}

static void count_one(uint8_t *count, int is_one)
{
    *count = (uint8_t)(*count + (is_one && *count < 255));
}

// What an optimizer step adds to the point of its step.
static void add_to_point(struct history_point *point, const struct trainer *trainer,
                         int slot)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    int network = train_slot_network(trainer, slot), by_fake = 0, by_own = 1;
    if (slot < trainer->results.fake_count) {
        by_fake = step_has_overflowed(&trainer->last.view.fakes[slot]);
        by_own = !by_fake || step_has_overflowed(record);
    }
    count_one(&point->skipped[network], record->was_skipped && by_own);
    count_one(&point->skipped[SCALE_D_FAKE], record->was_skipped && by_fake);
    count_one(&point->held[network], record->was_held);
    count_one(&point->clipped[network], step_was_clipped(trainer, slot));
    if (!record->was_skipped)
        point->grad_norm[network] = fmaxf(point->grad_norm[network], record->grad_norm);
}

struct history_point step_point(const struct trainer *trainer)
{
    struct step_losses losses = train_losses(trainer);
    struct history_point point = {.step = trainer->last.place.step,
                                  .kimg = (double)trainer->last.place.images / 1000.0};
    point.loss[ROLE_G] =
        (float)(losses.of[PASS_G_MAIN].loss / losses.of[PASS_G_MAIN].count);
    point.loss[ROLE_D] =
        (float)(losses.of[PASS_D_REAL].loss / losses.of[PASS_D_REAL].count +
                losses.of[PASS_D_FAKE].loss / losses.of[PASS_D_FAKE].count);
    for (int network = 0; network < ROLES; network++)
        if (trainer->scaler[network].config.enabled)
            point.scale[network] = trainer->last.record[network].scale_after;
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS)
        point.scale[SCALE_D_FAKE] = trainer->last.fake_record.scale_after;
    for (int slot = 0; slot < trainer->results.record_count; slot++)
        add_to_point(&point, trainer, slot);
    return point;
}
