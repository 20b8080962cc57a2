/* test_queue.c - marks, streams and recorded work of the CUDA backend, on the stand-in
 * for its runtime, which runs nothing before somebody waits for it: what is not waited
 * for is not there. */
#include <pthread.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/support/support.h"

static struct device *gpu;

static int open_gpu(void **state)
{
    (void)state;
    if (device_open("cuda:0", 1, &gpu) == STATUS_OK)
        return 0;
    print_message("%s\n", status_message());
    return 1;
}

static int close_gpu(void **state)
{
    (void)state;
    int is_well = device_fault(gpu) == STATUS_OK;
    device_close(gpu);
    return is_well ? 0 : 1;
}

static void test_a_gpu_runs_ahead_of_the_host(void **state)
{
    (void)state;
    assert_int_equal(gpu->steps_ahead, 1);
    assert_int_equal(gpu->channel_multiple, 8);
    assert_int_equal(gpu->world, 1);
    assert_non_null(strstr(gpu->description, "compute 9.0"));
    assert_non_null(strstr(gpu->description, "cuDNN 9."));
}

static void test_a_mark_is_passed_when_the_work_before_it_is_done(void **state)
{
    (void)state;
    const struct ops *ops = gpu->ops;
    uint64_t *counter = ops->memory.alloc(gpu, 8), *host = ops->memory.alloc_host(gpu, 8);
    assert_true(ops->queue.is_passed(gpu, 3)); // never marked
    ops->queue.wait_mark(gpu, 3);
    ops->image.advance(gpu, counter);
    ops->queue.download_later(gpu, host, counter, 8);
    ops->queue.mark(gpu, 0);
    assert_int_equal(*host, 0);
    assert_false(ops->queue.is_passed(gpu, 0));
    ops->queue.wait_mark(gpu, 0);
    assert_true(ops->queue.is_passed(gpu, 0));
    assert_int_equal(*host, 1);
    ops->memory.release(gpu, counter);
    ops->memory.release_host(gpu, host);
}

static void test_uploads_take_the_hosts_bytes_at_once(void **state)
{
    (void)state;
    const struct ops *ops = gpu->ops;
    uint64_t value = 41, *counter = ops->memory.alloc(gpu, 8);
    ops->memory.upload(gpu, counter, &value, 8);
    value = 7;
    ops->image.advance(gpu, counter);
    ops->memory.download(gpu, &value, counter, 8);
    assert_int_equal(value, 42);
    ops->memory.release(gpu, counter);
}

static void test_memory_is_zero_and_counted(void **state)
{
    (void)state;
    const struct ops *ops = gpu->ops;
    enum { BYTES = 4 << 20 };
    static char bytes[BYTES], zeros[BYTES];
    size_t before = ops->memory.available(gpu);
    void *block = ops->memory.alloc(gpu, BYTES);
    assert_non_null(block);
    assert_true(ops->memory.available(gpu) <= before - BYTES);
    ops->memory.download(gpu, bytes, block, BYTES);
    assert_memory_equal(bytes, zeros, BYTES);
    ops->memory.release(gpu, block);
    assert_null(ops->memory.alloc(gpu, before + 1)); // and that is no fault
    assert_int_equal(device_fault(gpu), STATUS_OK);
}

static void test_a_lane_is_followed_and_only_then_waited_for(void **state)
{
    (void)state;
    const struct ops *ops = gpu->ops;
    struct device *stream;
    uint64_t value = 0, *one = ops->memory.alloc(gpu, 8),
             *two = ops->memory.alloc(gpu, 8);
    assert_int_equal(ops->queue.open_stream(gpu, &stream), STATUS_OK);
    assert_ptr_not_equal(stream, gpu);
    assert_string_equal(stream->name, "cuda:0");
    stream->ops->image.advance(stream, one);
    stream->ops->queue.mark(stream, 0);
    ops->image.advance(gpu, two);
    ops->memory.wait(gpu);
    assert_false(stream->ops->queue.is_passed(stream, 0));
    ops->queue.follow(gpu, stream);
    ops->memory.copy(gpu, two, one, 8);
    ops->memory.download(gpu, &value, two, 8);
    assert_int_equal(value, 1);
    assert_true(stream->ops->queue.is_passed(stream, 0));
    // A stream's faults are its own.
    device_set_fault(stream, "planted");
    assert_int_equal(device_fault(gpu), STATUS_OK);
    ops->queue.close_stream(gpu, stream);
    ops->memory.release(gpu, one);
    ops->memory.release(gpu, two);
}

/* ---- recorded work --------------------------------------------------------------- */

struct work {
    struct device *device;
    uint64_t *counter;
    int calls;
};

static void count_up(void *argument)
{
    struct work *work = argument;
    work->device->ops->image.advance(work->device, work->counter);
    work->device->ops->image.advance(work->device, work->counter);
    work->calls += 1;
}

static uint64_t counted(struct work *work)
{
    uint64_t value;
    work->device->ops->memory.download(work->device, &value, work->counter, sizeof value);
    return value;
}

static void test_work_runs_is_recorded_and_then_replayed(void **state)
{
    (void)state;
    const struct ops *ops = gpu->ops;
    struct work work = {gpu, ops->memory.alloc(gpu, 8), 0};
    struct repeat *repeat = NULL;
    for (uint64_t step = 1; step <= 6; step++) {
        ops->queue.repeat(gpu, &repeat, count_up, &work);
        assert_int_equal(counted(&work), 2 * step);
        assert_int_equal(work.calls, step < 2 ? 1 : 2);
    }
    ops->queue.forget(gpu, &repeat);
    assert_null(repeat);
    // Other arguments, after forget(), are recorded anew.
    struct work other = {gpu, ops->memory.alloc(gpu, 8), 0};
    for (int i = 0; i < 4; i++)
        ops->queue.repeat(gpu, &repeat, count_up, &other);
    ops->queue.forget(gpu, &repeat);
    assert_int_equal(counted(&other), 8);
    assert_int_equal(counted(&work), 12);
    assert_int_equal(other.calls, 2);
    ops->memory.release(gpu, work.counter);
    ops->memory.release(gpu, other.counter);
}

static void test_a_plain_device_queues_every_time(void **state)
{
    (void)state;
    struct device_options options = {.is_plain = 1};
    struct device *plain;
    struct repeat *repeat = NULL;
    assert_int_equal(device_open_with("cuda:0", &options, &plain), STATUS_OK);
    struct work work = {plain, plain->ops->memory.alloc(plain, 8), 0};
    for (int i = 0; i < 4; i++)
        plain->ops->queue.repeat(plain, &repeat, count_up, &work);
    assert_int_equal(work.calls, 4);
    assert_int_equal(counted(&work), 8);
    plain->ops->queue.forget(plain, &repeat);
    plain->ops->memory.release(plain, work.counter);
    device_close(plain);
}

/* ---- threads --------------------------------------------------------------------- */

static void *work_elsewhere(void *argument)
{
    struct work *work = argument;
    struct repeat *repeat = NULL;
    for (int i = 0; i < 3; i++)
        work->device->ops->queue.repeat(work->device, &repeat, count_up, work);
    work->device->ops->queue.forget(work->device, &repeat);
    return NULL;
}

static void test_another_thread_works_on_the_same_gpu(void **state)
{
    (void)state;
    struct device *second;
    pthread_t thread;
    assert_int_equal(device_open("cuda:1", 1, &second), STATUS_OK);
    assert_string_equal(second->name, "cuda:1");
    struct work work = {second, second->ops->memory.alloc(second, 8), 0};
    assert_int_equal(pthread_create(&thread, NULL, work_elsewhere, &work), 0);
    pthread_join(thread, NULL);
    assert_int_equal(counted(&work), 6);
    assert_int_equal(device_fault(second), STATUS_OK);
    second->ops->memory.release(second, work.counter);
    device_close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_runs_ahead_of_the_host),
        cmocka_unit_test(test_a_mark_is_passed_when_the_work_before_it_is_done),
        cmocka_unit_test(test_uploads_take_the_hosts_bytes_at_once),
        cmocka_unit_test(test_memory_is_zero_and_counted),
        cmocka_unit_test(test_a_lane_is_followed_and_only_then_waited_for),
        cmocka_unit_test(test_work_runs_is_recorded_and_then_replayed),
        cmocka_unit_test(test_a_plain_device_queues_every_time),
        cmocka_unit_test(test_another_thread_works_on_the_same_gpu),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
