#include "app/record/checkpoint_tensors.h"

#include <stdio.h>
#include <string.h>

void state_list_block(struct state_list *list, const struct net *net, const char *role,
                      float *block)
{
    for (int i = 0; i < net->param_count; i++) {
        CHECK(list->count < STATE_TENSORS_MAX);
        struct state_tensor *entry = &list->entry[list->count++];
        snprintf(entry->name, sizeof entry->name, "%s.%s%s", net->name, role,
                 net->param[i].name);
        entry->tensor = net_param_tensor(net, i, block);
    }
}

void state_list_running(struct state_list *list, const struct net *net, const char *role)
{
    for (int i = 0; i < net->buffer_count; i++) {
        const struct net_buffer *buffer = &net->buffer[i];
        CHECK(list->count < STATE_TENSORS_MAX);
        struct state_tensor *entry = &list->entry[list->count++];
        snprintf(entry->name, sizeof entry->name, "%s.%s%s", net->name, role,
                 buffer->name);
        entry->tensor = tensor_of(DTYPE_F32, (struct shape){1, 1, 1, buffer->elements},
                                  net->buffers + buffer->offset);
    }
}

void state_list_all(struct state_list *list, struct trainer *trainer)
{
    list->count = 0;
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &trainer->gan.net[network];
        const struct adam *adam = &trainer->adam[network];
        state_list_block(list, net, "", net->params);
        state_list_running(list, net, "");
        state_list_block(list, net, "adam_m.", adam->m);
        state_list_block(list, net, "adam_v.", adam->v);
    }
    state_list_block(list, &trainer->gan.net[ROLE_G], "ema.", trainer->ema.average);
}

// Rank 4 for weights, 1 for vectors, as their readers elsewhere expect.
void state_describe(const struct state_tensor *entry, struct safetensor *out)
{
    struct shape s = entry->tensor.shape;
    *out = (struct safetensor){.bytes = tensor_elements(&entry->tensor) * sizeof(float)};
    snprintf(out->name, sizeof out->name, "%s", entry->name);
    snprintf(out->dtype, sizeof out->dtype, "F32");
    int is_vector = s.n == 1 && s.h == 1 && s.w == 1;
    out->rank = is_vector ? 1 : 4;
    const int64_t full[4] = {s.n, s.h, s.w, s.c};
    for (int i = 0; i < out->rank; i++)
        out->shape[i] = is_vector ? s.c : full[i];
}
