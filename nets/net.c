/* net.c - walking the table: forward runs it down, backward runs it up. */
#include "nets/net.h"

#include "kernels/conv_check.h"
#include "nets/layer.h"

/* ---- passes ---------------------------------------------------------------------- */

struct tensor *net_layer_input(struct net *net, int index)
{
    int input = net->layers[index].input;
    if (net->layers[index].casts_input)
        return &net->layers[index].cast_x;
    return input < 0 ? &net->input : &net->layers[input].y;
}

static void cast(struct net *net, const struct tensor *from, struct tensor *to)
{
    net->device->ops->pointwise.cast(net->device, from, to);
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
        if (layer->casts_input)
            cast(net, &net->layers[layer->input].y, &layer->cast_x);
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
        if (layer->casts_input) {
            cast(net, x, &layer->cast_dx);
            x = &layer->cast_dx;
        }
        TRY(layer_passes(layer->kind)->forward_tangent(net, layer, x));
    }
    return STATUS_OK;
}

// What row `input` put out, if it is not kept, for its reader's wgrad.
static void remake(struct net *net, int input)
{
    struct layer *layer = &net->layers[input];
    if (layer->fused_into >= 0)
        layer = &net->layers[layer->fused_into];
    layer_remake(net, layer);
}

void net_recompute(struct net *net)
{
    for (int row = 1; row < net->layer_count; row++)
        if (net->layers[row - 1].is_remade && layer_is_conv(&net->layers[row]) &&
            !net->layers[row].casts_input)
            remake(net, row - 1);
}

void net_backward_row(struct net *net, int row, int what)
{
    struct layer *layer = &net->layers[row];
    const struct layer_passes *pass = layer_passes(layer->kind);
    struct tensor *x = net_layer_input(net, row);
    int input = layer->input;
    struct tensor *dx = input < 0 ? &net->input_grad : &net->layers[input].dy;
    int has_wgrad = (what & NET_WGRAD) && pass->wgrad,
        accumulates = !!(what & NET_ACCUMULATE);
    // An input that is made again lies where its gradient goes: wgrad comes first.
    int is_remade = has_wgrad && input >= 0 && net->layers[input].is_remade;
    if (is_remade) {
        if (!layer->casts_input)
            remake(net, input);
        pass->wgrad(net, layer, &layer->dy, x, accumulates);
    }
    // Otherwise dgrad does: batch norm's wgrad reads sums that its dgrad makes.
    if (input >= 0 || (what & NET_DGRAD))
        pass->dgrad(net, layer, x, layer->casts_input ? &layer->cast_dx : dx);
    if (layer->casts_input)
        cast(net, &layer->cast_dx, dx);
    if (has_wgrad && !is_remade)
        pass->wgrad(net, layer, &layer->dy, x, accumulates);
    // The row below is read by a residual row too, whose turn was before.
    if (input >= 0 && net->layers[input].skipped_by >= 0)
        net->device->ops->pointwise.add_tensors(
            net->device, dx, &net->layers[net->layers[input].skipped_by].skip_dy, dx);
}

void net_backward(struct net *net, int what)
{
    CHECK(!(net->options & NET_INFERENCE), "net %s only samples", net->name);
    CHECK(!(what & NET_DGRAD) || (net->options & NET_INPUT_GRAD),
          "net %s has no room for its input's gradient", net->name);
    for (int row = net->layer_count - 1; row >= 0; row--)
        net_backward_row(net, row, what);
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
        if (layer_is_conv(&net->layers[i]))
            macs += conv_macs(conv) / conv->y.n;
    }
    return macs;
}
