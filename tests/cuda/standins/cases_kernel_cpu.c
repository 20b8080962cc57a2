/* cases_kernel_cpu.c - the CPU bodies of the cases' kernels, as a module that registers
 * them when STANDIN_KERNELS names it. */
#include "tests/cuda/standins/standin.h"

static void add_body(void **arguments)
{
    float *data = *(float **)arguments[0];
    for (int i = 0; i < *(int *)arguments[1]; i++)
        data[i] += *(float *)arguments[2];
}

static void fill_body(void **arguments)
{
    float *data = *(float **)arguments[0];
    for (int i = 0; i < *(int *)arguments[1]; i++)
        data[i] = *(float *)arguments[2];
}

static void run(const char *name, void (*thunk)(void **), dim3 grid, dim3 block,
                size_t shared_bytes, void **arguments)
{
    (void)name, (void)grid, (void)block, (void)shared_bytes;
    thunk(arguments);
}

__attribute__((constructor)) static void register_all(void)
{
    static const size_t sizes[] = {sizeof(float *), sizeof(int), sizeof(float)};
    standin_register_kernel("case_add_kernel", 3, sizes, add_body, run);
    // As a compiler would mangle it: both spellings are found.
    standin_register_kernel("_Z16case_fill_kernelPfif", 3, sizes, fill_body, run);
}
