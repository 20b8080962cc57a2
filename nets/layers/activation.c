/* activation.c - ReLU, leaky ReLU and tanh, pointwise.
 *
 *   y = act(x),  dx = dy*act',  tangent of y = act' * that of x;  act' from the output y
 * Where another node computes it (fused_into), or undoes it, nothing is left to do
 * here. */
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"

static void activation_forward(struct net *net, struct node *node,
                               const struct tensor *const x[], enum net_mode mode)
{
    (void)mode;
    if (node->fused_into < 0)
        net->device->ops->pointwise.act_forward(net->device, x[0], node->activation,
                                                node->slope, &node->y);
}

static enum status activation_forward_tangent(struct net *net, struct node *node,
                                              const struct tensor *const x_tangent[])
{
    net->device->ops->pointwise.act_backward(net->device, x_tangent[0], &node->y,
                                             node->activation, node->slope,
                                             &node->tangent);
    return STATUS_OK;
}

static void activation_dgrad(struct net *net, struct node *node,
                             const struct tensor *const x[], const struct tensor *dy,
                             struct tensor *const dx[])
{
    (void)x;
    if (!net_passes_through(net, (int)(node - net->node)))
        net->device->ops->pointwise.act_backward(net->device, dy, &node->y,
                                                 node->activation, node->slope, dx[0]);
}

int net_add_activation(struct net *net, const char *name, int input,
                       enum activation activation, float slope)
{
    struct shape shape = net_shape_of(net, input);
    struct node *node = net_add_node(net, &activation_kind, name, &input, 1);
    net_set_output(net, node, shape);
    node->activation = activation;
    node->slope = slope;
    return net->node_count - 1;
}

const struct layer_kind activation_kind = {
    .policy = {"relu, leaky relu, tanh",
               {STORED_AS_LAYER, STORED_AS_LAYER, STORED_AS_LAYER, STORED_NOWHERE,
                STORED_NOWHERE, STORED_NOWHERE},
               "in none of autocast's lists: runs in its input's type"},
    .is_in_place = 1,
    .forward = activation_forward,
    .forward_tangent = activation_forward_tangent,
    .dgrad = activation_dgrad};
