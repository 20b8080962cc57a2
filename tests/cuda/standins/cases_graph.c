/* cases_graph.c - right and wrong captures of streams into graphs. */
#include <math.h>
#include <pthread.h>

#include "tests/cuda/standins/cases.h"
#include "tests/cuda/standins/cases_kernel.h"

#define N 100
#define BYTES (N * sizeof(float))

static float *there, values[N];
static cudaStream_t stream, other;
static cudaEvent_t event;

static void prepare(void)
{
    there = device_block(BYTES);
    stream = new_stream();
    other = new_stream();
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    MUST(cudaStreamSynchronize(stream));
}

static void begin(void)
{
    prepare();
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    MUST(add_by_call(there, N, 1, 2, stream));
}

static float first_value(void)
{
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    return values[0];
}

// The graph of what was captured; `expected` is what its end should say.
static cudaGraph_t end(cudaError_t expected)
{
    cudaGraph_t graph = NULL;
    EXPECT(cudaStreamEndCapture(stream, &graph) == expected);
    EXPECT((graph != NULL) == (expected == cudaSuccess));
    return graph;
}

static void replay(int times)
{
    cudaGraph_t graph = end(cudaSuccess);
    cudaGraphExec_t ready;
    MUST(cudaGraphInstantiate(&ready, graph, 0));
    MUST(cudaGraphDestroy(graph));
    for (int i = 0; i < times; i++)
        MUST(cudaGraphLaunch(ready, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaGraphExecDestroy(ready));
}

/* ---- right captures ------------------------------------------------------------- */

static void a_graph_repeats_what_was_captured(void)
{
    float *pinned = pinned_block(BYTES);
    begin();
    EXPECT(cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, stream) == 0);
    replay(3);
    EXPECT(pinned[0] == 3 && pinned[N - 1] == 3 && first_value() == 3);
}

static void a_fork_is_joined(void)
{
    size_t nodes = 0;
    cudaGraph_t graph;
    float *more = device_block(BYTES);
    begin();
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(cudaMemsetAsync(more, 0, BYTES, other));
    MUST(add_by_call(more, N, 10, 2, other));
    MUST(cudaEventRecord(event, other));
    MUST(cudaStreamWaitEvent(stream, event, 0));
    MUST(cudaMemcpyAsync(there, more, BYTES, cudaMemcpyDeviceToDevice, stream));
    graph = end(cudaSuccess);
    MUST(cudaGraphGetNodes(graph, NULL, &nodes));
    EXPECT(nodes == 4);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    replay(1);
    EXPECT(first_value() == 0);
    cudaGraphExec_t ready;
    MUST(cudaGraphInstantiate(&ready, graph, 0));
    MUST(cudaGraphLaunch(ready, stream));
    EXPECT(first_value() == 10);
}

static void *work_beside(void *argument)
{
    cudaStream_t mine = new_stream();
    float *block = device_block(BYTES);
    MUST(cudaMemsetAsync(block, 0, BYTES, mine));
    MUST(cudaStreamSynchronize(mine));
    MUST(cudaFree(block));
    return argument;
}

static void another_thread_works_beside_a_capture(void)
{
    pthread_t thread;
    begin();
    EXPECT(pthread_create(&thread, NULL, work_beside, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    replay(2);
    EXPECT(first_value() == 2);
}

static void arguments_are_those_of_the_capture(void)
{
    float amount = 5;
    prepare();
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(add_by_call(there, N, amount, 2, stream));
    amount = 100;
    replay(2);
    EXPECT(first_value() == 10);
}

// Nobody waits for the first addition, so it runs after what needs it.
static void without_an_event_branches_run_in_any_order(void)
{
    float *more = device_block(BYTES);
    cudaEvent_t start;
    MUST(cudaEventCreateWithFlags(&start, cudaEventDisableTiming));
    begin();
    MUST(cudaEventRecord(start, stream));
    MUST(cudaStreamWaitEvent(other, start, 0));
    MUST(cudaMemsetAsync(more, 0, BYTES, stream));
    MUST(cudaMemcpyAsync(there, more, BYTES, cudaMemcpyDeviceToDevice, other));
    MUST(cudaEventRecord(event, other));
    MUST(cudaStreamWaitEvent(stream, event, 0));
    replay(1);
    EXPECT(isnan(first_value()));
}

/* ---- wrong captures ------------------------------------------------------------- */

static void wait_in_capture(void)
{
    begin();
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void device_wait_in_capture(void)
{
    begin();
    EXPECT(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void query_in_capture(void)
{
    begin();
    EXPECT(cudaStreamQuery(other) == cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void malloc_in_capture(void)
{
    void *block;
    begin();
    EXPECT(cudaMalloc(&block, 16) == cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void free_in_capture(void)
{
    void *block = device_block(16);
    begin();
    EXPECT(cudaFree(block) == cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void pageable_copy_in_capture(void)
{
    begin();
    EXPECT(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, stream) ==
           cudaErrorStreamCaptureUnsupported);
    end(cudaErrorStreamCaptureInvalidated);
}

static void plain_copy_in_capture(void)
{
    begin();
    EXPECT(cudaMemcpy(values, there, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess);
    end(cudaErrorStreamCaptureInvalidated);
}

static void legacy_work_in_capture(void)
{
    begin();
    EXPECT(add_by_call(there, N, 1, 2, NULL) != cudaSuccess);
    end(cudaErrorStreamCaptureInvalidated);
}

static void fork_that_is_never_joined(void)
{
    begin();
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(add_by_call(there, N, 1, 2, other));
    end(cudaErrorStreamCaptureUnjoined);
}

static void event_from_outside_a_capture(void)
{
    prepare();
    MUST(cudaEventRecord(event, other));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT(cudaStreamWaitEvent(stream, event, 0) == cudaErrorStreamCaptureIsolation);
    end(cudaErrorStreamCaptureInvalidated);
}

static void event_of_a_capture_is_asked(void)
{
    begin();
    MUST(cudaEventRecord(event, stream));
    replay(1);
    EXPECT(cudaEventQuery(event) == cudaErrorCapturedEvent);
}

static void graph_uses_freed_memory(void)
{
    cudaGraphExec_t ready;
    begin();
    MUST(cudaGraphInstantiate(&ready, end(cudaSuccess), 0));
    MUST(cudaFree(there));
    MUST(cudaGraphLaunch(ready, stream));
    MUST(cudaStreamSynchronize(stream));
}

static void graph_is_launched_after_its_end(void)
{
    cudaGraphExec_t ready;
    begin();
    MUST(cudaGraphInstantiate(&ready, end(cudaSuccess), 0));
    MUST(cudaGraphExecDestroy(ready));
    EXPECT(cudaGraphLaunch(ready, stream) == cudaErrorInvalidValue);
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct named_case cases[] = {
        CASE(a_graph_repeats_what_was_captured),
        CASE(a_fork_is_joined),
        CASE(another_thread_works_beside_a_capture),
        CASE(arguments_are_those_of_the_capture),
        CASE(without_an_event_branches_run_in_any_order),
        CASE(wait_in_capture),
        CASE(device_wait_in_capture),
        CASE(query_in_capture),
        CASE(malloc_in_capture),
        CASE(free_in_capture),
        CASE(pageable_copy_in_capture),
        CASE(plain_copy_in_capture),
        CASE(legacy_work_in_capture),
        CASE(fork_that_is_never_joined),
        CASE(event_from_outside_a_capture),
        CASE(event_of_a_capture_is_asked),
        CASE(graph_uses_freed_memory),
        CASE(graph_is_launched_after_its_end),
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
