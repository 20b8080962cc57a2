/* resize.h - pictures of any size become squares of one size, without aliasing.
 * Flow:  picture -> [resize] -> a slot of the data set.
 * Owns:  nothing between calls; may be called from several threads at once. */
#ifndef APP_INPUT_RESIZE_H
#define APP_INPUT_RESIZE_H

#include <stdint.h>

#include "app/config/config.h"
#include "app/input/picture.h"

/* A part of a picture, in pixels and fractions of them. */
struct resize_box {
    double x, y, width, height;
};

/* Resamples the part `box` of `from` to the size `to` has already (its channels too).
 *   to[j] = sum_i w((i + 1/2 - c_j) / s) from[i] / sum of these w
 *   c_j = box.x + (j + 1/2) r,   r = box.width / to.width,   s = max(r, 1)
 * first along rows, then along columns, each rounded to bytes. Taps may reach outside of
 * the box, never outside of the picture. Colours are weighted by their alpha where there
 * is one.
 *
 * Source: the antialiased resize of Pillow (PIL), with which most data sets are made;
 * rows first always, as there up to version 12. */
enum status resize_picture(const struct picture *from, struct resize_box box,
                           enum resize_filter filter, struct picture *to);

/* Makes a square of [resolution, resolution, from->channels] bytes at `square`.
 *   FIT_CROP     the short side is scaled to the resolution, the middle is kept
 *   FIT_PAD      the long side is scaled, the rest is 0
 *   FIT_STRETCH  both sides are scaled
 * A picture of that very size is copied as it is. */
enum status resize_to_square(const struct picture *from, int resolution, enum fit fit,
                             enum resize_filter filter, uint8_t *square);

#endif
