#include "tests/app/make_png.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/status.h"

struct buffer {
    uint8_t *bytes;
    size_t size, room;
};

static void put(struct buffer *buffer, const void *bytes, size_t size)
{
    if (buffer->size + size > buffer->room) {
        buffer->room = (buffer->size + size) * 2;
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        CHECK(buffer->bytes, "no memory for a test file");
    }
    if (size > 0)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static void put32(struct buffer *buffer, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 8), (uint8_t)value};
    put(buffer, bytes, 4);
}

uint32_t png_crc(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

static void put_chunk(struct buffer *file, const char *type, const uint8_t *bytes,
                      size_t size)
{
    put32(file, (uint32_t)size);
    size_t start = file->size;
    put(file, type, 4);
    put(file, bytes, size);
    put32(file, png_crc(file->bytes + start, file->size - start));
}

/* Deflate without compression: blocks of at most 65,535 bytes behind a zlib header. */
static struct buffer stored(const struct buffer *raw)
{
    struct buffer zlib = {0};
    put(&zlib, "\x78\x01", 2);
    for (size_t at = 0; at < raw->size;) {
        size_t part = raw->size - at < 65535 ? raw->size - at : 65535;
        uint8_t head[5] = {at + part == raw->size, (uint8_t)part, (uint8_t)(part >> 8),
                           (uint8_t)~part, (uint8_t)(~part >> 8)};
        put(&zlib, head, 5);
        put(&zlib, raw->bytes + at, part);
        at += part;
    }
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < raw->size; i++) {
        a = (a + raw->bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    put32(&zlib, b << 16 | a);
    return zlib;
}

int png_plan_channels(const struct png_plan *plan)
{
    static const int channels[7] = {1, 0, 3, 1, 2, 0, 4};
    return channels[plan->colour_type];
}

/* The rows of one pass: pixels x0, x0 + dx, ... of rows y0, y0 + dy, ...; packed, filter
 * 0. */
static void put_pass(struct buffer *raw, const struct png_plan *plan, int x0, int y0,
                     int dx, int dy)
{
    if (x0 >= plan->width || y0 >= plan->height)
        return;
    for (int y = y0; y < plan->height; y += dy) {
        put(raw, "", 1);
        unsigned bits = 0, count = 0;
        for (int x = x0; x < plan->width; x += dx)
            for (int c = 0; c < png_plan_channels(plan); c++) {
                bits = bits << plan->bit_depth | plan->sample(x, y, c);
                count += (unsigned)plan->bit_depth;
                for (; count >= 8; count -= 8)
                    put(raw, &(uint8_t){(uint8_t)(bits >> (count - 8))}, 1);
            }
        if (count > 0)
            put(raw, &(uint8_t){(uint8_t)(bits << (8 - count))}, 1);
    }
}

uint8_t *make_png(const struct png_plan *plan, size_t *bytes)
{
    static const int adam7[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8},
                                    {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                                    {0, 1, 1, 2}};
    struct buffer raw = {0}, header = {0}, file = {0};
    if (plan->is_interlaced)
        for (int pass = 0; pass < 7; pass++)
            put_pass(&raw, plan, adam7[pass][0], adam7[pass][1], adam7[pass][2],
                     adam7[pass][3]);
    else
        put_pass(&raw, plan, 0, 0, 1, 1);

    put32(&header, (uint32_t)plan->width);
    put32(&header, (uint32_t)plan->height);
    uint8_t kinds[5] = {(uint8_t)plan->bit_depth, (uint8_t)plan->colour_type, 0, 0,
                        (uint8_t)plan->is_interlaced};
    put(&header, kinds, 5);

    struct buffer packed = stored(&raw);
    put(&file, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(&file, "IHDR", header.bytes, header.size);
    if (plan->palette)
        put_chunk(&file, "PLTE", plan->palette, (size_t)plan->palette_count * 3);
    if (plan->trns)
        put_chunk(&file, "tRNS", plan->trns, (size_t)plan->trns_bytes);
    put_chunk(&file, "IDAT", packed.bytes, packed.size);
    put_chunk(&file, "IEND", NULL, 0);
    free(raw.bytes);
    free(header.bytes);
    free(packed.bytes);
    *bytes = file.size;
    return file.bytes;
}

void write_png(const char *path, int width, int height, int colour_type,
               unsigned (*sample)(int x, int y, int c))
{
    struct png_plan plan = {.width = width,
                            .height = height,
                            .colour_type = colour_type,
                            .bit_depth = 8,
                            .sample = sample};
    size_t size;
    uint8_t *bytes = make_png(&plan, &size);
    write_file(path, bytes, size);
    free(bytes);
}

uint8_t *make_idx(uint32_t count, uint32_t rows, uint32_t columns, size_t *bytes)
{
    struct buffer file = {0};
    put32(&file, 0x00000803);
    put32(&file, count);
    put32(&file, rows);
    put32(&file, columns);
    for (size_t i = 0; i < (size_t)count * rows * columns; i++)
        put(&file, &(uint8_t){(uint8_t)(i * 7 + i / 251)}, 1);
    *bytes = file.size;
    return file.bytes;
}

void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file, "%s", path);
    size_t written = size ? fwrite(bytes, 1, size, file) : 0;
    CHECK(written == size && fclose(file) == 0, "%s", path);
}
