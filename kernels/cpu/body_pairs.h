/* body_pairs.h - compiled for CPUs with dot products of bf16 pairs: operands of bf16
 * packed as pairs along the depth, each in the place of one float of body_pack.h. Depths
 * are counted in elements; what an odd one lacks is zero on both sides. */
#ifndef KERNELS_CPU_BODY_PAIRS_H
#define KERNELS_CPU_BODY_PAIRS_H

#include "kernels/cpu/body_pack.h"

#ifdef HAS_PAIRS

/* Where the depth lies in memory as it is packed, a pair is two neighbours: the tensor is
 * copied as if it were f32 with half as many channels. */
static struct window as_floats(const struct window *w)
{
    struct window floats = *w;
    floats.channels /= 2;
    floats.dtype = DTYPE_F32;
    return floats;
}

/* With an odd number of channels a row of taps may begin within a pair. */
static void pairs_odd_window(const struct window *w, size_t first, int rows, int k0,
                             int depth, float *to, size_t to_step)
{
    float line[2 * GEMM_DEPTH + LANES];
    struct window_walk walk = walk_to(w, first);
    for (int i = 0; i < rows; i++, walk_on(w, &walk)) {
        uint16_t *row = (uint16_t *)(void *)(to + (size_t)i * to_step);
        window_row(w, DTYPE_BF16, walk.sample, walk.a * w->step + w->top,
                   walk.b * w->step + w->left, k0, depth, line);
        clear(line + depth, LANES);
        for (int k = 0; k < depth; k += LANES)
            v_store_bf16(row + k, v_load(line + k));
    }
}

static void pairs_window(const struct window *w, size_t first, int rows, int k0,
                         int depth, float *to, size_t to_step)
{
    if (w->channels % 2 != 0) {
        pairs_odd_window(w, first, rows, k0, depth, to, to_step);
        return;
    }
    struct window floats = as_floats(w);
    pack_window_as(&floats, DTYPE_F32, first, rows, k0 / 2, depth / 2, to, to_step);
}

/* Two rows of bf16 that lie `step` apart, the second of which may be missing. */
ALWAYS_INLINE VEC load_pair(const void *from, size_t index, size_t step, int n,
                            int has_second)
{
    if (n <= 0)
        return v_zero();
    VEC low = v_load_some(from, DTYPE_BF16, index, n);
    VEC high = has_second ? v_load_some(from, DTYPE_BF16, index + step, n) : v_zero();
    return v_pair(low, high);
}

static void pairs_right(const void *from, enum dtype dtype, size_t offset, size_t step,
                        int depth, int cols, float *panel)
{
    (void)dtype;
    for (int k = 0; k < depth; k += 2, offset += 2 * step, panel += TILE_COLS) {
        int has_second = k + 1 < depth;
        v_store(panel, load_pair(from, offset, step, cols, has_second));
        v_store(panel + LANES,
                load_pair(from, offset + LANES, step, cols - LANES, has_second));
    }
}

static void pairs_right_turned(const void *from, enum dtype dtype, size_t offset,
                               size_t step, int depth, int cols, float *panel)
{
    (void)dtype;
    pack_right_turned(from, DTYPE_F32, offset / 2, step / 2, depth / 2, cols, panel);
}

/* Stores whole vectors; see pack_left_panels(). */
static void pairs_left_panels(const void *from, enum dtype dtype, size_t offset,
                              size_t step, int depth, int rows, float *panels)
{
    (void)dtype;
    for (int m = 0; m < rows; m += TILE_ROWS) {
        int part = rows - m < TILE_ROWS ? rows - m : TILE_ROWS;
        size_t index = offset + (size_t)m;
        for (int k = 0; k < depth; k += 2, index += 2 * step, panels += TILE_ROWS)
            v_store(panels, load_pair(from, index, step, part, k + 1 < depth));
    }
}

static void pairs_right_window(const struct window *w, size_t first, int depth, int k0,
                               int cols, float *line, float *panels)
{
    float second[GEMM_COLS + 2 * TILE_COLS];
    struct window_walk walk = walk_to(w, first);
    size_t panel_step = (size_t)((depth + 1) / 2) * TILE_COLS;
    int wide = (cols + TILE_COLS - 1) / TILE_COLS * TILE_COLS;
    for (int k = 0; k < depth; k++, walk_on(w, &walk)) {
        float *to = k % 2 ? second : line;
        window_row(w, DTYPE_BF16, walk.sample, walk.a * w->step + w->top,
                   walk.b * w->step + w->left, k0, cols, to);
        clear(to + cols, wide - cols);
        if (k % 2 == 0 && k + 1 < depth)
            continue;
        if (k % 2 == 0)
            clear(second, wide);
        float *panel = panels;
        for (int n = 0; n < wide; n += TILE_COLS, panel += panel_step)
            for (int j = n; j < n + TILE_COLS; j += LANES)
                v_store(panel + (j - n), v_pair(v_load(line + j), v_load(second + j)));
        panels += TILE_COLS;
    }
}

#endif
#endif
