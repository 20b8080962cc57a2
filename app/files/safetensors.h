/* safetensors.h - one file of named tensors, written whole or not at all.
 * Flow:  checkpoint, export -> [safetensors] -> disk, and back.
 * Owns:  the file while it is open; a reader owns the mapped bytes.
 *
 * Format: u64 little-endian header length, JSON header padded with spaces to 8 bytes
 * ({"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__": {string: string}}),
 * then the data, without holes. Writing goes to a temporary file, fsync, read back
 * (length and checksum), rename, fsync of the folder. The metadata key
 * "twinscale.checksum" holds 64 bits over the data and over what the header says (names,
 * dtypes, shapes, metadata); other programs may lay the same header out anew without
 * breaking it. Source: the safetensors format description,
 * github.com/huggingface/safetensors. */
#ifndef APP_FILES_SAFETENSORS_H
#define APP_FILES_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/digest.h"
#include "kernels/base/status.h"

#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_NAME_MAX 96

struct safetensor {
    char name[SAFETENSORS_NAME_MAX];
    char dtype[8]; // "F32", "F16", "BF16", "I64", "U8" ...
    int rank;      // 0: one element
    int64_t shape[SAFETENSORS_RANK_MAX];
    const void *data;
    size_t bytes;
};

struct safetensors_pair {
    const char *key, *value;
};

/* Where the data of tensors comes from that are not in memory all at once: `data` returns
 * the tensor's bytes, good until the next call. Asked for twice: for the checksum, which
 * stands before the data, and to be written. */
struct safetensors_source {
    const void *(*data)(void *context, const struct safetensor *tensor);
    void *context;
};

/* Writes all of it, wide dtypes first (empty tensors before them), so that every element
 * of a mapped file is aligned; otherwise in the order given. On failure (disk full ...)
 * STATUS_FAILED with path, bytes and reason, no temporary file is left, and an older file
 * of that name is untouched. Aborts for a dtype that the format does not know, bytes that
 * are not the shape's, or a name used twice. `source` may be NULL: every tensor has
 * data. */
enum status safetensors_write(const char *path, const struct safetensor *tensors,
                              size_t count, const struct safetensors_pair *metadata,
                              size_t pair_count, const struct safetensors_source *source);

struct safetensors_file;

/* STATUS_DATA with what was found and expected: too short, header not JSON, offsets that
 * overlap, leave a hole or pass the end, checksum mismatch. Any safetensors file opens;
 * the checksum is verified if present, and must be there beside other keys "twinscale.*".
 */
enum status safetensors_open(const char *path, struct safetensors_file **file);
void safetensors_close(struct safetensors_file *file);

/* Tensors in the order of their data. In files of other programs `data` may be unaligned.
 */
size_t safetensors_count(const struct safetensors_file *file);
const struct safetensor *safetensors_at(const struct safetensors_file *file,
                                        size_t index);
/* NULL if there is none. */
const struct safetensor *safetensors_find(const struct safetensors_file *file,
                                          const char *name);
const char *safetensors_metadata(const struct safetensors_file *file, const char *key);

#endif
