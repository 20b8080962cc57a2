/* net.c - building, planning and walking the table.
 *
 * Memory, decided once in net_plan():
 *   - every row's output has its own place in a net that trains (the backward pass reads
 *     them); a net that only samples alternates between two regions;
 *   - gradients of outputs alternate between two regions: a convolution reads one and writes
 *     the other, batch norm and activations work in place;
 *   - a fused activation shares its output and its gradient with the row it is fused into. */
#include "nets/net.h"

#include <stdio.h>
#include <string.h>

#include "nets/layer.h"

#define PARAM_ALIGN 16 // elements: 32 bytes in half, a whole vector in f32

/* ---- building -------------------------------------------------------------------- */

void net_begin(struct net *net, struct device *device, const char *name, enum dtype dtype,
               struct shape input)
{
    memset(net, 0, sizeof *net);
    net->device = device;
    net->name = name;
    net->dtype = dtype;
    net->batch = input.n;
    net->input = device_tensor(device, dtype, input, 0);
    net->input_tangent = net->input;
    net->norm_momentum = NET_NORM_MOMENTUM;
}

static struct shape shape_before(const struct net *net)
{
    return net->layer_count ? net->layers[net->layer_count - 1].y.shape
                            : net->input.shape;
}

static struct layer *add_layer(struct net *net, enum layer_kind kind, const char *name)
{
    CHECK(net->layer_count < NET_LAYERS_MAX, "net %s", net->name);
    struct layer *layer = &net->layers[net->layer_count];
    layer->kind = kind;
    snprintf(layer->name, sizeof layer->name, "%s", name);
    layer->input = net->layer_count - 1;
    layer->dtype = net->dtype;
    layer->weight = layer->bias = -1;
    layer->fused_activation = layer->fused_into = layer->feeds_norm = -1;
    net->layer_count++;
    return layer;
}

static int add_param(struct net *net, const struct layer *layer, enum param_role role,
                     struct shape shape)
{
    static const char *const suffix[] = {[PARAM_WEIGHT] = "weight",
                                         [PARAM_BIAS] = "bias",
                                         [PARAM_GAMMA] = "weight",
                                         [PARAM_BETA] = "bias"};
    CHECK(net->param_count < NET_PARAMS_MAX, "net %s", net->name);
    struct param *param = &net->param[net->param_count];
    snprintf(param->name, sizeof param->name, "%.*s.%s", NET_NAME_MAX - 8, layer->name,
             suffix[role]);
    param->layer = (int)(layer - net->layers);
    param->role = role;
    param->shape = device_tensor(net->device, DTYPE_F32, shape, role == PARAM_WEIGHT);
    param->offset = net->param_elements;
    size_t stored = tensor_stored(&param->shape);
    net->param_elements += (stored + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
    return net->param_count++;
}

static struct shape channels_shape(int channels)
{
    return (struct shape){1, 1, 1, channels};
}

static void finish_conv(struct net *net, struct layer *layer, struct conv_desc desc,
                        int is_transposed, int has_bias)
{
    desc.dtype = desc.out_dtype = net->dtype;
    layer->conv = desc;
    layer->is_transposed = is_transposed;
    struct shape out = is_transposed ? desc.x : desc.y;
    layer->y = device_tensor(net->device, net->dtype, out, 0);
    layer->weight =
        add_param(net, layer, PARAM_WEIGHT,
                  (struct shape){desc.y.c, desc.kernel, desc.kernel, desc.x.c});
    if (has_bias)
        layer->bias = add_param(net, layer, PARAM_BIAS, channels_shape(out.c));
}

void net_add_conv(struct net *net, const char *name, int out, int kernel, int stride,
                  int pad, int has_bias)
{
    struct shape x = shape_before(net);
    struct shape y = {x.n, (x.h + 2 * pad - kernel) / stride + 1,
                      (x.w + 2 * pad - kernel) / stride + 1, out};
    struct conv_desc desc = {
        .x = x, .y = y, .kernel = kernel, .stride = stride, .pad = pad};
    finish_conv(net, add_layer(net, LAYER_CONV, name), desc, 0, has_bias);
}

void net_add_conv_transpose(struct net *net, const char *name, int out, int kernel,
                            int stride, int pad, int has_bias)
{
    struct shape y = shape_before(net);
    struct shape x = {y.n, (y.h - 1) * stride - 2 * pad + kernel,
                      (y.w - 1) * stride - 2 * pad + kernel, out};
    struct conv_desc desc = {
        .x = x, .y = y, .kernel = kernel, .stride = stride, .pad = pad};
    finish_conv(net, add_layer(net, LAYER_CONV_TRANSPOSE, name), desc, 1, has_bias);
}

void net_add_linear(struct net *net, const char *name, struct shape out, int has_bias)
{
    struct shape in = shape_before(net);
    out.n = in.n;
    int is_transposed = out.h > 1;
    struct shape map = is_transposed ? out : in;
    struct shape point = is_transposed ? in : out;
    CHECK(point.h == 1 && point.w == 1 && map.h == map.w, "net %s, %s", net->name, name);
    struct conv_desc desc = {
        .x = map, .y = point, .kernel = map.h, .stride = 1, .pad = 0};
    finish_conv(net, add_layer(net, LAYER_LINEAR, name), desc, is_transposed, has_bias);
}

void net_add_batch_norm(struct net *net, const char *name)
{
    CHECK(net->layer_count > 0, "net %s begins with a batch norm", net->name);
    struct shape shape = shape_before(net);
    struct layer *layer = add_layer(net, LAYER_BATCH_NORM, name);
    layer->y = device_tensor(net->device, net->dtype, shape, 0);
    layer->weight = add_param(net, layer, PARAM_GAMMA, channels_shape(shape.c));
    layer->bias = add_param(net, layer, PARAM_BETA, channels_shape(shape.c));
    layer->norm_buffers = net->buffer_elements;
    net->buffer_elements += 2 * (size_t)shape.c;
}

void net_add_activation(struct net *net, const char *name, enum activation activation,
                        float slope)
{
    struct shape shape = shape_before(net);
    struct layer *layer = add_layer(net, LAYER_ACTIVATION, name);
    layer->y = device_tensor(net->device, net->dtype, shape, 0);
    layer->activation = activation;
    layer->slope = slope;
}

void net_make_head_f32(struct net *net)
{
    struct layer *head = &net->layers[net->layer_count - 1];
    CHECK(head->weight >= 0 && head->kind != LAYER_BATCH_NORM, "net %s", net->name);
    head->conv.out_dtype = DTYPE_F32;
    head->y.dtype = DTYPE_F32;
}

/* ---- planning -------------------------------------------------------------------- */

static int is_conv(const struct layer *layer)
{
    return layer->kind == LAYER_CONV || layer->kind == LAYER_CONV_TRANSPOSE ||
           layer->kind == LAYER_LINEAR;
}

static void plan_fusion(struct net *net)
{
    for (int i = 1; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i], *before = &net->layers[i - 1];
        if (layer->kind == LAYER_ACTIVATION && before->kind != LAYER_ACTIVATION) {
            before->fused_activation = i;
            layer->fused_into = i - 1;
        }
        if (layer->kind == LAYER_BATCH_NORM && is_conv(before))
            before->feeds_norm = i;
    }
}

static enum status plan_convolutions(struct net *net)
{
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (!is_conv(layer))
            continue;
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
        turn[i + 1] = is_conv(&net->layers[i]) ? !turn[i] : turn[i];
}

static int has_own_output(const struct layer *layer)
{
    return layer->fused_activation < 0;
}

static void plan_outputs(struct net *net, const int turn[])
{
    struct arena *arena = &net->activations;
    struct alternation turns = {0};
    for (int i = 0; i < net->layer_count; i++)
        alternation_grow(&turns, turn[i + 1], &net->layers[i].y);
    if (net->options & NET_INFERENCE)
        alternation_place(&turns, arena);
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        if (layer->kind == LAYER_BATCH_NORM)
            reserve_norm_vectors(arena, &layer->norm, layer->y.shape.c);
        if (!has_own_output(layer))
            continue;
        if (net->options & NET_INFERENCE)
            arena_reserve_at(arena, &layer->y.data, turns.offset[turn[i + 1]]);
        else
            arena_reserve(arena, &layer->y.data, tensor_bytes(&layer->y));
    }
}

static void plan_gradients(struct net *net, const int turn[])
{
    struct arena *arena = &net->activations;
    struct alternation turns = {0};
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        layer->dy = layer->y;
        layer->dy.dtype = layer->dtype; // a f32 head still gets its gradient in half
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
    plan_outputs(net, turn);
    if (!(options & NET_INFERENCE))
        plan_gradients(net, turn);
    if (options & NET_TANGENT)
        plan_tangents(net);
    TRY(arena_commit(&net->activations));
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

/* ---- passes ---------------------------------------------------------------------- */

struct tensor *net_layer_input(struct net *net, int index)
{
    int input = net->layers[index].input;
    return input < 0 ? &net->input : &net->layers[input].y;
}

struct tensor *net_output(struct net *net)
{
    return &net->layers[net->layer_count - 1].y;
}

struct tensor *net_output_grad(struct net *net)
{
    return &net->layers[net->layer_count - 1].dy;
}

void net_forward(struct net *net, enum net_mode mode)
{
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        const struct layer_passes *pass = layer_passes(layer->kind);
        pass->forward(net, layer, net_layer_input(net, i), mode);
        if (mode == NET_TRAIN && pass->commit)
            pass->commit(net, layer);
    }
}

enum status net_forward_tangent(struct net *net)
{
    CHECK(net->options & NET_TANGENT, "net %s has no room for tangents", net->name);
    for (int i = 0; i < net->layer_count; i++) {
        struct layer *layer = &net->layers[i];
        int input = layer->input;
        const struct tensor *x =
            input < 0 ? &net->input_tangent : &net->layers[input].tangent;
        TRY(layer_passes(layer->kind)->forward_tangent(net, layer, x));
    }
    return STATUS_OK;
}

void net_backward(struct net *net, int what)
{
    CHECK(!(net->options & NET_INFERENCE), "net %s only samples", net->name);
    CHECK(!(what & NET_DGRAD) || (net->options & NET_INPUT_GRAD),
          "net %s has no room for its input's gradient", net->name);
    for (int i = net->layer_count - 1; i >= 0; i--) {
        struct layer *layer = &net->layers[i];
        const struct layer_passes *pass = layer_passes(layer->kind);
        struct tensor *x = net_layer_input(net, i);
        int input = layer->input;
        struct tensor *dx = input < 0 ? &net->input_grad : &net->layers[input].dy;
        // Batch norm's wgrad reads sums that its dgrad makes: dgrad goes first.
        if (input >= 0 || (what & NET_DGRAD))
            pass->dgrad(net, layer, x, dx);
        if ((what & NET_WGRAD) && pass->wgrad)
            pass->wgrad(net, layer, &layer->dy, x, !!(what & NET_ACCUMULATE));
    }
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
    for (int i = 0; i < net->layer_count; i++) {
        const struct conv_desc *conv = &net->layers[i].conv;
        if (is_conv(&net->layers[i]))
            macs += (double)conv->y.h * conv->y.w * conv->y.c * conv->kernel *
                    conv->kernel * conv->x.c;
    }
    return macs;
}
