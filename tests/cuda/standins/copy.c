/* copy.c - copies and fills of the stand-in for the CUDA runtime. As on a GPU, pageable
 * host memory is read before the call returns, pinned memory only when the copy runs. */
#include "tests/cuda/standins/runtime.h"

#include <stdlib.h>
#include <string.h>

static int is_device(const void *pointer)
{
    struct block *block = block_of(pointer);
    return block && block->is_device;
}

static int is_pinned(const void *pointer)
{
    struct block *block = block_of(pointer);
    return block && !block->is_device;
}

static enum cudaMemcpyKind kind_of(const void *to, const void *from)
{
    if (is_device(to))
        return is_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    return is_device(from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

static int is_right_copy(const void *to, const void *from, size_t bytes,
                         enum cudaMemcpyKind kind, const char *call)
{
    if (kind != cudaMemcpyDefault && kind != kind_of(to, from)) {
        standin_complain(
            "%s of kind %d from %s to %s memory (kinds: 0 host to host, 1 host "
            "to device, 2 device to host, 3 device to device)",
            call, (int)kind, is_device(from) ? "device" : "host",
            is_device(to) ? "device" : "host");
        return 0;
    }
    struct block *pinned = is_pinned(to) ? block_of(to) : NULL;
    if (pinned && (char *)(uintptr_t)to + bytes > pinned->start + pinned->bytes) {
        standin_complain(
            "%s: %zu bytes run past the end of pinned block #%d of %zu bytes", call,
            bytes, pinned->number, pinned->bytes);
        return 0;
    }
    return (!is_device(to) || standin_is_device(to, bytes, call)) &&
           (!is_device(from) || standin_is_device(from, bytes, call));
}

static cudaError_t queue_copy(void *to, const void *from, size_t bytes,
                              cudaStream_t stream, const char *call)
{
    struct op op = {
        .kind = OP_COPY, .what = call, .to = to, .from = from, .bytes = bytes};
    int is_pageable =
        (!is_device(from) && !is_pinned(from)) || (!is_device(to) && !is_pinned(to));
    if (is_pageable && stream->capture) {
        standin_complain("%s between pageable host memory and a stream that is capturing",
                         call);
        spoil_captures();
        return cudaErrorStreamCaptureUnsupported;
    }
    if (is_pageable && is_device(to)) {
        op.data = malloc(bytes);
        memcpy(op.data, from, bytes);
        op.from = op.data;
    }
    return queue_op(stream, op);
}

static cudaError_t copy_later(void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t handle,
                              const char *call)
{
    cudaStream_t stream = stream_of(handle, call);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (bytes == 0)
        return cudaSuccess;
    if (!is_right_copy(to, from, bytes, kind, call))
        return cudaErrorInvalidValue;
    cudaError_t error = stream->is_legacy ? forbid_in_capture(call) : cudaSuccess;
    return error ? error : queue_copy(to, from, bytes, stream, call);
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    lock();
    cudaError_t error = copy_later(to, from, bytes, kind, stream, "cudaMemcpyAsync");
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind)
{
    lock();
    cudaError_t error = forbid_in_capture("cudaMemcpy");
    if (!error)
        error = copy_later(to, from, bytes, kind, NULL, "cudaMemcpy");
    if (!error) {
        count_wait();
        run_through(stream_of(NULL, "cudaMemcpy"), UINT64_MAX);
    }
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                     size_t from_pitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    lock();
    for (size_t row = 0; row < height && !error; row++)
        error =
            copy_later((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
                       width, kind, stream, "cudaMemcpy2DAsync");
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t handle)
{
    struct op op = {.kind = OP_SET,
                    .what = "cudaMemsetAsync",
                    .to = to,
                    .bytes = bytes,
                    .value = value};
    lock();
    cudaStream_t stream = stream_of(handle, "cudaMemsetAsync");
    cudaError_t error = stream ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (!error && bytes > 0 && !standin_is_device(to, bytes, "cudaMemsetAsync"))
        error = cudaErrorInvalidValue;
    if (!error && stream->is_legacy)
        error = forbid_in_capture("cudaMemset on the legacy stream");
    if (!error && bytes > 0)
        error = queue_op(stream, op);
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}
