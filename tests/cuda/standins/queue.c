/* queue.c - streams, events and the work queued on them, in the stand-in for the CUDA
 * runtime. */
#include "tests/cuda/standins/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct CUstream_st legacy_stream = {.is_blocking = 1, .is_legacy = 1};
struct CUstream_st *all_streams = &legacy_stream;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t op_ended = PTHREAD_COND_INITIALIZER;
static _Thread_local int lock_depth;
static uint64_t last_sequence;
static int is_in_background;

void lock(void)
{
    if (lock_depth++ == 0)
        pthread_mutex_lock(&mutex);
}

void unlock(void)
{
    if (--lock_depth == 0)
        pthread_mutex_unlock(&mutex);
}

EXPORT int standin_pause(void)
{
    int depth = lock_depth;
    lock_depth = 0;
    pthread_mutex_unlock(&mutex);
    return depth;
}

EXPORT void standin_resume(int depth)
{
    pthread_mutex_lock(&mutex);
    lock_depth = depth;
}

cudaStream_t stream_of(cudaStream_t stream, const char *call)
{
    if (!stream || stream == cudaStreamLegacy)
        return &legacy_stream;
    for (cudaStream_t s = all_streams; s; s = s->next)
        if (s == stream)
            return s;
    standin_complain("%s: %p is no live stream", call, (void *)stream);
    return NULL;
}

/* ---- running -------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void run_op(struct op *op)
{
    if (op->kind == OP_RECORD) {
        if (op->event->done < op->sequence) {
            op->event->done = op->sequence;
            op->event->seconds = now();
        }
        return;
    }
    if (op->kind == OP_GRAPH) {
        graph_run(op->graph);
        return;
    }
    memory_open(op->what);
    if (op->kind == OP_LAUNCH)
        kernel_run(op);
    else if (op->kind == OP_COPY)
        memmove(op->to, op->from, op->bytes);
    else if (op->kind == OP_SET)
        memset(op->to, op->value, op->bytes);
    else if (op->kind == OP_CALL)
        op->run(op->data);
    memory_close();
}

// What the legacy stream and the blocking ones owe each other before this op may run. All
// of it was queued earlier, so that this ends.
static void run_what_blocks(cudaStream_t stream, const struct op *op)
{
    if (stream->is_legacy) {
        for (cudaStream_t s = all_streams; s; s = s->next)
            if (s->is_blocking && !s->is_legacy)
                run_through(s, op->sequence);
    } else if (stream->is_blocking) {
        run_through(&legacy_stream, op->sequence);
    }
}

// Runs the stream's first op, unless another thread did while this one saw to what it
// waits for.
static void run_first(cudaStream_t stream)
{
    struct op *op = stream->first;
    run_what_blocks(stream, op);
    if (op->kind == OP_WAIT && op->other)
        run_through(op->other, op->until);
    if (stream->first != op || stream->running)
        return;
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    stream->running = op->sequence;
    run_op(op);
    stream->running = 0;
    pthread_cond_broadcast(&op_ended);
    free(op->data);
    free(op);
}

void run_through(cudaStream_t stream, uint64_t sequence)
{
    if (!stream->running && (!stream->first || stream->first->sequence > sequence))
        return;
    memory_open("queued work");
    for (;;) {
        // Another thread may be in the middle of an op that waits for another process.
        if (stream->running && stream->running <= sequence)
            pthread_cond_wait(&op_ended, &mutex);
        else if (!stream->running && stream->first && stream->first->sequence <= sequence)
            run_first(stream);
        else
            break;
    }
    memory_close();
}

void run_everything(void)
{
    for (cudaStream_t s = all_streams; s; s = s->next)
        run_through(s, UINT64_MAX);
}

static int is_idle(cudaStream_t stream)
{
    return !stream->first && !stream->running;
}

// Runs what has been queued for one turn, so that work without a wait still comes late.
static void *work_in_background(void *nothing)
{
    struct timespec turn = {.tv_nsec = 10000000};
    uint64_t old = 0;
    for (;;) {
        lock();
        for (cudaStream_t s = all_streams; s; s = s->next)
            if (!s->running && s->first && s->first->sequence <= old)
                run_through(s, old);
        old = last_sequence;
        unlock();
        nanosleep(&turn, NULL);
    }
    return nothing;
}

EXPORT void standin_run_in_background(void)
{
    pthread_t thread;
    lock();
    if (!is_in_background &&
        pthread_create(&thread, NULL, work_in_background, NULL) == 0) {
        pthread_detach(thread);
        is_in_background = 1;
    }
    unlock();
}

/* ---- queueing ------------------------------------------------------------------- */

cudaError_t queue_op(cudaStream_t stream, struct op op)
{
    if (stream->capture)
        return capture_op(stream, op);
    struct op *kept = malloc(sizeof *kept);
    if (!kept)
        return cudaErrorMemoryAllocation;
    *kept = op;
    kept->sequence = ++last_sequence;
    kept->next = NULL;
    if (stream->last)
        stream->last->next = kept;
    else
        stream->first = kept;
    stream->last = kept;
    return cudaSuccess;
}

EXPORT cudaError_t standin_enqueue(cudaStream_t handle, const char *what,
                                   void (*run)(void *), const void *data, size_t bytes)
{
    struct op op = {.kind = OP_CALL, .what = what, .run = run, .data_bytes = bytes};
    cudaError_t error = cudaErrorInvalidResourceHandle;
    lock();
    cudaStream_t stream = stream_of(handle, what);
    if (stream)
        error = stream->is_legacy ? forbid_in_capture(what) : cudaSuccess;
    if (!error) {
        op.data = malloc(bytes ? bytes : 1);
        memcpy(op.data, data, bytes);
        error = queue_op(stream, op);
    }
    unlock();
    return keep_error(error);
}

static int points_into(const void *address, const struct block *block)
{
    const char *at = address;
    return at >= block->start && at < block->start + block->bytes;
}

int op_touches(const struct op *op, const struct block *block)
{
    const char *data = op->data;
    if (points_into(op->to, block) || points_into(op->from, block))
        return 1;
    for (size_t i = 0; i + sizeof(void *) <= op->data_bytes; i += sizeof(void *)) {
        void *word;
        memcpy(&word, data + i, sizeof word);
        if (points_into(word, block))
            return 1;
    }
    return 0;
}

int is_in_use(const struct block *block)
{
    for (cudaStream_t s = all_streams; s; s = s->next)
        for (const struct op *op = s->first; op; op = op->next)
            if (op_touches(op, block) || (op->graph && graphs_touch(block)))
                return 1;
    return 0;
}

/* ---- streams -------------------------------------------------------------------- */

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                                int priority)
{
    if (!standin_has_device())
        return keep_error(cudaErrorNoDevice);
    lock();
    *stream = calloc(1, sizeof **stream);
    (*stream)->is_blocking = !(flags & cudaStreamNonBlocking);
    // A priority outside the range is moved to its end.
    (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    (*stream)->next = all_streams;
    all_streams = *stream;
    unlock();
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamGetPriority");
    *priority = stream ? stream->priority : 0;
    unlock();
    return stream ? cudaSuccess : keep_error(cudaErrorInvalidResourceHandle);
}

static void forget_stream(cudaStream_t stream)
{
    for (cudaStream_t *at = &all_streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    // The memory stays: events may still name it. Its queue is empty.
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    cudaError_t error = cudaSuccess;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamDestroy");
    if (!stream || stream->is_legacy) {
        error = cudaErrorInvalidResourceHandle;
    } else if (stream->capture) {
        standin_complain("cudaStreamDestroy of a stream that is capturing");
        error = cudaErrorStreamCaptureUnsupported;
    } else {
        run_through(stream, UINT64_MAX);
        forget_stream(stream);
    }
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    lock();
    cudaError_t error = forbid_in_capture("cudaStreamSynchronize");
    cudaStream_t stream = stream_of(handle, "cudaStreamSynchronize");
    if (!stream)
        error = cudaErrorInvalidResourceHandle;
    if (!error && stream->capture) {
        standin_complain("cudaStreamSynchronize on a stream that is capturing");
        spoil_captures();
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (!error) {
        count_wait();
        run_through(stream, UINT64_MAX);
        // The legacy stream stands for the blocking ones as well.
        for (cudaStream_t s = all_streams; s && stream->is_legacy; s = s->next)
            if (s->is_blocking)
                run_through(s, UINT64_MAX);
    }
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
    if (!standin_has_device())
        return keep_error(cudaErrorNoDevice);
    lock();
    cudaError_t error = forbid_in_any_capture("cudaDeviceSynchronize");
    if (!error) {
        count_wait();
        run_everything();
    }
    unlock();
    return keep_error(error);
}

// A query finds the work unfinished once, and gives the device the time to finish it, if
// it does not take that time by itself.
EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    lock();
    cudaError_t error = forbid_in_capture("cudaStreamQuery");
    cudaStream_t stream = stream_of(handle, "cudaStreamQuery");
    if (!stream)
        error = cudaErrorInvalidResourceHandle;
    int has_work = !error && !is_idle(stream);
    if (has_work && !is_in_background)
        run_through(stream, UINT64_MAX);
    unlock();
    return has_work ? cudaErrorNotReady : keep_error(error);
}

/* ---- events --------------------------------------------------------------------- */

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    if (!standin_has_device())
        return keep_error(cudaErrorNoDevice);
    *event = calloc(1, sizeof **event);
    (*event)->is_timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

// Its memory stays: a queued record may still name it.
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return event ? cudaSuccess : keep_error(cudaErrorInvalidResourceHandle);
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    cudaError_t error = cudaErrorInvalidResourceHandle;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaEventRecord");
    if (stream && event && stream->capture) {
        event->capture = stream->capture;
        event->frontier_count = stream->frontier_count;
        memcpy(event->frontier, stream->frontier, sizeof event->frontier);
        error = cudaSuccess;
    } else if (stream && event) {
        struct op op = {.kind = OP_RECORD, .what = "an event", .event = event};
        error = queue_op(stream, op);
        event->capture = NULL;
        event->stream = stream;
        event->sequence = last_sequence;
    }
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                       unsigned flags)
{
    cudaError_t error = cudaErrorInvalidResourceHandle;
    (void)flags;
    lock();
    cudaStream_t stream = stream_of(handle, "cudaStreamWaitEvent");
    if (stream && event) {
        if (event->capture || stream->capture) {
            error = capture_wait(stream, event);
        } else {
            struct op op = {.kind = OP_WAIT, .what = "a wait for an event"};
            op.other = event->stream;
            op.until = event->sequence;
            error = queue_op(stream, op);
        }
    }
    unlock();
    return keep_error(error);
}

// What both of the next two begin with: may the host ask after this event?
static cudaError_t ask_event(cudaEvent_t event, const char *call)
{
    cudaError_t error = forbid_in_capture(call);
    if (!error && !event)
        error = cudaErrorInvalidResourceHandle;
    if (!error && event->capture) {
        standin_complain("%s of an event that was recorded in a capture", call);
        error = cudaErrorCapturedEvent;
    }
    return error;
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    lock();
    cudaError_t error = ask_event(event, "cudaEventSynchronize");
    if (!error && event->stream) {
        count_wait();
        run_through(event->stream, event->sequence);
    }
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
    lock();
    cudaError_t error = ask_event(event, "cudaEventQuery");
    int has_work = !error && event->stream && event->done < event->sequence;
    if (has_work && !is_in_background)
        run_through(event->stream, event->sequence);
    unlock();
    return has_work ? cudaErrorNotReady : keep_error(error);
}

EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start,
                                        cudaEvent_t end)
{
    if (!start || !end || !start->is_timed || !end->is_timed || !start->stream ||
        !end->stream)
        return keep_error(cudaErrorInvalidResourceHandle);
    if (start->done < start->sequence || end->done < end->sequence)
        return cudaErrorNotReady;
    *milliseconds = (float)((end->seconds - start->seconds) * 1e3);
    return cudaSuccess;
}
