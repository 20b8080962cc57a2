/* shared_device.h - one CPU device, of two threads, for all tests of a program: its group
 * setup and teardown. */
#ifndef TESTS_NETS_SHARED_DEVICE_H
#define TESTS_NETS_SHARED_DEVICE_H

#include "kernels/device.h"
#include "tests/support/support.h"

static struct device *device;

static int open_device(void **state)
{
    (void)state;
    return device_open("cpu", 2, &device) != STATUS_OK;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

#endif
