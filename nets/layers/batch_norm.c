/* batch_norm.c - normalisation over the batch, with f32 statistics and parameters.
 *
 *   y = act(gamma*xhat + beta),  xhat = (x - mean)/sqrt(var + eps), by channel
 *   dbeta = sum dz,  dgamma = sum dz*xhat,  dz = dy*act'
 * kernels/ops.h has the formulas of each op. In NET_EVAL mean and var are the running
 * ones, which advance after a finite forward pass of NET_TRAIN.
 * Source: Ioffe and Szegedy 2015, arXiv:1502.03167. */
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"
#include "nets/layers/norm_sums.h"

struct norm_own {
    struct norm_vectors v;
    int running; // buffer of running_mean; running_var is the next one
};

_Static_assert(sizeof(struct norm_own) <= NODE_OWN_BYTES, "room for a batch norm");

static struct norm_own *own_of(struct node *node)
{
    return (struct norm_own *)(void *)node->own;
}

void norm_sums(struct node *norm, float **sum, float **sumsq)
{
    *sum = own_of(norm)->v.sum;
    *sumsq = own_of(norm)->v.sumsq;
}

// Values per channel that the statistics are over.
static int64_t count_of(const struct net *net, const struct tensor *x)
{
    int64_t count = (int64_t)x->shape.n * x->shape.h * x->shape.w;
    return net->has_synced_norm ? count * net->device->world : count;
}

// Makes two [channels] sums those of all ranks.
static void sync_sums(struct net *net, float *one, float *other, int channels)
{
    if (!net->has_synced_norm)
        return;
    net->device->ops->group.sum_f32(net->device, one, (size_t)channels);
    net->device->ops->group.sum_f32(net->device, other, (size_t)channels);
}

/* ---- passes ---------------------------------------------------------------------- */

static void norm_remake(struct net *net, struct node *node, const struct tensor *x)
{
    float slope;
    enum activation activation = node_fused_activation(net, node, &slope);
    net->device->ops->norm.act_forward(net->device, x, &own_of(node)->v, activation,
                                       slope, &node->y);
}

static void norm_forward(struct net *net, struct node *node,
                         const struct tensor *const x[], enum net_mode mode)
{
    const struct norm_ops *op = &net->device->ops->norm;
    const struct norm_vectors *v = &own_of(node)->v;
    int channels = x[0]->shape.c;
    if (mode == NET_TRAIN) {
        if (node->sums_from < 0)
            op->stats(net->device, x[0], v->sum, v->sumsq);
        sync_sums(net, v->sum, v->sumsq, channels);
        op->finalize(net->device, v, channels, count_of(net, x[0]), NET_NORM_EPS);
    } else {
        op->finalize_running(net->device, v, channels, NET_NORM_EPS);
    }
    norm_remake(net, node, x[0]);
}

static enum status norm_forward_tangent(struct net *net, struct node *node,
                                        const struct tensor *const x_tangent[])
{
    (void)x_tangent;
    return status_fail(
        STATUS_USAGE,
        "%s.%s: batch norm couples the samples of a batch and has no tangent "
        "pass; use a network without batch norm for gradient penalties",
        net->name, node->name);
}

static void norm_dgrad(struct net *net, struct node *node, const struct tensor *const x[],
                       const struct tensor *dy, struct tensor *const dx[])
{
    const struct norm_ops *op = &net->device->ops->norm;
    const struct norm_vectors *v = &own_of(node)->v;
    float slope;
    enum activation activation = node_fused_activation(net, node, &slope);
    op->act_reduce(net->device, dy, x[0], v, activation, slope);
    sync_sums(net, v->sum_dz, v->sum_dz_xhat, x[0]->shape.c);
    op->act_dgrad(net->device, dy, x[0], v, activation, slope, count_of(net, x[0]),
                  dx[0]);
}

// The sums that dgrad has just made are the gradients. Synced, every rank holds the same
// sums of all ranks, and gradients are summed over the ranks afterwards: only the first
// rank gives its own.
static void add_sum(struct net *net, float *grad, const float *sum, size_t channels,
                    int accumulates)
{
    if (!accumulates)
        net->device->ops->memory.zero(net->device, grad, channels * sizeof(float));
    if (!net->has_synced_norm || net->device->rank == 0)
        net->device->ops->pointwise.add(net->device, grad, sum, channels);
}

static void norm_wgrad(struct net *net, struct node *node, const struct tensor *delta,
                       const struct tensor *x, float *grads, int accumulates)
{
    (void)delta;
    add_sum(net, grads + net->param[node->weight].offset, own_of(node)->v.sum_dz_xhat,
            (size_t)x->shape.c, accumulates);
}

static void norm_bias_grad(struct net *net, struct node *node, const struct tensor *delta,
                           float *grads, int accumulates)
{
    add_sum(net, grads + net->param[node->bias].offset, own_of(node)->v.sum_dz,
            (size_t)delta->shape.c, accumulates);
}

static void norm_commit(struct net *net, struct node *node)
{
    net->device->ops->norm.commit(net->device, &own_of(node)->v, node->y.shape.c,
                                  net->norm_momentum);
}

/* ---- the plan -------------------------------------------------------------------- */

// Channels as stored: a convolution may write that many sums.
static void norm_reserve(struct net *net, struct node *node, struct arena *arena)
{
    (void)net;
    struct norm_vectors *v = &own_of(node)->v;
    float **vectors[] = {&v->sum,     &v->sumsq,        &v->mean,
                         &v->inv_std, &v->unbiased_var, &v->scale,
                         &v->shift,   &v->sum_dz,       &v->sum_dz_xhat};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        arena_reserve(arena, (void **)vectors[i],
                      (size_t)node->y.c_stored * sizeof(float));
}

static void norm_bind(struct net *net, struct node *node)
{
    struct norm_own *own = own_of(node);
    own->v.gamma = net->params + net->param[node->weight].offset;
    own->v.beta = net->params + net->param[node->bias].offset;
    own->v.running_mean = net->buffers + net->buffer[own->running].offset;
    own->v.running_var = net->buffers + net->buffer[own->running + 1].offset;
}

int net_add_batch_norm(struct net *net, const char *name, int input)
{
    struct shape shape = net_shape_of(net, input), channels = {1, 1, 1, shape.c};
    struct node *node = net_add_node(net, &batch_norm_kind, name, &input, 1);
    CHECK(node->edge[0].from != NET_INPUT, "net %s begins with a batch norm", net->name);
    net_set_output(net, node, shape);
    node->weight = net_add_param(net, PARAM_GAMMA, channels);
    node->bias = net_add_param(net, PARAM_BETA, channels);
    own_of(node)->running = net_add_buffer(net, "running_mean", shape.c, 0.0f);
    net_add_buffer(net, "running_var", shape.c, 1.0f);
    return net->node_count - 1;
}

const struct layer_kind batch_norm_kind = {
    .name = "batch norm",
    .policy = {"batch norm",
               {STORED_AS_LAYER, STORED_AS_LAYER, STORED_AS_LAYER, STORED_F32, STORED_F32,
                STORED_F32},
               "in none of autocast's lists: runs in its input's type; statistics "
               "and parameters f32 as in cuDNN"},
    .is_in_place = 1,
    .computes_activation = 1,
    .undoes_own_activation = 1,
    .wants_sums = 1,
    .can_remake = 1,
    .reserve = norm_reserve,
    .bind = norm_bind,
    .forward = norm_forward,
    .remake = norm_remake,
    .forward_tangent = norm_forward_tangent,
    .dgrad = norm_dgrad,
    .wgrad = norm_wgrad,
    .bias_grad = norm_bias_grad,
    .commit = norm_commit};
