/* body_gemm.h - compiled per instruction set: the register tile and the loops around it.
 * A tile of TILE_ROWS x 2 vectors stays in registers while the depth runs; each step
 * loads two right-hand vectors and broadcasts one left-hand value per row. */
#ifndef KERNELS_CPU_BODY_GEMM_H
#define KERNELS_CPU_BODY_GEMM_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

/* sum + value*right, or with pairs of bf16 in the lanes the sum of both products. */
ALWAYS_INLINE VEC add_product(VEC value, VEC right, VEC sum, const int pairs)
{
#ifdef HAS_PAIRS
    if (pairs)
        return v_dot(value, right, sum);
#endif
    (void)pairs;
    return v_fma(value, right, sum);
}

/* left(i, k) at left[i*row_step + k*depth_step]. `rows` and `vectors` are constants where
 * this is inlined, so that `sum` lives in registers. */
ALWAYS_INLINE void tile(const struct block *block, const float *left, size_t row_step,
                        size_t depth_step, const float *right, float *result,
                        const int rows, const int vectors, const int pairs)
{
    VEC sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = v_zero();
    for (int k = 0; k < block->depth; k++, left += depth_step, right += 2 * LANES) {
        VEC first = v_load(right), second = vectors > 1 ? v_load(right + LANES) : first;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            VEC value = v_set1(left[(size_t)i * row_step]);
            sum[i][0] = add_product(value, first, sum[i][0], pairs);
            if (vectors > 1)
                sum[i][1] = add_product(value, second, sum[i][1], pairs);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        float *to = result + (size_t)i * block->result_step;
        for (int j = 0; j < vectors; j++)
            v_store(to + j * LANES, block->accumulate
                                        ? v_add(v_load(to + j * LANES), sum[i][j])
                                        : sum[i][j]);
    }
}

#ifdef HALF_VEC
ALWAYS_INLINE HALF_VEC add_half_product(HALF_VEC value, HALF_VEC right, HALF_VEC sum,
                                        const int pairs)
{
#ifdef HAS_PAIRS
    if (pairs)
        return h_dot(value, right, sum);
#endif
    (void)pairs;
    return h_fma(value, right, sum);
}

/* The same for a vector and a half of columns. */
ALWAYS_INLINE void tile_and_half(const struct block *block, const float *left,
                                 size_t row_step, size_t depth_step, const float *right,
                                 float *result, const int rows, const int pairs)
{
    VEC sum[TILE_ROWS];
    HALF_VEC half_sum[TILE_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        sum[i] = v_zero();
        half_sum[i] = h_zero();
    }
    for (int k = 0; k < block->depth; k++, left += depth_step, right += 2 * LANES) {
        VEC first = v_load(right);
        HALF_VEC second = h_load(right + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            float value = left[(size_t)i * row_step];
            sum[i] = add_product(v_set1(value), first, sum[i], pairs);
            half_sum[i] = add_half_product(h_set1(value), second, half_sum[i], pairs);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        float *to = result + (size_t)i * block->result_step;
        if (block->accumulate) {
            sum[i] = v_add(v_load(to), sum[i]);
            half_sum[i] = h_add(h_load(to + LANES), half_sum[i]);
        }
        v_store(to, sum[i]);
        h_store(to + LANES, half_sum[i]);
    }
}
#endif

/* Picks the tile whose constants cover what is left of the block. */
ALWAYS_INLINE void tile_covering(const struct block *block, const float *left,
                                 size_t row_step, size_t depth_step, const float *right,
                                 float *result, int rows, int cols, const int pairs)
{
    int height = rows > 2 * TILE_ROW_STEP ? 3 : rows > TILE_ROW_STEP ? 2 : 1;
    int is_wide = cols > LANES;
#ifdef HALF_VEC
    if (height == 3 && is_wide && cols <= LANES + HALF_LANES) {
        tile_and_half(block, left, row_step, depth_step, right, result, TILE_ROWS, pairs);
        return;
    }
#endif
#define TILE(steps, vectors)                                                      \
    tile(block, left, row_step, depth_step, right, result, (steps)*TILE_ROW_STEP, \
         vectors, pairs)
    if (height == 3 && is_wide)
        TILE(3, 2);
    else if (height == 3)
        TILE(3, 1);
    else if (height == 2 && is_wide)
        TILE(2, 2);
    else if (height == 2)
        TILE(2, 1);
    else if (is_wide)
        TILE(1, 2);
    else
        TILE(1, 1);
#undef TILE
}

_Static_assert(TILE_ROWS == 3 * TILE_ROW_STEP, "three heights cover a tile");
_Static_assert(GEMM_PANEL_ROWS % TILE_ROWS == 0 && GEMM_ROWS % TILE_ROWS == 0 &&
                   GEMM_COLS % (2 * LANES) == 0,
               "whole tiles");

ALWAYS_INLINE void multiply_block(const struct block *block, const size_t row_step,
                                  const size_t depth_step, size_t tile_step,
                                  const int pairs)
{
    const float *right = block->right;
    for (int n = 0; n < block->cols; n += 2 * LANES, right += block->right_panel_step) {
        const float *left = block->left;
        for (int m = 0; m < block->rows; m += TILE_ROWS, left += tile_step)
            tile_covering(block, left, row_step, depth_step, right,
                          block->result + (size_t)m * block->result_step + n,
                          block->rows - m, block->cols - n, pairs);
    }
}

static void multiply_rows(const struct block *block)
{
    multiply_block(block, GEMM_LEFT_STEP, 1, TILE_ROWS * GEMM_LEFT_STEP, 0);
}

static void multiply_panels(const struct block *block)
{
    multiply_block(block, 1, TILE_ROWS, TILE_ROWS * (size_t)block->depth, 0);
}

#ifdef HAS_PAIRS
static void pairs_multiply_rows(const struct block *block)
{
    multiply_block(block, GEMM_LEFT_STEP, 1, TILE_ROWS * GEMM_LEFT_STEP, 1);
}

static void pairs_multiply_panels(const struct block *block)
{
    multiply_block(block, 1, TILE_ROWS, TILE_ROWS * (size_t)block->depth, 1);
}
#endif

/* One column, four rows: dot products along the depth, which is padded with zeros.
 * Sixteen sums whatever the vector's width, added in halves: AVX2 and AVX-512 give the
 * same bits. */
ALWAYS_INLINE void dot_rows(const struct block *block, int row, int col, const int rows)
{
    const float *left = block->left + (size_t)row * GEMM_LEFT_STEP;
    const float *right = block->right + (size_t)col * block->right_panel_step;
    enum { VECTORS = DOT_LANES / LANES };
    VEC sum[4][VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = v_zero();
    for (int k = 0; k < block->depth; k += DOT_LANES) {
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++) {
            VEC value = v_load(right + k + j * LANES);
            const float *from = left + k + j * LANES;
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sum[i][j] = v_fma(v_load(from + i * GEMM_LEFT_STEP), value, sum[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        float *to = block->result + (size_t)(row + i) * block->result_step + col;
        for (int half = VECTORS / 2; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                sum[i][j] = v_add(sum[i][j], sum[i][j + half]);
        float total = v_total(sum[i][0]);
        *to = block->accumulate ? *to + total : total;
    }
}

static void multiply_thin(const struct block *block)
{
    int row = 0;
    for (; row + 4 <= block->rows; row += 4) {
        for (int col = 0; col < block->cols; col++)
            dot_rows(block, row, col, 4);
    }
    for (; row < block->rows; row++) {
        for (int col = 0; col < block->cols; col++)
            dot_rows(block, row, col, 1);
    }
}

#endif
