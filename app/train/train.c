/* train.c - reading what steps did: records and losses. */
#include "app/train/train.h"

int train_pending(const struct trainer *trainer)
{
    return results_pending(&trainer->results);
}

/* The players' records tell how things stand after the whole step: with one scale that
 * moves after each optimizer step, D's is where G's step left it. */
static void take_records(struct trainer *trainer)
{
    struct step_record *d = &trainer->last.record[ROLE_D];
    const struct step_record *g = &trainer->last.record[ROLE_G];
    for (int slot = 0; slot < trainer->results.record_count; slot++)
        trainer->last.record[train_slot_network(trainer, slot)] =
            trainer->last.view.records[slot];
    if (trainer->results.fake_count)
        trainer->last.fake_record =
            trainer->last.view.fakes[trainer->results.fake_count - 1];
    if (trainer->topology.kind != TOPOLOGY_SHARED_PER_STEP)
        return;
    d->scale_after = g->scale_after;
    d->growth_tracker = g->growth_tracker;
    d->hysteresis_used = g->hysteresis_used;
    d->growths = g->growths;
    d->backoffs = g->backoffs;
}

enum status train_collect(struct trainer *trainer)
{
    TRY(results_take(&trainer->results, &trainer->last.view, &trainer->last.place));
    take_records(trainer);
    return STATUS_OK;
}

enum status train_collect_all(struct trainer *trainer)
{
    while (train_pending(trainer) > 0)
        TRY(train_collect(trainer));
    return STATUS_OK;
}

static void add_sums(struct loss_sums *to, const struct loss_sums *sums)
{
    to->loss += sums->loss;
    to->loss_sq += sums->loss_sq;
    to->score += sums->score;
    to->score_sq += sums->score_sq;
    to->sign += sums->sign;
    to->count += sums->count;
    to->nonfinite += sums->nonfinite;
}

struct step_losses train_turn_losses(const struct trainer *trainer, int turn)
{
    const struct config *config = &trainer->config;
    const struct passes *passes = &trainer->gan.passes;
    struct step_losses losses = {0};
    const struct loss_sums *sums[ROLES] = {
        [ROLE_D] = trainer->last.view.sums +
                   passes_count(passes, ROLE_D) * turn * config->d.accum,
        [ROLE_G] = trainer->last.view.sums +
                   passes_count(passes, ROLE_D) * config_step_batches(config)};
    for (int pass = 0; pass < passes->count; pass++) {
        enum role role = passes->row[pass].trains;
        int own = passes_place(passes, pass);
        for (int part = 0; part < config->network[role].accum; part++)
            add_sums(&losses.of[pass],
                     &sums[role][part * passes_count(passes, role) + own]);
    }
    return losses;
}

struct step_losses train_losses(const struct trainer *trainer)
{
    return train_turn_losses(trainer, trainer->config.n_dis - 1);
}

int train_slot_network(const struct trainer *trainer, int slot)
{
    return slot + 1 < trainer->results.record_count ? ROLE_D : ROLE_G;
}
