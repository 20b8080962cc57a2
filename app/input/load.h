/* load.h - many pictures, decoded by several threads into one block of bytes.
 * Flow:  a source of pictures -> [load] -> the pixels of a data set.
 * Owns:  nothing between calls.
 *
 * A source is a folder, a file of many images or a generator; the loader alone knows
 * about channels, sizes, threads, rejects and progress. What it makes is the same for any
 * number of threads: picture i always comes before picture i + 1. */
#ifndef APP_INPUT_LOAD_H
#define APP_INPUT_LOAD_H

#include "app/input/dataset.h"
#include "app/input/picture.h"

struct picture_source {
    size_t count;
    const void *context;
    /* Makes picture `index`, which the loader releases; called from several threads at
     * once. STATUS_OK without pixels: not an image at all, passed over. STATUS_DATA: an
     * image that cannot be used, status_message() is the reason. Any other status ends
     * the loading. */
    enum status (*make)(const void *context, size_t index, struct picture *picture);
    /* The path of picture `index`; NULL when pictures are not files. */
    const char *(*path)(const void *context, size_t index);
};

/* Fills resolution, channels, count, pixels, files, rejects, sizes and digest. */
enum status load_pictures(const struct picture_source *source,
                          const struct dataset_options *options, struct dataset *dataset);

#endif
