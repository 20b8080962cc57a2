/* residual.c - the sum of two outputs. Source: He et al. 2016, arXiv:1512.03385. */
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"

static void residual_forward(struct net *net, struct node *node,
                             const struct tensor *const x[], enum net_mode mode)
{
    (void)mode;
    net->device->ops->pointwise.add_tensors(net->device, x[0], x[1], &node->y);
}

static enum status residual_forward_tangent(struct net *net, struct node *node,
                                            const struct tensor *const x_tangent[])
{
    net->device->ops->pointwise.add_tensors(net->device, x_tangent[0], x_tangent[1],
                                            &node->tangent);
    return STATUS_OK;
}

static void residual_dgrad(struct net *net, struct node *node,
                           const struct tensor *const x[], const struct tensor *dy,
                           struct tensor *const dx[])
{
    (void)node;
    (void)x;
    for (int k = 1; k >= 0; k--)
        if (dx[k] && dx[k]->data != dy->data)
            net->device->ops->pointwise.cast(net->device, dy, dx[k]);
}

int net_add_residual(struct net *net, const char *name, int a, int b)
{
    struct shape shape = net_shape_of(net, a), other = net_shape_of(net, b);
    char text[SHAPE_TEXT], other_text[SHAPE_TEXT];
    CHECK(shape_equal(shape, other), "net %s, %s adds %s and %s", net->name, name,
          shape_text(shape, text), shape_text(other, other_text));
    struct node *node = net_add_node(net, &residual_kind, name, (const int[]){a, b}, 2);
    net_set_output(net, node, shape);
    return net->node_count - 1;
}

const struct layer_kind residual_kind = {
    .name = "residual add",
    .policy =
        {"residual add",
         {STORED_AS_LAYER, STORED_AS_LAYER, STORED_AS_LAYER, STORED_NOWHERE,
          STORED_NOWHERE, STORED_F32},
         "in none of autocast's lists: add runs in its operands' type, in f32 and "
         "rounded once as in PyTorch's kernels; each operand is read in its own type"},
    .is_in_place = 1,
    .reads_any_type = 1,
    .forward = residual_forward,
    .forward_tangent = residual_forward_tangent,
    .dgrad = residual_dgrad};
