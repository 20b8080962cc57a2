/* step.c - one training step:
 *
 *   for n_dis turns
 *       for every pass that trains D, over a batch:  forward, loss, backward
 *       D's scaler: check, step or skip, update
 *   for every pass that trains G, over the fakes that D has just seen: the same,
 *       through D
 *   G's scaler: the same, and the moving average
 *
 * passes.h has the table of passes. Order as in PyTorch's DCGAN example: real and fakes
 * are separate batches, so batch norm never mixes them.
 *
 * whole_step() is the same list of ops with the same arguments every time, so a GPU
 * records it once and replays it. What changes from step to step - images, decay,
 * injected faults - is written to device memory before it, by train_step().
 *
 * Where an optimizer step is over several batches, their losses are divided by the number
 * of them and their gradients added, all at one scale; the check, the step and the rule
 * come once, after the last. On several devices each takes its share of the batch: losses
 * are divided by the whole batch and gradients summed, so every number means what it
 * means on one device. */
#include "app/train/feed.h"
#include "app/train/inject.h"
#include "app/train/train.h"

/* ---- passes ---------------------------------------------------------------------- */

// `is_first`: the optimizer step's gradients begin with this batch.
static void run_pass(struct trainer *trainer, int pass, int is_first,
                     struct loss_sums *sums)
{
    struct gan_batch batch = trainer_batch(trainer);
    struct pass_loss loss = trainer_pass_loss(trainer, pass);
    gan_forward(&trainer->gan, &batch, pass);
    inject_activation(trainer, ROLE_D);
    gan_loss(&trainer->gan, &loss, sums);
    trainer->device->ops->group.sum_f64(trainer->device, &sums->loss, LOSS_SUMS_DOUBLES);
    probe_backward(trainer, pass,
                   !is_first || !topology_begins(&trainer->topology, pass));
}

static void make_fakes(struct trainer *trainer)
{
    struct gan_batch batch = trainer_batch(trainer);
    gan_make_fakes(&trainer->gan, &batch);
    inject_activation(trainer, ROLE_G);
}

// Those that train `role`, over the batch on the device. Fakes are made where a pass
// reads them first, unless they are there.
static void run_passes(struct trainer *trainer, enum role role, int is_first,
                       int has_fakes, struct loss_sums *sums)
{
    const struct passes *passes = &trainer->gan.passes;
    for (int pass = 0; pass < passes->count; pass++) {
        if (passes->row[pass].trains != role)
            continue;
        if (passes->row[pass].input == INPUT_FAKES && !has_fakes) {
            make_fakes(trainer);
            has_fakes = 1;
        }
        run_pass(trainer, pass, is_first, sums++);
    }
}

/* ---- the end of an optimizer step ------------------------------------------------ */

static void keep_record(struct trainer *trainer, int role, int slot)
{
    trainer->device->ops->memory.copy(
        trainer->device, trainer->results.here.records + slot,
        trainer->scaler[role].record, sizeof(struct step_record));
}

// After an overflow, where that is possible: the step's last batch once more, probed; and
// a third time at a scale of 1.
static void repeat_probed(struct trainer *trainer, enum role role, int slot)
{
    struct probe_kept_scales kept;
    if (!probe_begin_again(trainer, role))
        return;
    run_passes(trainer, role, 1, 1, trainer->probe.unread);
    probe_end_again(trainer, role, slot);
    if (!probe_begin_at_one(trainer, role, &kept))
        return;
    run_passes(trainer, role, 1, 1, trainer->probe.unread);
    probe_end_at_one(trainer, role, slot, &kept);
}

void train_real_again(struct trainer *trainer)
{
    probe_begin_trial(trainer);
    run_pass(trainer, PASS_D_REAL, 1, trainer->probe.unread);
    probe_end_trial(trainer);
}

// Over all ranks, of each block of gradients.
static void sum_gradients(struct trainer *trainer, enum role role)
{
    const struct passes *passes = &trainer->gan.passes;
    size_t elements = trainer->gan.net[role].param_elements;
    for (int pass = 0; pass < passes->count; pass++)
        if (passes->row[pass].trains == role && topology_begins(&trainer->topology, pass))
            trainer->device->ops->group.sum_f32(
                trainer->device, topology_grads(&trainer->topology, pass), elements);
}

// `slot` is the place of this optimizer step among the step's records.
static void finish_step(struct trainer *trainer, enum role role, int slot)
{
    struct topology *topology = &trainer->topology;
    struct results *results = &trainer->results;
    inject_gradient(trainer, role);
    sum_gradients(trainer, role);
    topology_step(topology, role);
    survey_look(&trainer->survey[role], trainer->scaler[role].state,
                results->here.stats + slot * results->stats_count);
    repeat_probed(trainer, role, slot);
    topology_update(topology, role);
    keep_record(trainer, role, slot);
    if (role == ROLE_D && topology->kind == TOPOLOGY_PER_LOSS)
        trainer->device->ops->memory.copy(trainer->device, results->here.fakes + slot,
                                          topology->fake.record,
                                          sizeof *results->here.fakes);
}

/* ---- the step -------------------------------------------------------------------- */

// How many of D's last batches G trains on again: as many as both steps have.
static int common_batches(const struct config *config)
{
    return config->g.accum < config->d.accum ? config->g.accum : config->d.accum;
}

static struct loss_sums *sums_of(struct trainer *trainer, enum role role, int batch)
{
    const struct passes *passes = &trainer->gan.passes;
    struct loss_sums *sums = trainer->results.here.sums;
    if (role == ROLE_G)
        sums += passes_count(passes, ROLE_D) * config_step_batches(&trainer->config);
    return sums + passes_count(passes, role) * batch;
}

static void train_d(struct trainer *trainer, int turn)
{
    const struct config *config = &trainer->config;
    int batches = config->d.accum, is_last_turn = turn + 1 == config->n_dis;
    for (int part = 0; part < batches; part++) {
        int batch = turn * batches + part;
        if (is_last_turn && config->g.accum > 1 &&
            part == batches - common_batches(config))
            feed_remember(&trainer->feed);
        feed_draw(&trainer->feed, batch);
        run_passes(trainer, ROLE_D, part == 0, 0, sums_of(trainer, ROLE_D, batch));
    }
}

/* The fakes that D saw last are still there and come first. The others are made again
 * from their latents; where G takes more batches than D, from latents of draws to
 * come. */
static void train_g(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    for (int part = 0; part < config->g.accum; part++) {
        if (part > 0 && part == common_batches(config))
            feed_pass_over(&trainer->feed); // D's last, which came first
        if (part > 0)
            feed_draw_again(&trainer->feed);
        run_passes(trainer, ROLE_G, part == 0, part == 0, sums_of(trainer, ROLE_G, part));
    }
}

static void whole_step(void *argument)
{
    struct trainer *trainer = argument;
    inject_weights(trainer);
    for (int turn = 0; turn < trainer->config.n_dis; turn++) {
        train_d(trainer, turn);
        finish_step(trainer, ROLE_D, turn);
    }
    train_g(trainer);
    finish_step(trainer, ROLE_G, trainer->results.record_count - 1);
    if (trainer->topology.kind == TOPOLOGY_SHARED)
        keep_record(trainer, ROLE_D, 0); // the one rule for both has written it only now
}

void train_rehearse(struct trainer *trainer, int turns,
                    void (*check)(struct trainer *trainer, int network, void *context),
                    void *context)
{
    for (int turn = 0; turn < turns; turn++) {
        train_d(trainer, turn);
        sum_gradients(trainer, ROLE_D);
        check(trainer, ROLE_D, context);
    }
    train_g(trainer);
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
    trainer->probe.is_on = probe_is_due(trainer, progress->step);
    trainer->device->ops->queue.repeat(
        trainer->device, trainer->probe.is_on ? &trainer->probe.repeat : &trainer->repeat,
        whole_step, trainer);
    if (trainer->probe.is_on)
        probe_keep(trainer);
    results_send(&trainer->results,
                 (struct results_place){progress->step, progress->images});
}
