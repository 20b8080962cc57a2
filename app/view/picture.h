/* picture.h - 32-bit pixels: a canvas over them, and a PNG of them.
 * Flow:  dashboard.c, bench_picture.c -> [picture] -> the window, or a file by grid.h.
 * Owns:  the canvas' cairo, from picture_open() to picture_close().  Borrows: the
 *        pixels. */
#ifndef APP_VIEW_PICTURE_H
#define APP_VIEW_PICTURE_H

#include <stdint.h>

#include "app/view/canvas.h"
#include "kernels/base/status.h"

/* Pixels for a picture that is to be written to `path`; the caller frees. STATUS_FAILED
 * where there is no memory for them, or for what drawing takes besides. */
enum status picture_pixels(const char *path, int width, int height, uint32_t **pixels);

/* Begins a picture of the background's colour on `pixels` (0x00RRGGBB, native order),
 * stride in bytes; `scale` pixels make a unit of the canvas. */
void picture_open(struct canvas *canvas, uint32_t *pixels, int width, int height,
                  int stride, double scale);

/* Everything that was drawn is in the pixels. */
void picture_close(struct canvas *canvas);

/* Writes [height,width] pixels, without gaps between rows, as a PNG. Atomic, over an
 * older file of that name; STATUS_FAILED with path and reason, see grid.h. */
enum status picture_write(const char *path, const uint32_t *pixels, int width,
                          int height);

#endif
