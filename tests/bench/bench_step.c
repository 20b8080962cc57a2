/* bench_step - the time of one whole training step of the real program, as bench_torch.py
 * measures PyTorch's.
 *
 *     bench_step [THREADS [STEPS [fmnist-quick|dcgan64 [fp32|fp16|bf16]]]]
 *
 * Prints one JSON line per network and precision with the median time of train_step(): a
 * batch of real images, both networks' steps, scalers and optimizers, the moving average. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/output/progress.h"
#include "app/train.h"

enum { STEPS_MAX = 1000, WARM_UP = 3 };

static const char *const nets[] = {"fmnist-quick", "dcgan64"};
static const char *const data[] = {"builtin:fashion", "builtin:shapes"};
static const char *const precisions[] = {
    [PRECISION_FP16] = "fp16", [PRECISION_BF16] = "bf16", [PRECISION_FP32] = "fp32"};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum status time_steps(struct trainer *trainer, int steps, double *median_ms)
{
    double ms[STEPS_MAX];
    for (int i = -WARM_UP; i < steps; i++) {
        double begin = now_seconds();
        TRY(train_step(trainer));
        if (i >= 0)
            ms[i] = 1e3 * (now_seconds() - begin);
    }
    qsort(ms, (size_t)steps, sizeof *ms, by_value);
    *median_ms = ms[steps / 2];
    return STATUS_OK;
}

static enum status bench(int net, int precision, int threads, int steps)
{
    struct config config;
    static struct trainer trainer;
    double median_ms = 0;
    config_default(&config);
    TRY(config_apply_preset(&config, nets[net]));
    TRY(config_set(&config, "data", data[net], "bench_step"));
    config.precision = precision;
    config.threads = threads;
    enum status status = trainer_create(&trainer, &config);
    if (status == STATUS_OK)
        status = trainer_start_data(&trainer);
    if (status == STATUS_OK)
        status = time_steps(&trainer, steps, &median_ms);
    if (status == STATUS_OK)
        printf("{\"net\": \"%s\", \"program\": \"twinscale %s\", \"precision\": \"%s\", "
               "\"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"steps\": %d, "
               "\"ms_per_step\": %.3f}\n",
               nets[net], TWINSCALE_VERSION, precisions[precision],
               trainer.device->description, trainer.device->threads, config.batch, steps,
               median_ms);
    fflush(stdout);
    trainer_release(&trainer);
    return status;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 11;
    if (threads < 0 || steps < 1 || steps > STEPS_MAX || argc > 5) {
        fprintf(stderr,
                "usage: bench_step [THREADS [STEPS up to %d [NET [PRECISION]]]]\n",
                STEPS_MAX);
        return 2;
    }
    int found = 0;
    for (int net = 0; net < 2; net++) {
        for (int precision = 0; precision < 3; precision++) {
            if ((argc > 3 && strcmp(argv[3], nets[net]) != 0) ||
                (argc > 4 && strcmp(argv[4], precisions[precision]) != 0))
                continue;
            found = 1;
            enum status status = bench(net, precision, threads, steps);
            if (status != STATUS_OK) {
                fprintf(stderr, "bench_step: %s\n", status_message());
                return status_exit_code(status);
            }
        }
    }
    if (!found)
        fprintf(stderr, "bench_step: no such network or precision\n");
    return found ? 0 : 2;
}
