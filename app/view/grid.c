/* grid.c - lays tiles out, and writes one PNG whole or not at all (atomic_file.h). */
#include "app/view/grid.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/files/atomic_file.h"

#define GAP 2 // pixels between tiles

/* What libpng writes to, and what it says when it gives up. */
struct sink {
    FILE *stream;
    char reason[160];
};

/* The picture to encode. */
struct picture {
    const uint8_t *pixels;
    int width, height, channels;
    const struct png_text *texts;
    int text_count;
};

/* An existing file is only replaced when asked to be. */
static enum status check_is_new(const char *path)
{
    struct stat found;
    if (lstat(path, &found) != 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "%s: exists already and is left as it is; name a new file, or ask "
                       "to overwrite it",
                       path);
}

// The stream remembers what went wrong, and atomic_commit() tells it with its reason.
static void on_write(png_structp png, png_bytep bytes, size_t count)
{
    const struct sink *sink = png_get_io_ptr(png);
    fwrite(bytes, 1, count, sink->stream);
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void on_error(png_structp png, png_const_charp message)
{
    struct sink *sink = png_get_error_ptr(png);
    snprintf(sink->reason, sizeof(sink->reason), "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* Plain ASCII goes into tEXt; beyond it tEXt would mean Latin-1, so iTXt (UTF-8) is used.
 */
static void fill_texts(png_text *chunks, const struct png_text *texts, int count)
{
    for (int i = 0; i < count; i++) {
        CHECK(strlen(texts[i].keyword) >= 1 && strlen(texts[i].keyword) <= 79,
              "keyword '%s'", texts[i].keyword);
        int is_ascii = 1;
        for (const char *c = texts[i].text; *c; c++)
            is_ascii &= (unsigned char)*c < 0x80;
        chunks[i] = (png_text){
            .compression =
                is_ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
            .key = (png_charp)texts[i].keyword,
            .text = (png_charp)texts[i].text,
        };
    }
}

/* Everything between setjmp and the jump lives in memory that the caller owns. */
static int encode_rows(png_structp png, png_infop info, const struct picture *picture,
                       png_text *chunks)
{
    static const int color_types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                      PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(png)))
        return 0;
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height, 8,
                 color_types[picture->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->text_count > 0)
        png_set_text(png, info, chunks, picture->text_count);
    png_write_info(png, info);
    const size_t row_bytes = (size_t)picture->width * (size_t)picture->channels;
    for (int y = 0; y < picture->height; y++)
        png_write_row(png, picture->pixels + (size_t)y * row_bytes);
    png_write_end(png, info);
    return 1;
}

static int encode(struct sink *sink, const struct picture *picture)
{
    const size_t text_count = picture->text_count > 0 ? (size_t)picture->text_count : 0;
    png_text *chunks = calloc(text_count + 1, sizeof(*chunks));
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, sink, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int is_done = 0;
    if (chunks && info) {
        fill_texts(chunks, picture->texts, picture->text_count);
        png_set_write_fn(png, sink, on_write, on_flush);
        is_done = encode_rows(png, info, picture, chunks);
    } else {
        snprintf(sink->reason, sizeof(sink->reason), "no memory");
    }
    png_destroy_write_struct(&png, &info);
    free(chunks);
    return is_done;
}

/* How a finished file takes its name: what an older file of that name means. */
struct older {
    int is_refused; // else it is replaced, or, with `kept`, set aside
    char *kept;
    size_t kept_bytes;
};

static enum status write_picture(const char *path, const struct picture *picture,
                                 struct older older)
{
    CHECK(picture->channels >= 1 && picture->channels <= 4, "channels %d",
          picture->channels);
    struct atomic_file file;
    TRY(atomic_open(&file, path));
    file.must_be_new = older.is_refused;
    struct sink sink = {.stream = file.stream};
    if (encode(&sink, picture))
        return older.kept ? atomic_commit_keeping(&file, older.kept, older.kept_bytes)
                          : atomic_commit(&file);
    atomic_discard(&file);
    return status_fail(
        STATUS_FAILED,
        "%s: a PNG of %dx%d pixels could not be made: %s; ask for fewer or "
        "smaller tiles",
        path, picture->width, picture->height, sink.reason);
}

enum status png_write(const char *path, const uint8_t *pixels, int width, int height,
                      int channels, const struct png_text *texts, int text_count)
{
    const struct picture picture = {pixels, width, height, channels, texts, text_count};
    return write_picture(path, &picture, (struct older){0});
}

uint8_t *grid_compose(const struct grid *grid, int *width, int *height)
{
    CHECK(grid->count > 0 && grid->h > 0 && grid->w > 0 && grid->columns > 0,
          "count %d, %dx%d, columns %d", grid->count, grid->w, grid->h, grid->columns);
    const int columns = grid->count < grid->columns ? grid->count : grid->columns;
    const int rows = (grid->count + columns - 1) / columns;
    *width = columns * grid->w + (columns - 1) * GAP;
    *height = rows * grid->h + (rows - 1) * GAP;

    const size_t channels = (size_t)grid->channels;
    const size_t row_bytes = (size_t)*width * channels;
    const size_t tile_row_bytes = (size_t)grid->w * channels;
    uint8_t *pixels = calloc((size_t)*height, row_bytes); // the background is 0
    if (!pixels)
        return NULL;
    for (int i = 0; i < grid->count; i++) {
        const size_t left = (size_t)(i % columns) * (size_t)(grid->w + GAP);
        const size_t top = (size_t)(i / columns) * (size_t)(grid->h + GAP);
        for (int y = 0; y < grid->h; y++)
            memcpy(pixels + (top + (size_t)y) * row_bytes + left * channels,
                   grid->pixels +
                       ((size_t)i * (size_t)grid->h + (size_t)y) * tile_row_bytes,
                   tile_row_bytes);
    }
    return pixels;
}

static enum status write_grid(const struct grid *grid, const char *path,
                              struct older older)
{
    struct picture picture = {
        .channels = grid->channels, .texts = grid->texts, .text_count = grid->text_count};
    uint8_t *pixels = grid_compose(grid, &picture.width, &picture.height);
    if (!pixels)
        return status_fail(
            STATUS_FAILED,
            "%s: no memory for a grid of %d tiles of %dx%d pixels; ask for "
            "fewer tiles",
            path, grid->count, grid->w, grid->h);
    picture.pixels = pixels;
    const enum status status = write_picture(path, &picture, older);
    free(pixels);
    return status;
}

enum status grid_write(const struct grid *grid, const char *path, int overwrite)
{
    if (!overwrite)
        TRY(check_is_new(path));
    return write_grid(grid, path, (struct older){.is_refused = !overwrite});
}

enum status grid_write_keeping(const struct grid *grid, const char *path, char *kept,
                               size_t bytes)
{
    return write_grid(grid, path, (struct older){.kept = kept, .kept_bytes = bytes});
}
