#include "app/input/png_read.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

/* What libpng's callbacks share. Everything that changes after setjmp() lives here, not
 * in local variables, which longjmp() may lose. */
struct png_reader {
    png_structp png;
    png_infop info;
    const uint8_t *bytes;
    size_t size, offset;
    struct picture picture;
    enum status status;
    char problem[200];
};

int is_png(const uint8_t *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static void take_error(png_structp png, png_const_charp message)
{
    struct png_reader *reader = png_get_error_ptr(png);
    snprintf(reader->problem, sizeof reader->problem, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

// A warning is about something the pixels do not depend on.
static void take_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void take_bytes(png_structp png, png_bytep to, size_t size)
{
    struct png_reader *reader = png_get_io_ptr(png);
    if (size > reader->size - reader->offset)
        png_error(png, "the file ends early");
    memcpy(to, reader->bytes + reader->offset, size);
    reader->offset += size;
}

/* Strict where pixels are concerned (any checksum that is wrong refuses the file), deaf
 * to the rest: profiles and texts are passed over, so a broken or huge one costs nothing.
 */
static void set_rules(struct png_reader *reader)
{
    png_set_read_fn(reader->png, reader, take_bytes);
    png_set_crc_action(reader->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_benign_errors(reader->png, 0);
    png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_user_limits(reader->png, 1 << 20, 1 << 20);
}

/* Whatever the file holds, rows of 8-bit grey or RGB, with or without alpha. */
static void set_conversions(struct png_reader *reader)
{
    png_structp png = reader->png;
    png_set_expand(png); // palette to RGB, 1, 2, 4 bit to 8, tRNS to alpha
    png_set_scale_16(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
}

/* Returns 1 on success; on failure `problem` or `status` says why. */
static int read_pixels(struct png_reader *reader)
{
    if (setjmp(png_jmpbuf(reader->png)))
        return 0;
    png_structp png = reader->png;
    set_rules(reader);
    png_read_info(png, reader->info);
    set_conversions(reader);

    struct picture *picture = &reader->picture;
    size_t row_bytes = png_get_rowbytes(png, reader->info);
    int height = (int)png_get_image_height(png, reader->info);
    if (row_bytes > PICTURE_BYTES_MAX / (size_t)height) {
        snprintf(reader->problem, sizeof reader->problem,
                 "%u x %d pixels need more than %zu MB",
                 (unsigned)png_get_image_width(png, reader->info), height,
                 PICTURE_BYTES_MAX >> 20);
        return 0;
    }
    reader->status = picture_create(picture, (int)png_get_image_width(png, reader->info),
                                    height, (int)png_get_channels(png, reader->info));
    if (reader->status != STATUS_OK)
        return 0;

    int passes = png_get_interlace_type(png, reader->info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_read_row(png, picture->pixels + (size_t)y * row_bytes, NULL);
    png_read_end(png, NULL);
    return 1;
}

enum status picture_from_png(const uint8_t *bytes, size_t size, struct picture *picture)
{
    *picture = (struct picture){0};
    if (!is_png(bytes, size))
        return status_fail(STATUS_DATA, "not a PNG: its signature is missing");

    struct png_reader reader = {.bytes = bytes, .size = size};
    reader.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, take_error, take_warning);
    if (reader.png)
        reader.info = png_create_info_struct(reader.png);
    if (!reader.info) {
        png_destroy_read_struct(&reader.png, NULL, NULL);
        return status_fail(STATUS_FAILED, "no memory for libpng");
    }
    int is_read = read_pixels(&reader);
    png_destroy_read_struct(&reader.png, &reader.info, NULL);
    if (is_read) {
        *picture = reader.picture;
        return STATUS_OK;
    }
    picture_release(&reader.picture);
    if (reader.status != STATUS_OK)
        return reader.status;
    return status_fail(STATUS_DATA, "damaged PNG (%s)", reader.problem);
}
