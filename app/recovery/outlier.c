#include "app/recovery/outlier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/train.h"

struct trial {
    struct trainer *trainer;
    int rows;
    size_t row_bytes;
    char *batch, *mixed;        // host: the images as they were, and as they are tried
    struct survey_stats *stats; // host
};

#define TRIAL_SHARE \
    64.0f // of the scale that overflowed: an outlier of so many times is seen

int outlier_is_possible(const struct trainer *trainer, const struct diagnosis *diagnosis,
                        int slot, float good, int64_t quiet_steps)
{
    const struct grad_scaler_config *scaler = &trainer->scaler[ROLE_D].config;
    // Only the last batch of the last optimizer step is still there, with these weights.
    int is_last = slot == trainer->config.n_dis - 1 && trainer->config.d.accum == 1;
    return diagnosis->cause == CAUSE_SCALE && is_last && diagnosis->is_exact &&
           diagnosis->only_real && trainer->device->world == 1 &&
           diagnosis->facts.scale <= good &&
           quiet_steps >= scaler->growth_interval / OUTLIER_QUIET;
}

// What the largest gradient has of its range, at the scale that overflowed: 1 is all.
static float share_of_range(const struct trial *trial)
{
    const struct survey *survey = &trial->trainer->probe.survey[PASS_D_REAL];
    float most = 0.0f;
    for (int i = 0; i < survey->count; i++) {
        if (trial->stats[i].inf + trial->stats[i].nan > 0)
            return INFINITY;
        if (survey->entry[i].kind != SURVEY_ACTIVATION)
            most = fmaxf(most, trial->stats[i].max_abs / survey_limit(&survey->entry[i]));
    }
    return most * TRIAL_SHARE;
}

static void upload_batch(struct trial *trial, const char *images)
{
    struct trainer *trainer = trial->trainer;
    trainer->device->ops->memory.upload(trainer->device, trainer->feed.real.data, images,
                                        tensor_bytes(&trainer->feed.real));
}

// Of the batch with the image after it in the place of `row`'s, or of the whole one (-1).
static float share_without(struct trial *trial, int row)
{
    struct probe *probe = &trial->trainer->probe;
    memcpy(trial->mixed, trial->batch, (size_t)trial->rows * trial->row_bytes);
    if (row >= 0)
        memcpy(trial->mixed + (size_t)row * trial->row_bytes,
               trial->batch + (size_t)((row + 1) % trial->rows) * trial->row_bytes,
               trial->row_bytes);
    upload_batch(trial, trial->mixed);
    train_real_again(trial->trainer);
    probe->device->ops->memory.download(
        probe->device, trial->stats, probe->stats[PASS_D_REAL],
        (size_t)probe->survey[PASS_D_REAL].count * sizeof *trial->stats);
    return share_of_range(trial);
}

/* The rows whose logits in the last pass are the lowest, the lowest first: the real
 * images that D takes for fakes have the largest gradients. Their number. */
static int choose_suspects(const struct trial *trial, int suspects[OUTLIER_SUSPECTS])
{
    struct device *device = trial->trainer->device;
    const struct tensor *logits = net_output(&trial->trainer->gan.net[ROLE_D]);
    int count = 0;
    float *host = malloc(tensor_bytes(logits));
    if (!host)
        return 0;
    device->ops->memory.download(device, host, logits->data, tensor_bytes(logits));
    for (int row = 0; row < trial->rows; row++) {
        float logit = host[row * logits->c_stored];
        int place = count < OUTLIER_SUSPECTS ? count++ : OUTLIER_SUSPECTS;
        for (; place > 0 && host[suspects[place - 1] * logits->c_stored] > logit; place--)
            if (place < OUTLIER_SUSPECTS)
                suspects[place] = suspects[place - 1];
        if (place < OUTLIER_SUSPECTS)
            suspects[place] = row;
    }
    free(host);
    return count;
}

static int find_row(struct trial *trial)
{
    int suspects[OUTLIER_SUSPECTS];
    float whole = share_without(trial, -1);
    int count = choose_suspects(trial, suspects);
    for (int i = 0; i < count; i++) {
        float share = share_without(trial, suspects[i]);
        if (share <= 1.0f && whole >= OUTLIER_TIMES * share)
            return suspects[i];
    }
    return -1;
}

static void write_scale(struct trainer *trainer, const struct scaler_state *state)
{
    trainer->device->ops->memory.upload(trainer->device,
                                        topology_scale(&trainer->topology, PASS_D_REAL),
                                        state, sizeof *state);
}

int outlier_find(struct trainer *trainer, const struct diagnosis *diagnosis)
{
    const struct memory_ops *memory = &trainer->device->ops->memory;
    const struct tensor *real = &trainer->feed.real;
    size_t bytes = tensor_bytes(real);
    struct trial trial = {.trainer = trainer,
                          .rows = real->shape.n,
                          .row_bytes = bytes / (size_t)real->n_stored,
                          .batch = malloc(bytes),
                          .mixed = malloc(bytes),
                          .stats = calloc((size_t)probe_most_entries(&trainer->probe),
                                          sizeof *trial.stats)};
    int row = -1;
    if (trial.batch && trial.mixed && trial.stats && trial.rows > 1) {
        struct scaler_state kept, low;
        memory->download(trainer->device, &kept,
                         topology_scale(&trainer->topology, PASS_D_REAL), sizeof kept);
        low = kept;
        low.scale = diagnosis->facts.scale / TRIAL_SHARE;
        memory->download(trainer->device, trial.batch, real->data, bytes);
        write_scale(trainer, &low);
        row = find_row(&trial);
        write_scale(trainer, &kept);
        upload_batch(&trial, trial.batch);
    }
    free(trial.batch);
    free(trial.mixed);
    free(trial.stats);
    return row;
}
