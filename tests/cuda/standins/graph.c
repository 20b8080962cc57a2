/* graph.c - stream capture and graphs of the stand-in for the CUDA runtime.
 *
 * A captured op becomes a node that depends on what its stream last did and on the events
 * that the stream waited for, and on nothing else. An executable graph then runs its
 * nodes in an order that those dependencies allow but that differs from the order of
 * capture, so that a forgotten event shows. */
#include "tests/cuda/standins/runtime.h"

#include <stdlib.h>
#include <string.h>

#define FRONTIER 64

struct node {
    struct op op;
    int needs[FRONTIER];
    int need_count;
};

struct CUgraph_st {
    struct node *nodes;
    int count, room;
    int is_spoiled;
    enum cudaStreamCaptureMode mode;
};

struct CUgraphExec_st {
    struct op *ops;
    int count;
    int is_live;
    struct CUgraphExec_st *next;
};

static struct CUgraphExec_st *executables;

// The mode that this thread began each of its captures with, innermost last.
static _Thread_local struct CUgraph_st *own_captures[8];
static _Thread_local int own_count;
static int global_captures;

/* ---- what a capture forbids ----------------------------------------------------- */

void spoil_captures(void)
{
    for (cudaStream_t s = all_streams; s; s = s->next)
        if (s->capture)
            s->capture->is_spoiled = 1;
}

static cudaError_t refuse(const char *call)
{
    standin_complain("%s while a stream is capturing", call);
    spoil_captures();
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t forbid_in_capture(const char *call)
{
    if (global_captures > 0)
        return refuse(call);
    for (int i = 0; i < own_count; i++)
        if (own_captures[i]->mode != cudaStreamCaptureModeRelaxed)
            return refuse(call);
    return cudaSuccess;
}

cudaError_t forbid_in_any_capture(const char *call)
{
    for (cudaStream_t s = all_streams; s; s = s->next)
        if (s->capture)
            return refuse(call);
    return cudaSuccess;
}

/* ---- nodes ---------------------------------------------------------------------- */

static void add_needs(int *needs, int *count, const int *more, int more_count)
{
    for (int i = 0; i < more_count; i++) {
        int is_known = 0;
        for (int k = 0; k < *count; k++)
            is_known |= needs[k] == more[i];
        if (!is_known && *count < FRONTIER)
            needs[(*count)++] = more[i];
    }
}

cudaError_t capture_op(cudaStream_t stream, struct op op)
{
    struct CUgraph_st *graph = stream->capture;
    if (graph->is_spoiled) {
        free(op.data);
        return cudaErrorStreamCaptureInvalidated;
    }
    if (graph->count == graph->room) {
        graph->room = graph->room ? 2 * graph->room : 64;
        graph->nodes = realloc(graph->nodes, (size_t)graph->room * sizeof *graph->nodes);
    }
    struct node *node = &graph->nodes[graph->count];
    memset(node, 0, sizeof *node);
    node->op = op;
    add_needs(node->needs, &node->need_count, stream->frontier, stream->frontier_count);
    stream->frontier[0] = graph->count++;
    stream->frontier_count = 1;
    return cudaSuccess;
}

cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event)
{
    if (!event->capture) {
        if (!event->stream)
            return cudaSuccess; // never recorded: nothing to wait for
        standin_complain(
            "a stream that is capturing waits for an event recorded outside");
        spoil_captures();
        return cudaErrorStreamCaptureIsolation;
    }
    if (stream->capture && stream->capture != event->capture) {
        standin_complain("a stream of one capture waits for an event of another");
        spoil_captures();
        return cudaErrorStreamCaptureMerge;
    }
    if (!stream->capture)
        stream->frontier_count = 0;
    stream->capture = event->capture;
    add_needs(stream->frontier, &stream->frontier_count, event->frontier,
              event->frontier_count);
    return cudaSuccess;
}

/* ---- capture -------------------------------------------------------------------- */

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                          enum cudaStreamCaptureMode mode)
{
    cudaError_t error = cudaSuccess;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamBeginCapture");
    if (!stream || stream->is_legacy) {
        standin_complain("cudaStreamBeginCapture on the legacy stream");
        error = cudaErrorStreamCaptureUnsupported;
    } else if (stream->capture || own_count == 8) {
        error = cudaErrorIllegalState;
    } else {
        stream->capture = calloc(1, sizeof *stream->capture);
        stream->capture->mode = mode;
        stream->is_origin = 1;
        stream->frontier_count = 0;
        own_captures[own_count++] = stream->capture;
        global_captures += mode == cudaStreamCaptureModeGlobal;
    }
    unlock();
    return keep_error(error);
}

// Marks the node and all it depends on.
static void mark_needed(const struct CUgraph_st *graph, int index, char *is_needed)
{
    if (is_needed[index])
        return;
    is_needed[index] = 1;
    for (int i = 0; i < graph->nodes[index].need_count; i++)
        mark_needed(graph, graph->nodes[index].needs[i], is_needed);
}

// 1 if every node has been joined back into the stream where the capture began.
static int is_joined(const struct CUgraph_st *graph, cudaStream_t stream)
{
    char *is_needed = calloc((size_t)graph->count + 1, 1);
    int joined = 1;
    for (int i = 0; i < stream->frontier_count; i++)
        mark_needed(graph, stream->frontier[i], is_needed);
    for (int i = 0; i < graph->count; i++)
        joined &= is_needed[i];
    free(is_needed);
    return joined;
}

static int forget_own_capture(const struct CUgraph_st *graph)
{
    for (int i = 0; i < own_count; i++)
        if (own_captures[i] == graph) {
            own_captures[i] = own_captures[--own_count];
            return 1;
        }
    return graph->mode == cudaStreamCaptureModeRelaxed;
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *result)
{
    cudaError_t error = cudaSuccess;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamEndCapture");
    struct CUgraph_st *graph = stream ? stream->capture : NULL;
    *result = NULL;
    if (!graph || !stream->is_origin) {
        error = graph ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState;
        unlock();
        return keep_error(error);
    }
    if (!is_joined(graph, stream)) {
        standin_complain("a stream was forked in the capture and never joined again");
        error = cudaErrorStreamCaptureUnjoined;
    }
    if (!forget_own_capture(graph))
        error = cudaErrorStreamCaptureWrongThread;
    if (graph->is_spoiled)
        error = cudaErrorStreamCaptureInvalidated;
    global_captures -= graph->mode == cudaStreamCaptureModeGlobal;
    for (cudaStream_t s = all_streams; s; s = s->next)
        if (s->capture == graph)
            s->capture = NULL;
    stream->is_origin = 0;
    if (!error)
        *result = graph;
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                         enum cudaStreamCaptureStatus *status)
{
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamIsCapturing");
    *status = cudaStreamCaptureStatusNone;
    if (stream && stream->capture)
        *status = stream->capture->is_spoiled ? cudaStreamCaptureStatusInvalidated
                                              : cudaStreamCaptureStatusActive;
    unlock();
    return stream ? cudaSuccess : keep_error(cudaErrorInvalidResourceHandle);
}

EXPORT int standin_is_capturing(cudaStream_t handle)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(handle, &status);
    return status == cudaStreamCaptureStatusActive;
}

EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    if (own_count > 0) {
        enum cudaStreamCaptureMode old = own_captures[own_count - 1]->mode;
        own_captures[own_count - 1]->mode = *mode;
        *mode = old;
    }
    return cudaSuccess;
}

/* ---- graphs --------------------------------------------------------------------- */

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                     size_t *count)
{
    if (!graph)
        return keep_error(cudaErrorInvalidValue);
    for (size_t i = 0; nodes && i < *count && i < (size_t)graph->count; i++)
        nodes[i] = (cudaGraphNode_t)&graph->nodes[i];
    *count = (size_t)graph->count;
    return cudaSuccess;
}

static int is_ready(const struct node *node, const char *is_done)
{
    for (int i = 0; i < node->need_count; i++)
        if (!is_done[node->needs[i]])
            return 0;
    return 1;
}

// Of all nodes that may run, the one captured last goes first.
static void order_nodes(struct CUgraphExec_st *executable, const struct CUgraph_st *graph)
{
    char *is_done = calloc((size_t)graph->count + 1, 1);
    while (executable->count < graph->count) {
        int next = graph->count - 1;
        while (is_done[next] || !is_ready(&graph->nodes[next], is_done))
            next -= 1;
        is_done[next] = 1;
        struct op *op = &executable->ops[executable->count++];
        *op = graph->nodes[next].op;
        if (op->data) {
            op->data = malloc(op->data_bytes ? op->data_bytes : 1);
            memcpy(op->data, graph->nodes[next].op.data, op->data_bytes);
        }
    }
    free(is_done);
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph,
                                        unsigned long long flags)
{
    (void)flags;
    if (!graph)
        return keep_error(cudaErrorInvalidValue);
    lock();
    struct CUgraphExec_st *executable = calloc(1, sizeof *executable);
    executable->ops = calloc((size_t)graph->count + 1, sizeof *executable->ops);
    executable->is_live = 1;
    order_nodes(executable, graph);
    executable->next = executables;
    executables = executable;
    *result = executable;
    unlock();
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *result,
                                                 cudaGraph_t graph,
                                                 unsigned long long flags)
{
    return cudaGraphInstantiate(result, graph, flags);
}

EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    return graph && stream ? cudaSuccess : keep_error(cudaErrorInvalidValue);
}

void graph_run(cudaGraphExec_t graph)
{
    for (int i = 0; i < graph->count; i++)
        run_op(&graph->ops[i]);
}

int graphs_touch(const struct block *block)
{
    for (const struct CUgraphExec_st *graph = executables; graph; graph = graph->next)
        for (int i = 0; graph->is_live && i < graph->count; i++)
            if (op_touches(&graph->ops[i], block))
                return 1;
    return 0;
}

static int op_holds(const struct op *op, const void *pointer)
{
    const char *data = op->data;
    for (size_t i = 0; op->kind == OP_CALL && i + sizeof pointer <= op->data_bytes;
         i += sizeof pointer)
        if (memcmp(data + i, &pointer, sizeof pointer) == 0)
            return 1;
    return 0;
}

EXPORT int standin_is_in_graph(const void *pointer)
{
    int is_held = 0;
    lock();
    for (const struct CUgraphExec_st *graph = executables; graph; graph = graph->next)
        for (int i = 0; graph->is_live && i < graph->count; i++)
            is_held |= op_holds(&graph->ops[i], pointer);
    unlock();
    return is_held;
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle)
{
    struct op op = {.kind = OP_GRAPH, .what = "a graph", .graph = graph};
    cudaError_t error = cudaErrorInvalidValue;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaGraphLaunch");
    if (!graph || !graph->is_live)
        standin_complain("cudaGraphLaunch of a graph that is destroyed or never was");
    else if (stream && stream->capture)
        error = refuse("cudaGraphLaunch");
    else if (stream)
        error = queue_op(stream, op);
    if (!error)
        count_graph();
    unlock();
    return keep_error(error);
}

// The lists stay in memory: what was launched before may still be queued.
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    if (!graph)
        return keep_error(cudaErrorInvalidValue);
    lock();
    graph->is_live = 0;
    unlock();
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph)
        return keep_error(cudaErrorInvalidValue);
    for (int i = 0; i < graph->count; i++)
        free(graph->nodes[i].op.data);
    free(graph->nodes);
    free(graph);
    return cudaSuccess;
}
