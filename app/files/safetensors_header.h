/* safetensors_header.h - the JSON header of a safetensors file, to text and back.
 * Flow:  safetensors_write -> [compose] -> file;  file -> [parse] -> safetensors_open.
 * Owns:  nothing between calls; what parse allocates goes with
 * safetensors_header_release().
 *
 * Parsing is strict, since the file may be anything: every sentence says what was found.
 */
#ifndef APP_FILES_SAFETENSORS_HEADER_H
#define APP_FILES_SAFETENSORS_HEADER_H

#include "app/files/safetensors.h"

#define SAFETENSORS_METADATA_KEY "__metadata__"
#define SAFETENSORS_CHECKSUM_KEY "twinscale.checksum"
#define SAFETENSORS_CHECKSUM_BYTES 17 // 16 hex digits and the end

struct safetensors_header {
    struct safetensor *tensors; // in the order of their data, which has no holes
    size_t count;
    struct safetensors_pair *pairs; // strings owned
    size_t pair_count;
    const struct safetensors_source *source; // of the data, or NULL
    int is_mapped;                           // the data is a mapped file's
};

const void *safetensors_data(const struct safetensors_header *header,
                             const struct safetensor *tensor);

/* Bytes of one element, 0 for a dtype that is not known. */
size_t safetensors_dtype_bytes(const char *dtype);

/* product(shape) * bytes of an element; 0 and *bytes unset when it does not fit size_t,
 * the dtype is unknown, or a dimension is negative; else 1. */
int safetensors_bytes(const struct safetensor *tensor, size_t *bytes);

/* `text` is the header alone; data (data_bytes of it) is only pointed into. On failure
 * nothing is left to release. `path` begins every sentence. */
enum status safetensors_header_parse(const char *path, const char *text,
                                     size_t text_bytes, const uint8_t *data,
                                     size_t data_bytes,
                                     struct safetensors_header *header);
void safetensors_header_release(struct safetensors_header *header);

/* The header as JSON padded to 8 bytes with spaces, offsets in the order of `tensors`;
 * the pair of the checksum is added. The caller frees. STATUS_FAILED if a text is not
 * UTF-8, or without memory. */
enum status safetensors_header_compose(const char *path,
                                       const struct safetensors_header *h, char **text,
                                       size_t *text_bytes);

/* 64 bits over names, dtypes, shapes, metadata (any order, without the checksum) and
 * data. Pages of a mapped file are given back as soon as they are read, so that looking
 * at a checkpoint does not take the memory of one. STATUS_FAILED without memory. */
enum status safetensors_checksum(const char *path,
                                 const struct safetensors_header *header,
                                 uint64_t *checksum);

/* What a file that does not begin as a safetensors file is by its first bytes, for a
 * sentence ("a PNG picture"); NULL when nothing known. */
const char *safetensors_other_kind(const uint8_t *bytes, size_t count);

#endif
