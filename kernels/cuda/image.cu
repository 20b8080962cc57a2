/* image.cu - bytes to values and back, and latents. */
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <math.h>

extern "C" {
#include "kernels/cuda/backend.h"
}

#include "kernels/cuda/rows.cuh"

/* ---- bytes ----------------------------------------------------------------------- */

/* Which images are flipped. */
struct mirror {
    int is_on;
    uint64_t seed, first_row;
    const uint64_t *step;
};

CUDA_INLINE unsigned is_mirrored(const struct mirror &mirror, unsigned n)
{
    if (!mirror.is_on)
        return 0;
    uint64_t step = mirror.step ? *mirror.step : 0;
    return philox(mirror.seed, STREAM_FLIP, step, mirror.first_row + n).word[0] & 1u;
}

/* A thread makes eight channels of every row_step-th pixel from bytes. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_image_from_u8_kernel(struct rows pixels, unsigned height, unsigned width,
                              struct mirror mirror, struct rows y, int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= y.c_stored)
        return;
    const uint8_t *bytes = (const uint8_t *)pixels.data;
    for (unsigned row = at.row; row < y.n; row += at.row_step) {
        unsigned n = row / (height * width), w = row % width;
        // The mirror image of a pixel is as far from the right edge.
        unsigned from = is_mirrored(mirror, n) ? row - w + (width - 1 - w) : row;
        struct eight value = {};
        for (int j = 0; j < 8; j++) {
            if (at.c + j < pixels.c) {
                uint8_t byte = bytes[(size_t)from * pixels.c_stored + at.c + j];
                value.v[j] = (float)byte / 127.5f - 1.0f;
            }
        }
        store_group(y, row, at.c, value);
    }
    clear_rows(y, at);
}

static void cuda_image_from_u8(struct device *device, const struct tensor *pixels,
                               int mirror, uint64_t seed, const uint64_t *step,
                               uint64_t first_row, struct tensor *y)
{
    const char *op = "image.from_u8";
    check_shapes(op, pixels, y);
    CHECK(pixels->dtype == DTYPE_U8, "pixels are %s", dtype_name(pixels->dtype));
    struct mirror flips = {mirror, seed, first_row, step};
    struct rows to = rows_of(y);
    struct cover cover = cover_rows(device, to.n_stored, y->c_stored);
    cuda_launch(device, op, cuda_image_from_u8_kernel, cover.grid, CUDA_THREADS,
                rows_of(pixels), (unsigned)y->shape.h, (unsigned)y->shape.w, flips, to,
                cover.lane_bits);
}

CUDA_INLINE uint8_t to_byte(float x)
{
    float value = __fmul_rn(x + 1.0f, 127.5f);
    if (!(value > 0.0f)) // NaN too
        return 0;
    return (uint8_t)floorf((value < 255.0f ? value : 255.0f) + 0.5f);
}

/* A thread makes the bytes of eight channels of every row_step-th pixel. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_image_to_u8_kernel(struct rows x, struct rows pixels, int lane_bits)
{
    struct place at = place_of(lane_bits);
    uint8_t *bytes = (uint8_t *)pixels.data;
    for (unsigned row = at.row; row < pixels.n_stored; row += at.row_step) {
        int has_values = row < pixels.n && at.c < x.c;
        struct eight value = {};
        if (has_values)
            value = load_group(x, row, at.c);
        for (int j = 0; j < 8; j++)
            if (at.c + j < pixels.c_stored)
                bytes[(size_t)row * pixels.c_stored + at.c + j] =
                    has_values && at.c + j < pixels.c ? to_byte(value.v[j]) : 0;
    }
}

static void cuda_image_to_u8(struct device *device, const struct tensor *x,
                             struct tensor *pixels)
{
    const char *op = "image.to_u8";
    check_shapes(op, x, pixels);
    CHECK(pixels->dtype == DTYPE_U8, "pixels are %s", dtype_name(pixels->dtype));
    struct rows to = rows_of(pixels);
    struct cover cover = cover_rows(device, to.n_stored, pixels->c_stored);
    cuda_launch(device, op, cuda_image_to_u8_kernel, cover.grid, CUDA_THREADS, rows_of(x),
                to, cover.lane_bits);
}

/* ---- latents --------------------------------------------------------------------- */

/* Two words to two normals, in f64 on the way: philox_normal4(), on the device. */
CUDA_INLINE void box_muller(uint32_t first, uint32_t second, float normal[2])
{
    const double two_pi = 6.283185307179586476925;
    double radius = sqrt(-2.0 * log((double)philox_unit(first)));
    double angle = two_pi * (double)philox_unit(second);
    normal[0] = (float)(radius * cos(angle));
    normal[1] = (float)(radius * sin(angle));
}

/* What a latent is drawn from. */
struct draw {
    uint64_t seed, first_row;
    const uint64_t *step;
    uint32_t stream;
};

/* A thread draws eight channels of every row_step-th sample. */
__global__ void __launch_bounds__(CUDA_THREADS)
    cuda_image_normal_kernel(struct draw draw, struct rows z, int lane_bits)
{
    struct place at = place_of(lane_bits);
    if (at.c >= z.c_stored)
        return;
    uint64_t step = draw.step ? *draw.step : 0;
    for (unsigned row = at.row; row < z.n; row += at.row_step) {
        uint64_t index = ((draw.first_row + row) << 20) + (uint64_t)(at.c / 4);
        struct eight value;
        for (int four = 0; four < 2; four++) {
            struct philox_words words =
                philox(draw.seed, draw.stream, step, index + (uint64_t)four);
            box_muller(words.word[0], words.word[1], value.v + 4 * four);
            box_muller(words.word[2], words.word[3], value.v + 4 * four + 2);
        }
        store_group(z, row, at.c, value);
    }
    clear_rows(z, at);
}

static void cuda_image_normal(struct device *device, uint64_t seed, uint32_t stream,
                              const uint64_t *step, uint64_t first_row, struct tensor *z)
{
    CHECK(z->shape.h == 1 && z->shape.w == 1, "z is %d by %d", z->shape.h, z->shape.w);
    struct draw draw = {seed, first_row, step, stream};
    struct rows to = rows_of(z);
    struct cover cover = cover_rows(device, to.n_stored, z->c_stored);
    cuda_launch(device, "image.normal", cuda_image_normal_kernel, cover.grid,
                CUDA_THREADS, draw, to, cover.lane_bits);
}

/* One thread counts. */
__global__ void cuda_image_advance_kernel(uint64_t *counter)
{
    *counter += 1;
}

static void cuda_image_advance(struct device *device, uint64_t *counter)
{
    cuda_launch(device, "image.advance", cuda_image_advance_kernel, 1, 1, counter);
}

void cuda_fill_image(struct image_ops *ops)
{
    ops->from_u8 = cuda_image_from_u8;
    ops->to_u8 = cuda_image_to_u8;
    ops->normal = cuda_image_normal;
    ops->advance = cuda_image_advance;
}
