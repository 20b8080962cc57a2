/* cuda.h - the door to the CUDA backend; cuda_none.c stands behind it in a build without.
 * Flow:  device_open("cuda:N") -> [cuda_open] -> device->ops. */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include "kernels/device.h"

/* Fills device->name, ->ops, ->backend, ->channel_multiple and ->description for GPU
 * `index`, or returns STATUS_ENVIRONMENT with the reason and what to do. */
enum status cuda_open(struct device *device, int index);
void cuda_close(struct device *device);

#endif
