/* safetensors_parse.c - the JSON header of a file that may hold anything. Each fault has
 * its own sentence, and nothing is trusted before it was compared. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/safetensors_header.h"

/* One entry of the header, while it is read. */
struct entry {
    const char *path;
    char name[SAFETENSORS_NAME_MAX]; // fit for a terminal
    json_t *json;
};

/* A text from a file may hold anything: nothing of it may steer the terminal. */
static const char *printable(const char *text, char *copy, size_t bytes)
{
    size_t i = 0;
    for (; text[i] && i + 1 < bytes; i++)
        copy[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
    copy[i] = '\0';
    return copy;
}

#define TEXT_LOOK 64 // bytes that decide whether a file is text

static int is_text(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count && i < TEXT_LOOK; i++)
        if ((bytes[i] < ' ' && !memchr("\t\n\r\f", bytes[i], 4)) || bytes[i] == 0x7f)
            return 0;
    return 1;
}

const char *safetensors_other_kind(const uint8_t *bytes, size_t count)
{
    static const struct {
        const char *head, *kind;
    } kinds[] = {
        {"\x89PNG", "a PNG picture"},
        {"PK\x03\x04", "a zip archive, as PyTorch's .pt and NumPy's .npz files are"},
        {"\x93NUMPY", "a NumPy array"},
        {"\x80\x02", "a Python pickle (.pkl, or .pt of old)"},
        {"\x80\x03", "a Python pickle"},
        {"\x80\x04", "a Python pickle"},
        {"\x80\x05", "a Python pickle"},
        {"\x1f\x8b", "gzip data"},
        {"GGUF", "a GGUF file"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].head);
        if (count >= length && memcmp(bytes, kinds[i].head, length) == 0)
            return kinds[i].kind;
    }
    if (!is_text(bytes, count))
        return NULL;
    return bytes[0] == '{' ? "JSON text (settings go with --preset to a new run)"
                           : "text";
}

static enum status parse_dtype(const struct entry *entry, struct safetensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(entry->json, "dtype"));
    if (!dtype)
        return status_fail(STATUS_DATA,
                           "%s: tensor \"%s\" has no dtype, a text such as \"F32\" was "
                           "expected; the header is damaged",
                           entry->path, entry->name);
    char shown[24];
    if (safetensors_dtype_bytes(dtype) == 0)
        return status_fail(
            STATUS_DATA,
            "%s: tensor \"%s\" has dtype \"%s\"; known are BOOL, U8 to U64, "
            "I8 to I64, F8_E4M3, F8_E5M2, F16, BF16, F32 and F64",
            entry->path, entry->name, printable(dtype, shown, sizeof shown));
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", dtype);
    return STATUS_OK;
}

static enum status parse_shape(const struct entry *entry, struct safetensor *tensor)
{
    json_t *shape = json_object_get(entry->json, "shape");
    if (!json_is_array(shape))
        return status_fail(
            STATUS_DATA,
            "%s: tensor \"%s\" has no shape, a list of sizes was expected; the "
            "header is damaged",
            entry->path, entry->name);
    if (json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return status_fail(
            STATUS_DATA, "%s: tensor \"%s\" has %zu dimensions, at most %d can be read",
            entry->path, entry->name, json_array_size(shape), SAFETENSORS_RANK_MAX);
    tensor->rank = (int)json_array_size(shape);
    for (int i = 0; i < tensor->rank; i++) {
        json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return status_fail(
                STATUS_DATA,
                "%s: size %d of tensor \"%s\" is not a whole number from 0 "
                "on; the header is damaged",
                entry->path, i, entry->name);
        tensor->shape[i] = json_integer_value(size);
    }
    return STATUS_OK;
}

/* Where the data lies, and that it is as long as the shape asks for. */
static enum status parse_offsets(const struct entry *entry, const uint8_t *data,
                                 size_t data_bytes, struct safetensor *tensor)
{
    json_t *offsets = json_object_get(entry->json, "data_offsets");
    json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) ||
        !json_is_integer(last))
        return status_fail(
            STATUS_DATA,
            "%s: tensor \"%s\" has no data_offsets, two whole numbers were "
            "expected; the header is damaged",
            entry->path, entry->name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uintmax_t)end > data_bytes)
        return status_fail(STATUS_DATA,
                           "%s: tensor \"%s\" lies at bytes %" JSON_INTEGER_FORMAT
                           " to %" JSON_INTEGER_FORMAT " of the data, which has %zu; the "
                           "file is cut short or damaged",
                           entry->path, entry->name, begin, end, data_bytes);
    tensor->data = data + begin;
    tensor->bytes = (size_t)(end - begin);
    size_t wanted;
    if (!safetensors_bytes(tensor, &wanted))
        return status_fail(
            STATUS_DATA,
            "%s: the shape of tensor \"%s\" is larger than any memory; the "
            "header is damaged",
            entry->path, entry->name);
    if (wanted != tensor->bytes)
        return status_fail(
            STATUS_DATA,
            "%s: tensor \"%s\" has %zu bytes of data, its shape and dtype ask "
            "for %zu; the header is damaged",
            entry->path, entry->name, tensor->bytes, wanted);
    return STATUS_OK;
}

static enum status parse_tensor(const struct entry *entry, const char *name,
                                const uint8_t *data, size_t data_bytes,
                                struct safetensor *tensor)
{
    if (strlen(name) >= sizeof tensor->name)
        return status_fail(
            STATUS_DATA,
            "%s: the tensor name \"%.20s...\" has %zu bytes, at most %zu can "
            "be read",
            entry->path, entry->name, strlen(name), sizeof tensor->name - 1);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    if (!json_is_object(entry->json))
        return status_fail(
            STATUS_DATA,
            "%s: the header entry \"%s\" is not an object with dtype, shape and "
            "data_offsets; the header is damaged",
            entry->path, entry->name);
    TRY(parse_dtype(entry, tensor));
    TRY(parse_shape(entry, tensor));
    return parse_offsets(entry, data, data_bytes, tensor);
}

static enum status parse_metadata(const char *path, json_t *metadata,
                                  struct safetensors_header *header)
{
    if (!json_is_object(metadata))
        return status_fail(STATUS_DATA,
                           "%s: its \"" SAFETENSORS_METADATA_KEY
                           "\" is not an object of texts; the header "
                           "is damaged",
                           path);
    header->pairs = calloc(json_object_size(metadata) + 1, sizeof *header->pairs);
    TRY_MEMORY(header->pairs, "the metadata of %s", path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        char shown[80];
        if (!json_is_string(value))
            return status_fail(STATUS_DATA,
                               "%s: metadata \"%s\" is not text; the header is damaged",
                               path, printable(key, shown, sizeof shown));
        struct safetensors_pair *pair = &header->pairs[header->pair_count++];
        pair->key = strdup(key);
        pair->value = strdup(json_string_value(value));
        TRY_MEMORY(pair->key && pair->value, "the metadata of %s", path);
    }
    return STATUS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    uintptr_t x_begin = (uintptr_t)x->data, y_begin = (uintptr_t)y->data;
    if (x_begin != y_begin)
        return x_begin < y_begin ? -1 : 1;
    // An empty tensor shares its place with the one that begins there: it comes first.
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorts by offset; then each tensor must begin where the one before it ended. */
static enum status check_layout(const char *path, const uint8_t *data, size_t data_bytes,
                                struct safetensors_header *header)
{
    qsort(header->tensors, header->count, sizeof *header->tensors, by_offset);
    size_t end = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct safetensor *tensor = &header->tensors[i];
        size_t begin = (size_t)((const uint8_t *)tensor->data - data);
        char shown[SAFETENSORS_NAME_MAX];
        if (begin != end)
            return status_fail(
                STATUS_DATA,
                "%s: tensor \"%s\" begins at byte %zu of the data, %s; %zu was "
                "expected; the header is damaged",
                path, printable(tensor->name, shown, sizeof shown), begin,
                begin < end ? "inside another one" : "after a hole", end);
        end += tensor->bytes;
    }
    if (end != data_bytes)
        return status_fail(
            STATUS_DATA,
            "%s: %zu bytes follow the header, its tensors fill %zu; the file "
            "is damaged or has something appended",
            path, data_bytes, end);
    return STATUS_OK;
}

static enum status parse_entries(const char *path, json_t *root, const uint8_t *data,
                                 size_t data_bytes, struct safetensors_header *header)
{
    header->tensors = calloc(json_object_size(root) + 1, sizeof *header->tensors);
    TRY_MEMORY(header->tensors, "the tensors of %s", path);
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        if (strcmp(name, SAFETENSORS_METADATA_KEY) == 0) {
            TRY(parse_metadata(path, value, header));
            continue;
        }
        struct entry entry = {.path = path, .json = value};
        printable(name, entry.name, sizeof entry.name);
        TRY(parse_tensor(&entry, name, data, data_bytes,
                         &header->tensors[header->count++]));
    }
    return check_layout(path, data, data_bytes, header);
}

enum status safetensors_header_parse(const char *path, const char *text,
                                     size_t text_bytes, const uint8_t *data,
                                     size_t data_bytes, struct safetensors_header *header)
{
    memset(header, 0, sizeof *header);
    if (text_bytes == 0 || text[0] != '{')
        return status_fail(
            STATUS_DATA,
            "%s: the header does not begin with '{'; this is not a safetensors "
            "file",
            path);
    json_error_t error;
    json_t *root = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &error);
    char shown[JSON_ERROR_TEXT_LENGTH];
    // jansson has no words for what it had no memory for, nor always the code.
    if (!root && (json_error_code(&error) == json_error_out_of_memory || !error.text[0]))
        return status_fail(STATUS_FAILED, "%s: out of memory for its header", path);
    if (!root)
        return status_fail(STATUS_DATA,
                           "%s: the header is not valid JSON at byte %d: %s; this is no "
                           "safetensors file, or it is damaged",
                           path, error.position,
                           printable(error.text, shown, sizeof shown));
    enum status status = parse_entries(path, root, data, data_bytes, header);
    json_decref(root);
    if (status != STATUS_OK)
        safetensors_header_release(header);
    return status;
}
