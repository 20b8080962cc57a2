#include "app/record/summary.h"

#include "nets/kind.h"

size_t summary_parameters(const struct net *net)
{
    size_t count = 0;
    for (int i = 0; i < net->param_count; i++)
        count += tensor_elements(&net->param[i].shape);
    return count;
}

static size_t node_parameters(const struct net *net, int node)
{
    size_t count = 0;
    for (int i = 0; i < net->param_count; i++)
        if (net->param[i].node == node)
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
    const struct node *node = &net->node[index];
    struct summary_row row = {
        .kind = node->kind->name ? node->kind->name : activation_word(node->activation),
        .parameters = node_parameters(net, index),
        .type = dtype_name(node->y.dtype)};
    shape_text(node->y.shape, row.output);
    snprintf(row.layer, sizeof row.layer, "%s.%s", net->name, node->name);
    return row;
}

void summary_print(FILE *stream, const struct net *net)
{
    fprintf(stream, "  %-14s%-15s %10s  %-18s %s\n",
            net->name[0] == 'g' ? "Generator" : "Discriminator", "layer", "parameters",
            "output", "type");
    for (int i = 0; i < net->node_count; i++) {
        struct summary_row row = summary_row(net, i);
        fprintf(stream, "  %-14s%-15s %10zu  %-18s %s\n", row.layer, row.kind,
                row.parameters, row.output, row.type);
    }
    fprintf(stream, "  %-14s%-15s %10zu  %.1f MMAC forward per image\n", "total", "",
            summary_parameters(net), net_macs(net) / 1e6);
}
