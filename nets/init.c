#include "nets/init.h"

#include <stdlib.h>

#define INIT_STD 0.02f

static float initial_value(enum param_role role, float normal)
{
    switch (role) {
    case PARAM_WEIGHT: return INIT_STD * normal;
    case PARAM_GAMMA: return 1.0f + INIT_STD * normal;
    case PARAM_BIAS:
    case PARAM_BETA: break;
    }
    return 0.0f;
}

// Element numbers count what the shape names, so that padding does not change the values.
static void fill_param(const struct tensor *param, enum param_role role, uint64_t seed,
                       uint64_t step, float *stored)
{
    float normal[4] = {0};
    uint64_t number = 0;
    size_t pixels =
        (size_t)param->shape.n * (size_t)param->shape.h * (size_t)param->shape.w;
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        for (int c = 0; c < param->shape.c; c++, number++) {
            if (number % 4 == 0)
                philox_normal4(seed, STREAM_INIT, step, number / 4, normal);
            stored[pixel * (size_t)param->c_stored + (size_t)c] =
                initial_value(role, normal[number % 4]);
        }
    }
}

static void fill_buffers(struct net *net, float *host)
{
    for (int i = 0; i < net->buffer_count; i++)
        for (int k = 0; k < net->buffer[i].elements; k++)
            host[net->buffer[i].offset + (size_t)k] = net->buffer[i].initial;
}

enum status net_initialise(struct net *net, uint64_t seed, uint64_t salt)
{
    const struct memory_ops *memory = &net->device->ops->memory;
    float *host = calloc(net->param_elements + net->buffer_elements, sizeof *host);
    TRY_MEMORY(host, "%zu weights", net->param_elements);
    for (int i = 0; i < net->param_count; i++)
        fill_param(&net->param[i].shape, net->param[i].role, seed,
                   salt << 16 | (uint64_t)i, host + net->param[i].offset);
    memory->upload(net->device, net->params, host, net->param_elements * sizeof *host);
    if (net->buffer_elements) {
        float *buffers = host + net->param_elements;
        fill_buffers(net, buffers);
        memory->upload(net->device, net->buffers, buffers,
                       net->buffer_elements * sizeof *host);
    }
    free(host);
    net_params_changed(net);
    return STATUS_OK;
}
