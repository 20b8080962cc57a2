/* bench.c - what the benchmarks share: their command line, folder, and how they end. */
#include "app/bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/input/dataset.h"
#include "app/files/json_text.h"
#include "app/config/nearest.h"
#include "app/config/number.h"
#include "app/files/output_path.h"
#include "app/files/terminal.h"
#include "app/signals.h"

#define DEFAULT_PRESET "fmnist-quick" // with neither --preset nor --data
#define DEFAULT_KIMG 20.0             // of each run of `bench scaler`
#define RUNS_MAX 100                  // of one choice of `bench scaler`
#define SECONDS_MAX 3600.0
#define COMPARES_MAX 4

/* One benchmark: its name, the settings that it compares all choices of, and the flags
 * that it has of its own. */
struct work {
    const char *name, *compares[COMPARES_MAX], *own_flags[2];
    enum status (*run)(struct bench *bench);
};

static const struct work works[] = {
    {"scaler", {"scaler"}, {"seeds"}, bench_scaler},
    {"precision",
     {"precision", "g-precision", "d-precision", "recompute"},
     {"seconds"},
     bench_precision},
    {"layers", {NULL}, {"seconds", "json"}, bench_layers},
};
#define WORK_COUNT ((int)(sizeof works / sizeof *works))

// A line of source is a line of help.
// clang-format off
static const char help[] =
    "usage: twinscale bench scaler [--data PATH] [--seeds N] [--kimg KIMG] [SETTING ...]\n"
    "       twinscale bench precision [--seconds S] [SETTING ...]\n"
    "       twinscale bench layers [--seconds S] [--json FILE] [SETTING ...]\n"
    "\n"
    "scaler     trains one configuration with each choice of --scaler and prints, for each\n"
    "           seed: skipped steps, final scales, losses over the last tenth of the steps,\n"
    "           and sample diversity: the mean absolute difference of two samples, 0..1\n"
    "           a pixel, over all pairs of 256. A run that diverges is a row like any other.\n"
    "precision  takes steps in fp32, fp16 and bf16, each without --recompute and with it, and\n"
    "           prints images/s, activation memory and all device memory that the run allocates\n"
    "           for itself.\n"
    "layers     times every pass of every convolution as training runs it, bias, sums and\n"
    "           activation included, and prints the algorithm that is used and why, GFLOP/s\n"
    "           as the definition counts them, and how near the multiplications that the\n"
    "           algorithm does come to the most that this device can do in registers,\n"
    "           measured in the same rounds.\n"
    "\n"
    "  --seeds N      scaler: runs of each choice, from --seed on,     (3)\n"
    "                 1 to %d\n"
    "  --kimg KIMG    scaler: length of each run                       (%g)\n"
    "  --seconds S    precision: time for each choice, at least        (3)\n"
    "                 layers: time for all, about; at most %g\n"
    "  --json FILE    layers: write the same as JSON                   (not written)\n"
    "  --out FOLDER   where the numbered folder is made; layers has none (outputs)\n"
    "\n"
    "SETTING is any of twinscale train --help but --resume, --dry-run, --set-at and --gpus;\n"
    "an overflow storm ends a run or is reported (--on-overflow-storm stop or warn). With\n"
    "neither --preset nor --data it is --preset " DEFAULT_PRESET ". layers needs no data: for a\n"
    "--preset or --resolution alone it takes builtin:fashion at 28 pixels and builtin:shapes\n"
    "at others.\n"
    "The folder gets bench.json and, of scaler, bench.png: the scales of the first seed\n"
    "and a row of its samples, side by side.\n"
    "Ctrl-C ends after the step and prints what is known; a second one ends at once.\n"
    "\n"
    "Three variables of the environment choose what a CPU does, here and in training:\n"
    "  TWINSCALE_ISA      avx512-bf16, avx512, avx2 or c: the best that may be used\n"
    "  TWINSCALE_THREADS  the number of threads where --threads gives none\n"
    "  TWINSCALE_CONV     direct: no convolution by Winograd; winograd: all whose shape\n"
    "                     allows it; auto, the default: those where it costs less and is\n"
    "                     exact enough\n"
    "\n"
    "examples: twinscale bench scaler --data photos/ --preset dcgan32 --seeds 3 --kimg 50\n"
    "          TWINSCALE_CONV=direct twinscale bench layers --preset dcgan64 --threads 1\n";
// clang-format on

static void print_help(void)
{
    printf(help, RUNS_MAX, DEFAULT_KIMG, SECONDS_MAX);
}

/* ---- the command line ------------------------------------------------------------ */

static enum status find_work(const char *name, const struct work **work)
{
    const char *names[WORK_COUNT];
    for (int i = 0; i < WORK_COUNT; i++) {
        names[i] = works[i].name;
        *work = &works[i];
        if (strcmp(name, names[i]) == 0)
            return STATUS_OK;
    }
    const char *nearest = nearest_word(name, names, WORK_COUNT);
    return status_fail(STATUS_USAGE,
                       "bench: there is no \"%s\"%s%s; give scaler, precision or "
                       "layers, or see "
                       "twinscale bench --help",
                       name, nearest ? ", did you mean " : "", nearest ? nearest : "");
}

/* True where argument `word` is --name or --name=value; *value is then what follows "=",
 * or NULL. */
static int is_flag(const char *word, const char *name, const char **value)
{
    size_t length = strlen(name);
    *value = NULL;
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0)
        return 0;
    const char *end = word + 2 + length;
    *value = *end == '=' ? end + 1 : NULL;
    return *end == '=' || *end == '\0';
}

static int has_flag(int argc, char **argv, const char *name)
{
    const char *value;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_flag(argv[i], name, &value))
            return 1;
    return 0;
}

// The same of a switch that may be turned off: --no-name.
static int has_setting(int argc, char **argv, const char *name)
{
    char negated[64];
    snprintf(negated, sizeof negated, "no-%s", name);
    return has_flag(argc, argv, name) || has_flag(argc, argv, negated);
}

static enum status read_seeds(struct bench *bench, const char *value)
{
    int64_t seeds;
    enum number_error error = number_read_whole(value, &seeds);
    if (error != NUMBER_OK || seeds < 1 || seeds > RUNS_MAX)
        return status_fail(STATUS_USAGE,
                           "--seeds: \"%s\" %s; give a whole number of runs from 1 to %d",
                           value, number_problem(error), RUNS_MAX);
    bench->seeds = (int)seeds;
    return STATUS_OK;
}

static enum status read_seconds(struct bench *bench, const char *value)
{
    double seconds;
    enum number_error error = number_read(value, &seconds);
    if (error != NUMBER_OK || !(seconds > 0.0) || seconds > SECONDS_MAX)
        return status_fail(
            STATUS_USAGE,
            "--seconds: \"%s\" %s; give a number of seconds above 0 and at "
            "most %g",
            value, number_problem(error), SECONDS_MAX);
    bench->seconds = seconds;
    return STATUS_OK;
}

static enum status read_json_path(struct bench *bench, const char *value)
{
    bench->json_path = value;
    return STATUS_OK;
}

static const struct own_flag {
    const char *name, *takes;
    enum status (*read)(struct bench *bench, const char *value);
} own_flags[] = {
    {"seeds", "a number", read_seeds},
    {"seconds", "a number", read_seconds},
    {"json", "the file to write", read_json_path},
};

static const struct own_flag *find_own_flag(const struct work *work, const char *word,
                                            const char **value)
{
    const int most = (int)(sizeof work->own_flags / sizeof *work->own_flags);
    for (int i = 0; i < most && work->own_flags[i]; i++)
        for (size_t k = 0; k < sizeof own_flags / sizeof *own_flags; k++)
            if (strcmp(work->own_flags[i], own_flags[k].name) == 0 &&
                is_flag(word, own_flags[k].name, value))
                return &own_flags[k];
    return NULL;
}

/* Takes the benchmark's own flags out of the arguments; the others move up. */
static enum status take_own(struct bench *bench, const struct work *work, int *argc,
                            char **argv)
{
    int kept = 0, flags_ended = 0;
    for (int i = 0; i < *argc; i++) {
        const char *value;
        flags_ended |= strcmp(argv[i], "--") == 0;
        const struct own_flag *flag =
            flags_ended ? NULL : find_own_flag(work, argv[i], &value);
        if (!flag) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!value && i + 1 < *argc)
            value = argv[++i];
        if (!value)
            return status_fail(STATUS_USAGE, "--%s: its value is missing; give %s",
                               flag->name, flag->takes);
        TRY(flag->read(bench, value));
    }
    *argc = kept;
    return STATUS_OK;
}

// What a benchmark decides by itself, or cannot do.
static enum status check_flags(const struct bench *bench, const struct work *work,
                               int argc, char **argv)
{
    const struct config *config = &bench->config;
    for (int i = 0; i < COMPARES_MAX && work->compares[i]; i++)
        if (has_setting(argc, argv, work->compares[i]))
            return status_fail(STATUS_USAGE,
                               "--%s: bench %s compares all of its choices; leave it out",
                               work->compares[i], work->name);
    if (config->resume[0] || config->dry_run || config->show_config)
        return status_fail(STATUS_USAGE,
                           "--%s: bench %s begins runs of its own; leave it out",
                           config->dry_run       ? "dry-run"
                           : config->show_config ? "show-config"
                                                 : "resume",
                           work->name);
    if (config->set_at[0])
        return status_fail(STATUS_USAGE,
                           "--set-at: in bench %s all settings stay; leave it out",
                           work->name);
    int storm = config->on_overflow_storm;
    if (storm == STORM_ROLLBACK || storm == STORM_F32)
        return status_fail(STATUS_USAGE,
                           "--on-overflow-storm: bench %s mends no run, and this is %s; "
                           "give stop or warn",
                           work->name, storm == STORM_F32 ? "fp32-layer" : "rollback");
    if (config->gpus != 1)
        return status_fail(STATUS_USAGE,
                           "--gpus: bench %s measures one device, and %d were given; "
                           "leave it out",
                           work->name, config->gpus);
    return STATUS_OK;
}

static enum status read_settings(struct bench *bench, const struct work *work, int argc,
                                 char **argv)
{
    int wants_help;
    struct config_origins origins;
    struct config *config = &bench->config;
    config_default(config);
    config_origins_begin(&origins, ORIGIN_DEFAULT);
    TRY(config_parse(config, argc, argv, &wants_help, &origins));
    int needs_data = work->run != bench_layers;
    if (!config->data[0] && !config->preset[0] &&
        (needs_data || !has_flag(argc, argv, "resolution"))) {
        config_default(config);
        TRY(config_apply_preset(config, DEFAULT_PRESET));
        TRY(config_parse(config, argc, argv, &wants_help, &origins));
    }
    bench->has_own_scale =
        strcmp(config_origin(&origins, "g_init_scale"), ORIGIN_DEFAULT) != 0 ||
        strcmp(config_origin(&origins, "d_init_scale"), ORIGIN_DEFAULT) != 0;
    if (!config->data[0] && !needs_data)
        TRY(config_set(config, "data",
                       config->resolution == 28 ? "builtin:fashion" : "builtin:shapes",
                       "bench"));
    // A preset's length is that of a whole training.
    if (!has_flag(argc, argv, "kimg"))
        config->kimg = DEFAULT_KIMG;
    return check_flags(bench, work, argc, argv);
}

/* ---- folder and files ------------------------------------------------------------ */

int bench_must_end(struct bench *bench)
{
    if (monitor_take_requests(bench->monitor) & REQUEST_QUIT)
        bench->must_end = 1;
    return bench->must_end;
}

enum status bench_open_folder(struct bench *bench, const char *data_name,
                              const char *word)
{
    struct config config = bench->config;
    char desc[sizeof config.desc + 32];
    if (bench->folder.path[0])
        return STATUS_OK;
    snprintf(desc, sizeof desc, "%s%s%s", config.desc, config.desc[0] ? "-" : "", word);
    snprintf(config.desc, sizeof config.desc, "%.*s", (int)sizeof config.desc - 1, desc);
    signals_answer(BENCH_ANSWER);
    return run_folder_create(&bench->folder, &config, data_name);
}

static void close_folder(struct bench *bench)
{
    if (!bench->folder.path[0])
        return;
    run_folder_remove_empty(&bench->folder);
    run_folder_close(&bench->folder);
}

void bench_print(struct bench *bench, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    run_folder_print(&bench->folder, format, arguments);
    va_end(arguments);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

struct bench_spread bench_spread(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (struct bench_spread){values[count / 4], values[count - 1 - count / 4]};
}

json_t *bench_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *bench_settings_json(const struct bench *bench)
{
    char *text = config_to_json(&bench->config);
    json_t *settings = text ? json_loads(text, 0, NULL) : NULL;
    CHECK_MEMORY(settings, "the settings");
    free(text);
    return settings;
}

enum status bench_commit_json(struct atomic_file *file, json_t *object)
{
    char *text = json_text(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    CHECK_MEMORY(text, "the results");
    fprintf(file->stream, "%s\n", text);
    free(text);
    char kept[PATH_MAX];
    TRY(atomic_commit_keeping(file, kept, sizeof kept));
    if (kept[0])
        fprintf(stderr, "the older %s is kept as %s\n", file->path, kept);
    printf("results: %s\n", file->path);
    return STATUS_OK;
}

enum status bench_write_json(struct bench *bench, json_t *object)
{
    char path[1024];
    struct atomic_file file;
    enum status status = atomic_open(
        &file, run_folder_file(&bench->folder, path, sizeof path, "bench.json"));
    if (status == STATUS_OK)
        return bench_commit_json(&file, object);
    json_decref(object);
    return status;
}

/* ---- the command ----------------------------------------------------------------- */

static int asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
    return 0;
}

static enum status measure(struct bench *bench, int argc, char **argv)
{
    const struct work *work;
    TRY(find_work(argv[0], &work));
    argc--;
    argv++;
    TRY(take_own(bench, work, &argc, argv));
    TRY(read_settings(bench, work, argc, argv));
    if (bench->json_path) {
        const struct output_path output = {bench->json_path, "--json", ".json", argc,
                                           (const char *const *)argv};
        TRY(output_path_check(&output));
    }
    TRY(signals_open(bench->monitor));
    enum status status = work->run(bench);
    signals_close();
    progress_clear();
    return status;
}

enum status bench_command(int argc, char **argv)
{
    if (asks_for_help(argc, argv)) {
        print_help();
        return STATUS_OK;
    }
    if (argc == 0)
        return status_fail(
            STATUS_USAGE, "bench: measure what? Give scaler, precision or layers, or see "
                          "twinscale bench --help");
    struct bench bench = {.seeds = 3, .seconds = 3.0, .monitor = monitor_create()};
    CHECK_MEMORY(bench.monitor, "a benchmark");
    enum status status = measure(&bench, argc, argv);
    close_folder(&bench);
    dataset_close(bench.dataset);
    monitor_destroy(bench.monitor);
    return status;
}

enum status bench_create_trainer(struct bench *bench, struct trainer *trainer,
                                 const struct config *config)
{
    struct trainer_rank alone = {.world = 1, .show_decoding = progress_decoding};
    enum status status =
        trainer_create_with_data(trainer, config, &alone, &bench->dataset);
    progress_clear();
    return status;
}
