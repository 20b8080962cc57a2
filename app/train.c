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
 * Where an optimizer step is over several batches, their losses are divided by the number of
 * them and their gradients added, all at one scale; the check, the step and the rule come
 * once, after the last.
 *
 * On several devices each takes its share of the batch. The losses are divided by the whole
 * batch and the gradients summed, so every number means what it means on one device. */
#include "app/train.h"

#include <string.h>

#include "app/feed.h"
#include "app/inject.h"
#include "app/storm.h"
#include "nets/precision.h"

// Runs D on `input` and leaves dL/dlogit, times the scale, where its backward pass starts.
// `batches` make the optimizer step that this is for. Returns what D has read.
static const struct tensor *judge(struct trainer *trainer, const struct tensor *input,
                                  float target, enum gan_pass loss, int batches,
                                  struct loss_sums *sums)
{
    const struct ops *ops = trainer->device->ops;
    struct net *d = &trainer->player[ROLE_D].net;
    if (!precision_agrees(input, &d->input)) {
        ops->pointwise.cast(trainer->device, input, &trainer->fakes);
        input = &trainer->fakes;
    }
    net_forward(d, input, NET_TRAIN);
    inject_activation(trainer, ROLE_D);
    ops->loss.bce_logits(trainer->device, net_output(d), target,
                         1.0f / (float)(trainer->device->world * batches),
                         topology_scale(&trainer->topology, loss), &d->output_grad, sums);
    ops->group.sum_f64(trainer->device, &sums->loss, LOSS_SUMS_DOUBLES);
    return input;
}

// D's weight gradients of the loss that was just judged, added to those that are there.
static void learn(struct trainer *trainer, const struct tensor *x, enum gan_pass loss,
                  int is_first)
{
    struct net *d = &trainer->player[ROLE_D].net;
    struct backward backward = {.x = x,
                                .dy = &d->output_grad,
                                .grads = topology_grads(&trainer->topology, loss),
                                .accumulates = !is_first};
    look_backward(trainer, loss == PASS_D_REAL ? PASS_D_REAL : PASS_D_FAKE, d, &backward);
}

static void keep_record(struct trainer *trainer, int network, int slot)
{
    trainer->device->ops->memory.copy(
        trainer->device, trainer->results.here.records + slot,
        trainer->player[network].scaler.record, sizeof(struct step_record));
}

/* The passes of an optimizer step, each on the batch that is on the device. `is_first`: the
 * step's gradients begin with this batch. */
static void learn_from_real(struct trainer *trainer, int is_first, struct loss_sums *sums)
{
    const struct tensor *x =
        judge(trainer, &trainer->feed.real, 1.0f - (float)trainer->config.label_smoothing,
              PASS_D_REAL, trainer->config.d.accum, sums);
    learn(trainer, x, PASS_D_REAL, is_first);
}

static void learn_from_fakes(struct trainer *trainer, int is_first,
                             struct loss_sums *sums)
{
    int begins = is_first && topology_has_own_grads(&trainer->topology, PASS_D_FAKE);
    const struct tensor *x = judge(trainer, net_output(&trainer->player[ROLE_G].net),
                                   0.0f, PASS_D_FAKE, trainer->config.d.accum, sums);
    learn(trainer, x, PASS_D_FAKE, begins);
}

static void learn_to_deceive(struct trainer *trainer, int is_first,
                             struct loss_sums *sums)
{
    struct net *g = &trainer->player[ROLE_G].net, *d = &trainer->player[ROLE_D].net;
    const struct tensor *x =
        judge(trainer, net_output(g), 1.0f, PASS_G_MAIN, trainer->config.g.accum, sums);
    struct backward through_d = {.x = x, .dy = &d->output_grad, .dx = &d->input_grad};
    struct backward into_g = {.x = &trainer->feed.latents,
                              .dy = trainer_fakes_grad(trainer),
                              .grads = g->grads,
                              .accumulates = !is_first};
    look_backward(trainer, PASS_G_MAIN, d, &through_d);
    if (into_g.dy != through_d.dx)
        trainer->device->ops->pointwise.cast(trainer->device, through_d.dx,
                                             &g->output_grad);
    look_backward(trainer, PASS_G_MAIN, g, &into_g);
}

static void take_last_batch(struct trainer *trainer, int network)
{
    struct loss_sums *sums = trainer->look.unread;
    if (network == ROLE_D) {
        learn_from_real(trainer, 1, sums);
        learn_from_fakes(trainer, 1, sums);
    } else {
        learn_to_deceive(trainer, 1, sums);
    }
}

// After an overflow, where that is possible: the step's last batch, every tensor looked at.
static void take_again(struct trainer *trainer, int network, int slot)
{
    struct look_kept_scales kept;
    if (!look_begin_again(trainer, network))
        return;
    take_last_batch(trainer, network);
    look_end_again(trainer, network, slot);
    if (!look_begin_at_one(trainer, network, &kept))
        return;
    take_last_batch(trainer, network);
    look_end_at_one(trainer, network, slot, &kept);
}

void train_real_again(struct trainer *trainer)
{
    look_begin_trial(trainer);
    learn_from_real(trainer, 1, trainer->look.unread);
    look_end_trial(trainer);
}

// Over all ranks, of each loss that has a block of its own.
static void sum_gradients(struct trainer *trainer, int network)
{
    const struct net *net = &trainer->player[network].net;
    const struct topology *topology = &trainer->topology;
    const struct group_ops *group = &trainer->device->ops->group;
    group->sum_f32(trainer->device, net->grads, net->param_elements);
    if (network == ROLE_D && topology_has_own_grads(topology, PASS_D_FAKE))
        group->sum_f32(trainer->device, topology->fake_grads, net->param_elements);
}

// `slot` is the place of this optimizer step among the step's records.
static void finish_step(struct trainer *trainer, int network, int slot)
{
    struct player *player = &trainer->player[network];
    struct topology *topology = &trainer->topology;
    const struct ops *ops = trainer->device->ops;
    struct results *results = &trainer->results;
    int has_fakes = network == ROLE_D && topology_has_own_grads(topology, PASS_D_FAKE);
    inject_gradient(trainer, network);
    sum_gradients(trainer, network);
    topology_step(topology, (enum role)network);
    survey_look(&trainer->survey[network], player->scaler.state,
                results->here.stats + slot * results->stats_count);
    take_again(trainer, network, slot);
    topology_update(topology, (enum role)network);
    keep_record(trainer, network, slot);
    if (has_fakes)
        ops->memory.copy(trainer->device, results->here.fakes + slot,
                         topology->fake.record, sizeof *results->here.fakes);
}

// One batch of a step of D.
static void discriminator_batch(struct trainer *trainer, int batch, int is_first)
{
    struct net *g = &trainer->player[ROLE_G].net;
    struct loss_sums *sums = trainer->results.here.sums + 2 * batch;
    feed_draw(&trainer->feed, batch);
    learn_from_real(trainer, is_first, &sums[0]);
    net_forward(g, &trainer->feed.latents, NET_TRAIN);
    inject_activation(trainer, ROLE_G);
    learn_from_fakes(trainer, is_first, &sums[1]);
}

// How many of D's last batches G trains on again: as many as both steps have.
static int common_batches(const struct config *config)
{
    return config->g.accum < config->d.accum ? config->g.accum : config->d.accum;
}

static void discriminator_passes(struct trainer *trainer, int turn)
{
    const struct config *config = &trainer->config;
    int batches = config->d.accum, is_last_turn = turn + 1 == config->n_dis;
    for (int part = 0; part < batches; part++) {
        if (is_last_turn && config->g.accum > 1 &&
            part == batches - common_batches(config))
            feed_remember(&trainer->feed);
        discriminator_batch(trainer, turn * batches + part, part == 0);
    }
}

static void generator_batch(struct trainer *trainer, int part)
{
    const struct config *config = &trainer->config;
    learn_to_deceive(trainer, part == 0,
                     trainer->results.here.sums + 2 * config_step_batches(config) + part);
}

/* The fakes that D saw last are still there and come first. The others are made again from
 * their latents; where G takes more batches than D, from latents of draws to come. */
static void generator_passes(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    generator_batch(trainer, 0);
    for (int part = 1; part < config->g.accum; part++) {
        if (part == common_batches(config))
            feed_pass_over(&trainer->feed); // D's last, which came first
        feed_draw_again(&trainer->feed);
        net_forward(&trainer->player[ROLE_G].net, &trainer->feed.latents, NET_TRAIN);
        inject_activation(trainer, ROLE_G);
        generator_batch(trainer, part);
    }
}

static void whole_step(void *argument)
{
    struct trainer *trainer = argument;
    inject_weights(trainer);
    for (int turn = 0; turn < trainer->config.n_dis; turn++) {
        discriminator_passes(trainer, turn);
        finish_step(trainer, ROLE_D, turn);
    }
    generator_passes(trainer);
    finish_step(trainer, ROLE_G, trainer->results.record_count - 1);
    if (trainer->topology.kind == TOPOLOGY_SHARED)
        keep_record(trainer, ROLE_D,
                    0); // the one rule for both has written it only now
}

void train_rehearse(struct trainer *trainer, int turns,
                    void (*check)(struct trainer *trainer, int network, void *context),
                    void *context)
{
    for (int turn = 0; turn < turns; turn++) {
        discriminator_passes(trainer, turn);
        sum_gradients(trainer, ROLE_D);
        check(trainer, ROLE_D, context);
    }
    generator_passes(trainer);
    sum_gradients(trainer, ROLE_G);
    check(trainer, ROLE_G, context);
}

void train_step(struct trainer *trainer)
{
    struct progress *progress = &trainer->progress;
    int64_t images = config_step_images(&trainer->config);
    progress->step += 1;
    progress->images += images;
    feed_next(&trainer->feed);
    inject_prepare(trainer);
    ema_prepare_step(&trainer->ema, images, progress->images);
    trainer->look.is_on = look_is_due(trainer, progress->step);
    trainer->device->ops->queue.repeat(
        trainer->device, trainer->look.is_on ? &trainer->look.repeat : &trainer->repeat,
        whole_step, trainer);
    if (trainer->look.is_on)
        look_keep(trainer);
    results_send(&trainer->results,
                 (struct results_place){progress->step, progress->images});
}

/* ---- reading what it did --------------------------------------------------------- */

int train_pending(const struct trainer *trainer)
{
    return results_pending(&trainer->results);
}

/* The players' records tell how things stand after the whole step: with one scale that
 * moves after each optimizer step, D's is where G's step left it. */
static void take_records(struct trainer *trainer)
{
    struct step_record *d = &trainer->player[ROLE_D].record;
    const struct step_record *g = &trainer->player[ROLE_G].record;
    for (int slot = 0; slot < trainer->results.record_count; slot++)
        trainer->player[train_slot_network(trainer, slot)].record =
            trainer->last.records[slot];
    if (trainer->results.fake_count)
        trainer->fake_record = trainer->last.fakes[trainer->results.fake_count - 1];
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
    TRY(results_take(&trainer->results, &trainer->last, &trainer->last_place));
    take_records(trainer);
    struct storm storm;
    if (trainer->config.on_overflow_storm == STORM_WARN || !storm_find(trainer, &storm))
        return STATUS_OK;
    return status_fail(STATUS_DIVERGED, "%s", storm.reason);
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
    const struct loss_sums *g = trainer->last.sums + 2 * config_step_batches(config);
    const struct loss_sums *d = trainer->last.sums + 2 * turn * config->d.accum;
    struct step_losses losses = {0};
    for (int part = 0; part < config->d.accum; part++) {
        add_sums(&losses.real, &d[2 * part]);
        add_sums(&losses.fake, &d[2 * part + 1]);
    }
    for (int part = 0; part < config->g.accum; part++)
        add_sums(&losses.g, &g[part]);
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
