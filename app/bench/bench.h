/* bench.h - `twinscale bench`: one configuration, measured under several choices of one
 * setting, side by side, or layer by layer.
 * Flow:  command line -> [bench] -> bench_scaler.c or bench_precision.c -> a table on
 *        stdout, bench.json (and bench.png) in a numbered folder; bench_layers.c -> a
 *        table, and JSON where --json says.
 * Owns:  the folder and the monitor that Ctrl-C reaches. */
#ifndef APP_BENCH_BENCH_H
#define APP_BENCH_BENCH_H

#include <jansson.h>

#include "app/train/trainer.h"
#include "app/config/config.h"
#include "app/files/atomic_file.h"
#include "app/view/monitor.h"
#include "app/record/run_folder.h"

/* What the first Ctrl-C comes to once a benchmark has begun to measure. */
#define BENCH_ANSWER "stopping after this step; what is known by then is printed"

struct bench {
    struct config config; // what all runs share; the channels of the data once known
    int has_own_scale;    // init-scale was given for a network
    int seeds;            // scaler: runs of each choice
    double seconds; // precision: at least this long for each choice; layers: for all
    const char *json_path; // layers: NULL without
    struct monitor *monitor;
    struct dataset *dataset;  // of all runs, read once; NULL before the first
    struct run_folder folder; // closed until bench_open_folder()
    int must_end;             // Ctrl-C: no further run begins
};

/* After the command line is read; each prints and writes what it found. */
enum status bench_scaler(struct bench *bench);
enum status bench_precision(struct bench *bench);
enum status bench_layers(struct bench *bench);

/* True once somebody asked for an end. Between two steps. */
int bench_must_end(struct bench *bench);

/* Makes OUT/NNNNN-DATA-PRESET-bBATCH-WORD, unless it is there. */
enum status bench_open_folder(struct bench *bench, const char *data_name,
                              const char *word);

/* One line to stderr, and to log.txt where the folder is open. */
void bench_print(struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes `object` as bench.json and prints its path; takes the object. */
enum status bench_write_json(struct bench *bench, json_t *object);
/* The same into an open file, which is committed. */
enum status bench_commit_json(struct atomic_file *file, json_t *object);

/* The settings that all measurements shared, and those that they differed in. */
json_t *bench_settings_json(const struct bench *bench);

/* The middle one of `values`, which are sorted by it; of an even count the upper. */
double bench_median(double *values, int count);

/* What a quarter of `values` lies below, and what a quarter lies above: how far apart the
 * middle half of them is. Sorts them. */
struct bench_spread {
    double low, high;
};
struct bench_spread bench_spread(double *values, int count);

/* A number, or null where it is not finite. */
json_t *bench_number(double value);

/* A trainer over bench->dataset, which is read once, with a bar. */
enum status bench_create_trainer(struct bench *bench, struct trainer *trainer,
                                 const struct config *config);

#endif
