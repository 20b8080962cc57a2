/* net.c - walking the graph: forward from the first node, backward from the last. */
#include "nets/net.h"

#include "nets/kind.h"

struct tensor *net_output(struct net *net)
{
    return &net->node[net->node_count - 1].y;
}

/* ---- edges ----------------------------------------------------------------------- */

static const struct tensor *edge_input(const struct net *net, const struct edge *edge,
                                       const struct tensor *x)
{
    if (edge->is_cast)
        return &edge->x;
    return edge->from == NET_INPUT ? x : &net->node[edge->from].y;
}

const struct tensor *net_node_input(const struct net *net, int index,
                                    const struct tensor *x)
{
    return edge_input(net, &net->node[index].edge[0], x);
}

int net_begins_backward(const struct net *net, int index)
{
    const struct node *node = &net->node[index];
    int last = net->node_count - 1;
    return index == last ||
           (node->kind->undoes_own_activation && node->fused_activation == last);
}

const struct tensor *net_node_dy(const struct net *net, int index,
                                 const struct backward *pass)
{
    return net_begins_backward(net, index) ? pass->dy : &net->node[index].dy;
}

static void cast(struct net *net, const struct tensor *from, struct tensor *to)
{
    net->device->ops->pointwise.cast(net->device, from, to);
}

// Where the gradient of what an edge reads is collected; NULL where it is not asked for.
static struct tensor *edge_target(struct net *net, const struct edge *edge,
                                  const struct backward *pass)
{
    return edge->from == NET_INPUT ? pass->dx : &net->node[edge->from].dy;
}

static void join(struct net *net, struct edge *edge, struct tensor *target)
{
    if (target && edge->join == JOIN_CAST)
        cast(net, &edge->dx, target);
    if (target && edge->join == JOIN_ADD)
        net->device->ops->pointwise.add_tensors(net->device, target, &edge->dx, target);
}

int net_only_reader(const struct net *net, int index)
{
    int reader = -1;
    for (int i = index + 1; i < net->node_count; i++)
        for (int k = 0; k < net->node[i].edge_count; k++)
            if (net->node[i].edge[k].from == index) {
                if (reader >= 0)
                    return -1;
                reader = i;
            }
    return reader;
}

int net_passes_through(const struct net *net, int index)
{
    const struct node *node = &net->node[index];
    int into = node->fused_into;
    return node->undone_by >= 0 ||
           (into >= 0 && net->node[into].kind->undoes_own_activation);
}

enum activation node_fused_activation(const struct net *net, const struct node *node,
                                      float *slope)
{
    if (node->fused_activation < 0) {
        *slope = 0.0f;
        return ACTIVATION_NONE;
    }
    *slope = net->node[node->fused_activation].slope;
    return net->node[node->fused_activation].activation;
}

/* ---- forward --------------------------------------------------------------------- */

const struct tensor *net_forward(struct net *net, const struct tensor *x,
                                 enum net_mode mode)
{
    CHECK(shape_equal(x->shape, net->input.shape) && x->dtype == net->input.dtype,
          "net %s reads another tensor than it was planned for", net->name);
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        const struct tensor *inputs[NODE_INPUTS_MAX];
        for (int k = 0; k < node->edge_count; k++) {
            struct edge *edge = &node->edge[k];
            if (edge->is_cast)
                cast(net, &net->node[edge->from].y, &edge->x);
            inputs[k] = edge_input(net, edge, x);
        }
        node->kind->forward(net, node, inputs, mode);
        if (mode == NET_TRAIN && node->kind->commit)
            node->kind->commit(net, node);
    }
    return net_output(net);
}

enum status net_forward_tangent(struct net *net, const struct tensor *x_tangent)
{
    CHECK(net->options & NET_TANGENT, "net %s has no room for tangents", net->name);
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        const struct tensor *tangents[NODE_INPUTS_MAX];
        for (int k = 0; k < node->edge_count; k++) {
            struct edge *edge = &node->edge[k];
            tangents[k] =
                edge->from == NET_INPUT ? x_tangent : &net->node[edge->from].tangent;
            if (!edge->is_cast)
                continue;
            cast(net, tangents[k], &edge->dx);
            tangents[k] = &edge->dx;
        }
        TRY(node->kind->forward_tangent(net, node, tangents));
    }
    return STATUS_OK;
}

/* ---- backward -------------------------------------------------------------------- */

// What node `index` put out, if that is not kept, for its reader's wgrad.
static void remake(struct net *net, int index)
{
    struct node *node = &net->node[index];
    if (node->fused_into >= 0)
        node = &net->node[node->fused_into];
    // Its input is another node's: no batch norm reads the net's (layers/batch_norm.c).
    node->kind->remake(net, node, edge_input(net, &node->edge[0], NULL));
}

// True where the node's wgrad reads an output that has to be made again for it.
static int reads_remade(const struct net *net, const struct node *node)
{
    int from = node->edge[0].from;
    return from >= 0 && net->node[from].is_remade && node->kind->only_wgrad_reads_input;
}

void net_recompute(struct net *net)
{
    for (int i = 0; i < net->node_count; i++)
        if (reads_remade(net, &net->node[i]) && !net->node[i].edge[0].is_cast)
            remake(net, net->node[i].edge[0].from);
}

static void weight_gradients(struct net *net, struct node *node,
                             const struct backward *pass, const struct tensor *dy,
                             const struct tensor *x)
{
    if (pass->grads && node->kind->wgrad)
        node->kind->wgrad(net, node, dy, x, pass->grads, pass->accumulates);
    if (pass->grads && node->kind->bias_grad)
        node->kind->bias_grad(net, node, dy, pass->grads, pass->accumulates);
}

// What a node reads and where its dgrad writes. True where that is wanted of any edge.
static int resolve_edges(struct net *net, struct node *node, const struct backward *pass,
                         const struct tensor *x[], struct tensor *dx[])
{
    int is_wanted = 0;
    for (int k = 0; k < node->edge_count; k++) {
        struct edge *edge = &node->edge[k];
        struct tensor *target = edge_target(net, edge, pass);
        x[k] = edge_input(net, edge, pass->x);
        dx[k] = target && edge->join != JOIN_NONE ? &edge->dx : target;
        is_wanted |= dx[k] != NULL;
    }
    return is_wanted;
}

void net_backward_node(struct net *net, const struct backward *pass, int index)
{
    struct node *node = &net->node[index];
    const struct tensor *dy = net_node_dy(net, index, pass), *x[NODE_INPUTS_MAX] = {0};
    struct tensor *dx[NODE_INPUTS_MAX];
    int is_wanted = resolve_edges(net, node, pass, x, dx);
    // An input that is made again lies where its gradient goes: wgrad comes first.
    int is_remade = pass->grads && reads_remade(net, node);
    if (is_remade) {
        if (!node->edge[0].is_cast)
            remake(net, node->edge[0].from);
        weight_gradients(net, node, pass, dy, x[0]);
    }
    // Otherwise dgrad does: batch norm's wgrad reads sums that its dgrad makes.
    if (is_wanted)
        node->kind->dgrad(net, node, x, dy, dx);
    if (!is_remade)
        weight_gradients(net, node, pass, dy, x[0]);
    for (int k = 0; k < node->edge_count; k++)
        join(net, &node->edge[k], edge_target(net, &node->edge[k], pass));
}

void net_backward(struct net *net, const struct backward *pass)
{
    CHECK(!(net->options & NET_INFERENCE), "net %s only samples", net->name);
    CHECK(!pass->dx || (net->options & NET_INPUT_GRAD),
          "net %s has no room for its input's gradient", net->name);
    for (int i = net->node_count - 1; i >= 0; i--)
        net_backward_node(net, pass, i);
}

void net_node_pass(struct net *net, const struct backward *pass, int index,
                   enum pass_kind kind)
{
    struct node *node = &net->node[index];
    const struct tensor *dy = net_node_dy(net, index, pass), *x[NODE_INPUTS_MAX] = {0};
    struct tensor *dx[NODE_INPUTS_MAX];
    int is_wanted = resolve_edges(net, node, pass, x, dx);
    if (kind == PASS_FORWARD)
        node->kind->forward(net, node, x, NET_TRAIN);
    else if (kind == PASS_WGRAD)
        weight_gradients(net, node, pass, dy, x[0]);
    else if (is_wanted)
        node->kind->dgrad(net, node, x, dy, dx);
}

/* ---- parameters ------------------------------------------------------------------ */

void net_params_changed(struct net *net)
{
    if (net->half)
        net->device->ops->optimizer.half_copy(net->device, net->params, net->half,
                                              net->dtype, net->param_elements);
}

struct tensor net_param_tensor(const struct net *net, int index, float *block)
{
    struct tensor tensor = net->param[index].shape;
    tensor.data = block + net->param[index].offset;
    return tensor;
}

double net_macs(const struct net *net)
{
    double macs = 0;
    for (int i = 0; i < net->node_count; i++)
        if (net->node[i].kind->macs)
            macs += net->node[i].kind->macs(&net->node[i]) / net->input.shape.n;
    return macs;
}
