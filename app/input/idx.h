/* idx.h - MNIST's file of images, plain or gzip.
 * Flow:  path -> [idx] -> the loader.
 * Owns:  its pixels; idx_release() frees them.
 *
 * The format, big endian: 0x00000803 (bytes, 3 dimensions), images, rows, columns,
 * pixels. Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits". */
#ifndef APP_INPUT_IDX_H
#define APP_INPUT_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define IDX_SIDE_MAX 4096u
#define IDX_BYTES_MAX ((uint64_t)64 << 30)

struct idx_images {
    size_t count;
    int rows, columns;
    uint8_t *pixels; // [count, rows, columns]
};

/* STATUS_DATA in one sentence that begins with the path. */
enum status idx_read(const char *path, struct idx_images *images);
void idx_release(struct idx_images *images);

#endif
