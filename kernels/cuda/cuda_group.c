/* cuda_group.c - several GPUs that train one run, by NCCL. Loaded only when there is a
 * group: a run on one GPU needs no NCCL.
 *
 * Calls are queued in the device's stream and captured with it. A rank that is lost would
 * let the others wait for ever; so the host never waits blindly while there is a group,
 * but asks NCCL for its state, and aborts the communicator when it has failed. NCCL
 * itself does not let go of a communicator while a graph lives that has captured a call
 * to it: so the graphs go first. */
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/module.h"

#define LIBRARY "libnccl.so.2"

_Static_assert(sizeof(ncclUniqueId) == DEVICE_GROUP_ID, "an id travels as bytes");

/* The functions of NCCL that are used, by name. */
#define NCCL_TABLE(X)    \
    X(GetUniqueId)       \
    X(CommInitRank)      \
    X(CommDestroy)       \
    X(CommAbort)         \
    X(CommGetAsyncError) \
    X(AllReduce)         \
    X(GetErrorString)

static struct {
#define X(name) __typeof__(nccl##name) *name;
    NCCL_TABLE(X)
#undef X
} nccl;

struct cuda_group {
    ncclComm_t communicator;
};

/* ---- loading --------------------------------------------------------------------- */

static const char *load_reason; // NULL when NCCL is there

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        load_reason = strdup(dlerror());
        if (!load_reason)
            load_reason = LIBRARY " cannot be loaded, and memory is short";
        return;
    }
#define X(name)                                                      \
    nccl.name = (__typeof__(nccl.name))dlsym(library, "nccl" #name); \
    if (!nccl.name)                                                  \
        load_reason = LIBRARY " has no nccl" #name;
    NCCL_TABLE(X)
#undef X
}

static enum status need_nccl(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!load_reason)
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT,
                       "several GPUs need NCCL, which cannot be loaded: %s; install "
                       "NCCL 2, or give --gpus 1",
                       load_reason);
}

enum status cuda_make_group_id(unsigned char id[DEVICE_GROUP_ID])
{
    ncclUniqueId unique;
    TRY(need_nccl());
    ncclResult_t result = nccl.GetUniqueId(&unique);
    if (result != ncclSuccess)
        return status_fail(STATUS_ENVIRONMENT, "NCCL gives no id for a group: %s",
                           nccl.GetErrorString(result));
    memcpy(id, &unique, sizeof unique);
    return STATUS_OK;
}

/* ---- joining and leaving --------------------------------------------------------- */

enum status cuda_group_join(struct device *device)
{
    struct cuda_backend *backend = cuda_backend(device);
    const struct device_options *options = &backend->options;
    ncclUniqueId unique;
    TRY(need_nccl());
    memcpy(&unique, options->group_id, sizeof unique);
    struct cuda_group *group = calloc(1, sizeof *group);
    if (!group)
        return status_fail(STATUS_FAILED, "%s: no memory for its group", device->name);
    ncclResult_t result =
        nccl.CommInitRank(&group->communicator, options->world, unique, options->rank);
    if (result != ncclSuccess) {
        free(group);
        return status_fail(
            STATUS_ENVIRONMENT,
            "%s: rank %d of %d cannot join the others: %s (NCCL_DEBUG=INFO "
            "says more)",
            device->name, options->rank, options->world, nccl.GetErrorString(result));
    }
    backend->group = group;
    device->rank = options->rank;
    device->world = options->world;
    return STATUS_OK;
}

void cuda_group_leave(struct device *device)
{
    struct cuda_backend *backend = cuda_backend(device);
    struct cuda_group *group = backend->group;
    if (!group)
        return;
    cuda_drop_graphs(device);
    // After a fault the others may be gone, and a polite end would wait for them.
    if (group->communicator && device->fault[0])
        nccl.CommAbort(group->communicator);
    else if (group->communicator)
        nccl.CommDestroy(group->communicator);
    free(group);
    backend->group = NULL;
}

/* ---- waiting --------------------------------------------------------------------- */

/* After a fault of this device's own, or one that the program set because it heard of a
 * rank's end, the others' part of a sum may never come. */
static int has_failed(struct device *device)
{
    struct cuda_group *group = cuda_backend(device)->group;
    ncclResult_t state = ncclSuccess;
    if (!group->communicator)
        return 1;
    ncclResult_t result = nccl.CommGetAsyncError(group->communicator, &state);
    if (result == ncclSuccess)
        result = state;
    if ((result == ncclSuccess || result == ncclInProgress) && !device->fault[0])
        return 0;
    device_set_fault(device, "rank %d of %d has lost the others: %s", device->rank,
                     device->world, nccl.GetErrorString(result));
    // Ends what is queued, so that nobody waits for it.
    cuda_drop_graphs(device);
    nccl.CommAbort(group->communicator);
    group->communicator = NULL;
    return 1;
}

void cuda_group_wait(struct device *device, cudaEvent_t event)
{
    struct timespec pause = {.tv_nsec = 20000};
    for (;;) {
        cudaError_t state = cudaEventQuery(event);
        if (state != cudaErrorNotReady) {
            cuda_keep_error(device, "queue.wait_mark", state);
            has_failed(device); // the work may have ended because NCCL gave it up
            return;
        }
        if (has_failed(device))
            return;
        nanosleep(&pause, NULL);
    }
}

/* ---- the ops --------------------------------------------------------------------- */

static void all_reduce(struct device *device, const char *op, void *data, size_t n,
                       ncclDataType_t type, ncclRedOp_t how)
{
    struct cuda_backend *backend = cuda_backend(device);
    if (!backend->group || device->fault[0] || n == 0)
        return;
    ncclResult_t result = nccl.AllReduce(data, data, n, type, how,
                                         backend->group->communicator, backend->stream);
    if (result != ncclSuccess)
        device_set_fault(device, "%s: %s", op, nccl.GetErrorString(result));
}

static void cuda_group_sum_f32(struct device *device, float *data, size_t n)
{
    all_reduce(device, "group.sum_f32", data, n, ncclFloat32, ncclSum);
}

static void cuda_group_sum_f64(struct device *device, double *data, size_t n)
{
    all_reduce(device, "group.sum_f64", data, n, ncclFloat64, ncclSum);
}

static void cuda_group_max_f32(struct device *device, float *data, size_t n)
{
    all_reduce(device, "group.max_f32", data, n, ncclFloat32, ncclMax);
}

void cuda_fill_group(struct group_ops *ops)
{
    *ops = (struct group_ops){.sum_f32 = cuda_group_sum_f32,
                              .sum_f64 = cuda_group_sum_f64,
                              .max_f32 = cuda_group_max_f32};
}
