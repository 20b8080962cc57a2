/* net_build.c - adding rows to the table, with their shapes and parameters. */
#include "nets/net.h"

#include <stdio.h>
#include <string.h>

#include "nets/layer.h"
#include "nets/precision.h"

#define PARAM_ALIGN 16 // elements: 32 bytes in half, a whole vector in f32

void net_begin(struct net *net, struct device *device, const char *name, enum dtype dtype,
               struct shape input)
{
    memset(net, 0, sizeof *net);
    net->device = device;
    net->name = name;
    net->dtype = dtype;
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
    layer->undone_by = layer->skip = layer->skipped_by = -1;
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
    enum dtype dtype = precision_of(precision_op(layer), ROLE_PARAMETER, layer->dtype);
    param->shape = device_tensor(net->device, dtype, shape, role == PARAM_WEIGHT);
    param->offset = net->param_elements;
    size_t stored = tensor_stored(&param->shape);
    net->param_elements += (stored + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
    return net->param_count++;
}

// The types of a row's tensors, as the policy has them for its op and its own type.
static void set_types(struct layer *layer)
{
    enum op_kind op = precision_op(layer);
    layer->y.dtype = precision_of(op, ROLE_OUTPUT, layer->dtype);
    if (!layer_is_conv(layer))
        return;
    layer->conv.dtype = precision_of(op, ROLE_OPERAND, layer->dtype);
    layer->conv.out_dtype = layer->y.dtype;
}

static struct shape channels_shape(int channels)
{
    return (struct shape){1, 1, 1, channels};
}

static void finish_conv(struct net *net, struct layer *layer, struct conv_desc desc,
                        int is_transposed, int has_bias)
{
    layer->conv = desc;
    layer->is_transposed = is_transposed;
    struct shape out = is_transposed ? desc.x : desc.y;
    layer->y = device_tensor(net->device, layer->dtype, out, 0);
    set_types(layer);
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
    layer->y = device_tensor(net->device, layer->dtype, shape, 0);
    set_types(layer);
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
    layer->y = device_tensor(net->device, layer->dtype, shape, 0);
    set_types(layer);
    layer->activation = activation;
    layer->slope = slope;
}

// The residual row that was added last, or -1.
static int last_residual(const struct net *net)
{
    int row = net->layer_count - 1;
    while (row >= 0 && net->layers[row].kind != LAYER_RESIDUAL)
        row--;
    return row;
}

void net_add_residual(struct net *net, const char *name, int row)
{
    CHECK(row >= 0 && row >= last_residual(net) && row < net->layer_count - 1,
          "net %s, %s skips from row %d of %d", net->name, name, row, net->layer_count);
    struct shape shape = shape_before(net), skipped = net->layers[row].y.shape;
    char text[SHAPE_TEXT], skipped_text[SHAPE_TEXT];
    CHECK(shape_equal(shape, skipped), "net %s, %s adds %s and %s", net->name, name,
          shape_text(shape, text), shape_text(skipped, skipped_text));
    net->layers[row].skipped_by = net->layer_count;
    struct layer *layer = add_layer(net, LAYER_RESIDUAL, name);
    layer->y = device_tensor(net->device, layer->dtype, shape, 0);
    set_types(layer);
    layer->skip = row;
}

void net_make_head_f32(struct net *net)
{
    struct layer *head = &net->layers[net->layer_count - 1];
    CHECK(head->weight >= 0 && head->kind != LAYER_BATCH_NORM, "net %s", net->name);
    head->is_logit = 1;
    set_types(head);
}

void net_hold_f32(struct net *net, int row)
{
    struct layer *layer = &net->layers[row];
    layer->holds_f32 = 1;
    layer->dtype = DTYPE_F32;
    set_types(layer);
    if (layer->input < 0)
        net->input.dtype = net->input_tangent.dtype = DTYPE_F32;
}
