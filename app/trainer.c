#include "app/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/output/progress.h"
#include "nets/init.h"

enum dtype precision_dtype(int precision)
{
    switch (precision) {
    case PRECISION_FP16: return DTYPE_F16;
    case PRECISION_BF16: return DTYPE_BF16;
    default: return DTYPE_F32;
    }
}

struct dcgan_config trainer_dcgan_config(const struct config *config, int channels)
{
    return (struct dcgan_config){.resolution = config->resolution,
                                 .channels = channels,
                                 .latent = config->latent,
                                 .g_width = config->g.width,
                                 .d_width = config->d.width};
}

static void show_decoding(void *context, size_t done, size_t total)
{
    (void)context;
    if (total > 1000 && done % 1000 == 0)
        progress_bar((double)done, (double)total, 0.0, -1.0);
}

static enum status open_data(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    struct dataset_options options = {.resolution = config->resolution,
                                      .channels = config->channels,
                                      .fit = config->fit,
                                      .resize_filter = config->resize_filter,
                                      .strict = config->strict,
                                      .threads = config->threads,
                                      .progress = show_decoding};
    enum status status = dataset_open(config->data, &options, &trainer->dataset);
    progress_clear();
    TRY(status);
    trainer->config.channels = trainer->dataset->channels;
    return STATUS_OK;
}

// A loss scale is for f16: bf16 has f32's range, and f32 needs none.
static int wants_scaler(const struct config *config)
{
    if (config->scaler == SCALER_AUTO)
        return config->precision == PRECISION_FP16;
    return config->scaler == SCALER_PER_NETWORK;
}

static enum status create_player(struct trainer *trainer, int network)
{
    static const char *const names[] = {[NETWORK_G] = "g", [NETWORK_D] = "d"};
    const struct config *config = &trainer->config;
    const struct network_config *own = network == NETWORK_G ? &config->g : &config->d;
    struct player *player = &trainer->player[network];
    struct adam_config adam = {.lr = (float)own->lr,
                               .beta1 = (float)own->beta1,
                               .beta2 = (float)own->beta2,
                               .eps = (float)own->eps};
    struct grad_scaler_config scaler = {.enabled = wants_scaler(config),
                                        .init_scale = own->init_scale,
                                        .growth_factor = own->growth_factor,
                                        .backoff_factor = own->backoff_factor,
                                        .growth_interval = own->growth_interval};
    TRY(net_plan(&player->net, network == NETWORK_D ? NET_INPUT_GRAD : 0));
    net_initialise(&player->net, (uint64_t)config->seed, (uint64_t)network);
    TRY(adam_create(&player->adam, &player->net, &adam));
    return grad_scaler_create(&player->scaler, trainer->device, names[network], &scaler);
}

static enum status create_networks(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    struct dcgan_config sizes = trainer_dcgan_config(config, config->channels);
    enum dtype dtype = precision_dtype(config->precision);
    struct net *g = &trainer->player[NETWORK_G].net, *d = &trainer->player[NETWORK_D].net;
    dcgan_generator(g, trainer->device, &sizes, dtype, config->batch);
    dcgan_discriminator(d, trainer->device, &sizes, dtype, config->batch);
    for (int network = 0; network < NETWORK_COUNT; network++)
        TRY(create_player(trainer, network));
    // G's output gradient is D's input gradient: the same memory, nothing is copied.
    net_output_grad(g)->data = d->input_grad.data;
    TRY(ema_create(&trainer->ema, g, config->ema_kimg, config->ema_rampup));
    ema_reset(&trainer->ema);
    return sampler_create(&trainer->sampler, trainer->device, &sizes, dtype);
}

static enum status create_inputs(struct trainer *trainer)
{
    const struct net *g = &trainer->player[NETWORK_G].net;
    const struct net *d = &trainer->player[NETWORK_D].net;
    trainer->pixels = tensor_of(DTYPE_U8, d->input.shape, NULL);
    trainer->real = d->input;
    trainer->latents = g->input;
    trainer->sums_count = 2 * trainer->config.n_dis + 1;
    trainer->record_count = trainer->config.n_dis + 1;
    size_t records_bytes = (size_t)trainer->record_count * sizeof *trainer->records;
    size_t sums_bytes = (size_t)trainer->sums_count * sizeof *trainer->sums;
    struct arena *arena = &trainer->arena;
    arena_begin(arena, trainer->device, "inputs of a step");
    arena_reserve(arena, &trainer->pixels.data, tensor_bytes(&trainer->pixels));
    arena_reserve(arena, &trainer->real.data, tensor_bytes(&trainer->real));
    arena_reserve(arena, &trainer->latents.data, tensor_bytes(&trainer->latents));
    arena_reserve(arena, (void **)&trainer->draw, sizeof *trainer->draw);
    arena_reserve(arena, (void **)&trainer->sums, sums_bytes);
    arena_reserve(arena, (void **)&trainer->records, records_bytes);
    TRY(arena_commit(arena));
    trainer->sums_host = calloc(1, sums_bytes);
    trainer->records_host = calloc(1, records_bytes);
    if (!trainer->sums_host || !trainer->records_host)
        return status_fail(STATUS_FAILED, "not enough memory for %zu bytes of loss sums",
                           sums_bytes);
    trainer->player[NETWORK_G].net.input.data = trainer->latents.data;
    return STATUS_OK;
}

enum status trainer_create(struct trainer *trainer, const struct config *config)
{
    memset(trainer, 0, sizeof *trainer);
    trainer->config = *config;
    TRY(device_open(config->device, config->threads, &trainer->device));
    TRY(open_data(trainer));
    TRY(create_networks(trainer));
    return create_inputs(trainer);
}

enum status trainer_start_data(struct trainer *trainer)
{
    return batch_open(trainer->dataset, trainer->config.batch,
                      (uint64_t)trainer->config.seed, (uint64_t)trainer->progress.images,
                      &trainer->batches);
}

void trainer_release(struct trainer *trainer)
{
    batch_close(trainer->batches);
    dataset_close(trainer->dataset);
    sampler_release(&trainer->sampler);
    ema_release(&trainer->ema);
    for (int network = 0; network < NETWORK_COUNT; network++) {
        struct player *player = &trainer->player[network];
        grad_scaler_release(&player->scaler);
        adam_release(&player->adam);
        net_release(&player->net);
    }
    if (trainer->arena.device)
        arena_release(&trainer->arena);
    free(trainer->sums_host);
    free(trainer->records_host);
    device_close(trainer->device);
    memset(trainer, 0, sizeof *trainer);
}

double trainer_kimg(const struct trainer *trainer)
{
    return (double)trainer->progress.images / 1000.0;
}

double trainer_epoch(const struct trainer *trainer)
{
    return (double)trainer->progress.images / (double)trainer->dataset->count;
}
