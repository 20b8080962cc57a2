/* grid.h - tiles of images as one PNG.
 * Flow:  sampler or batch -> [grid_write] -> reals.png, fakes000200.png, sample -o.
 * Owns:  nothing.
 *
 * count images fill rows from the top left; a last row that is not full is padded with
 * the background (0: black, or transparent), and fewer images than columns make one short
 * row. Two pixels lie between tiles, none around them. Pixels are written as they are: no
 * rescaling per image. The file appears whole or not at all (temporary name, then
 * rename). */
#ifndef APP_VIEW_GRID_H
#define APP_VIEW_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

/* A PNG text chunk: keyword (1..79 ASCII) and text. ASCII text is stored as tEXt, UTF-8
 * beyond it as iTXt. */
struct png_text {
    const char *keyword;
    const char *text;
};

struct grid {
    const uint8_t *pixels;     // [count, h, w, channels]
    int count, h, w, channels; // channels 1..4 (2: grey+alpha, 4: RGBA)
    int columns;
    const struct png_text *texts;
    int text_count;
};

/* STATUS_FAILED with path and the system's reason. Overwrites only if `overwrite`;
 * otherwise an existing file is STATUS_USAGE and stays as it is. After a failure nothing
 * new is left in the folder. */
enum status grid_write(const struct grid *grid, const char *path, int overwrite);

/* The same, but an older file with other bytes is set aside (set_aside.h): its new path
 * is in `kept`, "" when there was none. */
enum status grid_write_keeping(const struct grid *grid, const char *path, char *kept,
                               size_t bytes);

/* The pixels of the grid [height, width, channels], for other uses; the caller frees.
 * NULL when there is no memory. */
uint8_t *grid_compose(const struct grid *grid, int *width, int *height);

/* Writes one PNG, atomically: the primitive under grid_write. channels 1..4, 8 bit. */
enum status png_write(const char *path, const uint8_t *pixels, int width, int height,
                      int channels, const struct png_text *texts, int text_count);

#endif
