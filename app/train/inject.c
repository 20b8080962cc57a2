#include "app/train/inject.h"

#include <math.h>

#include "app/train/trainer.h"

#define HUGE_ACTIVATION 60000.0f // of 65504

static enum planted_place place_of(enum fault_kind kind)
{
    if (kind == FAULT_BAD_WEIGHT)
        return PLANTED_WEIGHT;
    return kind == FAULT_INF || kind == FAULT_NAN ? PLANTED_GRADIENT : PLANTED_ACTIVATION;
}

static float value_of(enum fault_kind kind)
{
    if (kind == FAULT_HUGE_ACTIVATION)
        return HUGE_ACTIVATION;
    return kind == FAULT_NAN || kind == FAULT_NAN_FORWARD ? NAN : INFINITY;
}

static int is_due(const struct trainer *trainer, const struct planted_fault *fault)
{
    int64_t step = trainer->progress.step;
    int is_last_rank = trainer->device->rank + 1 == trainer->device->world;
    if (!is_last_rank && place_of(fault->kind) != PLANTED_WEIGHT)
        return 0;
    if (trainer->progress.rollbacks > 0 && fault->last != INT64_MAX)
        return 0;
    return step >= fault->first && step <= fault->last;
}

// True in every step of a run that may plant such a fault.
static int is_planned(const struct trainer *trainer, int network,
                      enum planted_place place)
{
    for (int i = 0; i < trainer->planted.count; i++) {
        const struct planted_fault *fault = &trainer->planted.fault[i];
        if (fault->is_in_d == (network == ROLE_D) && place_of(fault->kind) == place)
            return 1;
    }
    return 0;
}

static float *value_at(const struct trainer *trainer, int network,
                       enum planted_place place)
{
    return trainer->planted.values + network * PLANTED_PLACES + (int)place;
}

void inject_reserve(struct trainer *trainer)
{
    struct planted *planted = &trainer->planted;
    arena_reserve(&trainer->arena, (void **)&planted->values,
                  ROLES * (int)PLANTED_PLACES * sizeof *planted->values);
    for (int network = 0; network < ROLES; network++) {
        struct tensor *pixel = &planted->pixel[network];
        *pixel = *net_output(&trainer->gan.net[network]);
        pixel->dtype = DTYPE_F32;
        pixel->shape.n = pixel->shape.h = pixel->shape.w = pixel->n_stored = 1;
        arena_reserve(&trainer->arena, &pixel->data, tensor_bytes(pixel));
    }
}

void inject_prepare(struct trainer *trainer)
{
    struct planted *planted = &trainer->planted;
    enum status status =
        config_read_faults(trainer->config.inject, planted->fault, &planted->count);
    CHECK(status == STATUS_OK, "%s", status_message()); // config_check() came before
    if (planted->count == 0)
        return;
    float values[ROLES][PLANTED_PLACES] = {{0.0f}};
    for (int i = 0; i < planted->count; i++) {
        const struct planted_fault *fault = &planted->fault[i];
        if (is_due(trainer, fault))
            values[fault->is_in_d ? ROLE_D : ROLE_G][place_of(fault->kind)] +=
                value_of(fault->kind);
    }
    trainer->device->ops->memory.upload(trainer->device, planted->values, values,
                                        sizeof values);
}

void inject_weights(struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++) {
        struct net *net = &trainer->gan.net[network];
        if (!is_planned(trainer, network, PLANTED_WEIGHT))
            continue;
        trainer->device->ops->pointwise.add(
            trainer->device, net->params, value_at(trainer, network, PLANTED_WEIGHT), 1);
        net_params_changed(net);
    }
}

// Through f32, which holds every half exactly: where 0 is added nothing changes.
void inject_activation(struct trainer *trainer, int network)
{
    const struct pointwise_ops *pointwise = &trainer->device->ops->pointwise;
    struct tensor *copy = &trainer->planted.pixel[network];
    const struct tensor *output = net_output(&trainer->gan.net[network]);
    if (!is_planned(trainer, network, PLANTED_ACTIVATION))
        return;
    struct tensor pixel = *copy;
    pixel.dtype = output->dtype;
    pixel.data = output->data;
    pointwise->cast(trainer->device, &pixel, copy);
    pointwise->add(trainer->device, copy->data,
                   value_at(trainer, network, PLANTED_ACTIVATION), 1);
    pointwise->cast(trainer->device, copy, &pixel);
}

void inject_gradient(struct trainer *trainer, int network)
{
    if (is_planned(trainer, network, PLANTED_GRADIENT))
        trainer->device->ops->pointwise.add(
            trainer->device, trainer->gan.net[network].grads,
            value_at(trainer, network, PLANTED_GRADIENT), 1);
}
