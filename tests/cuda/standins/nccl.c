/* nccl.c - a stand-in for libnccl.so.2: the ranks are processes of one machine and meet
 * in shared memory. Collectives are queued on a stream, and captured, like all device
 * work.
 *
 * What is looked for: ranks that call with other sizes, types or operations, memory that
 * is no device's, a rank that is lost. Where the real library waits for ever for that
 * one, this one gives up after STANDIN_NCCL_SECONDS (20), sooner if its process is gone,
 * and says so through ncclCommGetAsyncError(). And a communicator that is destroyed or
 * aborted before the graphs that captured its collectives: the real library waits for
 * ever for those. */
#include <nccl.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/standins/nccl_shared.h"
#include "tests/cuda/standins/standin.h"

#define EXPORT __attribute__((visibility("default")))

struct ncclComm {
    struct shared *shared;
    int rank, ranks, device;
    _Atomic ncclResult_t state;
    struct ncclComm *next;
};

// Work that is queued may name a communicator that is destroyed: they all stay.
static struct ncclComm *communicators;

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "internal error";
    }
}

/* ---- communicators -------------------------------------------------------------- */

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int number;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/standin-nccl-%d-%d", (int)getpid(),
             number++);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *result, int ranks, ncclUniqueId id,
                                     int rank)
{
    *result = NULL;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    if (!standin_has_device())
        return ncclUnhandledCudaError;
    struct ncclComm *made = calloc(1, sizeof *made);
    made->shared = shared_join(id.internal, rank, ranks);
    made->rank = rank;
    made->ranks = ranks;
    cudaGetDevice(&made->device);
    if (!made->shared) {
        free(made);
        return ncclRemoteError;
    }
    standin_run_in_background();
    made->next = communicators;
    communicators = made;
    *result = made;
    return ncclSuccess;
}

static ncclResult_t leave(ncclComm_t communicator, const char *what)
{
    if (!communicator)
        return ncclInvalidArgument;
    if (standin_is_in_graph(communicator))
        standin_complain("%s waits for ever: a graph that captured a collective of the "
                         "communicator is not destroyed",
                         what);
    shared_leave(communicator->shared);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    return leave(communicator, "ncclCommDestroy");
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    if (communicator && communicator->state == ncclSuccess)
        communicator->state = ncclInternalError;
    return leave(communicator, "ncclCommAbort");
}

__attribute__((destructor)) static void leave_all(void)
{
    for (struct ncclComm *at = communicators; at; at = at->next)
        shared_leave(at->shared);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *state)
{
    *state = communicator->state;
    return ncclSuccess;
}

EXPORT const char *ncclGetLastError(ncclComm_t communicator)
{
    return ncclGetErrorString(communicator ? communicator->state : ncclSuccess);
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t communicator, int *count)
{
    *count = communicator->ranks;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int *rank)
{
    *rank = communicator->rank;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int *device)
{
    *device = communicator->device;
    return ncclSuccess;
}

/* ---- collectives ---------------------------------------------------------------- */

// Pointers stand first, for the queue to see which memory is in use.
struct collective {
    const void *from;
    void *to;
    ncclComm_t communicator;
    struct wish wish;
};

static void run_collective(void *data)
{
    struct collective *call = data;
    if (call->communicator->state != ncclSuccess)
        return;
    int paused = standin_pause();
    ncclResult_t state =
        shared_do(call->communicator->shared, &call->wish, call->from, call->to);
    standin_resume(paused);
    if (state != ncclSuccess)
        call->communicator->state = state;
}

static ncclResult_t queue(struct collective call, cudaStream_t stream, const char *what)
{
    const struct wish *wish = &call.wish;
    size_t bytes = wish->count * element_bytes(wish->type);
    if (!call.communicator || element_bytes(wish->type) == 0) {
        standin_complain("%s: no communicator, or data type %d, which is not modelled",
                         what, (int)wish->type);
        return ncclInvalidArgument;
    }
    if (call.communicator->state != ncclSuccess)
        return call.communicator->state;
    if (bytes == 0)
        return ncclSuccess;
    // What only the root sends needs no memory elsewhere.
    int is_sender = !wish->is_broadcast || call.communicator->rank == wish->root;
    if ((is_sender && !standin_is_device(call.from, bytes, what)) ||
        !standin_is_device(call.to, bytes, what))
        return ncclInvalidArgument;
    return standin_enqueue(stream, what, run_collective, &call, sizeof call)
               ? ncclUnhandledCudaError
               : ncclSuccess;
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t communicator, cudaStream_t stream)
{
    struct wish wish = {.count = count, .type = type, .op = op};
    if (op != ncclSum && op != ncclMax && op != ncclMin && op != ncclAvg) {
        standin_complain("ncclAllReduce: operation %d is not modelled", (int)op);
        return ncclInvalidArgument;
    }
    return queue((struct collective){from, to, communicator, wish}, stream,
                 "ncclAllReduce");
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                                  ncclDataType_t type, int root, ncclComm_t communicator,
                                  cudaStream_t stream)
{
    struct wish wish = {.is_broadcast = 1, .root = root, .count = count, .type = type};
    if (!communicator || root < 0 || root >= communicator->ranks)
        return ncclInvalidArgument;
    return queue((struct collective){from, to, communicator, wish}, stream,
                 "ncclBroadcast");
}

// Calls that are grouped may be queued one by one: every rank queues them in one order.
static _Thread_local int group_depth;

EXPORT ncclResult_t ncclGroupStart(void)
{
    group_depth += 1;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0) {
        standin_complain("ncclGroupEnd without ncclGroupStart");
        return ncclInvalidUsage;
    }
    group_depth -= 1;
    return ncclSuccess;
}
