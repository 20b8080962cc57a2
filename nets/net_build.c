/* net_build.c - adding nodes to the graph, with their shapes and parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/kind.h"
#include "nets/precision.h"

#define PARAM_ALIGN 16 // elements: 32 bytes in half, a whole vector in f32
#define PARAMS_MAX (2 * NET_NODES_MAX)

enum status net_begin(struct net *net, struct device *device, const char *name,
                      enum dtype dtype, struct shape input)
{
    memset(net, 0, sizeof *net);
    net->device = device;
    net->name = name;
    net->dtype = dtype;
    net->input = device_tensor(device, dtype, input, 0);
    net->norm_momentum = NET_NORM_MOMENTUM;
    net->node = calloc(NET_NODES_MAX, sizeof *net->node);
    net->param = calloc(PARAMS_MAX, sizeof *net->param);
    net->buffer = calloc(PARAMS_MAX, sizeof *net->buffer);
    if (!net->node || !net->param || !net->buffer)
        return memory_missing("the layers of network %s", name);
    return STATUS_OK;
}

static int resolve(const struct net *net, int input)
{
    int node = input == NET_PREVIOUS ? net->node_count - 1 : input;
    CHECK(node >= NET_INPUT && node < net->node_count, "net %s reads node %d of %d",
          net->name, input, net->node_count);
    return node;
}

struct shape net_shape_of(const struct net *net, int input)
{
    int node = resolve(net, input);
    return node == NET_INPUT ? net->input.shape : net->node[node].y.shape;
}

struct node *net_add_node(struct net *net, const struct layer_kind *kind,
                          const char *name, const int *inputs, int count)
{
    CHECK(net->node_count < NET_NODES_MAX && count <= NODE_INPUTS_MAX, "net %s, %s",
          net->name, name);
    struct node *node = &net->node[net->node_count];
    node->kind = kind;
    snprintf(node->name, sizeof node->name, "%s", name);
    for (int k = 0; k < count; k++)
        node->edge[k].from = resolve(net, inputs[k]);
    node->edge_count = count;
    node->dtype = net->dtype;
    node->weight = node->bias = -1;
    node->fused_activation = node->fused_into = -1;
    node->sums_for = node->sums_from = node->undone_by = -1;
    net->node_count++;
    return node;
}

void net_set_output(struct net *net, struct node *node, struct shape shape)
{
    node->y = device_tensor(
        net->device, precision_of(node_policy(node), USE_OUTPUT, node->dtype), shape, 0);
}

int net_add_param(struct net *net, enum param_role role, struct shape shape)
{
    static const char *const suffix[] = {[PARAM_WEIGHT] = "weight",
                                         [PARAM_BIAS] = "bias",
                                         [PARAM_GAMMA] = "weight",
                                         [PARAM_BETA] = "bias"};
    CHECK(net->param_count < PARAMS_MAX, "net %s", net->name);
    const struct node *node = &net->node[net->node_count - 1];
    struct param *param = &net->param[net->param_count];
    snprintf(param->name, sizeof param->name, "%.*s.%s", NET_NAME_MAX - 8, node->name,
             suffix[role]);
    param->node = net->node_count - 1;
    param->role = role;
    enum dtype dtype = precision_of(node_policy(node), USE_PARAMETER, node->dtype);
    param->shape = device_tensor(net->device, dtype, shape, role == PARAM_WEIGHT);
    param->offset = net->param_elements;
    size_t stored = tensor_stored(&param->shape);
    net->param_elements += (stored + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
    return net->param_count++;
}

int net_add_buffer(struct net *net, const char *name, int elements, float initial)
{
    CHECK(net->buffer_count < PARAMS_MAX, "net %s", net->name);
    struct net_buffer *buffer = &net->buffer[net->buffer_count];
    *buffer = (struct net_buffer){
        .elements = elements, .initial = initial, .offset = net->buffer_elements};
    snprintf(buffer->name, sizeof buffer->name, "%.*s.%s", NET_NAME_MAX - 14,
             net->node[net->node_count - 1].name, name);
    net->buffer_elements += (size_t)elements;
    return net->buffer_count++;
}

void net_make_head_f32(struct net *net)
{
    struct node *head = &net->node[net->node_count - 1];
    CHECK(head->kind->head_policy, "net %s: %s is no head", net->name, head->name);
    head->is_head = 1;
    net_set_output(net, head, head->y.shape);
}

void net_hold_f32(struct net *net, int index)
{
    struct node *node = &net->node[index];
    node->holds_f32 = 1;
    node->dtype = DTYPE_F32;
    net_set_output(net, node, node->y.shape);
    for (int k = 0; k < node->edge_count; k++)
        if (node->edge[k].from == NET_INPUT)
            net->input.dtype = DTYPE_F32;
}

void net_release(struct net *net)
{
    if (!net || !net->device)
        return;
    for (int i = 0; net->node && i < net->node_count; i++)
        if (net->node[i].kind->release)
            net->node[i].kind->release(net, &net->node[i]);
    arena_release(&net->parameters);
    arena_release(&net->activations);
    free(net->node);
    free(net->param);
    free(net->buffer);
    memset(net, 0, sizeof *net);
}
