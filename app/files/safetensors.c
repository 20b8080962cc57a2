#include "app/files/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/files/atomic_file.h"
#include "app/files/safetensors_header.h"
#include "app/files/regular_file.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "tensor data is stored little endian");

#define LENGTH_BYTES 8              // the u64 in front of the header
#define HEADER_BYTES_MAX 100000000u // the format's own bound

struct safetensors_file {
    void *mapped;
    size_t mapped_bytes;
    struct safetensors_header header;
};

/* ---- reading --------------------------------------------------------------------- */

// What the machine lacks says nothing about the file.
static enum status unread_status(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE ? STATUS_FAILED
                                                                 : STATUS_DATA;
}

static enum status map_stream(const char *path, FILE *stream,
                              struct safetensors_file *file)
{
    struct stat facts;
    if (fstat(fileno(stream), &facts) != 0)
        return status_fail(STATUS_DATA, "%s: cannot be read: %s", path, strerror(errno));
    if (facts.st_size < LENGTH_BYTES)
        return status_fail(
            STATUS_DATA,
            "%s: has %lld bytes, a safetensors file has at least %d; it was "
            "cut short",
            path, (long long)facts.st_size, LENGTH_BYTES);
    size_t bytes = (size_t)facts.st_size;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
    if (mapped == MAP_FAILED)
        return status_fail(unread_status(errno), "%s: its %zu bytes cannot be mapped: %s",
                           path, bytes, strerror(errno));
    file->mapped = mapped;
    file->mapped_bytes = bytes;
    return STATUS_OK;
}

static enum status map_file(const char *path, struct safetensors_file *file)
{
    char reason[REGULAR_REASON];
    FILE *stream = regular_open(path, "r", "a safetensors file", reason);
    if (!stream)
        return status_fail(unread_status(errno), "%s: %s", path, reason);
    enum status status = map_stream(path, stream, file);
    fclose(stream);
    return status;
}

static enum status check_checksum(const char *path, const struct safetensors_file *file)
{
    const char *format = safetensors_metadata(file, "format");
    int is_ours = format && strcmp(format, "twinscale") == 0;
    for (size_t i = 0; i < file->header.pair_count; i++)
        is_ours |= strncmp(file->header.pairs[i].key, "twinscale.", 10) == 0;
    const char *kept = safetensors_metadata(file, SAFETENSORS_CHECKSUM_KEY);
    if (!kept && !is_ours)
        return STATUS_OK; // another program's file
    if (!kept)
        return status_fail(
            STATUS_DATA,
            "%s: its checksum is missing (metadata \"" SAFETENSORS_CHECKSUM_KEY
            "\"); the file is damaged, use an older one",
            path);
    char computed[SAFETENSORS_CHECKSUM_BYTES];
    uint64_t digest;
    TRY(safetensors_checksum(path, &file->header, &digest));
    snprintf(computed, sizeof computed, "%016" PRIx64, digest);
    if (strcmp(kept, computed) != 0)
        return status_fail(
            STATUS_DATA,
            "%s: the checksum over its contents is %s, %.16s was written; the "
            "file is damaged, use an older one",
            path, computed, kept);
    return STATUS_OK;
}

static enum status read_mapped(const char *path, struct safetensors_file *file)
{
    const uint8_t *bytes = file->mapped;
    uint64_t header_bytes;
    memcpy(&header_bytes, bytes, sizeof header_bytes);
    size_t rest = file->mapped_bytes - LENGTH_BYTES;
    // A snapshot that was cut short may begin like one of them, but goes on with '{'.
    const char *other =
        header_bytes > HEADER_BYTES_MAX || (rest && bytes[LENGTH_BYTES] != '{')
            ? safetensors_other_kind(bytes, file->mapped_bytes)
            : NULL;
    if (other)
        return status_fail(STATUS_DATA,
                           "%s: is %s, no checkpoint; give a run folder or a "
                           "snapshot-*.safetensors",
                           path, other);
    if (header_bytes > HEADER_BYTES_MAX)
        return status_fail(STATUS_DATA,
                           "%s: claims a header of %" PRIu64
                           " bytes, at most %u are allowed; "
                           "this is not a safetensors file",
                           path, header_bytes, HEADER_BYTES_MAX);
    if (header_bytes > rest)
        return status_fail(STATUS_DATA,
                           "%s: claims a header of %" PRIu64
                           " bytes, %zu are left; the file "
                           "was cut short or is not a safetensors file",
                           path, header_bytes, rest);
    const uint8_t *data = bytes + LENGTH_BYTES + header_bytes;
    TRY(safetensors_header_parse(path, (const char *)bytes + LENGTH_BYTES,
                                 (size_t)header_bytes, data, rest - (size_t)header_bytes,
                                 &file->header));
    file->header.is_mapped = 1;
    return check_checksum(path, file);
}

enum status safetensors_open(const char *path, struct safetensors_file **file)
{
    struct safetensors_file *opened = calloc(1, sizeof *opened);
    *file = NULL;
    TRY_MEMORY(opened, "%s", path);
    enum status status = map_file(path, opened);
    if (status == STATUS_OK)
        status = read_mapped(path, opened);
    if (status != STATUS_OK) {
        safetensors_close(opened);
        opened = NULL;
    }
    *file = opened;
    return status;
}

void safetensors_close(struct safetensors_file *file)
{
    if (!file)
        return;
    safetensors_header_release(&file->header);
    if (file->mapped)
        munmap(file->mapped, file->mapped_bytes);
    free(file);
}

size_t safetensors_count(const struct safetensors_file *file)
{
    return file->header.count;
}

const struct safetensor *safetensors_at(const struct safetensors_file *file, size_t index)
{
    CHECK(index < file->header.count, "%zu of %zu", index, file->header.count);
    return &file->header.tensors[index];
}

const struct safetensor *safetensors_find(const struct safetensors_file *file,
                                          const char *name)
{
    for (size_t i = 0; i < file->header.count; i++)
        if (strcmp(file->header.tensors[i].name, name) == 0)
            return &file->header.tensors[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors_file *file, const char *key)
{
    for (size_t i = 0; i < file->header.pair_count; i++)
        if (strcmp(file->header.pairs[i].key, key) == 0)
            return file->header.pairs[i].value;
    return NULL;
}

/* ---- writing --------------------------------------------------------------------- */

/* Copies of the descriptions, wide dtypes first, the given order within a width; NULL
 * without memory. */
static struct safetensor *in_file_order(const struct safetensor *tensors, size_t count)
{
    struct safetensor *ordered = calloc(count + 1, sizeof *ordered);
    if (!ordered)
        return NULL;
    size_t used = 0;
    for (size_t width = 8; width >= 1; width /= 2)
        for (size_t i = 0; i < count; i++)
            if (safetensors_dtype_bytes(tensors[i].dtype) == width)
                ordered[used++] = tensors[i];
    CHECK(used == count, "%zu of %zu tensors have a known dtype", used, count);
    return ordered;
}

/* The last word before the rename: what the disk gives back is what was meant. Byte by
 * byte, since a parser needs memory, and what it lacks says nothing about the disk. */
static enum status verify(const struct atomic_file *file, uint64_t written)
{
    char block[16384], reason[REGULAR_REASON];
    uint64_t found = DIGEST_START;
    size_t bytes;
    FILE *stream = regular_open(file->temporary, "r", "a safetensors file", reason);
    if (!stream)
        return status_fail(STATUS_FAILED,
                           "%s: not saved: what was written could not be verified (%s)",
                           file->path, reason);
    while ((bytes = fread(block, 1, sizeof block, stream)) > 0)
        found = digest_bytes(found, block, bytes);
    int failed = ferror(stream);
    fclose(stream);
    if (!failed && found == written)
        return STATUS_OK;
    return status_fail(
        STATUS_FAILED,
        "%s: not saved: what was read back is not what was written; the disk may be "
        "failing",
        file->path);
}

static void put(struct atomic_file *file, const void *data, size_t bytes,
                uint64_t *written)
{
    if (bytes)
        fwrite(data, 1, bytes, file->stream);
    *written = digest_bytes(*written, data, bytes);
}

static enum status write_file(const char *path, const char *text, size_t text_bytes,
                              const struct safetensors_header *header)
{
    struct atomic_file file;
    uint64_t length = text_bytes, written = DIGEST_START;
    TRY(atomic_open(&file, path));
    file.bytes_expected = LENGTH_BYTES + text_bytes;
    for (size_t i = 0; i < header->count; i++)
        file.bytes_expected += header->tensors[i].bytes;
    put(&file, &length, sizeof length, &written);
    put(&file, text, text_bytes, &written);
    for (size_t i = 0; i < header->count; i++)
        if (header->tensors[i].bytes)
            put(&file, safetensors_data(header, &header->tensors[i]),
                header->tensors[i].bytes, &written);
    TRY(atomic_sync(&file));
    enum status status = verify(&file, written);
    if (status != STATUS_OK) {
        atomic_discard(&file);
        return status;
    }
    return atomic_commit(&file);
}

enum status safetensors_write(const char *path, const struct safetensor *tensors,
                              size_t count, const struct safetensors_pair *metadata,
                              size_t pair_count, const struct safetensors_source *source)
{
    struct safetensors_header header = {
        .tensors = in_file_order(tensors, count),
        .count = count,
        .pairs = (struct safetensors_pair *)(uintptr_t)metadata,
        .pair_count = pair_count,
        .source = source,
    };
    TRY_MEMORY(header.tensors, "%zu tensors of %s", count, path);
    char *text = NULL;
    size_t text_bytes = 0;
    enum status status = safetensors_header_compose(path, &header, &text, &text_bytes);
    if (status == STATUS_OK)
        status = write_file(path, text, text_bytes, &header);
    free(text);
    free(header.tensors);
    return status;
}
