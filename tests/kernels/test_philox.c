/* Philox against the authors' published vectors, and the normals made of it. */
#include <math.h>

#include "kernels/philox.h"
#include "tests/support/support.h"

static void assert_words(struct philox_words got, uint32_t a, uint32_t b, uint32_t c,
                         uint32_t d)
{
    const uint32_t want[4] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (got.word[i] != want[i])
            fail_msg("word %d: got %08x, want %08x", i, got.word[i], want[i]);
}

// Counter word 3 is (step high 16 bits << 16) | stream, so a word of ones is stream
// 0xffff and a step whose bits 32 to 47 are ones.
static void test_the_published_vectors_come_out(void **state)
{
    (void)state;
    assert_words(philox(0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    assert_words(philox(UINT64_MAX, 0xffff, 0xffffffffffffull, UINT64_MAX), 0x408f276d,
                 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    // Digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
    assert_words(
        philox(0x299f31d0a4093822ull, 0x7344, 0x037013198a2eull, 0x85a308d3243f6a88ull),
        0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

static void test_each_part_of_the_counter_and_the_key_changes_the_words(void **state)
{
    (void)state;
    uint32_t base = philox(1, 2, 3, 4).word[0];
    assert_int_not_equal(philox(2, 2, 3, 4).word[0], base);
    assert_int_not_equal(philox(1ull << 32 | 1, 2, 3, 4).word[0], base);
    assert_int_not_equal(philox(1, 3, 3, 4).word[0], base);
    assert_int_not_equal(philox(1, 2, 4, 4).word[0], base);
    assert_int_not_equal(philox(1, 2, 1ull << 32 | 3, 4).word[0], base);
    assert_int_not_equal(philox(1, 2, 3, 5).word[0], base);
    assert_int_not_equal(philox(1, 2, 3, 1ull << 32 | 4).word[0], base);
}

static void test_units_are_above_zero_and_at_most_one(void **state)
{
    (void)state;
    assert_true(philox_unit(0) > 0.0f);
    assert_true(philox_unit(UINT32_MAX) == 1.0f);
    assert_true(philox_unit(0x80000000u) > 0.5f && philox_unit(0x80000000u) < 0.500001f);
}

static void test_normals_are_box_and_muller_of_the_words(void **state)
{
    (void)state;
    const double two_pi = 6.28318530717958647692;
    for (uint64_t index = 0; index < 100; index++) {
        struct philox_words words = philox(5, STREAM_LATENT, 7, index);
        float normal[4];
        philox_normal4(5, STREAM_LATENT, 7, index, normal);
        for (int pair = 0; pair < 2; pair++) {
            double r = sqrt(-2.0 * log((double)philox_unit(words.word[2 * pair])));
            double a = two_pi * (double)philox_unit(words.word[2 * pair + 1]);
            assert_true(fabs((double)normal[2 * pair] - r * cos(a)) < 1e-6);
            assert_true(fabs((double)normal[2 * pair + 1] - r * sin(a)) < 1e-6);
        }
    }
}

/* Bounds are five standard errors of each moment of a true N(0,1). */
static void test_normals_have_the_moments_of_a_normal(void **state)
{
    (void)state;
    const int draws = 250000;
    double n = 4.0 * draws, moment[5] = {0}, cross = 0.0;
    for (int i = 0; i < draws; i++) {
        float four[4];
        philox_normal4(11, STREAM_LATENT, 0, (uint64_t)i, four);
        for (int j = 0; j < 4; j++) {
            double power = 1.0;
            for (int k = 1; k <= 4; k++)
                moment[k] += power *= (double)four[j];
        }
        cross += (double)four[0] * (double)four[1] + (double)four[1] * (double)four[2] +
                 (double)four[2] * (double)four[3] + (double)four[3] * (double)four[0];
    }
    assert_true(fabs(moment[1] / n) < 5.0 * sqrt(1.0 / n));
    assert_true(fabs(moment[2] / n - 1.0) < 5.0 * sqrt(2.0 / n));
    assert_true(fabs(moment[3] / n) < 5.0 * sqrt(15.0 / n));
    assert_true(fabs(moment[4] / n - 3.0) < 5.0 * sqrt(96.0 / n));
    assert_true(fabs(cross / n) < 5.0 * sqrt(1.0 / n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_vectors_come_out),
        cmocka_unit_test(test_each_part_of_the_counter_and_the_key_changes_the_words),
        cmocka_unit_test(test_units_are_above_zero_and_at_most_one),
        cmocka_unit_test(test_normals_are_box_and_muller_of_the_words),
        cmocka_unit_test(test_normals_have_the_moments_of_a_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
