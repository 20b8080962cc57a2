/* tiles.c - scales u8 tiles into xRGB pixels. */
#include "app/output/tiles.h"

#include <string.h>

#define UNDER 0x16 // the panel below transparent pixels

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
    const double across = (double)by_width / dashboard->tile_w;
    const double down = (double)by_height / dashboard->tile_h;
    struct tiles_layout layout = {.tile_w = by_width, .tile_h = by_height, .gap = gap};
    if (across < down)
        layout.tile_h = at_least((int)(across * dashboard->tile_h + 0.5), 1);
    else
        layout.tile_w = at_least((int)(down * dashboard->tile_w + 0.5), 1);
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
        if (before && rows[0] == row_before && layout->tile_h >= dashboard->tile_h) {
            memcpy(line, before, (size_t)shown * sizeof(*line)); // an enlarged row again
            continue;
        }
        for (int x = 0; x < shown; x++) {
            int columns[2];
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
