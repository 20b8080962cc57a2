#include "nets/optim/ema.h"

#include <math.h>
#include <string.h>

enum status ema_create(struct ema *ema, struct net *source, double half_life_kimg,
                       double rampup)
{
    memset(ema, 0, sizeof *ema);
    ema->source = source;
    ema->half_life_kimg = half_life_kimg;
    ema->rampup = rampup;
    arena_begin(&ema->arena, source->device, "moving average");
    arena_reserve(&ema->arena, (void **)&ema->average,
                  source->param_elements * sizeof(float));
    arena_reserve(&ema->arena, (void **)&ema->decay, sizeof(float));
    return arena_commit(&ema->arena);
}

void ema_release(struct ema *ema)
{
    if (ema && ema->source)
        arena_release(&ema->arena);
}

double ema_decay(double half_life_kimg, double rampup, int64_t batch, int64_t images_seen)
{
    double half_life = half_life_kimg * 1000.0;
    if (rampup > 0.0)
        half_life = fmin(half_life, (double)images_seen * rampup);
    return half_life > 0.0 ? pow(0.5, (double)batch / half_life) : 0.0;
}

void ema_reset(struct ema *ema)
{
    struct net *net = ema->source;
    net->device->ops->memory.copy(net->device, ema->average, net->params,
                                  net->param_elements * sizeof(float));
}

void ema_attach(struct ema *ema, struct adam *adam)
{
    adam->ema = ema->average;
    adam->ema_decay = ema->decay;
}

void ema_prepare_step(struct ema *ema, int64_t batch, int64_t images_seen)
{
    struct device *device = ema->source->device;
    float decay = (float)ema_decay(ema->half_life_kimg, ema->rampup, batch, images_seen);
    device->ops->memory.upload(device, ema->decay, &decay, sizeof decay);
}
