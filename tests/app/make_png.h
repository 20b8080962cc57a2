/* make_png.h - PNG and IDX files for tests, written without libpng or zlib, so that a
 * test of the readers does not compare a library with itself. Owns:  nothing; the caller
 * frees what it is given. */
#ifndef TESTS_APP_MAKE_PNG_H
#define TESTS_APP_MAKE_PNG_H

#include <stddef.h>
#include <stdint.h>

struct png_plan {
    int width, height;
    int colour_type; // 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGB + alpha
    int bit_depth;   // 1, 2, 4, 8, 16, as far as the colour type allows it
    int is_interlaced;
    // The sample of channel c at x, y: 0 .. 2^bit_depth - 1.
    unsigned (*sample)(int x, int y, int c);
    const uint8_t *palette; // [palette_count, 3] for colour type 3
    int palette_count;
    const uint8_t *trns; // the bytes of a tRNS chunk, or NULL
    int trns_bytes;
};

/* Samples per pixel in the file. */
int png_plan_channels(const struct png_plan *plan);

/* The whole file. */
uint8_t *make_png(const struct png_plan *plan, size_t *bytes);

/* The checksum of a chunk (type and data), for tests that change one. */
uint32_t png_crc(const uint8_t *bytes, size_t size);

/* An 8-bit file whose samples are those of `sample`, at `path`. */
void write_png(const char *path, int width, int height, int colour_type,
               unsigned (*sample)(int x, int y, int c));

/* An IDX file of images in memory; byte i of the pixels is (i * 7 + i / 251) mod 256. */
uint8_t *make_idx(uint32_t count, uint32_t rows, uint32_t columns, size_t *bytes);

void write_file(const char *path, const void *bytes, size_t size);

#endif
