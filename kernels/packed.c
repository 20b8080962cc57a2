#include "kernels/packed.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

static size_t pixels_of(const struct tensor *tensor)
{
    return (size_t)tensor->shape.n * (size_t)tensor->shape.h * (size_t)tensor->shape.w;
}

void packed_download(struct device *device, const struct tensor *tensor, float *stored,
                     float *packed)
{
    device->ops->memory.download(device, stored, tensor->data, tensor_bytes(tensor));
    size_t channels = (size_t)tensor->shape.c;
    for (size_t pixel = 0; pixel < pixels_of(tensor); pixel++)
        memcpy(packed + pixel * channels, stored + pixel * (size_t)tensor->c_stored,
               channels * sizeof *packed);
}

enum status packed_upload(struct device *device, const struct tensor *tensor,
                          const float *packed)
{
    float *stored = calloc(1, tensor_bytes(tensor));
    TRY_MEMORY(stored, "%zu bytes of a tensor", tensor_bytes(tensor));
    size_t channels = (size_t)tensor->shape.c;
    for (size_t pixel = 0; pixel < pixels_of(tensor); pixel++)
        memcpy(stored + pixel * (size_t)tensor->c_stored, packed + pixel * channels,
               channels * sizeof *packed);
    device->ops->memory.upload(device, tensor->data, stored, tensor_bytes(tensor));
    free(stored);
    return STATUS_OK;
}
