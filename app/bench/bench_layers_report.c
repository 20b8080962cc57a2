/* bench_layers_report.c - what the passes of the convolutions took, for a person and as
 * JSON. */
#include <math.h>
#include <stdio.h>

#include "app/bench/bench_layers.h"

static double peak_of(const struct layer_bench *layers, const struct layer_row *row)
{
    double peak = layers->peak[row->way.arithmetic];
    return peak > 0.0 ? peak : NAN;
}

double bench_layers_share(const struct layer_bench *layers, const struct layer_row *row)
{
    return row->way.multiplications / row->median_sec / peak_of(layers, row);
}

struct layer_total bench_layers_total(const struct layer_bench *layers)
{
    struct layer_total total = {0};
    double peak_sec = 0.0; // that the multiplications would take at the peak
    for (int i = 0; i < layers->row_count; i++) {
        const struct layer_row *row = &layers->row[i];
        total.runs += row->runs;
        total.sec += row->runs * row->median_sec;
        total.macs += row->runs * row->macs;
        total.multiplications += row->runs * row->way.multiplications;
        peak_sec += row->runs * row->way.multiplications / peak_of(layers, row);
    }
    total.share = peak_sec / total.sec;
    return total;
}

/* ---- for a person ---------------------------------------------------------------- */

static void print_head(const struct layer_bench *layers)
{
    const struct config *config = &layers->bench->config;
    char precision[PRECISION_TEXT];
    printf("device  %s\n", layers->device);
    printf("work    %s%s%d px, batch %d, %s\n", config->preset,
           config->preset[0] ? ", " : "", config->resolution, config->batch,
           config_precision_text(config, precision));
    double floats = layers->peak[DTYPE_F32], pairs = layers->peak[DTYPE_BF16];
    if (floats > 0.0)
        printf("peak    %.1f GFLOP/s of f32 multiply-adds in registers\n", 2e-9 * floats);
    if (pairs > 0.0)
        printf("peak    %.1f GFLOP/s of bf16 dot products in registers\n", 2e-9 * pairs);
    if (floats == 0.0 && pairs == 0.0)
        printf("peak    not known: this backend cannot measure it\n");
}

static void print_share(double share)
{
    if (isfinite(share))
        printf(" %4.0f%%", 100.0 * share);
    else
        printf(" %5s", "-");
}

static void print_row(const struct layer_bench *layers, const struct layer_row *row)
{
    printf("%-9s %-7s %-9s %4d %8.3f %7.1f %7.1f %7.1f", row->name,
           bench_layers_pass(row->pass), row->way.algorithm, row->runs,
           row->median_sec * 1e3, 2e-9 * row->macs / row->median_sec, row->macs / 1e6,
           row->way.multiplications / 1e6);
    print_share(bench_layers_share(layers, row));
    printf("  %s\n", row->way.reason);
}

void bench_layers_print(const struct layer_bench *layers)
{
    print_head(layers);
    printf("%-9s %-7s %-9s %4s %8s %7s %7s %7s %5s  %s\n", "layer", "pass", "algorithm",
           "runs", "ms", "GFLOP/s", "MMAC", "Mmul", "peak", "why");
    for (int i = 0; i < layers->row_count; i++)
        print_row(layers, &layers->row[i]);
    struct layer_total total = bench_layers_total(layers);
    printf("%-27s %4d %8.3f %7.1f %7.1f %7.1f", "all runs of a step", total.runs,
           total.sec * 1e3, 2e-9 * total.macs / total.sec, total.macs / 1e6,
           total.multiplications / 1e6);
    print_share(total.share);
    printf("\n");
}

/* ---- for a program --------------------------------------------------------------- */

static json_t *row_json(const struct layer_bench *layers, const struct layer_row *row)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:f, s:f, s:o}", "layer", row->name,
        "pass", bench_layers_pass(row->pass), "algorithm", row->way.algorithm, "reason",
        row->way.reason, "arithmetic", dtype_name(row->way.arithmetic), "runs", row->runs,
        "ms", bench_number(row->median_sec * 1e3), "gflops",
        bench_number(2e-9 * row->macs / row->median_sec), "macs", row->macs,
        "multiplications", row->way.multiplications, "share_of_peak",
        bench_number(bench_layers_share(layers, row)));
    CHECK_MEMORY(object, "the results");
    return object;
}

static json_t *total_json(const struct layer_bench *layers)
{
    struct layer_total total = bench_layers_total(layers);
    json_t *object = json_pack("{s:i, s:o, s:o, s:f, s:f, s:o}", "runs", total.runs, "ms",
                               bench_number(total.sec * 1e3), "gflops",
                               bench_number(2e-9 * total.macs / total.sec), "macs",
                               total.macs, "multiplications", total.multiplications,
                               "share_of_peak", bench_number(total.share));
    CHECK_MEMORY(object, "the results");
    return object;
}

// Of the kinds of arithmetic that the rows use; null where it is not known.
static json_t *peak_json(const struct layer_bench *layers)
{
    json_t *object = json_object();
    for (int i = 0; i < layers->row_count; i++) {
        enum dtype dtype = layers->row[i].way.arithmetic;
        json_object_set_new(object, dtype_name(dtype),
                            bench_number(2e-9 * peak_of(layers, &layers->row[i])));
    }
    return object;
}

json_t *bench_layers_json(const struct layer_bench *layers)
{
    json_t *passes = json_array();
    for (int i = 0; i < layers->row_count; i++)
        json_array_append_new(passes, row_json(layers, &layers->row[i]));
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o, s:o, s:o}", "work", "bench layers",
        "program", "twinscale " TWINSCALE_VERSION, "device", layers->device, "threads",
        layers->threads, "rounds", layers->rounds, "stopped", layers->bench->must_end,
        "peak_gflops", peak_json(layers), "passes", passes, "step", total_json(layers),
        "settings", bench_settings_json(layers->bench));
    CHECK_MEMORY(object, "the results");
    return object;
}
