/* bench_scaler.h - what one run of `twinscale bench scaler` was, for table, JSON and
 * picture.
 * Flow:  bench_scaler.c trains -> [struct bench_run] -> bench_scaler_report.c.
 * Owns:  the points and samples of the first seed's runs. */
#ifndef APP_BENCH_BENCH_SCALER_H
#define APP_BENCH_BENCH_SCALER_H

#include "app/bench/bench.h"
#include "app/view/history.h"

#define BENCH_SAMPLES 256 // that the diversity is of
#define BENCH_SHOWN 8     // of them, in the picture

enum bench_end {
    BENCH_NOT_BEGUN, // Ctrl-C came before
    BENCH_FINISHED,
    BENCH_DIVERGED, // max_skips in a row; `reason` tells
    BENCH_STOPPED   // Ctrl-C came within
};

struct bench_run {
    int scaler; // enum scaler_choice
    int64_t seed;
    enum bench_end end;
    char reason[512];
    int64_t steps, skipped[ROLES], held[ROLES];
    float scale[ROLES]; // 0: not scaled
    float fake_scale;   // of D's loss on fakes; 0: it has none of its own
    double loss[ROLES]; // mean over the last tenth of the steps; NaN: not finite
    double diversity;   // NaN: no samples
    double seconds;

    // For the picture; NULL but for the first seed.
    struct history_point *points;
    size_t point_count;
    uint8_t *tiles; // [BENCH_SHOWN, h, w, channels]
};

/* One choice of --scaler: the place of its runs, or why it was left out. */
struct bench_choice {
    int scaler;
    int is_left_out;
    char reason[512];
};
#define BENCH_CHOICES 6

struct bench_result {
    struct bench *bench;
    struct bench_choice choice[BENCH_CHOICES];
    struct bench_run *run; // [choice_count * seeds] a choice's seeds in turn
    int run_count;
    char device[160], data[64];
    size_t data_count;
    double real_diversity;
};

/* "per-network" ... */
const char *bench_scaler_name(int scaler);

/* The head of the table, and one line of it; without newline. */
#define BENCH_LINE 256
void bench_table_head(char line[BENCH_LINE]);
void bench_run_line(const struct bench_run *run, char line[BENCH_LINE]);

/* Prints the table; writes bench.json and bench.png into the folder. */
enum status bench_scaler_report(const struct bench_result *result);

/* One run as a JSON object. */
json_t *bench_run_json(const struct bench_run *run);

#endif
