/* test_tiles.c - how samples are enlarged: whole factors, or smoothly. */
#include "app/view/tiles.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

// One grey tile of side x side whose columns are 0, 200, 0, 200 ...
static struct dashboard striped(uint8_t *pixels, int side)
{
    for (int i = 0; i < side * side; i++)
        pixels[i] = i % side % 2 ? 200 : 0;
    return (struct dashboard){.grid_columns = 1,
                              .grid_rows = 1,
                              .tile_w = side,
                              .tile_h = side,
                              .tile_channels = 1,
                              .tiles = pixels};
}

static void test_a_factor_is_whole_or_the_tile_is_interpolated(void **state)
{
    (void)state;
    static const struct {
        int side, room, shown, is_smooth;
    } rows[] = {
        {28, 28, 28, 0},   // as it is
        {28, 61, 56, 0},   // 2.18: twice fills most of the room
        {28, 45, 45, 1},   // 1.6: once would leave a third of it empty
        {32, 69, 64, 0},   // 2.16
        {28, 80, 80, 1},   // 2.86
        {28, 111, 84, 0},  // 3.96: from 3 on always whole
        {28, 112, 112, 0}, // 4
        {64, 30, 30, 0},   // smaller: averaged
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t pixels[64 * 64];
        struct dashboard dashboard = striped(pixels, rows[i].side);
        struct tiles_layout layout = tiles_fit(&dashboard, rows[i].room, rows[i].room, 2);
        if (layout.tile_w != rows[i].shown || layout.tile_h != rows[i].shown ||
            layout.is_smooth != rows[i].is_smooth)
            fail_msg("%d in %d pixels: %d x %d, %s", rows[i].side, rows[i].room,
                     layout.tile_w, layout.tile_h, layout.is_smooth ? "smooth" : "sharp");
    }
}

static void test_no_pixel_is_wider_than_another(void **state)
{
    (void)state;
    uint8_t pixels[28 * 28];
    struct dashboard dashboard = striped(pixels, 28);
    for (int room = 28; room < 300; room++) {
        struct tiles_layout layout = tiles_fit(&dashboard, room, room, 0);
        uint32_t *shown = calloc((size_t)(room * room), sizeof *shown);
        tiles_paint(&dashboard, &layout, shown, room, room, room * 4, 0, 0);
        int run = 1, factor = layout.tile_w / 28;
        for (int x = 1; x <= layout.tile_w && !layout.is_smooth; x++) {
            if (x < layout.tile_w && shown[x] == shown[x - 1]) {
                run++;
                continue;
            }
            assert_int_equal(run, factor);
            run = 1;
        }
        free(shown);
    }
}

static void test_interpolation_lies_between_its_pixels(void **state)
{
    (void)state;
    uint8_t pixels[4] = {0, 200, 0, 200};
    struct dashboard dashboard = striped(pixels, 2);
    struct tiles_layout layout = {.tile_w = 5, .tile_h = 5, .is_smooth = 1};
    uint32_t shown[25];
    tiles_paint(&dashboard, &layout, shown, 5, 5, 20, 0, 0);
    const uint32_t expected[] = {0x000000, 0x141414, 0x646464, 0xb4b4b4, 0xc8c8c8};
    for (int i = 0; i < 25; i++)
        assert_int_equal(shown[i], expected[i % 5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_factor_is_whole_or_the_tile_is_interpolated),
        cmocka_unit_test(test_no_pixel_is_wider_than_another),
        cmocka_unit_test(test_interpolation_lies_between_its_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
