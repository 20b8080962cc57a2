/* config_check.c - rules between settings, and what --resume may change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/number.h"
#include "scaler/grad_scaler.h"

/* ---- rules between settings ------------------------------------------------------ */

static enum status check_inject(const struct config *config)
{
    struct planted_fault faults[FAULTS_MAX];
    int count;
    return config_read_faults(config->inject, faults, &count);
}

// A change that no step follows would be forgotten without a word.
static enum status check_set_at(const struct config *config)
{
    struct timed_change changes[SET_AT_MAX];
    char kimg[NUMBER_TEXT], end[NUMBER_TEXT];
    int count;
    TRY(config_read_set_at(config->set_at, changes, &count));
    int64_t step = config_step_images(config);
    for (int i = 0; i < count; i++) {
        int64_t steps_before = (changes[i].images + step - 1) / step;
        if ((double)(steps_before * step) >= config->kimg * 1000.0)
            return status_fail(
                STATUS_USAGE,
                "--set-at: no step begins at %s kimg or later, because the "
                "run ends at %s; give less, or a larger --kimg",
                number_text(changes[i].kimg, kimg), number_text(config->kimg, end));
    }
    return STATUS_OK;
}

// Ranks would have to go back, or to build their networks anew, together.
static enum status check_storm(const struct config *config)
{
    int is_alone = config->on_overflow_storm == STORM_ROLLBACK ||
                   config->on_overflow_storm == STORM_F32;
    if (!is_alone || config->gpus == 1)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--on-overflow-storm: %s is for one GPU, and --gpus is %d; "
                       "give stop or warn, or --gpus 1",
                       config->on_overflow_storm == STORM_F32 ? "fp32-layer" : "rollback",
                       config->gpus);
}

static enum status check_data(const struct config *config)
{
    if (config->data[0])
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--data: missing; give a folder of pictures, an IDX file, "
                       "builtin:fashion or builtin:shapes, or a preset that has its own: "
                       "--preset fmnist-quick");
}

static enum status check_batch(const struct config *config)
{
    if (config->batch >= 2)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--batch: %d image cannot be normalised: where a map is 1x1, its "
                       "variance over the batch is 0 and batch norm makes every value 0; "
                       "give at least 2",
                       config->batch);
}

// "auto" or "cuda:N": one of several GPUs can be named by its number.
static int is_gpu(const char *device)
{
    if (strcmp(device, "auto") == 0)
        return 1;
    size_t digits =
        strncmp(device, "cuda:", 5) == 0 ? strspn(device + 5, "0123456789") : 0;
    return digits > 0 && device[5 + digits] == '\0';
}

static enum status check_gpus(const struct config *config)
{
    int rows = config->batch / config->gpus;
    if (config->gpus == 1)
        return STATUS_OK;
    if (!is_gpu(config->device))
        return status_fail(
            STATUS_USAGE,
            "--gpus: %d of them cannot be device \"%s\"; give --device auto, "
            "or cuda:N for the first of them",
            config->gpus, config->device);
    if (config->batch % config->gpus)
        return status_fail(
            STATUS_USAGE,
            "--batch: %d images cannot be shared evenly by %d GPUs; give a "
            "multiple of %d, such as %d",
            config->batch, config->gpus, config->gpus, (rows + 1) * config->gpus);
    if (rows < 2 && !config->sync_bn)
        return status_fail(STATUS_USAGE,
                           "--batch: %d images on %d GPUs are one for each, which batch "
                           "norm cannot normalise; give at least %d, or --sync-bn",
                           config->batch, config->gpus, 2 * config->gpus);
    return STATUS_OK;
}

static enum status check_kimg(const struct config *config)
{
    char kimg[NUMBER_TEXT], least[NUMBER_TEXT];
    double needed = (double)config->batch / 1000.0;
    if (config->kimg * 1000.0 >= (double)config->batch)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "--kimg: %s kimg is less than one batch of %d images; give at least "
        "%s, or a smaller --batch",
        number_text(config->kimg, kimg), config->batch, number_text(needed, least));
}

// The average's decay of a step is 0.5^(images / half-life), in f32.
static enum status check_average(const struct config *config)
{
    char kimg[NUMBER_TEXT], most[NUMBER_TEXT];
    double images = (double)config_step_images(config),
           half_life = config->ema_kimg * 1e3;
    if (half_life == 0.0 || (float)exp2(-images / half_life) < 1.0f)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--ema-kimg: with a half-life of %s kimg and %.0f images a step, "
                       "the decay rounds "
                       "to 1 in f32 and the average would never move; give at most %s",
                       number_text(config->ema_kimg, kimg), images,
                       number_text(floor(2e4 * images), most));
}

static enum status check_names(const struct config *config)
{
    if (!config->out[0])
        return status_fail(STATUS_USAGE,
                           "--out: is empty; give a folder, or . for this one");
    size_t good = strspn(config->desc, "abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (config->desc[good])
        return status_fail(STATUS_USAGE,
                           "--desc: \"%s\" has a character that a run folder's name does "
                           "not take; use letters, digits, '.', '_' and '-'",
                           config->desc);
    return STATUS_OK;
}

double config_init_scale(const struct network_config *network)
{
    double scale = network->init_scale;
    if (scale > 0.0)
        return scale;
    scale = fmax(grad_scaler_default_config().init_scale, network->min_scale);
    return network->max_scale > 0.0 ? fmin(scale, network->max_scale) : scale;
}

struct grad_scaler_config config_scaler(const struct config *config,
                                        const struct network_config *network)
{
    struct grad_scaler_config scaler = {.init_scale = config_init_scale(network),
                                        .is_static = config->scaler == SCALER_STATIC};
#define RULE(type, name) scaler.name = network->name;
#include "scaler/settings.def"
#undef RULE
    return scaler;
}

static void follow_limits(struct network_config *network)
{
    if (network->init_scale == 0.0)
        return; // auto
    network->init_scale = fmax(network->init_scale, network->min_scale);
    if (network->max_scale > 0.0 && network->max_scale >= network->min_scale)
        network->init_scale = fmin(network->init_scale, network->max_scale);
}

void config_follow_limits(struct config *config)
{
    follow_limits(&config->g);
    follow_limits(&config->d);
}

static enum status check_scaler(const struct config *config,
                                const struct network_config *network, const char *who)
{
    struct grad_scaler_config scaler = config_scaler(config, network);
    TRY(grad_scaler_check_config(&scaler, who));
    if (network->hysteresis == 1 || network->hysteresis < config->max_skips)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "--%s-hysteresis: %d overflows in a row would lower the scale, and "
        "--max-skips ends the run after %d; give less than that, or a "
        "larger --max-skips",
        who, network->hysteresis, config->max_skips);
}

/* ---- several scales -------------------------------------------------------------- */

// One scale has one rule, so both networks' settings of it have to be the same.
static enum status check_one_rule(const struct config *config, const char *word)
{
    static const char *const names[] = {
        "init-scale",   "growth-factor",     "backoff-factor", "growth-interval",
        "min-scale",    "max-scale",         "hysteresis",     "hysteresis-refill",
        "growth-delay", "overflow-tolerance"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char g_name[32], d_name[32], g[CONFIG_TEXT], d[CONFIG_TEXT];
        snprintf(g_name, sizeof g_name, "g-%s", names[i]);
        snprintf(d_name, sizeof d_name, "d-%s", names[i]);
        setting_text(setting_find(g_name), config, g);
        setting_text(setting_find(d_name), config, d);
        if (strcmp(g, d) != 0)
            return status_fail(STATUS_USAGE,
                               "--%s: G has %s and D %s, but with --scaler %s they have "
                               "one scale between them; give both the same",
                               g_name, g, d, word);
    }
    return STATUS_OK;
}

static enum status check_shared(const struct config *config)
{
    const char *word = config->scaler == SCALER_SHARED ? "shared" : "shared-per-step";
    if (config->scaler != SCALER_SHARED && config->scaler != SCALER_SHARED_PER_STEP)
        return STATUS_OK;
    if (config->scaler == SCALER_SHARED && config->n_dis > 1)
        return status_fail(STATUS_USAGE,
                           "--scaler: shared moves the scale once after one step of each "
                           "network, and --n-dis is %d; give --n-dis 1, or "
                           "shared-per-step, which takes any number",
                           config->n_dis);
    return check_one_rule(config, word);
}

enum status config_check(const struct config *config)
{
    for (int i = 0; i < setting_count; i++)
        TRY(setting_check(&settings[i], config));
    TRY(check_data(config));
    TRY(check_batch(config));
    TRY(check_gpus(config));
    TRY(check_kimg(config));
    TRY(check_average(config));
    TRY(check_names(config));
    TRY(check_scaler(config, &config->g, "g"));
    TRY(check_scaler(config, &config->d, "d"));
    TRY(check_shared(config));
    TRY(check_storm(config));
    TRY(check_set_at(config));
    return check_inject(config);
}

int config_step_batches(const struct config *config)
{
    return config->n_dis * config->d.accum;
}

int64_t config_step_images(const struct config *config)
{
    return (int64_t)config->batch * config_step_batches(config);
}

/* ---- resume ---------------------------------------------------------------------- */

enum status config_check_resume(const struct config *saved, const struct config *now,
                                char *changes, size_t changes_bytes)
{
    size_t used = 0;
    changes[0] = '\0';
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        char before[CONFIG_TEXT], after[CONFIG_TEXT], flag[SETTING_FLAG];
        setting_text(setting, saved, before);
        setting_text(setting, now, after);
        if (setting->on_resume == RESUME_OWN || strcmp(before, after) == 0)
            continue;
        setting_flag(setting, flag);
        if (setting->on_resume == RESUME_FIXED)
            return status_fail(STATUS_USAGE,
                               "%s: the run has \"%s\", and --resume cannot change it to "
                               "\"%s\"; leave the flag out, or start a new run",
                               flag, before, after);
        if (used < changes_bytes)
            used += (size_t)snprintf(changes + used, changes_bytes - used,
                                     "%s%s: \"%s\" is now \"%s\"", used ? "; " : "", flag,
                                     before, after);
    }
    return STATUS_OK;
}
