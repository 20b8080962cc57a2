/* data_check.h - `twinscale data check PATH`: what training would see of a data set.
 * Flow:  path -> dataset_scan() -> [data_check] -> a report for a person.
 * Owns:  nothing between calls. */
#ifndef APP_INPUT_DATA_CHECK_H
#define APP_INPUT_DATA_CHECK_H

#include <stdio.h>

#include "app/input/data_notes.h"

/* Prints the source, how many images, their sizes and channels, every file that cannot be
 * used with its reason, a closing line, and the notes that a run would begin with
 * (`asked` as in data_notes()). `options->strict` is not looked at: all files are named.
 * STATUS_DATA when nothing is usable. */
enum status data_check(const char *path, const struct dataset_options *options,
                       const struct data_asked *asked, FILE *out);

#endif
