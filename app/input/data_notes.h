/* data_notes.h - what a user should know of a data set before hours of training: that its
 * images are resized, that they lose or gain colour, that they are few.
 * Flow:  dataset_open() -> [data_notes] -> the head of a run, --dry-run, data check.
 * Owns:  nothing. */
#ifndef APP_INPUT_DATA_NOTES_H
#define APP_INPUT_DATA_NOTES_H

#include "app/input/dataset.h"

/* What was asked for, as far as a note depends on it. */
struct data_asked {
    int channels;        // 0: those of the data
    int preset_channels; // of a preset whose channels do not count; else 0
    int mirror;
};

#define DATA_NOTES_MAX 4
struct data_notes {
    int count;
    char line[DATA_NOTES_MAX][192];
};

void data_notes(const struct dataset *dataset, const struct data_asked *asked,
                struct data_notes *notes);

#endif
