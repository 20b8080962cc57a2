#include "app/train/trainer.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/init.h"
#include "nets/precision.h"

enum dtype precision_dtype(int precision)
{
    switch (precision) {
    case PRECISION_FP16: return DTYPE_F16;
    case PRECISION_BF16: return DTYPE_BF16;
    default: return DTYPE_F32;
    }
}

enum dtype trainer_dtype(const struct config *config, int network)
{
    const struct network_config *own = &config->network[network];
    return precision_dtype(config_precision(config, own));
}

int trainer_gradients_are_half(const struct config *config, int network)
{
    return trainer_dtype(config, ROLE_D) == DTYPE_F16 ||
           (network == ROLE_G && trainer_dtype(config, ROLE_G) == DTYPE_F16);
}

struct dcgan_config trainer_dcgan_config(const struct config *config, int channels)
{
    return (struct dcgan_config){.resolution = config->resolution,
                                 .channels = channels,
                                 .latent = config->latent,
                                 .g_width = config->g.width,
                                 .d_width = config->d.width,
                                 .fp32_layers = config->fp32_layers};
}

enum status trainer_open_data(const struct config *config,
                              void (*progress)(void *context, size_t done, size_t total),
                              struct dataset **dataset)
{
    struct dataset_options options = {.resolution = config->resolution,
                                      .channels = config->channels,
                                      .fit = config->fit,
                                      .resize_filter = config->resize_filter,
                                      .strict = config->strict,
                                      .threads = config->threads,
                                      .progress = progress};
    return dataset_open(config->data, &options, dataset);
}

static enum status open_data(struct trainer *trainer, const struct trainer_rank *rank)
{
    if (!trainer->dataset)
        TRY(trainer_open_data(&trainer->config, rank->show_decoding, &trainer->dataset));
    trainer->config.channels = trainer->dataset->channels;
    trainer->config.resolution = trainer->dataset->resolution;
    return STATUS_OK;
}

// A loss scale is for f16: bf16 has f32's range, and f32 needs none.
int trainer_wants_scaler(const struct config *config, int network)
{
    if (config->scaler == SCALER_AUTO)
        return trainer_gradients_are_half(config, network);
    return config->scaler != SCALER_OFF;
}

struct gan_config trainer_gan_config(const struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    int options = config->recompute ? NET_RECOMPUTE : 0;
    struct passes passes;
    passes_choose(&passes, config);
    return (struct gan_config){
        .passes = passes,
        .sizes = trainer_dcgan_config(config, config->channels),
        .dtype = {[ROLE_G] = trainer_dtype(config, ROLE_G),
                  [ROLE_D] = trainer_dtype(config, ROLE_D)},
        .options = {[ROLE_G] = options, [ROLE_D] = options | NET_INPUT_GRAD},
        .batch = trainer_rows(trainer),
        .has_synced_norm = config->sync_bn && trainer->device->world > 1};
}

struct gan_batch trainer_batch(const struct trainer *trainer)
{
    return (struct gan_batch){.real = &trainer->feed.real,
                              .latents = &trainer->feed.latents};
}

struct pass_loss trainer_pass_loss(struct trainer *trainer, int pass)
{
    const struct pass_row *row = &trainer->gan.passes.row[pass];
    int batches = trainer->config.network[row->trains].accum;
    return (struct pass_loss){.kind = row->loss,
                              .target = row->target,
                              .weight =
                                  row->weight / (float)(trainer->device->world * batches),
                              .scale = topology_scale(&trainer->topology, pass)};
}

// Initial weights, and what trains them.
static enum status create_training(struct trainer *trainer, int role)
{
    const struct config *config = &trainer->config;
    const struct network_config *own = &config->network[role];
    struct net *net = &trainer->gan.net[role];
    struct adam_config adam = {.lr = (float)own->lr,
                               .beta1 = (float)own->beta1,
                               .beta2 = (float)own->beta2,
                               .eps = (float)own->eps};
    struct grad_scaler_config scaler = config_scaler(config, own);
    scaler.enabled = trainer_wants_scaler(config, role);
    // Without a minimum, PyTorch's rule ends at a scale of 0, and 1/scale before it: here
    // it ends at the smallest scale that can be divided by.
    if (scaler.min_scale == 0.0)
        scaler.min_scale = (double)FLT_MIN;
    TRY(net_initialise(net, (uint64_t)config->seed, (uint64_t)role));
    TRY(adam_create(&trainer->adam[role], net, &adam));
    return grad_scaler_create(&trainer->scaler[role], trainer->device, role_name(role),
                              &scaler);
}

static enum status create_topology(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    enum topology_kind kind = TOPOLOGY_PER_NETWORK;
    if (config->scaler == SCALER_SHARED)
        kind = TOPOLOGY_SHARED;
    else if (config->scaler == SCALER_SHARED_PER_STEP)
        kind = TOPOLOGY_SHARED_PER_STEP;
    else if (config->scaler == SCALER_PER_LOSS)
        kind = TOPOLOGY_PER_LOSS;
    struct scaled network[ROLES];
    for (int role = 0; role < ROLES; role++)
        network[role] =
            (struct scaled){.scaler = &trainer->scaler[role],
                            .optimizer = &trainer->adam[role].optimizer,
                            .clip_norm = (float)config->network[role].clip_norm};
    const struct passes *passes = &trainer->gan.passes;
    struct topology_pass pass[PASSES_MAX];
    for (int i = 0; i < passes->count; i++) {
        const struct pass_row *row = &passes->row[i];
        pass[i] = (struct topology_pass){
            .trains = row->trains,
            .per_loss = row->has_scale_of_fakes ? SCALER_D_FAKE : (int)row->trains};
    }
    return topology_create(&trainer->topology, kind, (enum skip_rule)config->skip,
                           network, pass, passes->count);
}

static enum status create_networks(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    struct gan_config gan = trainer_gan_config(trainer);
    struct net *g = &trainer->gan.net[ROLE_G];
    TRY(gan_create(&trainer->gan, trainer->device, &gan));
    for (int role = 0; role < ROLES; role++)
        TRY(create_training(trainer, role));
    TRY(create_topology(trainer));
    TRY(ema_create(&trainer->ema, g, config->ema_kimg, config->ema_rampup));
    ema_reset(&trainer->ema);
    ema_attach(&trainer->ema, &trainer->adam[ROLE_G]);
    struct queue_ops queue = trainer->device->ops->queue;
    TRY(queue.open_stream(trainer->device, &trainer->sample_stream));
    TRY(dcgan_generator(&trainer->sampler.net, trainer->sample_stream, &gan.sizes,
                        gan.dtype[ROLE_G], SAMPLER_BATCH));
    return sampler_plan(&trainer->sampler, config->grid_columns * config->grid_rows);
}

static enum status create_feed(struct trainer *trainer)
{
    struct feed *feed = &trainer->feed;
    struct net *g = &trainer->gan.net[ROLE_G];
    const struct net *d = &trainer->gan.net[ROLE_D];
    TRY(feed_create(feed, trainer->device, &d->input, &g->input,
                    config_step_batches(&trainer->config)));
    feed->seed = trainer_stream_seed(trainer);
    feed->mirror = trainer->config.mirror;
    return STATUS_OK;
}

// In the order of the line: G's output is D's input.
static enum status create_surveys(struct trainer *trainer)
{
    for (int network = 0; network < ROLES; network++) {
        struct survey *survey = &trainer->survey[network];
        survey_begin(survey, trainer->device);
        survey_add_activations(survey, &trainer->gan.net[ROLE_G]);
        survey_add_activations(survey, &trainer->gan.net[ROLE_D]);
        survey_add_gradients(survey, &trainer->gan.net[network],
                             trainer->gan.net[network].grads);
        TRY(survey_commit(survey));
    }
    return STATUS_OK;
}

static enum status create_results(struct trainer *trainer)
{
    int g = trainer->survey[ROLE_G].count, d = trainer->survey[ROLE_D].count;
    const struct config *config = &trainer->config;
    struct results_size size = {
        .sums = passes_count(&trainer->gan.passes, ROLE_D) * config_step_batches(config) +
                passes_count(&trainer->gan.passes, ROLE_G) * config->g.accum,
        .records = config->n_dis + 1,
        .fakes = trainer->topology.kind == TOPOLOGY_PER_LOSS ? config->n_dis : 0,
        .stats = g > d ? g : d};
    arena_begin(&trainer->arena, trainer->device, "planted faults");
    inject_reserve(trainer);
    TRY(arena_commit(&trainer->arena));
    return results_create(&trainer->results, trainer->device, &size);
}

// Several processes take the GPUs from the N of "cuda:N" on; "auto" begins with the
// first.
const char *trainer_device_name(const struct config *config,
                                const struct trainer_rank *rank,
                                char name[TRAINER_DEVICE])
{
    int first = 0;
    snprintf(name, TRAINER_DEVICE, "%s", config->device);
    if (rank->world > 1) {
        sscanf(config->device, "cuda:%4d", &first);
        snprintf(name, TRAINER_DEVICE, "cuda:%d", first + rank->device_index);
    }
    return name;
}

static enum status open_device(struct trainer *trainer, const struct trainer_rank *rank)
{
    const struct config *config = &trainer->config;
    char name[TRAINER_DEVICE];
    struct device_options options = {.threads = config->threads,
                                     .is_deterministic = config->deterministic,
                                     .allows_tf32 = config->tf32,
                                     .is_plain = !config->graph,
                                     .tunes_plans = config->tune_plans,
                                     .rank = rank->rank,
                                     .world = rank->world};
    memcpy(options.group_id, rank->group_id, sizeof options.group_id);
    return device_open_with(trainer_device_name(config, rank, name), &options,
                            &trainer->device);
}

// All that lies on the device and belongs to this config.
static enum status build(struct trainer *trainer)
{
    TRY(create_networks(trainer));
    TRY(create_feed(trainer));
    TRY(create_surveys(trainer));
    TRY(create_results(trainer));
    return probe_create(trainer);
}

// `config` may be the trainer's own.
static void begin(struct trainer *trainer, const struct config *config)
{
    struct config own = *config;
    memset(trainer, 0, sizeof *trainer);
    trainer->config = own;
}

enum status trainer_create_rank(struct trainer *trainer, const struct config *config,
                                const struct trainer_rank *rank)
{
    begin(trainer, config);
    TRY(open_device(trainer, rank));
    TRY(open_data(trainer, rank));
    return build(trainer);
}

enum status trainer_create(struct trainer *trainer, const struct config *config)
{
    struct trainer_rank alone = {.rank = 0, .world = 1};
    return trainer_create_rank(trainer, config, &alone);
}

enum status trainer_create_with_data(struct trainer *trainer, const struct config *config,
                                     const struct trainer_rank *rank,
                                     struct dataset **shared)
{
    begin(trainer, config);
    trainer->dataset = *shared;
    trainer->borrows_dataset = 1;
    TRY(open_device(trainer, rank));
    enum status status = open_data(trainer, rank);
    *shared = trainer->dataset;
    TRY(status);
    return build(trainer);
}

// Odd multiples of it differ in many bits, so that no two runs meet in one order.
#define ROLLBACK_SALT 0x9e3779b97f4a7c15u

uint64_t trainer_stream_seed(const struct trainer *trainer)
{
    return (uint64_t)trainer->config.seed +
           (uint64_t)trainer->progress.rollbacks * ROLLBACK_SALT;
}

// A recorded step keeps the seed that it was recorded with.
static void forget_order(struct trainer *trainer)
{
    struct queue_ops queue = trainer->device->ops->queue;
    if (trainer->repeat)
        queue.forget(trainer->device, &trainer->repeat);
    if (trainer->probe.repeat)
        queue.forget(trainer->device, &trainer->probe.repeat);
    batch_close(trainer->feed.batches);
    trainer->feed.batches = NULL;
}

enum status trainer_start_data(struct trainer *trainer)
{
    int rows = trainer_rows(trainer);
    forget_order(trainer);
    trainer->feed.seed = trainer_stream_seed(trainer);
    struct batch_options options = {.size = trainer->config.batch,
                                    .first_row = trainer->device->rank * rows,
                                    .rows = rows,
                                    // Those of every step on its way.
                                    .kept = RESULTS_RING *
                                            config_step_batches(&trainer->config),
                                    .seed = trainer->feed.seed,
                                    .first_image = (uint64_t)trainer->progress.images};
    return batch_open(trainer->dataset, trainer->device, &options,
                      &trainer->feed.batches);
}

// What build() and trainer_start_data() have made. Nothing here follows a pointer from
// one part to another, so that a copy of the struct can be taken down as well.
static void take_down(struct trainer *trainer)
{
    struct device *device = trainer->device;
    if (device)
        device->ops->memory.wait(device);
    if (trainer->repeat)
        device->ops->queue.forget(device, &trainer->repeat);
    probe_release(&trainer->probe);
    batch_close(trainer->feed.batches);
    results_release(&trainer->results);
    feed_release(&trainer->feed);
    sampler_release(&trainer->sampler);
    if (trainer->sample_stream)
        device->ops->queue.close_stream(device, trainer->sample_stream);
    ema_release(&trainer->ema);
    topology_release(&trainer->topology);
    for (int role = 0; role < ROLES; role++) {
        survey_release(&trainer->survey[role]);
        grad_scaler_release(&trainer->scaler[role]);
        adam_release(&trainer->adam[role]);
    }
    gan_release(&trainer->gan);
    if (trainer->arena.device)
        arena_release(&trainer->arena);
}

void trainer_release(struct trainer *trainer)
{
    take_down(trainer);
    if (!trainer->borrows_dataset)
        dataset_close(trainer->dataset);
    device_close(trainer->device);
    memset(trainer, 0, sizeof *trainer);
}

enum status trainer_rebuild(struct trainer *trainer)
{
    struct trainer *before = malloc(sizeof *before);
    TRY_MEMORY(before, "a trainer");
    CHECK(results_pending(&trainer->results) == 0, "steps are on their way");
    *before = *trainer;
    *trainer = (struct trainer){.config = before->config,
                                .device = before->device,
                                .dataset = before->dataset,
                                .borrows_dataset = before->borrows_dataset};
    enum status status = build(trainer);
    take_down(status == STATUS_OK ? before : trainer);
    if (status != STATUS_OK)
        *trainer = *before;
    free(before);
    return status;
}

int trainer_rows(const struct trainer *trainer)
{
    return trainer->config.batch / trainer->device->world;
}

double trainer_kimg(const struct trainer *trainer)
{
    return (double)trainer->progress.images / 1000.0;
}

double trainer_epoch(const struct trainer *trainer)
{
    return (double)trainer->progress.images / (double)trainer->dataset->count;
}
