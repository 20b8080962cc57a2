/* ref_image.c - bytes to values and back, and latents. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

static int is_mirrored(uint64_t seed, const uint64_t *step, uint64_t row)
{
    return (int)(philox(seed, STREAM_FLIP, step ? *step : 0, row).word[0] & 1u);
}

static void ref_image_from_u8(struct device *device, const struct tensor *pixels,
                              int mirror, uint64_t seed, const uint64_t *step,
                              uint64_t first_row, struct tensor *y)
{
    (void)device;
    ref_check_shapes("image.from_u8", pixels, y);
    CHECK(pixels->dtype == DTYPE_U8, "pixels are %s", dtype_name(pixels->dtype));
    const uint8_t *bytes = pixels->data;
    struct shape s = y->shape;
    size_t row = 0;
    for (int n = 0; n < s.n; n++) {
        int is_flipped = mirror && is_mirrored(seed, step, first_row + (uint64_t)n);
        for (int h = 0; h < s.h; h++) {
            for (int w = 0; w < s.w; w++, row++) {
                // Row `row` is (n, h, w); its mirror image is as far from the right edge.
                size_t from = is_flipped ? row - (size_t)w + (size_t)(s.w - 1 - w) : row;
                for (int c = 0; c < s.c; c++) {
                    float byte = (float)bytes[ref_place(pixels, from, c)];
                    element_store(y->data, y->dtype, ref_place(y, row, c),
                                  byte / 127.5f - 1.0f);
                }
            }
        }
    }
    ref_clear_padding(y);
}

static uint8_t to_byte(float x)
{
    float value = (x + 1.0f) * 127.5f;
    if (!(value > 0.0f)) // NaN too
        return 0;
    return (uint8_t)floorf((value < 255.0f ? value : 255.0f) + 0.5f);
}

static void ref_image_to_u8(struct device *device, const struct tensor *x,
                            struct tensor *pixels)
{
    (void)device;
    ref_check_shapes("image.to_u8", x, pixels);
    CHECK(pixels->dtype == DTYPE_U8, "pixels are %s", dtype_name(pixels->dtype));
    uint8_t *bytes = pixels->data;
    for (size_t row = 0; row < ref_rows(x); row++)
        for (int c = 0; c < x->shape.c; c++)
            bytes[ref_place(pixels, row, c)] =
                to_byte(element_load(x->data, x->dtype, ref_place(x, row, c)));
    ref_clear_padding(pixels);
}

static void ref_image_normal(struct device *device, uint64_t seed, uint32_t stream,
                             const uint64_t *step, uint64_t first_row, struct tensor *z)
{
    (void)device;
    CHECK(z->shape.h == 1 && z->shape.w == 1, "z is %d by %d", z->shape.h, z->shape.w);
    for (int n = 0; n < z->shape.n; n++) {
        uint64_t index = (first_row + (uint64_t)n) << 20;
        float four[4];
        for (int c = 0; c < z->shape.c; c++) {
            if (c % 4 == 0)
                philox_normal4(seed, stream, step ? *step : 0, index + (uint64_t)(c / 4),
                               four);
            element_store(z->data, z->dtype, ref_place(z, (size_t)n, c), four[c % 4]);
        }
    }
    ref_clear_padding(z);
}

static void ref_image_advance(struct device *device, uint64_t *counter)
{
    (void)device;
    *counter += 1;
}

void ref_fill_image(struct image_ops *ops)
{
    *ops = (struct image_ops){
        .from_u8 = ref_image_from_u8,
        .to_u8 = ref_image_to_u8,
        .normal = ref_image_normal,
        .advance = ref_image_advance,
    };
}
