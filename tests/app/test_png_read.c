#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "app/input/png_read.h"
#include "kernels/philox.h"
#include "tests/app/make_png.h"

enum { WIDTH = 13, HEIGHT = 9 }; // odd, so that every packing and pass has a remainder

static int depth; // of the plan under test, for the samplers

static unsigned hashed(int x, int y, int c)
{
    unsigned value = (unsigned)x * 2654435761u ^ (unsigned)y * 40503u * 65537u ^
                     (unsigned)c * 2246822519u;
    return (value ^ value >> 15) * 2654435769u >> 8 & ((1u << depth) - 1);
}

/* A sample of `bits` bits as the nearest of 256 levels. */
static uint8_t to_8_bits(unsigned sample, int bits)
{
    unsigned most = (1u << bits) - 1;
    return (uint8_t)((sample * 510u + most) / (2 * most));
}

static uint8_t palette[256 * 3];
static uint8_t palette_alpha[200];

static void fill_palette(void)
{
    for (int i = 0; i < 256 * 3; i++)
        palette[i] = (uint8_t)(i * 37 + i / 3);
    for (int i = 0; i < 200; i++)
        palette_alpha[i] = (uint8_t)(255 - i);
}

/* What the decoded pixel must be. */
static int expected_pixel(const struct png_plan *plan, int x, int y, uint8_t pixel[4])
{
    int channels = png_plan_channels(plan);
    if (plan->colour_type == 3) {
        unsigned index = plan->sample(x, y, 0);
        memcpy(pixel, plan->palette + 3 * index, 3);
        pixel[3] = index < (unsigned)plan->trns_bytes ? plan->trns[index] : 255;
        return plan->trns ? 4 : 3;
    }
    int is_clear = plan->trns != NULL;
    for (int c = 0; c < channels; c++) {
        unsigned sample = plan->sample(x, y, c);
        pixel[c] = to_8_bits(sample, plan->bit_depth);
        if (plan->trns)
            is_clear &=
                sample == (unsigned)(plan->trns[2 * c] << 8 | plan->trns[2 * c + 1]);
    }
    if (plan->trns)
        pixel[channels++] = is_clear ? 0 : 255;
    return channels;
}

static void check_plan(struct png_plan *plan)
{
    depth = plan->bit_depth;
    size_t size;
    uint8_t *bytes = make_png(plan, &size);
    struct picture picture;
    if (picture_from_png(bytes, size, &picture) != STATUS_OK)
        fail_msg("colour type %d, depth %d: %s", plan->colour_type, plan->bit_depth,
                 status_message());
    assert_int_equal(picture.width, plan->width);
    assert_int_equal(picture.height, plan->height);
    for (int y = 0; y < plan->height; y++)
        for (int x = 0; x < plan->width; x++) {
            uint8_t want[4];
            int channels = expected_pixel(plan, x, y, want);
            assert_int_equal(picture.channels, channels);
            const uint8_t *got = picture.pixels + (y * plan->width + x) * channels;
            if (memcmp(got, want, (size_t)channels) != 0)
                fail_msg("colour type %d, depth %d, interlaced %d, tRNS %d, at %d,%d: "
                         "got %d, want %d",
                         plan->colour_type, plan->bit_depth, plan->is_interlaced,
                         plan->trns != NULL, x, y, got[0], want[0]);
        }
    picture_release(&picture);
    free(bytes);
}

static void test_every_colour_type_and_depth_is_decoded(void **state)
{
    (void)state;
    static const int plans[][2] = {{0, 1}, {0, 2},  {0, 4},  {0, 8}, {0, 16},
                                   {2, 8}, {2, 16}, {3, 1},  {3, 2}, {3, 4},
                                   {3, 8}, {4, 8},  {4, 16}, {6, 8}, {6, 16}};
    fill_palette();
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int interlaced = 0; interlaced <= 1; interlaced++) {
            struct png_plan plan = {WIDTH,  HEIGHT, plans[i][0], plans[i][1], interlaced,
                                    hashed, NULL,   0,           NULL,        0};
            if (plan.colour_type == 3) {
                plan.palette = palette;
                plan.palette_count = 1 << plan.bit_depth;
            }
            check_plan(&plan);
        }
}

static void test_a_transparent_colour_becomes_alpha(void **state)
{
    (void)state;
    fill_palette();
    for (int bits = 1; bits <= 16; bits *= 2) {
        depth = bits;
        unsigned clear = hashed(4, 2, 0);
        uint8_t grey[2] = {(uint8_t)(clear >> 8), (uint8_t)clear};
        struct png_plan plan = {WIDTH, HEIGHT, 0, bits, 0, hashed, NULL, 0, grey, 2};
        check_plan(&plan);
    }
    for (int bits = 8; bits <= 16; bits *= 2) {
        depth = bits;
        uint8_t colour[6];
        for (int c = 0; c < 3; c++) {
            colour[2 * c] = (uint8_t)(hashed(3, 1, c) >> 8);
            colour[2 * c + 1] = (uint8_t)hashed(3, 1, c);
        }
        struct png_plan plan = {WIDTH, HEIGHT, 2, bits, 1, hashed, NULL, 0, colour, 6};
        check_plan(&plan);
    }
    struct png_plan plan = {WIDTH, HEIGHT,        3,  8, 0, hashed, palette,
                            256,   palette_alpha, 200};
    check_plan(&plan);
}

static unsigned ramp(int x, int y, int c)
{
    (void)c;
    return (unsigned)(y * 256 + x);
}

static void test_all_65536_levels_are_rounded_to_the_nearest_of_256(void **state)
{
    (void)state;
    struct png_plan plan = {256, 256, 0, 16, 0, ramp, NULL, 0, NULL, 0};
    check_plan(&plan);
}

static uint8_t *plain_png(size_t *size)
{
    depth = 8;
    struct png_plan plan = {WIDTH, HEIGHT, 2, 8, 0, hashed, NULL, 0, NULL, 0};
    return make_png(&plan, size);
}

static void expect_refusal(const uint8_t *bytes, size_t size, const char *part)
{
    struct picture picture;
    assert_int_equal(picture_from_png(bytes, size, &picture), STATUS_DATA);
    assert_null(picture.pixels);
    if (!strstr(status_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), part);
}

static void test_a_flipped_bit_of_the_pixels_is_a_checksum_error(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = plain_png(&size);
    bytes[size / 2] ^= 1; // zlib's own checksum notices first
    expect_refusal(bytes, size, "damaged PNG (IDAT: ");
    bytes[size / 2] ^= 1;
    bytes[18] ^= 1; // the width
    expect_refusal(bytes, size, "IHDR: CRC error");
    bytes[18] ^= 1;
    bytes[size - 1] ^= 1; // the checksum of the end
    expect_refusal(bytes, size, "IEND: CRC error");
    free(bytes);
}

static void test_a_file_that_is_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = plain_png(&size);
    for (size_t kept = 0; kept < size; kept++) {
        uint8_t *part =
            malloc(kept + 1); // its own block, so that a read beyond it is seen
        memcpy(part, bytes, kept);
        expect_refusal(part, kept, kept < 8 ? "signature" : "ends early");
        free(part);
    }
    free(bytes);
}

static void put_big_endian(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void set_size(uint8_t *png, uint32_t width, uint32_t height)
{
    put_big_endian(png + 16, width);
    put_big_endian(png + 20, height);
    put_big_endian(png + 29, png_crc(png + 12, 17));
}

static void
test_an_image_of_more_than_512_mb_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = plain_png(&size);
    set_size(bytes, 20000, 20000);
    expect_refusal(bytes, size, "20000 x 20000 pixels need more than 512 MB");
    set_size(bytes, 0x7fffffff, 0x7fffffff);
    expect_refusal(bytes, size, "damaged PNG");
    set_size(bytes, 0, 5);
    expect_refusal(bytes, size, "damaged PNG");
    free(bytes);
}

static void test_pixels_that_are_missing_from_the_stream_are_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = plain_png(&size);
    set_size(bytes, WIDTH, HEIGHT + 1);
    expect_refusal(bytes, size, "damaged PNG (");
    free(bytes);
}

/* Flips bytes at random; with right checksums half of the time, so that the damage gets
 * past them and into the chunks. */
static void damage(uint8_t *bytes, size_t size, uint64_t round)
{
    struct philox_words random = philox(11, 100, round, 0);
    int flips = 1 + (int)(random.word[0] % 4);
    for (int i = 0; i < flips; i++) {
        struct philox_words at = philox(11, 101, round, (uint64_t)i);
        bytes[8 + at.word[0] % (size - 8)] = (uint8_t)at.word[1];
    }
    for (size_t at = 8; random.word[1] % 2 && at + 12 <= size;) {
        size_t length = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 |
                        (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (length > size - at - 12)
            break;
        put_big_endian(bytes + at + 8 + length, png_crc(bytes + at + 4, length + 4));
        at += length + 12;
    }
}

static void test_thousands_of_damaged_files_give_a_picture_or_a_sentence(void **state)
{
    (void)state;
    fill_palette();
    static const int plans[][2] = {{0, 1}, {0, 16}, {2, 8}, {3, 4},
                                   {3, 8}, {4, 8},  {6, 16}};
    int refused = 0, decoded = 0;
    for (uint64_t round = 0; round < 6000; round++) {
        const int *kind = plans[round % 7];
        depth = kind[1];
        struct png_plan plan = {WIDTH,  HEIGHT, kind[0], kind[1], (int)(round / 7 % 2),
                                hashed, NULL,   0,       NULL,    0};
        if (kind[0] == 3) {
            plan.palette = palette;
            plan.palette_count = 1 << depth;
            plan.trns = palette_alpha;
            plan.trns_bytes = 9;
        }
        size_t size;
        uint8_t *bytes = make_png(&plan, &size);
        damage(bytes, size, round);
        struct picture picture;
        enum status status = picture_from_png(bytes, size, &picture);
        assert_true(status == STATUS_OK || status == STATUS_DATA);
        refused += status == STATUS_DATA;
        decoded += status == STATUS_OK;
        if (status == STATUS_DATA)
            assert_true(strlen(status_message()) > 10);
        picture_release(&picture);
        free(bytes);
    }
    // Both happen, or the damage was not the kind that was meant.
    assert_true(refused > 1000);
    assert_true(decoded > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_colour_type_and_depth_is_decoded),
        cmocka_unit_test(test_a_transparent_colour_becomes_alpha),
        cmocka_unit_test(test_all_65536_levels_are_rounded_to_the_nearest_of_256),
        cmocka_unit_test(test_a_flipped_bit_of_the_pixels_is_a_checksum_error),
        cmocka_unit_test(test_a_file_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(
            test_an_image_of_more_than_512_mb_is_refused_before_memory_is_taken),
        cmocka_unit_test(test_pixels_that_are_missing_from_the_stream_are_refused),
        cmocka_unit_test(test_thousands_of_damaged_files_give_a_picture_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
