/* config.h - every setting of a run, in one table.
 * Flow:  presets and the command line -> [config] -> everything that is set up.
 * Owns:  its strings are fixed arrays; a config can be copied by assignment.
 *
 * config_table.c holds ONE table of settings (name, type, range, default, help, group,
 * what resume may change). Parsing, --help, presets, options.json, checkpoints and the
 * README's list walk that table; a new setting is one field here and one row there. A
 * setting named `g_lr` is the flag --g-lr and the key "g_lr" in JSON. */
#ifndef APP_CONFIG_CONFIG_H
#define APP_CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/base/status.h"
#include "nets/role.h"

struct grad_scaler_config;

#define CONFIG_TEXT 512

enum precision { PRECISION_FP16, PRECISION_BF16, PRECISION_FP32 };
/* Of one network. */
enum own_precision { OWN_SAME, OWN_FP16, OWN_BF16, OWN_FP32 };
enum fit { FIT_CROP, FIT_PAD, FIT_STRETCH };
enum resize_filter {
    RESIZE_LANCZOS, // sinc(x) sinc(x/3), |x| < 3: sharp
    RESIZE_AREA     // the mean of the area under a pixel: soft, never rings
};
enum preview { PREVIEW_AUTO, PREVIEW_WINDOW, PREVIEW_PNG, PREVIEW_OFF };
enum scaler_choice {
    SCALER_AUTO, // per network, for gradients that pass through fp16
    SCALER_PER_NETWORK,
    SCALER_SHARED, // these four: scaler/topology.h
    SCALER_SHARED_PER_STEP,
    SCALER_PER_LOSS,
    SCALER_STATIC, // the scales stay at init_scale
    SCALER_OFF
};

/* What a run does when one network skips on and on (app/recovery/storm.h). */
enum storm_choice {
    STORM_STOP,     // ends with a post-mortem and exit code 5
    STORM_ROLLBACK, // returns to the last good snapshot
    STORM_F32,      // moves what overflowed to f32 and goes on
    STORM_WARN      // says so and goes on
};

/* What one network owns. */
struct network_config {
    int width;
    double lr, beta1, beta2, eps;
    double init_scale; // 0 = auto: config_init_scale(), and app/recovery/init_scale.h
#define RULE(type, name) type name;
#include "scaler/settings.def"
#undef RULE
    double clip_norm; // of the unscaled gradients, at most; 0 = no clipping
    int accum;        // micro-batches of `batch` images per optimizer step
    int precision;    // enum own_precision: the run's, or another
};

struct config {
    // What to train on
    char data[CONFIG_TEXT]; // path, builtin:fashion, builtin:shapes, or a known name
    int resolution;         // 28, 32, 64, 128; 0 = auto: by the data
    int channels;           // 1..4; 0 = what the data has
    int fit;                // enum fit
    int resize_filter;      // enum resize_filter
    int mirror;             // random horizontal flips
    int strict;             // a file that cannot be used stops the run

    // Where things go
    char preset[64];
    char out[CONFIG_TEXT];    // folder of runs
    char desc[64];            // appended to the run's name; "" for none
    char resume[CONFIG_TEXT]; // run folder or checkpoint file; "" for a new run
    int keep;                 // checkpoints kept, the newest; 0 = all

    // How long, how often (kimg = thousands of real images; fractions allowed)
    double kimg, tick, snap, img_snap;
    char
        set_at[CONFIG_TEXT]; // settings to change: "50:g.lr=1e-4,100:d.scale=64"; "" none

    // How
    char device[32]; // auto, cpu, ref, cuda:N
    int gpus;        // that train together, one process each
    int precision;   // enum precision
    // Layers that are f32 in any run: "d.conv4,g.*".
    char fp32_layers[CONFIG_TEXT];
    int recompute;      // batch norm's outputs are made again in the backward pass
    int threads;        // 0 = all
    int tf32;           // GPU: f32 products may be rounded to TF32
    int deterministic;  // GPU: only algorithms that repeat bit for bit
    int graph;          // GPU: the step is recorded once and replayed
    int tune_plans;     // GPU: candidates for each convolution are timed
    int sync_bn;        // several GPUs: batch norm's statistics are over all of them
    int preview;        // enum preview
    int exit_when_done; // closes the window at the end of a run
    int dry_run;
    int show_config; // prints all settings and ends
    int64_t seed;
    int batch;
    int n_dis;                   // D steps per G step
    int latent;                  // size of z
    int grid_columns, grid_rows; // of fakes*.png and the window: "8x8"
    int loss;                    // enum loss_kind of kernels/losses.h
    double label_smoothing;      // D's real target is 1 - this
    double ema_kimg;             // half-life; 0 = no averaging
    double ema_rampup;
    int scaler;            // enum scaler_choice
    int skip;              // enum skip_rule of scaler/topology.h
    int init_margin;       // powers of two that init_scale auto stays below what it finds
    int max_skips;         // skips in a row of one network that are an overflow storm
    int on_overflow_storm; // enum storm_choice
    int max_rollbacks;     // of the whole run; then it is given up
    int grad_stats;   // steps between two statistics of all layers; 0 = only at overflows
    char inject[256]; // faults to plant: "d:10-40:inf,g:5:nan-forward"; "" none
    union {
        struct {
            struct network_config g, d;
        };
        struct network_config network[ROLES];
    };
};

/* Defaults of every setting. */
void config_default(struct config *config);

/* Where the value of each setting came from, in the order of the table: "default",
 * "preset fmnist-quick", "preset dcgan64, the base of my.json", "command line",
 * "snapshot", "data". */
#define CONFIG_SETTINGS_MAX 128
#define ORIGIN_TEXT 96
#define ORIGIN_DEFAULT "default"
#define ORIGIN_FLAG "command line"
#define ORIGIN_DATA "data"
struct config_origins {
    char of[CONFIG_SETTINGS_MAX][ORIGIN_TEXT];
    // Of a preset, where other data was given and its own channels count instead; else 0.
    int preset_channels;
};
void config_origins_begin(struct config_origins *origins, const char *origin);
void config_origin_set(struct config_origins *origins, const char *name,
                       const char *origin);
const char *config_origin(const struct config_origins *origins, const char *name);
/* A line for each setting, or for those that are not at their defaults: flag, value,
 * origin. Returns how many. */
int config_print_origins(FILE *stream, const struct config *config,
                         const struct config_origins *origins, int only_changed);

/* Applies assets/presets/NAME.json (embedded in the binary), or a path ending in .json,
 * such as the options.json of an earlier run; never its `resume` or `dry_run`. A file of
 * settings whose "preset" is another preset's name or path begins with that one; in a
 * whole options.json it is only the name. An unknown name is STATUS_USAGE with the
 * nearest known one; what is wrong in a file, STATUS_DATA. */
enum status config_apply_preset(struct config *config, const char *name);

/* Sets one setting from text, as the command line does. `source` ("--g-lr", "preset x",
 * "run options") begins the sentence when the name is unknown (nearest known name told)
 * or the value is out of range (value and range told). */
enum status config_set(struct config *config, const char *name, const char *value,
                       const char *source);

/* Parses `train`'s arguments (without "train"). A preset named anywhere is applied first,
 * then the flags in order. --help is told by *wants_help. `origins` (may be NULL) holds
 * where the settings of `config` came from, and then where they come from now. Two
 * settings follow others: the scale of --scaler static is auto where none is given, and a
 * preset's channels do not count where the data is given and they are not. Flags: --name
 * value,
 * --name=value, --name / --no-name for switches, one bare word for --data; -n is
 * --dry-run. Starts from what `config` holds and checks single values only:
 * config_check() comes after. */
enum status config_parse(struct config *config, int argc, char **argv, int *wants_help,
                         struct config_origins *origins);

/* A fault to plant, as `inject` writes it: network, steps, kind. */
enum fault_kind {
    FAULT_INF, // in a weight gradient
    FAULT_NAN,
    FAULT_NAN_FORWARD,     // in an activation
    FAULT_HUGE_ACTIVATION, // one near the largest f16
    FAULT_BAD_WEIGHT       // an inf
};
struct planted_fault {
    int is_in_d;         // else in the generator
    int64_t first, last; // the first step is 1; last is INT64_MAX for "d:10-:nan"
    enum fault_kind kind;
};
/* Reads "d:10-40:inf", or several such with commas between, or none of "". STATUS_USAGE
 * with the reason. config_faults.c */
#define FAULTS_MAX 8
enum status config_read_faults(const char *text, struct planted_fault faults[FAULTS_MAX],
                               int *count);

/* Settings to change in the run, as `set_at` writes them: a kimg and what `twinscale ctl`
 * takes, one a line. config_set_at.c */
#define SET_AT_MAX 32
struct timed_change {
    double kimg;
    int64_t images;            // that kimg; the change is made once so many were shown
    char request[CONFIG_TEXT]; // "g.lr=1e-4\nd.scale=64"
};
/* Reads "50:g.lr=1e-4,d.scale=64,100:d.lr=1e-4": each kimg larger than the one before.
 * Whether such keys and values can be set is change.h's to say. STATUS_USAGE with the
 * reason. */
enum status config_read_set_at(const char *text, struct timed_change changes[SET_AT_MAX],
                               int *count);

/* The scale that a network begins with; where that is found only at the start, or cannot
 * be found: 65536, brought within min_scale and max_scale. */
double config_init_scale(const struct network_config *network);

/* How a network's loss scale behaves; `enabled` is the caller's to set. */
struct grad_scaler_config config_scaler(const struct config *config,
                                        const struct network_config *network);

/* Real images that one step of the run shows to D, and in how many batches. */
int64_t config_step_images(const struct config *config);
int config_step_batches(const struct config *config);

/* Of a run that has begun, in which init-scale has done its work: brings it within the
 * limits that the scale has now, where these are limits at all. */
void config_follow_limits(struct config *config);

/* Rules between settings (batch 1 with batch norm, tick > 0, known resolution ...). */
enum status config_check(const struct config *config);

/* The whole config as a JSON object in the table's order; the caller frees. NULL without
 * memory. */
char *config_to_json(const struct config *config);
/* From that JSON. Missing keys keep their value, keys that begin with "_" are notes.
 * Unknown keys, wrong types and values out of range are STATUS_DATA by name, bad JSON by
 * line and column; `config` then stays as it was. */
enum status config_from_json(struct config *config, const char *json, const char *source);
/* The same, of a checkpoint: an unknown key there is a newer release's. */
enum status config_from_saved(struct config *config, const char *json,
                              const char *source);

/* For --resume: `now` is the saved config with the new flags applied. Settings that may
 * change (kimg, tick, snap, preview, threads ...) pass and are listed in `changes`,
 * joined by "; "; another (width, batch, seed ...) is refused by name with both
 * values. */
enum status config_check_resume(const struct config *saved, const struct config *now,
                                char *changes, size_t changes_bytes);

/* The grouped option list of `twinscale train --help`. */
void config_print_help(FILE *stream);

/* The enum precision of one network. */
int config_precision(const struct config *config, const struct network_config *network);

/* "fp16", or "G fp32, D fp16", with "+ f32" where some layers are f32. Returns `text`. */
#define PRECISION_TEXT 40
const char *config_precision_text(const struct config *config, char text[PRECISION_TEXT]);

/* "fp16" ... for messages. */
const char *precision_name(int precision);

#endif
