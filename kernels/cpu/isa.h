/* isa.h - what is compiled once per instruction set: the inner loops, on one thread.
 * Flow:  cpu_*.c cut an op into tasks -> [isa] does each task's rows.
 * Owns:  nothing; every buffer is the caller's.
 *
 * The GEMM. A task multiplies a block of at most GEMM_DEPTH by a block of right-hand
 * panels: left, by rows     [rows][GEMM_LEFT_STEP], depth along a row; for forward and
 * dgrad, whose rows are contiguous in NHWC memory left, by panels
 * [rows/tile_rows][depth][tile_rows]; for wgrad, whose depth is pixels right panels
 * [cols/tile_cols][depth][tile_cols], the last filled with zeros result
 * [rows][result_step] f32 in scratch; the tile kernel may write up to a whole tile beyond
 * rows and columns that count No operand is ever skipped for being zero: inf*0 must be
 * NaN here as it is in ref.
 *
 * Where the CPU has dot products of bf16 pairs (AVX512_BF16), a product of two bf16
 * operands is packed as pairs along the depth, each in the place of one float, and is
 * otherwise the same. The products of two bf16 are exact and the sums f32, so the result
 * differs from that of widened operands in the order of adding alone; but the instruction
 * takes subnormal operands for zeros and flushes subnormal sums to zero, whatever the
 * rounding mode. bf16 has the range of f32: what is lost is below 2^-126, and a sum that
 * is not finite never is. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

#define GEMM_DEPTH 256 // 32 columns of it are 32 KB, a first-level cache
#define GEMM_LEFT_STEP \
    272               // floats; not a power of two, so that rows fall on many cache sets
#define GEMM_ROWS 96  // a multiple of every tile height
#define GEMM_COLS 256 // a multiple of every tile width
#define GEMM_PANEL_ROWS 192 // the most rows of a block whose left side is panels
#define GEMM_RESULT_STEP (GEMM_COLS + 16)
#define PEAK_CHAINS 12 // more than the latency of a multiply-add asks for
#define THIN_COLS 4    // at most so many columns are dot products, not tiles
#define DOT_LANES 16   // sums of a dot product, whatever the vector

/* The rows of an implicit matrix over an NHWC tensor: row m = (n, a, b) holds the window
 * of taps_h x taps_w pixels whose corner is (a*step + top, b*step + left), zero outside.
 *   element (m, k) with k = (r*taps_w + s)*channels + c is
 *   data[n, a*step + top + r, b*step + left + s, c] */
struct window {
    const void *data;
    enum dtype dtype;
    int height, width, channels; // of the tensor
    int grid_h, grid_w;          // rows m per sample
    int step, top, left;
    int taps_h, taps_w;
};

/* One block product. `accumulate` adds to the result. */
struct block {
    const float *left, *right;
    size_t right_panel_step; // floats from one panel to the next
    float *result;
    size_t result_step;
    int rows, cols, depth, accumulate;
};

/* What is done with a finished sum; see conv_epilogue. */
struct finish {
    const float *bias; // of the first column, or NULL
    enum activation activation;
    float slope;
    enum dtype dtype;
};

/* Rows of finished sums, whose stored values are added to sum and sumsq, [cols] or
 * NULL. */
struct finish_rows {
    struct finish finish;
    const float *sums;
    size_t sums_step;
    int rows, cols;
    void *out;
    size_t index, out_step; // elements of `out`: the first row's first, from row to row
    float *sum, *sumsq;
};

/* One activation over rows of a batch norm. */
struct norm_rows {
    const void *x, *dy; // dy: backward only
    void *out;
    enum dtype x_dtype, dy_dtype, out_dtype;
    size_t row_first, row_count; // rows of pixels
    size_t channels;
    const struct norm_vectors *vectors;
    enum activation activation;
    float slope;
    float inv_count; // act_dgrad only
};

/* One flat sweep: elements [first, first + count). */
struct sweep {
    const void *a, *b;
    void *out;
    enum dtype a_dtype, b_dtype, out_dtype;
    size_t first, count;
    enum activation activation;
    float slope;
};

/* Lines of pixels (n, i) of the output of resample_ops; both tensors have the same stored
 * channels. */
struct resample_lines {
    const void *x;
    void *y;
    enum dtype x_dtype, y_dtype;
    size_t first, count; // lines of y
    size_t width;        // of y, in pixels
    size_t channels, k;
    float factor;
};

/* ---- Winograd; see winograd.h ----------------------------------------------------- */

#define WINO_POINTS 25
#define WINO_CHANNELS 16  // of x in one step of depth: times 4 phases
#define WINO_DEPTH 64     // of one block product; short, for the sake of its rounding
#define WINO_COLS 32      // columns of a task of forward and dgrad
#define WINO_TILES 96     // rows of such a task, at most
#define WINO_ROWS 48      // rows of a task of wgrad, whose columns are WINO_DEPTH
#define WINO_LEFT_STEP 80 // floats from one row of a left side to the next

/* Places that each phase of x has in a step with so many channels; those beyond the
 * channels hold zeros. */
#define WINO_PHASE(channels) \
    ((channels) > WINO_CHANNELS / 2 ? WINO_CHANNELS : WINO_CHANNELS / 2)

/* The tiles of a sample of y, and how many along each axis have all of their four lines.
 */
struct wino_tiling {
    int h, w, full_h, full_w;
};

/* Points at infinity give the fourth line of y and nothing else, so that a tile without
 * it has no products there. Points e = 5*i + j fall into four classes: 2 where i is
 * infinity, which only tiles of full_h have, plus 1 where j is, which only those of
 * full_w have. */
enum { WINO_CLASSES = 4 };
#define WINO_CLASS(e) ((e) / 5 / 4 * 2 + (e) % 5 / 4)

/* Rows of a class, which are its tiles, one after the other. */
struct wino_rows {
    size_t first;
    int count;
};

/* The row that `tile` has in a class; of a tile that is not in it, that of the next. */
static inline size_t wino_row(const struct wino_tiling *tiling, int kind, size_t tile)
{
    size_t h = (size_t)(kind & 2 ? tiling->full_h : tiling->h);
    size_t w = (size_t)(kind & 1 ? tiling->full_w : tiling->w);
    size_t line = tile / (size_t)tiling->w, across = tile % (size_t)tiling->w;
    size_t sample = line / (size_t)tiling->h, down = line % (size_t)tiling->h;
    if (down >= h)
        return (sample + 1) * h * w;
    return (sample * h + down) * w + (across < w ? across : w);
}

/* A tensor seen as tiles of 4x4 pixels of y: y itself, or x, where a tile is 10x10. */
struct wino_image {
    const void *data;
    enum dtype dtype;
    int height, width, channels;
    struct wino_tiling tiling;
};

/* Tiles [first, first + tiles) to points. Point e of tile t, which has row r in the class
 * of e, goes to
 *   to + e*point_step + (row[class] + r - row of `first`)*tile_step + channel's place
 * where channel c of dy has place c. Channel c of a phase of x is column
 * n = phase*WINO_PHASE(channels) + c and has place n/TILE*pair_step + n%TILE, where TILE
 * = 2*LANES. */
struct wino_spread {
    struct wino_image image;
    size_t first;
    int tiles, channel, channels; // x: at most WINO_CHANNELS
    float *to;
    size_t row[WINO_CLASSES];
    size_t point_step, tile_step, pair_step;
};

/* Products at `points` points, of which there are 25, with `cols` columns. Tiles are the
 * rows of the left side, and `channels` the depth; or tiles, from the chunk's first on,
 * are the depth and `channels` the rows. Rows of the result are WINO_COLS or WINO_DEPTH
 * apart, whichever holds `cols`. */
struct wino_product {
    const float *left, *right;
    size_t left_point, right_point, right_panel;
    float *result;
    size_t result_point;
    int first_point, points;
    struct wino_rows tiles[WINO_CLASSES];
    int channels, cols, accumulate;
};
#define WINO_STEP_OF(cols) ((cols) > WINO_COLS ? WINO_DEPTH : WINO_COLS)

/* Points of tiles [first, first + tiles), whose rows are the first of each class, to
 * stored pixels of y or dx. The sums are overwritten. */
struct wino_gather {
    struct wino_image image;
    const float *from;
    size_t point_step;
    size_t first;
    int tiles, channel, cols;
    struct finish finish;
    void *out;
    const struct tensor *undo; // as in conv_epilogue, or NULL
    float *sum, *sumsq;        // [cols], or NULL
    int phase;                 // of dx: 2*down + across
    float *plane; // of dx: room for one sample of a phase, one vector a pixel
};

/* What an Adam sweep needs, with the scalars of this step. */
struct adam_sweep {
    const struct adam_args *args;
    size_t first, count;
    float inverse_scale; // multiplies the gradient
    float step_size;     // lr / (1 - beta1^t)
    float root_v_scale;  // sqrt(1 - beta2^t)
};

struct isa {
    const char *name;
    int tile_rows, tile_cols;
    // Elements of the depth in one float of a GEMM's operands: 1, or 2 where the
    // functions from pack_window to multiply_panels pack pairs of bf16. Depths given to
    // the packing are elements, those of a block floats.
    int per_float;
    const struct isa *pairs; // the table that packs pairs, or NULL

    // What the products multiply: F32, or BF16 where it is pairs; and how many
    // multiplications one vector does. peak() does `steps` times PEAK_CHAINS of those,
    // none of which waits for another, in registers, and returns what depends on all of
    // them.
    enum dtype arithmetic;
    int per_vector;
    float (*peak)(size_t steps);

    // Packing. pack_window writes rows m = [first, first + rows), k = [k0, k0 + depth),
    // and zeros up to a whole vector after each. pack_right copies `depth` source rows,
    // `step` elements apart, of `cols` elements each, into one panel; pack_right_turned
    // reads element (k, n) at n*step + k; pack_left_panels reads `depth` pixels of `rows`
    // channels.
    void (*pack_window)(const struct window *window, size_t first, int rows, int k0,
                        int depth, float *to, size_t to_step);
    void (*pack_right)(const void *from, enum dtype dtype, size_t offset, size_t step,
                       int depth, int cols, float *panel);
    void (*pack_right_turned)(const void *from, enum dtype dtype, size_t offset,
                              size_t step, int depth, int cols, float *panel);
    void (*pack_left_panels)(const void *from, enum dtype dtype, size_t offset,
                             size_t step, int depth, int rows, float *panels);
    // Right-hand panels [cols][depth] of a window's columns k0..k0+cols over rows of
    // pixels.
    void (*pack_right_window)(const struct window *window, size_t first, int depth,
                              int k0, int cols, float *line, float *panels);

    void (*multiply_rows)(const struct block *block);
    void (*multiply_panels)(const struct block *block);
    // right is [cols][right_panel_step], cols <= THIN_COLS; rows padded with zeros to
    // DOT_LANES.
    void (*multiply_thin)(const struct block *block);

    // out[i*out_step + j] = store(act(sums[i*sums_step + j] + bias[j])).
    void (*finish_rows)(const struct finish_rows *rows);
    // The same over n values that share no column vectors; bias is not looked at.
    void (*finish_flat)(float *sums, size_t n, const struct finish *finish, void *out);
    // grad = (accumulate ? grad : 0) + round(sum of `parts` arrays, `step` floats apart).
    void (*finish_grad)(const float *part, size_t step, int parts, int n,
                        enum dtype dtype, float *grad, int accumulate);

    void (*wino_transform_x)(const struct wino_spread *spread);
    void (*wino_transform_dy)(const struct wino_spread *spread);
    // From one packed panel [tap][channel][tile_cols] to [point][phase,
    // WINO_PHASE(channels)][tile_cols].
    void (*wino_weights_forward)(const float *panel, size_t tap_step, int channels,
                                 float *to, size_t point_step);
    // From rows of weights, `offset` at the first tap of a phase, to panels [point][cols
    // / tile_cols][WINO_DEPTH][tile_cols].
    void (*wino_weights_dgrad)(const void *taps, enum dtype dtype, size_t offset,
                               size_t row_step, size_t tap_step, int rows, int cols,
                               float *to, size_t point_step);
    // Left sides [row][WINO_LEFT_STEP], and [depth][WINO_ROWS].
    void (*wino_multiply_rows)(const struct wino_product *product);
    void (*wino_multiply_columns)(const struct wino_product *product);
    void (*wino_output_transform_y)(const struct wino_gather *gather);
    void (*wino_output_transform_dx)(const struct wino_gather *gather);
    // The sum of some parts, each one row of a result,
    // [point][phase][WINO_PHASE(channels)], to grad [16 taps][channels].
    void (*wino_output_transform_dw)(const float *const *parts, int count,
                                     size_t point_step, int channels, enum dtype dtype,
                                     float *grad, size_t tap_step, int accumulate);

    // Per-channel sums of rows are written, not added; sumsq may be NULL.
    void (*channel_sums)(const struct norm_rows *rows, float *sum, float *sumsq);
    void (*norm_forward)(const struct norm_rows *rows);
    void (*norm_reduce)(const struct norm_rows *rows, float *sum_dz, float *sum_dz_xhat);
    void (*norm_dgrad)(const struct norm_rows *rows);

    void (*activate)(const struct sweep *sweep);
    void (*activate_backward)(const struct sweep *sweep); // a: dy, b: y
    void (*cast)(const struct sweep *sweep);
    void (*add_tensors)(const struct sweep *sweep); // out = a + b
    void (*add)(float *to, const float *from, size_t n);
    void (*resample_down)(const struct resample_lines *lines);
    void (*resample_up)(const struct resample_lines *lines);

    // As survey_ops.survey has it; elements are f32, f16 or bf16.
    void (*survey)(const struct survey_span *span, struct survey_stats *stats);

    // Bit 0: some g is inf or NaN. Bit 1: some finite g*inverse_scale is not.
    unsigned (*grads_check)(const float *grads, size_t n, float inverse_scale);
    void (*scale)(float *values, size_t n, float factor);
    void (*adam)(const struct adam_sweep *sweep);
    void (*ema)(float *ema, const float *params, size_t n, float decay);
};

extern const struct isa isa_c;
#if defined(__x86_64__) || defined(__i386__)
extern const struct isa isa_avx2, isa_avx512, isa_avx512_bf16;
#endif

// Elements that a window must have: smaller ones are packed faster as floats, by more
// than the products of pairs save.
enum { PAIRS_LEAST = 32 };

/* The table for a product of operands of these dtypes. Of an odd `depth` that both sides
 * have in one row no pairs can be made. */
static inline const struct isa *isa_for(const struct isa *isa, enum dtype left,
                                        enum dtype right, int depth)
{
    int can_pair = left == DTYPE_BF16 && right == DTYPE_BF16 && depth % 2 == 0;
    return isa->pairs && can_pair ? isa->pairs : isa;
}

/* Floats that `depth` elements take, and the most elements of one block product. */
static inline int isa_floats(const struct isa *isa, int depth)
{
    return (depth + isa->per_float - 1) / isa->per_float;
}

static inline int isa_depth(const struct isa *isa)
{
    return GEMM_DEPTH * isa->per_float;
}

#endif
