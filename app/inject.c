#include "app/inject.h"

#include <math.h>

static float planted_value(const struct trainer *trainer,
                           const struct planted_fault *fault, int network)
{
    int64_t step = trainer->progress.step;
    int is_last_rank = trainer->device->rank + 1 == trainer->device->world;
    if (!is_last_rank || fault->is_in_d != (network == NETWORK_D) ||
        step < fault->first || step > fault->last)
        return 0.0f;
    return fault->is_nan ? NAN : INFINITY;
}

void inject_prepare(struct trainer *trainer)
{
    struct planted_fault fault;
    if (!trainer->config.inject[0] || !config_read_fault(trainer->config.inject, &fault))
        return;
    float values[NETWORK_COUNT];
    for (int network = 0; network < NETWORK_COUNT; network++)
        values[network] = planted_value(trainer, &fault, network);
    trainer->device->ops->memory.upload(trainer->device, trainer->planted, values,
                                        sizeof values);
}

void inject_fault(struct trainer *trainer, int network)
{
    if (trainer->config.inject[0])
        trainer->device->ops->pointwise.add(trainer->device,
                                            trainer->player[network].net.grads,
                                            trainer->planted + network, 1);
}
