/* module.c - what the program finds under the name `twinscale_cuda`: one GPU's queue,
 * with its libraries, opened, described and closed. Every sentence that a user can meet
 * before the first step stands here. */
#include "kernels/cuda/module.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

#define CUDNN_NEEDED 91900 // the plans' fused patterns and their JSON
#define COMPUTE_NEEDED 75  // tensor cores that take f16 in any layout
#define CHANNEL_MULTIPLE 8 // tensor cores read 16 bytes of channels at once
#define FIRST_WORKSPACE (4u << 20)

/* ---- errors ---------------------------------------------------------------------- */

void cuda_keep_error(struct device *device, const char *op, cudaError_t error)
{
    if (error != cudaSuccess)
        device_set_fault(device, "%s: %s", op, cudaGetErrorString(error));
}

int cuda_select(struct device *device)
{
    static _Thread_local int selected; // as CUDA begins
    int index = cuda_backend(device)->index;
    if (selected == index)
        return 1;
    cudaError_t error = cudaSetDevice(index);
    cuda_keep_error(device, "cudaSetDevice", error);
    if (error == cudaSuccess)
        selected = index;
    return error == cudaSuccess;
}

void cuda_wait_all(struct device *device, const char *op)
{
    struct cuda_backend *backend = cuda_backend(device);
    if (backend->group) {
        cuda_keep_error(device, op, cudaEventRecord(backend->joint, backend->stream));
        cuda_group_wait(device, backend->joint);
    } else {
        cuda_keep_error(device, op, cudaStreamSynchronize(backend->stream));
    }
}

enum status cuda_grow(struct device *device, void **block, size_t *has, size_t bytes,
                      const char *what)
{
    if (bytes <= *has)
        return STATUS_OK;
    const struct memory_ops *memory = &device->ops->memory;
    if (*block)
        memory->release(device, *block);
    *has = 0;
    *block = memory->alloc(device, bytes);
    if (!*block)
        return status_fail(STATUS_FAILED,
                           "%s: %.1f MiB wanted, %s has %.1f MiB free; give a smaller "
                           "--batch, or narrower networks (--g-width, --d-width)",
                           what, (double)bytes / 1048576.0, device->name,
                           (double)memory->available(device) / 1048576.0);
    *has = bytes;
    return STATUS_OK;
}

/* ---- is there such a GPU --------------------------------------------------------- */

static enum status no_driver(int index, cudaError_t error)
{
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return status_fail(STATUS_ENVIRONMENT,
                           "cuda:%d: the NVIDIA driver does not answer (%s); install or "
                           "load it, or choose the device cpu",
                           index, cudaGetErrorString(error));
    return status_fail(STATUS_ENVIRONMENT,
                       "cuda:%d: the NVIDIA driver is for CUDA %d.%d, this program needs "
                       "%d.%d or newer (%s); update the driver, or choose the device cpu",
                       index, driver / 1000, driver % 100 / 10, runtime / 1000,
                       runtime % 100 / 10, cudaGetErrorString(error));
}

static enum status check_driver(int index)
{
    int count = 0, driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
        return status_fail(
            STATUS_ENVIRONMENT,
            "cuda:%d: the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES?); "
            "choose the device cpu",
            index);
    if (error != cudaSuccess)
        return no_driver(index, error);
    // A driver serves every runtime of its own major version, and older ones.
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver / 1000 < runtime / 1000)
        return no_driver(index, cudaErrorInsufficientDriver);
    if (index >= count && count == 1)
        return status_fail(
            STATUS_ENVIRONMENT,
            "cuda:%d: there is 1 GPU here; choose cuda:0, or the device cpu", index);
    if (index >= count)
        return status_fail(STATUS_ENVIRONMENT,
                           "cuda:%d: there are %d GPUs here; choose one of cuda:0 to "
                           "cuda:%d, or the device cpu",
                           index, count, count - 1);
    return STATUS_OK;
}

static enum status check_gpu(int index, struct cudaDeviceProp *gpu)
{
    cudaError_t error = cudaGetDeviceProperties(gpu, index);
    if (error != cudaSuccess)
        return status_fail(STATUS_ENVIRONMENT, "cuda:%d: %s", index,
                           cudaGetErrorString(error));
    if (gpu->major * 10 + gpu->minor < COMPUTE_NEEDED)
        return status_fail(STATUS_ENVIRONMENT,
                           "cuda:%d: %s has compute capability %d.%d, this program needs "
                           "%d.%d or newer; choose another GPU or the device cpu",
                           index, gpu->name, gpu->major, gpu->minor, COMPUTE_NEEDED / 10,
                           COMPUTE_NEEDED % 10);
    if (cudnnGetVersion() < CUDNN_NEEDED)
        return status_fail(
            STATUS_ENVIRONMENT,
            "cuda:%d: cuDNN %zu was found, this program needs %d or newer; "
            "update cuDNN, or name a newer one's folder in LD_LIBRARY_PATH",
            index, cudnnGetVersion(), CUDNN_NEEDED);
    return STATUS_OK;
}

/* ---- one queue ------------------------------------------------------------------- */

static void fill_ops(struct ops *ops)
{
    cuda_fill_memory(&ops->memory);
    cuda_fill_queue(&ops->queue);
    cuda_fill_group(&ops->group);
    cuda_fill_conv(&ops->conv);
    cuda_fill_norm(&ops->norm);
    cuda_fill_pointwise(&ops->pointwise);
    cuda_fill_resample(&ops->resample);
    cuda_fill_image(&ops->image);
    cuda_fill_loss(&ops->loss);
    cuda_fill_optimizer(&ops->optimizer);
    cuda_fill_scaler(&ops->optimizer);
    cuda_fill_survey(&ops->survey);
}

static enum status open_stream(struct device *device)
{
    struct cuda_backend *backend = cuda_backend(device);
    int lowest = 0, highest = 0;
    cudaError_t error = cuda_select(device) ? cudaSuccess : cudaErrorInvalidDevice;
    if (error == cudaSuccess)
        error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&backend->stream, cudaStreamNonBlocking,
                                             backend->is_lane ? lowest : highest);
    for (int i = 0; i < DEVICE_MARKS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&backend->marks[i], cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&backend->joint, cudaEventDisableTiming);
    if (error == cudaSuccess)
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT,
                       "%s: it cannot be used: %s; see what else runs on it, or choose "
                       "another device",
                       backend->name, cudaGetErrorString(error));
}

static enum status open_libraries(struct cuda_backend *backend)
{
    cudnnStatus_t cudnn = cudnnCreate(&backend->cudnn);
    if (cudnn == CUDNN_STATUS_SUCCESS)
        cudnn = cudnnSetStream(backend->cudnn, backend->stream);
    if (cudnn != CUDNN_STATUS_SUCCESS)
        return status_fail(STATUS_ENVIRONMENT,
                           "%s: cuDNN does not start: %s; check that it is the one for "
                           "this CUDA",
                           backend->name, cudnnGetErrorString(cudnn));
    cublasStatus_t cublas = cublasCreate(&backend->cublas);
    if (cublas == CUBLAS_STATUS_SUCCESS)
        cublas = cublasSetStream(backend->cublas, backend->stream);
    if (cublas != CUBLAS_STATUS_SUCCESS)
        return status_fail(STATUS_ENVIRONMENT,
                           "%s: cuBLAS does not start: %s; check that it is the one for "
                           "this CUDA",
                           backend->name, cublasGetStatusString(cublas));
    return STATUS_OK;
}

/* Sets `device` up on backend->index; what is there is released by
 * cuda_close_backend(). */
static enum status open_queue(struct device *device, struct cuda_backend *backend)
{
    device->backend = backend;
    snprintf(backend->name, sizeof backend->name, "cuda:%d", backend->index);
    fill_ops(&backend->ops);
    device->name = backend->name;
    device->ops = &backend->ops;
    device->channel_multiple = CHANNEL_MULTIPLE;
    device->steps_ahead = 1;
    TRY(open_stream(device));
    TRY(open_libraries(backend));
    TRY(cuda_grow(device, &backend->workspace, &backend->workspace_bytes, FIRST_WORKSPACE,
                  "the libraries' workspace"));
    size_t has = 0;
    return cuda_grow(device, (void **)&backend->partial, &has,
                     CUDA_PARTIAL_FLOATS * sizeof(float), "partial sums");
}

static void destroy_queue(struct cuda_backend *backend)
{
    if (backend->cublas)
        cublasDestroy(backend->cublas);
    if (backend->cudnn)
        cudnnDestroy(backend->cudnn);
    cudaFree(backend->workspace);
    cudaFree(backend->scratch);
    cudaFree(backend->partial);
    for (int i = 0; i < DEVICE_MARKS; i++)
        if (backend->marks[i])
            cudaEventDestroy(backend->marks[i]);
    if (backend->joint)
        cudaEventDestroy(backend->joint);
    if (backend->stream)
        cudaStreamDestroy(backend->stream);
}

void cuda_close_backend(struct device *device)
{
    struct cuda_backend *backend = device->backend;
    if (!backend)
        return;
    cuda_select(device);
    if (backend->stream && !device->fault[0])
        cuda_wait_all(device, "close");
    cuda_group_leave(device);
    destroy_queue(backend);
    free(backend);
    device->backend = NULL;
    device->ops = NULL;
    device->name = "cuda";
}

enum status cuda_open_stream(struct device *lane, struct device *device)
{
    const struct cuda_backend *owner = cuda_backend(device);
    struct cuda_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return status_fail(STATUS_FAILED, "%s: no memory for a second queue",
                           device->name);
    backend->index = owner->index;
    backend->compute_capability = owner->compute_capability;
    backend->multiprocessors = owner->multiprocessors;
    backend->options = owner->options;
    backend->is_lane = 1;
    memcpy(lane->description, device->description, sizeof lane->description);
    return open_queue(lane, backend);
}

/* ---- what the program calls ------------------------------------------------------ */

static void describe(struct device *device, const struct cudaDeviceProp *gpu)
{
    int runtime = 0;
    size_t cudnn = cudnnGetVersion();
    cudaRuntimeGetVersion(&runtime);
    snprintf(device->description, sizeof device->description,
             "%.64s, compute %d.%d, %.0f GB, CUDA %d.%d, cuDNN %zu.%zu.%zu", gpu->name,
             gpu->major, gpu->minor, (double)gpu->totalGlobalMem / 1e9, runtime / 1000,
             runtime % 100 / 10, cudnn / 10000, cudnn % 10000 / 100, cudnn % 100);
}

static enum status module_open(struct device *device, int index,
                               const struct device_options *options)
{
    struct cudaDeviceProp gpu;
    TRY(check_driver(index));
    TRY(check_gpu(index, &gpu));
    struct cuda_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return status_fail(STATUS_FAILED, "cuda:%d: no memory", index);
    backend->index = index;
    backend->compute_capability = gpu.major * 10 + gpu.minor;
    backend->multiprocessors = gpu.multiProcessorCount;
    backend->options = *options;
    describe(device, &gpu);
    enum status status = open_queue(device, backend);
    if (status == STATUS_OK && options->world > 1)
        status = cuda_group_join(device);
    if (status != STATUS_OK)
        cuda_close_backend(device);
    return status;
}

static int module_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

__attribute__((visibility("default"))) extern const struct cuda_module twinscale_cuda;

const struct cuda_module twinscale_cuda = {
    .open = module_open,
    .close = cuda_close_backend,
    .group_id = cuda_make_group_id,
    .count = module_count,
};
