/* device.c - devices, versions, errors and the final account of the stand-in for the CUDA
 * runtime.
 *
 *     STANDIN_DEVICES=N     how many devices there are (1)
 *     STANDIN_DRIVER=V      none: no driver; 12040: a driver for CUDA 12.4 (13000)
 *     STANDIN_CAPABILITY=M  the compute capability times ten (90)
 *     STANDIN_MEMORY_MB=N   the memory of each device
 *     STANDIN_LOG=path      a line of counts is added to this file at the end */
#include "tests/cuda/standins/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local cudaError_t last_error;
static _Thread_local int current_device;
static int violations;
static long launches, waits, graph_launches;

/* ---- the account ---------------------------------------------------------------- */

EXPORT void standin_complain(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "standin VIOLATION: %s\n", text);
    lock();
    violations += 1;
    unlock();
}

void count_launch(void)
{
    launches += 1;
}

void count_wait(void)
{
    waits += 1;
}

void count_graph(void)
{
    graph_launches += 1;
}

static void write_log(void)
{
    const char *path = getenv("STANDIN_LOG");
    int blocks, has_worked = launches || waits || memory_has_been_taken();
    size_t bytes = memory_taken(&blocks);
    // A shell on the way to the program, which has done nothing, leaves no line.
    FILE *file = path && *path && has_worked ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file,
            "standin: pid %d launches %ld waits %ld graph_launches %ld live_blocks %d "
            "live_bytes %zu violations %d\n",
            (int)getpid(), launches, waits, graph_launches, blocks, bytes, violations);
    fclose(file);
}

EXPORT void standin_end(int code)
{
    write_log();
    syscall(SYS_exit_group, violations ? STANDIN_EXIT : code);
}

// At an end by exit(), which keeps its code unless there were violations.
__attribute__((destructor)) static void give_account(void)
{
    memory_check_edges();
    fflush(NULL);
    if (violations)
        standin_end(STANDIN_EXIT);
    write_log();
}

/* ---- errors --------------------------------------------------------------------- */

cudaError_t keep_error(cudaError_t error)
{
    if (error && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

#define ERRORS(X)                                                                       \
    X(cudaSuccess, "no error")                                                          \
    X(cudaErrorInvalidValue, "invalid argument")                                        \
    X(cudaErrorMemoryAllocation, "out of memory")                                       \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                  \
    X(cudaErrorMissingConfiguration, "__global__ function call is not configured")      \
    X(cudaErrorInsufficientDriver,                                                      \
      "CUDA driver version is insufficient for CUDA runtime version")                   \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                        \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                          \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                 \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                        \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")  \
    X(cudaErrorNotReady, "device not ready")                                            \
    X(cudaErrorStreamCaptureUnsupported,                                                \
      "operation not permitted when stream is capturing")                               \
    X(cudaErrorStreamCaptureInvalidated,                                                \
      "operation failed due to a previous error during capture")                        \
    X(cudaErrorStreamCaptureMerge,                                                      \
      "operation would result in a merge of separate capture "                          \
      "sequences")                                                                      \
    X(cudaErrorStreamCaptureUnmatched,                                                  \
      "capture was not ended in the same stream as it began")                           \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")             \
    X(cudaErrorStreamCaptureIsolation,                                                  \
      "dependency created on uncaptured work in another "                               \
      "stream")                                                                         \
    X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture " \
                                         "sequence from another thread")                \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a " \
                              "capturing stream")

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define TEXT(code, text) \
    case code: return text;
        ERRORS(TEXT)
    default: return "an error that the stand-in has no text for";
    }
}

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define NAME(code, text) \
    case code: return #code;
        ERRORS(NAME)
    default: return "cudaErrorUnknown";
    }
}

/* ---- devices -------------------------------------------------------------------- */

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

// 0 for STANDIN_DRIVER=none, as the real runtime says.
static int driver_version(void)
{
    return setting("STANDIN_DRIVER", CUDART_VERSION / 1000 * 1000);
}

static cudaError_t device_error(void)
{
    // A runtime works with every driver of its own major version.
    if (driver_version() < CUDART_VERSION / 1000 * 1000)
        return cudaErrorInsufficientDriver;
    return setting("STANDIN_DEVICES", 1) < 1 ? cudaErrorNoDevice : cudaSuccess;
}

EXPORT int standin_has_device(void)
{
    return device_error() == cudaSuccess;
}

static cudaError_t check_device(int device)
{
    cudaError_t error = device_error();
    if (!error && (device < 0 || device >= setting("STANDIN_DEVICES", 1)))
        error = cudaErrorInvalidDevice;
    return keep_error(error);
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = device_error();
    *count = error ? 0 : setting("STANDIN_DEVICES", 1);
    return keep_error(error);
}

EXPORT cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = check_device(device);
    if (!error)
        current_device = device;
    return error;
}

EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags, (void)flags;
    return check_device(device);
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return keep_error(device_error());
}

EXPORT cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return keep_error(device_error());
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver_version();
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    cudaError_t error = check_device(device);
    if (!error)
        snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)device + 1);
    return error;
}

// An H200, but for what the environment says.
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error = check_device(device);
    size_t free_bytes, total_bytes;
    if (error)
        return error;
    memset(properties, 0, sizeof *properties);
    cudaMemGetInfo(&free_bytes, &total_bytes);
    snprintf(properties->name, sizeof properties->name, "NVIDIA H200 (stand-in)");
    properties->major = setting("STANDIN_CAPABILITY", 90) / 10;
    properties->minor = setting("STANDIN_CAPABILITY", 90) % 10;
    properties->totalGlobalMem = total_bytes;
    properties->multiProcessorCount = 132;
    properties->warpSize = 32;
    properties->regsPerBlock = 65536;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 2147483647;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->sharedMemPerBlock = 49152;
    properties->sharedMemPerBlockOptin = 232448;
    properties->sharedMemPerMultiprocessor = 233472;
    properties->l2CacheSize = 62914560;
    properties->asyncEngineCount = 3;
    properties->concurrentKernels = 1;
    properties->unifiedAddressing = 1;
    properties->pciBusID = device + 1;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                          int device)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error)
        return error;
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMemoryClockRate: *value = 3201000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 6144; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    case cudaDevAttrIntegrated: *value = 0; break;
    default:
        standin_complain("cudaDeviceGetAttribute: attribute %d is not modelled",
                         (int)attribute);
        return keep_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
