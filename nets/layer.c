#include "nets/layer.h"

/* ---- convolution, transposed convolution, dense ---------------------------------- */

static struct tensor weight_of(struct net *net, const struct layer *layer)
{
    struct tensor weight = net->param[layer->weight].shape;
    size_t offset = net->param[layer->weight].offset;
    if (layer->conv.dtype != DTYPE_F32)
        weight.data = (uint16_t *)net->half + offset;
    else
        weight.data = net->params + offset;
    weight.dtype = layer->conv.dtype;
    return weight;
}

static void conv_apply(struct net *net, const struct layer *layer,
                       const struct tensor *in, const struct conv_epilogue *epilogue,
                       struct tensor *out)
{
    const struct conv_ops *op = &net->device->ops->conv;
    struct tensor weight = weight_of(net, layer);
    if (layer->is_transposed)
        op->dgrad(net->device, layer->plan, in, &weight, epilogue, out);
    else
        op->forward(net->device, layer->plan, in, &weight, epilogue, out);
}

static void conv_forward(struct net *net, struct layer *layer, const struct tensor *x,
                         enum net_mode mode)
{
    struct conv_epilogue epilogue = {0};
    if (layer->bias >= 0)
        epilogue.bias = net->params + net->param[layer->bias].offset;
    if (layer->fused_activation >= 0) {
        const struct layer *activation = &net->layers[layer->fused_activation];
        epilogue.activation = activation->activation;
        epilogue.slope = activation->slope;
    }
    if (layer->feeds_norm >= 0 && mode == NET_TRAIN) {
        struct norm_vectors *norm = &net->layers[layer->feeds_norm].norm;
        epilogue.sum = norm->sum;
        epilogue.sumsq = norm->sumsq;
    }
    conv_apply(net, layer, x, &epilogue, &layer->y);
}

// Linear in x, so its tangent is itself without the bias.
static enum status conv_forward_tangent(struct net *net, struct layer *layer,
                                        const struct tensor *x_tangent)
{
    conv_apply(net, layer, x_tangent, NULL, &layer->tangent);
    return STATUS_OK;
}

static void conv_dgrad(struct net *net, struct layer *layer, const struct tensor *x,
                       struct tensor *dx)
{
    const struct conv_ops *op = &net->device->ops->conv;
    struct tensor weight = weight_of(net, layer);
    struct conv_epilogue undo = {.activation = layer->conv.input_activation,
                                 .slope = layer->conv.input_slope,
                                 .undo = x};
    int undoes = undo.activation != ACTIVATION_NONE;
    if (layer->is_transposed)
        op->forward(net->device, layer->plan, &layer->dy, &weight, undoes ? &undo : NULL,
                    dx);
    else
        op->dgrad(net->device, layer->plan, &layer->dy, &weight, undoes ? &undo : NULL,
                  dx);
}

static void conv_wgrad(struct net *net, struct layer *layer, const struct tensor *delta,
                       const struct tensor *input, int accumulate)
{
    float *grad = net->grads + net->param[layer->weight].offset;
    // A transposed convolution's output is the convolution's x: the two roles swap.
    const struct tensor *x = layer->is_transposed ? delta : input;
    const struct tensor *dy = layer->is_transposed ? input : delta;
    net->device->ops->conv.wgrad(net->device, layer->plan, x, dy, grad, accumulate);
    if (layer->bias >= 0)
        net->device->ops->pointwise.bias_grad(
            net->device, delta, net->grads + net->param[layer->bias].offset, accumulate);
}

/* ---- batch norm ------------------------------------------------------------------ */

// Values per channel that the statistics are over.
static int64_t norm_count(const struct net *net, const struct tensor *x)
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

static void fused_activation_of(const struct net *net, const struct layer *layer,
                                enum activation *activation, float *slope)
{
    *activation = ACTIVATION_NONE;
    *slope = 0.0f;
    if (layer->fused_activation < 0)
        return;
    *activation = net->layers[layer->fused_activation].activation;
    *slope = net->layers[layer->fused_activation].slope;
}

static void norm_forward(struct net *net, struct layer *layer, const struct tensor *x,
                         enum net_mode mode)
{
    const struct norm_ops *op = &net->device->ops->norm;
    enum activation activation;
    float slope;
    fused_activation_of(net, layer, &activation, &slope);
    if (mode == NET_TRAIN) {
        if (net->layers[layer->input].feeds_norm < 0)
            op->stats(net->device, x, layer->norm.sum, layer->norm.sumsq);
        sync_sums(net, layer->norm.sum, layer->norm.sumsq, x->shape.c);
        op->finalize(net->device, &layer->norm, x->shape.c, norm_count(net, x),
                     NET_NORM_EPS);
    } else {
        op->finalize_running(net->device, &layer->norm, x->shape.c, NET_NORM_EPS);
    }
    op->act_forward(net->device, x, &layer->norm, activation, slope, &layer->y);
}

void layer_remake(struct net *net, struct layer *norm)
{
    enum activation activation;
    float slope;
    fused_activation_of(net, norm, &activation, &slope);
    net->device->ops->norm.act_forward(net->device,
                                       net_layer_input(net, (int)(norm - net->layers)),
                                       &norm->norm, activation, slope, &norm->y);
}

static enum status norm_forward_tangent(struct net *net, struct layer *layer,
                                        const struct tensor *x_tangent)
{
    (void)x_tangent;
    return status_fail(
        STATUS_USAGE,
        "%s.%s: batch norm couples the samples of a batch and has no tangent "
        "pass; use a network without batch norm for gradient penalties",
        net->name, layer->name);
}

static void norm_dgrad(struct net *net, struct layer *layer, const struct tensor *x,
                       struct tensor *dx)
{
    const struct norm_ops *op = &net->device->ops->norm;
    enum activation activation;
    float slope;
    fused_activation_of(net, layer, &activation, &slope);
    op->act_reduce(net->device, &layer->dy, x, &layer->norm, activation, slope);
    sync_sums(net, layer->norm.sum_dz, layer->norm.sum_dz_xhat, x->shape.c);
    op->act_dgrad(net->device, &layer->dy, x, &layer->norm, activation, slope,
                  norm_count(net, x), dx);
}

// The sums that dgrad has just made are the gradients: dbeta = sum dz, dgamma = sum dz*xhat.
// Synced, every rank holds the same sums of all ranks, and gradients are summed over the
// ranks afterwards: only the first rank gives its own.
static void norm_wgrad(struct net *net, struct layer *layer, const struct tensor *delta,
                       const struct tensor *input, int accumulate)
{
    (void)delta;
    const float *sums[2] = {layer->norm.sum_dz_xhat, layer->norm.sum_dz};
    const int params[2] = {layer->weight, layer->bias};
    size_t channels = (size_t)input->shape.c;
    for (int i = 0; i < 2; i++) {
        float *grad = net->grads + net->param[params[i]].offset;
        if (!accumulate)
            net->device->ops->memory.zero(net->device, grad, channels * sizeof(float));
        if (net->has_synced_norm && net->device->rank > 0)
            continue;
        net->device->ops->pointwise.add(net->device, grad, sums[i], channels);
    }
}

static void norm_commit(struct net *net, struct layer *layer)
{
    net->device->ops->norm.commit(net->device, &layer->norm, layer->y.shape.c,
                                  net->norm_momentum);
}

/* ---- activation ------------------------------------------------------------------ */

static void activation_forward(struct net *net, struct layer *layer,
                               const struct tensor *x, enum net_mode mode)
{
    (void)mode;
    if (layer->fused_into < 0)
        net->device->ops->pointwise.act_forward(net->device, x, layer->activation,
                                                layer->slope, &layer->y);
}

static enum status activation_forward_tangent(struct net *net, struct layer *layer,
                                              const struct tensor *x_tangent)
{
    net->device->ops->pointwise.act_backward(net->device, x_tangent, &layer->y,
                                             layer->activation, layer->slope,
                                             &layer->tangent);
    return STATUS_OK;
}

static void activation_dgrad(struct net *net, struct layer *layer, const struct tensor *x,
                             struct tensor *dx)
{
    (void)x;
    // A batch norm undoes the activation itself, from its own input.
    if (layer->fused_into >= 0 && net->layers[layer->fused_into].kind == LAYER_BATCH_NORM)
        return;
    if (layer->undone_by >= 0)
        return;
    net->device->ops->pointwise.act_backward(net->device, &layer->dy, &layer->y,
                                             layer->activation, layer->slope, dx);
}

/* ---- residual addition ----------------------------------------------------------- */

static void residual_forward(struct net *net, struct layer *layer, const struct tensor *x,
                             enum net_mode mode)
{
    (void)mode;
    net->device->ops->pointwise.add_tensors(net->device, x, &net->layers[layer->skip].y,
                                            &layer->y);
}

static enum status residual_forward_tangent(struct net *net, struct layer *layer,
                                            const struct tensor *x_tangent)
{
    net->device->ops->pointwise.add_tensors(
        net->device, x_tangent, &net->layers[layer->skip].tangent, &layer->tangent);
    return STATUS_OK;
}

// The branch takes dy itself, in place but for a cast; the skipped row gets a copy, since the
// branch writes over dy.
static void residual_dgrad(struct net *net, struct layer *layer, const struct tensor *x,
                           struct tensor *dx)
{
    (void)x;
    const struct pointwise_ops *op = &net->device->ops->pointwise;
    op->cast(net->device, &layer->dy, &layer->skip_dy);
    if (dx->data != layer->dy.data)
        op->cast(net->device, &layer->dy, dx);
}

/* ---- the table ------------------------------------------------------------------- */

#define CONV_PASSES conv_forward, conv_forward_tangent, conv_dgrad, conv_wgrad, NULL

static const struct layer_passes passes[] = {
    [LAYER_CONV] = {"conv", CONV_PASSES},
    [LAYER_CONV_TRANSPOSE] = {"conv transpose", CONV_PASSES},
    [LAYER_LINEAR] = {"linear", CONV_PASSES},
    [LAYER_BATCH_NORM] = {"batch norm", norm_forward, norm_forward_tangent, norm_dgrad,
                          norm_wgrad, norm_commit},
    [LAYER_ACTIVATION] = {"activation", activation_forward, activation_forward_tangent,
                          activation_dgrad, NULL, NULL},
    [LAYER_RESIDUAL] = {"residual add", residual_forward, residual_forward_tangent,
                        residual_dgrad, NULL, NULL},
};

const struct layer_passes *layer_passes(enum layer_kind kind)
{
    return &passes[kind];
}

int layer_is_conv(const struct layer *layer)
{
    return layer->kind == LAYER_CONV || layer->kind == LAYER_CONV_TRANSPOSE ||
           layer->kind == LAYER_LINEAR;
}
