/* tiles.h - the sample grid as screen pixels.
 * Flow:  dashboard tiles -> [tiles_paint] -> the left part of the picture.
 * Owns:  nothing. Free of cairo.
 *
 * Every tile has the same size in whole pixels. Enlarging repeats each pixel a whole
 * number of times; where that would leave much of the room empty, and the factor is below
 * 3, it interpolates instead: pixels of two widths would lay a pattern over the picture.
 * Shrinking averages. Alpha lies over the panel's colour. */
#ifndef APP_VIEW_TILES_H
#define APP_VIEW_TILES_H

#include "app/view/dashboard.h"

struct tiles_layout {
    int tile_w, tile_h; // on the screen
    int is_smooth;      // interpolated
    int gap;
    int width, height; // of the whole grid
};

/* The largest such grid in side_w x side_h pixels with `gap` pixels between tiles. */
struct tiles_layout tiles_fit(const struct dashboard *dashboard, int side_w, int side_h,
                              int gap);
/* Paints the grid at (left, top) of xRGB pixels, never outside width x height. */
void tiles_paint(const struct dashboard *dashboard, const struct tiles_layout *layout,
                 uint32_t *pixels, int width, int height, int stride, int left, int top);

#endif
