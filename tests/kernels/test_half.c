/* Half conversions: every half, every boundary, and the same bits as the CPU's own. */
#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "kernels/half.h"
#include "tests/support/support.h"

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int is_nan16(uint16_t half, uint16_t infinity)
{
    return (half & 0x7fff) > infinity;
}

static void test_every_f16_survives_the_way_to_f32_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t back = f16_from_f32(f32_from_f16((uint16_t)half));
        // A signalling NaN comes back quiet, with the rest of its payload.
        uint16_t want =
            (uint16_t)(is_nan16((uint16_t)half, 0x7c00) ? half | 0x0200 : half);
        if (back != want)
            fail_msg("half %04x came back as %04x", half, back);
    }
}

static void test_every_bf16_survives_the_way_to_f32_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t back = bf16_from_f32(f32_from_bf16((uint16_t)half));
        uint16_t want =
            (uint16_t)(is_nan16((uint16_t)half, 0x7f80) ? half | 0x0040 : half);
        if (back != want)
            fail_msg("bf16 %04x came back as %04x", half, back);
    }
}

/* Between each two neighbours: just below the middle, the middle, just above. */
static void check_midpoints(uint16_t (*from)(float), float (*to)(uint16_t), uint16_t last)
{
    for (uint32_t low = 0; low < last; low++) {
        double a = (double)to((uint16_t)low), b = (double)to((uint16_t)(low + 1));
        float middle = (float)((a + b) / 2.0);
        assert_true((double)middle == (a + b) / 2.0);
        uint16_t even = (uint16_t)(low & 1 ? low + 1 : low);
        for (int sign = 0; sign < 2; sign++) {
            float s = sign ? -1.0f : 1.0f;
            uint16_t minus = (uint16_t)(sign ? 0x8000 : 0);
            assert_int_equal(from(s * nextafterf(middle, 0.0f)), low | minus);
            assert_int_equal(from(s * middle), even | minus);
            assert_int_equal(from(s * nextafterf(middle, INFINITY)), (low + 1) | minus);
        }
    }
}

static void test_f16_ties_go_to_even_between_all_neighbours(void **state)
{
    (void)state;
    check_midpoints(f16_from_f32, f32_from_f16, 0x7bff);
}

static void test_bf16_ties_go_to_even_between_all_neighbours(void **state)
{
    (void)state;
    // From the first normal: below it the middles need more bits than nextafter can step.
    for (uint32_t low = 0x0080; low < 0x7f7f; low++) {
        uint32_t middle = low << 16 | 0x8000;
        assert_int_equal(bf16_from_f32(float_of(middle - 1)), low);
        assert_int_equal(bf16_from_f32(float_of(middle)), low & 1 ? low + 1 : low);
        assert_int_equal(bf16_from_f32(float_of(middle + 1)), low + 1);
        assert_int_equal(bf16_from_f32(float_of(middle | 0x80000000u)),
                         (low & 1 ? low + 1 : low) | 0x8000);
    }
}

static void test_f16_overflows_at_65520_and_not_before(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(f16_from_f32(65519.99f), 0x7bff);
    assert_int_equal(f16_from_f32(nextafterf(65520.0f, 0.0f)), 0x7bff);
    assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(f16_from_f32(65536.0f), 0x7c00);
    assert_int_equal(f16_from_f32(-65520.0f), 0xfc00);
    assert_int_equal(f16_from_f32(FLT_MAX), 0x7c00);
    assert_int_equal(f16_from_f32(INFINITY), 0x7c00);
    assert_int_equal(f16_from_f32(-INFINITY), 0xfc00);
    assert_true(f32_from_f16(0x7bff) == F16_MAX);
}

static void test_f16_underflows_gradually(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f32(1e-8f), 0);
    assert_int_equal(f16_from_f32(-1e-8f), 0x8000);
    assert_int_equal(f16_from_f32(0x1p-24f), 1);
    assert_true(f32_from_f16(1) == 0x1p-24f); // 5.96e-8
    assert_int_equal(f16_from_f32(0x1p-25f), 0);
    assert_int_equal(f16_from_f32(nextafterf(0x1p-25f, 1.0f)), 1);
    assert_int_equal(f16_from_f32(0x1.8p-24f), 2);
    assert_int_equal(f16_from_f32(0x1p-14f), 0x0400);
    assert_int_equal(f16_from_f32(nextafterf(0x1p-14f, 0.0f)), 0x0400);
    assert_int_equal(f16_from_f32(-0.0f), 0x8000);
    assert_int_equal(f16_from_f32(float_of(1)), 0);
}

static void test_bf16_keeps_the_range_of_f32(void **state)
{
    (void)state;
    assert_int_equal(bf16_from_f32(FLT_MAX), 0x7f80);
    assert_int_equal(bf16_from_f32(float_of(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(bf16_from_f32(float_of(0x7f7f8000)), 0x7f80);
    assert_int_equal(bf16_from_f32(-INFINITY), 0xff80);
    assert_int_equal(bf16_from_f32(-0.0f), 0x8000);
    assert_int_equal(bf16_from_f32(float_of(1)), 0);
    assert_int_equal(bf16_from_f32(float_of(0x8001)), 1); // a subnormal, kept
    assert_int_equal(bf16_from_f32(1e-38f), 0x006d);
}

static void test_nan_stays_nan_whatever_its_payload(void **state)
{
    (void)state;
    static const uint32_t payloads[] = {1,       0x1fff,   0x2000,  0xffff,
                                        0x10000, 0x3fffff, 0x7fffff};
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float nan = float_of(sign << 31 | 0x7f800000u | payloads[i]);
            assert_true(is_nan16(f16_from_f32(nan), 0x7c00));
            assert_true(is_nan16(bf16_from_f32(nan), 0x7f80));
            assert_int_equal(f16_from_f32(nan) >> 15, sign);
            assert_int_equal(bf16_from_f32(nan) >> 15, sign);
            assert_true(isnan(f32_from_f16(f16_from_f32(nan))));
            assert_false(is_finite_f32(nan));
        }
    }
}

static void test_finite_is_all_but_inf_and_nan(void **state)
{
    (void)state;
    static const float finite[] = {0.0f,     -0.0f,   1.0f,    FLT_MAX,
                                   -FLT_MAX, FLT_MIN, 1.4e-45f};
    for (size_t i = 0; i < sizeof finite / sizeof finite[0]; i++)
        assert_true(is_finite_f32(finite[i]));
    assert_false(is_finite_f32(INFINITY));
    assert_false(is_finite_f32(-INFINITY));
}

static void test_elements_are_stored_at_their_index_in_their_dtype(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t d = 0; d < 3; d++) {
        float room[4] = {0};
        element_store(room, dtypes[d], 2, 1.0009765625f); // 1 + 2^-10: exact in f16
        assert_true(element_load(room, dtypes[d], 1) == 0.0f);
        assert_true(element_load(room, dtypes[d], 2) ==
                    round_to_dtype(1.0009765625f, dtypes[d]));
    }
    assert_true(round_to_dtype(1.0009765625f, DTYPE_F16) == 1.0009765625f);
    assert_true(round_to_dtype(1.0009765625f, DTYPE_BF16) == 1.0f);
    assert_true(round_to_dtype(70000.0f, DTYPE_F16) == INFINITY);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware_f16(float value)
{
    return (uint16_t)_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float hardware_f32(uint16_t half)
{
    return _cvtsh_ss(half);
}

static void test_f16_bits_are_those_of_f16c(void **state)
{
    (void)state;
    unsigned eax, ebx, ecx = 0, edx; // clang 14's __builtin_cpu_supports() has no "f16c"
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C)) {
        skip_because("this CPU has no F16C");
    }
    for (uint32_t half = 0; half < 65536; half++)
        if (bits_of(f32_from_f16((uint16_t)half)) !=
            bits_of(hardware_f32((uint16_t)half)))
            fail_msg("half %04x: %08x here, %08x there", half,
                     bits_of(f32_from_f16((uint16_t)half)),
                     bits_of(hardware_f32((uint16_t)half)));
    // Floats from all of the range: a step that is prime to 2 meets every exponent, both
    // signs and all low bits.
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 1021) {
        float value = float_of((uint32_t)bits);
        if (f16_from_f32(value) != hardware_f16(value))
            fail_msg("float %08x: %04x here, %04x there", (uint32_t)bits,
                     f16_from_f32(value), hardware_f16(value));
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_f16_survives_the_way_to_f32_and_back),
        cmocka_unit_test(test_every_bf16_survives_the_way_to_f32_and_back),
        cmocka_unit_test(test_f16_ties_go_to_even_between_all_neighbours),
        cmocka_unit_test(test_bf16_ties_go_to_even_between_all_neighbours),
        cmocka_unit_test(test_f16_overflows_at_65520_and_not_before),
        cmocka_unit_test(test_f16_underflows_gradually),
        cmocka_unit_test(test_bf16_keeps_the_range_of_f32),
        cmocka_unit_test(test_nan_stays_nan_whatever_its_payload),
        cmocka_unit_test(test_finite_is_all_but_inf_and_nan),
        cmocka_unit_test(test_elements_are_stored_at_their_index_in_their_dtype),
#if defined(__x86_64__)
        cmocka_unit_test(test_f16_bits_are_those_of_f16c),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
