/* bench_step.c - what one whole training step takes, with everything in it: the batch,
 * both networks forward and backward, finite checks, both Adams, both scalers, the
 * average.
 *     bench_step STEPS PRESET SETTING...
 *     bench_step sample REPEATS PRESET SETTING...
 *     bench_step upkeep REPEATS PRESET SETTING...
 * The second form times the drawing of 64 images by a generator in place of a step:
 * latents, network, pixels. The third times what a step does beside its passes: gradients
 * checked and unscaled, both Adams with half copy and average, both rules, results read
 * and reported. SETTINGs are the program's own (--batch 128 --precision bf16 --device
 * cuda:0 --no-graph). Prints one JSON line with the median time of a step, or of what
 * stands for it, the most GFLOP/s that the device does in registers just then, and how
 * far two cores are apart just then (line_trip.h); 0: not known. Where the device works
 * while the host goes on, steps are timed in groups, since a single one has no end that
 * the host sees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/process.h"
#include "app/report.h"
#include "app/train/train.h"
#include "kernels/ops.h"
#include "tests/bench/line_trip.h"

// What is recorded and replayed is recorded at the second step. That the others of
// WARM_UP (steps, or groups of them) are not counted is a margin; what they wait for was
// not traced.
enum { STEPS_MAX = 10000, WARM_UP = 6, GROUP = 10 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds per step of `count` steps that are queued as a run queues them. */
static enum status time_group(struct trainer *trainer, int count, double *ms)
{
    double begin = now_seconds();
    for (int i = 0; i < count; i++) {
        train_step(trainer);
        while (train_pending(trainer) > trainer->device->steps_ahead)
            TRY(train_collect(trainer));
    }
    TRY(train_collect_all(trainer));
    *ms = 1e3 * (now_seconds() - begin) / count;
    return STATUS_OK;
}

static enum status time_steps(struct trainer *trainer, int steps, double *median_ms)
{
    static double ms[STEPS_MAX];
    int group = trainer->device->steps_ahead > 0 ? GROUP : 1, groups = 0;
    double ignored;
    for (int i = 0; i < WARM_UP; i++)
        TRY(time_group(trainer, group, &ignored));
    for (int done = 0; done < steps; done += group)
        TRY(time_group(trainer, group, &ms[groups++]));
    qsort(ms, (size_t)groups, sizeof *ms, by_value);
    *median_ms = ms[groups / 2];
    return STATUS_OK;
}

static enum status draw(struct trainer *trainer, struct sampler *sampler, int repeats,
                        double *median_ms)
{
    static double ms[STEPS_MAX];
    static uint8_t pixels[SAMPLER_BATCH * 128 * 128 * 4]; // the largest there are
    uint64_t seeds[SAMPLER_BATCH];
    sampler_load(sampler, trainer->device, trainer->ema.average);
    for (int i = -WARM_UP; i < repeats; i++) {
        for (int k = 0; k < SAMPLER_BATCH; k++)
            seeds[k] = (uint64_t)((i + WARM_UP) * SAMPLER_BATCH + k);
        double begin = now_seconds();
        sampler_start(sampler, seeds, SAMPLER_BATCH);
        TRY(sampler_finish(sampler, pixels));
        if (i >= 0)
            ms[i] = 1e3 * (now_seconds() - begin);
    }
    qsort(ms, (size_t)repeats, sizeof *ms, by_value);
    *median_ms = ms[repeats / 2];
    return STATUS_OK;
}

static enum status time_samples(struct trainer *trainer, int repeats, double *median_ms)
{
    struct sampler sampler = {0};
    struct dcgan_config sizes =
        trainer_dcgan_config(&trainer->config, trainer->config.channels);
    enum status status =
        dcgan_generator(&sampler.net, trainer->device, &sizes,
                        precision_dtype(trainer->config.precision), SAMPLER_BATCH);
    if (status == STATUS_OK)
        status = sampler_plan(&sampler, SAMPLER_BATCH);
    if (status == STATUS_OK)
        status = draw(trainer, &sampler, repeats, median_ms);
    sampler_release(&sampler);
    return status;
}

// On the gradients of the last step.
static enum status keep_up(struct trainer *trainer, struct report *report, int repeats,
                           double *median_ms)
{
    static double ms[STEPS_MAX];
    enum role networks[] = {ROLE_D, ROLE_G};
    for (int i = 0; i < repeats; i++) {
        double begin = now_seconds();
        for (int k = 0; k < ROLES; k++) {
            enum role network = networks[k];
            topology_step(&trainer->topology, network);
            survey_look(&trainer->survey[network], trainer->scaler[network].state,
                        trainer->results.here.stats + k * trainer->results.stats_count);
            topology_update(&trainer->topology, network);
        }
        results_send(&trainer->results, (struct results_place){trainer->progress.step,
                                                               trainer->progress.images});
        TRY(train_collect(trainer));
        report_step(report);
        ms[i] = 1e3 * (now_seconds() - begin);
    }
    qsort(ms, (size_t)repeats, sizeof *ms, by_value);
    *median_ms = ms[repeats / 2];
    return STATUS_OK;
}

static enum status time_upkeep(struct trainer *trainer, int repeats, double *median_ms)
{
    struct report report = {0};
    struct run_folder nowhere = {0};
    struct monitor *monitor = monitor_create();
    double ignored;
    enum status status = monitor ? report_open(&report, trainer, &nowhere, monitor, 0, 0)
                                 : status_fail(STATUS_FAILED, "no memory for a monitor");
    if (status == STATUS_OK)
        status = time_steps(trainer, 1, &ignored);
    if (status == STATUS_OK)
        status = keep_up(trainer, &report, repeats, median_ms);
    report_close(&report);
    monitor_destroy(monitor);
    return status;
}

typedef enum status timed_work(struct trainer *trainer, int repeats, double *median_ms);

static double peak_gflops(struct device *device, int precision)
{
    return 2e-9 * device->ops->conv.peak(device, precision_dtype(precision));
}

static enum status bench(const struct config *config, const char *preset, int steps,
                         timed_work *work)
{
    static struct trainer trainer;
    static const char *const precisions[] = {
        [PRECISION_FP16] = "fp16", [PRECISION_BF16] = "bf16", [PRECISION_FP32] = "fp32"};
    double median_ms = 0;
    enum status status = trainer_create(&trainer, config);
    if (status == STATUS_OK)
        status = trainer_start_data(&trainer);
    if (status == STATUS_OK)
        status = work(&trainer, steps, &median_ms);
    if (status == STATUS_OK)
        printf("{\"net\": \"%s\", \"program\": \"twinscale %s\", \"precision\": \"%s\", "
               "\"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"steps\": %d, "
               "\"ms_per_step\": %.4f, \"peak_gflops\": %.1f, \"line_trip_ns\": %.0f}\n",
               preset, TWINSCALE_VERSION, precisions[config->precision],
               trainer.device->description, trainer.device->threads, config->batch, steps,
               median_ms, peak_gflops(trainer.device, config->precision), line_trip_ns());
    trainer_release(&trainer);
    return status;
}

int main(int argc, char **argv)
{
    int wants_help;
    timed_work *work = time_steps;
    if (argc > 1 && strcmp(argv[1], "sample") == 0)
        work = time_samples;
    else if (argc > 1 && strcmp(argv[1], "upkeep") == 0)
        work = time_upkeep;
    argc -= work != time_steps;
    argv += work != time_steps;
    int steps = argc > 2 ? atoi(argv[1]) : 0;
    if (steps < 1 || steps > STEPS_MAX) {
        fprintf(stderr,
                "usage: bench_step [sample|upkeep] STEPS PRESET SETTING...  (1 to %d "
                "steps)\n",
                STEPS_MAX);
        return 2;
    }
    struct config config;
    config_default(&config);
    enum status status = config_apply_preset(&config, argv[2]);
    if (status == STATUS_OK)
        status = config_set(
            &config, "data",
            config.resolution == 28 ? "builtin:fashion" : "builtin:shapes", "bench_step");
    if (status == STATUS_OK)
        status = config_parse(&config, argc - 3, argv + 3, &wants_help, NULL);
    if (status == STATUS_OK)
        status = bench(&config, argv[2], steps, work);
    if (status != STATUS_OK)
        fprintf(stderr, "bench_step: %s\n", status_message());
    return status_exit_code(status);
}
