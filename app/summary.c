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

void summary_print(FILE *stream, const struct net *net)
{
    fprintf(stream, "  %-14s%-15s %10s  %-18s %s\n",
            net->name[0] == 'g' ? "Generator" : "Discriminator", "layer", "parameters",
            "output", "type");
    for (int i = 0; i < net->layer_count; i++) {
        const struct layer *layer = &net->layers[i];
        const char *kind = layer->kind == LAYER_ACTIVATION
                               ? activation_word(layer->activation)
                               : layer_passes(layer->kind)->kind;
        char output[SHAPE_TEXT], name[NET_NAME_MAX + 4];
        shape_text(layer->y.shape, output);
        snprintf(name, sizeof name, "%s.%s", net->name, layer->name);
        fprintf(stream, "  %-14s%-15s %10zu  %-18s %s\n", name, kind,
                layer_parameters(net, i), output, dtype_name(layer->y.dtype));
    }
    fprintf(stream, "  %-14s%-15s %10zu  %.1f MMAC forward per image\n", "total", "",
            summary_parameters(net), net_macs(net) / 1e6);
}
