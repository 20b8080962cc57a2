#include "app/input/sniff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/input/readers.h"

// A row matches when all `length` bytes at `offset` do.
static const struct signature {
    int offset, length;
    const char *bytes;
    enum file_kind kind;
    const char *name;
} signatures[] = {
    {0, 3, "\xff\xd8\xff", FILE_IMAGE, "JPEG"},
    {8, 4, "WEBP", FILE_IMAGE, "WebP"},
    {0, 4, "GIF8", FILE_IMAGE, "GIF"},
    {0, 4, "II*\0", FILE_IMAGE, "TIFF"},
    {0, 4, "MM\0*", FILE_IMAGE, "TIFF"},
    {4, 8, "ftypavif", FILE_IMAGE, "AVIF"},
    {4, 8, "ftypheic", FILE_IMAGE, "HEIC"},
    {4, 8, "ftypmif1", FILE_IMAGE, "HEIF"},
    {0, 12, "\0\0\0\x0cJXL \r\n\x87\n", FILE_IMAGE, "JPEG XL"},
    {0, 2, "\xff\x0a", FILE_IMAGE, "JPEG XL"},
    {0, 12, "\0\0\0\x0cjP  \r\n\x87\n", FILE_IMAGE, "JPEG 2000"},
    {0, 4, "8BPS", FILE_IMAGE, "Photoshop"},
    {0, 4, "qoif", FILE_IMAGE, "QOI"},
    {0, 4, "DDS ", FILE_IMAGE, "DDS"},
    {0, 4, "v/1\x01", FILE_IMAGE, "OpenEXR"},
    {0, 8, "\x8aMNG\r\n\x1a\n", FILE_IMAGE, "MNG"},
    {0, 2, "\x1f\x8b", FILE_GZIP, "gzip"},
    {0, 4, "PK\x03\x04", FILE_ARCHIVE, "zip"},
    {0, 6, "7z\xbc\xaf\x27\x1c", FILE_ARCHIVE, "7z"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     FILE_ARCHIVE, "xz"},
    {0, 4, "\x28\xb5\x2f\xfd", FILE_ARCHIVE, "zstd"},
    {0, 3, "BZh", FILE_ARCHIVE, "bzip2"},
    {257, 5, "ustar", FILE_ARCHIVE, "tar"},
    {0, 6, "\x93NUMPY", FILE_ARRAYS, "NumPy"},
    {0, 8, "\x89HDF\r\n\x1a\n", FILE_ARRAYS, "HDF5"},
    {0, 4, "PAR1", FILE_ARRAYS, "Parquet"},
};

/* BMP and PAM begin with two letters, as many a text does; one more byte decides. */
static const char *short_signature(const uint8_t *head, size_t size)
{
    if (size >= 10 && memcmp(head, "BM", 2) == 0 && memcmp(head + 6, "\0\0\0\0", 4) == 0)
        return "BMP";
    if (size >= 3 && memcmp(head, "P7\n", 3) == 0)
        return "PAM";
    return NULL;
}

// A zip archive whose first entry is named like an array: NumPy's .npz.
static int is_npz(const uint8_t *head, size_t size)
{
    const size_t fixed = 30; // bytes before the name; its length is in 26 and 27
    if (size < fixed || memcmp(head, "PK\x03\x04", 4) != 0)
        return 0;
    size_t end = fixed + head[26] + 256u * head[27];
    return end <= size && end >= fixed + 4 && memcmp(head + end - 4, ".npy", 4) == 0;
}

int is_text(const uint8_t *head, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (head[i] < ' ' && !strchr("\t\r\n", head[i]))
            return 0;
    return size > 0 && memchr(head, '\0', size) == NULL;
}

struct file_type sniff(const uint8_t *head, size_t size)
{
    if (size == 0)
        return (struct file_type){FILE_EMPTY, "empty", NULL};
    const struct reader *reader = reader_of(head, size);
    if (reader)
        return (struct file_type){FILE_PICTURE, reader->name, reader};
    if (is_npz(head, size))
        return (struct file_type){FILE_ARRAYS, "NumPy", NULL};
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *s = &signatures[i];
        if (size >= (size_t)(s->offset + s->length) &&
            memcmp(head + s->offset, s->bytes, (size_t)s->length) == 0)
            return (struct file_type){s->kind, s->name, NULL};
    }
    const char *name = short_signature(head, size);
    if (name)
        return (struct file_type){FILE_IMAGE, name, NULL};

    // IDX: two zeros, the code of a number type, how many dimensions.
    if (size >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 0x08 && head[2] <= 0x0e &&
        head[3] >= 1 && head[3] <= 8)
        return (struct file_type){FILE_IDX, "IDX", NULL};
    return (struct file_type){FILE_OTHER, "unknown", NULL};
}

int is_named_like_an_image(const char *path)
{
    static const char *const endings[] = {
        "png",  "jpg",  "jpeg", "jpe", "jfif", "webp", "gif", "bmp", "tif", "tiff", "tga",
        "avif", "heic", "heif", "jxl", "jp2",  "pnm",  "pbm", "pgm", "ppm", "qoi",  "exr",
    };
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    if (!dot)
        return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return 1;
    return 0;
}

/* Opens a regular file; O_NONBLOCK so that a pipe without a writer cannot hang us. */
static enum status open_regular(const char *path, int *descriptor, size_t *size)
{
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0)
        return status_fail(STATUS_DATA, "cannot be opened: %s", strerror(errno));
    struct stat about;
    if (fstat(*descriptor, &about) == 0 && S_ISREG(about.st_mode)) {
        *size = (size_t)about.st_size;
        return STATUS_OK;
    }
    close(*descriptor);
    return status_fail(STATUS_DATA, "is not a regular file");
}

/* Reads up to `room` bytes; how many there were is told by *size. */
static enum status read_bytes(int descriptor, uint8_t *bytes, size_t room, size_t *size)
{
    *size = 0;
    while (*size < room) {
        ssize_t got = read(descriptor, bytes + *size, room - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return status_fail(STATUS_DATA, "cannot be read: %s", strerror(errno));
        if (got == 0)
            break;
        *size += (size_t)got;
    }
    return STATUS_OK;
}

enum status read_head(const char *path, uint8_t head[SNIFF_BYTES], size_t *size)
{
    int descriptor;
    size_t file_bytes;
    memset(head, 0, SNIFF_BYTES);
    TRY(open_regular(path, &descriptor, &file_bytes));
    enum status status = read_bytes(descriptor, head, SNIFF_BYTES, size);
    close(descriptor);
    return status;
}

enum status read_whole(const char *path, size_t bytes_max, uint8_t **bytes, size_t *size)
{
    int descriptor;
    size_t file_bytes;
    *bytes = NULL;
    TRY(open_regular(path, &descriptor, &file_bytes));
    enum status status;
    if (file_bytes > bytes_max) {
        status = status_fail(STATUS_DATA, "has %zu MB, more than %zu MB",
                             file_bytes >> 20, bytes_max >> 20);
    } else if (!(*bytes = malloc(file_bytes + 1))) {
        status =
            status_fail(STATUS_FAILED, "no memory for a file of %zu bytes", file_bytes);
    } else {
        status = read_bytes(descriptor, *bytes, file_bytes, size);
    }
    close(descriptor);
    if (status != STATUS_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

enum status refuse_as_dataset(const char *path, struct file_type type,
                              const uint8_t *head, size_t size, const char *wrapping)
{
    if (type.kind == FILE_ARCHIVE)
        return status_fail(STATUS_DATA,
                           "%s: a %s archive%s; unpack it and give the folder", path,
                           type.name, wrapping);
    if (type.kind == FILE_ARRAYS)
        return status_fail(
            STATUS_DATA,
            "%s: %s arrays%s, which are not read; save each image as a PNG "
            "file and give the folder",
            path, type.name, wrapping);
    if (type.kind == FILE_OTHER && is_text(head, size))
        return status_fail(
            STATUS_DATA,
            "%s: text%s, such as CSV, and not images; save each image as a "
            "PNG file and give the folder",
            path, wrapping);
    return STATUS_OK;
}

enum status refuse_type(struct file_type type, const uint8_t *head)
{
    switch (type.kind) {
    case FILE_EMPTY: return status_fail(STATUS_DATA, "the file is empty");
    case FILE_IMAGE:
        return status_fail(
            STATUS_DATA, "%s is not read by this version; convert it to PNG", type.name);
    case FILE_IDX:
        return status_fail(STATUS_DATA,
                           "an IDX file, not a picture; name it alone to use it");
    case FILE_GZIP:
    case FILE_ARCHIVE:
        return status_fail(STATUS_DATA, "%s data, not a picture; unpack it", type.name);
    case FILE_ARRAYS:
        return status_fail(
            STATUS_DATA, "%s arrays, not a picture; save each image as a PNG", type.name);
    default:
        return status_fail(STATUS_DATA,
                           "not a picture: it begins with the bytes %02x %02x %02x %02x",
                           head[0], head[1], head[2], head[3]);
    }
}
