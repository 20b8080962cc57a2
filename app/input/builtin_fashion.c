#include "app/input/builtin_fashion.h"

#include <stdlib.h>

#include "app/input/png_read.h"
#include "kernels/philox.h"

enum { SIDE = 28, TILES_ACROSS = 50, TILES_DOWN = 40, LEVEL_STEP = 17 };

// builtin_fashion_png.S
extern const uint8_t builtin_fashion_png[];
extern const uint8_t builtin_fashion_png_end[];

/* One of the bytes that 4 bits would round to `level`. */
static uint8_t dequantise(unsigned level, uint32_t random)
{
    if (level == 0)
        return 0;
    unsigned lowest = level * LEVEL_STEP - LEVEL_STEP / 2;
    unsigned choices = level == 15 ? LEVEL_STEP / 2 + 1 : LEVEL_STEP;
    return (uint8_t)(lowest + (unsigned)(((uint64_t)random * choices) >> 32));
}

static void cut_tile(const struct picture *sheet, size_t tile, uint8_t *pixels)
{
    size_t left = tile % TILES_ACROSS * SIDE, top = tile / TILES_ACROSS * SIDE;
    size_t channels = (size_t)sheet->channels;
    struct philox_words random = {{0}};
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        if (i % 4 == 0)
            random = philox(0, STREAM_DEQUANTISE, tile, i / 4);
        size_t x = left + i % SIDE, y = top + i / SIDE;
        unsigned grey = sheet->pixels[(y * (size_t)sheet->width + x) * channels];
        pixels[i] = dequantise(grey / LEVEL_STEP, random.word[i % 4]);
    }
}

enum status fashion_read(struct idx_images *images)
{
    struct picture sheet;
    TRY(picture_from_png(builtin_fashion_png,
                         (size_t)(builtin_fashion_png_end - builtin_fashion_png),
                         &sheet));
    CHECK(sheet.width == TILES_ACROSS * SIDE && sheet.height == TILES_DOWN * SIDE,
          "the built-in sheet has %d x %d pixels", sheet.width, sheet.height);

    *images = (struct idx_images){TILES_ACROSS * TILES_DOWN, SIDE, SIDE, NULL};
    images->pixels = malloc(images->count * SIDE * SIDE);
    if (images->pixels)
        for (size_t tile = 0; tile < images->count; tile++)
            cut_tile(&sheet, tile, images->pixels + tile * SIDE * SIDE);
    picture_release(&sheet);
    if (!images->pixels)
        return status_fail(STATUS_FAILED, "no memory for the built-in images");
    return STATUS_OK;
}
