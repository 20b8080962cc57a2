#include "app/trainer.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/output/progress.h"
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
    const struct network_config *own = network == ROLE_G ? &config->g : &config->d;
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

static void show_decoding(void *context, size_t done, size_t total)
{
    (void)context;
    if (total > 1000 && done % 1000 == 0)
        progress_bar((double)done, (double)total, 0.0, -1.0);
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

static enum status open_data(struct trainer *trainer)
{
    if (!trainer->dataset) {
        enum status status = trainer_open_data(
            &trainer->config, trainer->device->rank ? NULL : show_decoding,
            &trainer->dataset);
        progress_clear();
        TRY(status);
    }
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

int trainer_net_options(const struct config *config, int network)
{
    return (network == ROLE_D ? NET_INPUT_GRAD : 0) |
           (config->recompute ? NET_RECOMPUTE : 0);
}

static enum status create_player(struct trainer *trainer, int network)
{
    const struct config *config = &trainer->config;
    const struct network_config *own = network == ROLE_G ? &config->g : &config->d;
    struct player *player = &trainer->player[network];
    struct adam_config adam = {.lr = (float)own->lr,
                               .beta1 = (float)own->beta1,
                               .beta2 = (float)own->beta2,
                               .eps = (float)own->eps};
    struct grad_scaler_config scaler = config_scaler(config, own);
    scaler.enabled = trainer_wants_scaler(config, network);
    // Without a minimum, PyTorch's rule ends at a scale of 0, and 1/scale before it: here it
    // ends at the smallest scale that can be divided by.
    if (scaler.min_scale == 0.0)
        scaler.min_scale = (double)FLT_MIN;
    TRY(net_plan(&player->net, trainer_net_options(config, network)));
    net_initialise(&player->net, (uint64_t)config->seed, (uint64_t)network);
    TRY(adam_create(&player->adam, &player->net, &adam));
    return grad_scaler_create(&player->scaler, trainer->device, role_name(network),
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
    for (int i = 0; i < ROLES; i++) {
        struct player *player = &trainer->player[i];
        const struct network_config *own = i == ROLE_G ? &config->g : &config->d;
        network[i] = (struct scaled){.scaler = &player->scaler,
                                     .adam = &player->adam,
                                     .clip_norm = (float)own->clip_norm};
    }
    return topology_create(&trainer->topology, kind, (enum skip_rule)config->skip,
                           network);
}

// Where the two networks agree on types, G's output is D's input and D's input gradient is
// G's output gradient: the same memory, nothing is copied. Where they do not, both are cast.
const struct tensor *trainer_fakes_grad(const struct trainer *trainer)
{
    const struct net *g = &trainer->player[ROLE_G].net;
    const struct net *d = &trainer->player[ROLE_D].net;
    return precision_agrees(&g->output_grad, &d->input_grad) ? &d->input_grad
                                                             : &g->output_grad;
}

static enum status create_meeting(struct trainer *trainer)
{
    struct net *g = &trainer->player[ROLE_G].net, *d = &trainer->player[ROLE_D].net;
    if (precision_agrees(net_output(g), &d->input))
        return STATUS_OK;
    trainer->fakes = d->input;
    arena_begin(&trainer->meeting, trainer->device, "fakes as D reads them");
    arena_reserve(&trainer->meeting, &trainer->fakes.data, tensor_bytes(&trainer->fakes));
    return arena_commit(&trainer->meeting);
}

static enum status create_networks(struct trainer *trainer)
{
    const struct config *config = &trainer->config;
    struct dcgan_config sizes = trainer_dcgan_config(config, config->channels);
    struct net *g = &trainer->player[ROLE_G].net, *d = &trainer->player[ROLE_D].net;
    TRY(dcgan_generator(g, trainer->device, &sizes, trainer_dtype(config, ROLE_G),
                        trainer_rows(trainer)));
    TRY(dcgan_discriminator(d, trainer->device, &sizes, trainer_dtype(config, ROLE_D),
                            trainer_rows(trainer)));
    const struct net *both[] = {g, d};
    TRY(precision_check_patterns(config->fp32_layers, both, ROLES));
    for (int network = 0; network < ROLES; network++)
        TRY(create_player(trainer, network));
    TRY(create_topology(trainer));
    g->has_synced_norm = d->has_synced_norm =
        config->sync_bn && trainer->device->world > 1;
    TRY(create_meeting(trainer));
    TRY(ema_create(&trainer->ema, g, config->ema_kimg, config->ema_rampup));
    ema_reset(&trainer->ema);
    ema_attach(&trainer->ema, &trainer->player[ROLE_G].adam);
    struct queue_ops queue = trainer->device->ops->queue;
    TRY(queue.open_lane(trainer->device, &trainer->sample_lane));
    return sampler_create(&trainer->sampler, trainer->sample_lane, &sizes,
                          trainer_dtype(config, ROLE_G),
                          config->grid_columns * config->grid_rows);
}

static enum status create_feed(struct trainer *trainer)
{
    struct feed *feed = &trainer->feed;
    struct net *g = &trainer->player[ROLE_G].net;
    const struct net *d = &trainer->player[ROLE_D].net;
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
        survey_add_activations(survey, &trainer->player[ROLE_G].net);
        survey_add_activations(survey, &trainer->player[ROLE_D].net);
        survey_add_gradients(survey, &trainer->player[network].net,
                             trainer->player[network].net.grads);
        TRY(survey_commit(survey));
    }
    return STATUS_OK;
}

static enum status create_results(struct trainer *trainer)
{
    int g = trainer->survey[ROLE_G].count, d = trainer->survey[ROLE_D].count;
    const struct config *config = &trainer->config;
    struct results_size size = {
        .sums = 2 * config_step_batches(config) + config->g.accum,
        .records = config->n_dis + 1,
        .fakes = trainer->topology.kind == TOPOLOGY_PER_LOSS ? config->n_dis : 0,
        .stats = g > d ? g : d};
    arena_begin(&trainer->arena, trainer->device, "planted faults");
    inject_reserve(trainer);
    TRY(arena_commit(&trainer->arena));
    return results_create(&trainer->results, trainer->device, &size);
}

// Several processes take the GPUs from the N of "cuda:N" on; "auto" begins with the first.
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
    return look_create(trainer);
}

enum status trainer_create_rank(struct trainer *trainer, const struct config *config,
                                const struct trainer_rank *rank)
{
    memset(trainer, 0, sizeof *trainer);
    trainer->config = *config;
    TRY(open_device(trainer, rank));
    TRY(open_data(trainer));
    return build(trainer);
}

enum status trainer_create(struct trainer *trainer, const struct config *config)
{
    struct trainer_rank alone = {.rank = 0, .world = 1};
    return trainer_create_rank(trainer, config, &alone);
}

enum status trainer_create_with_data(struct trainer *trainer, const struct config *config,
                                     struct dataset **shared)
{
    struct trainer_rank alone = {.rank = 0, .world = 1};
    memset(trainer, 0, sizeof *trainer);
    trainer->config = *config;
    trainer->dataset = *shared;
    trainer->borrows_dataset = 1;
    TRY(open_device(trainer, &alone));
    enum status status = open_data(trainer);
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
    if (trainer->look.repeat)
        queue.forget(trainer->device, &trainer->look.repeat);
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

// What build() and trainer_start_data() have made. Nothing here follows a pointer from one
// part to another, so that a copy of the struct can be taken down as well.
static void take_down(struct trainer *trainer)
{
    struct device *device = trainer->device;
    if (device)
        device->ops->memory.wait(device);
    if (trainer->repeat)
        device->ops->queue.forget(device, &trainer->repeat);
    look_release(&trainer->look);
    batch_close(trainer->feed.batches);
    results_release(&trainer->results);
    feed_release(&trainer->feed);
    sampler_release(&trainer->sampler);
    if (trainer->sample_lane)
        device->ops->queue.close_lane(device, trainer->sample_lane);
    ema_release(&trainer->ema);
    topology_release(&trainer->topology);
    for (int network = 0; network < ROLES; network++) {
        struct player *player = &trainer->player[network];
        survey_release(&trainer->survey[network]);
        grad_scaler_release(&player->scaler);
        adam_release(&player->adam);
        net_release(&player->net);
    }
    if (trainer->meeting.device)
        arena_release(&trainer->meeting);
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
