/* train.c - the line, one page:
 *
 *   batch -> D(real) -> loss seed -> backward \
 *   latents -> G -> D(fake) -> loss seed -> backward -> D's scaler: check, step or skip, update
 *   the same fake -> D -> loss seed -> through D into G -> G's scaler: the same, and average
 *
 * Order as in PyTorch's DCGAN example: real and fakes are separate batches, so batch norm
 * never mixes them; G learns on the fakes that D has just seen. D's weight gradients are not
 * computed in G's step: they would carry G's scale.
 *
 * whole_step() is the same list of ops with the same arguments every time, so a GPU records
 * it once and replays it. What changes from step to step - images, decay, planted faults -
 * is written to device memory before it, by train_step().
 *
 * On several devices each takes its share of the batch. The losses are divided by the whole
 * batch and the gradients summed, so every number means what it means on one device. */
#include "app/train.h"

#include <string.h>

#include "app/feed.h"
#include "app/inject.h"

// Runs D on `input` and leaves dL/dlogit, times the scale, where its backward pass starts.
static void judge(struct trainer *trainer, const struct tensor *input, float target,
                  const struct scaler_state *scale, struct loss_sums *sums)
{
    const struct ops *ops = trainer->device->ops;
    struct net *d = &trainer->player[NETWORK_D].net;
    d->input.data = input->data;
    net_forward(d, NET_TRAIN);
    ops->loss.bce_logits(trainer->device, net_output(d), target,
                         1.0f / (float)trainer->device->world, scale, net_output_grad(d),
                         sums);
    ops->group.sum_f64(trainer->device, &sums->loss, LOSS_SUMS_DOUBLES);
}

// `slot` is the place of this optimizer step among the step's records.
static void finish_step(struct trainer *trainer, int network, int slot)
{
    struct player *player = &trainer->player[network];
    const struct ops *ops = trainer->device->ops;
    struct results *results = &trainer->results;
    inject_fault(trainer, network);
    ops->group.sum_f32(trainer->device, player->net.grads, player->net.param_elements);
    CHECK(grad_scaler_step(&player->scaler, &player->adam) == CALL_OK);
    survey_look(&trainer->survey[network], player->scaler.state,
                results->here.stats + slot * results->stats_count);
    CHECK(grad_scaler_update(&player->scaler) == CALL_OK);
    ops->memory.copy(trainer->device, results->here.records + slot, player->scaler.record,
                     sizeof *results->here.records);
}

static void discriminator_step(struct trainer *trainer, int turn)
{
    struct player *g = &trainer->player[NETWORK_G], *d = &trainer->player[NETWORK_D];
    struct loss_sums *sums = trainer->results.here.sums + 2 * turn;
    float real_target = 1.0f - (float)trainer->config.label_smoothing;
    feed_draw(&trainer->feed, turn);
    const struct scaler_state *scale = grad_scaler_scale(&d->scaler);
    judge(trainer, &trainer->feed.real, real_target, scale, &sums[0]);
    net_backward(&d->net, NET_WGRAD);
    net_forward(&g->net, NET_TRAIN);
    judge(trainer, net_output(&g->net), 0.0f, scale, &sums[1]);
    net_backward(&d->net, NET_WGRAD | NET_ACCUMULATE);
    finish_step(trainer, NETWORK_D, turn);
}

static void generator_step(struct trainer *trainer)
{
    struct player *g = &trainer->player[NETWORK_G], *d = &trainer->player[NETWORK_D];
    struct results *results = &trainer->results;
    const struct scaler_state *scale = grad_scaler_scale(&g->scaler);
    judge(trainer, net_output(&g->net), 1.0f, scale,
          results->here.sums + results->sums_count - 1);
    net_backward(&d->net, NET_DGRAD); // ends in G's output gradient
    net_backward(&g->net, NET_WGRAD);
    finish_step(trainer, NETWORK_G, results->record_count - 1);
}

static void whole_step(void *argument)
{
    struct trainer *trainer = argument;
    for (int turn = 0; turn < trainer->config.n_dis; turn++)
        discriminator_step(trainer, turn);
    generator_step(trainer);
}

void train_step(struct trainer *trainer)
{
    struct progress *progress = &trainer->progress;
    int64_t images = (int64_t)trainer->config.batch * trainer->config.n_dis;
    progress->step += 1;
    progress->images += images;
    feed_next(&trainer->feed);
    inject_prepare(trainer);
    ema_prepare_step(&trainer->ema, images, progress->images);
    trainer->device->ops->queue.repeat(trainer->device, &trainer->repeat, whole_step,
                                       trainer);
    results_send(&trainer->results,
                 (struct results_place){progress->step, progress->images});
}

/* ---- reading what it did --------------------------------------------------------- */

int train_pending(const struct trainer *trainer)
{
    return results_pending(&trainer->results);
}

static enum status check_skips(const struct trainer *trainer, int network)
{
    const struct step_record *record = &trainer->player[network].record;
    const char *name = network == NETWORK_G ? "G" : "D";
    if (record->skipped_in_a_row < trainer->config.max_skips)
        return STATUS_OK;
    struct step_losses losses = train_losses(trainer);
    if (losses.real.nonfinite + losses.fake.nonfinite + losses.g.nonfinite > 0.0)
        return status_fail(
            STATUS_DIVERGED,
            "%s skipped %lld steps in a row: D's logits themselves are inf or "
            "NaN, which no loss scale can mend; lower --g-lr and --d-lr, or "
            "use --precision fp32 (--max-skips %d)",
            name, (long long)record->skipped_in_a_row, trainer->config.max_skips);
    return status_fail(
        STATUS_DIVERGED,
        "%s skipped %lld steps in a row: its gradients stay inf or NaN down to "
        "a loss scale of %g; lower its learning rate, or use --precision fp32 "
        "(--max-skips %d)",
        name, (long long)record->skipped_in_a_row, record->scale_after,
        trainer->config.max_skips);
}

enum status train_collect(struct trainer *trainer)
{
    TRY(results_take(&trainer->results, &trainer->last, &trainer->last_place));
    for (int slot = 0; slot < trainer->results.record_count; slot++)
        trainer->player[train_slot_network(trainer, slot)].record =
            trainer->last.records[slot];
    for (int network = 0; network < NETWORK_COUNT; network++)
        TRY(check_skips(trainer, network));
    return STATUS_OK;
}

enum status train_collect_all(struct trainer *trainer)
{
    while (train_pending(trainer) > 0)
        TRY(train_collect(trainer));
    return STATUS_OK;
}

struct step_losses train_losses(const struct trainer *trainer)
{
    const struct loss_sums *last = trainer->last.sums + trainer->results.sums_count - 1;
    return (struct step_losses){.real = last[-2], .fake = last[-1], .g = last[0]};
}

int train_slot_network(const struct trainer *trainer, int slot)
{
    return slot + 1 < trainer->results.record_count ? NETWORK_D : NETWORK_G;
}

int train_first_nonfinite(const struct trainer *trainer, int slot,
                          struct nonfinite_place *place)
{
    return survey_first_nonfinite(
        &trainer->survey[train_slot_network(trainer, slot)],
        trainer->last.stats + slot * trainer->results.stats_count, place);
}
