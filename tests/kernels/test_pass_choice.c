/* Which algorithm each pass of a convolution takes, what the plan tells of it, and the
 * peak that it is measured by. */
#include "tests/kernels/backends.h"

struct row {
    struct conv_desc desc;
    enum pass_kind pass;
    const char *conv, *algorithm, *reason; // TWINSCALE_CONV, and what is told
    double multiplications;
};

#define K4(n, size, in, out)                                                          \
    {                                                                                 \
        .x = {n, 2 * (size), 2 * (size), in}, .y = {n, size, size, out}, .kernel = 4, \
        .stride = 2, .pad = 1                                                         \
    }
#define DENSE(n, size, in, out)                                                    \
    {                                                                              \
        .x = {n, size, size, in}, .y = {n, 1, 1, out}, .kernel = size, .stride = 1 \
    }

static const struct row rows[] = {
    // 25 multiplications for 64; of 7x7 outputs 81 for the four tiles, not 100.
    {K4(64, 16, 64, 128), PASS_FORWARD, "auto", "winograd", "Winograd/direct cost 0.",
     25.0 / 64 * 64 * 256 * 128 * 16 * 64},
    {K4(64, 16, 64, 128), PASS_DGRAD, "auto", "winograd", "Winograd/direct cost 0.",
     25.0 / 64 * 64 * 256 * 128 * 16 * 64},
    {K4(64, 7, 24, 48), PASS_WGRAD, "auto", "winograd", "Winograd/direct cost 0.",
     81.0 * 64 * 4 * 24 * 48},
    // What the estimate, and what the error decides.
    {K4(64, 32, 3, 64), PASS_WGRAD, "auto", "direct", "Winograd/direct cost 1.5",
     64.0 * 1024 * 64 * 16 * 3},
    {K4(64, 32, 3, 64), PASS_FORWARD, "auto", "direct", "few channels: less exact",
     64.0 * 1024 * 64 * 16 * 3},
    {K4(1, 4, 256, 512), PASS_WGRAD, "auto", "direct", "few tiles: less exact",
     16.0 * 512 * 16 * 256},
    // What is asked for.
    {K4(64, 16, 64, 128), PASS_FORWARD, "direct", "direct", "TWINSCALE_CONV=direct",
     64.0 * 256 * 128 * 16 * 64},
    {K4(64, 32, 3, 64), PASS_DGRAD, "winograd", "winograd", "TWINSCALE_CONV=winograd",
     25.0 / 64 * 64 * 1024 * 64 * 16 * 3},
    {DENSE(64, 4, 512, 100), PASS_FORWARD, "winograd", "direct", "not a Winograd shape",
     64.0 * 100 * 16 * 512},
    // Thin ends.
    {K4(8, 8, 3, 64), PASS_DGRAD, "auto", "fold", "4 channels or fewer",
     8.0 * 64 * 64 * 16 * 3},
    {DENSE(64, 4, 512, 1), PASS_FORWARD, "auto", "thin", "4 columns or fewer",
     64.0 * 16 * 512},
    {DENSE(64, 4, 512, 1), PASS_DGRAD, "auto", "direct", "not a Winograd shape",
     64.0 * 16 * 512},
};

static void tell(struct device *device, const struct row *row, enum dtype dtype,
                 struct conv_way *way)
{
    struct conv_desc desc = row->desc;
    struct conv_plan *plan;
    desc.dtype = desc.out_dtype = dtype;
    assert_int_equal(device->ops->conv.prepare(device, &desc, &plan), STATUS_OK);
    device->ops->conv.describe(device, plan, row->pass, way);
    device->ops->conv.release(device, plan);
}

static struct device *open_for(const struct row *row)
{
    struct device *device;
    setenv("TWINSCALE_CONV", row->conv, 1);
    assert_int_equal(device_open("cpu", 2, &device), STATUS_OK);
    unsetenv("TWINSCALE_CONV");
    return device;
}

static void test_a_plan_tells_its_algorithm_the_reason_and_the_work(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct conv_way way;
        struct device *device = open_for(&rows[i]);
        tell(device, &rows[i], DTYPE_F16, &way);
        device_close(device);
        if (strcmp(way.algorithm, rows[i].algorithm) != 0 ||
            strncmp(way.reason, rows[i].reason, strlen(rows[i].reason)) != 0 ||
            fabs(way.multiplications / rows[i].multiplications - 1.0) > 1e-12)
            fail_msg("row %zu: got %s, \"%s\", %.0f; want %s, \"%s\", %.0f", i,
                     way.algorithm, way.reason, way.multiplications, rows[i].algorithm,
                     rows[i].reason, rows[i].multiplications);
        assert_int_equal(way.arithmetic, DTYPE_F32); // halves are widened
    }
}

static void test_ref_tells_that_it_is_the_definition(void **state)
{
    (void)state;
    struct conv_way way;
    tell(ref, &rows[2], DTYPE_F32, &way);
    assert_string_equal(way.algorithm, "loops");
    assert_true(way.multiplications == 64.0 * 49 * 48 * 16 * 24);
    assert_true(ref->ops->conv.peak(ref, DTYPE_F32) == 0.0);
}

// Where there are dot products of pairs all but Winograd and the thin way use them.
static void test_what_multiplies_bf16_is_told(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    {
        int has_pairs = strstr(b->name, "bf16") != NULL;
        struct conv_way way;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            tell(b->device[0], &rows[i], DTYPE_BF16, &way);
            int is_floats =
                !strcmp(way.algorithm, "winograd") || !strcmp(way.algorithm, "thin");
            // An odd depth makes no pairs: dgrad's from one output.
            int is_odd = rows[i].pass == PASS_DGRAD && rows[i].desc.y.c % 2;
            assert_int_equal(way.arithmetic,
                             has_pairs && !is_floats && !is_odd ? DTYPE_BF16 : DTYPE_F32);
        }
    }
}

/* In bf16, at every instruction set; all multiply f32, as Winograd does too. */
static void check_bf16_ways(const struct row *wanted, size_t count)
{
    FOR_BACKENDS(b)
    {
        for (size_t i = 0; i < count; i++) {
            struct conv_way way;
            tell(b->device[0], &wanted[i], DTYPE_BF16, &way);
            assert_string_equal(way.algorithm, wanted[i].algorithm);
            assert_int_equal(way.arithmetic, DTYPE_F32);
        }
    }
}

static void test_bf16_goes_by_winograd_where_fp16_does(void **state)
{
    (void)state;
    const struct row wide[] = {
        {K4(64, 16, 64, 128), PASS_FORWARD, "auto", "winograd", "", 0},
        {K4(64, 4, 256, 512), PASS_FORWARD, "auto", "winograd", "", 0},
        {K4(64, 8, 128, 256), PASS_DGRAD, "auto", "winograd", "", 0},
        {K4(64, 4, 256, 512), PASS_WGRAD, "auto", "winograd", "", 0},
    };
    check_bf16_ways(wide, sizeof wide / sizeof *wide);
}

// A window of one channel has 16 elements: too few for pairs to be worth their packing.
static void test_short_windows_are_multiplied_as_floats(void **state)
{
    (void)state;
    const struct row narrow[] = {
        {K4(64, 14, 1, 24), PASS_FORWARD, "auto", "direct", "", 0},
        {K4(64, 14, 1, 24), PASS_WGRAD, "auto", "direct", "", 0},
    };
    check_bf16_ways(narrow, sizeof narrow / sizeof *narrow);
}

static void test_every_instruction_set_has_a_peak(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            struct device *device = b->device[0];
            double peak = device->ops->conv.peak(device, (enum dtype)dtype);
            // One core of any machine: more than a pocket calculator, less than a GPU.
            if (!(peak > 1e7 && peak < 2e12))
                fail_msg("%s %s: %.3g multiplications per second", b->name,
                         dtype_name((enum dtype)dtype), peak);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_tells_its_algorithm_the_reason_and_the_work),
        cmocka_unit_test(test_ref_tells_that_it_is_the_definition),
        cmocka_unit_test(test_what_multiplies_bf16_is_told),
        cmocka_unit_test(test_bf16_goes_by_winograd_where_fp16_does),
        cmocka_unit_test(test_short_windows_are_multiplied_as_floats),
        cmocka_unit_test(test_every_instruction_set_has_a_peak),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
