#include "nets/layers/kinds.h"
#include "nets/precision.h"

static void print_policy(FILE *stream, const struct op_policy *policy)
{
    static const char *const words[] = {
        [STORED_NOWHERE] = "-", [STORED_AS_LAYER] = "half", [STORED_F32] = "f32"};
    fprintf(stream, "%-24s", policy->op);
    for (int use = 0; use < TENSOR_USES; use++)
        fprintf(stream, "%-11s", words[policy->storage[use]]);
    fprintf(stream, "%s\n", policy->source);
}

// Of every kind, after the kind the head's that it shares with those before it.
static void print_policies(FILE *stream)
{
    static const struct layer_kind *const kinds[] = {
#define KIND(name) &name##_kind,
#include "nets/layers/kinds.def"
#undef KIND
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct op_policy *head = kinds[i]->head_policy;
        print_policy(stream, &kinds[i]->policy);
        if (head &&
            (i + 1 == sizeof kinds / sizeof *kinds || kinds[i + 1]->head_policy != head))
            print_policy(stream, head);
    }
    print_policy(stream, &precision_loss);
    print_policy(stream, &precision_optimizer);
}

void kinds_print_policies(FILE *stream)
{
    static const char *const columns[] = {
        [USE_OPERAND] = "operands",     [USE_OUTPUT] = "output",
        [USE_GRADIENT] = "gradients",   [USE_WGRAD] = "dW",
        [USE_PARAMETER] = "parameters", [USE_SUM] = "sums"};
    fprintf(stream, "%-24s", "op");
    for (int use = 0; use < TENSOR_USES; use++)
        fprintf(stream, "%-11s", columns[use]);
    fprintf(stream, "source\n");
    print_policies(stream);
    fprintf(
        stream,
        "\nhalf is the type of the layer: fp16 or bf16 by --precision, --g-precision "
        "and\n--d-precision, f32 in an fp32 network and where --fp32-layers names the "
        "layer.\nSource of the lists: PyTorch, aten/src/ATen/autocast_mode.h (CUDA).\n");
}
