/* test_pnm_read.c - every kind of PNM gives the pixels that its man page describes. */
#include "app/input/pnm_read.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static void assert_read(const uint8_t *bytes, size_t size, int width, int height,
                        int channels, const uint8_t *pixels)
{
    // At the end of its memory, so that a read beyond it is seen.
    uint8_t *exact = malloc(size);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    struct picture picture;
    assert_true(is_pnm(exact, size));
    if (picture_from_pnm(exact, size, &picture) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(picture.width, width);
    assert_int_equal(picture.height, height);
    assert_int_equal(picture.channels, channels);
    assert_memory_equal(picture.pixels, pixels, picture_bytes(&picture));
    picture_release(&picture);
    free(exact);
}

static void assert_refused(const uint8_t *bytes, size_t size, const char *reason)
{
    struct picture picture;
    assert_int_equal(picture_from_pnm(bytes, size, &picture), STATUS_DATA);
    if (!strstr(status_message(), reason))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), reason);
    assert_null(picture.pixels);
}

static void test_colour_and_grey_of_eight_bits_are_as_they_stand(void **state)
{
    (void)state;
    static const uint8_t colour[] = {1, 2, 3, 250, 0, 255}, grey[] = {0, 9, 255};
    assert_read(BYTES("P6\n2 1\n255\n\1\2\3\xfa\0\xff"), 2, 1, 3, colour);
    assert_read(BYTES("P6 # a camera\n#another\n2\t1 255\n\1\2\3\xfa\0\xff"), 2, 1, 3,
                colour);
    assert_read(BYTES("P5\n1 3\n255\n\0\x09\xff"), 1, 3, 1, grey);
    assert_read(BYTES("P3 2 1 255\n1 2 3\n250 0 255\n"), 2, 1, 3, colour);
    assert_read(BYTES("P2\n1 3 255 0 9 # the last\n 255"), 1, 3, 1, grey);
}

static void test_other_maxima_are_spread_over_0_to_255_and_rounded(void **state)
{
    (void)state;
    static const uint8_t sixths[] = {0, 43, 85, 128, 255};
    static const uint8_t wide[] = {0, 1, 128, 255};
    assert_read(BYTES("P5 5 1 6\n\0\1\2\3\6"), 5, 1, 1, sixths);
    assert_read(BYTES("P2 5 1 6 0 1 2 3 6"), 5, 1, 1, sixths);
    // Of 16 bit, high byte first: 0, 257, 32896 and 65535 of 65535.
    assert_read(BYTES("P5 4 1 65535\n\0\0\1\1\x80\x80\xff\xff"), 4, 1, 1, wide);
}

static void test_bitmaps_are_black_where_they_have_a_1(void **state)
{
    (void)state;
    static const uint8_t rows[] = {0,   255, 255, 255, 255, 255, 255, 255, 0,   0,
                                   255, 255, 255, 255, 255, 255, 255, 0,   255, 255};
    assert_read(BYTES("P4\n10 2\n\x80\xc0\1\x3f"), 10, 2, 1, rows);
    assert_read(BYTES("P1\n10 2\n1000000011\n0 0 0 0 0 0 0 1 0 0"), 10, 2, 1, rows);
}

static void test_only_the_first_picture_of_a_file_counts(void **state)
{
    (void)state;
    static const uint8_t first[] = {7};
    assert_read(BYTES("P5 1 1 255\n\7P5 1 1 255\n\x08"), 1, 1, 1, first);
}

static void test_what_is_damaged_is_refused_with_the_reason(void **state)
{
    (void)state;
    assert_refused(BYTES("P6\n2 1\n255\n\1\2\3\xfa\0"), "the file ends early");
    assert_refused(BYTES("P4\n10 2\n\x80\xc0\1"), "the file ends early");
    assert_refused(BYTES("P5 2 1 65535\n\1\1\1"), "the file ends early");
    assert_refused(BYTES("P2 2 1 9 4 x"), "the file ends early");
    assert_refused(BYTES("P5 1 1 9\n\x0a"), "a value above its maximum, 9");
    assert_refused(BYTES("P2 1 1 9 99999999999999999999"), "a value above its maximum");
    assert_refused(BYTES("P1 1 1 2"), "a value above its maximum, 1");
    assert_refused(BYTES("P5 0 1 9\n"), "width, height and maximum");
    assert_refused(BYTES("P5 1 1 65536\n\1\1"), "width, height and maximum");
    assert_refused(BYTES("P5 99999999999999999999 1 9\n"), "width, height and maximum");
    assert_refused(BYTES("P5"), "does not begin");
    assert_refused(BYTES("P6 1000000 1000000 255\n"), "need more than 512 MB");
}

static void test_a_text_that_begins_like_one_is_none(void **state)
{
    (void)state;
    assert_false(is_pnm(BYTES("P1 is the first part\n")));
    assert_false(is_pnm(BYTES("P7\n")));
    assert_false(is_pnm(BYTES("P55 1 1")));
    assert_true(is_pnm(BYTES("P5 # a comment longer than what was read of the file")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colour_and_grey_of_eight_bits_are_as_they_stand),
        cmocka_unit_test(test_other_maxima_are_spread_over_0_to_255_and_rounded),
        cmocka_unit_test(test_bitmaps_are_black_where_they_have_a_1),
        cmocka_unit_test(test_only_the_first_picture_of_a_file_counts),
        cmocka_unit_test(test_what_is_damaged_is_refused_with_the_reason),
        cmocka_unit_test(test_a_text_that_begins_like_one_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
