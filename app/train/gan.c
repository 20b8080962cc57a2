#include "app/train/gan.h"

#include <string.h>

#include "nets/precision.h"

/* ---- setup ----------------------------------------------------------------------- */

// Where the two agree on types, G's output is what D reads and D's input gradient what
// G's backward pass begins with: nothing is copied. Where they do not, both are cast.
static enum status create_cast(struct gan *gan)
{
    const struct net *d = &gan->net[ROLE_D];
    if (precision_agrees(net_output(&gan->net[ROLE_G]), &d->input))
        return STATUS_OK;
    gan->fakes = d->input;
    arena_begin(&gan->arena, gan->device, "fakes as D reads them");
    arena_reserve(&gan->arena, &gan->fakes.data, tensor_bytes(&gan->fakes));
    return arena_commit(&gan->arena);
}

enum status gan_create(struct gan *gan, struct device *device,
                       const struct gan_config *config)
{
    *gan = (struct gan){.device = device, .passes = config->passes};
    struct net *g = &gan->net[ROLE_G], *d = &gan->net[ROLE_D];
    TRY(dcgan_generator(g, device, &config->sizes, config->dtype[ROLE_G], config->batch));
    TRY(dcgan_discriminator(d, device, &config->sizes, config->dtype[ROLE_D],
                            config->batch));
    const struct net *both[] = {g, d};
    TRY(precision_check_patterns(config->sizes.fp32_layers, both, ROLES));
    for (int role = 0; role < ROLES; role++) {
        TRY(net_plan(&gan->net[role], config->options[role]));
        gan->net[role].has_synced_norm = config->has_synced_norm;
    }
    return create_cast(gan);
}

void gan_release(struct gan *gan)
{
    for (int role = 0; role < ROLES; role++)
        net_release(&gan->net[role]);
    if (gan->arena.device)
        arena_release(&gan->arena);
    memset(gan, 0, sizeof *gan);
}

/* ---- forward --------------------------------------------------------------------- */

void gan_make_fakes(struct gan *gan, const struct gan_batch *batch)
{
    net_forward(&gan->net[ROLE_G], batch->latents, NET_TRAIN);
}

// What D reads in a pass.
static const struct tensor *input_of(struct gan *gan, const struct gan_batch *batch,
                                     int pass)
{
    if (gan->passes.row[pass].input == INPUT_REAL)
        return batch->real;
    return gan->fakes.data ? &gan->fakes : net_output(&gan->net[ROLE_G]);
}

void gan_forward(struct gan *gan, const struct gan_batch *batch, int pass)
{
    if (gan->passes.row[pass].input == INPUT_FAKES && gan->fakes.data)
        gan->device->ops->pointwise.cast(gan->device, net_output(&gan->net[ROLE_G]),
                                         &gan->fakes);
    net_forward(&gan->net[ROLE_D], input_of(gan, batch, pass), NET_TRAIN);
}

void gan_loss(struct gan *gan, const struct pass_loss *loss, struct loss_sums *sums)
{
    struct net *d = &gan->net[ROLE_D];
    gan->device->ops->loss.on_logits(gan->device, loss->kind, net_output(d), loss->target,
                                     loss->weight, loss->scale, &d->output_grad, sums);
}

/* ---- backward -------------------------------------------------------------------- */

static int casts_gradient(const struct gan *gan)
{
    return !precision_agrees(&gan->net[ROLE_G].output_grad, &gan->net[ROLE_D].input_grad);
}

struct gan_walk gan_walk(struct gan *gan, const struct gan_batch *batch, int pass,
                         float *grads, int accumulates)
{
    struct net *g = &gan->net[ROLE_G], *d = &gan->net[ROLE_D];
    struct gan_walk walk = {.count = 1, .role = {ROLE_D, ROLE_G}};
    walk.of[0] =
        (struct backward){.x = input_of(gan, batch, pass), .dy = &d->output_grad};
    struct backward *last = &walk.of[0];
    if (gan->passes.row[pass].trains == ROLE_G) {
        last->dx = &d->input_grad;
        last = &walk.of[walk.count++];
        *last = (struct backward){.x = batch->latents,
                                  .dy = casts_gradient(gan) ? &g->output_grad
                                                            : &d->input_grad};
    }
    last->grads = grads;
    last->accumulates = accumulates;
    return walk;
}

void gan_hand_over(struct gan *gan)
{
    if (casts_gradient(gan))
        gan->device->ops->pointwise.cast(gan->device, &gan->net[ROLE_D].input_grad,
                                         &gan->net[ROLE_G].output_grad);
}
