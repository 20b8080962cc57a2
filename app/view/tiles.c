/* tiles.c - scales u8 tiles into xRGB pixels. */
#include "app/view/tiles.h"

#include <math.h>
#include <string.h>

#define UNDER 0x16 // the panel below transparent pixels
#define SHARP 3.0  // factors from here on are whole
#define FULL 0.85  // of the room that a smaller whole factor must fill

static int at_least(int value, int least)
{
    return value > least ? value : least;
}

struct tiles_layout tiles_fit(const struct dashboard *dashboard, int side_w, int side_h,
                              int gap)
{
    const int columns = dashboard->grid_columns, rows = dashboard->grid_rows;
    // The widest tile that the width allows, then the widest that the height allows.
    const int by_width = at_least((side_w - gap * (columns - 1)) / columns, 1);
    const int by_height = at_least((side_h - gap * (rows - 1)) / rows, 1);
    const double factor =
        fmin((double)by_width / dashboard->tile_w, (double)by_height / dashboard->tile_h);
    const double whole = floor(factor);
    struct tiles_layout layout = {.gap = gap};
    layout.is_smooth = factor > 1.0 && factor < SHARP && whole < FULL * factor;
    const double used = factor < 1.0 || layout.is_smooth ? factor : whole;
    layout.tile_w = at_least((int)(used * dashboard->tile_w + 0.5), 1);
    layout.tile_h = at_least((int)(used * dashboard->tile_h + 0.5), 1);
    if (layout.tile_w > by_width) // by rounding
        layout.tile_w = by_width;
    if (layout.tile_h > by_height)
        layout.tile_h = by_height;
    layout.width = columns * layout.tile_w + (columns - 1) * gap;
    layout.height = rows * layout.tile_h + (rows - 1) * gap;
    return layout;
}

/* The source pixels first..end-1 that screen pixel `i` of `n` shows. */
static void source_range(int i, int n, int source, int *first, int *end)
{
    *first = (int)((int64_t)i * source / n);
    *end = at_least((int)((int64_t)(i + 1) * source / n), *first + 1);
}

/* Mean colour of the block x[0]..x[1], y[0]..y[1] of a tile as 0x00RRGGBB. */
static uint32_t block_color(const uint8_t *tile, int tile_w, int channels, const int x[2],
                            const int y[2])
{
    const int has_alpha = channels == 2 || channels == 4;
    const int green = channels >= 3 ? 1 : 0, blue = channels >= 3 ? 2 : 0;
    uint32_t r = 0, g = 0, b = 0;
    const uint32_t count = (uint32_t)((x[1] - x[0]) * (y[1] - y[0]));
    for (int sy = y[0]; sy < y[1]; sy++) {
        const uint8_t *p =
            tile + ((size_t)sy * (size_t)tile_w + (size_t)x[0]) * (size_t)channels;
        for (int sx = x[0]; sx < x[1]; sx++, p += channels) {
            const uint32_t alpha = has_alpha ? p[channels - 1] : 255;
            const uint32_t under = UNDER * (255 - alpha);
            r += p[0] * alpha + under;
            g += p[green] * alpha + under;
            b += p[blue] * alpha + under;
        }
    }
    const uint32_t whole = 255 * count;
    return r / whole << 16 | g / whole << 8 | b / whole;
}

/* The two source pixels that pixel `i` of `n` lies between, and how far it is towards the
 * second. */
struct between {
    int first, second;
    double part;
};

static struct between between_pixels(int i, int n, int source)
{
    const double place = fmax(0.0, (i + 0.5) * source / n - 0.5);
    const int first = (int)place < source - 1 ? (int)place : source - 1;
    return (struct between){first, first + 1 < source ? first + 1 : first, place - first};
}

static uint32_t pixel_color(const struct dashboard *dashboard, const uint8_t *tile, int x,
                            int y)
{
    return block_color(tile, dashboard->tile_w, dashboard->tile_channels,
                       (const int[2]){x, x + 1}, (const int[2]){y, y + 1});
}

static uint32_t mix(uint32_t a, uint32_t b, double part)
{
    uint32_t mixed = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const double from = a >> shift & 255, to = b >> shift & 255;
        mixed |= (uint32_t)(from + (to - from) * part + 0.5) << shift;
    }
    return mixed;
}

static uint32_t smooth_color(const struct dashboard *dashboard,
                             const struct tiles_layout *layout, const uint8_t *tile,
                             int x, int y)
{
    const struct between across = between_pixels(x, layout->tile_w, dashboard->tile_w);
    const struct between down = between_pixels(y, layout->tile_h, dashboard->tile_h);
    return mix(mix(pixel_color(dashboard, tile, across.first, down.first),
                   pixel_color(dashboard, tile, across.second, down.first), across.part),
               mix(pixel_color(dashboard, tile, across.first, down.second),
                   pixel_color(dashboard, tile, across.second, down.second), across.part),
               down.part);
}

static void paint_tile(const struct dashboard *dashboard,
                       const struct tiles_layout *layout, const uint8_t *tile,
                       uint32_t *pixels, int width, int height, int stride, int left,
                       int top)
{
    const int shown = layout->tile_w < width - left ? layout->tile_w : width - left;
    int rows[2] = {-1, -1};
    const uint32_t *before = NULL;
    for (int y = 0; shown > 0 && y < layout->tile_h && top + y < height; y++) {
        uint32_t *line =
            (uint32_t *)(void *)((char *)pixels + (ptrdiff_t)(top + y) * stride) + left;
        const int row_before = rows[0];
        source_range(y, layout->tile_h, dashboard->tile_h, &rows[0], &rows[1]);
        if (before && rows[0] == row_before && !layout->is_smooth &&
            layout->tile_h >= dashboard->tile_h) {
            memcpy(line, before, (size_t)shown * sizeof(*line)); // an enlarged row again
            continue;
        }
        for (int x = 0; x < shown; x++) {
            int columns[2];
            if (layout->is_smooth) {
                line[x] = smooth_color(dashboard, layout, tile, x, y);
                continue;
            }
            source_range(x, layout->tile_w, dashboard->tile_w, &columns[0], &columns[1]);
            line[x] = block_color(tile, dashboard->tile_w, dashboard->tile_channels,
                                  columns, rows);
        }
        before = line;
    }
}

void tiles_paint(const struct dashboard *dashboard, const struct tiles_layout *layout,
                 uint32_t *pixels, int width, int height, int stride, int left, int top)
{
    const size_t tile_bytes = (size_t)dashboard->tile_w * (size_t)dashboard->tile_h *
                              (size_t)dashboard->tile_channels;
    for (int row = 0; row < dashboard->grid_rows; row++)
        for (int column = 0; column < dashboard->grid_columns; column++) {
            const size_t i =
                (size_t)row * (size_t)dashboard->grid_columns + (size_t)column;
            paint_tile(dashboard, layout, dashboard->tiles + i * tile_bytes, pixels,
                       width, height, stride,
                       left + column * (layout->tile_w + layout->gap),
                       top + row * (layout->tile_h + layout->gap));
        }
}
