/* dataset.h - real images, decoded once and kept as bytes.
 * Flow:  path -> [dataset] -> batch -> discriminator.
 * Owns:  all pixels, [count, resolution, resolution, channels] u8.
 *
 * Opens, recognised by content: a file of MNIST's IDX images (plain or gzip), a folder
 * that holds one (train-images*), a folder of PNG files (recursive, sorted by path), one
 * PNG, "builtin:fashion" (2,000 images in the binary), "builtin:shapes" (procedural RGB),
 * and a name such as "fashion-mnist", looked up in known places (known.h); fashion-mnist
 * is found on every machine, if nowhere else then as builtin:fashion. All PNG colour
 * types and depths; 16 bit is reduced, alpha is composed over black unless 2 or 4
 * channels are asked for; grey <-> RGB as `channels` says. */
#ifndef APP_INPUT_DATASET_H
#define APP_INPUT_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "app/config/config.h"
#include "kernels/base/status.h"

#define DATASET_RESOLUTION_MAX 4096

struct dataset_options {
    // 28, 32, 64, 128; any from 1 to DATASET_RESOLUTION_MAX works. 0: 28 or 32 where that
    // is the size of all images, else 64.
    int resolution;
    int channels;      // 1..4; 0 = those of the first image, without its alpha
    int fit;           // enum fit
    int resize_filter; // enum resize_filter
    int strict;        // the first unusable file is an error
    int threads;       // for decoding; 0 = all cores. The result does not depend on it
    // Called now and then with (done, total) while decoding, on the caller's thread, and
    // at the end with (total, total); may be NULL.
    void (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
};

/* One file that could not be used, and why. */
struct dataset_reject {
    char *path;
    char *reason;
};

/* How many images had this size before they were resized. */
struct dataset_size {
    int width, height;
    size_t count;
};

struct dataset {
    char name[64];    // for the run folder: "fashion-mnist", "my-cats"
    char source[512]; // for a person: where it was found
    int resolution, channels;
    size_t count;
    uint8_t *pixels;
    char **files; // [count] path of each image, or NULL when they are not files
    struct dataset_reject *rejects; // in the order of their paths
    size_t reject_count;
    size_t passed_over;         // files in the folder that are no images: texts, lists
    struct dataset_size *sizes; // the most frequent first
    size_t size_count;
    size_t with_channels[5]; // images that had 1, 2, 3, 4 channels in their files
    uint64_t digest;         // of all pixels: resume refuses other data
};

/* STATUS_DATA names path, what was found and what was expected. An empty result (no image
 * could be used) is an error that lists the first rejects. */
enum status dataset_open(const char *path, const struct dataset_options *options,
                         struct dataset **dataset);
void dataset_close(struct dataset *dataset);

/* The same, but a result without any usable image is no error: `twinscale data check`
 * shows every reject. dataset_require_images() is the error that dataset_open() would
 * give. */
enum status dataset_scan(const char *path, const struct dataset_options *options,
                         struct dataset **dataset);
enum status dataset_require_images(const char *path, const struct dataset *dataset);

#endif
