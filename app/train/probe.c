#include "app/train/probe.h"

#include <stdlib.h>
#include <string.h>

#include "app/train/trainer.h"

/* ---- lists ----------------------------------------------------------------------- */

int probe_most_entries(const struct probe *probe)
{
    int most = 0;
    for (int pass = 0; pass < probe->passes; pass++)
        if (probe->survey[pass].count > most)
            most = probe->survey[pass].count;
    return most;
}

// Of D alone, or of both where D reads fakes; then what the backward passes make.
static enum status list_pass(struct survey *survey, struct gan *gan,
                             const struct gan_batch *batch, int pass, float *grads)
{
    struct gan_walk walk = gan_walk(gan, batch, pass, grads, 0);
    survey_begin(survey, gan->device);
    if (gan->passes.row[pass].input == INPUT_FAKES)
        survey_add_activations(survey, &gan->net[ROLE_G]);
    survey_add_activations(survey, &gan->net[ROLE_D]);
    for (int i = 0; i < walk.count; i++)
        survey_add_backward(survey, &gan->net[walk.role[i]], &walk.of[i]);
    return survey_commit(survey);
}

static void reserve_stats(struct probe *probe, struct survey_stats **stats, int pass)
{
    arena_reserve(&probe->arena, (void **)&stats[pass],
                  (size_t)probe->survey[pass].count * sizeof **stats);
}

/* ---- the reference in f32 -------------------------------------------------------- */

static int has_reference(const struct probe *probe)
{
    return probe->reference.device != NULL;
}

static int wants_reference(const struct trainer *trainer)
{
    return trainer->config.grad_stats > 0 &&
           (trainer_dtype(&trainer->config, ROLE_G) != DTYPE_F32 ||
            trainer_dtype(&trainer->config, ROLE_D) != DTYPE_F32);
}

static struct gan_batch reference_batch(const struct probe *probe)
{
    return (struct gan_batch){.real = &probe->real, .latents = &probe->latents};
}

static float *reference_grads(struct probe *probe, int pass)
{
    return probe->reference.net[probe->reference.passes.row[pass].trains].grads;
}

static enum status create_reference(struct trainer *trainer)
{
    struct probe *probe = &trainer->probe;
    struct gan *gan = &probe->reference;
    struct gan_config config = trainer_gan_config(trainer);
    config.dtype[ROLE_G] = config.dtype[ROLE_D] = DTYPE_F32;
    TRY(gan_create(gan, trainer->device, &config));
    probe->real = gan->net[ROLE_D].input;
    probe->latents = gan->net[ROLE_G].input;
    arena_reserve(&probe->arena, &probe->real.data, tensor_bytes(&probe->real));
    arena_reserve(&probe->arena, &probe->latents.data, tensor_bytes(&probe->latents));
    struct gan_batch batch = reference_batch(probe);
    for (int pass = 0; pass < probe->passes; pass++) {
        TRY(list_pass(&probe->reference_survey[pass], gan, &batch, pass,
                      reference_grads(probe, pass)));
        CHECK(probe->reference_survey[pass].count == probe->survey[pass].count);
        reserve_stats(probe, probe->reference_stats, pass);
    }
    return STATUS_OK;
}

static void take_weights(struct trainer *trainer, int role)
{
    struct net *net = &trainer->probe.reference.net[role];
    CHECK(net->param_elements == trainer->gan.net[role].param_elements);
    trainer->device->ops->memory.copy(trainer->device, net->params,
                                      trainer->gan.net[role].params,
                                      net->param_elements * sizeof(float));
}

// The forward pass that is probed, once more in f32, from the same numbers.
static void run_reference(struct trainer *trainer, int pass)
{
    struct probe *probe = &trainer->probe;
    struct gan_batch batch = reference_batch(probe);
    const struct pointwise_ops *pointwise = &trainer->device->ops->pointwise;
    struct pass_loss loss = trainer_pass_loss(trainer, pass);
    take_weights(trainer, ROLE_D);
    if (trainer->gan.passes.row[pass].input == INPUT_REAL) {
        pointwise->cast(trainer->device, &trainer->feed.real, &probe->real);
    } else {
        take_weights(trainer, ROLE_G);
        pointwise->cast(trainer->device, &trainer->feed.latents, &probe->latents);
        gan_make_fakes(&probe->reference, &batch);
    }
    gan_forward(&probe->reference, &batch, pass);
    gan_loss(&probe->reference, &loss, probe->unread);
    survey_look_at_activations(&probe->reference_survey[pass],
                               probe->reference_stats[pass]);
}

/* ---- setup ----------------------------------------------------------------------- */

static int stats_per_view(const struct probe *probe)
{
    int count = 0;
    for (int pass = 0; pass < probe->passes; pass++)
        count += probe->survey[pass].count;
    return count;
}

static int view_count(const struct probe *probe)
{
    return RESULTS_RING * (1 + probe->record_count);
}

static enum status create_views(struct probe *probe)
{
    size_t views = (size_t)view_count(probe), stats = (size_t)stats_per_view(probe);
    int is_compared = has_reference(probe);
    probe->views = calloc(views, sizeof *probe->views);
    probe->view_stats = calloc(2 * views * stats, sizeof *probe->view_stats);
    probe->trial_stats =
        calloc((size_t)probe_most_entries(probe), sizeof *probe->trial_stats);
    if (!probe->views || !probe->view_stats || !probe->trial_stats)
        return status_fail(STATUS_FAILED,
                           "not enough memory for the statistics of %d tensors",
                           stats_per_view(probe));
    struct survey_stats *next = probe->view_stats;
    for (size_t i = 0; i < views; i++)
        for (int pass = 0; pass < probe->passes; pass++) {
            probe->views[i].stats[pass] = next;
            next += probe->survey[pass].count;
            probe->views[i].reference[pass] = is_compared ? next : NULL;
            next += probe->survey[pass].count;
        }
    return STATUS_OK;
}

enum status probe_create(struct trainer *trainer)
{
    struct probe *probe = &trainer->probe;
    struct gan_batch batch = trainer_batch(trainer);
    probe->device = trainer->device;
    probe->passes = trainer->gan.passes.count;
    probe->record_count = trainer->results.record_count;
    arena_begin(&probe->arena, trainer->device, "statistics of layers");
    arena_reserve(&probe->arena, (void **)&probe->unread,
                  PASSES_MAX * sizeof *probe->unread);
    arena_reserve(&probe->arena, (void **)&probe->d_buffers,
                  trainer->gan.net[ROLE_D].buffer_elements * sizeof(float));
    for (int pass = 0; pass < probe->passes; pass++) {
        TRY(list_pass(&probe->survey[pass], &trainer->gan, &batch, pass,
                      topology_grads(&trainer->topology, pass)));
        reserve_stats(probe, probe->stats, pass);
    }
    if (wants_reference(trainer))
        TRY(create_reference(trainer));
    TRY(arena_commit(&probe->arena));
    return create_views(probe);
}

void probe_release(struct probe *probe)
{
    if (!probe->device)
        return;
    if (probe->repeat)
        probe->device->ops->queue.forget(probe->device, &probe->repeat);
    for (int pass = 0; pass < probe->passes; pass++) {
        survey_release(&probe->survey[pass]);
        survey_release(&probe->reference_survey[pass]);
    }
    gan_release(&probe->reference);
    free(probe->views);
    free(probe->view_stats);
    free(probe->trial_stats);
    arena_release(&probe->arena);
    memset(probe, 0, sizeof *probe);
}

/* ---- probing --------------------------------------------------------------------- */

int probe_is_due(const struct trainer *trainer, int64_t step)
{
    int every = trainer->config.grad_stats;
    return every > 0 && (step == 1 || step % every == 0);
}

void probe_backward(struct trainer *trainer, int pass, int accumulates)
{
    struct probe *probe = &trainer->probe;
    struct gan *gan = &trainer->gan, *reference = &probe->reference;
    struct gan_batch batch = trainer_batch(trainer), own = reference_batch(probe);
    struct gan_walk walk = gan_walk(
        gan, &batch, pass, topology_grads(&trainer->topology, pass), accumulates);
    struct gan_walk again = {0};
    int is_compared = probe->is_on && has_reference(probe);
    if (probe->is_on)
        survey_look_at_activations(&probe->survey[pass], probe->stats[pass]);
    if (is_compared) {
        run_reference(trainer, pass);
        again =
            gan_walk(reference, &own, pass, reference_grads(probe, pass), accumulates);
    }
    for (int i = 0; i < walk.count; i++) {
        struct net *net = &gan->net[walk.role[i]];
        if (i > 0)
            gan_hand_over(gan);
        if (probe->is_on)
            survey_backward(&probe->survey[pass], net, &walk.of[i], probe->stats[pass]);
        else
            net_backward(net, &walk.of[i]);
        if (is_compared)
            survey_backward(&probe->reference_survey[pass],
                            &reference->net[again.role[i]], &again.of[i],
                            probe->reference_stats[pass]);
    }
}

// The statistics of the passes that train `role`, or with ROLE_NONE of all.
static void fetch(struct trainer *trainer, struct probe_view *view, int role,
                  int64_t step)
{
    struct probe *probe = &trainer->probe;
    const struct memory_ops *memory = &probe->device->ops->memory;
    view->step = step;
    memset(view->has, 0, sizeof view->has);
    view->was_tried_at_one = view->overflows_at_one = 0;
    for (int pass = 0; pass < probe->passes; pass++) {
        if (role != ROLE_NONE && (int)trainer->gan.passes.row[pass].trains != role)
            continue;
        size_t bytes = (size_t)probe->survey[pass].count * sizeof *probe->view_stats;
        memory->download(probe->device, view->stats[pass], probe->stats[pass], bytes);
        if (view->reference[pass])
            memory->download(probe->device, view->reference[pass],
                             probe->reference_stats[pass], bytes);
        view->has[pass] = 1;
    }
}

static struct probe_view *view_of(const struct probe *probe, int64_t step, int slot)
{
    int64_t turn = step % RESULTS_RING;
    int64_t index = slot < 0 ? turn : RESULTS_RING + turn * probe->record_count + slot;
    return &probe->views[index];
}

void probe_keep(struct trainer *trainer)
{
    struct probe *probe = &trainer->probe;
    int64_t step = trainer->progress.step;
    fetch(trainer, view_of(probe, step, -1), ROLE_NONE, step);
}

/* ---- taking a step again --------------------------------------------------------- */

static void copy_buffers(struct trainer *trainer, float *to, const float *from)
{
    const struct net *d = &trainer->gan.net[ROLE_D];
    trainer->device->ops->memory.copy(trainer->device, to, from,
                                      d->buffer_elements * sizeof(float));
}

void probe_begin_trial(struct trainer *trainer)
{
    struct probe *probe = &trainer->probe;
    copy_buffers(trainer, probe->d_buffers, trainer->gan.net[ROLE_D].buffers);
    probe->is_on = 1;
}

void probe_end_trial(struct trainer *trainer)
{
    struct probe *probe = &trainer->probe;
    probe->is_on = probe_is_due(trainer, trainer->progress.step);
    copy_buffers(trainer, trainer->gan.net[ROLE_D].buffers, probe->d_buffers);
}

int probe_begin_again(struct trainer *trainer, int network)
{
    struct scaler_state state;
    if (trainer->device->steps_ahead > 0)
        return 0;
    trainer->device->ops->memory.download(trainer->device, &state,
                                          trainer->scaler[network].state, sizeof state);
    if (!scaler_skips(&state))
        return 0;
    probe_begin_trial(trainer);
    return 1;
}

void probe_end_again(struct trainer *trainer, int network, int slot)
{
    struct probe *probe = &trainer->probe;
    int64_t step = trainer->progress.step;
    probe_end_trial(trainer);
    fetch(trainer, view_of(probe, step, slot), network, step);
}

int probe_begin_at_one(struct trainer *trainer, int network,
                       struct probe_kept_scales *kept)
{
    const struct memory_ops *memory = &trainer->device->ops->memory;
    const struct probe *probe = &trainer->probe;
    for (int pass = 0; pass < probe->passes; pass++)
        memory->download(trainer->device, &kept->state[pass],
                         topology_scale(&trainer->topology, pass),
                         sizeof kept->state[pass]);
    const struct scaler_state *first =
        &kept->state[passes_first(&trainer->gan.passes, network)];
    if (!first->enabled || first->skipped_in_a_row == 0)
        return 0;
    probe_begin_trial(trainer);
    for (int pass = 0; pass < probe->passes; pass++) {
        struct scaler_state state = kept->state[pass];
        state.scale = 1.0f;
        if ((int)trainer->gan.passes.row[pass].trains == network)
            memory->upload(trainer->device, topology_scale(&trainer->topology, pass),
                           &state, sizeof state);
    }
    return 1;
}

void probe_end_at_one(struct trainer *trainer, int network, int slot,
                      const struct probe_kept_scales *kept)
{
    struct probe *probe = &trainer->probe;
    const struct memory_ops *memory = &probe->device->ops->memory;
    struct probe_view *view = view_of(probe, trainer->progress.step, slot);
    struct nonfinite_place place;
    probe_end_trial(trainer);
    view->was_tried_at_one = 1;
    for (int pass = 0; pass < probe->passes; pass++) {
        if ((int)trainer->gan.passes.row[pass].trains != network)
            continue;
        memory->upload(probe->device, topology_scale(&trainer->topology, pass),
                       &kept->state[pass], sizeof kept->state[pass]);
        memory->download(probe->device, probe->trial_stats, probe->stats[pass],
                         (size_t)probe->survey[pass].count * sizeof *probe->trial_stats);
        view->overflows_at_one |=
            survey_first_nonfinite(&probe->survey[pass], probe->trial_stats, &place);
    }
}

static const struct probe_view *view_if_new(const struct trainer *trainer, int slot)
{
    const struct probe_view *view =
        view_of(&trainer->probe, trainer->last.place.step, slot);
    return view->step > 0 && view->step == trainer->last.place.step ? view : NULL;
}

const struct probe_view *probe_of_step(const struct trainer *trainer)
{
    return view_if_new(trainer, -1);
}

const struct probe_view *probe_of_skip(const struct trainer *trainer, int slot)
{
    return view_if_new(trainer, slot);
}
