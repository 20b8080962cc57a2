/* open_gpu.c - opens the devices "cuda:0" and "auto" and prints what came of it; for
 * test_door.c, which runs it with one thing and another missing around it.
 *     open_gpu            opens them
 *     open_gpu unfit      repeats work that cannot be captured, and prints the fault */
#include <stdio.h>

#include "kernels/ops.h"

static void try_device(const char *name)
{
    struct device *device;
    if (device_open(name, 1, &device) != STATUS_OK) {
        printf("%s failed: %s\n", name, status_message());
        return;
    }
    printf("%s is %s, note \"%s\"\n", name, device->name, device->note);
    device_close(device);
}

/* Waits for the device, which nothing may do that is recorded. */
static void wait_for_it(void *device)
{
    ((struct device *)device)->ops->memory.wait(device);
}

static void repeat_unfit_work(void)
{
    struct device *device;
    struct repeat *repeat = NULL;
    if (device_open("cuda:0", 1, &device) != STATUS_OK)
        return;
    for (int i = 0; i < 3; i++)
        device->ops->queue.repeat(device, &repeat, wait_for_it, device);
    if (device_fault(device) != STATUS_OK)
        printf("fault: %s\n", status_message());
    device->ops->queue.forget(device, &repeat);
    device_close(device);
}

int main(int count, char **arguments)
{
    unsigned char id[DEVICE_GROUP_ID];
    (void)arguments;
    if (count > 1) {
        repeat_unfit_work();
        return 0;
    }
    try_device("cuda:0");
    try_device("auto");
    if (device_group_id("cuda:0", id) != STATUS_OK)
        printf("group failed: %s\n", status_message());
    return 0;
}
