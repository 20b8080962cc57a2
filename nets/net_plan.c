/* net_plan.c - decides what is fused, and where everything lies.
 *
 * Memory:
 *   - every row's output has its own place in a net that trains (the backward pass reads
 *     them); a net that only samples alternates between two regions;
 *   - gradients of outputs alternate between two regions: a convolution reads one and writes
 *     the other, batch norm and activations work in place;
 *   - where a row has another type than the one below it, a cast of that one's output has its
 *     own place too, and all casts of gradients share one region, for as long as a row takes;
 *   - with NET_RECOMPUTE an output of batch norm lies where its gradient will: it is read by
 *     the next row at once, and made again for that row's wgrad, before the gradient comes;
 *   - a fused activation shares its output and its gradient with the row it is fused into;
 *   - a row that a residual row skips to is read a second time, later: nothing that would lose
 *     its output is fused into it or left to be made again, its own activation is not undone
 *     before the skipped gradient has been added, and in a net that only samples such outputs
 *     alternate between two regions of their own. The skipped gradients share one region:
 *     blocks follow one another, so there is one at a time. */
#include "nets/net.h"

#include <string.h>

#include "nets/layer.h"
#include "nets/precision.h"

// Held rows are a matter of their own in f32 nets too: the f32 twin of a half net then has
// the same rows fused.
static int changes_type(const struct net *net, int row)
{
    return row > 0 && net->layers[row].holds_f32 != net->layers[row - 1].holds_f32;
}

// True where the row can compute the activation that follows it, and nobody else wants what it
// computes without.
static int takes_activation(const struct layer *layer)
{
    return (layer_is_conv(layer) || layer->kind == LAYER_BATCH_NORM) &&
           layer->skipped_by < 0;
}

static void plan_fusion(struct net *net)
{
    for (int i = 1; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i], *before = &net->layers[i - 1];
        if (changes_type(net, i))
            continue; // what is fused is one op, and an op has one type
        if (layer->kind == LAYER_ACTIVATION && takes_activation(before)) {
            before->fused_activation = i;
            layer->fused_into = i - 1;
        }
        if (layer->kind == LAYER_BATCH_NORM && layer_is_conv(before))
            before->feeds_norm = i;
        // A batch norm undoes its own activation; any other is undone by what reads it.
        if (layer_is_conv(layer) && before->kind == LAYER_ACTIVATION &&
            before->skipped_by < 0 && !changes_type(net, i - 1) &&
            (before->fused_into < 0 ||
             net->layers[before->fused_into].kind != LAYER_BATCH_NORM))
            before->undone_by = i;
    }
}

// What this row will ask of its convolution, so that a device can plan ahead.
static void declare_uses(struct net *net, int row)
{
    struct layer *layer = &net->layers[row];
    struct conv_desc *conv = &layer->conv;
    conv->is_transposed = layer->is_transposed;
    conv->is_inference = !!(net->options & NET_INFERENCE);
    conv->has_bias = layer->bias >= 0;
    conv->makes_sums = layer->feeds_norm >= 0;
    if (layer->fused_activation >= 0) {
        conv->activation = net->layers[layer->fused_activation].activation;
        conv->slope = net->layers[layer->fused_activation].slope;
    }
    const struct layer *below = row > 0 ? &net->layers[row - 1] : NULL;
    if (below && below->undone_by == row) {
        conv->input_activation = below->activation;
        conv->input_slope = below->slope;
    }
}

static enum status plan_convolutions(struct net *net)
{
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (!layer_is_conv(layer))
            continue;
        declare_uses(net, i);
        TRY(net->device->ops->conv.prepare(net->device, &layer->conv, &layer->plan));
    }
    return STATUS_OK;
}

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
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (layer->kind != LAYER_BATCH_NORM)
            continue;
        layer->norm.gamma = net->params + net->param[layer->weight].offset;
        layer->norm.beta = net->params + net->param[layer->bias].offset;
        layer->norm.running_mean = net->buffers + layer->norm_buffers;
        layer->norm.running_var = layer->norm.running_mean + layer->y.shape.c;
    }
    return STATUS_OK;
}

// `channels` as stored: a convolution may write that many sums.
static void reserve_norm_vectors(struct arena *arena, struct norm_vectors *norm,
                                 int channels)
{
    float **vectors[] = {&norm->sum,     &norm->sumsq,        &norm->mean,
                         &norm->inv_std, &norm->unbiased_var, &norm->scale,
                         &norm->shift,   &norm->sum_dz,       &norm->sum_dz_xhat};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        reserve_f32(arena, vectors[i], (size_t)channels);
}

/* Two regions that take turns, each as large as its largest tensor. */
struct alternation {
    size_t bytes[2];
    size_t offset[2];
};

static void alternation_grow(struct alternation *turns, int turn,
                             const struct tensor *tensor)
{
    size_t bytes = tensor_bytes(tensor);
    if (bytes > turns->bytes[turn])
        turns->bytes[turn] = bytes;
}

static void alternation_place(struct alternation *turns, struct arena *arena)
{
    for (int turn = 0; turn < 2; turn++)
        if (turns->bytes[turn])
            turns->offset[turn] = arena_region(arena, turns->bytes[turn]);
}

// Which region a row's output and its gradient use: convolutions change sides.
static void choose_turns(const struct net *net, int turn[NET_LAYERS_MAX + 1])
{
    turn[0] = 0; // of the net's input; row i is turn[i + 1]
    for (int i = 0; i < net->layer_count; i++)
        turn[i + 1] = layer_is_conv(&net->layers[i]) ? !turn[i] : turn[i];
}

static int has_own_output(const struct layer *layer)
{
    return layer->fused_activation < 0;
}

// Where a convolution reads a batch norm: its wgrad wants that output, its dgrad does not.
static void choose_remade(struct net *net)
{
    int is_asked = (net->options & NET_RECOMPUTE) && !(net->options & NET_INFERENCE);
    for (int row = 0; is_asked && row < net->layer_count; row++) {
        struct layer *norm = &net->layers[row];
        int top = has_own_output(norm) ? row : norm->fused_activation;
        if (norm->kind != LAYER_BATCH_NORM || top + 1 >= net->layer_count ||
            !layer_is_conv(&net->layers[top + 1]) || net->layers[top].skipped_by >= 0)
            continue;
        norm->is_remade = net->layers[top].is_remade = 1;
        net->unkept_bytes += tensor_bytes(&norm->y);
    }
}

static void plan_outputs(struct net *net, const int turn[])
{
    struct arena *arena = &net->activations;
    struct alternation turns = {0}, skips = {0};
    for (int i = 0, skip = 0; i < net->layer_count; i++) {
        alternation_grow(&turns, turn[i + 1], &net->layers[i].y);
        if (net->layers[i].skipped_by >= 0)
            alternation_grow(&skips, skip++ % 2, &net->layers[i].y);
    }
    if (net->options & NET_INFERENCE) {
        alternation_place(&turns, arena);
        alternation_place(&skips, arena);
    }
    for (int i = 0, skip = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (layer->kind == LAYER_BATCH_NORM)
            reserve_norm_vectors(arena, &layer->norm, layer->y.c_stored);
        if (!has_own_output(layer) || layer->is_remade)
            continue;
        if (!(net->options & NET_INFERENCE)) {
            arena_reserve(arena, &layer->y.data, tensor_bytes(&layer->y));
            net->kept_bytes += tensor_bytes(&layer->y);
        } else if (layer->skipped_by >= 0)
            arena_reserve_at(arena, &layer->y.data, skips.offset[skip++ % 2]);
        else
            arena_reserve_at(arena, &layer->y.data, turns.offset[turn[i + 1]]);
    }
}

static void plan_skipped_gradients(struct net *net)
{
    struct alternation one = {0};
    for (int i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_RESIDUAL)
            alternation_grow(&one, 0, &net->layers[i].dy);
    alternation_place(&one, &net->activations);
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (layer->kind != LAYER_RESIDUAL)
            continue;
        layer->skip_dy = layer->dy;
        arena_reserve_at(&net->activations, &layer->skip_dy.data, one.offset[0]);
    }
}

static void plan_gradients(struct net *net, const int turn[])
{
    struct arena *arena = &net->activations;
    struct alternation turns = {0};
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        layer->dy = layer->y;
        layer->dy.dtype = precision_of(precision_op(layer), ROLE_GRADIENT, layer->dtype);
        layer->dy.data = NULL;
        alternation_grow(&turns, turn[i + 1], &layer->dy);
    }
    net->input_grad = net->input;
    net->input_grad.data = NULL;
    if (net->options & NET_INPUT_GRAD)
        alternation_grow(&turns, turn[0], &net->input_grad);
    alternation_place(&turns, arena);
    for (int i = 0; i < net->layer_count; i++)
        arena_reserve_at(arena, &net->layers[i].dy.data, turns.offset[turn[i + 1]]);
    if (net->options & NET_INPUT_GRAD)
        arena_reserve_at(arena, &net->input_grad.data, turns.offset[turn[0]]);
}

// A net that only samples needs one cast at a time, one that trains reads them again.
static void plan_casts(struct net *net)
{
    struct arena *arena = &net->activations;
    struct alternation casts = {0}; // [0] of outputs, [1] of gradients
    for (int i = 1; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        const struct layer *below = &net->layers[i - 1];
        layer->casts_input = below->dtype != layer->dtype;
        if (!layer->casts_input)
            continue;
        layer->cast_x = device_tensor(net->device, layer->dtype, below->y.shape, 0);
        layer->cast_dx = layer->cast_x;
        alternation_grow(&casts, 1, &layer->cast_dx);
        if (net->options & NET_INFERENCE)
            alternation_grow(&casts, 0, &layer->cast_x);
    }
    alternation_place(&casts, arena);
    for (int i = 1; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (!layer->casts_input)
            continue;
        if (net->options & NET_INFERENCE)
            arena_reserve_at(arena, &layer->cast_x.data, casts.offset[0]);
        else
            arena_reserve(arena, &layer->cast_x.data, tensor_bytes(&layer->cast_x));
        arena_reserve_at(arena, &layer->cast_dx.data, casts.offset[1]);
    }
}

static void plan_tangents(struct net *net)
{
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        layer->tangent = layer->y;
        layer->tangent.data = NULL;
        arena_reserve(&net->activations, &layer->tangent.data,
                      tensor_bytes(&layer->tangent));
    }
}

enum status net_plan(struct net *net, int options)
{
    net->options = options;
    plan_fusion(net);
    TRY(plan_convolutions(net));
    TRY(plan_parameters(net));
    int turn[NET_LAYERS_MAX + 1];
    choose_turns(net, turn);
    arena_begin(&net->activations, net->device, "activations");
    choose_remade(net);
    plan_outputs(net, turn);
    plan_casts(net);
    if (!(options & NET_INFERENCE)) {
        plan_gradients(net, turn);
        plan_skipped_gradients(net);
    }
    if (options & NET_TANGENT)
        plan_tangents(net);
    TRY(arena_commit(&net->activations));
    for (int i = 0; i < net->layer_count; i++)
        if (net->layers[i].is_remade)
            net->layers[i].y.data = net->layers[i].dy.data;
    for (int i = 0; i < net->layer_count; i++)
        if (!has_own_output(&net->layers[i]))
            net->layers[i].y.data = net->layers[net->layers[i].fused_activation].y.data;
    return STATUS_OK;
}

void net_release(struct net *net)
{
    if (!net || !net->device)
        return;
    for (int i = 0; i < net->layer_count; i++)
        if (net->layers[i].plan)
            net->device->ops->conv.release(net->device, net->layers[i].plan);
    arena_release(&net->parameters);
    arena_release(&net->activations);
    memset(net, 0, sizeof *net);
}
