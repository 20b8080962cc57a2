#include "nets/survey.h"

#include <stdio.h>
#include <string.h>

void survey_begin(struct survey *survey, struct device *device)
{
    memset(survey, 0, sizeof *survey);
    survey->device = device;
}

static void add(struct survey *survey, const struct net *net, int row,
                enum survey_kind kind, const struct tensor *tensor)
{
    CHECK(survey->count < SURVEY_MAX, "%d tensors", survey->count);
    survey->entry[survey->count] = (struct survey_entry){net, row, kind};
    survey->spans_host[survey->count++] = (struct survey_span){
        .data = tensor->data, .n = tensor_stored(tensor), .dtype = tensor->dtype};
}

void survey_add_activations(struct survey *survey, struct net *net)
{
    for (int row = 0; row < net->layer_count; row++)
        if (net->layers[row].fused_into < 0) // else the same memory as the row before
            add(survey, net, row, SURVEY_ACTIVATION, &net->layers[row].y);
}

void survey_add_gradients(struct survey *survey, struct net *net)
{
    for (int i = net->param_count - 1; i >= 0; i--) {
        struct tensor gradient = net_param_tensor(net, i, net->grads);
        add(survey, net, net->param[i].layer, SURVEY_WEIGHT_GRADIENT, &gradient);
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

void survey_look(struct survey *survey, const struct scaler_state *gate,
                 struct survey_stats *stats)
{
    survey->device->ops->survey.survey(survey->device, survey->spans, survey->count, gate,
                                       stats);
}

int survey_first_nonfinite(const struct survey *survey, const struct survey_stats *stats,
                           struct nonfinite_place *place)
{
    static const char *const words[] = {
        [SURVEY_ACTIVATION] = "activation", [SURVEY_WEIGHT_GRADIENT] = "weight gradient"};
    for (int i = 0; i < survey->count; i++) {
        if (stats[i].inf + stats[i].nan == 0)
            continue;
        const struct survey_entry *entry = &survey->entry[i];
        snprintf(place->layer, sizeof place->layer, "%.6s.%s", entry->net->name,
                 entry->net->layers[entry->row].name);
        place->tensor = words[entry->kind];
        return 1;
    }
    return 0;
}
