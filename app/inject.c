#include "app/inject.h"

#include <math.h>

void inject_fault(struct trainer *trainer, int network)
{
    struct planted_fault fault;
    int64_t step = trainer->progress.step + 1;
    if (!trainer->config.inject[0] ||
        !config_read_fault(trainer->config.inject, &fault) ||
        fault.is_in_d != (network == NETWORK_D) || step < fault.first ||
        step > fault.last)
        return;
    float value = fault.is_nan ? NAN : INFINITY;
    trainer->device->ops->memory.upload(
        trainer->device, trainer->player[network].net.grads, &value, sizeof value);
}
