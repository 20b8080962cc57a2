#include "app/input/data_notes.h"

#include <stdarg.h>
#include <stdio.h>

#define FEW_IMAGES 1000

__attribute__((format(printf, 2, 3))) static void add(struct data_notes *notes,
                                                      const char *format, ...)
{
    CHECK(notes->count < DATA_NOTES_MAX, "too many notes");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notes->line[notes->count++], sizeof notes->line[0], format, arguments);
    va_end(arguments);
}

static void note_size(const struct dataset *dataset, struct data_notes *notes)
{
    const struct dataset_size *most = &dataset->sizes[0]; // the most frequent
    int side = dataset->resolution;
    if (dataset->size_count == 1 && most->width == side && most->height == side)
        return;
    const char *verb = "resized";
    if (dataset->size_count == 1 && most->width >= side && most->height >= side)
        verb = "reduced";
    else if (dataset->size_count == 1 && most->width <= side && most->height <= side)
        verb = "enlarged";
    if (dataset->size_count == 1)
        add(notes, "their own size is %d x %d; %s to %d x %d", most->width, most->height,
            verb, side, side);
    else
        add(notes, "of %zu sizes, most often %d x %d; resized to %d x %d",
            dataset->size_count, most->width, most->height, side, side);
}

static void note_channels(const struct dataset *dataset, int asked,
                          struct data_notes *notes)
{
    size_t grey = dataset->with_channels[1] + dataset->with_channels[2];
    size_t colour = dataset->with_channels[3] + dataset->with_channels[4];
    if (dataset->channels <= 2 && colour > 0)
        add(notes, "%zu of %zu %s in colour and made grey%s", colour, dataset->count,
            colour == 1 ? "is" : "are",
            asked > 0 ? "; --channels 3 keeps the colour"
                      : ", as the first one is; --channels 3 keeps the colour");
    else if (dataset->channels >= 3 && colour == 0 && grey > 0)
        add(notes, "all are grey and trained as %s; --channels 1 takes less time",
            dataset->channels == 3 ? "RGB" : "RGBA");
}

void data_notes(const struct dataset *dataset, const struct data_asked *asked,
                struct data_notes *notes)
{
    *notes = (struct data_notes){0};
    if (dataset->count == 0)
        return;
    note_size(dataset, notes);
    note_channels(dataset, asked->channels, notes);
    if (asked->preset_channels > 0 && asked->preset_channels != dataset->channels)
        add(notes,
            "%d channel%s, as the data has; the preset's %d is for other data "
            "(--channels %d takes it)",
            dataset->channels, PLURAL(dataset->channels), asked->preset_channels,
            asked->preset_channels);
    if (dataset->count < FEW_IMAGES)
        add(notes,
            "%zu image%s %s few: a GAN learns so small a set by heart; more images "
            "help%s",
            dataset->count, PLURAL(dataset->count), dataset->count == 1 ? "is" : "are",
            asked->mirror ? "" : ", and --mirror where left and right do not matter");
}
