#include "nets/precision.h"

#include <string.h>

#include "nets/layer.h"

#define LAYER STORED_AS_LAYER
#define F32 STORED_F32
#define NONE STORED_NOWHERE

// Operand, output, gradient, wgrad, parameter, sum.
static const struct op_policy policies[] = {
    [OP_CONV] =
        {"conv",
         {LAYER, LAYER, LAYER, LAYER, F32, F32},
         "autocast lower_precision_fp: conv2d; cuDNN has no wgrad that reads halves "
         "and writes floats"},
    [OP_CONV_TRANSPOSE] = {"conv transpose",
                           {LAYER, LAYER, LAYER, LAYER, F32, F32},
                           "autocast lower_precision_fp: conv_transpose2d"},
    [OP_LINEAR] = {"linear",
                   {LAYER, LAYER, LAYER, LAYER, F32, F32},
                   "autocast lower_precision_fp: linear, addmm, matmul"},
    [OP_LOGIT] = {"logit (D's last layer)",
                  {LAYER, F32, LAYER, LAYER, F32, F32},
                  "a convolution or linear as above, whose sums go to an op of the fp32 "
                  "list without being rounded"},
    [OP_BATCH_NORM] =
        {"batch norm",
         {LAYER, LAYER, LAYER, F32, F32, F32},
         "in none of autocast's lists: runs in its input's type; statistics "
         "and parameters f32 as in cuDNN"},
    [OP_ACTIVATION] = {"relu, leaky relu, tanh",
                       {LAYER, LAYER, LAYER, NONE, NONE, NONE},
                       "in none of autocast's lists: runs in its input's type"},
    [OP_RESIDUAL] =
        {"residual add",
         {LAYER, LAYER, LAYER, NONE, NONE, F32},
         "in none of autocast's lists: add runs in its operands' type, in f32 and "
         "rounded "
         "once as in PyTorch's kernels; a skipped row is read in its own type"},
    [OP_LOSS] =
        {"loss (BCE with logits)",
         {F32, F32, LAYER, NONE, NONE, F32},
         "autocast fp32: binary_cross_entropy_with_logits; its gradient is scaled "
         "in f32, then rounded to D's last layer"},
    [OP_OPTIMIZER] =
        {"Adam, average, checks",
         {F32, F32, F32, NONE, F32, F32},
         "outside autocast: GradScaler and the optimizer work on f32 masters"},
};

#undef LAYER
#undef F32
#undef NONE

_Static_assert(sizeof policies / sizeof *policies == OP_KINDS, "a row for every op");

const struct op_policy *precision_policy(enum op_kind op)
{
    return &policies[op];
}

enum dtype precision_of(enum op_kind op, enum tensor_role role, enum dtype layer)
{
    enum storage storage = policies[op].storage[role];
    CHECK(storage != STORED_NOWHERE, "%s, role %d", policies[op].op, (int)role);
    return storage == STORED_F32 ? DTYPE_F32 : layer;
}

enum op_kind precision_op(const struct layer *layer)
{
    switch (layer->kind) {
    case LAYER_CONV: return layer->is_logit ? OP_LOGIT : OP_CONV;
    case LAYER_CONV_TRANSPOSE: return layer->is_logit ? OP_LOGIT : OP_CONV_TRANSPOSE;
    case LAYER_LINEAR: return layer->is_logit ? OP_LOGIT : OP_LINEAR;
    case LAYER_BATCH_NORM: return OP_BATCH_NORM;
    case LAYER_RESIDUAL: return OP_RESIDUAL;
    case LAYER_ACTIVATION: break;
    }
    return OP_ACTIVATION;
}

void precision_print(FILE *stream)
{
    static const char *const words[] = {
        [STORED_NOWHERE] = "-", [STORED_AS_LAYER] = "half", [STORED_F32] = "f32"};
    static const char *const columns[] = {
        [ROLE_OPERAND] = "operands",     [ROLE_OUTPUT] = "output",
        [ROLE_GRADIENT] = "gradients",   [ROLE_WGRAD] = "dW",
        [ROLE_PARAMETER] = "parameters", [ROLE_SUM] = "sums"};
    fprintf(stream, "%-24s", "op");
    for (int role = 0; role < TENSOR_ROLES; role++)
        fprintf(stream, "%-11s", columns[role]);
    fprintf(stream, "source\n");
    for (int op = 0; op < OP_KINDS; op++) {
        fprintf(stream, "%-24s", policies[op].op);
        for (int role = 0; role < TENSOR_ROLES; role++)
            fprintf(stream, "%-11s", words[policies[op].storage[role]]);
        fprintf(stream, "%s\n", policies[op].source);
    }
    fprintf(
        stream,
        "\nhalf is the type of the layer: fp16 or bf16 by --precision, --g-precision "
        "and\n--d-precision, f32 in an fp32 network and where --fp32-layers names the "
        "layer.\nSource of the lists: PyTorch, aten/src/ATen/autocast_mode.h (CUDA).\n");
}

/* ---- layers that stay f32 -------------------------------------------------------- */

// True if `name` is `pattern` [bytes long], with any characters where it has a *.
static int matches(const char *pattern, size_t bytes, const char *name)
{
    if (bytes == 0)
        return *name == '\0';
    if (*pattern != '*')
        return *name == *pattern && matches(pattern + 1, bytes - 1, name + 1);
    while (bytes > 0 && *pattern == '*') {
        pattern++;
        bytes--;
    }
    for (;; name++) {
        if (matches(pattern, bytes, name))
            return 1;
        if (*name == '\0')
            return 0;
    }
}

static int names_row(const char *pattern, size_t bytes, const struct net *net, int row)
{
    char name[2 * NET_NAME_MAX];
    snprintf(name, sizeof name, "%.*s.%s", NET_NAME_MAX - 2, net->name,
             net->layers[row].name);
    return matches(pattern, bytes, name);
}

void precision_hold_f32(struct net *net, const char *patterns)
{
    for (const char *next = patterns; next && *patterns; next = strchr(next, ',')) {
        next += *next == ',';
        size_t bytes = strcspn(next, ",");
        for (int row = 0; row < net->layer_count; row++)
            if (names_row(next, bytes, net, row))
                net_hold_f32(net, row);
    }
}

static int names_any(const char *pattern, size_t bytes, const struct net *const *nets,
                     int count)
{
    for (int i = 0; i < count; i++)
        for (int row = 0; row < nets[i]->layer_count; row++)
            if (names_row(pattern, bytes, nets[i], row))
                return 1;
    return 0;
}

static enum status refuse(const char *pattern, size_t bytes,
                          const struct net *const *nets, int count)
{
    char names[768] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++)
        for (int row = 0; row < nets[i]->layer_count && used < sizeof names; row++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s.%s",
                                     used ? ", " : "", nets[i]->name,
                                     nets[i]->layers[row].name);
    return status_fail(STATUS_USAGE,
                       "--fp32-layers: \"%.*s\" names no layer; the layers are %s (* "
                       "stands for any characters)",
                       (int)(bytes < 64 ? bytes : 64), pattern, names);
}

enum status precision_check_patterns(const char *patterns, const struct net *const *nets,
                                     int count)
{
    for (const char *next = patterns; next && *patterns; next = strchr(next, ',')) {
        next += *next == ',';
        size_t bytes = strcspn(next, ",");
        if (!names_any(next, bytes, nets, count))
            return refuse(next, bytes, nets, count);
    }
    return STATUS_OK;
}

/* ---- where two networks meet ----------------------------------------------------- */

int precision_agrees(const struct tensor *one, const struct tensor *other)
{
    CHECK(shape_equal(one->shape, other->shape), "an image and its twin differ in shape");
    return one->dtype == other->dtype && one->c_stored == other->c_stored;
}
