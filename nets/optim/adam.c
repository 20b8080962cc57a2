#include "nets/optim/adam.h"

#include <string.h>

enum status adam_create(struct adam *adam, struct net *net,
                        const struct adam_config *config)
{
    memset(adam, 0, sizeof *adam);
    adam->config = *config;
    adam->net = net;
    arena_begin(&adam->arena, net->device, "optimizer state");
    arena_reserve(&adam->arena, (void **)&adam->m, net->param_elements * sizeof(float));
    arena_reserve(&adam->arena, (void **)&adam->v, net->param_elements * sizeof(float));
    TRY(arena_commit(&adam->arena));
    adam->optimizer = (struct optimizer){
        .gradients = {.count = 1, .block = {{net->grads, net->param_elements}}},
        .step = adam_step};
    return STATUS_OK;
}

void adam_release(struct adam *adam)
{
    if (adam && adam->net)
        arena_release(&adam->arena);
}

void adam_step(struct optimizer *optimizer, int is_unscaled, struct scaler_state *state)
{
    struct adam *adam = (struct adam *)optimizer;
    const struct grad_block *block = &optimizer->gradients.block[0];
    struct net *net = adam->net;
    struct adam_args args = {
        .params = net->params,
        .half = net->half,
        .half_dtype = net->dtype,
        .grads = block->grads,
        .m = adam->m,
        .v = adam->v,
        .n = block->n,
        .lr = adam->config.lr,
        .beta1 = adam->config.beta1,
        .beta2 = adam->config.beta2,
        .eps = adam->config.eps,
        .ema = adam->ema,
        .ema_decay = adam->ema_decay,
    };
    net->device->ops->optimizer.adam_step(net->device, &args, is_unscaled, state);
}
