/* cuda_queue.c - marks, streams, and work that is recorded once and replayed.
 *
 * Work is captured from its second call on: the first one runs as it comes, so that
 * whatever libraries set up on first use (kernels loaded, workspaces chosen) is there
 * before. A capture is of this thread alone: other threads may talk to the GPU
 * meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/module.h"

struct repeat {
    cudaGraphExec_t graph;
    struct repeat *next; // of the queue's
};

/* ---- copies that nobody waits for ------------------------------------------------ */

static void cuda_queue_upload_later(struct device *device, void *to,
                                    const void *from_host, size_t bytes)
{
    if (bytes && cuda_select(device))
        cuda_keep_error(device, "queue.upload_later",
                        cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice,
                                        cuda_backend(device)->stream));
}

static void cuda_queue_download_later(struct device *device, void *to_host,
                                      const void *from, size_t bytes)
{
    if (bytes && cuda_select(device))
        cuda_keep_error(device, "queue.download_later",
                        cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost,
                                        cuda_backend(device)->stream));
}

/* ---- marks ----------------------------------------------------------------------- */

static void cuda_queue_mark(struct device *device, int slot)
{
    struct cuda_backend *backend = cuda_backend(device);
    CHECK(slot >= 0 && slot < DEVICE_MARKS, "mark %d", slot);
    cuda_keep_error(device, "queue.mark",
                    cudaEventRecord(backend->marks[slot], backend->stream));
    backend->is_marked[slot] = 1;
}

static void cuda_queue_wait_mark(struct device *device, int slot)
{
    struct cuda_backend *backend = cuda_backend(device);
    CHECK(slot >= 0 && slot < DEVICE_MARKS, "mark %d", slot);
    if (!backend->is_marked[slot] || !cuda_select(device))
        return;
    if (backend->group)
        cuda_group_wait(device, backend->marks[slot]);
    else
        cuda_keep_error(device, "queue.wait_mark",
                        cudaEventSynchronize(backend->marks[slot]));
}

static int cuda_queue_is_passed(struct device *device, int slot)
{
    struct cuda_backend *backend = cuda_backend(device);
    CHECK(slot >= 0 && slot < DEVICE_MARKS, "mark %d", slot);
    if (!backend->is_marked[slot])
        return 1;
    cudaError_t state = cudaEventQuery(backend->marks[slot]);
    if (state == cudaErrorNotReady)
        return 0;
    cuda_keep_error(device, "queue.is_passed", state);
    return 1; // with a fault, waiting longer would not help
}

static void cuda_queue_follow(struct device *device, struct device *other)
{
    struct cuda_backend *behind = cuda_backend(device), *ahead = cuda_backend(other);
    if (behind == ahead || !cuda_select(device))
        return;
    cuda_keep_error(other, "queue.follow", cudaEventRecord(ahead->joint, ahead->stream));
    cuda_keep_error(device, "queue.follow",
                    cudaStreamWaitEvent(behind->stream, ahead->joint, 0));
}

/* ---- recorded work --------------------------------------------------------------- */

/* `error` tells only that something was not to be captured; the op that it was has kept a
 * fault of its own, since there was none before. */
static void tell_not_captured(struct device *device, cudaError_t error)
{
    char cause[sizeof device->fault];
    memcpy(cause, device->fault, sizeof cause);
    device->fault[0] = '\0';
    device_set_fault(device,
                     "the step could not be recorded as a CUDA graph (%.140s); give "
                     "--no-graph to train without",
                     cause[0] ? cause : cudaGetErrorString(error));
}

// The graph of what work() queues; NULL, and a fault, where it cannot be captured.
static cudaGraphExec_t capture(struct device *device, void (*work)(void *argument),
                               void *argument)
{
    struct cuda_backend *backend = cuda_backend(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t error =
        cudaStreamBeginCapture(backend->stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        backend->is_recording = 1;
        work(argument);
        backend->is_recording = 0;
        error = cudaStreamEndCapture(backend->stream, &graph);
    }
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&ready, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (error != cudaSuccess)
        tell_not_captured(device, error);
    return error == cudaSuccess ? ready : NULL;
}

static void cuda_queue_repeat(struct device *device, struct repeat **repeat,
                              void (*work)(void *argument), void *argument)
{
    struct cuda_backend *backend = cuda_backend(device);
    if (!cuda_select(device))
        return;
    if (backend->options.is_plain) {
        work(argument);
        return;
    }
    if (!*repeat) {
        work(argument);
        *repeat = calloc(1, sizeof **repeat);
        if (!*repeat) // the next step is queued op by op as well
            return;
        (*repeat)->next = backend->repeats;
        backend->repeats = *repeat;
        return;
    }
    if (!(*repeat)->graph && !device->fault[0])
        (*repeat)->graph = capture(device, work, argument);
    if ((*repeat)->graph)
        cuda_keep_error(device, "queue.repeat",
                        cudaGraphLaunch((*repeat)->graph, backend->stream));
}

static void drop_graph(struct device *device, struct repeat *repeat)
{
    if (repeat->graph)
        cuda_keep_error(device, "queue.forget", cudaGraphExecDestroy(repeat->graph));
    repeat->graph = NULL;
}

void cuda_drop_graphs(struct device *device)
{
    for (struct repeat *at = cuda_backend(device)->repeats; at; at = at->next)
        drop_graph(device, at);
}

static void cuda_queue_forget(struct device *device, struct repeat **repeat)
{
    if (!*repeat)
        return;
    drop_graph(device, *repeat);
    struct repeat **link = &cuda_backend(device)->repeats;
    while (*link != *repeat)
        link = &(*link)->next;
    *link = (*repeat)->next;
    free(*repeat);
    *repeat = NULL;
}

/* ---- streams ----------------------------------------------------------------------- */

static enum status cuda_queue_open_stream(struct device *device, struct device **stream)
{
    *stream = NULL;
    struct device *opened = calloc(1, sizeof *opened);
    if (!opened)
        return status_fail(STATUS_FAILED, "%s: no memory for a second queue",
                           device->name);
    opened->world = 1;
    enum status status = cuda_open_stream(opened, device);
    if (status != STATUS_OK) {
        cuda_close_backend(opened);
        free(opened);
        return status;
    }
    *stream = opened;
    return STATUS_OK;
}

static void cuda_queue_close_stream(struct device *device, struct device *stream)
{
    CHECK(stream != device);
    cuda_close_backend(stream);
    free(stream);
}

void cuda_fill_queue(struct queue_ops *ops)
{
    *ops = (struct queue_ops){
        .upload_later = cuda_queue_upload_later,
        .download_later = cuda_queue_download_later,
        .mark = cuda_queue_mark,
        .wait_mark = cuda_queue_wait_mark,
        .is_passed = cuda_queue_is_passed,
        .follow = cuda_queue_follow,
        .repeat = cuda_queue_repeat,
        .forget = cuda_queue_forget,
        .open_stream = cuda_queue_open_stream,
        .close_stream = cuda_queue_close_stream,
    };
}
