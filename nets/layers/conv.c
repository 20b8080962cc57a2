/* conv.c - convolution, transposed convolution and dense layer: one op in three forms.
 *
 *   conv            y = conv(x, w) + b      dx = dgrad(dy, w)    dw = wgrad(x, dy)
 *   conv_transpose  y = dgrad(x, w) + b     dx = conv(dy, w)     dw = wgrad(dy, x)
 *   linear          the one or the other, with a kernel that covers its map
 *   db[c] = sum over n,h,w of dy
 * Linear in x, so the tangent is the op itself without the bias.
 * Fused: the activation that reads y; the sums that a batch norm wants of y; in dgrad the
 * gradient of the activation that made x. */
#include "kernels/conv_check.h"
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"
#include "nets/layers/norm_sums.h"
#include "nets/precision.h"

struct conv_own {
    struct conv_desc desc; // of the convolution that it is, or is the dgrad of
    struct conv_plan *plan;
    int is_transposed; // forward is the dgrad
};

_Static_assert(sizeof(struct conv_own) <= NODE_OWN_BYTES, "room for a convolution");

static struct conv_own *own_of(struct node *node)
{
    return (struct conv_own *)(void *)node->own;
}

static int is_conv(const struct node *node)
{
    return node->kind == &conv_kind || node->kind == &conv_transpose_kind ||
           node->kind == &linear_kind;
}

static const struct conv_own *conv_of(const struct node *node)
{
    return (const struct conv_own *)(const void *)node->own;
}

const struct conv_desc *node_conv(const struct node *node)
{
    return is_conv(node) ? &conv_of(node)->desc : NULL;
}

struct conv_plan *node_conv_plan(const struct node *node)
{
    return conv_of(node)->plan;
}

int node_conv_is_transposed(const struct node *node)
{
    return conv_of(node)->is_transposed;
}

/* ---- passes ---------------------------------------------------------------------- */

static struct tensor weight_of(const struct net *net, const struct node *node)
{
    struct tensor weight = net->param[node->weight].shape;
    size_t offset = net->param[node->weight].offset;
    if (node->dtype != DTYPE_F32)
        weight.data = (uint16_t *)net->half + offset;
    else
        weight.data = net->params + offset;
    weight.dtype = node->dtype;
    return weight;
}

static void apply(struct net *net, const struct node *node, const struct tensor *in,
                  const struct conv_epilogue *epilogue, struct tensor *out)
{
    const struct conv_ops *op = &net->device->ops->conv;
    const struct conv_own *own = conv_of(node);
    struct tensor weight = weight_of(net, node);
    if (own->is_transposed)
        op->dgrad(net->device, own->plan, in, &weight, epilogue, out);
    else
        op->forward(net->device, own->plan, in, &weight, epilogue, out);
}

static void conv_forward(struct net *net, struct node *node,
                         const struct tensor *const x[], enum net_mode mode)
{
    struct conv_epilogue epilogue = {0};
    if (node->bias >= 0)
        epilogue.bias = net->params + net->param[node->bias].offset;
    epilogue.activation = node_fused_activation(net, node, &epilogue.slope);
    if (node->sums_for >= 0 && mode == NET_TRAIN)
        norm_sums(&net->node[node->sums_for], &epilogue.sum, &epilogue.sumsq);
    apply(net, node, x[0], &epilogue, &node->y);
}

static enum status conv_forward_tangent(struct net *net, struct node *node,
                                        const struct tensor *const x_tangent[])
{
    apply(net, node, x_tangent[0], NULL, &node->tangent);
    return STATUS_OK;
}

static void conv_dgrad(struct net *net, struct node *node, const struct tensor *const x[],
                       const struct tensor *dy, struct tensor *const dx[])
{
    const struct conv_ops *op = &net->device->ops->conv;
    const struct conv_own *own = conv_of(node);
    struct tensor weight = weight_of(net, node);
    struct conv_epilogue undo = {.activation = own->desc.input_activation,
                                 .slope = own->desc.input_slope,
                                 .undo = x[0]};
    int undoes = undo.activation != ACTIVATION_NONE;
    if (own->is_transposed)
        op->forward(net->device, own->plan, dy, &weight, undoes ? &undo : NULL, dx[0]);
    else
        op->dgrad(net->device, own->plan, dy, &weight, undoes ? &undo : NULL, dx[0]);
}

static void conv_wgrad(struct net *net, struct node *node, const struct tensor *delta,
                       const struct tensor *x, float *grads, int accumulates)
{
    const struct conv_own *own = conv_of(node);
    float *grad = grads + net->param[node->weight].offset;
    // A transposed convolution's output is the convolution's x: the two swap.
    net->device->ops->conv.wgrad(net->device, own->plan, own->is_transposed ? delta : x,
                                 own->is_transposed ? x : delta, grad, accumulates);
}

static void conv_bias_grad(struct net *net, struct node *node, const struct tensor *delta,
                           float *grads, int accumulates)
{
    if (node->bias >= 0)
        net->device->ops->pointwise.bias_grad(
            net->device, delta, grads + net->param[node->bias].offset, accumulates);
}

static double conv_node_macs(const struct node *node)
{
    return conv_macs(&conv_of(node)->desc);
}

/* ---- the plan -------------------------------------------------------------------- */

// What this node will ask of its convolution, so that a device can plan ahead.
static enum status conv_prepare(struct net *net, struct node *node)
{
    struct conv_own *own = own_of(node);
    struct conv_desc *desc = &own->desc;
    desc->dtype = precision_of(node_policy(node), USE_OPERAND, node->dtype);
    desc->out_dtype = node->y.dtype;
    desc->is_transposed = own->is_transposed;
    desc->is_inference = !!(net->options & NET_INFERENCE);
    desc->has_bias = node->bias >= 0;
    desc->makes_sums = node->sums_for >= 0;
    desc->activation = node_fused_activation(net, node, &desc->slope);
    int from = node->edge[0].from;
    const struct node *below = from >= 0 ? &net->node[from] : NULL;
    if (below && below->undone_by == (int)(node - net->node)) {
        desc->input_activation = below->activation;
        desc->input_slope = below->slope;
    }
    return net->device->ops->conv.prepare(net->device, desc, &own->plan);
}

static void conv_release(struct net *net, struct node *node)
{
    if (own_of(node)->plan)
        net->device->ops->conv.release(net->device, own_of(node)->plan);
}

/* ---- adding one ------------------------------------------------------------------ */

static int add(struct net *net, const struct layer_kind *kind, const char *name,
               int input, struct conv_desc desc, int is_transposed, int has_bias)
{
    struct node *node = net_add_node(net, kind, name, &input, 1);
    struct shape out = is_transposed ? desc.x : desc.y;
    *own_of(node) = (struct conv_own){.desc = desc, .is_transposed = is_transposed};
    net_set_output(net, node, out);
    node->weight = net_add_param(
        net, PARAM_WEIGHT, (struct shape){desc.y.c, desc.kernel, desc.kernel, desc.x.c});
    if (has_bias)
        node->bias = net_add_param(net, PARAM_BIAS, (struct shape){1, 1, 1, out.c});
    return net->node_count - 1;
}

int net_add_conv(struct net *net, const char *name, int input, int out, int kernel,
                 int stride, int pad, int has_bias)
{
    struct shape x = net_shape_of(net, input);
    struct shape y = {x.n, (x.h + 2 * pad - kernel) / stride + 1,
                      (x.w + 2 * pad - kernel) / stride + 1, out};
    struct conv_desc desc = {
        .x = x, .y = y, .kernel = kernel, .stride = stride, .pad = pad};
    return add(net, &conv_kind, name, input, desc, 0, has_bias);
}

int net_add_conv_transpose(struct net *net, const char *name, int input, int out,
                           int kernel, int stride, int pad, int has_bias)
{
    struct shape y = net_shape_of(net, input);
    struct shape x = {y.n, (y.h - 1) * stride - 2 * pad + kernel,
                      (y.w - 1) * stride - 2 * pad + kernel, out};
    struct conv_desc desc = {
        .x = x, .y = y, .kernel = kernel, .stride = stride, .pad = pad};
    return add(net, &conv_transpose_kind, name, input, desc, 1, has_bias);
}

int net_add_linear(struct net *net, const char *name, int input, struct shape out,
                   int has_bias)
{
    struct shape in = net_shape_of(net, input);
    out.n = in.n;
    int is_transposed = out.h > 1;
    struct shape map = is_transposed ? out : in;
    struct shape point = is_transposed ? in : out;
    CHECK(point.h == 1 && point.w == 1 && map.h == map.w, "net %s, %s", net->name, name);
    struct conv_desc desc = {
        .x = map, .y = point, .kernel = map.h, .stride = 1, .pad = 0};
    return add(net, &linear_kind, name, input, desc, is_transposed, has_bias);
}

/* ---- the rows -------------------------------------------------------------------- */

#define LAYER STORED_AS_LAYER
#define F32 STORED_F32

static const struct op_policy head_policy = {
    "logit (D's last layer)",
    {LAYER, F32, LAYER, LAYER, F32, F32},
    "a convolution or linear as above, whose sums go to an op of the fp32 "
    "list without being rounded"};

#define CONV_KIND                                                                        \
    .head_policy = &head_policy, .computes_activation = 1, .undoes_input_activation = 1, \
    .makes_sums = 1, .only_wgrad_reads_input = 1, .prepare = conv_prepare,               \
    .release = conv_release, .forward = conv_forward,                                    \
    .forward_tangent = conv_forward_tangent, .dgrad = conv_dgrad, .wgrad = conv_wgrad,   \
    .bias_grad = conv_bias_grad, .macs = conv_node_macs

const struct layer_kind conv_kind = {
    .name = "conv",
    .policy =
        {"conv",
         {LAYER, LAYER, LAYER, LAYER, F32, F32},
         "autocast lower_precision_fp: conv2d; cuDNN has no wgrad that reads halves "
         "and writes floats"},
    CONV_KIND};

const struct layer_kind conv_transpose_kind = {
    .name = "conv transpose",
    .policy = {"conv transpose",
               {LAYER, LAYER, LAYER, LAYER, F32, F32},
               "autocast lower_precision_fp: conv_transpose2d"},
    CONV_KIND};

const struct layer_kind linear_kind = {
    .name = "linear",
    .policy = {"linear",
               {LAYER, LAYER, LAYER, LAYER, F32, F32},
               "autocast lower_precision_fp: linear, addmm, matmul"},
    CONV_KIND};
