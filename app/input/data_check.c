#include "app/input/data_check.h"

#include <string.h>

#define SIZES_TOLD 10

static void print_sizes(const struct dataset *dataset, FILE *out)
{
    fprintf(out, "sizes:\n");
    size_t told = dataset->size_count < SIZES_TOLD ? dataset->size_count : SIZES_TOLD;
    for (size_t i = 0; i < told; i++) {
        const struct dataset_size *size = &dataset->sizes[i];
        fprintf(out, "  %8zu of %d x %d\n", size->count, size->width, size->height);
    }
    size_t rest = 0;
    for (size_t i = told; i < dataset->size_count; i++)
        rest += dataset->sizes[i].count;
    if (rest > 0)
        fprintf(out, "  %8zu of %zu other sizes\n", rest, dataset->size_count - told);
}

static void print_channels(const struct dataset *dataset, FILE *out)
{
    static const char *const names[] = {"", "grey", "grey with alpha", "colour",
                                        "colour with alpha"};
    fprintf(out, "channels:\n");
    for (int c = 1; c <= 4; c++)
        if (dataset->with_channels[c] > 0)
            fprintf(out, "  %8zu %s\n", dataset->with_channels[c], names[c]);
}

static void print_rejects(const struct dataset *dataset, FILE *out)
{
    if (dataset->reject_count > 0)
        fprintf(out, "unusable:\n");
    for (size_t i = 0; i < dataset->reject_count; i++)
        fprintf(out, "  %s: %s\n", dataset->rejects[i].path, dataset->rejects[i].reason);
    if (dataset->passed_over > 0)
        fprintf(out, "passed over: %zu file%s that %s\n", dataset->passed_over,
                PLURAL(dataset->passed_over),
                dataset->passed_over == 1 ? "is not an image" : "are not images");
}

static void print_notes(const struct dataset *dataset, const struct data_asked *asked,
                        FILE *out)
{
    struct data_notes notes;
    data_notes(dataset, asked, &notes);
    for (int i = 0; i < notes.count; i++)
        fprintf(out, "  %s\n", notes.line[i]);
}

enum status data_check(const char *path, const struct dataset_options *options,
                       const struct data_asked *asked, FILE *out)
{
    struct dataset_options patient = *options;
    patient.strict = 0;
    struct dataset *dataset;
    TRY(dataset_scan(path, &patient, &dataset));

    fprintf(out, "source: %s\n", dataset->source);
    fprintf(out, "images: %zu\n", dataset->count);
    if (dataset->count > 0) {
        print_sizes(dataset, out);
        print_channels(dataset, out);
    }
    print_rejects(dataset, out);
    if (dataset->count > 0)
        fprintf(out,
                "%zu image%s usable, %zu file%s not; training would see them as "
                "%d x %d x %d\n",
                dataset->count, PLURAL(dataset->count), dataset->reject_count,
                PLURAL(dataset->reject_count), dataset->resolution, dataset->resolution,
                dataset->channels);
    else
        fprintf(out, "nothing here can be trained on\n");
    print_notes(dataset, asked, out);
    enum status status = dataset_require_images(path, dataset);
    dataset_close(dataset);
    return status;
}
