#include "app/summary.h"

#include "nets/layer.h"

size_t summary_parameters(const struct net *net)
{
    size_t count = 0;
    for (int i = 0; i < net->param_count; i++)
        count += tensor_elements(&net->param[i].shape);
    return count;
}

static size_t layer_parameters(const struct net *net, int layer)
{
    size_t count = 0;
    for (int i = 0; i < net->param_count; i++)
        if (net->param[i].layer == layer)
            count += tensor_elements(&net->param[i].shape);
    return count;
}

static const char *activation_word(enum activation activation)
{
    static const char *const words[] = {[ACTIVATION_NONE] = "none",
                                        [ACTIVATION_RELU] = "relu",
                                        [ACTIVATION_LEAKY_RELU] = "leaky relu",
                                        [ACTIVATION_TANH] = "tanh"};
    return words[activation];
}

struct summary_row summary_row(const struct net *net, int index)
{
    const struct layer *layer = &net->layers[index];
    struct summary_row row = {.kind = layer->kind == LAYER_ACTIVATION
                                          ? activation_word(layer->activation)
                                          : layer_passes(layer->kind)->kind,
                              .parameters = layer_parameters(net, index),
                              .type = dtype_name(layer->y.dtype)};
    shape_text(layer->y.shape, row.output);
    snprintf(row.layer, sizeof row.layer, "%s.%s", net->name, layer->name);
    return row;
}

void summary_print(FILE *stream, const struct net *net)
{
    fprintf(stream, "  %-14s%-15s %10s  %-18s %s\n",
            net->name[0] == 'g' ? "Generator" : "Discriminator", "layer", "parameters",
            "output", "type");
    for (int i = 0; i < net->layer_count; i++) {
        struct summary_row row = summary_row(net, i);
        fprintf(stream, "  %-14s%-15s %10zu  %-18s %s\n", row.layer, row.kind,
                row.parameters, row.output, row.type);
    }
    fprintf(stream, "  %-14s%-15s %10zu  %.1f MMAC forward per image\n", "total", "",
            summary_parameters(net), net_macs(net) / 1e6);
}
