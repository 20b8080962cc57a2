/* The helpers of every other test: a comparer that cannot see a fault would let all pass.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/half.h"
#include "tests/support/support.h"

static const struct shape shape = {2, 3, 5, 7};

static void test_equal_tensors_compare_equal(void **state)
{
    (void)state;
    struct tensor a = heap_tensor(DTYPE_F16, shape), b = heap_tensor(DTYPE_F16, shape);
    fill_tensor(&a, FILL_EDGE, 1);
    fill_tensor(&b, FILL_EDGE, 1);
    assert_true(compare_tensors_quietly(&a, &b, 0.0, 0.0));
    free(a.data);
    free(b.data);
}

static void test_a_fault_at_any_single_element_is_seen(void **state)
{
    (void)state;
    struct tensor a = heap_tensor(DTYPE_F32, shape), b = heap_tensor(DTYPE_F32, shape);
    fill_tensor(&a, FILL_RANDOM, 2);
    fill_tensor(&b, FILL_RANDOM, 2);
    float *values = b.data;
    for (size_t i = 0; i < tensor_elements(&b); i++) {
        float right = values[i];
        values[i] = right + 0.01f;
        assert_false(compare_tensors_quietly(&a, &b, 0.001, 0.0));
        assert_true(compare_tensors_quietly(&a, &b, 0.02, 0.0));
        values[i] = right;
    }
    free(a.data);
    free(b.data);
}

static void test_nan_and_infinities_equal_only_their_like(void **state)
{
    (void)state;
    static const float kinds[] = {NAN, INFINITY, -INFINITY, 0.0f, 3.4e38f};
    float a, b;
    struct tensor one = tensor_of(DTYPE_F32, (struct shape){1, 1, 1, 1}, &a);
    struct tensor other = tensor_of(DTYPE_F32, (struct shape){1, 1, 1, 1}, &b);
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            a = kinds[i];
            b = kinds[j];
            assert_int_equal(compare_tensors_quietly(&one, &other, 1.0, 0.1), i == j);
        }
    }
}

static void test_other_shapes_differ_and_padding_does_not_count(void **state)
{
    (void)state;
    struct tensor a = heap_tensor(DTYPE_F32, (struct shape){1, 1, 2, 3});
    struct tensor b = heap_tensor(DTYPE_F32, (struct shape){1, 1, 3, 2});
    assert_false(compare_tensors_quietly(&a, &b, 1.0, 1.0));

    struct tensor padded = heap_tensor(DTYPE_F32, (struct shape){1, 1, 2, 8});
    padded.shape.c = 3;
    fill_tensor(&a, FILL_RANDOM, 3);
    fill_tensor(&padded, FILL_RANDOM, 3);
    ((float *)padded.data)[5] = 77.0f;
    assert_true(compare_tensors_quietly(&padded, &a, 0.0, 0.0));
    free(a.data);
    free(b.data);
    free(padded.data);
}

static void test_fills_are_what_they_say(void **state)
{
    (void)state;
    struct tensor t = heap_tensor(DTYPE_F16, (struct shape){1, 8, 16, 16});
    int infinities = 0, nans = 0, subnormals = 0, largest = 0;
    fill_tensor(&t, FILL_EDGE, 4);
    for (size_t i = 0; i < tensor_elements(&t); i++) {
        float v = element_load(t.data, t.dtype, i);
        infinities += isinf(v) != 0;
        nans += isnan(v) != 0;
        subnormals += v != 0.0f && fabsf(v) < 6.1e-5f;
        largest += fabsf(v) == F16_MAX;
    }
    assert_true(infinities > 5 && nans > 5 && subnormals > 5 && largest > 5);

    double sum = 0.0;
    fill_tensor(&t, FILL_RANDOM, 4);
    for (size_t i = 0; i < tensor_elements(&t); i++) {
        float v = element_load(t.data, t.dtype, i);
        assert_true(v >= -1.0f && v <= 1.0f);
        sum += (double)v;
    }
    assert_true(fabs(sum) < 5.0 * sqrt(2048.0 / 3.0));

    fill_tensor(&t, FILL_SMALL_INTEGERS, 4);
    for (size_t i = 0; i < tensor_elements(&t); i++) {
        float v = element_load(t.data, t.dtype, i);
        assert_true(v == rintf(v) && fabsf(v) <= 2.0f);
    }
    free(t.data);
}

static void test_a_command_gives_its_output_and_its_exit_status(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(run_command(text, sizeof text, "echo out; echo err >&2; exit %d", 7),
                     7);
    assert_string_equal(text, "out\nerr\n");
    assert_int_equal(run_command(text, sizeof text, "kill -9 $$"), 128 + 9);
    assert_int_equal(run_command(text, 4, "echo 0123456789"), 0);
    assert_string_equal(text, "012");
}

static void test_a_folder_is_fresh_and_goes_away_with_all_it_holds(void **state)
{
    (void)state;
    char first[256], path[256], text[16];
    snprintf(first, sizeof first, "%s", make_folder("support"));
    snprintf(path, sizeof path, "%s", make_folder("support"));
    assert_string_not_equal(first, path);
    remove_folder(first);
    assert_int_equal(run_command(text, sizeof text,
                                 "mkdir -p '%s/a/b'; echo 1 > '%s/a/b/c'", path, path),
                     0);
    remove_folder(path);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_a_planted_fault_fails_a_test_and_is_told_in_full(void **state)
{
    (void)state;
    char text[4096];
    assert_int_not_equal(run_command(text, sizeof text, "\"$SELF\" plant"), 0);
    assert_non_null(strstr(text, "conv.forward: 2x3x5x7 f16 at [1,2,3,4]"));
    assert_non_null(strstr(text, "got 8, want 0.5 (seed 99)"));
}

/* Run only by the test above, in a process of its own. */
static void test_planted(void **state)
{
    (void)state;
    struct tensor a = heap_tensor(DTYPE_F16, shape), b = heap_tensor(DTYPE_F16, shape);
    size_t place = ((1 * 3 + 2) * 5 + 3) * 7 + 4;
    element_store(a.data, a.dtype, place, 8.0f);
    element_store(b.data, b.dtype, place, 0.5f);
    assert_tensors_close("conv.forward", &a, &b, 1e-3, 1e-3, 99);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest planted[] = {cmocka_unit_test(test_planted)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_tensors_compare_equal),
        cmocka_unit_test(test_a_fault_at_any_single_element_is_seen),
        cmocka_unit_test(test_nan_and_infinities_equal_only_their_like),
        cmocka_unit_test(test_other_shapes_differ_and_padding_does_not_count),
        cmocka_unit_test(test_fills_are_what_they_say),
        cmocka_unit_test(test_a_command_gives_its_output_and_its_exit_status),
        cmocka_unit_test(test_a_folder_is_fresh_and_goes_away_with_all_it_holds),
        cmocka_unit_test(test_a_planted_fault_fails_a_test_and_is_told_in_full),
    };
    setenv("SELF", argv[0], 1); // for the shell, whatever characters the path has
    if (argc > 1 && strcmp(argv[1], "plant") == 0)
        return cmocka_run_group_tests(planted, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
