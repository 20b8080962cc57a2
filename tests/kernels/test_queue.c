/* The queue, lanes and groups of devices that do everything at once. A GPU's are tested
 * in tests/cuda. */
#include <string.h>

#include "kernels/ops.h"
#include "tests/support/support.h"

static const char *const names[] = {"ref", "cpu"};
#define NAMES 2

static struct device *open_one(const char *name)
{
    struct device *device;
    assert_int_equal(device_open(name, 2, &device), STATUS_OK);
    return device;
}

static void test_host_memory_is_zeroed_and_travels_there_and_back(void **state)
{
    (void)state;
    enum { BYTES = 1000 };
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]);
        const struct ops *ops = device->ops;
        char *host = ops->memory.alloc_host(device, BYTES), zeros[BYTES] = {0};
        char *block = ops->memory.alloc(device, BYTES);
        assert_non_null(host);
        assert_memory_equal(host, zeros, BYTES);
        memset(host, 7, BYTES);
        ops->queue.upload_later(device, block, host, BYTES);
        ops->queue.mark(device, 1);
        ops->queue.wait_mark(device, 1);
        memset(host, 0, BYTES);
        ops->queue.download_later(device, host, block, BYTES);
        ops->queue.download_later(device, NULL, NULL, 0);
        ops->queue.mark(device, 0);
        ops->queue.wait_mark(device, 0);
        for (int k = 0; k < BYTES; k++)
            assert_int_equal(host[k], 7);
        ops->memory.release(device, block);
        ops->memory.release_host(device, host);
        device_close(device);
    }
}

static void test_all_marks_are_passed_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]);
        assert_int_equal(device->steps_ahead, 0);
        for (int slot = 0; slot < DEVICE_MARKS; slot++) {
            assert_true(device->ops->queue.is_passed(device, slot)); // never marked
            device->ops->queue.wait_mark(device, slot);
            device->ops->queue.mark(device, slot);
            assert_true(device->ops->queue.is_passed(device, slot));
        }
        device_close(device);
    }
}

struct work {
    struct device *device;
    uint64_t *counter;
};

static void count_up(void *argument)
{
    struct work *work = argument;
    work->device->ops->image.advance(work->device, work->counter);
}

static void test_repeated_work_is_done_every_time(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]);
        const struct ops *ops = device->ops;
        struct work work = {device, ops->memory.alloc(device, sizeof(uint64_t))};
        struct repeat *repeat = NULL;
        uint64_t count = 0;
        for (int k = 0; k < 5; k++)
            ops->queue.repeat(device, &repeat, count_up, &work);
        ops->queue.forget(device, &repeat);
        assert_null(repeat);
        ops->queue.repeat(device, &repeat, count_up, &work);
        ops->queue.forget(device, &repeat);
        ops->memory.download(device, &count, work.counter, sizeof count);
        assert_int_equal(count, 6);
        ops->memory.release(device, work.counter);
        device_close(device);
    }
}

static void test_a_lane_is_the_device_itself(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]), *lane = NULL;
        assert_int_equal(device->ops->queue.open_stream(device, &lane), STATUS_OK);
        assert_ptr_equal(lane, device);
        device->ops->queue.follow(device, lane);
        device->ops->queue.close_stream(device, lane);
        assert_int_equal(device_fault(device), STATUS_OK);
        device_close(device);
    }
}

static void test_a_group_of_one_keeps_its_sums(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]);
        float singles[3] = {1.0f, -2.0f, 3.0f};
        double doubles[2] = {4.0, 5.0};
        assert_int_equal(device->world, 1);
        assert_int_equal(device->rank, 0);
        device->ops->group.sum_f32(device, singles, 3);
        device->ops->group.max_f32(device, singles, 3);
        device->ops->group.sum_f64(device, doubles, 2);
        assert_true(singles[0] == 1.0f && singles[1] == -2.0f && singles[2] == 3.0f);
        assert_true(doubles[0] == 4.0 && doubles[1] == 5.0);
        device_close(device);
    }
}

static void test_free_memory_is_some_and_not_endless(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        struct device *device = open_one(names[i]);
        size_t bytes = device->ops->memory.available(device);
        assert_true(bytes > 0);
        assert_true(bytes == SIZE_MAX || bytes < (size_t)1 << 50);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory_is_zeroed_and_travels_there_and_back),
        cmocka_unit_test(test_all_marks_are_passed_at_once),
        cmocka_unit_test(test_repeated_work_is_done_every_time),
        cmocka_unit_test(test_a_lane_is_the_device_itself),
        cmocka_unit_test(test_a_group_of_one_keeps_its_sums),
        cmocka_unit_test(test_free_memory_is_some_and_not_endless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
