/* body_pack.h - compiled per instruction set: operands into the order the tiles read.
 * Widening a half to f32 happens here, in the copy that packing is anyway. */
#ifndef KERNELS_CPU_BODY_PACK_H
#define KERNELS_CPU_BODY_PACK_H

#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

#define TILE_COLS (2 * LANES)

ALWAYS_INLINE void widen(float *to, const void *from, enum dtype dtype, size_t index,
                         int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(to + i, v_load_as(from, dtype, index + (size_t)i));
    if (i < n)
        v_store_n(to + i, v_load_as_n(from, dtype, index + (size_t)i, n - i), n - i);
}

ALWAYS_INLINE void clear(float *to, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(to + i, v_zero());
    if (i < n)
        v_store_n(to + i, v_zero(), n - i);
}

/* Columns [k0, k1) of one window row, which lie within row r of the window: pixels
 * outside [0, width) are zeros, the rest is one contiguous run. */
ALWAYS_INLINE void window_run(const struct window *w, enum dtype dtype, size_t row_index,
                              int is_inside, int left, int k0, int k1, float *to)
{
    int first = left < 0 ? -left * w->channels : 0;
    int last = (w->width - left) * w->channels;
    first = first < k0 ? k0 : first > k1 ? k1 : first;
    last = last > k1 ? k1 : last < first ? first : last;
    if (!is_inside) {
        clear(to, k1 - k0);
        return;
    }
    clear(to, first - k0);
    size_t index = row_index + (size_t)(left * w->channels + first);
    widen(to + (first - k0), w->data, dtype, index, last - first);
    clear(to + (last - k0), k1 - last);
}

/* A whole window that lies inside the picture: one run per row of taps. */
ALWAYS_INLINE void window_inside(const struct window *w, enum dtype dtype, size_t sample,
                                 int top, int left, float *to)
{
    int run = w->taps_w * w->channels;
    size_t line = (size_t)w->width * (size_t)w->channels;
    size_t index = (sample * (size_t)w->height + (size_t)top) * line +
                   (size_t)left * (size_t)w->channels;
    for (int r = 0; r < w->taps_h; r++, index += line, to += run)
        widen(to, w->data, dtype, index, run);
}

/* One row of the window matrix, columns [k0, k0 + depth). */
ALWAYS_INLINE void window_row(const struct window *w, enum dtype dtype, size_t sample,
                              int top, int left, int k0, int depth, float *to)
{
    int run = w->taps_w * w->channels;
    if (depth == run * w->taps_h && top >= 0 && top + w->taps_h <= w->height &&
        left >= 0 && left + w->taps_w <= w->width) {
        window_inside(w, dtype, sample, top, left, to);
        return;
    }
    int r = k0 / run, at = k0 - r * run;
    for (int done = 0; done < depth; r++, at = 0) {
        int end = depth - done < run - at ? at + depth - done : run;
        int y = top + r;
        int is_inside = y >= 0 && y < w->height;
        size_t line = (sample * (size_t)w->height + (size_t)(is_inside ? y : 0)) *
                      (size_t)w->width * (size_t)w->channels;
        window_run(w, dtype, line, is_inside, left, at, end, to + done);
        done += end - at;
    }
}

/* Walks rows m of a window without dividing for each. */
struct window_walk {
    size_t sample;
    int a, b;
};

ALWAYS_INLINE struct window_walk walk_to(const struct window *w, size_t m)
{
    size_t line = m / (size_t)w->grid_w;
    return (struct window_walk){line / (size_t)w->grid_h, (int)(line % (size_t)w->grid_h),
                                (int)(m % (size_t)w->grid_w)};
}

ALWAYS_INLINE void walk_on(const struct window *w, struct window_walk *walk)
{
    if (++walk->b < w->grid_w)
        return;
    walk->b = 0;
    if (++walk->a < w->grid_h)
        return;
    walk->a = 0;
    walk->sample++;
}

/* ---- narrow windows ---------------------------------------------------------------- */

/* Where a row of taps is a few elements - with 1 or 3 channels - most of a copy is its
 * start. Windows that lie side by side are then made together: each line of pixels that
 * they see is widened once, and falls to pieces of four floats. */
enum { PIECE = 4, LINE_MOST = 1024 };

/* Pixels that `count` windows side by side see. */
ALWAYS_INLINE int pixels_seen(const struct window *w, int count)
{
    return (count - 1) * w->step + w->taps_w;
}

/* Whether columns [k0, k0 + depth) are whole windows that are worth it. */
ALWAYS_INLINE int is_narrow(const struct window *w, int depth)
{
    int run = w->taps_w * w->channels;
    return run <= LANES && run % PIECE == 0 && depth == run * w->taps_h &&
           pixels_seen(w, w->grid_w) * w->channels <= LINE_MOST;
}

/* The next windows of one line, at most `rows`; returns how many there were. Column n of
 * a row goes to n/TILE_COLS*panel_step + n%TILE_COLS, rows are `to_step` apart. */
ALWAYS_INLINE int pack_narrow(const struct window *w, enum dtype dtype,
                              struct window_walk *walk, int rows, float *to,
                              size_t to_step, size_t panel_step)
{
    float line[LINE_MOST + LANES];
    int run = w->taps_w * w->channels, step = w->step * w->channels;
    int count = w->grid_w - walk->b < rows ? w->grid_w - walk->b : rows;
    int left = walk->b * w->step + w->left, seen = pixels_seen(w, count) * w->channels;
    for (int r = 0; r < w->taps_h; r++) {
        int y = walk->a * w->step + w->top + r, is_inside = y >= 0 && y < w->height;
        size_t index = (walk->sample * (size_t)w->height + (size_t)(is_inside ? y : 0)) *
                       (size_t)w->width * (size_t)w->channels;
        window_run(w, dtype, index, is_inside, left, 0, seen, line);
        for (int k = 0; k < run; k += PIECE) {
            size_t n = (size_t)(r * run + k);
            float *piece = to + n / TILE_COLS * panel_step + n % TILE_COLS;
            const float *from = line + k;
            for (int i = 0; i < count; i++, piece += to_step, from += step)
                memcpy(piece, from, PIECE * sizeof(float));
        }
    }
    walk->b += count - 1;
    walk_on(w, walk);
    return count;
}

/* ---- packing ----------------------------------------------------------------------- */

/* Whether each window is one pixel, so that they follow each other as the pixels do. */
ALWAYS_INLINE int is_flat(const struct window *w)
{
    return w->taps_h == 1 && w->taps_w == 1 && w->step == 1 && w->top == 0 &&
           w->left == 0 && w->grid_h == w->height && w->grid_w == w->width;
}

ALWAYS_INLINE void pack_window_as(const struct window *w, enum dtype dtype, size_t first,
                                  int rows, int k0, int depth, float *to, size_t to_step)
{
    struct window_walk walk = walk_to(w, first);
    int tail = (DOT_LANES - depth % DOT_LANES) % DOT_LANES;
    if (is_flat(w)) {
        size_t index = first * (size_t)w->channels + (size_t)k0;
        for (int i = 0; i < rows; i++, to += to_step, index += (size_t)w->channels) {
            widen(to, w->data, dtype, index, depth);
            clear(to + depth, tail);
        }
        return;
    }
    if (is_narrow(w, depth)) {
        for (int i = 0; i < rows;)
            i += pack_narrow(w, dtype, &walk, rows - i, to + (size_t)i * to_step, to_step,
                             TILE_COLS);
        for (int i = 0; i < rows && tail > 0; i++)
            clear(to + (size_t)i * to_step + depth, tail);
        return;
    }
    for (int i = 0; i < rows; i++, walk_on(w, &walk)) {
        float *row = to + (size_t)i * to_step;
        window_row(w, dtype, walk.sample, walk.a * w->step + w->top,
                   walk.b * w->step + w->left, k0, depth, row);
        clear(row + depth, tail);
    }
}

static void pack_window(const struct window *w, size_t first, int rows, int k0, int depth,
                        float *to, size_t to_step)
{
    if (w->dtype == DTYPE_F32)
        pack_window_as(w, DTYPE_F32, first, rows, k0, depth, to, to_step);
    else if (w->dtype == DTYPE_F16)
        pack_window_as(w, DTYPE_F16, first, rows, k0, depth, to, to_step);
    else
        pack_window_as(w, DTYPE_BF16, first, rows, k0, depth, to, to_step);
}

static void pack_right(const void *from, enum dtype dtype, size_t offset, size_t step,
                       int depth, int cols, float *panel)
{
    int low = cols < LANES ? cols : LANES, high = cols - low;
    for (int k = 0; k < depth; k++, offset += step, panel += TILE_COLS) {
        v_store(panel, v_load_some(from, dtype, offset, low));
        v_store(panel + LANES,
                high ? v_load_some(from, dtype, offset + LANES, high) : v_zero());
    }
}

static void pack_right_turned(const void *from, enum dtype dtype, size_t offset,
                              size_t step, int depth, int cols, float *panel)
{
    enum {
        PART = 64
    }; // of the depth: the part of a panel that is written stays in cache
    float line[PART];
    if (cols < TILE_COLS)
        clear(panel, depth * TILE_COLS);
    for (int k0 = 0; k0 < depth; k0 += PART) {
        int part = depth - k0 < PART ? depth - k0 : PART;
        for (int n = 0; n < cols; n++) {
            widen(line, from, dtype, offset + (size_t)n * step + (size_t)k0, part);
            float *to = panel + (size_t)k0 * TILE_COLS + n;
            for (int k = 0; k < part; k++, to += TILE_COLS)
                *to = line[k];
        }
    }
}

/* Copies whole vectors where the source has as many elements left: what lands beyond a
 * tile row is overwritten by the next, or belongs to rows of the result that do not
 * count. */
static void pack_left_panels(const void *from, enum dtype dtype, size_t offset,
                             size_t step, int depth, int rows, float *panels)
{
    enum { WIDE = (TILE_ROWS + LANES - 1) / LANES * LANES };
    for (int m = 0; m < rows; m += TILE_ROWS) {
        int part = rows - m < TILE_ROWS ? rows - m : TILE_ROWS;
        for (int k = 0; k < depth; k++, panels += TILE_ROWS) {
            size_t index = offset + (size_t)k * step + (size_t)m;
            size_t left = (size_t)(depth - 1 - k) * step + (size_t)(rows - m);
            widen(panels, from, dtype, index, left >= WIDE ? WIDE : part);
        }
    }
}

ALWAYS_INLINE void pack_right_window_as(const struct window *w, enum dtype dtype,
                                        size_t first, int depth, int k0, int cols,
                                        float *line, float *panels)
{
    struct window_walk walk = walk_to(w, first);
    size_t panel_step = (size_t)depth * TILE_COLS;
    int tail = (TILE_COLS - cols % TILE_COLS) % TILE_COLS;
    if (is_narrow(w, cols)) {
        for (int k = 0; k < depth;)
            k += pack_narrow(w, dtype, &walk, depth - k, panels + (size_t)k * TILE_COLS,
                             TILE_COLS, panel_step);
        float *last = panels + (size_t)(cols / TILE_COLS) * panel_step + cols % TILE_COLS;
        for (int k = 0; k < depth && tail > 0; k++, last += TILE_COLS)
            clear(last, tail);
        return;
    }
    for (int k = 0; k < depth; k++, walk_on(w, &walk), panels += TILE_COLS) {
        window_row(w, dtype, walk.sample, walk.a * w->step + w->top,
                   walk.b * w->step + w->left, k0, cols, line);
        clear(line + cols, tail);
        float *to = panels;
        for (int n = 0; n < cols; n += TILE_COLS, to += panel_step) {
            v_store(to, v_load(line + n));
            v_store(to + LANES, v_load(line + n + LANES));
        }
    }
}

static void pack_right_window(const struct window *w, size_t first, int depth, int k0,
                              int cols, float *line, float *panels)
{
    if (w->dtype == DTYPE_F32)
        pack_right_window_as(w, DTYPE_F32, first, depth, k0, cols, line, panels);
    else if (w->dtype == DTYPE_F16)
        pack_right_window_as(w, DTYPE_F16, first, depth, k0, cols, line, panels);
    else
        pack_right_window_as(w, DTYPE_BF16, first, depth, k0, cols, line, panels);
}

#endif
