/* device.h - a device whose own kernels run on fibers, for tests of the ops.
 * Flow:  tests/kernels/backends.h or a test -> [fiber_device_open] -> device->ops.
 * Owns:  the device, until device_close().
 *
 * Norms, pointwise ops, images, losses, the optimizer and surveys are the product's CUDA
 * kernels; memory, the queue and convolutions are ref's, on host memory. The order of the
 * fibers is FIBER_ORDER's at each launch; the environment variable FIBER_CHANNELS is what
 * channels are padded to, 8 by default. */
#ifndef TESTS_CUDA_FIBERS_DEVICE_H
#define TESTS_CUDA_FIBERS_DEVICE_H

#include "kernels/device.h"

/* NULL, with status_message(), when there is no memory. */
struct device *fiber_device_open(void);

#endif
