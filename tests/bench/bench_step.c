/* bench_step - the time of one whole training step, as bench_torch.py measures PyTorch's.
 *
 *     bench_step [THREADS [STEPS [fmnist-quick|dcgan64 [fp32|fp16|bf16]]]]
 *
 * Prints one JSON line per network and precision with the median time of a step in
 * milliseconds: D on real, z, G, D on fake, D's scaler and Adam, D on the same fake, G's
 * scaler and Adam; batch 64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/device.h"
#include "kernels/ops.h"
#include "nets/adam.h"
#include "nets/dcgan.h"
#include "nets/init.h"
#include "scaler/grad_scaler.h"

enum { BATCH = 64, STEPS_MAX = 1000 };

struct preset {
    const char *name;
    struct dcgan_config config;
};

static const struct preset presets[] = {
    {"fmnist-quick", {28, 1, 64, 24, 24}},
    {"dcgan64", {64, 3, 100, 64, 64}},
};

static const char *const precisions[] = {
    [DTYPE_F32] = "fp32", [DTYPE_F16] = "fp16", [DTYPE_BF16] = "bf16"};

struct player {
    struct net net;
    struct adam adam;
    struct grad_scaler scaler;
};

struct run {
    struct device *device;
    struct player g, d;
    struct tensor real;
    struct loss_sums *sums;
    uint64_t *draw;
    struct arena arena;
};

static enum status player_create(struct player *player, const char *name,
                                 enum dtype dtype, int options)
{
    struct grad_scaler_config scaler = grad_scaler_default_config();
    struct adam_config adam = {2e-4f, 0.5f, 0.999f, 1e-8f};
    scaler.enabled = dtype == DTYPE_F16;
    TRY(net_plan(&player->net, options));
    net_initialise(&player->net, 1, name[0] == 'g');
    TRY(adam_create(&player->adam, &player->net, &adam));
    return grad_scaler_create(&player->scaler, player->net.device, name, &scaler);
}

static enum status run_create(struct run *run, const struct preset *preset,
                              enum dtype dtype)
{
    struct net *g = &run->g.net, *d = &run->d.net;
    dcgan_generator(g, run->device, &preset->config, dtype, BATCH);
    dcgan_discriminator(d, run->device, &preset->config, dtype, BATCH);
    TRY(player_create(&run->g, "g", dtype, 0));
    TRY(player_create(&run->d, "d", dtype, NET_INPUT_GRAD | NET_F32_HEAD));
    net_output_grad(g)->data = d->input_grad.data; // D's input gradient is G's output's
    run->real = d->input;
    struct tensor latents = g->input;
    arena_begin(&run->arena, run->device, "inputs of a step");
    arena_reserve(&run->arena, &run->real.data, tensor_bytes(&run->real));
    arena_reserve(&run->arena, &latents.data, tensor_bytes(&latents));
    arena_reserve(&run->arena, (void **)&run->sums, 3 * sizeof *run->sums);
    arena_reserve(&run->arena, (void **)&run->draw, sizeof *run->draw);
    TRY(arena_commit(&run->arena));
    g->input.data = latents.data;

    // Any picture will do: a net is as fast on noise.
    struct tensor flat = run->real;
    flat.shape = (struct shape){BATCH, 1, 1, flat.shape.h * flat.shape.w * flat.shape.c};
    flat.c_stored = flat.shape.c;
    run->device->ops->image.normal(run->device, 1, STREAM_SAMPLE, NULL, 0, &flat);
    return STATUS_OK;
}

static void run_release(struct run *run)
{
    struct player *players[] = {&run->g, &run->d};
    for (int i = 0; i < 2; i++) {
        grad_scaler_release(&players[i]->scaler);
        adam_release(&players[i]->adam);
        net_release(&players[i]->net);
    }
    arena_release(&run->arena);
}

static void judge(struct run *run, const struct tensor *images, float target,
                  struct player *player, int index)
{
    struct net *d = &run->d.net;
    d->input.data = images->data;
    net_forward(d, NET_TRAIN);
    run->device->ops->loss.bce_logits(run->device, net_output(d), target, 1.0f,
                                      grad_scaler_scale(&player->scaler),
                                      net_output_grad(d), run->sums + index);
}

static void finish(struct player *player)
{
    CHECK(grad_scaler_step(&player->scaler, &player->adam) == CALL_OK);
    CHECK(grad_scaler_update(&player->scaler) == CALL_OK);
}

static void one_step(struct run *run)
{
    struct net *g = &run->g.net, *d = &run->d.net;
    run->device->ops->image.normal(run->device, 1, STREAM_LATENT, run->draw, 0,
                                   &g->input);
    run->device->ops->image.advance(run->device, run->draw);
    judge(run, &run->real, 1.0f, &run->d, 0);
    net_backward(d, NET_WGRAD);
    net_forward(g, NET_TRAIN);
    judge(run, net_output(g), 0.0f, &run->d, 1);
    net_backward(d, NET_WGRAD | NET_ACCUMULATE);
    finish(&run->d);
    judge(run, net_output(g), 1.0f, &run->g, 2);
    net_backward(d, NET_DGRAD);
    net_backward(g, NET_WGRAD);
    finish(&run->g);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(struct run *run, int steps)
{
    static double times[STEPS_MAX];
    for (int i = 0; i < 3; i++)
        one_step(run);
    for (int i = 0; i < steps; i++) {
        double begin = now_ms();
        one_step(run);
        times[i] = now_ms() - begin;
    }
    qsort(times, (size_t)steps, sizeof times[0], by_size);
    return times[steps / 2];
}

static enum status bench(struct device *device, const struct preset *preset,
                         enum dtype dtype, int steps)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return status_fail(STATUS_FAILED, "no memory for a run");
    run->device = device;
    enum status status = run_create(run, preset, dtype);
    if (status == STATUS_OK) {
        printf(
            "{\"net\": \"%s\", \"program\": \"twinscale " TWINSCALE_VERSION "\", "
            "\"precision\": \"%s\", \"device\": \"%s\", \"threads\": %d, \"batch\": %d, "
            "\"steps\": %d, ",
            preset->name, precisions[dtype], device->description, device->threads, BATCH,
            steps);
        printf("\"ms_per_step\": %.3f}\n", median_ms(run, steps));
        fflush(stdout);
        status = device_fault(device);
    }
    run_release(run);
    free(run);
    return status;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 11;
    const char *only_net = argc > 3 ? argv[3] : NULL, *only = argc > 4 ? argv[4] : NULL;
    steps = steps < 1 ? 1 : steps > STEPS_MAX ? STEPS_MAX : steps;
    struct device *device = NULL;
    enum status status = device_open("cpu", threads, &device);
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16 && status == STATUS_OK; dtype++) {
            if ((!only_net || strcmp(only_net, presets[i].name) == 0) &&
                (!only || strcmp(only, precisions[dtype]) == 0))
                status = bench(device, &presets[i], (enum dtype)dtype, steps);
        }
    }
    if (status != STATUS_OK)
        fprintf(stderr, "bench_step: %s\n", status_message());
    device_close(device);
    return status_exit_code(status);
}
