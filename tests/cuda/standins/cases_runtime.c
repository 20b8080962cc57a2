/* cases_runtime.c - right and wrong uses of the CUDA runtime: memory, streams, events. */
#include <math.h>
#include <unistd.h>

#include "tests/cuda/standins/cases.h"
#include "tests/cuda/standins/cases_kernel.h"

#define N 100
#define BYTES (N * sizeof(float))

static void fill(float *values, float value)
{
    for (int i = 0; i < N; i++)
        values[i] = value;
}

static void expect_all(const float *values, float value)
{
    for (int i = 0; i < N; i++)
        EXPECT(values[i] == value);
}

/* ---- right programs ------------------------------------------------------------- */

static void copies_and_kernels(void)
{
    float *there = device_block(BYTES), *pinned = pinned_block(BYTES), pageable[N];
    cudaStream_t stream = new_stream();
    fill(pinned, 1);
    MUST(cudaMemcpyAsync(there, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    add_by_syntax(there, N, 2, stream);
    MUST(add_by_call(there, N, 4, 2, stream));
    MUST(cudaMemcpyAsync(pageable, there, BYTES, cudaMemcpyDefault, stream));
    MUST(cudaStreamSynchronize(stream));
    expect_all(pageable, 7);
    MUST(cudaMemset(there, 0, BYTES));
    MUST(cudaMemcpy(pageable, there, BYTES, cudaMemcpyDeviceToHost));
    expect_all(pageable, 0);
    MUST(cudaFree(there));
    MUST(cudaFreeHost(pinned));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaGetLastError());
}

static void pageable_memory_is_taken_at_the_call(void)
{
    float *there = device_block(BYTES), values[N];
    cudaStream_t stream = new_stream();
    fill(values, 3);
    MUST(cudaMemcpyAsync(there, values, BYTES, cudaMemcpyHostToDevice, stream));
    fill(values, 9);
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    expect_all(values, 3);
}

static void an_event_orders_two_streams(void)
{
    float *there = device_block(BYTES), values[N];
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event, end;
    float milliseconds = -1;
    MUST(cudaEventCreate(&event));
    MUST(cudaEventCreate(&end));
    MUST(cudaMemsetAsync(there, 0, BYTES, first));
    MUST(add_by_call(there, N, 5, 2, first));
    MUST(cudaEventRecord(event, first));
    MUST(cudaStreamWaitEvent(second, event, 0));
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, second));
    MUST(cudaEventRecord(end, second));
    EXPECT(cudaEventElapsedTime(&milliseconds, event, end) == cudaErrorNotReady);
    MUST(cudaEventSynchronize(end));
    expect_all(values, 5);
    MUST(cudaEventElapsedTime(&milliseconds, event, end));
    EXPECT(milliseconds >= 0 && milliseconds < 10000);
}

static void a_query_finds_work_once(void)
{
    float *there = device_block(BYTES);
    cudaStream_t stream = new_stream();
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventQuery(event));
    MUST(cudaStreamQuery(stream));
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    MUST(cudaEventRecord(event, stream));
    EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
    MUST(cudaEventQuery(event));
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady);
    MUST(cudaStreamQuery(stream));
    MUST(cudaGetLastError());
}

// The legacy stream waits for blocking streams, and they for it; not so the others.
static void the_legacy_stream_waits_for_blocking_streams(void)
{
    float *there = device_block(BYTES), values[N];
    cudaStream_t blocking;
    MUST(cudaStreamCreate(&blocking));
    MUST(cudaMemsetAsync(there, 0, BYTES, blocking));
    MUST(add_by_call(there, N, 1, 2, NULL));
    MUST(add_by_call(there, N, 1, 2, blocking));
    MUST(cudaMemcpy(values, there, BYTES, cudaMemcpyDeviceToHost));
    expect_all(values, 2);
}

/* ---- wrong programs whose results show it --------------------------------------- */

static void unwritten_memory_is_nan(void)
{
    float *there = device_block(BYTES), values[N];
    unsigned short *halves = (unsigned short *)(void *)values;
    MUST(cudaMemcpy(values, there, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        EXPECT(isnan(values[i]));
    EXPECT((halves[0] & 0x7c00) == 0x7c00 && (halves[0] & 0x3ff) != 0);
}

static void without_a_wait_results_are_stale(void)
{
    float *there = device_block(BYTES), values[N];
    cudaStream_t stream = new_stream();
    fill(values, -1);
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, stream));
    expect_all(values, -1);
    MUST(cudaStreamSynchronize(stream));
    expect_all(values, 0);
}

static void pinned_memory_is_read_late(void)
{
    float *there = device_block(BYTES), *pinned = pinned_block(BYTES), values[N];
    cudaStream_t stream = new_stream();
    fill(pinned, 3);
    MUST(cudaMemcpyAsync(there, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    fill(pinned, 9);
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    expect_all(values, 9);
}

static void without_an_event_streams_do_not_wait(void)
{
    float *there = device_block(BYTES), values[N];
    cudaStream_t first = new_stream(), second = new_stream();
    MUST(cudaMemsetAsync(there, 0, BYTES, first));
    MUST(cudaMemcpyAsync(values, there, BYTES, cudaMemcpyDeviceToHost, second));
    MUST(cudaStreamSynchronize(second));
    EXPECT(isnan(values[0]) && isnan(values[N - 1]));
}

/* ---- faults --------------------------------------------------------------------- */

static void host_reads_device_memory(void)
{
    volatile float *there = device_block(BYTES);
    printf("%g\n", (double)there[0]);
}

static void kernel_runs_past_the_end(void)
{
    float *there = device_block(4096);
    MUST(cudaMemset(there, 0, 4096));
    MUST(add_by_call(there, 1025, 1, 17, NULL));
    MUST(cudaDeviceSynchronize());
}

static void kernel_writes_into_the_gap(void)
{
    float *there = device_block(BYTES);
    cudaStream_t stream = new_stream();
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    MUST(fill_by_call(there, N + 1, 1, stream));
    MUST(cudaStreamSynchronize(stream));
}

static void freed_memory_is_used(void)
{
    float *there = device_block(BYTES);
    MUST(cudaFree(there));
    MUST(add_by_call(there, N, 1, 2, NULL));
    MUST(cudaDeviceSynchronize());
}

static void free_while_in_use(void)
{
    float *there = device_block(BYTES);
    cudaStream_t stream = new_stream();
    MUST(cudaMemsetAsync(there, 0, BYTES, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(add_by_call(there, N, 1, 2, stream));
    MUST(cudaFree(there));
}

static void free_twice(void)
{
    float *there = device_block(BYTES);
    MUST(cudaFree(there));
    EXPECT(cudaFree(there) == cudaErrorInvalidValue);
}

static void copy_of_the_wrong_kind(void)
{
    float *there = device_block(BYTES), values[N] = {0};
    EXPECT(cudaMemcpy(there, values, BYTES, cudaMemcpyDeviceToHost) ==
           cudaErrorInvalidValue);
}

static void copy_past_the_end(void)
{
    float *there = device_block(BYTES), values[N + 1] = {0};
    EXPECT(cudaMemcpy(there, values, BYTES + 4, cudaMemcpyHostToDevice) ==
           cudaErrorInvalidValue);
}

static void grid_of_no_blocks(void)
{
    float *there = device_block(BYTES);
    EXPECT(add_by_call(there, N, 1, 0, NULL) == cudaErrorInvalidConfiguration);
}

static void kernel_without_a_body(void)
{
    EXPECT(launch_unknown(NULL) == cudaErrorInvalidDeviceFunction);
}

static void stream_that_is_destroyed(void)
{
    cudaStream_t stream = new_stream();
    MUST(cudaStreamDestroy(stream));
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
}

static void fault_before_a_short_end(void)
{
    float *there = device_block(BYTES), values[N] = {0};
    EXPECT(cudaMemcpy(there, values, BYTES + 4, cudaMemcpyHostToDevice) ==
           cudaErrorInvalidValue);
    _exit(0);
}

/* ---- devices -------------------------------------------------------------------- */

// Says what it finds: the test gives it one environment after another.
static void devices(void)
{
    struct cudaDeviceProp properties;
    int count = -1, driver = -1, runtime = -1;
    size_t free_bytes = 0, total_bytes = 0;
    void *block;
    cudaError_t error = cudaGetDeviceCount(&count);
    MUST(cudaDriverGetVersion(&driver));
    MUST(cudaRuntimeGetVersion(&runtime));
    printf("count %d, %s, driver %d\n", count, cudaGetErrorName(error), driver);
    EXPECT(runtime == CUDART_VERSION);
    if (error)
        return;
    EXPECT(cudaSetDevice(count) == cudaErrorInvalidDevice);
    MUST(cudaSetDevice(count - 1));
    MUST(cudaGetDeviceProperties(&properties, 0));
    MUST(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT(properties.totalGlobalMem == total_bytes && free_bytes == total_bytes);
    printf("compute %d.%d, %zu MB\n", properties.major, properties.minor,
           total_bytes >> 20);
    EXPECT(cudaMalloc(&block, total_bytes + 1) == cudaErrorMemoryAllocation);
    MUST(cudaMalloc(&block, 1 << 20));
    MUST(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT(free_bytes == total_bytes - (1 << 20));
    MUST(cudaFree(block));
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct named_case cases[] = {
        CASE(copies_and_kernels),
        CASE(pageable_memory_is_taken_at_the_call),
        CASE(an_event_orders_two_streams),
        CASE(a_query_finds_work_once),
        CASE(the_legacy_stream_waits_for_blocking_streams),
        CASE(unwritten_memory_is_nan),
        CASE(without_a_wait_results_are_stale),
        CASE(pinned_memory_is_read_late),
        CASE(without_an_event_streams_do_not_wait),
        CASE(host_reads_device_memory),
        CASE(kernel_runs_past_the_end),
        CASE(kernel_writes_into_the_gap),
        CASE(freed_memory_is_used),
        CASE(free_while_in_use),
        CASE(free_twice),
        CASE(copy_of_the_wrong_kind),
        CASE(copy_past_the_end),
        CASE(grid_of_no_blocks),
        CASE(kernel_without_a_body),
        CASE(stream_that_is_destroyed),
        CASE(fault_before_a_short_end),
        CASE(devices),
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
