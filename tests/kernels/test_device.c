#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv_check.h"
#include "kernels/device.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/ref/ref.h"
#include "tests/support/support.h"

/* ---- names ----------------------------------------------------------------------- */

static void test_shapes_are_equal_in_every_size_or_not_at_all(void **state)
{
    (void)state;
    const struct shape shape = {2, 3, 4, 5};
    assert_true(shape_equal(shape, (struct shape){2, 3, 4, 5}));
    assert_false(shape_equal(shape, (struct shape){1, 3, 4, 5}));
    assert_false(shape_equal(shape, (struct shape){2, 1, 4, 5}));
    assert_false(shape_equal(shape, (struct shape){2, 3, 1, 5}));
    assert_false(shape_equal(shape, (struct shape){2, 3, 4, 1}));
}

static void test_a_convolution_whose_sizes_or_types_disagree_is_refused(void **state)
{
    (void)state;
    const struct conv_desc good = {.x = {2, 8, 8, 3},
                                   .y = {2, 4, 4, 5},
                                   .kernel = 4,
                                   .stride = 2,
                                   .pad = 1,
                                   .dtype = DTYPE_F16,
                                   .out_dtype = DTYPE_F16};
    struct conv_desc bad[5] = {good, good, good, good, good};
    assert_int_equal(conv_check(&good), STATUS_OK);
    bad[0].y.n = 3;
    bad[1].y.h = 5;
    bad[2].y.w = 3;
    bad[3].out_dtype = DTYPE_BF16;
    bad[4].stride = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(conv_check(&bad[i]), STATUS_FAILED);
    struct conv_desc head = good;
    head.out_dtype = DTYPE_F32;
    assert_int_equal(conv_check(&head), STATUS_OK);
}

static void test_known_names_open(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "cpu", "auto"};
    for (size_t i = 0; i < 3; i++) {
        struct device *device;
        assert_int_equal(device_open(names[i], 0, &device), STATUS_OK);
        assert_null(ops_empty_slot(device->ops));
        assert_true(device->threads >= 1);
        assert_int_equal(device->channel_multiple, 1);
        assert_true(strlen(device->description) > 0);
        assert_int_equal(device_fault(device), STATUS_OK);
        device_close(device);
    }
    device_close(NULL);
}

static void test_an_unknown_name_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    static const char *const names[] = {
        "gpu",     "",        "cuda",    "cuda:", "cuda:x",    "cuda:-1",
        "cuda:1x", "cuda: 1", "cuda:+1", "CPU",   "cuda:99999"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct device *device;
        if (device_open(names[i], 0, &device) != STATUS_USAGE)
            fail_msg("\"%s\" was not refused as unknown", names[i]);
        assert_null(device);
        assert_non_null(strstr(status_message(), names[i]));
        assert_non_null(strstr(status_message(), "auto, cpu, ref, cuda:N"));
    }
}

static void test_a_gpu_that_is_absent_is_an_environment_error(void **state)
{
    (void)state;
    struct device *device;
    enum status status = device_open("cuda:7", 0, &device);
    if (status == STATUS_OK) {
        device_close(device);
        skip_because("this machine has eight GPUs: none is absent");
    }
    assert_int_equal(status, STATUS_ENVIRONMENT);
    assert_null(device);
    assert_non_null(strstr(status_message(), "cuda:7"));
}

/* 1 if this machine has an NVIDIA driver: then what there is to say depends on the
 * rest. */
static int has_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
}

static void test_without_a_driver_a_gpu_is_refused_for_that(void **state)
{
    (void)state;
    struct device *device;
    if (has_driver()) {
        skip_because("this machine has an NVIDIA driver");
    }
    assert_int_equal(device_open("cuda:0", 0, &device), STATUS_ENVIRONMENT);
    assert_non_null(strstr(status_message(), "cuda:0: there is no NVIDIA driver"));
    assert_non_null(strstr(status_message(), "choose the device cpu"));
    unsigned char id[DEVICE_GROUP_ID];
    assert_int_equal(device_group_id("cuda:0", id), STATUS_ENVIRONMENT);
    assert_non_null(strstr(status_message(), "several GPUs: there is no NVIDIA driver"));
}

static void test_auto_without_a_driver_is_the_cpu_and_says_why(void **state)
{
    (void)state;
    struct device *device;
    if (has_driver()) {
        skip_because("this machine has an NVIDIA driver");
    }
    assert_int_equal(device_open("auto", 0, &device), STATUS_OK);
    assert_string_equal(device->name, "cpu");
    assert_string_equal(device->note, "no GPU: no NVIDIA driver on this machine");
    device_close(device);
}

static void test_a_cpu_shares_no_run_with_others(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "cpu"};
    struct device_options options = {.rank = 1, .world = 2};
    unsigned char id[DEVICE_GROUP_ID];
    for (size_t i = 0; i < 2; i++) {
        struct device *device;
        char sentence[64];
        snprintf(sentence, sizeof sentence, "device %s cannot share a run", names[i]);
        assert_int_equal(device_open_with(names[i], &options, &device),
                         STATUS_ENVIRONMENT);
        assert_null(device);
        assert_non_null(strstr(status_message(), sentence));
        assert_int_equal(device_group_id(names[i], id), STATUS_ENVIRONMENT);
        assert_non_null(strstr(status_message(), sentence));
    }
}

static void test_threads_follow_the_request_or_the_cpus(void **state)
{
    (void)state;
    struct device *device;
    cpu_set_t set;
    unsetenv("TWINSCALE_THREADS"); // the suite may be run with it
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(device_open("cpu", 0, &device), STATUS_OK);
    assert_string_equal(device->name, "cpu");
    assert_int_equal(device->threads, CPU_COUNT(&set));
    device_close(device);
    assert_int_equal(device_open("cpu", 3, &device), STATUS_OK);
    assert_int_equal(device->threads, 3);
    device_close(device);
    assert_int_equal(device_open("cpu", -1, &device), STATUS_USAGE);
    assert_int_equal(device_open("cpu", 1025, &device), STATUS_USAGE);
    assert_int_equal(device_open("cpu", 100000, &device), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "100000"));
}

static void test_the_environment_sets_the_threads_that_were_not_asked_for(void **state)
{
    (void)state;
    struct device *device;
    setenv("TWINSCALE_THREADS", "5", 1);
    assert_int_equal(device_open("cpu", 0, &device), STATUS_OK);
    assert_int_equal(device->threads, 5);
    device_close(device);
    assert_int_equal(device_open("cpu", 3, &device), STATUS_OK);
    assert_int_equal(device->threads, 3);
    device_close(device);
    static const char *const wrong[] = {"0",   "-1", "1025",
                                        "two", "2x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("TWINSCALE_THREADS", wrong[i], 1);
        assert_int_equal(device_open("auto", 0, &device), STATUS_USAGE);
        assert_non_null(strstr(status_message(), wrong[i]));
        assert_non_null(strstr(status_message(), "from 1 to 1024"));
    }
    unsetenv("TWINSCALE_THREADS");
}

static void test_an_unknown_instruction_set_is_refused(void **state)
{
    (void)state;
    struct device *device;
    setenv("TWINSCALE_ISA", "mmx", 1);
    assert_int_equal(device_open("cpu", 1, &device), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "mmx"));
    unsetenv("TWINSCALE_ISA");
}

/* ---- what device_open() refuses -------------------------------------------------- */

static void test_every_empty_slot_is_found_and_named(void **state)
{
    (void)state;
    enum { SLOTS = sizeof(struct ops) / sizeof(void (*)(void)) };
    const char *names[SLOTS];
    for (size_t i = 0; i < SLOTS; i++) {
        struct ops ops;
        ref_fill_ops(&ops);
        assert_null(ops_empty_slot(&ops));
        memset((char *)&ops + i * sizeof(void (*)(void)), 0, sizeof(void (*)(void)));
        names[i] = ops_empty_slot(&ops);
        assert_non_null(names[i]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
    assert_string_equal(names[0], "memory.alloc");
    assert_string_equal(names[SLOTS - 1], "survey.survey");
}

static void test_a_device_with_an_empty_slot_is_refused(void **state)
{
    (void)state;
    struct ops ops;
    ref_fill_ops(&ops);
    ops.conv.wgrad = NULL;
    struct device device = {.name = "holed", .ops = &ops};
    assert_int_equal(device_accept(&device), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "holed"));
    assert_non_null(strstr(status_message(), "conv.wgrad"));
}

/* As a compiler with -ffast-math leaves it: nothing is ever found. */
static void blind_check(struct device *device, const float *grads, size_t n,
                        struct scaler_state *scaler)
{
    (void)device, (void)grads, (void)n, (void)scaler;
}

/* Sees whole vectors of 16 and forgets the tail. */
static void tailless_check(struct device *device, const float *grads, size_t n,
                           struct scaler_state *scaler)
{
    struct ops ops;
    ref_fill_ops(&ops);
    ops.optimizer.grads_check(device, grads, n / 16 * 16, scaler);
}

/* Takes every large value for an overflow. */
static void anxious_check(struct device *device, const float *grads, size_t n,
                          struct scaler_state *scaler)
{
    (void)device;
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(grads[i]) < 1e30f))
            scaler->found_inf = 1.0f;
}

/* Multiplies first and looks afterwards. */
static void late_check(struct device *device, const float *grads, size_t n,
                       struct scaler_state *scaler)
{
    (void)device;
    for (size_t i = 0; i < n; i++)
        if (!is_finite_f32(grads[i] * scaler_inverse(scaler)))
            scaler->found_inf = 1.0f;
}

/* Does not see what becomes infinite when the scale is taken out. */
static void early_check(struct device *device, const float *grads, size_t n,
                        struct scaler_state *scaler)
{
    struct ops ops;
    ref_fill_ops(&ops);
    ops.optimizer.grads_check(device, grads, n, scaler);
    scaler->found_inf_unscaled = 0.0f;
}

static void test_a_device_that_misjudges_overflows_is_refused(void **state)
{
    (void)state;
    void (*const checks[])(struct device *, const float *, size_t,
                           struct scaler_state *) = {
        blind_check, tailless_check, anxious_check, late_check, early_check};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct ops ops;
        ref_fill_ops(&ops);
        ops.optimizer.grads_check = checks[i];
        struct device device = {.name = "blind", .ops = &ops};
        assert_int_equal(device_accept(&device), STATUS_FAILED);
        assert_non_null(strstr(status_message(), "-ffast-math"));
        ref_fill_ops(&ops);
        assert_int_equal(device_accept(&device), STATUS_OK);
    }
}

static void *no_memory(struct device *device, size_t bytes)
{
    (void)device, (void)bytes;
    return NULL;
}

static void test_a_device_without_memory_is_refused(void **state)
{
    (void)state;
    struct ops ops;
    ref_fill_ops(&ops);
    ops.memory.alloc = no_memory;
    struct device device = {.name = "full", .ops = &ops};
    assert_int_equal(device_accept(&device), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "no memory"));
}

/* ---- faults, lists, tensors ------------------------------------------------------ */

static void test_the_first_fault_is_kept(void **state)
{
    (void)state;
    struct device *device;
    assert_int_equal(device_open("ref", 1, &device), STATUS_OK);
    device_set_fault(device, "conv.forward: %s", "1x2x3x4");
    device_set_fault(device, "a later one");
    assert_int_equal(device_fault(device), STATUS_FAILED);
    assert_string_equal(status_message(), "ref: conv.forward: 1x2x3x4");
    assert_int_equal(device_fault(device), STATUS_FAILED);
    device_close(device);
}

static void test_the_list_names_usable_devices_and_reasons(void **state)
{
    (void)state;
    char text[1024], cut[20];
    int count = device_list(text, sizeof text);
    assert_true(count >= 2);
    assert_memory_equal(text, "cpu: ", 5); // what always works comes first
    assert_non_null(strstr(text, "ref: "));
    assert_non_null(strstr(text, "cuda:0: "));
    assert_int_equal(device_list(cut, sizeof cut), count);
    assert_int_equal(strlen(cut), sizeof cut - 1);
}

static void test_tensors_get_the_padding_of_their_device(void **state)
{
    (void)state;
    struct device eight = {.channel_multiple = 8};
    struct shape shape = {3, 4, 5, 17};
    struct tensor activation = device_tensor(&eight, DTYPE_F16, shape, 0);
    assert_int_equal(activation.n_stored, 3);
    assert_int_equal(activation.c_stored, 24);
    struct tensor weight = device_tensor(&eight, DTYPE_F16, shape, 1);
    assert_int_equal(weight.n_stored, 8);
    assert_int_equal(weight.c_stored, 24);
    struct tensor pixels = device_tensor(&eight, DTYPE_U8, shape, 0);
    assert_int_equal(pixels.c_stored, 17);
    struct device one = {.channel_multiple = 1};
    assert_int_equal(device_tensor(&one, DTYPE_F16, shape, 1).c_stored, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_are_equal_in_every_size_or_not_at_all),
        cmocka_unit_test(test_a_convolution_whose_sizes_or_types_disagree_is_refused),
        cmocka_unit_test(test_known_names_open),
        cmocka_unit_test(test_an_unknown_name_is_refused_with_the_known_ones),
        cmocka_unit_test(test_a_gpu_that_is_absent_is_an_environment_error),
        cmocka_unit_test(test_without_a_driver_a_gpu_is_refused_for_that),
        cmocka_unit_test(test_auto_without_a_driver_is_the_cpu_and_says_why),
        cmocka_unit_test(test_a_cpu_shares_no_run_with_others),
        cmocka_unit_test(test_threads_follow_the_request_or_the_cpus),
        cmocka_unit_test(test_the_environment_sets_the_threads_that_were_not_asked_for),
        cmocka_unit_test(test_an_unknown_instruction_set_is_refused),
        cmocka_unit_test(test_every_empty_slot_is_found_and_named),
        cmocka_unit_test(test_a_device_with_an_empty_slot_is_refused),
        cmocka_unit_test(test_a_device_that_misjudges_overflows_is_refused),
        cmocka_unit_test(test_a_device_without_memory_is_refused),
        cmocka_unit_test(test_the_first_fault_is_kept),
        cmocka_unit_test(test_the_list_names_usable_devices_and_reasons),
        cmocka_unit_test(test_tensors_get_the_padding_of_their_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
