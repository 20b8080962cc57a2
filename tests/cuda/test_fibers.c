/* The fibers that run CUDA kernels on a CPU: right kernels are right in every order, and
 * a planted fault of every kind is seen. SAMPLES is the program of fibers/samples.cu,
 * SAMPLES_MODULE the same file as a module, PRODUCT_MODULE the product's
 * kernels, GENERATE the script that finds kernels. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "tests/support/support.h"

#define FIBERS_EXIT 99
#define ORDERS 6

static const char *const orders[ORDERS] = {"fwd",   "rev",   "rand1",
                                           "rand2", "rand3", "rand77"};
static char text[65536];

static int run_sample(const char *name, const char *order)
{
    return run_command(text, sizeof text, "FIBER_ORDER=%s '%s' %s", order, SAMPLES, name);
}

static void assert_says(const char *sentence)
{
    if (!strstr(text, sentence))
        fail_msg("expected \"%s\" in: %s", sentence, text);
}

/* The line of samples.cu that is marked PLANTED with this name. */
static int planted_line(const char *name)
{
    FILE *file = fopen(TESTS_DIR "/cuda/fibers/samples.cu", "r");
    char line[256], mark[64];
    int number = 0, found = 0;
    snprintf(mark, sizeof mark, "PLANTED %s\n", name);
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && !found) {
        number += 1;
        found = strstr(line, mark) != NULL;
    }
    fclose(file);
    assert_true(found);
    return number;
}

/* In every order the sample ends the program, and the message names kernel, block, thread
 * and the place of the mark. */
static void assert_seen(const char *name, const char *sentence)
{
    char kernel[64], place[64];
    snprintf(kernel, sizeof kernel, "kernel %s_kernel, block (0,0,0), thread (", name);
    snprintf(place, sizeof place, "samples.cu:%d", planted_line(name));
    for (int o = 0; o < ORDERS; o++) {
        assert_int_equal(run_sample(name, orders[o]), FIBERS_EXIT);
        assert_says(kernel);
        assert_says(place);
        assert_says(sentence);
    }
}

/* ---- kernels that are right ------------------------------------------------------ */

static void test_right_kernels_are_right_in_every_order(void **state)
{
    (void)state;
    for (int o = 0; o < ORDERS; o++) {
        assert_int_equal(run_sample("right", orders[o]), 0);
        assert_string_equal(text, "right\n");
    }
}

static void test_an_unknown_order_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"forward", "rand", "rand1x", "2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(run_sample("right", wrong[i]), FIBERS_EXIT);
        assert_says("is not known; expected fwd, rev or randN");
    }
}

/* ---- planted faults -------------------------------------------------------------- */

static void test_a_missing_barrier_gives_a_wrong_sum_in_most_orders(void **state)
{
    (void)state;
    int wrong = 0;
    for (int o = 0; o < ORDERS; o++) {
        int status = run_sample("missing_barrier", orders[o]);
        assert_in_range(status, 0, 1);
        wrong += status == 1;
    }
    assert_in_range(wrong, ORDERS - 2, ORDERS);
    run_sample("missing_barrier", "fwd");
    assert_says("wrong: the sum");
}

static void test_a_barrier_that_some_threads_miss_is_seen(void **state)
{
    (void)state;
    assert_seen("divergent_barrier", "divergent barrier: 40 of 64 threads wait in "
                                     "__syncthreads");
    assert_says("has ended");
    for (int o = 0; o < ORDERS; o++) {
        assert_int_equal(run_sample("two_barriers", orders[o]), FIBERS_EXIT);
        assert_says("divergent barrier: 24 of 64 threads wait in __syncthreads");
        assert_says("thread (0,0,0) waits in __syncthreads");
    }
}

static void test_a_vote_in_a_divergent_branch_is_seen(void **state)
{
    (void)state;
    assert_seen("divergent_vote",
                "in a divergent branch: of its mask 0xffffffff the lanes "
                "0xffffff00 do not come; thread (40,0,0) waits in "
                "__syncwarp");
}

static void test_a_shuffle_that_reads_outside_its_mask_is_seen(void **state)
{
    (void)state;
    assert_seen("shuffle_outside", "reads lane 16, outside its mask 0x0000ffff");
    assert_seen("shuffle_ended", "reads lane 20, which has ended");
}

static void test_a_lane_outside_its_own_mask_is_seen(void **state)
{
    (void)state;
    assert_seen("not_in_mask", "which its mask 0x0000000f leaves out");
}

static void test_shared_memory_that_no_thread_wrote_reads_as_nan(void **state)
{
    (void)state;
    static const char *const names[] = {"uninitialised", "left_over"};
    for (int n = 0; n < 2; n++) {
        for (int o = 0; o < ORDERS; o++) {
            assert_int_equal(run_sample(names[n], orders[o]), 1);
            assert_says("a value is NaN");
        }
    }
}

static void test_a_read_beyond_a_shared_array_is_seen(void **state)
{
    (void)state;
    for (int o = 0; o < ORDERS; o++) {
        // UBSan sees it where it knows the array; elsewhere the NaN between arrays shows.
        assert_int_not_equal(run_sample("beyond_shared", orders[o]), 0);
        if (!strstr(text, "a value is NaN"))
            assert_says("runtime error: load of address");
    }
}

static void test_a_trap_and_impossible_sizes_end_the_program(void **state)
{
    (void)state;
    assert_int_equal(run_sample("trap", "fwd"), FIBERS_EXIT);
    assert_says(
        "kernel trap_kernel, block (0,0,0), thread (0,0,0): __trap() was called at");
    assert_int_equal(run_sample("too_many_threads", "fwd"), FIBERS_EXIT);
    assert_says("a block of 1025x1x1 threads; expected 1 to 1024");
    assert_int_equal(run_sample("no_blocks", "fwd"), FIBERS_EXIT);
    assert_says("a grid of 0x1x1 blocks; expected 1 to");
    assert_int_equal(run_sample("outside", "fwd"), FIBERS_EXIT);
    assert_says("__syncthreads at");
    assert_says("is called outside of a kernel");
}

/* ---- registration ---------------------------------------------------------------- */

#define KERNELS_MAX 128

static struct {
    const char *name;
    int argument_count;
    const size_t *sizes;
    void (*thunk)(void **);
    void (*run)(const char *, void (*)(void **), struct dim3, struct dim3, size_t,
                void **);
} kernels[KERNELS_MAX];
static int kernel_count;

/* What a module of kernels looks for in the program that loads it. */
void standin_register_kernel(const char *name, int argument_count, const size_t *sizes,
                             void (*thunk)(void **),
                             void (*run)(const char *, void (*)(void **), struct dim3,
                                         struct dim3, size_t, void **));

void standin_register_kernel(const char *name, int argument_count, const size_t *sizes,
                             void (*thunk)(void **),
                             void (*run)(const char *, void (*)(void **), struct dim3,
                                         struct dim3, size_t, void **))
{
    assert_in_range(kernel_count, 0, KERNELS_MAX - 1);
    kernels[kernel_count].name = name;
    kernels[kernel_count].argument_count = argument_count;
    kernels[kernel_count].sizes = sizes;
    kernels[kernel_count].thunk = thunk;
    kernels[kernel_count].run = run;
    kernel_count += 1;
}

static int index_of(const char *name)
{
    for (int i = 0; i < kernel_count; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return i;
    fail_msg("no kernel %s was registered", name);
    return -1;
}

static void test_a_module_registers_kernels_that_run(void **state)
{
    (void)state;
    void *module = dlopen(SAMPLES_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        fail_msg("%s", dlerror());
    index_of("trap_kernel");
    int sum_kernel = index_of("sum_kernel");
    assert_int_equal(kernels[sum_kernel].argument_count, 3);
    const size_t sizes[] = {sizeof(float *), sizeof(int), sizeof(float *)};
    assert_memory_equal(kernels[sum_kernel].sizes, sizes, sizeof sizes);

    float values[100], sum = -1.0f, *of = values, *to = &sum;
    for (int i = 0; i < 100; i++)
        values[i] = (float)i;
    int n = 100;
    // An argument may lie anywhere, as in a packed copy of them.
    char packed[1 + sizeof of];
    memcpy(packed + 1, &of, sizeof of);
    void *args[] = {packed + 1, &n, &to};
    struct dim3 one = {1, 1, 1}, threads = {64, 1, 1};
    kernels[sum_kernel].run("sum_kernel", kernels[sum_kernel].thunk, one, threads, 0,
                            args);
    assert_true(sum == 4950.0f);
    // Nothing of the module's own names gets in the way of the program's.
    assert_null(dlsym(module, "sum_kernel"));
    assert_null(dlsym(module, "_Z10sum_kernelPKfiPf"));
    assert_null(dlsym(module, "threadIdx"));
    dlclose(module);
}

static void test_the_products_kernels_are_a_module_that_needs_nothing_else(void **state)
{
    (void)state;
    int before = kernel_count;
    void *module = dlopen(PRODUCT_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        fail_msg("%s", dlerror());
    int status = run_command(text, sizeof text,
                             "cat '" TESTS_IN_QUOTES "'/../kernels/cuda/*.cu | "
                             "grep -c ^__global__");
    assert_int_equal(status, 0);
    assert_int_equal(kernel_count - before, atoi(text));
    assert_null(dlsym(module, "cuda_fill_norm"));
    dlclose(module);
}

/* Runs the generator on a file of this text; its exit code. */
static int generate(const char *source)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", make_folder("generate"));
    char path[600];
    snprintf(path, sizeof path, "%s/some.cu", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(source, file);
    assert_int_equal(fclose(file), 0);
    int status = run_command(text, sizeof text,
                             "sh '%s' '%s' '%s/out.cpp' && cat '%s/out.cpp' || { "
                             "code=$?; ls '%s'; exit $code; }",
                             GENERATE, path, folder, folder, folder);
    remove_folder(folder);
    return status;
}

static void test_the_generator_finds_every_kernel_once(void **state)
{
    (void)state;
    int status = generate("/* __global__ void in_comment_kernel(int); */\n"
                          "// __global__ void in_line_kernel(int)\n"
                          "const char *text = \"__global__ void \\\" in_text_kernel(\";\n"
                          "__global__ void first_kernel(int a);\n"
                          "extern \"C\" __global__ void __launch_bounds__((256), 2)\n"
                          "    second_kernel(const float *x, int n)\n{\n}\n"
                          "static int helper(int a)\n{\n    return a;\n}\n"
                          "void __global__ third_kernel() { }\n"
                          "__global__ void first_kernel(int a)\n{\n    other(a);\n}\n");
    assert_int_equal(status, 0);
    assert_says("\nFIBERS_KERNEL(first_kernel);\nFIBERS_KERNEL(second_kernel);\n"
                "FIBERS_KERNEL(third_kernel);\n");
    assert_null(strstr(text, "in_"));
}

static void test_the_generator_fails_where_it_cannot_register(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"void host(void);\n", "some.cu:1: no __global__ function was found"},
        {"\n__global__ void add(int a) {}\n",
         "some.cu:2: the name of the kernel add does not end in _kernel"},
        {"int a;\n\ntemplate <class T>\n__global__ void add_kernel(T a) {}\n",
         "some.cu:4: add_kernel is a template and cannot be registered by name"},
        {"static __global__ void add_kernel(int a) {}\n",
         "some.cu:1: add_kernel has no external linkage"},
        {"__global__ static void add_kernel(int a) {}\n",
         "some.cu:1: add_kernel has no external linkage"},
        {"__global__ void right_kernel(int a) {}\n#define K(n) __global__ void "
         "n##_kernel(int)\n",
         "some.cu:2: the name of the kernel n##_kernel does not end in _kernel"},
        {"__global__ int a;\nvoid f(void);\n",
         "some.cu:1: what follows this __global__ is no function"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(generate(cases[i][0]), 1);
        assert_says(cases[i][1]);
        assert_null(strstr(text, "out.cpp")); // nothing is left that could be compiled
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_kernels_are_right_in_every_order),
        cmocka_unit_test(test_an_unknown_order_is_refused),
        cmocka_unit_test(test_a_missing_barrier_gives_a_wrong_sum_in_most_orders),
        cmocka_unit_test(test_a_barrier_that_some_threads_miss_is_seen),
        cmocka_unit_test(test_a_vote_in_a_divergent_branch_is_seen),
        cmocka_unit_test(test_a_shuffle_that_reads_outside_its_mask_is_seen),
        cmocka_unit_test(test_a_lane_outside_its_own_mask_is_seen),
        cmocka_unit_test(test_shared_memory_that_no_thread_wrote_reads_as_nan),
        cmocka_unit_test(test_a_read_beyond_a_shared_array_is_seen),
        cmocka_unit_test(test_a_trap_and_impossible_sizes_end_the_program),
        cmocka_unit_test(test_a_module_registers_kernels_that_run),
        cmocka_unit_test(test_the_products_kernels_are_a_module_that_needs_nothing_else),
        cmocka_unit_test(test_the_generator_finds_every_kernel_once),
        cmocka_unit_test(test_the_generator_fails_where_it_cannot_register),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
