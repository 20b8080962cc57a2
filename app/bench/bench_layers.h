/* bench_layers.h - what `twinscale bench layers` measured, between measuring and telling.
 * Flow:  bench_layers.c measures -> [bench_layers] -> bench_layers_report.c: table, JSON.
 * Owns:  nothing but numbers. */
#ifndef APP_BENCH_BENCH_LAYERS_H
#define APP_BENCH_BENCH_LAYERS_H

#include "app/bench/bench.h"
#include "nets/net.h"

#define LAYER_ROUNDS 7

/* One pass of one convolution. `pass` is the layer's: a transposed convolution's forward
 * is its convolution's dgrad. */
struct layer_row {
    int network, layer; // ROLE_G or ROLE_D, row of its table
    char name[NET_NAME_MAX + 4];
    enum pass_kind pass;
    struct conv_way way;
    double macs; // by the definition, of a batch
    int runs;    // of it in one training step
    int repeats; // in a round
    double sec[LAYER_ROUNDS], median_sec;
};

struct layer_bench {
    struct bench *bench;
    char device[160];
    int threads;
    int row_count, rounds;       // whole ones
    struct layer_row *row;       // [row_count]
    double peak[DTYPE_BF16 + 1]; // multiplications per second; 0: not used, or not known
};

/* All passes of a training step: a row is weighed by its runs. */
struct layer_total {
    double sec, macs, multiplications;
    double share; // of the peak; NaN where it is not known
    int runs;
};
struct layer_total bench_layers_total(const struct layer_bench *layers);

/* Multiplications per second of this row over those of the peak; NaN where it is not
 * known. */
double bench_layers_share(const struct layer_bench *layers, const struct layer_row *row);

const char *bench_layers_pass(enum pass_kind pass); // "forward"

/* To stdout. */
void bench_layers_print(const struct layer_bench *layers);
json_t *bench_layers_json(const struct layer_bench *layers);

#endif
