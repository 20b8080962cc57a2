/* test_door.c - the way to the CUDA backend: what is said where the driver, the module or
 * a library is missing. A program of its own (open_gpu.c) is run in folders that hold
 * only some of them. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/support.h"

static char said[8192];

static void in_folder(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void in_folder(const char *format, ...)
{
    char line[4096], text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int code = run_command(text, sizeof text, "cd '%s' && %s", test_folder, line);
    if (code != 0)
        fail_msg("%s: exit %d: %s", line, code, text);
}

static void open_gpu(const char *environment)
{
    int code = run_command(said, sizeof said, "cd '%s' && env LD_LIBRARY_PATH=. %s '%s'",
                           test_folder, environment, OPEN_GPU);
    if (code != 0)
        fail_msg("exit %d: %s", code, said);
}

static void assert_said(const char *words)
{
    if (!strstr(said, words))
        fail_msg("\"%s\" not in: %s", words, said);
}

static void test_a_driver_without_the_module_is_told_and_noted(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s'/libcuda.so.1 .", STANDINS);
    open_gpu("");
    assert_said("cuda:0 failed: cuda:0: this program was built without its CUDA backend "
                "(there is no twinscale_cuda.so beside it)");
    assert_said("auto is cpu, note \"no GPU: cuda:0: this program was built without");
    assert_said("group failed: several GPUs: this program was built without");
}

static void test_a_module_that_cannot_be_loaded_gives_the_loaders_reason(void **state)
{
    (void)state;
    in_folder(
        "rm -f * && ln -s '%s'/libcuda.so.1 . && echo no library >twinscale_cuda.so",
        STANDINS);
    open_gpu("");
    assert_said("cuda:0 failed: cuda:0: the CUDA backend cannot be loaded: ");
    assert_said("twinscale_cuda.so: file too short; install what is missing");
    assert_said("auto is cpu, note \"no GPU: cuda:0: the CUDA backend cannot be loaded");
}

static void test_a_library_that_is_missing_is_named(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s'/libcuda.so.1 . && ln -s '%s' twinscale_cuda.so",
              STANDINS, NEEDY_MODULE);
    open_gpu("");
    assert_said(
        "cannot be loaded: libtwinscale_needed.so: cannot open shared object file");
}

static void test_a_module_of_another_kind_is_refused(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s'/libcuda.so.1 . && ln -s '%s'/libcuda.so.1 "
              "twinscale_cuda.so",
              STANDINS, STANDINS);
    open_gpu("");
    assert_said("undefined symbol: twinscale_cuda");
}

static void test_the_module_is_found_along_the_library_path(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s' . && ln -s '%s'/* .", MODULE, STANDINS);
    open_gpu(KERNELS);
    assert_said("cuda:0 is cuda:0, note \"\"");
    assert_said("auto is cuda:0, note \"\"");
}

static void test_a_gpu_that_does_not_fit_is_told_with_what_is_needed(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s' . && ln -s '%s'/* .", MODULE, STANDINS);
    open_gpu("STANDIN_CAPABILITY=61 " KERNELS);
    assert_said("has compute capability 6.1, this program needs 7.5 or newer");
    assert_said("auto is cpu, note \"no GPU: cuda:0: NVIDIA H200 (stand-in) has compute");
    open_gpu("STANDIN_DRIVER=none " KERNELS);
    assert_said("cuda:0: the NVIDIA driver does not answer");
    open_gpu("STANDIN_MEMORY_MB=1 " KERNELS);
    assert_said("MiB wanted, cuda:0 has");
}

static void test_nccl_that_is_missing_is_told(void **state)
{
    (void)state;
    in_folder("rm -f * && ln -s '%s' . && ln -s '%s'/* . && rm libnccl* && echo no "
              "library >libnccl.so.2",
              MODULE, STANDINS);
    open_gpu(KERNELS);
    assert_said("group failed: several GPUs need NCCL, which cannot be loaded: ");
    assert_said("install NCCL 2, or give --gpus 1");
}

static void test_work_that_cannot_be_recorded_is_a_fault_with_advice(void **state)
{
    (void)state;
    char text[4096];
    in_folder("rm -f * && ln -s '%s' . && ln -s '%s'/* .", MODULE, STANDINS);
    int code = run_command(text, sizeof text,
                           "cd '%s' && env LD_LIBRARY_PATH=. " KERNELS " '%s' unfit",
                           test_folder, OPEN_GPU);
    assert_int_equal(code, 98); // the stand-in saw it, too
    if (!strstr(text, "fault: cuda:0: the step could not be recorded as a CUDA graph "
                      "(memory.wait: ") ||
        !strstr(text, "give --no-graph to train without"))
        fail_msg("%s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_driver_without_the_module_is_told_and_noted),
        cmocka_unit_test(test_a_module_that_cannot_be_loaded_gives_the_loaders_reason),
        cmocka_unit_test(test_a_library_that_is_missing_is_named),
        cmocka_unit_test(test_a_module_of_another_kind_is_refused),
        cmocka_unit_test(test_the_module_is_found_along_the_library_path),
        cmocka_unit_test(test_a_gpu_that_does_not_fit_is_told_with_what_is_needed),
        cmocka_unit_test(test_nccl_that_is_missing_is_told),
        cmocka_unit_test(test_work_that_cannot_be_recorded_is_a_fault_with_advice),
    };
    return cmocka_run_group_tests(tests, open_test_folder, close_test_folder);
}
