/* Surveys: what ref counts in numbers chosen by hand, and every backend beside ref. */
#include "tests/kernels/backends.h"

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const size_t sizes[] = {0, 1, 2, 7, 8, 9, 4095, 4096, 4097, 40000, 300001};
#define SIZES (sizeof sizes / sizeof sizes[0])

static struct survey_stats look(struct device *device, const struct survey_span *span,
                                const struct scaler_state *gate)
{
    struct survey_stats stats;
    memset(&stats, 0xff, sizeof stats);
    device->ops->survey.survey(device, span, 1, gate, &stats);
    return stats;
}

static void test_ref_counts_each_kind_of_number(void **state)
{
    (void)state;
    static const float numbers[] = {0.0f, -0.0f,     1.0f,      -3.0f, NAN,
                                    2.0f, -INFINITY, 0x1p-130f, 0.5f,  INFINITY};
    struct survey_span span = {numbers, 10, DTYPE_F32};
    struct survey_stats stats = look(ref, &span, NULL);
    assert_int_equal(stats.zero, 2);
    assert_int_equal(stats.nan, 1);
    assert_int_equal(stats.inf, 2);
    assert_int_equal(stats.subnormal, 1);
    assert_true(stats.max_abs == 3.0f);
    assert_true(fabs(stats.sum - 0.5) < 1e-12);
    assert_true(fabs(stats.sumsq - 14.25) < 1e-12);
}

static void test_ref_takes_subnormal_as_the_dtype_does(void **state)
{
    (void)state;
    // 2^-20 is below the smallest normal f16, 2^-14, and far above that of the others.
    for (int d = 0; d < 3; d++) {
        uint32_t memory = 0;
        element_store(&memory, dtypes[d], 0, 0x1p-20f);
        struct survey_span span = {&memory, 1, dtypes[d]};
        struct survey_stats stats = look(ref, &span, NULL);
        assert_int_equal(stats.subnormal, dtypes[d] == DTYPE_F16);
        assert_true(stats.max_abs == 0x1p-20f);
        // The smallest normal number is none, the next smaller one is.
        float normal = dtypes[d] == DTYPE_F16 ? 0x1p-14f : 0x1p-126f;
        element_store(&memory, dtypes[d], 0, normal);
        assert_int_equal(look(ref, &span, NULL).subnormal, 0);
        element_store(&memory, dtypes[d], 0, normal * 0.5f);
        assert_int_equal(look(ref, &span, NULL).subnormal, 1);
    }
}

static void compare(const char *name, const struct survey_span *span,
                    const struct survey_stats *got, const struct survey_stats *want)
{
    double sum_bound = 1e-12 * (double)span->n * (double)want->max_abs;
    int is_equal = got->inf == want->inf && got->nan == want->nan &&
                   got->zero == want->zero && got->subnormal == want->subnormal &&
                   got->max_abs == want->max_abs &&
                   fabs(got->sum - want->sum) <= sum_bound &&
                   fabs(got->sumsq - want->sumsq) <= 1e-12 * want->sumsq;
    if (!is_equal)
        fail_msg("survey on %s, %zu %s: %llu inf, %llu NaN, %llu zero, %llu subnormal, "
                 "max %g, sums %.17g %.17g; want %llu, %llu, %llu, %llu, %g, %.17g %.17g",
                 name, span->n, dtype_name(span->dtype), (unsigned long long)got->inf,
                 (unsigned long long)got->nan, (unsigned long long)got->zero,
                 (unsigned long long)got->subnormal, (double)got->max_abs, got->sum,
                 got->sumsq, (unsigned long long)want->inf, (unsigned long long)want->nan,
                 (unsigned long long)want->zero, (unsigned long long)want->subnormal,
                 (double)want->max_abs, want->sum, want->sumsq);
}

static void check_span(const struct survey_span *span)
{
    struct survey_stats want = look(ref, span, NULL);
    FOR_BACKENDS(b)
    {
        struct survey_stats one = look(b->device[0], span, NULL);
        compare(b->name, span, &one, &want);
        for (int t = 1; t < THREAD_COUNTS; t++) {
            struct survey_stats more = look(b->device[t], span, NULL);
            assert_true(one.sum == more.sum && one.sumsq == more.sumsq);
            compare(b->name, span, &more, &one);
        }
    }
}

static void test_backends_find_what_ref_finds(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++)
        for (int d = 0; d < 3; d++)
            for (int fill = FILL_RANDOM; fill <= FILL_EDGE; fill++) {
                int stored = sizes[s] ? (int)sizes[s] : 1;
                struct tensor t = heap_tensor(dtypes[d], (struct shape){1, 1, 1, stored});
                fill_tensor(&t, (enum fill)fill, s);
                struct survey_span span = {t.data, sizes[s], dtypes[d]};
                check_span(&span);
                free(t.data);
            }
}

static void test_every_span_has_its_own_statistics(void **state)
{
    (void)state;
    static const float ones[3] = {1.0f, 1.0f, 1.0f}, bad[2] = {NAN, 4.0f};
    const struct survey_span spans[] = {
        {ones, 3, DTYPE_F32}, {bad, 2, DTYPE_F32}, {ones, 1, DTYPE_F32}};
    FOR_BACKENDS(b)
    {
        struct survey_stats stats[3];
        b->device[1]->ops->survey.survey(b->device[1], spans, 3, NULL, stats);
        assert_true(stats[0].sum == 3.0 && stats[1].sum == 4.0 && stats[2].sum == 1.0);
        assert_int_equal(stats[0].nan, 0);
        assert_int_equal(stats[1].nan, 1);
    }
}

static void test_a_closed_gate_leaves_everything_as_it_was(void **state)
{
    (void)state;
    static const float ones[3] = {1.0f, 1.0f, 1.0f};
    struct survey_span span = {ones, 3, DTYPE_F32};
    struct device *devices[1 + BACKENDS_MAX] = {ref};
    int count = 1;
    FOR_BACKENDS(b)
    devices[count++] = b->device[1];
    for (int i = 0; i < count; i++) {
        struct scaler_state gate = {.scale = 1.0f, .enabled = 1};
        struct survey_stats untouched, stats = look(devices[i], &span, &gate);
        memset(&untouched, 0xff, sizeof untouched);
        assert_memory_equal(&stats, &untouched, sizeof stats);
        gate.found_inf = 1.0f;
        assert_true(look(devices[i], &span, &gate).sum == 3.0);
        gate.found_inf = 0.0f;
        gate.found_inf_unscaled = 1.0f;
        assert_true(look(devices[i], &span, &gate).sum == 3.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_counts_each_kind_of_number),
        cmocka_unit_test(test_ref_takes_subnormal_as_the_dtype_does),
        cmocka_unit_test(test_backends_find_what_ref_finds),
        cmocka_unit_test(test_every_span_has_its_own_statistics),
        cmocka_unit_test(test_a_closed_gate_leaves_everything_as_it_was),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
