#include "nets/survey.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/precision.h"

const char *survey_kind_name(enum survey_kind kind)
{
    static const char *const names[] = {[SURVEY_ACTIVATION] = "activation",
                                        [SURVEY_ACTIVATION_GRADIENT] =
                                            "activation gradient",
                                        [SURVEY_WEIGHT_GRADIENT] = "weight gradient"};
    return names[kind];
}

/* ---- the list -------------------------------------------------------------------- */

void survey_begin(struct survey *survey, struct device *device)
{
    memset(survey, 0, sizeof *survey);
    survey->device = device;
}

static void grow(struct survey *survey)
{
    int room = survey->room ? 2 * survey->room : 64;
    void *entries = realloc(survey->entry, (size_t)room * sizeof *survey->entry);
    if (entries)
        survey->entry = entries;
    void *spans = realloc(survey->spans_host, (size_t)room * sizeof *survey->spans_host);
    if (spans)
        survey->spans_host = spans;
    survey->is_cut |= !entries || !spans;
    survey->room = room;
}

static void add(struct survey *survey, const struct net *net, int node,
                enum survey_kind kind, const struct tensor *tensor)
{
    if (survey->count == survey->room)
        grow(survey);
    if (survey->is_cut)
        return;
    survey->entry[survey->count] =
        (struct survey_entry){net, node, kind, tensor_elements(tensor), tensor->dtype};
    survey->spans_host[survey->count++] = (struct survey_span){
        .data = tensor->data, .n = tensor_stored(tensor), .dtype = tensor->dtype};
}

void survey_add_activations(struct survey *survey, struct net *net)
{
    for (int i = 0; i < net->node_count; i++)
        // Else the same memory as the node before, or memory that is used again.
        if (net->node[i].fused_into < 0 && !net->node[i].is_remade)
            add(survey, net, i, SURVEY_ACTIVATION, &net->node[i].y);
}

static void add_parameter(struct survey *survey, const struct net *net, int param,
                          float *grads)
{
    struct tensor gradient = net_param_tensor(net, param, grads);
    add(survey, net, net->param[param].node, SURVEY_WEIGHT_GRADIENT, &gradient);
}

void survey_add_gradients(struct survey *survey, const struct net *net, float *grads)
{
    for (int i = net->param_count - 1; i >= 0; i--)
        add_parameter(survey, net, i, grads);
}

// True for an activation whose gradient is in memory only as that of the node it is fused
// into.
static int passes_through(const struct net *net, int index)
{
    return net->node[index].fused_into >= 0 && net_passes_through(net, index);
}

void survey_add_backward(struct survey *survey, const struct net *net,
                         const struct backward *pass)
{
    for (int node = net->node_count - 1; node >= 0; node--) {
        if (!passes_through(net, node))
            add(survey, net, node, SURVEY_ACTIVATION_GRADIENT,
                net_node_dy(net, node, pass));
        for (int i = net->param_count - 1; pass->grads && i >= 0; i--)
            if (net->param[i].node == node)
                add_parameter(survey, net, i, pass->grads);
    }
}

enum status survey_commit(struct survey *survey)
{
    size_t bytes = (size_t)survey->count * sizeof *survey->spans;
    if (survey->is_cut)
        return memory_missing("a list of %d tensors", survey->count);
    arena_begin(&survey->arena, survey->device, "list of tensors");
    arena_reserve(&survey->arena, (void **)&survey->spans, bytes);
    TRY(arena_commit(&survey->arena));
    survey->device->ops->memory.upload(survey->device, survey->spans, survey->spans_host,
                                       bytes);
    return STATUS_OK;
}

void survey_release(struct survey *survey)
{
    if (!survey)
        return;
    if (survey->arena.device)
        arena_release(&survey->arena);
    free(survey->entry);
    free(survey->spans_host);
    memset(survey, 0, sizeof *survey);
}

/* ---- looking --------------------------------------------------------------------- */

static void look_at(struct survey *survey, int first, int count,
                    const struct scaler_state *gate, struct survey_stats *stats)
{
    if (count > 0)
        survey->device->ops->survey.survey(survey->device, survey->spans + first, count,
                                           gate, stats + first);
}

void survey_look(struct survey *survey, const struct scaler_state *gate,
                 struct survey_stats *stats)
{
    look_at(survey, 0, survey->count, gate, stats);
}

void survey_look_at_activations(struct survey *survey, struct survey_stats *stats)
{
    int count = 0;
    while (count < survey->count && survey->entry[count].kind == SURVEY_ACTIVATION)
        count += 1;
    look_at(survey, 0, count, NULL, stats);
}

// Entries first.. of one kind that belong to `node`: their number.
static int entries_of(const struct survey *survey, int first, const struct net *net,
                      int node, enum survey_kind kind)
{
    int count = 0;
    while (first + count < survey->count && survey->entry[first + count].net == net &&
           survey->entry[first + count].node == node &&
           survey->entry[first + count].kind == kind)
        count += 1;
    return count;
}

void survey_backward(struct survey *survey, struct net *net, const struct backward *pass,
                     struct survey_stats *stats)
{
    int next = 0;
    while (next < survey->count && (survey->entry[next].net != net ||
                                    survey->entry[next].kind == SURVEY_ACTIVATION))
        next += 1;
    for (int node = net->node_count - 1; node >= 0; node--) {
        int count = entries_of(survey, next, net, node, SURVEY_ACTIVATION_GRADIENT);
        look_at(survey, next, count, NULL, stats);
        next += count;
        net_backward_node(net, pass, node);
        count = entries_of(survey, next, net, node, SURVEY_WEIGHT_GRADIENT);
        look_at(survey, next, count, NULL, stats);
        next += count;
    }
}

/* ---- reading the results --------------------------------------------------------- */

const char *survey_layer(const struct survey_entry *entry, char text[NET_NAME_MAX + 8])
{
    snprintf(text, NET_NAME_MAX + 8, "%.6s.%s", entry->net->name,
             entry->net->node[entry->node].name);
    return text;
}

float survey_limit(const struct survey_entry *entry)
{
    const struct node *node = &entry->net->node[entry->node];
    enum dtype dtype = entry->dtype;
    if (entry->kind == SURVEY_WEIGHT_GRADIENT) // it may be rounded before it is collected
        dtype = precision_of(node_policy(node), USE_WGRAD, node->dtype);
    return dtype == DTYPE_F16 ? F16_MAX : FLT_MAX;
}

int survey_first_nonfinite(const struct survey *survey, const struct survey_stats *stats,
                           struct nonfinite_place *place)
{
    for (int i = 0; i < survey->count; i++) {
        if (stats[i].inf + stats[i].nan == 0)
            continue;
        survey_layer(&survey->entry[i], place->layer);
        place->kind = survey->entry[i].kind;
        place->tensor = survey_kind_name(place->kind);
        place->entry = i;
        return 1;
    }
    return 0;
}
