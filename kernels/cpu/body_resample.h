/* body_resample.h - compiled per instruction set: lines of resample_ops, pixel by pixel,
 * all channels of a pixel at once. */
#ifndef KERNELS_CPU_BODY_RESAMPLE_H
#define KERNELS_CPU_BODY_RESAMPLE_H

#include "kernels/cpu/body_flat.h"

// The vector of channels from c on, summed over the block of x that is pixel j of a line
// whose first pixel of x is `corner`.
ALWAYS_INLINE VEC block_sum(const struct resample_lines *l, size_t corner, size_t j,
                            size_t c, int n)
{
    size_t line = l->width * l->k; // pixels of x
    VEC sum = v_set1(0.0f);
    for (size_t r = 0; r < l->k; r++)
        for (size_t s = 0; s < l->k; s++) {
            size_t pixel = corner + r * line + j * l->k + s;
            sum = v_add(sum, v_load_some(l->x, l->x_dtype, pixel * l->channels + c, n));
        }
    return sum;
}

// Lines of all samples follow each other: line y of the output begins at line y*k of x.
static void resample_down(const struct resample_lines *l)
{
    VEC factor = v_set1(l->factor);
    for (size_t y = l->first; y < l->first + l->count; y++)
        for (size_t j = 0; j < l->width; j++)
            FOR_VECTORS(c, 0, l->channels)
            {
                int n = lanes_before(l->channels, c);
                VEC sum = block_sum(l, y * l->k * l->width * l->k, j, c, n);
                v_store_some(l->y, l->y_dtype, (y * l->width + j) * l->channels + c,
                             v_mul(factor, sum), n);
            }
}

static void resample_up(const struct resample_lines *l)
{
    VEC factor = v_set1(l->factor);
    for (size_t y = l->first; y < l->first + l->count; y++)
        for (size_t j = 0; j < l->width; j++)
            FOR_VECTORS(c, 0, l->channels)
            {
                int n = lanes_before(l->channels, c);
                size_t from = y / l->k * (l->width / l->k) + j / l->k;
                VEC x = v_load_some(l->x, l->x_dtype, from * l->channels + c, n);
                v_store_some(l->y, l->y_dtype, (y * l->width + j) * l->channels + c,
                             v_mul(factor, x), n);
            }
}

#endif
