#include "nets/survey.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "kernels/half.h"

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

static void add(struct survey *survey, const struct net *net, int row,
                enum survey_kind kind, const struct tensor *tensor)
{
    CHECK(survey->count < SURVEY_MAX, "%d tensors", survey->count);
    survey->entry[survey->count] =
        (struct survey_entry){net, row, kind, tensor_elements(tensor), tensor->dtype};
    survey->spans_host[survey->count++] = (struct survey_span){
        .data = tensor->data, .n = tensor_stored(tensor), .dtype = tensor->dtype};
}

void survey_add_activations(struct survey *survey, struct net *net)
{
    for (int row = 0; row < net->layer_count; row++)
        // Else the same memory as the row before, or memory that is used again.
        if (net->layers[row].fused_into < 0 && !net->layers[row].is_remade)
            add(survey, net, row, SURVEY_ACTIVATION, &net->layers[row].y);
}

static void add_parameter(struct survey *survey, struct net *net, int param)
{
    struct tensor gradient = net_param_tensor(net, param, net->grads);
    add(survey, net, net->param[param].layer, SURVEY_WEIGHT_GRADIENT, &gradient);
}

void survey_add_gradients(struct survey *survey, struct net *net)
{
    for (int i = net->param_count - 1; i >= 0; i--)
        add_parameter(survey, net, i);
}

// True for an activation that is undone by the row below it or the one that reads it: its
// gradient is in memory only as that of the row below.
static int passes_through(const struct net *net, const struct layer *layer)
{
    if (layer->kind != LAYER_ACTIVATION || layer->fused_into < 0)
        return 0;
    return layer->undone_by >= 0 ||
           net->layers[layer->fused_into].kind == LAYER_BATCH_NORM;
}

void survey_add_backward(struct survey *survey, struct net *net, int what)
{
    for (int row = net->layer_count - 1; row >= 0; row--) {
        struct layer *layer = &net->layers[row];
        if (!passes_through(net, layer))
            add(survey, net, row, SURVEY_ACTIVATION_GRADIENT, &layer->dy);
        if (!(what & NET_WGRAD))
            continue;
        for (int i = net->param_count - 1; i >= 0; i--)
            if (net->param[i].layer == row)
                add_parameter(survey, net, i);
    }
}

enum status survey_commit(struct survey *survey)
{
    size_t bytes = (size_t)survey->count * sizeof *survey->spans;
    arena_begin(&survey->arena, survey->device, "list of tensors");
    arena_reserve(&survey->arena, (void **)&survey->spans, bytes);
    TRY(arena_commit(&survey->arena));
    survey->device->ops->memory.upload(survey->device, survey->spans, survey->spans_host,
                                       bytes);
    return STATUS_OK;
}

void survey_release(struct survey *survey)
{
    if (survey && survey->arena.device)
        arena_release(&survey->arena);
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

// Entries first.. of one kind that belong to `row`: their number.
static int entries_of(const struct survey *survey, int first, const struct net *net,
                      int row, enum survey_kind kind)
{
    int count = 0;
    while (first + count < survey->count && survey->entry[first + count].net == net &&
           survey->entry[first + count].row == row &&
           survey->entry[first + count].kind == kind)
        count += 1;
    return count;
}

void survey_backward(struct survey *survey, struct net *net, int what,
                     struct survey_stats *stats)
{
    int next = 0;
    while (next < survey->count && (survey->entry[next].net != net ||
                                    survey->entry[next].kind == SURVEY_ACTIVATION))
        next += 1;
    for (int row = net->layer_count - 1; row >= 0; row--) {
        int count = entries_of(survey, next, net, row, SURVEY_ACTIVATION_GRADIENT);
        look_at(survey, next, count, NULL, stats);
        next += count;
        net_backward_row(net, row, what);
        count = entries_of(survey, next, net, row, SURVEY_WEIGHT_GRADIENT);
        look_at(survey, next, count, NULL, stats);
        next += count;
    }
}

/* ---- reading the results --------------------------------------------------------- */

const char *survey_layer(const struct survey_entry *entry, char text[NET_NAME_MAX + 8])
{
    snprintf(text, NET_NAME_MAX + 8, "%.6s.%s", entry->net->name,
             entry->net->layers[entry->row].name);
    return text;
}

float survey_limit(const struct survey_entry *entry)
{
    const struct layer *layer = &entry->net->layers[entry->row];
    enum dtype dtype = entry->dtype;
    if (entry->kind == SURVEY_WEIGHT_GRADIENT && layer->kind != LAYER_BATCH_NORM)
        dtype = layer->dtype; // a convolution's product is rounded to that, then summed
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
