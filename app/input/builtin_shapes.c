#include "app/input/builtin_shapes.h"

#include <math.h>

#include "kernels/philox.h"

enum { POINTS = 8 }; // per pixel and direction

static const float background[3] = {20, 20, 28};

struct shape_factors shape_factors(size_t index)
{
    struct philox_words a = philox(0, STREAM_SHAPES, index, 0);
    struct philox_words b = philox(0, STREAM_SHAPES, index, 1);
    struct shape_factors shape;
    shape.kind = (enum shape_kind)(((uint64_t)a.word[0] * 3) >> 32);
    shape.hue = philox_unit(a.word[1]);
    shape.radius = 0.15f + 0.2f * philox_unit(a.word[2]);
    float room = 1 - 2 * shape.radius;
    shape.x = shape.radius + room * philox_unit(b.word[0]);
    shape.y = shape.radius + room * philox_unit(b.word[1]);
    return shape;
}

/* A bright colour of that hue, 0..255. */
static void hue_to_rgb(float hue, float rgb[3])
{
    const float low = 60, high = 240;
    for (int c = 0; c < 3; c++) {
        // A trapezoid of width 4/6 around each primary.
        float distance = fabsf(6 * hue - 2 * (float)c);
        distance = fminf(distance, 6 - distance);
        float part = fminf(fmaxf(2 - distance, 0), 1);
        rgb[c] = low + (high - low) * part;
    }
}

/* Negative inside, positive outside; never changes faster than the distance travelled. */
static float distance_to(const struct shape_factors *shape, float x, float y)
{
    float dx = x - shape->x, dy = y - shape->y;
    if (shape->kind == SHAPE_CIRCLE)
        return sqrtf(dx * dx + dy * dy) - shape->radius;
    if (shape->kind == SHAPE_SQUARE)
        return fmaxf(fabsf(dx), fabsf(dy)) - shape->radius * 0.70710678f;
    // A triangle that points up: below its base, or beyond one of its two sides.
    float slanted = 0.8660254f * fabsf(dx) - 0.5f * dy;
    return fmaxf(dy, slanted) - shape->radius * 0.5f;
}

/* The part of a pixel that the shape covers. Only pixels near an edge are sampled. */
static float coverage(const struct shape_factors *shape, float left, float top,
                      float side)
{
    float middle = distance_to(shape, left + side * 0.5f, top + side * 0.5f);
    if (fabsf(middle) > side * 0.7072f)
        return middle < 0 ? 1 : 0;
    int inside = 0;
    for (int j = 0; j < POINTS; j++)
        for (int i = 0; i < POINTS; i++) {
            float x = left + side * ((float)i + 0.5f) / (float)POINTS;
            float y = top + side * ((float)j + 0.5f) / (float)POINTS;
            inside += distance_to(shape, x, y) < 0;
        }
    return (float)inside / (POINTS * POINTS);
}

enum status shape_draw(size_t index, int resolution, struct picture *picture)
{
    TRY(picture_create(picture, resolution, resolution, 3));
    struct shape_factors shape = shape_factors(index);
    float colour[3], side = 1 / (float)resolution;
    hue_to_rgb(shape.hue, colour);
    uint8_t *pixel = picture->pixels;
    for (int y = 0; y < resolution; y++)
        for (int x = 0; x < resolution; x++) {
            float part = coverage(&shape, (float)x * side, (float)y * side, side);
            for (int c = 0; c < 3; c++)
                *pixel++ =
                    (uint8_t)(background[c] + (colour[c] - background[c]) * part + 0.5f);
        }
    return STATUS_OK;
}
