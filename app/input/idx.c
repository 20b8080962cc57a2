#include "app/input/idx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "app/input/sniff.h"

#define IDX_MAGIC 0x00000803u

/* The type byte of an IDX magic. */
static const char *element_name(unsigned code)
{
    switch (code) {
    case 0x08: return "bytes";
    case 0x09: return "signed bytes";
    case 0x0b: return "16-bit integers";
    case 0x0c: return "32-bit integers";
    case 0x0d: return "32-bit floats";
    case 0x0e: return "64-bit floats";
    default: return NULL;
    }
}

static enum status refuse_magic(const char *path, uint32_t magic)
{
    if (magic == 0x00000801u)
        return status_fail(STATUS_DATA,
                           "%s: a file of labels (IDX magic 0x00000801), images have "
                           "0x00000803; give the file that is named like "
                           "train-images-idx3-ubyte",
                           path);
    const char *elements = element_name(magic >> 8);
    if (elements)
        return status_fail(
            STATUS_DATA,
            "%s: an IDX file of %s in %u dimensions (magic 0x%08x), images "
            "are bytes in 3 dimensions (0x00000803); convert it or give "
            "another file",
            path, elements, magic & 0xff, magic);
    return status_fail(
        STATUS_DATA,
        "%s: not an IDX file: it begins with 0x%08x, images with 0x00000803; "
        "give an IDX file of images or a folder of pictures",
        path, magic);
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           bytes[3];
}

/* True when gzip itself complains: a stream that was cut, or a checksum that is wrong. */
static int is_damaged(gzFile file, const char **problem)
{
    int code = Z_OK;
    *problem = gzerror(file, &code);
    return code != Z_OK && code != Z_STREAM_END;
}

static enum status refuse_gzip(const char *path, const char *problem)
{
    // zlib begins its sentence with the path.
    size_t length = strlen(path);
    if (strncmp(problem, path, length) == 0 && problem[length] == ':')
        problem += length + 1 + (problem[length + 1] == ' ');
    return status_fail(STATUS_DATA,
                       "%s: the gzip data is damaged or cut short (%s); copy "
                       "the file again",
                       path, problem);
}

// What begins otherwise is named where it is known, as the archive in a .tar.gz.
static enum status refuse_content(const char *path, gzFile file, uint32_t magic)
{
    uint8_t head[SNIFF_BYTES] = {0};
    gzrewind(file);
    int got = gzread(file, head, sizeof head);
    size_t size = got > 0 ? (size_t)got : 0;
    TRY(refuse_as_dataset(path, sniff(head, size), head, size, " in gzip"));
    return refuse_magic(path, magic);
}

static enum status read_header(const char *path, gzFile file, struct idx_images *images)
{
    uint8_t header[16] = {0};
    const char *problem;
    int got = gzread(file, header, sizeof header);
    if (is_damaged(file, &problem))
        return refuse_gzip(path, problem);
    if (got <= 0)
        return status_fail(STATUS_DATA,
                           "%s: the file is empty, an IDX file of images was "
                           "expected; copy it again",
                           path);
    uint32_t magic = big_endian(header);
    if (got >= 4 && magic != IDX_MAGIC)
        return refuse_content(path, file, magic);
    if (got < 16)
        return status_fail(STATUS_DATA,
                           "%s: the file ends within its header, after %d of "
                           "16 bytes; copy it again",
                           path, got);

    uint32_t count = big_endian(header + 4);
    uint32_t rows = big_endian(header + 8), columns = big_endian(header + 12);
    if (count == 0)
        return status_fail(STATUS_DATA,
                           "%s: its header says 0 images, at least 1 is "
                           "needed; give another file",
                           path);
    if (rows < 1 || rows > IDX_SIDE_MAX || columns < 1 || columns > IDX_SIDE_MAX)
        return status_fail(STATUS_DATA,
                           "%s: its header says images of %u x %u pixels, "
                           "sides of 1 to %u are read; copy the file again",
                           path, columns, rows, IDX_SIDE_MAX);
    if ((uint64_t)count * rows * columns > IDX_BYTES_MAX)
        return status_fail(STATUS_DATA,
                           "%s: its header says %u images of %u x %u pixels, "
                           "more than %llu GB; copy the file again",
                           path, count, columns, rows,
                           (unsigned long long)(IDX_BYTES_MAX >> 30));
    images->count = count;
    images->rows = (int)rows;
    images->columns = (int)columns;
    return STATUS_OK;
}

/* Memory grows with what the file holds, not with what its header claims. */
static enum status read_images(const char *path, gzFile file, struct idx_images *images)
{
    size_t image_bytes = (size_t)images->rows * (size_t)images->columns;
    size_t wanted = images->count * image_bytes, have = 0, room = 0;
    const char *problem;
    while (have < wanted) {
        if (have == room) {
            room = room ? room * 2 : (size_t)1 << 20;
            room = room < wanted ? room : wanted;
            uint8_t *larger = realloc(images->pixels, room);
            if (!larger)
                return status_fail(STATUS_FAILED, "%s: no memory for %zu MB of images",
                                   path, room >> 20);
            images->pixels = larger;
        }
        size_t part = room - have < (1u << 24) ? room - have : 1u << 24;
        int got = gzread(file, images->pixels + have, (unsigned)part);
        if (is_damaged(file, &problem))
            return refuse_gzip(path, problem);
        if (got <= 0)
            return status_fail(
                STATUS_DATA,
                "%s: its header says %zu image%s of %d x %d pixels, the file "
                "ends within image %zu; copy it again",
                path, images->count, PLURAL(images->count), images->columns, images->rows,
                have / image_bytes + 1);
        have += (size_t)got;
    }
    // One byte more, so that zlib reaches the end and compares the checksum.
    uint8_t extra;
    (void)gzread(file, &extra, 1);
    if (is_damaged(file, &problem))
        return refuse_gzip(path, problem);
    return STATUS_OK;
}

enum status idx_read(const char *path, struct idx_images *images)
{
    *images = (struct idx_images){0};
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (!file)
        return status_fail(STATUS_DATA, "%s: cannot be opened: %s", path,
                           errno ? strerror(errno) : "no memory for zlib");
    gzbuffer(file, 1 << 17);
    enum status status = read_header(path, file, images);
    if (status == STATUS_OK)
        status = read_images(path, file, images);
    gzclose_r(file);
    if (status != STATUS_OK)
        idx_release(images);
    return status;
}

void idx_release(struct idx_images *images)
{
    free(images->pixels);
    *images = (struct idx_images){0};
}
