/* builtin_shapes.h - coloured shapes, drawn instead of read: a data set of no bytes whose
 * factors are known exactly.
 * Flow:  a number -> [builtin_shapes] -> the loader.
 * Owns:  nothing. */
#ifndef APP_INPUT_BUILTIN_SHAPES_H
#define APP_INPUT_BUILTIN_SHAPES_H

#include <stddef.h>

#include "app/input/picture.h"

#define SHAPES_COUNT 4096

enum shape_kind { SHAPE_CIRCLE, SHAPE_SQUARE, SHAPE_TRIANGLE };

/* One image. Lengths are fractions of the image's side; it lies wholly inside. */
struct shape_factors {
    enum shape_kind kind;
    float hue;    // 0..1, red at 0, green at 1/3
    float x, y;   // centre
    float radius; // of the circle around it, 0.15..0.35
};

/* The factors of image `index`: philox(0, STREAM_SHAPES, index, 0 and 1). */
struct shape_factors shape_factors(size_t index);

/* Draws image `index`, [resolution, resolution, 3], on a dark background; pixels on an
 * edge are the mean of 8 x 8 points. STATUS_FAILED when there is no memory. */
enum status shape_draw(size_t index, int resolution, struct picture *picture);

#endif
