/* cuda_none.c - what a program built without CUDA answers. */
#include "kernels/cuda/cuda.h"

enum status cuda_open(struct device *device, int index)
{
    (void)device;
    return status_fail(
        STATUS_ENVIRONMENT,
        "cuda:%d: this program was built without its CUDA backend; choose the "
        "device cpu or auto",
        index);
}

void cuda_close(struct device *device)
{
    (void)device;
}
