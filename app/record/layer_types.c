#include "app/record/layer_types.h"

#include "app/files/atomic_file.h"
#include "nets/precision.h"

/* The types of one layer, by name. */
struct layer_types {
    char layer[NET_NAME_MAX + 8];
    const char *op, *operands, *output, *gradients, *parameters;
};

static struct layer_types types_of(const struct net *net, const struct node *node)
{
    const struct op_policy *policy = node_policy(node);
    int has_parameters = node->weight >= 0;
    struct layer_types types = {
        .op = policy->op,
        .operands = dtype_name(precision_of(policy, USE_OPERAND, node->dtype)),
        .output = dtype_name(node->y.dtype),
        .gradients = dtype_name(precision_of(policy, USE_GRADIENT, node->dtype)),
        .parameters =
            has_parameters ? dtype_name(net->param[node->weight].shape.dtype) : "-"};
    snprintf(types.layer, sizeof types.layer, "%.6s.%s", net->name, node->name);
    return types;
}

void layer_types_print(FILE *stream, const struct net *net)
{
    fprintf(stream, "  %-14s%-24s%-10s%-8s%-11s%s\n",
            net->name[0] == 'g' ? "Generator" : "Discriminator", "op", "operands",
            "output", "gradients", "parameters");
    for (int row = 0; row < net->node_count; row++) {
        struct layer_types types = types_of(net, &net->node[row]);
        fprintf(stream, "  %-14s%-24s%-10s%-8s%-11s%s\n", types.layer, types.op,
                types.operands, types.output, types.gradients, types.parameters);
    }
}

enum status layer_types_write(const char *path, const struct net *const *nets, int count)
{
    struct atomic_file file;
    TRY(atomic_open(&file, path));
    const char *joint = "{\"layers\": [\n";
    for (int i = 0; i < count; i++)
        for (int row = 0; row < nets[i]->node_count; row++) {
            struct layer_types types = types_of(nets[i], &nets[i]->node[row]);
            fprintf(file.stream,
                    "%s  {\"layer\": \"%s\", \"op\": \"%s\", \"operands\": \"%s\", "
                    "\"output\": \"%s\", \"gradients\": \"%s\", \"parameters\": \"%s\"}",
                    joint, types.layer, types.op, types.operands, types.output,
                    types.gradients, types.parameters);
            joint = ",\n";
        }
    fputs("\n]}\n", file.stream);
    return atomic_commit(&file);
}
