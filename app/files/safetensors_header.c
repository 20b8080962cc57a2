#include "app/files/safetensors_header.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/files/file_name.h"
#include "app/files/json_text.h"

/* ---- dtypes and sizes ------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8},
};

size_t safetensors_dtype_bytes(const char *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0)
            return dtypes[i].bytes;
    return 0;
}

int safetensors_bytes(const struct safetensor *tensor, size_t *bytes)
{
    size_t product = safetensors_dtype_bytes(tensor->dtype);
    if (product == 0)
        return 0;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 ||
            __builtin_mul_overflow(product, (size_t)tensor->shape[i], &product))
            return 0;
    *bytes = product;
    return 1;
}

void safetensors_header_release(struct safetensors_header *header)
{
    for (size_t i = 0; i < header->pair_count; i++) {
        free((void *)(uintptr_t)header->pairs[i].key);
        free((void *)(uintptr_t)header->pairs[i].value);
    }
    free(header->pairs);
    free(header->tensors);
    memset(header, 0, sizeof *header);
}

/* ---- composing ------------------------------------------------------------------- */

static int is_utf8(const char *text)
{
    size_t length = 1;
    for (; text[0] && length; text += length)
        length = utf8_length((const unsigned char *)text);
    return length != 0;
}

static enum status compose_metadata(const char *path,
                                    const struct safetensors_header *header, json_t *root)
{
    json_t *metadata = json_object();
    uint64_t digest;
    TRY_MEMORY(json_object_set_new(root, SAFETENSORS_METADATA_KEY, metadata) == 0,
               "the metadata of %s", path);
    for (size_t i = 0; i < header->pair_count; i++) {
        const struct safetensors_pair *pair = &header->pairs[i];
        CHECK(!json_object_get(metadata, pair->key), "metadata %s twice", pair->key);
        if (!is_utf8(pair->value))
            return status_fail(STATUS_FAILED,
                               "%s: not written: the metadata \"%s\" is not UTF-8 text; "
                               "rename the file or folder that it names",
                               path, pair->key);
        TRY_MEMORY(json_object_set_new(metadata, pair->key,
                                       json_string_nocheck(pair->value)) == 0,
                   "the metadata of %s", path);
    }
    char checksum[SAFETENSORS_CHECKSUM_BYTES];
    TRY(safetensors_checksum(path, header, &digest));
    snprintf(checksum, sizeof checksum, "%016" PRIx64, digest);
    TRY_MEMORY(json_object_set_new(metadata, SAFETENSORS_CHECKSUM_KEY,
                                   json_string(checksum)) == 0,
               "the metadata of %s", path);
    return STATUS_OK;
}

static enum status compose_tensor(const struct safetensor *tensor, size_t begin,
                                  json_t *root)
{
    size_t bytes;
    CHECK(tensor->rank >= 0 && tensor->rank <= SAFETENSORS_RANK_MAX, "%s", tensor->name);
    CHECK(safetensors_bytes(tensor, &bytes), "%s: dtype %s", tensor->name, tensor->dtype);
    CHECK(bytes == tensor->bytes, "%s: %zu bytes, its shape has %zu", tensor->name,
          tensor->bytes, bytes);
    CHECK(!json_object_get(root, tensor->name), "two tensors are named %s", tensor->name);
    json_t *shape = json_array();
    int failed = 0;
    for (int i = 0; i < tensor->rank; i++)
        failed |= json_array_append_new(shape, json_integer(tensor->shape[i]));
    json_t *entry =
        json_pack("{s:s, s:o, s:[I,I]}", "dtype", tensor->dtype, "shape", shape,
                  "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
    failed |= json_object_set_new(root, tensor->name, entry);
    TRY_MEMORY(!failed, "the description of %s", tensor->name);
    return STATUS_OK;
}

static enum status dump_padded(const char *path, const json_t *root, char **text,
                               size_t *text_bytes)
{
    char *json = json_text(root, JSON_COMPACT);
    TRY_MEMORY(json, "the header of %s", path);
    size_t length = strlen(json);
    *text_bytes = (length + 7) / 8 * 8;
    *text = malloc(*text_bytes + 1);
    if (*text)
        snprintf(*text, *text_bytes + 1, "%-*s", (int)*text_bytes, json);
    free(json);
    TRY_MEMORY(*text, "the header of %s", path);
    return STATUS_OK;
}

enum status safetensors_header_compose(const char *path,
                                       const struct safetensors_header *h, char **text,
                                       size_t *text_bytes)
{
    json_t *root = json_object();
    TRY_MEMORY(root, "the header of %s", path);
    enum status status = compose_metadata(path, h, root);
    size_t begin = 0;
    for (size_t i = 0; i < h->count && status == STATUS_OK; i++) {
        status = compose_tensor(&h->tensors[i], begin, root);
        begin += h->tensors[i].bytes;
    }
    if (status == STATUS_OK)
        status = dump_padded(path, root, text, text_bytes);
    json_decref(root);
    return status;
}

/* ---- checksum -------------------------------------------------------------------- */

static uint64_t digest_text(uint64_t digest, const char *text)
{
    return digest_bytes(digest, text, strlen(text) + 1);
}

static uint64_t digest_number(uint64_t digest, int64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)number >> (8 * i));
    return digest_bytes(digest, bytes, sizeof bytes);
}

static int by_key(const void *a, const void *b)
{
    const struct safetensors_pair *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static enum status digest_metadata(const char *path,
                                   const struct safetensors_header *header,
                                   uint64_t *digest)
{
    struct safetensors_pair *sorted = calloc(header->pair_count + 1, sizeof *sorted);
    TRY_MEMORY(sorted, "the checksum of %s", path);
    if (header->pair_count)
        memcpy(sorted, header->pairs, header->pair_count * sizeof *sorted);
    qsort(sorted, header->pair_count, sizeof *sorted, by_key);
    for (size_t i = 0; i < header->pair_count; i++) {
        if (strcmp(sorted[i].key, SAFETENSORS_CHECKSUM_KEY) == 0)
            continue;
        *digest = digest_text(*digest, sorted[i].key);
        *digest = digest_text(*digest, sorted[i].value);
    }
    free(sorted);
    return STATUS_OK;
}

const void *safetensors_data(const struct safetensors_header *header,
                             const struct safetensor *tensor)
{
    const struct safetensors_source *source = header->source;
    return source ? source->data(source->context, tensor) : tensor->data;
}

// The whole pages among `bytes`; the next look at them reads the file again.
static void give_back(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (first < end)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

static uint64_t digest_tensor(uint64_t digest, const struct safetensors_header *header,
                              const struct safetensor *tensor)
{
    digest = digest_text(digest, tensor->name);
    digest = digest_text(digest, tensor->dtype);
    digest = digest_number(digest, tensor->rank);
    for (int i = 0; i < tensor->rank; i++)
        digest = digest_number(digest, tensor->shape[i]);
    const void *data = safetensors_data(header, tensor);
    digest = digest_bytes(digest, data, tensor->bytes);
    if (header->is_mapped)
        give_back(data, tensor->bytes);
    return digest;
}

static int by_name(const void *a, const void *b)
{
    const struct safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

enum status safetensors_checksum(const char *path,
                                 const struct safetensors_header *header,
                                 uint64_t *checksum)
{
    uint64_t digest = DIGEST_START;
    TRY(digest_metadata(path, header, &digest));
    const struct safetensor **sorted = calloc(header->count + 1, sizeof *sorted);
    TRY_MEMORY(sorted, "the checksum of %s", path);
    for (size_t i = 0; i < header->count; i++)
        sorted[i] = &header->tensors[i];
    qsort(sorted, header->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < header->count; i++)
        digest = digest_tensor(digest, header, sorted[i]);
    free(sorted);
    *checksum = digest;
    return STATUS_OK;
}
