/* hollow_driver.c - libcuda.so.1 for machines without a GPU: just enough for cuDNN to
 * compile and load the kernels of its run-time-compiled plans, so that such plans
 * finalize. Nothing can be launched. hollow_rest.sh makes the functions that are not
 * here; they answer CUDA_ERROR_NO_DEVICE. */
#include <cuda.h>

#include <stdlib.h>
#include <string.h>

static char token;

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    const char *text = getenv("STANDIN_DRIVER");
    *version = text && *text ? atoi(text) : CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "no error" : "the hollow driver has no device";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
    return CUDA_SUCCESS;
}

/* ---- compiled code is taken, whatever it is ------------------------------------- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
                           CUjit_option *jit_options, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values,
                           unsigned count)
{
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values;
    (void)count;
    *library = (CUlibrary)(void *)&token;
    return code ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    (void)name;
    *kernel = (CUkernel)(void *)&token;
    return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)(void *)&token;
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    *module = (CUmodule)(void *)&token;
    return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module)
{
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)name;
    *function = (CUfunction)(void *)&token;
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- attributes ----------------------------------------------------------------- */

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                            int value)
{
    (void)attribute, (void)value;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction function)
{
    (void)attribute;
    *value = 0;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device)
{
    (void)attribute, (void)value, (void)device;
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device)
{
    (void)attribute, (void)device;
    *value = 0;
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                     int block_size, size_t shared_bytes)
{
    (void)block_size, (void)shared_bytes;
    *blocks = 1;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
