/* topology.c - the order of the scalers' calls in each topology. Every decision is taken
 * on the device, by kernels/scaler_state.h. */
#include "scaler/topology.h"

#include "kernels/ops.h"

static enum status create_fake(struct topology *topology)
{
    const struct scaled *d = &topology->network[ROLE_D];
    struct arena *arena = &topology->arena;
    struct gradients *fakes = &topology->fake_grads;
    *fakes = d->optimizer->gradients;
    arena_begin(arena, topology->device, "gradients of D's loss on fakes");
    for (int i = 0; i < fakes->count; i++)
        arena_reserve(arena, (void **)&fakes->block[i].grads,
                      fakes->block[i].n * sizeof(float));
    arena_reserve(arena, (void **)&topology->sum, sizeof *topology->sum);
    TRY(arena_commit(arena));
    return grad_scaler_create(&topology->fake, topology->device, "d on fakes",
                              &d->scaler->config);
}

// Member by member: there may be bytes between them.
static int same_rule(const struct grad_scaler_config *a,
                     const struct grad_scaler_config *b)
{
    int is_same = a->enabled == b->enabled && a->init_scale == b->init_scale &&
                  a->is_static == b->is_static;
#define RULE(type, name) is_same &= a->name == b->name;
#include "scaler/settings.def"
#undef RULE
    return is_same;
}

enum status topology_create(struct topology *topology, enum topology_kind kind,
                            enum skip_rule skip, const struct scaled network[ROLES],
                            const struct topology_pass pass[], int passes)
{
    const struct grad_scaler *g = network[ROLE_G].scaler, *d = network[ROLE_D].scaler;
    int is_shared = kind == TOPOLOGY_SHARED || kind == TOPOLOGY_SHARED_PER_STEP;
    CHECK(!is_shared || same_rule(&g->config, &d->config),
          "one scale, but two sets of settings");
    CHECK(kind == TOPOLOGY_PER_NETWORK || (g->config.enabled && d->config.enabled),
          "only scalers that are on can be joined");
    *topology = (struct topology){.device = g->device,
                                  .kind = kind,
                                  .skip = skip,
                                  .network = {network[ROLE_G], network[ROLE_D]}};
    CHECK(passes <= PASSES_MAX, "%d", passes);
    for (int i = 0; i < passes; i++)
        topology->scaler_of[i] =
            kind == TOPOLOGY_PER_LOSS ? pass[i].per_loss : (int)pass[i].trains;
    return kind == TOPOLOGY_PER_LOSS ? create_fake(topology) : STATUS_OK;
}

void topology_release(struct topology *topology)
{
    if (!topology || !topology->device)
        return;
    grad_scaler_release(&topology->fake);
    if (topology->arena.device)
        arena_release(&topology->arena);
    *topology = (struct topology){0};
}

/* ---- what a loss carries --------------------------------------------------------- */

int topology_has_own_grads(const struct topology *topology, int pass)
{
    return topology->scaler_of[pass] == SCALER_D_FAKE;
}

int topology_begins(const struct topology *topology, int pass)
{
    const int *scaler = topology->scaler_of;
    for (int before = 0; before < pass; before++)
        if (scaler[before] == scaler[pass])
            return 0;
    return 1;
}

struct scaler_state *topology_scale(struct topology *topology, int pass)
{
    int scaler = topology->scaler_of[pass];
    return grad_scaler_scale(scaler == SCALER_D_FAKE ? &topology->fake
                                                     : topology->network[scaler].scaler);
}

float *topology_grads(const struct topology *topology, int pass)
{
    int scaler = topology->scaler_of[pass];
    const struct gradients *gradients =
        scaler == SCALER_D_FAKE ? &topology->fake_grads
                                : &topology->network[scaler].optimizer->gradients;
    return gradients->block[0].grads;
}

/* ---- steps ----------------------------------------------------------------------- */

static void spread(const struct topology *topology, const struct scaler_state *from,
                   struct scaler_state *to, enum overflow_reach reach)
{
    topology->device->ops->optimizer.scaler_share_overflow(topology->device, from, to,
                                                           reach);
}

// The order of calls here is right whatever the settings.
static void must(enum grad_scaler_call call)
{
    CHECK(call == CALL_OK, "%s", grad_scaler_call_text(call));
}

/* Adds the gradients of D's loss on fakes, both unscaled. A sum of finite ones may not be
 * finite; no scale is to blame for that. */
static void add_fake_grads(struct topology *topology)
{
    struct device *device = topology->device;
    const struct scaled *d = &topology->network[ROLE_D];
    const struct gradients *own = &d->optimizer->gradients;
    const struct ops *ops = device->ops;
    ops->memory.zero(device, topology->sum, sizeof *topology->sum);
    for (int i = 0; i < own->count; i++) {
        const struct grad_block *block = &own->block[i];
        ops->pointwise.add(device, block->grads, topology->fake_grads.block[i].grads,
                           block->n);
        ops->optimizer.grads_check(device, block->grads, block->n, topology->sum);
    }
    spread(topology, topology->sum, d->scaler->state, OVERFLOW_SKIPS);
}

// Brings D's gradients together, unscaled; its state then tells what either loss found.
static void join_losses(struct topology *topology)
{
    const struct scaled *d = &topology->network[ROLE_D];
    struct scaler_state *real = d->scaler->state, *fake = topology->fake.state;
    const struct gradients *own = &d->optimizer->gradients;
    must(grad_scaler_unscale(d->scaler, own));
    must(grad_scaler_unscale(&topology->fake, &topology->fake_grads));
    add_fake_grads(topology);
    spread(topology, fake, real, OVERFLOW_SKIPS);
    spread(topology, real, fake, OVERFLOW_SKIPS);
    if (d->clip_norm > 0.0f)
        grad_scaler_limit_norm(d->scaler, own, d->clip_norm);
}

// Tells the other network, whose step comes next, of an overflow of this one.
static void hold_other(struct topology *topology, enum role network)
{
    const struct scaler_state *from = topology->network[network].scaler->state;
    if (network == ROLE_D) {
        spread(topology, from, topology->network[ROLE_G].scaler->state, OVERFLOW_HOLDS);
        return;
    }
    if (topology->kind == TOPOLOGY_SHARED)
        return; // scaler_both() does it: D's state still is that of its last step
    spread(topology, from, topology->network[ROLE_D].scaler->state, OVERFLOW_HOLDS);
    if (topology->kind == TOPOLOGY_PER_LOSS)
        spread(topology, from, topology->fake.state, OVERFLOW_HOLDS);
}

void topology_step(struct topology *topology, enum role network)
{
    const struct scaled *own = &topology->network[network];
    if (topology_has_own_grads(topology, PASS_D_FAKE) && network == ROLE_D)
        join_losses(topology);
    else if (own->clip_norm > 0.0f)
        must(grad_scaler_clip(own->scaler, &own->optimizer->gradients, own->clip_norm));
    must(grad_scaler_step(own->scaler, own->optimizer));
    if (topology->skip == SKIP_BOTH)
        hold_other(topology, network);
}

/* ---- rules ----------------------------------------------------------------------- */

static void end_iteration(struct grad_scaler *scaler)
{
    CHECK(scaler->stage == STAGE_STEPPED, "network %s: update before step", scaler->name);
    scaler->stage = STAGE_READY;
    scaler->is_checked = 0;
}

static void update_both(struct topology *topology)
{
    struct grad_scaler *d = topology->network[ROLE_D].scaler;
    struct grad_scaler *g = topology->network[ROLE_G].scaler;
    topology->device->ops->optimizer.scaler_both(topology->device, d->state, d->record,
                                                 g->state, g->record,
                                                 topology->skip == SKIP_BOTH);
    end_iteration(d);
    end_iteration(g);
}

void topology_update(struct topology *topology, enum role network)
{
    struct grad_scaler *own = topology->network[network].scaler;
    struct grad_scaler *other = topology->network[!network].scaler;
    if (topology->kind == TOPOLOGY_SHARED) {
        if (network == ROLE_G)
            update_both(topology);
        return;
    }
    must(grad_scaler_update(own));
    if (topology->kind == TOPOLOGY_SHARED_PER_STEP)
        topology->device->ops->optimizer.scaler_share(topology->device, own->state,
                                                      other->state);
    if (topology_has_own_grads(topology, PASS_D_FAKE) && network == ROLE_D)
        must(grad_scaler_update(&topology->fake));
}
