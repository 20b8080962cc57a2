#include "nets/precision.h"

#include <string.h>

#define LAYER STORED_AS_LAYER
#define F32 STORED_F32
#define NONE STORED_NOWHERE

const struct op_policy precision_loss = {
    "loss (BCE with logits)",
    {F32, F32, LAYER, NONE, NONE, F32},
    "autocast fp32: binary_cross_entropy_with_logits; its gradient is scaled "
    "in f32, then rounded to D's last layer"};

const struct op_policy precision_optimizer = {
    "Adam, average, checks",
    {F32, F32, F32, NONE, F32, F32},
    "outside autocast: GradScaler and the optimizer work on f32 masters"};

#undef LAYER
#undef F32
#undef NONE

const struct op_policy *node_policy(const struct node *node)
{
    return node->is_head ? node->kind->head_policy : &node->kind->policy;
}

enum dtype precision_of(const struct op_policy *policy, enum tensor_use use,
                        enum dtype layer)
{
    enum storage storage = policy->storage[use];
    CHECK(storage != STORED_NOWHERE, "%s, tensor %d", policy->op, (int)use);
    return storage == STORED_F32 ? DTYPE_F32 : layer;
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
             net->node[row].name);
    return matches(pattern, bytes, name);
}

void precision_hold_f32(struct net *net, const char *patterns)
{
    for (const char *next = patterns; next && *patterns; next = strchr(next, ',')) {
        next += *next == ',';
        size_t bytes = strcspn(next, ",");
        for (int row = 0; row < net->node_count; row++)
            if (names_row(next, bytes, net, row))
                net_hold_f32(net, row);
    }
}

static int names_any(const char *pattern, size_t bytes, const struct net *const *nets,
                     int count)
{
    for (int i = 0; i < count; i++)
        for (int row = 0; row < nets[i]->node_count; row++)
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
        for (int row = 0; row < nets[i]->node_count && used < sizeof names; row++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s.%s",
                                     used ? ", " : "", nets[i]->name,
                                     nets[i]->node[row].name);
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
    CHECK(shape_equal(one->shape, other->shape), "two tensors that meet differ in shape");
    return one->dtype == other->dtype && one->c_stored == other->c_stored;
}
