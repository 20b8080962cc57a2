#include "nets/nonfinite.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/half.h"

static int holds_nonfinite(const struct net *net, const struct tensor *tensor)
{
    size_t bytes = tensor_bytes(tensor), count = bytes / dtype_bytes(tensor->dtype);
    void *values = malloc(bytes);
    if (!values)
        return 0; // a name in the log is not worth the run
    net->device->ops->memory.download(net->device, values, tensor->data, bytes);
    int found = 0;
    for (size_t i = 0; i < count && !found; i++)
        found = !is_finite_f32(element_load(values, tensor->dtype, i));
    free(values);
    return found;
}

static int found_in(const struct net *net, int row, const char *tensor,
                    struct nonfinite_place *place)
{
    snprintf(place->layer, sizeof place->layer, "%.6s.%s", net->name,
             net->layers[row].name);
    place->tensor = tensor;
    return 1;
}

int nonfinite_activation(const struct net *net, struct nonfinite_place *place)
{
    for (int row = 0; row < net->layer_count; row++)
        if (holds_nonfinite(net, &net->layers[row].y))
            return found_in(net, row, "activation", place);
    return 0;
}

int nonfinite_gradient(const struct net *net, struct nonfinite_place *place)
{
    for (int i = net->param_count - 1; i >= 0; i--) {
        struct tensor gradient = net_param_tensor(net, i, net->grads);
        if (holds_nonfinite(net, &gradient))
            return found_in(net, net->param[i].layer, "weight gradient", place);
    }
    return 0;
}
