#include "tests/cuda/fibers/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/backend.h"
#include "kernels/ref/ref.h"

/* What an op does when a call of the CUDA runtime failed: fibers fail in no other way
 * than by our mistake. */
void cuda_keep_error(struct device *device, const char *op, cudaError_t error)
{
    CHECK(error == cudaSuccess, "%s on %s: CUDA error %d", op, device->name, (int)error);
}

static void close_device(struct device *device)
{
    struct cuda_backend *backend = cuda_backend(device);
    free(backend->partial);
    free(backend);
}

// Memory, queue, group and convolutions have no kernel of their own; all after them have.
static void check_nothing_is_refs(const struct ops *ops)
{
    struct ops ref;
    ref_fill_ops(&ref);
    for (size_t at = offsetof(struct ops, norm); at < sizeof ref; at += sizeof(void *))
        CHECK(memcmp((const char *)ops + at, (const char *)&ref + at, sizeof(void *)) !=
                  0,
              "an op on fibers is ref's: %zu", at / sizeof(void *));
}

static struct cuda_backend *new_backend(void)
{
    struct cuda_backend *backend = calloc(1, sizeof *backend);
    size_t bytes = CUDA_PARTIAL_FLOATS * sizeof(float);
    if (!backend || !(backend->partial = aligned_alloc(256, bytes))) {
        free(backend);
        return NULL;
    }
    memset(backend->partial, 0xff, bytes); // NaN, like all that nobody has written
    strcpy(backend->name, "fibers");
    backend->compute_capability = 75;
    backend->multiprocessors = 4; // few, so that grids are strided over
    ref_fill_ops(&backend->ops);
    cuda_fill_norm(&backend->ops.norm);
    cuda_fill_pointwise(&backend->ops.pointwise);
    cuda_fill_resample(&backend->ops.resample);
    cuda_fill_image(&backend->ops.image);
    cuda_fill_loss(&backend->ops.loss);
    cuda_fill_optimizer(&backend->ops.optimizer);
    cuda_fill_scaler(&backend->ops.optimizer);
    cuda_fill_survey(&backend->ops.survey);
    check_nothing_is_refs(&backend->ops);
    return backend;
}

struct device *fiber_device_open(void)
{
    struct device *device = calloc(1, sizeof *device);
    struct cuda_backend *backend = device ? new_backend() : NULL;
    if (!backend) {
        free(device);
        status_fail(STATUS_FAILED, "fibers: no memory for a device");
        return NULL;
    }
    device->name = backend->name;
    device->ops = &backend->ops;
    device->backend = backend;
    device->close = close_device;
    const char *multiple = getenv("FIBER_CHANNELS");
    device->channel_multiple = multiple ? atoi(multiple) : 8;
    device->threads = 1;
    device->world = 1;
    strcpy(device->description, "CUDA kernels on fibers of the CPU");
    if (device_accept(device) == STATUS_OK)
        return device;
    device_close(device);
    return NULL;
}
