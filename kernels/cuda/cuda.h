/* cuda.h - the door to the CUDA backend, which is a module of its own beside the program.
 * Flow:  device_open("cuda:N") -> [cuda_open] -> twinscale_cuda.so -> device->ops.
 * Owns:  the module, once it is loaded, until the program ends.
 *
 * The module is loaded only when a GPU is asked for: a program on a machine without CUDA
 * starts as fast as ever and needs none of its libraries, and one that lacks a library
 * says which. */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include "kernels/device.h"

/* Fills device->name, ->ops, ->backend, ->channel_multiple, ->steps_ahead, ->rank,
 * ->world and ->description for GPU `index`, or returns STATUS_ENVIRONMENT with the
 * reason and what to do. */
enum status cuda_open(struct device *device, int index,
                      const struct device_options *options);
void cuda_close(struct device *device);

/* A new NCCL id. */
enum status cuda_group_id(unsigned char id[DEVICE_GROUP_ID]);

/* GPUs of this machine that the driver shows to this process; 0 where anything is
 * missing. */
int cuda_count(void);

/* Whether there is an NVIDIA driver at all: elsewhere nobody expects a GPU to be used. */
int cuda_has_driver(void);

/* What the module offers, under the name `twinscale_cuda`. */
#define CUDA_MODULE "twinscale_cuda.so"

struct cuda_module {
    enum status (*open)(struct device *device, int index,
                        const struct device_options *options);
    void (*close)(struct device *device);
    enum status (*group_id)(unsigned char id[DEVICE_GROUP_ID]);
    int (*count)(void);
};

#endif
