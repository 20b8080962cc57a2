/* measure.c - how often the cause that a run writes to events.jsonl is the true one.
 *
 *     diagnosis_measure RESULTS.jsonl [SEEDS]   measures what RESULTS does not have yet
 *     diagnosis_measure --table RESULTS.jsonl   precision and recall of each cause
 *     diagnosis_measure --sample                one seed of the smallest preset; code 1
 *                                               where a cause is right in less than 95 %
 *
 * A case is a preset, narrow and with a small batch, in a situation that makes steps
 * overflow: natural ones, where nothing but rates and scales is unusual, and planted
 * ones. Every skip of D or G is one pair: what was said, and what truth.c found. A line
 * of the results is one case with its pairs counted. */
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/input/batch.h"
#include "app/report.h"
#include "app/train/train.h"
#include "tests/diagnosis/table.h"
#include "tests/diagnosis/truth.h"

#define INTERVAL 20

/* Narrow, so that a case takes seconds; the two of 28 px are different networks. */
static const struct preset {
    const char *name;
    int g_width, d_width, latent, batch;
} presets[] = {
    {"fmnist-quick", 8, 8, 16, 16},
    {"dcgan28", 6, 12, 24, 8},
    {"dcgan32", 8, 8, 16, 16},
    {"dcgan64", 8, 8, 16, 8},
};

enum plant {
    PLANT_NOTHING,
    PLANT_INJECT,
    PLANT_NAN_WEIGHT,
    PLANT_LARGE_WEIGHTS,
    PLANT_LARGE_GRADIENTS,
    PLANT_IMAGE
};

static const struct situation {
    const char *name;
    enum plant plant;
    const char *inject;
    double g_lr, d_lr, g_scale, d_scale;
    int steps, scaler, is_ahead;
    int precision; // 0 is fp16
    int accum;     // 0 is 1
    const char *fp32_layers;
} situations[] = {
    {"usual rates", PLANT_NOTHING, "", 2e-4, 2e-4, 0x1p20, 0x1p20, .steps = 240},
    {"high rate of D", PLANT_NOTHING, "", 2e-4, 5e-3, 0x1p16, 0x1p16, .steps = 240},
    {"high rate of G", PLANT_NOTHING, "", 2e-2, 2e-4, 0x1p16, 0x1p16, .steps = 240},
    {"saturated D", PLANT_NOTHING, "", 1e-6, 2e-3, 0x1p16, 0x1p16, .steps = 240},
    {"diverging", PLANT_NOTHING, "", 1.0, 1.0, 0x1p12, 0x1p12, .steps = 80},
    {"shared scale", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20, .steps = 160,
     .scaler = SCALER_SHARED},
    {"shared scale, per step", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20,
     .steps = 160, .scaler = SCALER_SHARED_PER_STEP},
    {"scale per loss", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20, .steps = 160,
     .scaler = SCALER_PER_LOSS},
    {"device ahead", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20, .steps = 160,
     .is_ahead = 1},
    {"layers in f32", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20, .steps = 160,
     .fp32_layers = "d.*2,g.*2"},
    {"two batches a step", PLANT_NOTHING, "", 2e-4, 2e-3, 0x1p20, 0x1p20, .steps = 120,
     .accum = 2},
    {"far too high a scale", PLANT_INJECT, "", 2e-4, 2e-4, 0x1p40, 0x1p40, .steps = 20},
    {"far too high a scale, bf16", PLANT_INJECT, "", 2e-2, 2e-2, 1.6e38, 1.6e38,
     .steps = 80, .precision = PRECISION_BF16},
    {"far too high a scale, two batches", PLANT_INJECT, "", 2e-4, 2e-4, 0x1p40, 0x1p40,
     .steps = 12, .accum = 2},
    {"huge activation of G", PLANT_INJECT, "g:4-9:huge-activation", 2e-4, 2e-4, 0x1p16,
     0x1p16, .steps = 10},
    {"inf weight of D", PLANT_INJECT, "d:4:bad-weight", 2e-4, 2e-4, 256, 256, .steps = 8},
    {"inf weight of G", PLANT_INJECT, "g:4:bad-weight", 2e-4, 2e-4, 256, 256, .steps = 8},
    {"NaN weight", PLANT_NAN_WEIGHT, "", 2e-4, 2e-4, 256, 256, .steps = 8},
    {"NaN weight, bf16", PLANT_NAN_WEIGHT, "", 2e-4, 2e-4, 256, 256, .steps = 8,
     .precision = PRECISION_BF16},
    {"NaN weight, device ahead", PLANT_NAN_WEIGHT, "", 2e-4, 2e-4, 256, 256, .steps = 8,
     .is_ahead = 1},
    {"NaN in D's forward pass", PLANT_INJECT, "d:4-7:nan-forward", 2e-4, 2e-4, 256, 256,
     .steps = 8},
    {"NaN in G's forward pass", PLANT_INJECT, "g:4-7:nan-forward", 2e-4, 2e-4, 256, 256,
     .steps = 8},
    {"large weights", PLANT_LARGE_WEIGHTS, "", 2e-4, 2e-4, 256, 256, .steps = 12},
    {"gradients beyond f32, scale below 1", PLANT_LARGE_GRADIENTS, "", 2e-4, 2e-4,
     0x1p-20, 0x1p-20, .steps = 12, .precision = PRECISION_BF16},
    {"inf in D's gradients", PLANT_INJECT, "d:4-9:inf", 2e-4, 2e-4, 256, 256,
     .steps = 10},
    {"NaN in G's gradients", PLANT_INJECT, "g:4-9:nan", 2e-4, 2e-4, 256, 256,
     .steps = 10},
    {"one odd image", PLANT_IMAGE, "", 1e-5, 1e-3, 0x1p13, 0x1p16, .steps = 280},
};
#define SITUATIONS (int)(sizeof situations / sizeof *situations)

/* ---- a run ----------------------------------------------------------------------- */

struct pair {
    int64_t step;
    int network;
    const char *truth;
};

struct measured {
    struct trainer trainer;
    struct truth truth;
    struct run_folder folder;
    struct monitor *monitor;
    struct report report;
    const struct situation *situation;
    uint64_t seed;
    struct pair *pairs;
    int pair_count;
    int64_t quiet, interval_steps; // of D, counted here by itself
    double good;                   // the largest scale that D had for a whole interval
};

static void must(enum status status)
{
    CHECK(status == STATUS_OK, "%s", status_message());
}

static struct config config_of(const struct preset *preset,
                               const struct situation *situation, uint64_t seed,
                               const char *out)
{
    struct config config;
    config_default(&config);
    must(config_apply_preset(&config, preset->name));
    snprintf(config.data, sizeof config.data, "%s",
             config.resolution == 28 ? "builtin:fashion" : "builtin:shapes");
    config.channels = 0;
    config.g.width = preset->g_width;
    config.d.width = preset->d_width;
    config.latent = preset->latent;
    config.batch = preset->batch;
    config.threads = 1;
    config.seed = (int64_t)seed;
    config.g.lr = situation->g_lr;
    config.d.lr = situation->d_lr;
    config.g.init_scale = situation->g_scale;
    config.d.init_scale = situation->d_scale;
    config.g.growth_interval = config.d.growth_interval = INTERVAL;
    config.scaler = situation->scaler ? situation->scaler : SCALER_PER_NETWORK;
    if (situation->accum)
        config.g.accum = config.d.accum = situation->accum;
    config.precision = situation->precision ? situation->precision : PRECISION_FP16;
    if (situation->fp32_layers)
        snprintf(config.fp32_layers, sizeof config.fp32_layers, "%s",
                 situation->fp32_layers);
    config.on_overflow_storm = STORM_WARN;
    config.preview = PREVIEW_OFF;
    config.grid_columns = config.grid_rows = 1;
    config.ema_kimg = 0;
    config.kimg = 1000;
    snprintf(config.out, sizeof config.out, "%s", out);
    snprintf(config.inject, sizeof config.inject, "%s", situation->inject);
    return config;
}

static void run_open(struct measured *run, const struct preset *preset,
                     const struct situation *situation, uint64_t seed, const char *out)
{
    struct config config = config_of(preset, situation, seed, out);
    memset(run, 0, sizeof *run);
    run->situation = situation;
    run->seed = seed;
    must(trainer_create(&run->trainer, &config));
    must(trainer_start_data(&run->trainer));
    run->trainer.device->steps_ahead = situation->is_ahead;
    truth_open(&run->truth, &config);
    must(run_folder_create(&run->folder, &config, "measured"));
    run->monitor = monitor_create();
    must(report_open(&run->report, &run->trainer, &run->folder, run->monitor, 0, 0));
    run->pairs = calloc(2 * (size_t)situation->steps, sizeof *run->pairs);
    CHECK(run->pairs);
}

static void run_close(struct measured *run)
{
    report_close(&run->report);
    monitor_destroy(run->monitor);
    run_folder_close(&run->folder);
    truth_close(&run->truth);
    trainer_release(&run->trainer);
    free(run->pairs);
}

/* ---- what is planted ------------------------------------------------------------- */

// Numbers that differ from case to case and repeat from run to run.
static size_t draw(struct measured *run, size_t below)
{
    run->seed = run->seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((run->seed >> 33) % below);
}

static void plant_nan_weight(struct measured *run)
{
    struct net *net = &run->trainer.gan.net[draw(run, ROLES)];
    int i = (int)draw(run, (size_t)net->param_count);
    struct tensor weights = net_param_tensor(net, i, net->params);
    ((float *)weights.data)[draw(run, (size_t)weights.shape.c)] = NAN;
    net_params_changed(net);
}

// A convolution's outputs are far beyond 65504; none of its weights is. Not the one
// before G's tanh, which takes any value back.
static void plant_large_weights(struct measured *run)
{
    struct net *net = &run->trainer.gan.net[draw(run, ROLES)];
    int i;
    do
        i = (int)draw(run, (size_t)net->param_count);
    while (!strstr(net->param[i].name, "conv") ||
           net->param[i].node + 2 == net->node_count);
    struct tensor weights = net_param_tensor(net, i, net->params);
    for (size_t k = 0; k < tensor_elements(&weights); k++)
        ((float *)weights.data)[k] = 4e4f;
    net_params_changed(net);
}

// The weights of the layer before: of a convolution, or of the linear layer at 28 px.
static int weights_before(const struct net *net, int param)
{
    const char *name;
    do
        name = net->param[--param].name;
    while (!strstr(name, "weight") || (!strstr(name, "conv") && !strstr(name, "fc")));
    return param;
}

/* D's logits stay within f32's range, and gradients of the layer before the last do so
 * only at a scale below 1: batch norm undoes its small weights in the forward pass, and
 * multiplies the gradient by as much. */
static void plant_large_gradients(struct measured *run)
{
    struct net *net = &run->trainer.gan.net[ROLE_D];
    int last = weights_before(net, net->param_count);
    struct tensor weights = net_param_tensor(net, last, net->params);
    for (size_t k = 0; k < tensor_elements(&weights); k++)
        ((float *)weights.data)[k] = draw(run, 2) ? 3e37f : -3e37f;
    weights = net_param_tensor(net, weights_before(net, last), net->params);
    for (size_t k = 0; k < tensor_elements(&weights); k++)
        ((float *)weights.data)[k] *= 0.001f;
    net_params_changed(net);
}

// An image of the next batch becomes what G makes. True where D is at a scale that was
// good.
static int plant_image(struct measured *run)
{
    struct trainer *trainer = &run->trainer;
    const struct dataset *dataset = trainer->dataset;
    size_t index[16], row = draw(run, (size_t)trainer->config.batch);
    size_t pixels = (size_t)dataset->resolution * (size_t)dataset->resolution;
    size_t channels = (size_t)dataset->channels;
    if (run->quiet < INTERVAL / 2 ||
        (double)trainer->last.record[ROLE_D].scale_after > run->good)
        return 0;
    batch_indices(dataset, trainer_stream_seed(trainer),
                  (uint64_t)trainer->progress.images, (size_t)trainer->config.batch,
                  index);
    struct tensor fake = *net_output(&trainer->gan.net[ROLE_G]), copy = fake;
    copy.dtype = DTYPE_F32;
    copy.data = malloc(tensor_elements(&copy) * sizeof(float) * 2 + 4096);
    CHECK(copy.data && fake.c_stored == (int)channels);
    trainer->device->ops->pointwise.cast(trainer->device, &fake, &copy);
    uint8_t *image = dataset->pixels + index[row] * pixels * channels;
    for (size_t i = 0; i < pixels * channels; i++)
        image[i] = (uint8_t)(127.5f * (((float *)copy.data)[i] + 1.0f) + 0.5f);
    free(copy.data);
    memcpy(run->truth.half.dataset->pixels + index[row] * pixels * channels, image,
           pixels * channels);
    must(trainer_start_data(trainer)); // nothing read ahead is old
    return 1;
}

static void plant(struct measured *run, int64_t step)
{
    enum plant what = run->situation->plant;
    if (what == PLANT_NAN_WEIGHT && step == 4)
        plant_nan_weight(run);
    if (what == PLANT_LARGE_WEIGHTS && step == 4)
        plant_large_weights(run);
    if (what == PLANT_LARGE_GRADIENTS && step == 4)
        plant_large_gradients(run);
    if (what == PLANT_IMAGE && step > 120)
        plant_image(run);
}

/* ---- a step ---------------------------------------------------------------------- */

static void follow_d(struct measured *run)
{
    const struct step_record *record = &run->trainer.last.view.records[0];
    int is_moved = record->scale_after != record->scale_used;
    run->quiet = record->was_skipped ? 0 : run->quiet + 1;
    run->interval_steps = record->was_skipped ? 0 : run->interval_steps + 1;
    if (is_moved && !record->was_skipped) {
        run->good = (double)record->scale_used;
        run->interval_steps = 0;
    }
}

static void measured_step(struct measured *run, int64_t step)
{
    struct trainer *trainer = &run->trainer;
    plant(run, step);
    truth_remember(&run->truth, trainer);
    train_step(trainer);
    must(train_collect_all(trainer));
    const struct step_record *d = &trainer->last.view.records[0];
    run->truth.was_quiet =
        run->quiet >= INTERVAL / 4 && (double)d->scale_used <= run->good;
    for (int slot = 0; slot < trainer->results.record_count; slot++) {
        int network = train_slot_network(trainer, slot);
        if (trainer->last.view.records[slot].was_skipped)
            run->pairs[run->pair_count++] =
                (struct pair){step, network, truth_of(&run->truth, trainer, network)};
    }
    follow_d(run);
    report_step(&run->report);
}

/* ---- pairs ----------------------------------------------------------------------- */

static void count_pair(json_t *pairs, const char *truth, const char *said)
{
    char key[64];
    snprintf(key, sizeof key, "%s/%s", truth, said);
    json_int_t count = json_integer_value(json_object_get(pairs, key));
    json_object_set_new(pairs, key, json_integer(count + 1));
}

// What the run wrote of that skip.
static const char *said_of(json_t *events, const struct pair *pair)
{
    json_t *event;
    size_t i;
    json_array_foreach(events, i, event)
    {
        const char *word = json_string_value(json_object_get(event, "event"));
        const char *net = json_string_value(json_object_get(event, "net"));
        if (word && net && strcmp(word, "skip") == 0 &&
            (net[0] == 'D') == (pair->network == ROLE_D) &&
            json_integer_value(json_object_get(event, "step")) == pair->step)
            return json_string_value(json_object_get(event, "cause"));
    }
    CHECK(0, "no event of the skip in step %lld", (long long)pair->step);
    return "";
}

static json_t *pairs_of(const struct measured *run)
{
    char path[1024];
    json_t *events =
        table_read(run_folder_file(&run->folder, path, sizeof path, "events.jsonl"));
    json_t *pairs = json_object();
    for (int i = 0; i < run->pair_count; i++)
        count_pair(pairs, run->pairs[i].truth, said_of(events, &run->pairs[i]));
    json_decref(events);
    return pairs;
}

static int remove_entry(const char *path, const struct stat *info, int kind,
                        struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static json_t *measure(const struct preset *preset, const struct situation *situation,
                       uint64_t seed)
{
    char out[] = "/tmp/twinscale-diagnosis-XXXXXX";
    struct measured *run = calloc(1, sizeof *run);
    CHECK(run && mkdtemp(out));
    run_open(run, preset, situation, seed, out);
    for (int64_t step = 1; step <= situation->steps; step++)
        measured_step(run, step);
    json_t *pairs = pairs_of(run);
    run_close(run);
    free(run);
    nftw(out, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return json_pack("{s:s, s:s, s:I, s:b, s:o}", "preset", preset->name, "situation",
                     situation->name, "seed", (json_int_t)seed, "planted",
                     situation->plant != PLANT_NOTHING, "pairs", pairs);
}

/* ---- cases ----------------------------------------------------------------------- */

static int is_measured(json_t *lines, const char *preset, const char *situation,
                       uint64_t seed)
{
    json_t *line;
    size_t i;
    json_array_foreach(
        lines, i, line) if (strcmp(json_string_value(json_object_get(line, "preset")),
                                   preset) == 0 &&
                            strcmp(json_string_value(json_object_get(line, "situation")),
                                   situation) == 0 &&
                            json_integer_value(json_object_get(line, "seed")) ==
                                (json_int_t)seed) return 1;
    return 0;
}

static void measure_all(const char *path, uint64_t seeds)
{
    json_t *lines = table_read(path);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (size_t p = 0; p < sizeof presets / sizeof *presets; p++)
            for (int s = 0; s < SITUATIONS; s++) {
                if (is_measured(lines, presets[p].name, situations[s].name, seed))
                    continue;
                json_t *line = measure(&presets[p], &situations[s], seed);
                char *text = json_dumps(line, JSON_COMPACT);
                FILE *file = fopen(path, "a");
                CHECK(file && text, "%s cannot be written", path);
                fprintf(file, "%s\n", text);
                fclose(file);
                free(text);
                json_decref(line);
            }
    json_decref(lines);
}

static int sample(void)
{
    json_t *lines = json_array();
    for (int s = 0; s < SITUATIONS; s++)
        json_array_append_new(lines, measure(&presets[0], &situations[s], 1));
    int is_right = table_print(lines, 0) & table_print(lines, 1);
    json_decref(lines);
    return is_right ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--sample") == 0)
        return sample();
    if (argc == 3 && strcmp(argv[1], "--table") == 0) {
        json_t *lines = table_read(argv[2]);
        int is_right = table_print(lines, 0) & table_print(lines, 1);
        json_decref(lines);
        return is_right ? 0 : 1;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: diagnosis_measure RESULTS.jsonl [SEEDS] | "
                        "--table RESULTS.jsonl | --sample\n");
        return 2;
    }
    measure_all(argv[1], argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    return 0;
}
