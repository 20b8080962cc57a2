/* net_plan.c - decides what is fused, and where everything lies.
 *
 * Time runs over the forward pass, node 0 to N-1, and then over the backward pass, node
 * N-1 at time N to node 0 at 2N-1. A buffer is in use over an interval of it; buffers
 * whose intervals do not meet share memory (liveness.h).
 *
 *   - Outputs of a net that trains are kept: the backward pass reads them, and so does
 *     who looks for the reason of an overflow. Those of a net that only samples live
 *     until their last reader has run.
 *   - The gradient of an output lives from the first of its readers that writes it, in
 *     backward order, until its own node's turn. A kind that works in place writes the
 *     gradient of what it reads over its own. A later reader writes into a buffer of its
 *     own, which is then added.
 *   - Where a node has another type than what it reads, it reads a cast, which a net
 *     that trains keeps, and its gradient is cast back.
 *   - With NET_RECOMPUTE an output that only one node's wgrad wants lies where its
 *     gradient will: it is read by that node at once, and made again for its wgrad,
 *     before the gradient comes.
 *   - A fused activation shares its output with the node it is fused into. */
#include <stdlib.h>
#include <string.h>

#include "nets/kind.h"
#include "nets/liveness.h"
#include "nets/precision.h"

/* ---- fusion ---------------------------------------------------------------------- */

// Held nodes are a matter of their own in f32 nets too: the f32 reference of a half net
// then has the same nodes fused.
static int changes_type(const struct net *net, int one, int other)
{
    return net->node[one].holds_f32 != net->node[other].holds_f32;
}

// True where no node but `reader` reads node `index`, in its own type: what is fused is
// one op, and an op has one type.
static int is_for_itself(const struct net *net, int index, int reader)
{
    return index >= 0 && net_only_reader(net, index) == reader &&
           !changes_type(net, index, reader);
}

static void fuse_activation(struct net *net, int index)
{
    struct node *node = &net->node[index];
    int from = node->edge[0].from;
    if (node->activation == ACTIVATION_NONE || !is_for_itself(net, from, index) ||
        !net->node[from].kind->computes_activation)
        return;
    net->node[from].fused_activation = index;
    node->fused_into = from;
}

static void fuse_sums(struct net *net, int index)
{
    struct node *node = &net->node[index];
    int from = node->edge[0].from;
    if (!node->kind->wants_sums || !net->node[from].kind->makes_sums ||
        changes_type(net, from, index) || net->node[from].sums_for >= 0)
        return;
    net->node[from].sums_for = index;
    node->sums_from = from;
}

// A kind that undoes its own activation has done so; any other is undone by what reads
// it.
static void fuse_undo(struct net *net, int index)
{
    struct node *node = &net->node[index];
    int from = node->edge[0].from;
    if (!node->kind->undoes_input_activation || !is_for_itself(net, from, index))
        return;
    struct node *below = &net->node[from];
    int producer = below->edge[0].from;
    if (below->activation == ACTIVATION_NONE || producer == NET_INPUT ||
        changes_type(net, producer, from) || net_passes_through(net, from))
        return;
    below->undone_by = index;
}

static void plan_fusion(struct net *net)
{
    for (int i = 0; i < net->node_count; i++) {
        fuse_activation(net, i);
        fuse_sums(net, i);
        fuse_undo(net, i);
    }
}

// Where the output of a batch norm is read by a convolution alone: its wgrad wants it,
// its dgrad does not.
static void choose_remade(struct net *net)
{
    int is_asked = (net->options & NET_RECOMPUTE) && !(net->options & NET_INFERENCE);
    for (int i = 0; is_asked && i < net->node_count; i++) {
        struct node *node = &net->node[i];
        int top = node->fused_activation >= 0 ? node->fused_activation : i;
        int reader = net_only_reader(net, top);
        if (!node->kind->can_remake || reader < 0 ||
            !net->node[reader].kind->only_wgrad_reads_input)
            continue;
        node->is_remade = net->node[top].is_remade = 1;
        net->unkept_bytes += tensor_bytes(&node->y);
    }
}

/* ---- buffers --------------------------------------------------------------------- */

/* A pointer and the buffer that it will point to. */
struct place {
    void **pointer;
    int buffer;
};

struct plan {
    struct net *net;
    struct life *life;
    struct place *place;
    int *y, *dy; // [node_count] buffers, or -1
    int *order;
    int life_count, place_count, room;
};

enum { NO_BUFFER = -1 };

static int forward_time(int index)
{
    return index;
}

static int backward_time(const struct net *net, int index)
{
    return 2 * net->node_count - 1 - index;
}

static int add_buffer(struct plan *plan, size_t bytes, int first, int last)
{
    CHECK(plan->life_count < plan->room, "net %s", plan->net->name);
    plan->life[plan->life_count] =
        (struct life){.bytes = bytes, .first = first, .last = last};
    return plan->life_count++;
}

static void put(struct plan *plan, void **pointer, int buffer)
{
    CHECK(plan->place_count < plan->room && buffer >= 0, "net %s", plan->net->name);
    plan->place[plan->place_count++] = (struct place){pointer, buffer};
}

static int same_storage(const struct tensor *one, const struct tensor *other)
{
    return one->dtype == other->dtype && tensor_bytes(one) == tensor_bytes(other);
}

static int last_reader(const struct net *net, int index)
{
    int last = index;
    for (int i = index + 1; i < net->node_count; i++)
        for (int k = 0; k < net->node[i].edge_count; k++)
            if (net->node[i].edge[k].from == index)
                last = i;
    CHECK(last > index || index + 1 == net->node_count, "net %s: no node reads %s",
          net->name, net->node[index].name);
    return last > index ? last : net->node_count;
}

/* ---- outputs --------------------------------------------------------------------- */

static void describe_casts(struct net *net)
{
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        for (int k = 0; k < node->edge_count; k++) {
            struct edge *edge = &node->edge[k];
            if (edge->from == NET_INPUT || node->kind->reads_any_type)
                continue;
            const struct node *from = &net->node[edge->from];
            edge->is_cast = from->y.dtype != node->dtype;
            edge->x = device_tensor(net->device, node->dtype, from->y.shape, 0);
        }
    }
}

// In a net that only samples: over what it reads, where no node reads that later.
static int takes_over_input(const struct plan *plan, int index)
{
    const struct net *net = plan->net;
    const struct node *node = &net->node[index];
    int from = node->edge[0].from;
    return node->kind->is_in_place && from >= 0 && !node->edge[0].is_cast &&
           !(net->options & NET_UNSHARED) && last_reader(net, from) == index &&
           same_storage(&node->y, &net->node[from].y);
}

static void plan_sampled_output(struct plan *plan, int index)
{
    const struct net *net = plan->net;
    const struct node *node = &net->node[index];
    int last = forward_time(last_reader(net, index));
    if (node->fused_into >= 0 || takes_over_input(plan, index)) {
        int buffer = plan->y[node->edge[0].from];
        plan->life[buffer].last = last;
        plan->y[index] = buffer;
        return;
    }
    plan->y[index] = add_buffer(plan, tensor_bytes(&node->y), forward_time(index), last);
}

static void plan_sampled_outputs(struct plan *plan)
{
    struct net *net = plan->net;
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        for (int k = 0; k < node->edge_count; k++)
            if (node->edge[k].is_cast)
                put(plan, &node->edge[k].x.data,
                    add_buffer(plan, tensor_bytes(&node->edge[k].x), forward_time(i),
                               forward_time(i)));
        plan_sampled_output(plan, i);
        put(plan, &node->y.data, plan->y[i]);
    }
}

static void keep_output(struct net *net, int index)
{
    struct node *node = &net->node[index];
    for (int k = 0; k < node->edge_count; k++)
        if (node->edge[k].is_cast)
            arena_reserve(&net->activations, &node->edge[k].x.data,
                          tensor_bytes(&node->edge[k].x));
    if (node->is_remade || node->fused_into >= 0)
        return;
    size_t bytes = tensor_bytes(&node->y),
           offset = arena_region(&net->activations, bytes);
    arena_reserve_at(&net->activations, &node->y.data, offset);
    if (node->fused_activation >= 0)
        arena_reserve_at(&net->activations, &net->node[node->fused_activation].y.data,
                         offset);
    net->kept_bytes += bytes;
}

/* ---- gradients ------------------------------------------------------------------- */

static void describe_gradients(struct net *net)
{
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        node->dy = node->y;
        node->dy.dtype = precision_of(node_policy(node), USE_GRADIENT, node->dtype);
        node->dy.data = NULL;
    }
    net->output_grad = net->node[net->node_count - 1].dy;
    net->input_grad = net->input;
    net->input_grad.data = NULL;
}

// True where the node writes the gradient of its first input over its own, which is not
// the caller's to be written over.
static int hands_over_gradient(const struct net *net, int index)
{
    const struct node *node = &net->node[index];
    int from = node->edge[0].from;
    if (net_begins_backward(net, index) || from == NET_INPUT || node->edge[0].is_cast)
        return 0;
    if (net_passes_through(net, index))
        return 1;
    return node->kind->is_in_place && !(net->options & NET_UNSHARED) &&
           same_storage(&node->dy, &net->node[from].dy);
}

static void plan_edge_gradient(struct plan *plan, int index, int k, int *input_grad)
{
    struct net *net = plan->net;
    struct node *node = &net->node[index];
    struct edge *edge = &node->edge[k];
    int now = backward_time(net, index), is_input = edge->from == NET_INPUT;
    if (!is_input && net_begins_backward(net, edge->from))
        return;
    int *target = is_input ? input_grad : &plan->dy[edge->from];
    int is_first = *target == NO_BUFFER, own = NO_BUFFER;
    const struct tensor *target_grad =
        is_input ? &net->input_grad : &net->node[edge->from].dy;
    if (k == 0 && hands_over_gradient(net, index))
        own = plan->dy[index];
    edge->dx = edge->is_cast ? edge->x : *target_grad;
    edge->join = !is_first ? JOIN_ADD : edge->is_cast ? JOIN_CAST : JOIN_NONE;
    if (is_first && !edge->is_cast && own != NO_BUFFER)
        *target = own;
    if (*target == NO_BUFFER)
        *target = add_buffer(plan, tensor_bytes(target_grad), now, now);
    int until = is_input ? 2 * net->node_count : backward_time(net, edge->from);
    plan->life[*target].last = until;
    if (edge->join == JOIN_NONE)
        return;
    if (own == NO_BUFFER)
        own = add_buffer(plan, tensor_bytes(&edge->dx), now, now);
    put(plan, &edge->dx.data, own);
}

static void plan_gradients(struct plan *plan)
{
    struct net *net = plan->net;
    int last = net->node_count - 1, input_grad = NO_BUFFER;
    int start = backward_time(net, last);
    plan->dy[last] = add_buffer(plan, tensor_bytes(&net->output_grad), start, start);
    put(plan, &net->output_grad.data, plan->dy[last]);
    for (int i = last; i >= 0; i--) {
        if (!net_begins_backward(net, i))
            put(plan, &net->node[i].dy.data, plan->dy[i]);
        for (int k = 0; k < net->node[i].edge_count; k++)
            if (net->node[i].edge[k].from != NET_INPUT || (net->options & NET_INPUT_GRAD))
                plan_edge_gradient(plan, i, k, &input_grad);
    }
    if (input_grad != NO_BUFFER)
        put(plan, &net->input_grad.data, input_grad);
}

/* In the buffer of its gradient. Of two outputs that wait for their readers at one time
 * of the forward pass the gradients meet in the backward pass, which is its mirror: they
 * never share memory. */
static void plan_remade(struct plan *plan)
{
    struct net *net = plan->net;
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        if (!node->is_remade)
            continue;
        int top = node->fused_activation >= 0 ? node->fused_activation : i;
        struct life *life = &plan->life[plan->dy[top]];
        put(plan, &node->y.data, plan->dy[top]);
        if (tensor_bytes(&node->y) > life->bytes)
            life->bytes = tensor_bytes(&node->y);
    }
}

/* ---- the arenas ------------------------------------------------------------------ */

static void reserve_f32(struct arena *arena, float **pointer, size_t elements)
{
    arena_reserve(arena, (void **)pointer, elements * sizeof(float));
}

static enum status plan_parameters(struct net *net)
{
    struct arena *arena = &net->parameters;
    arena_begin(arena, net->device, "parameters");
    reserve_f32(arena, &net->params, net->param_elements);
    if (!(net->options & NET_INFERENCE))
        reserve_f32(arena, &net->grads, net->param_elements);
    if (net->dtype != DTYPE_F32)
        arena_reserve(arena, &net->half, net->param_elements * dtype_bytes(net->dtype));
    if (net->buffer_elements)
        reserve_f32(arena, &net->buffers, net->buffer_elements);
    TRY(arena_commit(arena));
    for (int i = 0; i < net->node_count; i++)
        if (net->node[i].kind->bind)
            net->node[i].kind->bind(net, &net->node[i]);
    return STATUS_OK;
}

static enum status plan_kinds(struct net *net)
{
    for (int i = 0; i < net->node_count; i++)
        if (net->node[i].kind->prepare)
            TRY(net->node[i].kind->prepare(net, &net->node[i]));
    return STATUS_OK;
}

static void plan_tangents(struct net *net)
{
    for (int i = 0; i < net->node_count; i++) {
        struct node *node = &net->node[i];
        node->tangent = node->y;
        node->tangent.data = NULL;
        arena_reserve(&net->activations, &node->tangent.data,
                      tensor_bytes(&node->tangent));
    }
}

static void plan_buffers(struct plan *plan)
{
    struct net *net = plan->net;
    struct arena *arena = &net->activations;
    for (int i = 0; i < net->node_count; i++)
        if (net->node[i].kind->reserve)
            net->node[i].kind->reserve(net, &net->node[i], arena);
    describe_casts(net);
    if (net->options & NET_INFERENCE) {
        plan_sampled_outputs(plan);
    } else {
        for (int i = 0; i < net->node_count; i++)
            keep_output(net, i);
        describe_gradients(net);
        plan_gradients(plan);
        plan_remade(plan);
    }
    if (net->options & NET_TANGENT)
        plan_tangents(net);
}

static void place_buffers(struct plan *plan)
{
    struct arena *arena = &plan->net->activations;
    int is_shared = !(plan->net->options & NET_UNSHARED);
    size_t base =
        is_shared ? arena_region(arena,
                                 liveness_pack(plan->life, plan->life_count, plan->order))
                  : 0;
    for (int i = 0; !is_shared && i < plan->life_count; i++)
        plan->life[i].offset = arena_region(arena, plan->life[i].bytes);
    for (int i = 0; i < plan->place_count; i++)
        arena_reserve_at(arena, plan->place[i].pointer,
                         base + plan->life[plan->place[i].buffer].offset);
}

static enum status plan_activations(struct net *net)
{
    // At most a cast, a gradient and a place for it per edge, and two tensors per node.
    int nodes = net->node_count, room = nodes * (3 * NODE_INPUTS_MAX + 2) + 2;
    struct plan plan = {.net = net, .room = room};
    plan.life = calloc((size_t)room, sizeof *plan.life);
    plan.place = calloc((size_t)room, sizeof *plan.place);
    plan.order = calloc((size_t)room, sizeof *plan.order);
    plan.y = calloc(2 * (size_t)nodes, sizeof *plan.y);
    enum status status = STATUS_OK;
    if (!plan.life || !plan.place || !plan.order || !plan.y) {
        status = memory_missing("the plan of network %s", net->name);
    } else {
        plan.dy = plan.y + nodes;
        for (int i = 0; i < 2 * nodes; i++)
            plan.y[i] = NO_BUFFER;
        arena_begin(&net->activations, net->device, "activations");
        choose_remade(net);
        plan_buffers(&plan);
        place_buffers(&plan);
        status = arena_commit(&net->activations);
    }
    free(plan.life);
    free(plan.place);
    free(plan.order);
    free(plan.y);
    return status;
}

enum status net_plan(struct net *net, int options)
{
    CHECK(net->node_count > 0, "net %s is empty", net->name);
    net->options = options;
    plan_fusion(net);
    TRY(plan_kinds(net));
    TRY(plan_parameters(net));
    return plan_activations(net);
}
