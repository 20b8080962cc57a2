/* sniff.h - what a file is, by its first bytes and, where these say nothing, by its name.
 * Flow:  a path -> [sniff] -> the reader that fits, or the reason why there is none.
 * Owns:  nothing between calls. */
#ifndef APP_INPUT_SNIFF_H
#define APP_INPUT_SNIFF_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

enum file_kind {
    FILE_OTHER, // nothing known
    FILE_EMPTY,
    FILE_PICTURE, // of a format in readers.h
    FILE_IMAGE,   // an image format that this program does not read
    FILE_IDX,     // MNIST's format, of whatever type and shape
    FILE_GZIP,
    FILE_ARCHIVE,
    FILE_ARRAYS // numbers in a form of their own: NumPy, HDF5
};

#define SNIFF_BYTES 264 // a tar archive is known by the bytes from 257 on

struct reader;

struct file_type {
    enum file_kind kind;
    const char *name;            // "JPEG", for messages
    const struct reader *reader; // of a picture
};

struct file_type sniff(const uint8_t *head, size_t size);

/* True when these bytes could be the beginning of a text, such as a CSV file. */
int is_text(const uint8_t *head, size_t size);

/* The reason why such a file is no data set, and what to do, as STATUS_DATA; `wrapping`
 * is "" or says what it lies in, " in gzip". STATUS_OK for any other type. */
enum status refuse_as_dataset(const char *path, struct file_type type,
                              const uint8_t *head, size_t size, const char *wrapping);

/* True when the name ends like that of an image: .png, .JPG ... */
int is_named_like_an_image(const char *path);

/* Reads the first SNIFF_BYTES (zeros after the end). STATUS_DATA with the reason alone,
 * without the path. */
enum status read_head(const char *path, uint8_t head[SNIFF_BYTES], size_t *size);

/* Reads a whole file; the caller frees *bytes. STATUS_DATA with the reason alone when it
 * cannot be read or is larger than `bytes_max`. */
enum status read_whole(const char *path, size_t bytes_max, uint8_t **bytes, size_t *size);

/* The reason why a file of this type cannot be used as an image, as STATUS_DATA. */
enum status refuse_type(struct file_type type, const uint8_t *head);

#endif
