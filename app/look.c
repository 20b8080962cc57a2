#include "app/look.h"

#include <stdlib.h>
#include <string.h>

#include "app/trainer.h"
#include "nets/dcgan.h"

/* ---- lists ----------------------------------------------------------------------- */

int look_most_entries(const struct look *look)
{
    int most = 0;
    for (int pass = 0; pass < GAN_PASSES; pass++)
        if (look->survey[pass].count > most)
            most = look->survey[pass].count;
    return most;
}

// Of D alone, or of both where fakes are judged.
static enum status list_pass(struct survey *survey, struct device *device, struct net *g,
                             struct net *d, enum gan_pass pass, float *d_grads,
                             const struct tensor *g_dy)
{
    struct backward of_d = {.dy = &d->output_grad,
                            .grads = pass == PASS_G_MAIN ? NULL : d_grads};
    struct backward of_g = {.dy = g_dy, .grads = g->grads};
    survey_begin(survey, device);
    if (pass != PASS_D_REAL)
        survey_add_activations(survey, g);
    survey_add_activations(survey, d);
    survey_add_backward(survey, d, &of_d);
    if (pass == PASS_G_MAIN)
        survey_add_backward(survey, g, &of_g);
    return survey_commit(survey);
}

static void reserve_stats(struct look *look, struct survey_stats **stats, int pass)
{
    arena_reserve(&look->arena, (void **)&stats[pass],
                  (size_t)look->survey[pass].count * sizeof **stats);
}

/* ---- the f32 twin ---------------------------------------------------------------- */

static int look_has_twin(const struct look *look)
{
    return look->twin[ROLE_D].node_count > 0;
}

static int wants_twin(const struct trainer *trainer)
{
    return trainer->config.grad_stats > 0 &&
           (trainer_dtype(&trainer->config, ROLE_G) != DTYPE_F32 ||
            trainer_dtype(&trainer->config, ROLE_D) != DTYPE_F32);
}

static enum status create_twin(struct trainer *trainer)
{
    struct look *look = &trainer->look;
    struct net *g = &look->twin[ROLE_G], *d = &look->twin[ROLE_D];
    struct dcgan_config sizes =
        trainer_dcgan_config(&trainer->config, trainer->config.channels);
    TRY(dcgan_generator(g, trainer->device, &sizes, DTYPE_F32, trainer_rows(trainer)));
    TRY(dcgan_discriminator(d, trainer->device, &sizes, DTYPE_F32,
                            trainer_rows(trainer)));
    for (int network = 0; network < ROLES; network++) {
        struct net *twin = &look->twin[network];
        TRY(net_plan(twin, trainer_net_options(&trainer->config, network)));
        CHECK(twin->param_elements == trainer->player[network].net.param_elements);
        twin->has_synced_norm = trainer->player[network].net.has_synced_norm;
    }
    for (int pass = 0; pass < GAN_PASSES; pass++) {
        TRY(list_pass(&look->twin_survey[pass], trainer->device, g, d,
                      (enum gan_pass)pass, d->grads, &d->input_grad));
        CHECK(look->twin_survey[pass].count == look->survey[pass].count);
        reserve_stats(look, look->twin_stats, pass);
    }
    look->twin_real = d->input;
    look->twin_latents = g->input;
    arena_reserve(&look->arena, &look->twin_real.data, tensor_bytes(&look->twin_real));
    arena_reserve(&look->arena, &look->twin_latents.data,
                  tensor_bytes(&look->twin_latents));
    return STATUS_OK;
}

static void take_weights(struct trainer *trainer, int network)
{
    struct net *twin = &trainer->look.twin[network];
    trainer->device->ops->memory.copy(trainer->device, twin->params,
                                      trainer->player[network].net.params,
                                      twin->param_elements * sizeof(float));
}

// What the twin of D reads in `pass`.
static const struct tensor *twin_input(const struct look *look, enum gan_pass pass)
{
    const struct net *g = &look->twin[ROLE_G];
    return pass == PASS_D_REAL ? &look->twin_real : &g->node[g->node_count - 1].y;
}

// The forward pass that is looked at, once more in f32, from the same numbers.
static void run_twin(struct trainer *trainer, enum gan_pass pass)
{
    static const enum gan_pass losses[] = {PASS_D_REAL, PASS_D_FAKE, PASS_G_MAIN};
    struct look *look = &trainer->look;
    const struct ops *ops = trainer->device->ops;
    struct net *g = &look->twin[ROLE_G], *d = &look->twin[ROLE_D];
    const struct config *config = &trainer->config;
    float target = pass == PASS_G_MAIN ? 1.0f : 0.0f;
    int batches = pass == PASS_G_MAIN ? config->g.accum : config->d.accum;
    take_weights(trainer, ROLE_D);
    if (pass == PASS_D_REAL) {
        target = 1.0f - (float)config->label_smoothing;
        ops->pointwise.cast(trainer->device, &trainer->feed.real, &look->twin_real);
    } else {
        take_weights(trainer, ROLE_G);
        ops->pointwise.cast(trainer->device, &trainer->feed.latents, &look->twin_latents);
        net_forward(g, &look->twin_latents, NET_TRAIN);
    }
    net_forward(d, twin_input(look, pass), NET_TRAIN);
    ops->loss.bce_logits(trainer->device, net_output(d), target,
                         1.0f / (float)(trainer->device->world * batches),
                         topology_scale(&trainer->topology, losses[pass]),
                         &d->output_grad, look->unread);
    survey_look_at_activations(&look->twin_survey[pass], look->twin_stats[pass]);
}

/* ---- setup ----------------------------------------------------------------------- */

static int stats_per_view(const struct look *look)
{
    int count = 0;
    for (int pass = 0; pass < GAN_PASSES; pass++)
        count += look->survey[pass].count;
    return count;
}

static int view_count(const struct look *look)
{
    return RESULTS_RING * (1 + look->record_count);
}

static enum status create_views(struct look *look)
{
    size_t views = (size_t)view_count(look), stats = (size_t)stats_per_view(look);
    int has_twin = look_has_twin(look);
    look->views = calloc(views, sizeof *look->views);
    look->view_stats = calloc(2 * views * stats, sizeof *look->view_stats);
    look->trial_stats =
        calloc((size_t)look_most_entries(look), sizeof *look->trial_stats);
    if (!look->views || !look->view_stats || !look->trial_stats)
        return status_fail(STATUS_FAILED,
                           "not enough memory for the statistics of %d tensors",
                           stats_per_view(look));
    struct survey_stats *next = look->view_stats;
    for (size_t i = 0; i < views; i++)
        for (int pass = 0; pass < GAN_PASSES; pass++) {
            look->views[i].stats[pass] = next;
            next += look->survey[pass].count;
            look->views[i].twin[pass] = has_twin ? next : NULL;
            next += look->survey[pass].count;
        }
    return STATUS_OK;
}

enum status look_create(struct trainer *trainer)
{
    struct look *look = &trainer->look;
    struct net *g = &trainer->player[ROLE_G].net, *d = &trainer->player[ROLE_D].net;
    look->device = trainer->device;
    look->record_count = trainer->results.record_count;
    arena_begin(&look->arena, trainer->device, "statistics of layers");
    arena_reserve(&look->arena, (void **)&look->unread, sizeof *look->unread);
    arena_reserve(&look->arena, (void **)&look->d_buffers,
                  d->buffer_elements * sizeof(float));
    for (int pass = 0; pass < GAN_PASSES; pass++) {
        enum gan_pass loss = pass == PASS_D_FAKE ? PASS_D_FAKE : PASS_D_REAL;
        TRY(list_pass(&look->survey[pass], trainer->device, g, d, (enum gan_pass)pass,
                      topology_grads(&trainer->topology, loss),
                      trainer_fakes_grad(trainer)));
        reserve_stats(look, look->stats, pass);
    }
    if (wants_twin(trainer))
        TRY(create_twin(trainer));
    TRY(arena_commit(&look->arena));
    return create_views(look);
}

void look_release(struct look *look)
{
    if (!look->device)
        return;
    if (look->repeat)
        look->device->ops->queue.forget(look->device, &look->repeat);
    for (int pass = 0; pass < GAN_PASSES; pass++) {
        survey_release(&look->survey[pass]);
        survey_release(&look->twin_survey[pass]);
    }
    net_release(&look->twin[ROLE_G]);
    net_release(&look->twin[ROLE_D]);
    free(look->views);
    free(look->view_stats);
    free(look->trial_stats);
    arena_release(&look->arena);
    memset(look, 0, sizeof *look);
}

/* ---- looking --------------------------------------------------------------------- */

int look_is_due(const struct trainer *trainer, int64_t step)
{
    int every = trainer->config.grad_stats;
    return every > 0 && (step == 1 || step % every == 0);
}

// The pass of a network's f32 twin that corresponds to `backward`.
static struct backward twin_backward(struct look *look, enum gan_pass pass, int network,
                                     const struct backward *backward)
{
    struct net *twin = &look->twin[network], *d = &look->twin[ROLE_D];
    int is_d = network == ROLE_D;
    return (struct backward){.x = is_d ? twin_input(look, pass) : &look->twin_latents,
                             .dy = is_d ? &d->output_grad : &d->input_grad,
                             .dx = backward->dx ? &d->input_grad : NULL,
                             .grads = backward->grads ? twin->grads : NULL,
                             .accumulates = backward->accumulates};
}

void look_backward(struct trainer *trainer, enum gan_pass pass, struct net *net,
                   const struct backward *backward)
{
    struct look *look = &trainer->look;
    if (!look->is_on) {
        net_backward(net, backward);
        return;
    }
    int is_d = net == &trainer->player[ROLE_D].net, has_twin = look_has_twin(look);
    if (is_d) { // D comes first in every pass
        survey_look_at_activations(&look->survey[pass], look->stats[pass]);
        if (has_twin)
            run_twin(trainer, pass);
    }
    survey_backward(&look->survey[pass], net, backward, look->stats[pass]);
    if (!has_twin)
        return;
    int network = is_d ? ROLE_D : ROLE_G;
    struct backward twin = twin_backward(look, pass, network, backward);
    survey_backward(&look->twin_survey[pass], &look->twin[network], &twin,
                    look->twin_stats[pass]);
}

static void fetch(struct look *look, struct look_view *view, int first, int last,
                  int64_t step)
{
    const struct memory_ops *memory = &look->device->ops->memory;
    view->step = step;
    memset(view->has, 0, sizeof view->has);
    view->was_tried_at_one = view->overflows_at_one = 0;
    for (int pass = first; pass <= last; pass++) {
        size_t bytes = (size_t)look->survey[pass].count * sizeof *look->view_stats;
        memory->download(look->device, view->stats[pass], look->stats[pass], bytes);
        if (view->twin[pass])
            memory->download(look->device, view->twin[pass], look->twin_stats[pass],
                             bytes);
        view->has[pass] = 1;
    }
}

static struct look_view *view_of(const struct look *look, int64_t step, int slot)
{
    int64_t turn = step % RESULTS_RING;
    int64_t index = slot < 0 ? turn : RESULTS_RING + turn * look->record_count + slot;
    return &look->views[index];
}

void look_keep(struct trainer *trainer)
{
    struct look *look = &trainer->look;
    int64_t step = trainer->progress.step;
    fetch(look, view_of(look, step, -1), PASS_D_REAL, PASS_G_MAIN, step);
}

/* ---- taking a step again --------------------------------------------------------- */

static void copy_buffers(struct trainer *trainer, float *to, const float *from)
{
    const struct net *d = &trainer->player[ROLE_D].net;
    trainer->device->ops->memory.copy(trainer->device, to, from,
                                      d->buffer_elements * sizeof(float));
}

void look_begin_trial(struct trainer *trainer)
{
    struct look *look = &trainer->look;
    copy_buffers(trainer, look->d_buffers, trainer->player[ROLE_D].net.buffers);
    look->is_on = 1;
}

void look_end_trial(struct trainer *trainer)
{
    struct look *look = &trainer->look;
    look->is_on = look_is_due(trainer, trainer->progress.step);
    copy_buffers(trainer, trainer->player[ROLE_D].net.buffers, look->d_buffers);
}

int look_begin_again(struct trainer *trainer, int network)
{
    struct scaler_state state;
    if (trainer->device->steps_ahead > 0)
        return 0;
    trainer->device->ops->memory.download(
        trainer->device, &state, trainer->player[network].scaler.state, sizeof state);
    if (!scaler_skips(&state))
        return 0;
    look_begin_trial(trainer);
    return 1;
}

void look_end_again(struct trainer *trainer, int network, int slot)
{
    struct look *look = &trainer->look;
    int64_t step = trainer->progress.step;
    int is_g = network == ROLE_G;
    look_end_trial(trainer);
    fetch(look, view_of(look, step, slot), is_g ? PASS_G_MAIN : PASS_D_REAL,
          is_g ? PASS_G_MAIN : PASS_D_FAKE, step);
}

// One for G's loss and two for D's, which may be the same.
static struct scaler_state *scale_of(struct trainer *trainer, int network, int loss)
{
    static const enum gan_pass losses[ROLES][2] = {
        [ROLE_G] = {PASS_G_MAIN, PASS_G_MAIN}, [ROLE_D] = {PASS_D_REAL, PASS_D_FAKE}};
    return topology_scale(&trainer->topology, losses[network][loss]);
}

int look_begin_at_one(struct trainer *trainer, int network, struct look_kept_scales *kept)
{
    const struct memory_ops *memory = &trainer->device->ops->memory;
    for (int i = 0; i < 2; i++)
        memory->download(trainer->device, &kept->state[i], scale_of(trainer, network, i),
                         sizeof kept->state[i]);
    if (!kept->state[0].enabled || kept->state[0].skipped_in_a_row == 0)
        return 0;
    look_begin_trial(trainer);
    for (int i = 0; i < 2; i++) {
        struct scaler_state state = kept->state[i];
        state.scale = 1.0f;
        memory->upload(trainer->device, scale_of(trainer, network, i), &state,
                       sizeof state);
    }
    return 1;
}

void look_end_at_one(struct trainer *trainer, int network, int slot,
                     const struct look_kept_scales *kept)
{
    struct look *look = &trainer->look;
    const struct memory_ops *memory = &look->device->ops->memory;
    struct look_view *view = view_of(look, trainer->progress.step, slot);
    struct nonfinite_place place;
    look_end_trial(trainer);
    for (int i = 0; i < 2; i++)
        memory->upload(look->device, scale_of(trainer, network, i), &kept->state[i],
                       sizeof kept->state[i]);
    view->was_tried_at_one = 1;
    for (int pass = 0; pass < GAN_PASSES; pass++) {
        if (!view->has[pass])
            continue;
        memory->download(look->device, look->trial_stats, look->stats[pass],
                         (size_t)look->survey[pass].count * sizeof *look->trial_stats);
        view->overflows_at_one |=
            survey_first_nonfinite(&look->survey[pass], look->trial_stats, &place);
    }
}

static const struct look_view *view_if_new(const struct trainer *trainer, int slot)
{
    const struct look_view *view =
        view_of(&trainer->look, trainer->last_place.step, slot);
    return view->step > 0 && view->step == trainer->last_place.step ? view : NULL;
}

const struct look_view *look_at_step(const struct trainer *trainer)
{
    return view_if_new(trainer, -1);
}

const struct look_view *look_at_skip(const struct trainer *trainer, int slot)
{
    return view_if_new(trainer, slot);
}
