/* train.c - the line, one page:
 *
 *   batch -> D(real) -> loss seed -> backward \
 *   latents -> G -> D(fake) -> loss seed -> backward -> D's scaler: check, step or skip, update
 *   the same fake -> D -> loss seed -> through D into G -> G's scaler: the same -> average
 *
 * Order as in PyTorch's DCGAN example: real and fakes are separate batches, so batch norm
 * never mixes them; G learns on the fakes that D has just seen. D's weight gradients are not
 * computed in G's step: they would carry G's scale. */
#include "app/train.h"

#include <string.h>

#include "app/inject.h"

static struct loss_sums *sums_of(struct trainer *trainer, int index)
{
    return trainer->sums + index;
}

// Runs D on `input` and leaves dL/dlogit, times the scale, where its backward pass starts.
static void judge(struct trainer *trainer, const struct tensor *input, float target,
                  const struct scaler_state *scale, struct loss_sums *sums)
{
    struct net *d = &trainer->player[NETWORK_D].net;
    d->input.data = input->data;
    net_forward(d, NET_TRAIN);
    trainer->device->ops->loss.bce_logits(trainer->device, net_output(d), target, 1.0f,
                                          scale, net_output_grad(d), sums);
}

// `slot` is the place of this optimizer step among the step's records.
static void finish_step(struct trainer *trainer, int network, int slot)
{
    struct player *player = &trainer->player[network];
    inject_fault(trainer, network);
    CHECK(grad_scaler_step(&player->scaler, &player->adam) == CALL_OK);
    CHECK(grad_scaler_update(&player->scaler) == CALL_OK);
    trainer->device->ops->memory.copy(trainer->device, trainer->records + slot,
                                      player->scaler.record, sizeof *trainer->records);
}

static void draw_inputs(struct trainer *trainer)
{
    const struct ops *ops = trainer->device->ops;
    uint64_t seed = (uint64_t)trainer->config.seed;
    ops->memory.upload(trainer->device, trainer->pixels.data,
                       batch_next(trainer->batches), tensor_bytes(&trainer->pixels));
    ops->image.from_u8(trainer->device, &trainer->pixels, trainer->config.mirror, seed,
                       trainer->draw, 0, &trainer->real);
    ops->image.normal(trainer->device, seed, STREAM_LATENT, trainer->draw, 0,
                      &trainer->latents);
    ops->image.advance(trainer->device, trainer->draw);
}

static void discriminator_step(struct trainer *trainer, int turn)
{
    struct player *g = &trainer->player[NETWORK_G], *d = &trainer->player[NETWORK_D];
    float real_target = 1.0f - (float)trainer->config.label_smoothing;
    draw_inputs(trainer);
    const struct scaler_state *scale = grad_scaler_scale(&d->scaler);
    judge(trainer, &trainer->real, real_target, scale, sums_of(trainer, 2 * turn));
    net_backward(&d->net, NET_WGRAD);
    net_forward(&g->net, NET_TRAIN);
    judge(trainer, net_output(&g->net), 0.0f, scale, sums_of(trainer, 2 * turn + 1));
    net_backward(&d->net, NET_WGRAD | NET_ACCUMULATE);
    finish_step(trainer, NETWORK_D, turn);
}

static void generator_step(struct trainer *trainer)
{
    struct player *g = &trainer->player[NETWORK_G], *d = &trainer->player[NETWORK_D];
    const struct scaler_state *scale = grad_scaler_scale(&g->scaler);
    judge(trainer, net_output(&g->net), 1.0f, scale,
          sums_of(trainer, trainer->sums_count - 1));
    net_backward(&d->net, NET_DGRAD); // ends in G's output gradient
    net_backward(&g->net, NET_WGRAD);
    finish_step(trainer, NETWORK_G, trainer->record_count - 1);
}

static enum status check_skips(const struct trainer *trainer, int network)
{
    const struct step_record *record = &trainer->player[network].record;
    const char *name = network == NETWORK_G ? "G" : "D";
    if (record->skipped_in_a_row < trainer->config.max_skips)
        return STATUS_OK;
    struct step_losses losses = train_losses(trainer);
    if (!losses.real.is_finite || !losses.fake.is_finite || !losses.g.is_finite)
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

static enum status collect(struct trainer *trainer)
{
    TRY(device_fault(trainer->device));
    trainer->device->ops->memory.download(
        trainer->device, trainer->sums_host, trainer->sums,
        (size_t)trainer->sums_count * sizeof *trainer->sums_host);
    trainer->device->ops->memory.download(
        trainer->device, trainer->records_host, trainer->records,
        (size_t)trainer->record_count * sizeof *trainer->records_host);
    for (int slot = 0; slot < trainer->record_count; slot++)
        trainer->player[train_slot_network(trainer, slot)].record =
            trainer->records_host[slot];
    for (int network = 0; network < NETWORK_COUNT; network++)
        TRY(check_skips(trainer, network));
    return STATUS_OK;
}

enum status train_step(struct trainer *trainer)
{
    struct progress *progress = &trainer->progress;
    for (int turn = 0; turn < trainer->config.n_dis; turn++)
        discriminator_step(trainer, turn);
    generator_step(trainer);
    int64_t images = (int64_t)trainer->config.batch * trainer->config.n_dis;
    progress->step += 1;
    progress->images += images;
    ema_update(&trainer->ema, images, progress->images);
    return collect(trainer);
}

struct step_losses train_losses(const struct trainer *trainer)
{
    const struct loss_sums *last = trainer->sums_host + trainer->sums_count - 1;
    return (struct step_losses){.real = last[-2], .fake = last[-1], .g = last[0]};
}

int train_slot_network(const struct trainer *trainer, int slot)
{
    return slot + 1 < trainer->record_count ? NETWORK_D : NETWORK_G;
}
