/* picture.h - one decoded image, of any size, with 1 to 4 channels.
 * Flow:  readers, idx, the built-in sets -> [picture] -> resize -> dataset.
 * Owns:  its pixels; picture_release() frees them. */
#ifndef APP_INPUT_PICTURE_H
#define APP_INPUT_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define PICTURE_BYTES_MAX ((size_t)512 << 20) // that a file may become

// 1: grey; 2: grey, alpha; 3: red, green, blue; 4: red, green, blue, alpha.
struct picture {
    int width, height, channels;
    uint8_t *pixels; // [height, width, channels]; NULL for no picture
};

/* A zeroed picture of that size. STATUS_FAILED when there is no memory for it. */
enum status picture_create(struct picture *picture, int width, int height, int channels);
void picture_release(struct picture *picture);

/* Bytes of its pixels. */
size_t picture_bytes(const struct picture *picture);

/* Changes the number of channels, 1 to 4.
 *   colour -> grey   L = (19595 R + 38470 G + 7471 B + 32768) / 65536, rounded down
 *   grey -> colour   R = G = B = L
 *   alpha dropped    the colour is composed over black: c a / 255, rounded
 *   alpha added      255
 * STATUS_FAILED when there is no memory for it.
 * Source: ITU-R BT.601 luma in the 16-bit fixed point of Pillow's convert("L"). */
enum status picture_set_channels(struct picture *picture, int channels);

/* x a / 255, rounded to nearest, for x and a in 0..255. */
static inline uint8_t scale_by_alpha(unsigned x, unsigned a)
{
    unsigned product = x * a + 128;
    return (uint8_t)((product + (product >> 8)) >> 8);
}

#endif
