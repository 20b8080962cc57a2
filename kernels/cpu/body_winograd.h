/* body_winograd.h - compiled per instruction set: the transforms of winograd.h and its 25
 * products. In formulas, a and b are the points WINO_A and WINO_B, and m1..m4 belong to
 * a, -a, b, -b, m5 to infinity. */
#ifndef KERNELS_CPU_BODY_WINOGRAD_H
#define KERNELS_CPU_BODY_WINOGRAD_H

#include "kernels/cpu/body_gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

#define WINO_A 0.4375f
#define WINO_B 1.25f
#define WINO_A2 (WINO_A * WINO_A)
#define WINO_B2 (WINO_B * WINO_B)
// The products of differences between the points: (a+a)(a-b)(a+b) and (b+b)(b-a)(b+a).
#define WINO_F (2 * WINO_A * (WINO_A2 - WINO_B2))
#define WINO_H (2 * WINO_B * (WINO_B2 - WINO_A2))

// Along one axis: points, outputs, and pixels of x.
enum { WINO_SIDE = 5, WINO_OUT = 4, WINO_REACH = 10 };

/* ---- along one axis -------------------------------------------------------------- */

/* B^T d, five inputs to five points: the coefficients of the products of (x - p) over all
 * points but one's own. */
ALWAYS_INLINE void wino_input(VEC *to, int to_step, const VEC *d, int step)
{
    VEC d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
    VEC odd = v_fma(v_set1(-WINO_B2), d1, d3), even = v_fma(v_set1(-WINO_B2), d0, d2);
    to[0] = v_fma(v_set1(WINO_A), even, odd);
    to[to_step] = v_fma(v_set1(-WINO_A), even, odd);
    odd = v_fma(v_set1(-WINO_A2), d1, d3);
    even = v_fma(v_set1(-WINO_A2), d0, d2);
    to[2 * to_step] = v_fma(v_set1(WINO_B), even, odd);
    to[3 * to_step] = v_fma(v_set1(-WINO_B), even, odd);
    VEC last = v_fma(v_set1(-(WINO_A2 + WINO_B2)), d2, d4);
    to[4 * to_step] = v_fma(v_set1(WINO_A2 * WINO_B2), d0, last);
}

/* B m, its transpose: five points to five inputs' gradients. */
ALWAYS_INLINE void wino_input_turned(VEC *to, int to_step, const VEC *m, int step)
{
    VEC sum1 = v_add(m[0], m[step]), difference1 = v_sub(m[0], m[step]);
    VEC sum2 = v_add(m[2 * step], m[3 * step]);
    VEC difference2 = v_sub(m[2 * step], m[3 * step]), last = m[4 * step];
    VEC d0 = v_mul(v_set1(WINO_A2 * WINO_B2), last);
    d0 = v_fma(v_set1(-WINO_A * WINO_B2), difference1, d0);
    to[0] = v_fma(v_set1(-WINO_B * WINO_A2), difference2, d0);
    to[to_step] = v_fma(v_set1(-WINO_A2), sum2, v_mul(v_set1(-WINO_B2), sum1));
    VEC d2 = v_mul(v_set1(-(WINO_A2 + WINO_B2)), last);
    d2 = v_fma(v_set1(WINO_A), difference1, d2);
    to[2 * to_step] = v_fma(v_set1(WINO_B), difference2, d2);
    to[3 * to_step] = v_add(sum1, sum2);
    to[4 * to_step] = last;
}

/* A^T m, five points to four outputs: powers of the points. */
ALWAYS_INLINE void wino_output(VEC *to, int to_step, const VEC *m, int step)
{
    VEC sum1 = v_add(m[0], m[step]), difference1 = v_sub(m[0], m[step]);
    VEC sum2 = v_add(m[2 * step], m[3 * step]);
    VEC difference2 = v_sub(m[2 * step], m[3 * step]);
    to[0] = v_add(sum1, sum2);
    to[to_step] = v_fma(v_set1(WINO_B), difference2, v_mul(v_set1(WINO_A), difference1));
    to[2 * to_step] = v_fma(v_set1(WINO_B2), sum2, v_mul(v_set1(WINO_A2), sum1));
    VEC y3 = v_fma(v_set1(WINO_A * WINO_A2), difference1, m[4 * step]);
    to[3 * to_step] = v_fma(v_set1(WINO_B * WINO_B2), difference2, y3);
}

/* A y, its transpose: four outputs' gradients to five points. */
ALWAYS_INLINE void wino_output_turned(VEC *to, int to_step, const VEC *y, int step)
{
    VEC y0 = y[0], y1 = y[step], y2 = y[2 * step], y3 = y[3 * step];
    VEC even = v_fma(v_set1(WINO_A2), y2, y0), odd = v_fma(v_set1(WINO_A2), y3, y1);
    to[0] = v_fma(v_set1(WINO_A), odd, even);
    to[to_step] = v_fma(v_set1(-WINO_A), odd, even);
    even = v_fma(v_set1(WINO_B2), y2, y0);
    odd = v_fma(v_set1(WINO_B2), y3, y1);
    to[2 * to_step] = v_fma(v_set1(WINO_B), odd, even);
    to[3 * to_step] = v_fma(v_set1(-WINO_B), odd, even);
    to[4 * to_step] = y3;
}

/* G g, two taps to five points. */
ALWAYS_INLINE void wino_taps(VEC *to, int to_step, VEC g0, VEC g1)
{
    VEC even = v_mul(v_set1(1 / WINO_F), g0), odd = v_set1(WINO_A / WINO_F);
    to[0] = v_fma(odd, g1, even);
    to[to_step] = v_sub(v_mul(odd, g1), even);
    even = v_mul(v_set1(1 / WINO_H), g0);
    odd = v_set1(WINO_B / WINO_H);
    to[2 * to_step] = v_fma(odd, g1, even);
    to[3 * to_step] = v_sub(v_mul(odd, g1), even);
    to[4 * to_step] = g1;
}

/* G^T m, its transpose: five points to two taps' gradients. */
ALWAYS_INLINE void wino_taps_turned(VEC *to, int to_step, const VEC *m, int step)
{
    VEC sum1 = v_add(m[0], m[step]), difference1 = v_sub(m[0], m[step]);
    VEC sum2 = v_add(m[2 * step], m[3 * step]);
    VEC difference2 = v_sub(m[2 * step], m[3 * step]);
    to[0] =
        v_fma(v_set1(1 / WINO_H), difference2, v_mul(v_set1(1 / WINO_F), difference1));
    VEC g1 = v_fma(v_set1(WINO_A / WINO_F), sum1, m[4 * step]);
    to[to_step] = v_fma(v_set1(WINO_B / WINO_H), sum2, g1);
}

/* ---- operands to points ---------------------------------------------------------- */

/* The tiles of an image, one after the other, and the row that each class has next. */
struct wino_walk {
    size_t sample;
    int down, across;
    size_t row[WINO_CLASSES];
};

ALWAYS_INLINE struct wino_walk wino_walk_to(const struct wino_tiling *tiling, size_t tile)
{
    size_t line = tile / (size_t)tiling->w;
    return (struct wino_walk){line / (size_t)tiling->h,
                              (int)(line % (size_t)tiling->h),
                              (int)(tile % (size_t)tiling->w),
                              {0}};
}

/* Whether the tile has the points of a class. */
ALWAYS_INLINE int wino_has(const struct wino_tiling *tiling, const struct wino_walk *walk,
                           const int kind)
{
    return (!(kind & 2) || walk->down < tiling->full_h) &&
           (!(kind & 1) || walk->across < tiling->full_w);
}

ALWAYS_INLINE void wino_walk_on(const struct wino_tiling *tiling, struct wino_walk *walk)
{
    for (int kind = 0; kind < WINO_CLASSES; kind++)
        walk->row[kind] += wino_has(tiling, walk, kind) ? 1 : 0;
    if (++walk->across < tiling->w)
        return;
    walk->across = 0;
    if (++walk->down < tiling->h)
        return;
    walk->down = 0;
    walk->sample++;
}

// What a pixel beyond the image points to: the channels of a step, all zeros.
static const float wino_nothing[WINO_DEPTH + LANES];

/* The first of the step's channels of side x side pixels from (top, left) on. */
ALWAYS_INLINE void wino_pixels(const void **to, const struct wino_image *image,
                               enum dtype dtype, size_t sample, int top, int left,
                               const int side, int channel)
{
    size_t element = dtype == DTYPE_F32 ? 4 : 2;
    size_t pixel = (size_t)image->channels * element;
    size_t line = (size_t)image->width * pixel;
    const char *first = (const char *)image->data +
                        sample * (size_t)image->height * line + (size_t)channel * element;
    int begin = left < 0 ? -left : 0, end = image->width - left;
    for (int i = 0; i < side; i++, to += side) {
        int h = top + i, has_line = h >= 0 && h < image->height;
        size_t at = (size_t)h * line + (size_t)left * pixel; // wraps before the first
        for (int j = 0; j < side; j++, at += pixel)
            to[j] = has_line && j >= begin && j < end ? first + at
                                                      : (const char *)wino_nothing;
    }
}

ALWAYS_INLINE void wino_scatter(const VEC *points, float *to, size_t point_step)
{
#pragma GCC unroll 25
    for (int e = 0; e < WINO_POINTS; e++)
        v_store(to + (size_t)e * point_step, points[e]);
}

/* Where a tile's points go: its row of each class, NULL where the tile is not in it. */
struct wino_target {
    float *row[WINO_CLASSES];
    size_t point_step;
};

ALWAYS_INLINE struct wino_target wino_target(const struct wino_spread *s,
                                             const struct wino_walk *walk)
{
    struct wino_target target = {.point_step = s->point_step};
    for (int kind = 0; kind < WINO_CLASSES; kind++)
        if (wino_has(&s->image.tiling, walk, kind))
            target.row[kind] = s->to + (s->row[kind] + walk->row[kind]) * s->tile_step;
    return target;
}

/* One line of a tile's points, 5*i to 5*i + 4, of the vector of channels at `place`. */
ALWAYS_INLINE void wino_put(const VEC *points, const int i,
                            const struct wino_target *target, size_t place)
{
    float *const *row = target->row + WINO_CLASS(WINO_SIDE * i);
    size_t step = target->point_step, offset = place + (size_t)(WINO_SIDE * i) * step;
    if (!row[0])
        return;
#pragma GCC unroll 4
    for (int j = 0; j < WINO_SIDE - 1; j++)
        v_store(row[0] + offset + (size_t)j * step, points[j]);
    if (row[1])
        v_store(row[1] + offset + (size_t)(WINO_SIDE - 1) * step, points[WINO_SIDE - 1]);
}

/* One phase of one tile of x, a vector of channels from `lane` on; or, where it is a
 * pair, half a vector of channels of this phase and of the next, which lies a pixel to
 * the right.
 */
ALWAYS_INLINE void wino_spread_phase(const void *const *pixels, enum dtype dtype,
                                     int phase, int lane, int n, const int is_pair,
                                     const struct wino_target *target, size_t place)
{
    VEC half[WINO_POINTS];
    pixels += phase / 2 * WINO_REACH + phase % 2;
#pragma GCC unroll 5
    for (int j = 0; j < WINO_SIDE; j++) {
        VEC d[WINO_SIDE];
#pragma GCC unroll 5
        for (int i = 0; i < WINO_SIDE; i++) {
            const void *const *pixel = pixels + 2 * i * WINO_REACH + 2 * j;
            d[i] = v_load_some(pixel[0], dtype, (size_t)lane, n);
#ifdef HALF_VEC
            if (is_pair)
                d[i] = v_join(d[i], v_load_some(pixel[1], dtype, (size_t)lane, n));
#endif
        }
        wino_input(half + j, WINO_SIDE, d, 1);
    }
    (void)is_pair;
#pragma GCC unroll 5
    for (int i = 0; i < WINO_SIDE; i++) {
        VEC points[WINO_SIDE];
        wino_input(points, 1, half + i * WINO_SIDE, 1);
        wino_put(points, i, target, place);
    }
}

ALWAYS_INLINE void wino_put_zeros(const struct wino_target *target, size_t place)
{
    const VEC zeros[WINO_SIDE] = {v_zero(), v_zero(), v_zero(), v_zero(), v_zero()};
    for (int i = 0; i < WINO_SIDE; i++)
        wino_put(zeros, i, target, place);
}

ALWAYS_INLINE void wino_spread_x_as(const struct wino_spread *s, enum dtype dtype)
{
    enum { TILE = 2 * LANES };
    const struct wino_image *image = &s->image;
    struct wino_walk walk = wino_walk_to(&image->tiling, s->first);
    int width = WINO_PHASE(s->channels);
    for (int t = 0; t < s->tiles; t++, wino_walk_on(&image->tiling, &walk)) {
        struct wino_target target = wino_target(s, &walk);
        const void *pixels[WINO_REACH * WINO_REACH];
        wino_pixels(pixels, image, dtype, walk.sample, 2 * WINO_OUT * walk.down - 1,
                    2 * WINO_OUT * walk.across - 1, WINO_REACH, s->channel);
        for (int column = 0; column < 4 * width; column += LANES) {
            int phase = column / width, lane = column % width, n = s->channels - lane;
            size_t place =
                (size_t)(column / TILE) * s->pair_step + (size_t)(column % TILE);
            if (n <= 0)
                wino_put_zeros(&target, place);
            else if (width < LANES)
                wino_spread_phase(pixels, dtype, phase, lane, n, 1, &target, place);
            else
                wino_spread_phase(pixels, dtype, phase, lane, n, 0, &target, place);
        }
    }
}

static void wino_transform_x(const struct wino_spread *s)
{
    if (s->image.dtype == DTYPE_F32)
        wino_spread_x_as(s, DTYPE_F32);
    else if (s->image.dtype == DTYPE_F16)
        wino_spread_x_as(s, DTYPE_F16);
    else
        wino_spread_x_as(s, DTYPE_BF16);
}

ALWAYS_INLINE void wino_spread_dy_as(const struct wino_spread *s, enum dtype dtype)
{
    const struct wino_image *image = &s->image;
    struct wino_walk walk = wino_walk_to(&image->tiling, s->first);
    for (int t = 0; t < s->tiles; t++, wino_walk_on(&image->tiling, &walk)) {
        struct wino_target target = wino_target(s, &walk);
        const void *pixels[WINO_OUT * WINO_OUT];
        wino_pixels(pixels, image, dtype, walk.sample, WINO_OUT * walk.down,
                    WINO_OUT * walk.across, WINO_OUT, s->channel);
        for (int c = 0; c < s->channels; c += LANES) {
            VEC half[WINO_SIDE * WINO_OUT];
#pragma GCC unroll 4
            for (int j = 0; j < WINO_OUT; j++) {
                VEC y[WINO_OUT];
#pragma GCC unroll 4
                for (int i = 0; i < WINO_OUT; i++)
                    y[i] = v_load_some(pixels[i * WINO_OUT + j], dtype, (size_t)c,
                                       s->channels - c);
                wino_output_turned(half + j, WINO_OUT, y, 1);
            }
#pragma GCC unroll 5
            for (int i = 0; i < WINO_SIDE; i++) {
                VEC points[WINO_SIDE];
                wino_output_turned(points, 1, half + i * WINO_OUT, 1);
                wino_put(points, i, &target, (size_t)c);
            }
        }
    }
}

static void wino_transform_dy(const struct wino_spread *s)
{
    if (s->image.dtype == DTYPE_F32)
        wino_spread_dy_as(s, DTYPE_F32);
    else if (s->image.dtype == DTYPE_F16)
        wino_spread_dy_as(s, DTYPE_F16);
    else
        wino_spread_dy_as(s, DTYPE_BF16);
}

/* G g G^T of the taps g00, g01, g10, g11 of one phase. */
ALWAYS_INLINE void wino_weights(VEC g00, VEC g01, VEC g10, VEC g11, float *to,
                                size_t point_step)
{
    VEC half[WINO_SIDE * 2], points[WINO_POINTS];
    wino_taps(half, 2, g00, g10);
    wino_taps(half + 1, 2, g01, g11);
#pragma GCC unroll 5
    for (int i = 0; i < WINO_SIDE; i++)
        wino_taps(points + i * WINO_SIDE, 1, half[2 * i], half[2 * i + 1]);
    wino_scatter(points, to, point_step);
}

static void wino_weights_forward(const float *panel, size_t tap_step, int channels,
                                 float *to, size_t point_step)
{
    enum { PANEL = 2 * LANES };
    int width = WINO_PHASE(channels);
    for (int phase = 0; phase < 4; phase++) {
        const float *taps = panel + (size_t)(phase / 2 * 4 + phase % 2) * tap_step;
        for (int c = 0; c < width; c++, to += PANEL) {
            for (int j = 0; j < PANEL; j += LANES) {
                const float *g = taps + c * PANEL + j;
                if (c < channels)
                    wino_weights(v_load(g), v_load(g + 2 * tap_step),
                                 v_load(g + 8 * tap_step), v_load(g + 10 * tap_step),
                                 to + j, point_step);
                else
                    for (int e = 0; e < WINO_POINTS; e++)
                        v_store(to + j + (size_t)e * point_step, v_zero());
            }
        }
    }
}

static void wino_weights_dgrad(const void *taps, enum dtype dtype, size_t offset,
                               size_t row_step, size_t tap_step, int rows, int cols,
                               float *to, size_t point_step)
{
    enum { PANEL = 2 * LANES };
    for (int j = 0; j < cols; j += LANES) {
        int n = cols - j;
        size_t g = offset + (size_t)j;
        float *panel = to + j / PANEL * PANEL * WINO_DEPTH + j % PANEL;
        for (int k = 0; k < rows; k++, g += row_step, panel += PANEL)
            wino_weights(v_load_some(taps, dtype, g, n),
                         v_load_some(taps, dtype, g + 2 * tap_step, n),
                         v_load_some(taps, dtype, g + 8 * tap_step, n),
                         v_load_some(taps, dtype, g + 10 * tap_step, n), panel,
                         point_step);
    }
}

/* ---- the products ---------------------------------------------------------------- */

/* The product at point e of `rows` x `depth`, from `left` on, and `depth` x cols. Without
 * depth its sums are zeros. */
ALWAYS_INLINE void wino_multiply_at(const struct wino_product *p, int e,
                                    const float *left, const size_t row_step,
                                    const size_t depth_step, int rows, int depth)
{
    struct block block = {.result_step = WINO_STEP_OF(p->cols)};
    float *result = p->result + (size_t)e * p->result_point;
    int k = 0;
    do {
        const float *right =
            p->right + (size_t)e * p->right_point + (size_t)(k * 2 * LANES);
        block.depth = depth - k < WINO_DEPTH ? depth - k : WINO_DEPTH;
        block.accumulate = p->accumulate || k > 0;
        for (int n = 0; n < p->cols; n += 2 * LANES, right += p->right_panel)
            for (int m = 0; m < rows; m += TILE_ROWS)
                tile_covering(
                    &block, left + (size_t)m * row_step + (size_t)k * depth_step,
                    row_step, depth_step, right,
                    result + (size_t)m * block.result_step + n, rows - m, p->cols - n, 0);
        k += WINO_DEPTH;
    } while (k < depth);
}

static void wino_multiply_rows(const struct wino_product *p)
{
    for (int e = p->first_point; e < p->first_point + p->points; e++) {
        struct wino_rows tiles = p->tiles[WINO_CLASS(e)];
        wino_multiply_at(
            p, e, p->left + (size_t)e * p->left_point + tiles.first * WINO_LEFT_STEP,
            WINO_LEFT_STEP, 1, tiles.count, p->channels);
    }
}

static void wino_multiply_columns(const struct wino_product *p)
{
    for (int e = p->first_point; e < p->first_point + p->points; e++)
        wino_multiply_at(p, e, p->left + (size_t)e * p->left_point, 1, WINO_ROWS,
                         p->channels, p->tiles[WINO_CLASS(e)].count);
}

/* ---- points to results ----------------------------------------------------------- */

/* What becomes of one vector of sums; keeps the sums of what was stored. */
struct wino_epilogue {
    VEC bias, slope, sum, sumsq;
    enum activation activation;
    enum dtype dtype;
    int has_bias, has_sums;
    const void *undo; // where the activation's gradient is wanted, its output
    enum dtype undo_dtype;
};

ALWAYS_INLINE struct wino_epilogue wino_epilogue(const struct wino_gather *g, int col)
{
    const struct finish *finish = &g->finish;
    struct wino_epilogue epilogue = {.bias = v_zero(),
                                     .slope = v_set1(finish->slope),
                                     .sum = v_zero(),
                                     .sumsq = v_zero(),
                                     .activation = finish->activation,
                                     .dtype = finish->dtype,
                                     .has_bias = finish->bias != NULL,
                                     .has_sums = g->sum != NULL};
    if (g->undo) {
        epilogue.undo = g->undo->data;
        epilogue.undo_dtype = g->undo->dtype;
    }
    if (finish->bias)
        epilogue.bias = v_load_some(finish->bias, DTYPE_F32, (size_t)col, g->cols - col);
    return epilogue;
}

/* An infinity becomes NaN before the activation: its sign may be wrong where sums of
 * finite operands overflowed on the way, and ReLU would make 0 of the wrong one. */
ALWAYS_INLINE void wino_store(struct wino_epilogue *epilogue, VEC v, void *out,
                              size_t index, int n)
{
    v = v_add(v, v_sub(v, v));
    if (epilogue->has_bias)
        v = v_add(v, epilogue->bias);
    if (epilogue->undo)
        v = v_undo(v, v_load_some(epilogue->undo, epilogue->undo_dtype, index, n),
                   epilogue->activation, epilogue->slope);
    else
        v = v_activate(v, epilogue->activation, epilogue->slope);
    v_store_some(out, epilogue->dtype, index, v, n);
    if (!epilogue->has_sums)
        return;
    v = v_round_as(v, epilogue->dtype);
    epilogue->sum = v_add(epilogue->sum, v);
    epilogue->sumsq = v_fma(v, v, epilogue->sumsq);
}

ALWAYS_INLINE void wino_store_sums(const struct wino_epilogue *epilogue,
                                   const struct wino_gather *g, int col)
{
    if (!epilogue->has_sums)
        return;
    v_store_some(g->sum, DTYPE_F32, (size_t)col, epilogue->sum, g->cols - col);
    v_store_some(g->sumsq, DTYPE_F32, (size_t)col, epilogue->sumsq, g->cols - col);
}

ALWAYS_INLINE void wino_load_points(VEC *m, const float *from, size_t point_step)
{
#pragma GCC unroll 25
    for (int e = 0; e < WINO_POINTS; e++)
        m[e] = v_load(from + (size_t)e * point_step);
}

/* Where a tile's points are: its row of each class, NULL where the tile is not in it. */
struct wino_source {
    const float *row[WINO_CLASSES];
    size_t point_step;
};

ALWAYS_INLINE struct wino_source wino_source(const struct wino_gather *g,
                                             const struct wino_walk *walk, int col)
{
    struct wino_source source = {.point_step = g->point_step};
    for (int kind = 0; kind < WINO_CLASSES; kind++)
        if (wino_has(&g->image.tiling, walk, kind))
            source.row[kind] = g->from + walk->row[kind] * WINO_COLS + col;
    return source;
}

/* A column of points, j to 20 + j; zeros where the tile has none. */
ALWAYS_INLINE void wino_take(VEC *points, const int j, const struct wino_source *source)
{
#pragma GCC unroll 5
    for (int i = 0; i < WINO_SIDE; i++) {
        const float *row = source->row[WINO_CLASS(WINO_SIDE * i + j)];
        points[i] = row ? v_load(row + (size_t)(WINO_SIDE * i + j) * source->point_step)
                        : v_zero();
    }
}

/* The tiles of y, one vector of columns. */
ALWAYS_INLINE void wino_gather_y_vector(const struct wino_gather *g, int col)
{
    const struct wino_image *image = &g->image;
    struct wino_epilogue epilogue = wino_epilogue(g, col);
    struct wino_walk walk = wino_walk_to(&image->tiling, g->first);
    int n = g->cols - col;
    for (int t = 0; t < g->tiles; t++, wino_walk_on(&image->tiling, &walk)) {
        struct wino_source source = wino_source(g, &walk, col);
        VEC half[WINO_OUT * WINO_SIDE];
#pragma GCC unroll 5
        for (int j = 0; j < WINO_SIDE; j++) {
            VEC m[WINO_SIDE];
            wino_take(m, j, &source);
            wino_output(half + j, WINO_SIDE, m, 1);
        }
        int top = WINO_OUT * walk.down, left = WINO_OUT * walk.across;
        int across = image->width - left < WINO_OUT ? image->width - left : WINO_OUT;
        size_t line =
            (walk.sample * (size_t)image->height + (size_t)top) * (size_t)image->width +
            (size_t)left;
#pragma GCC unroll 4
        for (int i = 0; i < WINO_OUT; i++, line += (size_t)image->width) {
            VEC y[WINO_OUT];
            if (top + i >= image->height)
                break;
            wino_output(y, 1, half + i * WINO_SIDE, 1);
            for (int j = 0; j < across; j++)
                wino_store(&epilogue, y[j], g->out,
                           (line + (size_t)j) * (size_t)image->channels +
                               (size_t)(g->channel + col),
                           n);
        }
    }
    wino_store_sums(&epilogue, g, col);
}

static void wino_output_transform_y(const struct wino_gather *g)
{
    for (int col = 0; col < g->cols; col += LANES)
        wino_gather_y_vector(g, col);
}

/* Puts the tiles of one sample on the plane of their phase. Neighbours overlap by a line,
 * where the later tile is added. */
ALWAYS_INLINE void wino_fold_sample(const struct wino_gather *g, struct wino_walk *walk,
                                    int col, size_t plane_line)
{
    const struct wino_tiling *tiling = &g->image.tiling;
    for (int t = 0; t < tiling->h * tiling->w; t++, wino_walk_on(tiling, walk)) {
        struct wino_source source = wino_source(g, walk, col);
        VEC half[WINO_POINTS];
#pragma GCC unroll 5
        for (int j = 0; j < WINO_SIDE; j++) {
            VEC m[WINO_SIDE];
            wino_take(m, j, &source);
            wino_input_turned(half + j, WINO_SIDE, m, 1);
        }
        float *to = g->plane + (size_t)(WINO_OUT * walk->down) * plane_line +
                    (size_t)(WINO_OUT * walk->across * LANES);
#pragma GCC unroll 5
        for (int i = 0; i < WINO_SIDE; i++, to += plane_line) {
            VEC d[WINO_SIDE];
            wino_input_turned(d, 1, half + i * WINO_SIDE, 1);
            int has_above = i == 0 && walk->down > 0;
            if (has_above || walk->across > 0)
                d[0] = v_add(v_load(to), d[0]);
            if (has_above) {
#pragma GCC unroll 4
                for (int j = 1; j < WINO_SIDE; j++)
                    d[j] = v_add(v_load(to + j * LANES), d[j]);
            }
#pragma GCC unroll 5
            for (int j = 0; j < WINO_SIDE; j++)
                v_store(to + j * LANES, d[j]);
        }
    }
}

/* The samples of dx, one phase, one vector of columns. What is stored, and how, is known
 * where this is inlined: the stores would else be half of the work. */
ALWAYS_INLINE void wino_gather_dx_vector(const struct wino_gather *g, int col,
                                         enum dtype dtype, const int has_sums,
                                         const int has_undo)
{
    const struct wino_image *image = &g->image;
    struct wino_epilogue epilogue = wino_epilogue(g, col);
    epilogue.dtype = dtype;
    epilogue.has_sums = has_sums;
    epilogue.undo = has_undo ? epilogue.undo : NULL;
    const struct wino_tiling *tiling = &image->tiling;
    int lines = WINO_OUT * tiling->h + 1, per_line = WINO_OUT * tiling->w + 1;
    size_t plane_line = (size_t)(per_line * LANES), channels = (size_t)image->channels;
    int down = g->phase / 2, across = g->phase % 2, n = g->cols - col;
    int seen = (image->width + 2 - across) / 2, end = per_line < seen ? per_line : seen;
    struct wino_walk walk = wino_walk_to(tiling, g->first);
    for (int t = 0; t < g->tiles; t += tiling->h * tiling->w) {
        size_t first_line = walk.sample * (size_t)image->height;
        wino_fold_sample(g, &walk, col, plane_line);
        // Entry (i, j) of the plane is pixel (2i - 1 + down, 2j - 1 + across).
        for (int i = 1 - down; i < lines && 2 * i - 1 + down < image->height; i++) {
            size_t line = first_line + (size_t)(2 * i - 1 + down);
            size_t pixel = line * (size_t)image->width + (size_t)(1 - across);
            size_t index = pixel * channels + (size_t)(g->channel + col);
            const float *from = g->plane + (size_t)i * plane_line;
            for (int j = 1 - across; j < end; j++, index += 2 * channels)
                wino_store(&epilogue, v_load(from + j * LANES), g->out, index, n);
        }
    }
    wino_store_sums(&epilogue, g, col);
}

ALWAYS_INLINE void wino_gather_dx_as(const struct wino_gather *g, enum dtype dtype)
{
    for (int col = 0; col < g->cols; col += LANES) {
        if (g->sum)
            wino_gather_dx_vector(g, col, dtype, 1, 0);
        else if (g->undo)
            wino_gather_dx_vector(g, col, dtype, 0, 1);
        else
            wino_gather_dx_vector(g, col, dtype, 0, 0);
    }
}

static void wino_output_transform_dx(const struct wino_gather *g)
{
    if (g->finish.dtype == DTYPE_F32)
        wino_gather_dx_as(g, DTYPE_F32);
    else if (g->finish.dtype == DTYPE_F16)
        wino_gather_dx_as(g, DTYPE_F16);
    else
        wino_gather_dx_as(g, DTYPE_BF16);
}

static void wino_output_transform_dw(const float *const *parts, int count,
                                     size_t point_step, int channels, enum dtype dtype,
                                     float *grad, size_t tap_step, int accumulate)
{
    for (int phase = 0; phase < 4; phase++) {
        float *taps = grad + (size_t)(phase / 2 * 4 + phase % 2) * tap_step;
        for (int c = 0; c < channels; c += LANES) {
            VEC m[WINO_POINTS], half[2 * WINO_SIDE], w[4];
            int place = phase * WINO_PHASE(channels) + c;
            wino_load_points(m, parts[0] + place, point_step);
            for (int part = 1; part < count; part++) {
                VEC more[WINO_POINTS];
                wino_load_points(more, parts[part] + place, point_step);
#pragma GCC unroll 25
                for (int e = 0; e < WINO_POINTS; e++)
                    m[e] = v_add(m[e], more[e]);
            }
#pragma GCC unroll 5
            for (int j = 0; j < WINO_SIDE; j++)
                wino_taps_turned(half + j, WINO_SIDE, m + j, WINO_SIDE);
            wino_taps_turned(w, 1, half, 1);
            wino_taps_turned(w + 2, 1, half + WINO_SIDE, 1);
            for (int tap = 0; tap < 4; tap++) {
                size_t at = (size_t)(tap / 2 * 8 + tap % 2 * 2) * tap_step + (size_t)c;
                VEC v = v_round_as(w[tap], dtype);
                if (accumulate)
                    v = v_add(v_load_some(taps, DTYPE_F32, at, channels - c), v);
                v_store_some(taps, DTYPE_F32, at, v, channels - c);
            }
        }
    }
}

#endif
