/* average_pool.c - the mean of blocks of k x k pixels.
 *
 *   y[n,i,j,c] = 1/k^2 * sum over r, s < k of x[n, i*k + r, j*k + s, c]
 *   dx[n,i,j,c] = 1/k^2 * dy[n, i/k, j/k, c];  the tangent of y is the pool of x's */
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"

static float share(const struct tensor *x, const struct tensor *y)
{
    int k = shape_ratio("average pool", x->shape, y->shape);
    return 1.0f / (float)(k * k);
}

static void average_pool_forward(struct net *net, struct node *node,
                                 const struct tensor *const x[], enum net_mode mode)
{
    (void)mode;
    net->device->ops->resample.down(net->device, x[0], share(x[0], &node->y), &node->y);
}

static enum status average_pool_forward_tangent(struct net *net, struct node *node,
                                                const struct tensor *const x_tangent[])
{
    net->device->ops->resample.down(net->device, x_tangent[0],
                                    share(x_tangent[0], &node->y), &node->tangent);
    return STATUS_OK;
}

static void average_pool_dgrad(struct net *net, struct node *node,
                               const struct tensor *const x[], const struct tensor *dy,
                               struct tensor *const dx[])
{
    (void)node;
    (void)x;
    net->device->ops->resample.up(net->device, dy, share(dx[0], dy), dx[0]);
}

int net_add_average_pool(struct net *net, const char *name, int input, int k)
{
    struct shape shape = net_shape_of(net, input);
    CHECK(k >= 1 && shape.h % k == 0 && shape.w % k == 0,
          "net %s, %s pools %d x %d pixels by %d", net->name, name, shape.h, shape.w, k);
    struct node *node = net_add_node(net, &average_pool_kind, name, &input, 1);
    net_set_output(net, node, (struct shape){shape.n, shape.h / k, shape.w / k, shape.c});
    return net->node_count - 1;
}

const struct layer_kind average_pool_kind = {
    .name = "average pool",
    .policy = {"average pool",
               {STORED_AS_LAYER, STORED_AS_LAYER, STORED_AS_LAYER, STORED_NOWHERE,
                STORED_NOWHERE, STORED_F32},
               "in none of autocast's lists: runs in its input's type; sums are f32"},
    .forward = average_pool_forward,
    .forward_tangent = average_pool_forward_tangent,
    .dgrad = average_pool_dgrad};
