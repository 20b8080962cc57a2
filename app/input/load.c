#include "app/input/load.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/resize.h"
#include "kernels/base/digest.h"

enum outcome { OUTCOME_UNKNOWN, OUTCOME_PASSED_OVER, OUTCOME_REJECTED, OUTCOME_USED };

/* What became of one picture. */
struct result {
    enum outcome outcome;
    int width, height, channels; // before any change
    uint64_t digest;             // of its bytes in the data set
    char *reason;                // owned; of a reject
};

struct loader {
    const struct picture_source *source;
    const struct dataset_options *options;
    int channels; // 0 until the first usable picture
    size_t picture_bytes;
    uint8_t *pixels; // [source->count, picture_bytes]
    struct result *results;
    atomic_size_t done;
    // The lowest picture that ended the loading, and why; later ones need not be tried,
    // all earlier ones are, so that the error does not depend on the threads.
    atomic_size_t stop_at;
    enum status stop_status;
    char *stop_reason;
};

/* Room for all pictures, once their channels are known. */
static enum status alloc_pixels(struct loader *loader, int channels)
{
    size_t side = (size_t)loader->options->resolution;
    loader->channels = channels;
    loader->picture_bytes = side * side * (size_t)channels;
    size_t count = loader->source->count;
    if (count <= SIZE_MAX / loader->picture_bytes)
        loader->pixels = malloc(count * loader->picture_bytes);
    if (!loader->pixels)
        return status_fail(STATUS_FAILED,
                           "no memory for %zu images of %d x %d pixels and %d channels; "
                           "give fewer images or a smaller --resolution",
                           count, loader->options->resolution,
                           loader->options->resolution, channels);
    return STATUS_OK;
}

/* Brings a picture to the channels and the size of the data set, in its slot. */
static enum status place(struct loader *loader, size_t index, struct picture *picture)
{
    if (!loader->pixels)
        TRY(alloc_pixels(loader, picture->channels >= 3 ? 3 : 1));
    struct result *result = &loader->results[index];
    result->width = picture->width;
    result->height = picture->height;
    result->channels = picture->channels;

    uint8_t *slot = loader->pixels + index * loader->picture_bytes;
    TRY(picture_set_channels(picture, loader->channels));
    TRY(resize_to_square(picture, loader->options->resolution,
                         (enum fit)loader->options->fit,
                         (enum resize_filter)loader->options->resize_filter, slot));
    result->digest = digest_bytes(DIGEST_START, slot, loader->picture_bytes);
    result->outcome = OUTCOME_USED;
    return STATUS_OK;
}

/* Notes that the loading ends at `index`, unless it ended at a lower one. */
static void stop_loading(struct loader *loader, size_t index, enum status status)
{
#pragma omp critical(load_stop)
    if (index < atomic_load(&loader->stop_at)) {
        atomic_store(&loader->stop_at, index);
        loader->stop_status = status;
        free(loader->stop_reason);
        loader->stop_reason = strdup(status_message());
    }
}

static void load_one(struct loader *loader, size_t index)
{
    if (index > atomic_load(&loader->stop_at))
        return;
    struct result *result = &loader->results[index];
    struct picture picture = {0};
    enum status status = loader->source->make(loader->source->context, index, &picture);
    if (status == STATUS_OK && !picture.pixels)
        result->outcome = OUTCOME_PASSED_OVER;
    else if (status == STATUS_OK)
        status = place(loader, index, &picture);
    picture_release(&picture);

    if (status == STATUS_DATA) {
        result->outcome = OUTCOME_REJECTED;
        result->reason = strdup(status_message());
    }
    if (status != STATUS_OK && (status != STATUS_DATA || loader->options->strict))
        stop_loading(loader, index, status);
}

static void report(struct loader *loader, size_t done)
{
    if (loader->options->progress)
        loader->options->progress(loader->options->progress_context, done,
                                  loader->source->count);
}

/* One after the other until the channels are known, then on all threads. */
static void load_all(struct loader *loader)
{
    size_t count = loader->source->count, first = 0;
    while (first < count && !loader->pixels && atomic_load(&loader->stop_at) == SIZE_MAX)
        load_one(loader, first++);
    atomic_store(&loader->done, first);

    int threads = loader->options->threads;
    size_t step = count / 100 + 1, reported = 0;
#pragma omp parallel for schedule(dynamic, 4) \
    num_threads(threads > 0 ? threads : omp_get_num_procs())
    for (size_t i = first; i < count; i++) {
        load_one(loader, i);
        size_t done = atomic_fetch_add(&loader->done, 1) + 1;
        // Thread 0 is the caller's own.
        if (omp_get_thread_num() == 0 && done >= reported + step) {
            reported = done;
            report(loader, done);
        }
    }
    report(loader, count);
}

static int by_size(const void *a, const void *b)
{
    const struct dataset_size *x = a, *y = b;
    if (x->width != y->width)
        return x->width < y->width ? -1 : 1;
    return (x->height > y->height) - (x->height < y->height);
}

static int by_count(const void *a, const void *b)
{
    const struct dataset_size *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_size(a, b);
}

/* Counts equal sizes: sorted by size, merged, sorted by count. */
static void merge_sizes(struct dataset *dataset)
{
    size_t kept = 0;
    if (dataset->size_count == 0)
        return;
    qsort(dataset->sizes, dataset->size_count, sizeof *dataset->sizes, by_size);
    for (size_t i = 1; i < dataset->size_count; i++) {
        if (by_size(&dataset->sizes[kept], &dataset->sizes[i]) == 0)
            dataset->sizes[kept].count++;
        else
            dataset->sizes[++kept] = dataset->sizes[i];
    }
    dataset->size_count = kept + 1;
    qsort(dataset->sizes, dataset->size_count, sizeof *dataset->sizes, by_count);
}

static enum status take_used(struct loader *loader, size_t index, struct dataset *dataset)
{
    const struct result *result = &loader->results[index];
    if (dataset->count != index)
        memmove(loader->pixels + dataset->count * loader->picture_bytes,
                loader->pixels + index * loader->picture_bytes, loader->picture_bytes);
    if (dataset->files) {
        char *path = strdup(loader->source->path(loader->source->context, index));
        if (!path)
            return status_fail(STATUS_FAILED, "no memory for a list of files");
        dataset->files[dataset->count] = path;
    }
    dataset->digest =
        digest_bytes(dataset->digest, &result->digest, sizeof result->digest);
    dataset->with_channels[result->channels]++;
    dataset->sizes[dataset->size_count++] =
        (struct dataset_size){result->width, result->height, 1};
    dataset->count++;
    return STATUS_OK;
}

static enum status take_reject(struct loader *loader, size_t index,
                               struct dataset *dataset)
{
    const char *path =
        loader->source->path ? loader->source->path(loader->source->context, index) : "";
    struct dataset_reject *reject = &dataset->rejects[dataset->reject_count++];
    reject->path = strdup(path);
    reject->reason = loader->results[index].reason;
    loader->results[index].reason = NULL;
    if (!reject->path || !reject->reason)
        return status_fail(STATUS_FAILED, "no memory for a list of files");
    return STATUS_OK;
}

/* Moves the used pictures together, in order, and lists the others. */
static enum status collect(struct loader *loader, struct dataset *dataset)
{
    size_t count = loader->source->count, room = count ? count : 1;
    dataset->sizes = calloc(room, sizeof *dataset->sizes);
    dataset->rejects = calloc(room, sizeof *dataset->rejects);
    dataset->files = loader->source->path ? calloc(room, sizeof *dataset->files) : NULL;
    if (!dataset->sizes || !dataset->rejects || (loader->source->path && !dataset->files))
        return status_fail(STATUS_FAILED, "no memory for a list of files");
    int shape[2] = {dataset->resolution, dataset->channels};
    dataset->digest = digest_bytes(DIGEST_START, shape, sizeof shape);
    for (size_t i = 0; i < count; i++) {
        if (loader->results[i].outcome == OUTCOME_USED)
            TRY(take_used(loader, i, dataset));
        else if (loader->results[i].outcome == OUTCOME_REJECTED)
            TRY(take_reject(loader, i, dataset));
        else
            dataset->passed_over++;
    }
    merge_sizes(dataset);
    return STATUS_OK;
}

/* The error that ended the loading, with the path it is about. */
static enum status stop_error(const struct loader *loader)
{
    size_t index = atomic_load(&loader->stop_at);
    const char *reason = loader->stop_reason ? loader->stop_reason : "no memory";
    const char *path = loader->source->path
                           ? loader->source->path(loader->source->context, index)
                           : "image";
    if (loader->stop_status != STATUS_DATA)
        return status_fail(loader->stop_status, "%s: %s", path, reason);
    return status_fail(STATUS_DATA,
                       "%s: %s; without --strict such files are named and passed over",
                       path, reason);
}

enum status load_pictures(const struct picture_source *source,
                          const struct dataset_options *options, struct dataset *dataset)
{
    struct loader loader = {
        .source = source, .options = options, .stop_status = STATUS_OK};
    atomic_init(&loader.done, 0);
    atomic_init(&loader.stop_at, SIZE_MAX);
    loader.results = calloc(source->count ? source->count : 1, sizeof *loader.results);
    enum status status = STATUS_OK;
    if (!loader.results)
        status = status_fail(STATUS_FAILED, "no memory for %zu images", source->count);
    if (status == STATUS_OK && options->channels > 0 && source->count > 0)
        status = alloc_pixels(&loader, options->channels);
    if (status != STATUS_OK)
        goto done;

    load_all(&loader);
    if (atomic_load(&loader.stop_at) != SIZE_MAX) {
        status = stop_error(&loader);
        goto done;
    }
    dataset->resolution = options->resolution;
    dataset->channels = loader.channels;
    status = collect(&loader, dataset);
    if (status != STATUS_OK)
        goto done;

    // The room of what was not used goes back.
    size_t bytes = dataset->count * loader.picture_bytes;
    uint8_t *fitted = bytes ? realloc(loader.pixels, bytes) : NULL;
    dataset->pixels = fitted ? fitted : loader.pixels;
    loader.pixels = NULL;
done:
    for (size_t i = 0; loader.results && i < source->count; i++)
        free(loader.results[i].reason);
    free(loader.results);
    free(loader.stop_reason);
    free(loader.pixels);
    return status;
}
