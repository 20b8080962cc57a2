/* module.h - opening and closing one queue of a GPU, and the group it may belong to.
 * Flow:  cuda.c (in the program) -> module.c -> every op of this folder. */
#ifndef KERNELS_CUDA_MODULE_H
#define KERNELS_CUDA_MODULE_H

#include "kernels/cuda/backend.h"

/* Makes `lane` a second queue of the GPU of `device`, of the lowest priority. Whatever
 * happens, cuda_close_backend(lane) releases what there is. */
enum status cuda_open_stream(struct device *lane, struct device *device);
void cuda_close_backend(struct device *device);

/* Makes the GPU of `device` that of the calling thread; 0, and a fault, if that fails.
 * Every thread begins with GPU 0, and kernels go to no other's queue. Called by all that
 * a thread does first: memory and queue. */
int cuda_select(struct device *device);

/* Destroys every recorded graph of the queue; one that runs ends first. Their repeats
 * stay, to be forgotten. */
void cuda_drop_graphs(struct device *device);

/* ---- cuda_group.c ---------------------------------------------------------------- */

/* A new NCCL id. */
enum status cuda_make_group_id(unsigned char id[DEVICE_GROUP_ID]);

/* Joins the group that device_options names; returns when all ranks have. */
enum status cuda_group_join(struct device *device);
void cuda_group_leave(struct device *device);

/* Waits for `event`, and looks meanwhile whether NCCL has lost a rank: then it is a
 * fault, and nobody waits for ever. */
void cuda_group_wait(struct device *device, cudaEvent_t event);

/* Waits for all that is queued, in that way where there is a group. */
void cuda_wait_all(struct device *device, const char *op);

#endif
