/* cuda_group_none.c - in place of cuda_group.c where NCCL's header was not there to build
 * with: a GPU is always alone. */
#include "kernels/cuda/module.h"

static enum status refuse(void)
{
    return status_fail(STATUS_ENVIRONMENT,
                       "several GPUs need NCCL, which this program was built without; "
                       "build it where nccl.h is, or give --gpus 1");
}

enum status cuda_make_group_id(unsigned char id[DEVICE_GROUP_ID])
{
    (void)id;
    return refuse();
}

enum status cuda_group_join(struct device *device)
{
    (void)device;
    return refuse();
}

void cuda_group_leave(struct device *device)
{
    (void)device;
}

void cuda_group_wait(struct device *device, cudaEvent_t event)
{
    cuda_keep_error(device, "queue.wait_mark", cudaEventSynchronize(event));
}

static void keep_f32(struct device *device, float *data, size_t n)
{
    (void)device, (void)data, (void)n;
}

static void keep_f64(struct device *device, double *data, size_t n)
{
    (void)device, (void)data, (void)n;
}

void cuda_fill_group(struct group_ops *ops)
{
    *ops =
        (struct group_ops){.sum_f32 = keep_f32, .sum_f64 = keep_f64, .max_f32 = keep_f32};
}
