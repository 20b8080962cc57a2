/* cuda_memory.c - device and pinned host memory, and copies in the device's queue. */
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/module.h"

static void *cuda_memory_alloc(struct device *device, size_t bytes)
{
    void *block = NULL;
    cudaStream_t stream = cuda_backend(device)->stream;
    if (!cuda_select(device))
        return NULL;
    if (cudaMalloc(&block, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError(); // said by who asked, and no fault of a step
        return NULL;
    }
    // Zeroed before anyone sees it, whatever queue they use.
    cuda_keep_error(device, "memory.alloc", cudaMemsetAsync(block, 0, bytes, stream));
    cuda_keep_error(device, "memory.alloc", cudaStreamSynchronize(stream));
    return block;
}

static void cuda_memory_release(struct device *device, void *block)
{
    cuda_select(device);
    cuda_keep_error(device, "memory.release", cudaFree(block));
}

static void cuda_memory_zero(struct device *device, void *data, size_t bytes)
{
    if (bytes && cuda_select(device))
        cuda_keep_error(device, "memory.zero",
                        cudaMemsetAsync(data, 0, bytes, cuda_backend(device)->stream));
}

static void cuda_memory_copy(struct device *device, void *to, const void *from,
                             size_t bytes)
{
    if (bytes && cuda_select(device))
        cuda_keep_error(device, "memory.copy",
                        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                        cuda_backend(device)->stream));
}

/* From pageable memory the runtime takes the bytes before it returns. */
static void cuda_memory_upload(struct device *device, void *to, const void *from_host,
                               size_t bytes)
{
    if (bytes && cuda_select(device))
        cuda_keep_error(device, "memory.upload",
                        cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice,
                                        cuda_backend(device)->stream));
}

static void cuda_memory_wait(struct device *device)
{
    if (cuda_select(device))
        cuda_wait_all(device, "memory.wait");
}

/* The copy itself waits inside CUDA for what is queued, and could not see that a rank is
 * lost: so a group's is waited for before. */
static void cuda_memory_download(struct device *device, void *to_host, const void *from,
                                 size_t bytes)
{
    const struct cuda_backend *backend = cuda_backend(device);
    const char *op = "memory.download";
    if (!cuda_select(device))
        return;
    if (backend->group)
        cuda_wait_all(device, op);
    if (bytes)
        cuda_keep_error(device, op,
                        cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost,
                                        backend->stream));
    cuda_keep_error(device, op, cudaStreamSynchronize(backend->stream));
}

static size_t cuda_memory_available(struct device *device)
{
    size_t free_bytes = 0, total = 0;
    if (!cuda_select(device) || cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return SIZE_MAX;
    return free_bytes;
}

static void *cuda_memory_alloc_host(struct device *device, size_t bytes)
{
    void *block = NULL;
    if (!cuda_select(device))
        return NULL;
    if (cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocDefault) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    memset(block, 0, bytes);
    return block;
}

static void cuda_memory_release_host(struct device *device, void *block)
{
    cuda_select(device);
    cuda_keep_error(device, "memory.release_host", cudaFreeHost(block));
}

void cuda_fill_memory(struct memory_ops *ops)
{
    *ops = (struct memory_ops){
        .alloc = cuda_memory_alloc,
        .release = cuda_memory_release,
        .zero = cuda_memory_zero,
        .copy = cuda_memory_copy,
        .upload = cuda_memory_upload,
        .download = cuda_memory_download,
        .wait = cuda_memory_wait,
        .available = cuda_memory_available,
        .alloc_host = cuda_memory_alloc_host,
        .release_host = cuda_memory_release_host,
    };
}
