/* png_read.h - a PNG file in memory becomes a picture.
 * Flow:  bytes of a file -> [png_read] -> picture.
 * Owns:  nothing between calls; may be called from several threads at once.
 *
 * Every colour type and depth: 1, 2, 4 bit are spread over 0..255, 16 bit is rounded to
 * the nearest of 256 levels, a palette becomes RGB, tRNS becomes alpha, Adam7 is woven.
 */
#ifndef APP_INPUT_PNG_READ_H
#define APP_INPUT_PNG_READ_H

#include <stddef.h>
#include <stdint.h>

#include "app/input/picture.h"

/* True when the bytes begin with PNG's signature. */
int is_png(const uint8_t *bytes, size_t size);

/* The channels are the file's own, 1 to 4. STATUS_DATA when it is no PNG, is damaged or
 * cut short, or needs more than PICTURE_BYTES_MAX; the message is the reason alone,
 * without a path, which the caller knows. */
enum status picture_from_png(const uint8_t *bytes, size_t size, struct picture *picture);

#endif
