/* batch.h - real images, shuffled and ready for the discriminator.
 * Flow:  dataset -> [batch] -> device -> discriminator.
 * Owns:  a prefetch thread and its buffers.  Borrows: the dataset and the device, until
 *        batch_close().
 *
 * The order is a function of (seed, epoch): a Philox-keyed Fisher-Yates shuffle of each
 * epoch. Images are numbered from 0 over the whole run; image k of the run is element
 * k mod count of epoch k / count, so a batch may span two epochs and none is dropped; a
 * resumed run continues mid-epoch from its image counter alone. */
#ifndef APP_INPUT_BATCH_H
#define APP_INPUT_BATCH_H

#include "app/input/dataset.h"
#include "kernels/device.h"

struct batch_stream;

struct batch_options {
    int size;            // of the whole batch, over all devices
    int first_row, rows; // the share of it that is wanted here
    int kept;            // a batch stays valid for this many further calls, from 1
    uint64_t seed;
    uint64_t first_image; // of the run, with which to begin
};

/* STATUS_DATA when the data set has fewer images than one batch, with both numbers. The
 * buffers are host memory of `device` (memory.alloc_host). */
enum status batch_open(const struct dataset *dataset, struct device *device,
                       const struct batch_options *options, struct batch_stream **stream);
void batch_close(struct batch_stream *stream);

/* The next [rows, H, W, C] u8. Waits for the prefetch thread. */
const uint8_t *batch_next(struct batch_stream *stream);

/* Indices in the data set of `count` images of a run from number `first` on (what
 * batch_next() delivers); one shuffle an epoch. STATUS_FAILED without memory. */
enum status batch_indices(const struct dataset *dataset, uint64_t seed, uint64_t first,
                          size_t count, size_t *indices);
/* Copies a run's first `count` images, at most an epoch: [count, H, W, C] u8. */
enum status batch_first_images(const struct dataset *dataset, uint64_t seed, size_t count,
                               uint8_t *pixels);

#endif
