/* launch.c - kernels of the stand-in for the CUDA runtime: what nvcc's host code
 * registers is matched, by the kernel's name, with the CPU bodies of the module in
 * STANDIN_KERNELS. */
#include "tests/cuda/standins/runtime.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS 64
#define SLOT ((size_t)16)

struct kernel {
    char *name;
    int argument_count;
    const size_t *sizes;
    void (*thunk)(void **);
    void (*run)(const char *, void (*)(void **), dim3, dim3, size_t, void **);
    struct kernel *next;
};

// A kernel as the product's host code knows it.
struct host_kernel {
    const void *host_function;
    void **module;
    char *device_name;
    struct host_kernel *next;
};

static struct kernel *kernels;
static struct host_kernel *host_kernels;

/* ---- names ---------------------------------------------------------------------- */

// The name in "_Z11name_kernelPKf4rows", the first counted word, or the last one of a
// nested name, "_ZN5group11name_kernelEPKf". A name that is not mangled is itself.
static void plain_name(const char *mangled, char *name, size_t bytes)
{
    const char *at = mangled;
    snprintf(name, bytes, "%s", mangled);
    if (strncmp(at, "_Z", 2) != 0)
        return;
    int is_nested = at[2] == 'N';
    at += is_nested ? 3 : 2;
    while (isdigit((unsigned char)*at)) {
        char *word;
        size_t length = strtoul(at, &word, 10);
        if (strlen(word) < length || length >= bytes)
            return;
        memcpy(name, word, length);
        name[length] = '\0';
        at = word + length;
        if (!is_nested)
            return;
    }
}

EXPORT void standin_register_kernel(const char *name, int argument_count,
                                    const size_t *sizes, void (*thunk)(void **),
                                    void (*run)(const char *, void (*)(void **), dim3,
                                                dim3, size_t, void **))
{
    struct kernel *kernel = calloc(1, sizeof *kernel);
    *kernel = (struct kernel){strdup(name), argument_count, sizes, thunk, run, kernels};
    kernels = kernel;
}

// The module asks for standin_register_kernel() by name, and must find it here wherever
// this library was loaded from.
static void load_kernels(void)
{
    static int is_done;
    const char *path = getenv("STANDIN_KERNELS");
    Dl_info self;
    if (is_done++ || !path || !*path)
        return;
    if (dladdr((void *)(uintptr_t)load_kernels, &self))
        dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        standin_complain("STANDIN_KERNELS: %s", dlerror());
}

static const struct kernel *find_kernel(const char *device_name)
{
    char plain[256], registered[256];
    load_kernels();
    plain_name(device_name, plain, sizeof plain);
    for (const struct kernel *kernel = kernels; kernel; kernel = kernel->next) {
        plain_name(kernel->name, registered, sizeof registered);
        if (strcmp(kernel->name, device_name) == 0 || strcmp(registered, plain) == 0)
            return kernel;
    }
    return NULL;
}

/* ---- what nvcc's host code calls ------------------------------------------------ */

void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **module);
void __cudaUnregisterFatBinary(void **module);
char __cudaInitModule(void **module);
void __cudaRegisterVar(void **module, char *host, char *device, const char *name,
                       int is_extern, size_t bytes, int is_constant, int is_global);
void __cudaRegisterFunction(void **module, const char *host_function,
                            char *device_function, const char *device_name,
                            int thread_limit, uint3 *thread, uint3 *block,
                            dim3 *block_size, dim3 *grid_size, int *warp_size);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host_function);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                               void **arguments, size_t shared_bytes,
                               cudaStream_t stream);

EXPORT void **__cudaRegisterFatBinary(void *fat_binary)
{
    void **module = malloc(sizeof *module);
    *module = fat_binary;
    return module;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **module)
{
    (void)module;
}

EXPORT void __cudaUnregisterFatBinary(void **module)
{
    lock();
    for (struct host_kernel **at = &host_kernels; *at;) {
        struct host_kernel *gone = *at;
        if (gone->module != module) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone->device_name);
        free(gone);
    }
    unlock();
    free(module);
}

EXPORT char __cudaInitModule(void **module)
{
    (void)module;
    return 0;
}

EXPORT void __cudaRegisterVar(void **module, char *host, char *device, const char *name,
                              int is_extern, size_t bytes, int is_constant, int is_global)
{
    (void)module, (void)host, (void)device, (void)is_extern, (void)bytes;
    (void)is_constant, (void)is_global;
    standin_complain("the __device__ variable %s: variables are not modelled", name);
}

EXPORT void __cudaRegisterFunction(void **module, const char *host_function,
                                   char *device_function, const char *device_name,
                                   int thread_limit, uint3 *thread, uint3 *block,
                                   dim3 *block_size, dim3 *grid_size, int *warp_size)
{
    struct host_kernel *kernel = calloc(1, sizeof *kernel);
    (void)device_function, (void)thread_limit, (void)thread, (void)block,
        (void)block_size;
    (void)grid_size, (void)warp_size;
    lock();
    *kernel =
        (struct host_kernel){host_function, module, strdup(device_name), host_kernels};
    host_kernels = kernel;
    unlock();
}

static struct host_kernel *host_kernel_of(const void *host_function)
{
    for (struct host_kernel *kernel = host_kernels; kernel; kernel = kernel->next)
        if (kernel->host_function == host_function)
            return kernel;
    return NULL;
}

EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host_function)
{
    lock();
    *kernel = (cudaKernel_t)host_kernel_of(host_function);
    unlock();
    return *kernel ? cudaSuccess : keep_error(cudaErrorInvalidDeviceFunction);
}

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

static _Thread_local struct configuration configurations[8];
static _Thread_local int configuration_count;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                            struct CUstream_st *stream)
{
    if (configuration_count == 8)
        return 1;
    configurations[configuration_count++] =
        (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block,
                                              size_t *shared_bytes, void *stream)
{
    if (configuration_count == 0)
        return keep_error(cudaErrorMissingConfiguration);
    struct configuration *configuration = &configurations[--configuration_count];
    *grid = configuration->grid;
    *block = configuration->block;
    *shared_bytes = configuration->shared_bytes;
    *(cudaStream_t *)stream = configuration->stream;
    return cudaSuccess;
}

/* ---- launching ------------------------------------------------------------------ */

static int is_launchable(dim3 grid, dim3 block, size_t shared_bytes)
{
    return grid.x && grid.y && grid.z && grid.x <= 2147483647u && grid.y <= 65535 &&
           grid.z <= 65535 && block.x && block.y && block.z && block.x <= 1024 &&
           block.y <= 1024 && block.z <= 64 && block.x * block.y * block.z <= 1024 &&
           shared_bytes <= 232448;
}

// Every argument at a place of 16 bytes alignment, as they are when the launch is called.
static void take_arguments(struct op *op, void **arguments)
{
    const struct kernel *kernel = op->kernel;
    size_t bytes = 0;
    for (int i = 0; i < kernel->argument_count; i++)
        bytes += (kernel->sizes[i] + SLOT - 1) / SLOT * SLOT;
    op->data = calloc(1, bytes + SLOT);
    op->data_bytes = bytes;
    char *at = op->data;
    for (int i = 0; i < kernel->argument_count; i++) {
        memcpy(at, arguments[i], kernel->sizes[i]);
        at += (kernel->sizes[i] + SLOT - 1) / SLOT * SLOT;
    }
}

void kernel_run(struct op *op)
{
    void *arguments[ARGUMENTS];
    char *at = op->data;
    for (int i = 0; i < op->kernel->argument_count; i++) {
        arguments[i] = at;
        at += (op->kernel->sizes[i] + SLOT - 1) / SLOT * SLOT;
    }
    op->kernel->run(op->kernel->name, op->kernel->thunk, op->grid, op->thread_block,
                    op->shared_bytes, arguments);
}

static cudaError_t launch(const struct host_kernel *host, struct op *op, void **arguments,
                          cudaStream_t handle)
{
    cudaStream_t stream = stream_of(handle, "a kernel's launch");
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    op->kernel = host ? find_kernel(host->device_name) : NULL;
    if (!op->kernel || op->kernel->argument_count > ARGUMENTS) {
        standin_complain("the kernel %s has no body in STANDIN_KERNELS",
                         host ? host->device_name : "of a function that is none");
        return cudaErrorInvalidDeviceFunction;
    }
    op->what = op->kernel->name;
    dim3 grid = op->grid, block = op->thread_block;
    if (!is_launchable(grid, block, op->shared_bytes)) {
        standin_complain(
            "%s: grid (%u,%u,%u), block (%u,%u,%u), %zu bytes of shared memory: "
            "no GPU takes that",
            op->what, grid.x, grid.y, grid.z, block.x, block.y, block.z,
            op->shared_bytes);
        return cudaErrorInvalidConfiguration;
    }
    cudaError_t error = stream->is_legacy ? forbid_in_capture(op->what) : cudaSuccess;
    if (error)
        return error;
    take_arguments(op, arguments);
    count_launch();
    return queue_op(stream, *op);
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                      void **arguments, size_t shared_bytes,
                                      cudaStream_t stream)
{
    struct op op = {.kind = OP_LAUNCH,
                    .grid = grid,
                    .thread_block = block,
                    .shared_bytes = shared_bytes};
    lock();
    cudaError_t error =
        launch((const struct host_kernel *)kernel, &op, arguments, stream);
    unlock();
    return keep_error(error);
}

EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
                                    void **arguments, size_t shared_bytes,
                                    cudaStream_t stream)
{
    lock();
    cudaKernel_t kernel = (cudaKernel_t)host_kernel_of(function);
    unlock();
    return __cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *function,
                                        enum cudaFuncAttribute attribute, int value)
{
    (void)attribute, (void)value;
    return host_kernel_of(function) ? cudaSuccess
                                    : keep_error(cudaErrorInvalidDeviceFunction);
}

struct host_call {
    cudaHostFn_t function;
    void *argument;
};

static void call_host(void *data)
{
    struct host_call *call = data;
    call->function(call->argument);
}

EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                      void *argument)
{
    struct host_call call = {function, argument};
    return standin_enqueue(stream, "cudaLaunchHostFunc", call_host, &call, sizeof call);
}
