#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/resize.h"

/* The picture of tests/golden/make_resize_golden.py. */
static struct picture drawn(int width, int height, int channels)
{
    struct picture picture;
    assert_int_equal(picture_create(&picture, width, height, channels), STATUS_OK);
    uint8_t *byte = picture.pixels;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                *byte++ =
                    (uint8_t)((3 * x * x + 5 * y * y + 7 * x * y * (c + 1) + 40 * c) >>
                              2);
    return picture;
}

struct golden_case {
    int32_t kind, choice, width, height, channels, box[4], to_width, to_height,
        to_channels;
};

static void make_case(const struct golden_case *golden, struct picture *to)
{
    struct picture from = drawn(golden->width, golden->height, golden->channels);
    if (golden->kind == 0) {
        struct resize_box box = {golden->box[0], golden->box[1], golden->box[2],
                                 golden->box[3]};
        assert_int_equal(
            resize_picture(&from, box, (enum resize_filter)golden->choice, to),
            STATUS_OK);
    } else if (golden->kind == 1) {
        assert_int_equal(resize_to_square(&from, to->width, (enum fit)golden->choice,
                                          RESIZE_LANCZOS, to->pixels),
                         STATUS_OK);
    } else {
        assert_int_equal(picture_set_channels(&from, 1), STATUS_OK);
        memcpy(to->pixels, from.pixels, picture_bytes(to));
    }
    picture_release(&from);
}

/* Largest difference to Pillow's bytes, which are read from `file`. */
static int difference(const struct golden_case *golden, FILE *file)
{
    struct picture got, want;
    assert_int_equal(
        picture_create(&got, golden->to_width, golden->to_height, golden->to_channels),
        STATUS_OK);
    assert_int_equal(
        picture_create(&want, golden->to_width, golden->to_height, golden->to_channels),
        STATUS_OK);
    assert_int_equal(fread(want.pixels, 1, picture_bytes(&want), file),
                     picture_bytes(&want));
    make_case(golden, &got);
    int largest = 0;
    for (size_t i = 0; i < picture_bytes(&got); i++) {
        int off = abs(got.pixels[i] - want.pixels[i]);
        largest = off > largest ? off : largest;
    }
    picture_release(&got);
    picture_release(&want);
    return largest;
}

static void test_every_size_filter_and_fit_equals_pillow_within_one_level(void **state)
{
    (void)state;
    FILE *file = fopen(TESTS_DIR "/golden/resize_golden.bin", "rb");
    assert_non_null(file);
    struct golden_case golden;
    int cases = 0;
    while (fread(&golden, sizeof golden, 1, file) == 1) {
        int off = difference(&golden, file);
        if (off > 1)
            fail_msg("case %d (kind %d, choice %d, %dx%dx%d to %dx%d): off by %d", cases,
                     golden.kind, golden.choice, golden.width, golden.height,
                     golden.channels, golden.to_width, golden.to_height, off);
        cases++;
    }
    fclose(file);
    assert_int_equal(cases, 98);
}

static void test_the_same_size_leaves_every_byte_untouched(void **state)
{
    (void)state;
    for (int fit = FIT_CROP; fit <= FIT_STRETCH; fit++)
        for (int channels = 1; channels <= 4; channels++) {
            struct picture from = drawn(28, 28, channels);
            uint8_t square[28 * 28 * 4];
            assert_int_equal(
                resize_to_square(&from, 28, (enum fit)fit, RESIZE_LANCZOS, square),
                STATUS_OK);
            assert_memory_equal(square, from.pixels, picture_bytes(&from));
            picture_release(&from);
        }
}

static void test_a_crop_without_scaling_copies_bytes(void **state)
{
    (void)state;
    struct picture from = drawn(35, 28, 3);
    uint8_t square[28 * 28 * 3];
    assert_int_equal(resize_to_square(&from, 28, FIT_CROP, RESIZE_LANCZOS, square),
                     STATUS_OK);
    for (int y = 0; y < 28; y++)
        assert_memory_equal(square + y * 28 * 3, from.pixels + (y * 35 + 3) * 3, 28 * 3);
    picture_release(&from);
}

static void test_box_halving_is_the_mean_of_four_pixels(void **state)
{
    (void)state;
    struct picture from = drawn(20, 12, 1), to;
    assert_int_equal(picture_create(&to, 10, 6, 1), STATUS_OK);
    struct resize_box whole = {0, 0, 20, 12};
    assert_int_equal(resize_picture(&from, whole, RESIZE_AREA, &to), STATUS_OK);
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 10; x++) {
            const uint8_t *p = from.pixels + 2 * y * 20 + 2 * x;
            // Rows first, each pass rounded.
            int upper = (p[0] + p[1] + 1) / 2, lower = (p[20] + p[21] + 1) / 2;
            assert_int_equal(to.pixels[y * 10 + x], (upper + lower + 1) / 2);
        }
    picture_release(&from);
    picture_release(&to);
}

static void test_a_flat_picture_stays_flat_at_any_size(void **state)
{
    (void)state;
    static const int sides[] = {1, 2, 3, 7, 28, 31, 64, 100, 333};
    for (size_t w = 0; w < sizeof sides / sizeof *sides; w++)
        for (size_t h = 0; h < sizeof sides / sizeof *sides; h++)
            for (int value = 0; value <= 255; value += 51) {
                struct picture from;
                assert_int_equal(picture_create(&from, sides[w], sides[h], 1), STATUS_OK);
                memset(from.pixels, value, picture_bytes(&from));
                uint8_t square[32 * 32];
                assert_int_equal(
                    resize_to_square(&from, 32, FIT_CROP, RESIZE_LANCZOS, square),
                    STATUS_OK);
                for (size_t i = 0; i < sizeof square; i++)
                    assert_int_equal(square[i], value);
                picture_release(&from);
            }
}

/* Black and white in the worst order for the sums: they must neither overflow nor wrap.
 */
static void test_stripes_are_clamped_not_wrapped(void **state)
{
    (void)state;
    for (int width = 1; width <= 40; width++) {
        struct picture from;
        assert_int_equal(picture_create(&from, width, 2, 1), STATUS_OK);
        for (int x = 0; x < 2 * width; x++)
            from.pixels[x] = x % width % 2 ? 0 : 255;
        uint8_t square[64 * 64];
        assert_int_equal(resize_to_square(&from, 64, FIT_STRETCH, RESIZE_LANCZOS, square),
                         STATUS_OK);
        // The first output lies over the first, white pixel when the stripes are
        // enlarged.
        assert_int_equal(square[0], 255);
        picture_release(&from);
    }
}

static void test_the_colour_of_a_clear_pixel_does_not_bleed(void **state)
{
    (void)state;
    struct picture from, to;
    assert_int_equal(picture_create(&from, 8, 8, 4), STATUS_OK);
    assert_int_equal(picture_create(&to, 4, 4, 4), STATUS_OK);
    for (int i = 0; i < 64; i++) // red, beside green that is wholly clear
        memcpy(from.pixels + 4 * i, i % 8 < 3 ? "\xff\0\0\xff" : "\0\xff\0\0", 4);
    struct resize_box whole = {0, 0, 8, 8};
    assert_int_equal(resize_picture(&from, whole, RESIZE_AREA, &to), STATUS_OK);
    assert_memory_equal(to.pixels + 4, "\xff\0\0\x80", 4);
    picture_release(&from);
    picture_release(&to);
}

static void test_padding_is_black_and_keeps_the_picture_in_the_middle(void **state)
{
    (void)state;
    struct picture from;
    assert_int_equal(picture_create(&from, 40, 20, 1), STATUS_OK);
    memset(from.pixels, 200, picture_bytes(&from));
    uint8_t square[32 * 32];
    assert_int_equal(resize_to_square(&from, 32, FIT_PAD, RESIZE_LANCZOS, square),
                     STATUS_OK);
    for (int y = 0; y < 32; y++)
        assert_int_equal(square[y * 32 + 5], y >= 8 && y < 24 ? 200 : 0);
    picture_release(&from);
}

static void test_channels_are_changed_as_documented(void **state)
{
    (void)state;
    static const struct {
        int from, to;
        uint8_t pixel[4], want[4];
    } cases[] = {
        {1, 3, {77}, {77, 77, 77}},
        {1, 2, {77}, {77, 255}},
        {1, 4, {77}, {77, 77, 77, 255}},
        {2, 1, {200, 128}, {100}},
        {2, 3, {200, 128}, {100, 100, 100}},
        {2, 4, {200, 128}, {200, 200, 200, 128}},
        {3, 1, {255, 0, 0}, {76}},
        {3, 1, {0, 255, 0}, {150}},
        {3, 1, {0, 0, 255}, {29}},
        {3, 2, {255, 255, 255}, {255, 255}},
        {3, 4, {1, 2, 3}, {1, 2, 3, 255}},
        {4, 1, {255, 255, 255, 51}, {51}},
        {4, 2, {255, 0, 0, 51}, {76, 51}},
        {4, 3, {10, 100, 255, 51}, {2, 20, 51}},
        {4, 3, {10, 100, 255, 0}, {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct picture picture;
        assert_int_equal(picture_create(&picture, 1, 1, cases[i].from), STATUS_OK);
        memcpy(picture.pixels, cases[i].pixel, (size_t)cases[i].from);
        assert_int_equal(picture_set_channels(&picture, cases[i].to), STATUS_OK);
        assert_int_equal(picture.channels, cases[i].to);
        assert_memory_equal(picture.pixels, cases[i].want, (size_t)cases[i].to);
        picture_release(&picture);
    }
}

// From 3 pixels to 2, the middle of the second lies on the edge between both: it belongs
// to the first, as in Pillow.
static void test_a_pixel_on_the_edge_of_two_areas_belongs_to_the_first(void **state)
{
    (void)state;
    uint8_t from[3] = {0, 100, 200}, to[2];
    struct picture row = {3, 1, 1, from}, half = {2, 1, 1, to};
    struct resize_box whole = {0, 0, 3, 1};
    assert_int_equal(resize_picture(&row, whole, RESIZE_AREA, &half), STATUS_OK);
    assert_int_equal(to[0], 50);
    assert_int_equal(to[1], 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_filter_and_fit_equals_pillow_within_one_level),
        cmocka_unit_test(test_the_same_size_leaves_every_byte_untouched),
        cmocka_unit_test(test_a_crop_without_scaling_copies_bytes),
        cmocka_unit_test(test_box_halving_is_the_mean_of_four_pixels),
        cmocka_unit_test(test_a_flat_picture_stays_flat_at_any_size),
        cmocka_unit_test(test_stripes_are_clamped_not_wrapped),
        cmocka_unit_test(test_the_colour_of_a_clear_pixel_does_not_bleed),
        cmocka_unit_test(test_padding_is_black_and_keeps_the_picture_in_the_middle),
        cmocka_unit_test(test_channels_are_changed_as_documented),
        cmocka_unit_test(test_a_pixel_on_the_edge_of_two_areas_belongs_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
