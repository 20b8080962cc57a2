#include "app/input/batch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

enum { AHEAD = 2 }; // batches that are ready beside those in the caller's hands

struct batch_stream {
    const struct dataset *dataset;
    struct device *device;
    struct batch_options options;
    size_t image_bytes;
    uint64_t next_image; // the thread's: the first image of the batch to fill
    uint32_t *order;     // [dataset->count], of epoch `order_epoch`
    uint64_t order_epoch;
    uint8_t **buffers;
    uint64_t buffer_count;

    pthread_t thread;
    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t changed;
    uint64_t filled, returned; // batches so far; batch b lies in buffer b % buffer_count
    uint64_t lent;             // of those from `returned` on, in the caller's hands
    int is_closing;
};

/* Writes the order of one epoch.
 *   for i = n-1 .. 1:  swap order[i], order[j],  j = floor(u (i+1) / 2^64)
 * u: 64 bits of philox(seed, STREAM_SHUFFLE, epoch, i / 2), the upper or the lower half.
 * Source: Fisher, Yates; Durstenfeld 1964, Algorithm 235. */
static void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        struct philox_words random = philox(seed, STREAM_SHUFFLE, epoch, i / 2);
        unsigned half = i % 2 * 2;
        uint64_t u = (uint64_t)random.word[half] << 32 | random.word[half + 1];
        size_t j = (size_t)(((unsigned __int128)u * (i + 1)) >> 64);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

enum status batch_indices(const struct dataset *dataset, uint64_t seed, uint64_t first,
                          size_t count, size_t *indices)
{
    CHECK(dataset->count > 0 && dataset->count <= UINT32_MAX, "%zu", dataset->count);
    uint32_t *order = malloc(dataset->count * sizeof *order);
    TRY_MEMORY(order, "the order of %zu images", dataset->count);
    for (size_t i = 0; i < count; i++) {
        uint64_t image = first + i;
        if (i == 0 || image % dataset->count == 0)
            shuffle(order, dataset->count, seed, image / dataset->count);
        indices[i] = order[image % dataset->count];
    }
    free(order);
    return STATUS_OK;
}

static size_t image_bytes(const struct dataset *dataset)
{
    return (size_t)dataset->resolution * (size_t)dataset->resolution *
           (size_t)dataset->channels;
}

enum status batch_first_images(const struct dataset *dataset, uint64_t seed, size_t count,
                               uint8_t *pixels)
{
    size_t bytes = image_bytes(dataset);
    size_t *indices = malloc(count * sizeof *indices);
    CHECK(count <= dataset->count, "%zu of %zu images", count, dataset->count);
    TRY_MEMORY(indices, "the order of %zu images", count);
    enum status status = batch_indices(dataset, seed, 0, count, indices);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        memcpy(pixels + i * bytes, dataset->pixels + indices[i] * bytes, bytes);
    free(indices);
    return status;
}

/* Copies the rows of the next batch; the order is remade where an epoch begins. */
static void fill(struct batch_stream *stream, uint8_t *buffer)
{
    const struct batch_options *options = &stream->options;
    size_t count = stream->dataset->count;
    for (size_t i = 0; i < (size_t)options->rows; i++) {
        uint64_t image = stream->next_image + (uint64_t)options->first_row + i;
        if (image / count != stream->order_epoch) {
            stream->order_epoch = image / count;
            shuffle(stream->order, count, options->seed, stream->order_epoch);
        }
        size_t index = stream->order[image % count];
        memcpy(buffer + i * stream->image_bytes,
               stream->dataset->pixels + index * stream->image_bytes,
               stream->image_bytes);
    }
    stream->next_image += (uint64_t)options->size;
}

/* Keeps the buffers full. A buffer that the caller holds counts as taken. */
static void *prefetch(void *argument)
{
    struct batch_stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->is_closing &&
               stream->filled - stream->returned == stream->buffer_count)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        if (stream->is_closing)
            break;
        uint8_t *buffer = stream->buffers[stream->filled % stream->buffer_count];
        pthread_mutex_unlock(&stream->mutex);
        fill(stream, buffer);
        pthread_mutex_lock(&stream->mutex);
        stream->filled++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

/* Signals are the main thread's: Ctrl-C must not be delivered here. */
static int start_thread(struct batch_stream *stream)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&stream->thread, NULL, prefetch, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void release(struct batch_stream *stream)
{
    for (uint64_t i = 0; stream->buffers && i < stream->buffer_count; i++)
        if (stream->buffers[i])
            stream->device->ops->memory.release_host(stream->device, stream->buffers[i]);
    free(stream->buffers);
    free(stream->order);
    free(stream);
}

static int alloc_buffers(struct batch_stream *stream)
{
    const struct batch_options *options = &stream->options;
    stream->buffer_count = (uint64_t)options->kept + AHEAD;
    stream->order = malloc(stream->dataset->count * sizeof *stream->order);
    stream->buffers = calloc(stream->buffer_count, sizeof *stream->buffers);
    int is_complete = stream->order && stream->buffers;
    for (uint64_t i = 0; is_complete && i < stream->buffer_count; i++) {
        stream->buffers[i] = stream->device->ops->memory.alloc_host(
            stream->device, (size_t)options->rows * stream->image_bytes);
        is_complete = stream->buffers[i] != NULL;
    }
    return is_complete;
}

static enum status prepare(struct batch_stream *stream)
{
    if (!alloc_buffers(stream))
        return status_fail(STATUS_FAILED, "no memory for batches of %d images",
                           stream->options.rows);
    size_t count = stream->dataset->count;
    stream->order_epoch = stream->next_image / count;
    shuffle(stream->order, count, stream->options.seed, stream->order_epoch);

    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    int error = start_thread(stream);
    if (error == 0)
        return STATUS_OK;
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    return status_fail(STATUS_FAILED, "no thread to read images ahead: %s",
                       strerror(error));
}

enum status batch_open(const struct dataset *dataset, struct device *device,
                       const struct batch_options *options, struct batch_stream **stream)
{
    int size = options->size;
    CHECK(size > 0 && options->rows > 0 && options->kept > 0, "batch of %d", size);
    CHECK(dataset->count <= UINT32_MAX, "%zu images", dataset->count);
    *stream = NULL;
    if (dataset->count < 2) // batch norm refuses a batch of 1, so that is no advice
        return status_fail(
            STATUS_DATA,
            "%s: only %zu image, fewer than one batch of %d; give more images",
            dataset->source, dataset->count, size);
    if (dataset->count < (size_t)size)
        return status_fail(STATUS_DATA,
                           "%s: %zu images, fewer than one batch of %d; give at most "
                           "--batch %zu, or more images",
                           dataset->source, dataset->count, size, dataset->count);
    struct batch_stream *opened = calloc(1, sizeof *opened);
    if (!opened)
        return status_fail(STATUS_FAILED, "no memory for batches of %d images", size);
    opened->dataset = dataset;
    opened->device = device;
    opened->options = *options;
    opened->image_bytes = image_bytes(dataset);
    opened->next_image = options->first_image;
    enum status status = prepare(opened);
    if (status != STATUS_OK) {
        release(opened);
        return status;
    }
    *stream = opened;
    return STATUS_OK;
}

void batch_close(struct batch_stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->is_closing = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    release(stream);
}

const uint8_t *batch_next(struct batch_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    if (stream->lent == (uint64_t)stream->options.kept) {
        stream->returned++;
        stream->lent--;
        pthread_cond_broadcast(&stream->changed);
    }
    while (stream->filled == stream->returned + stream->lent)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    uint64_t next = stream->returned + stream->lent++;
    const uint8_t *batch = stream->buffers[next % stream->buffer_count];
    pthread_mutex_unlock(&stream->mutex);
    return batch;
}
