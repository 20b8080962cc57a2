/* sample.c - `twinscale sample`: images of chosen seeds from a checkpoint. */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/record/checkpoint.h"
#include "app/commands.h"
#include "app/view/grid.h"
#include "app/files/output_path.h"
#include "app/record/run_folder.h"
#include "app/config/seeds.h"

struct sample_options {
    const char *source, *seeds, *grid, *output, *device;
    int raw, force, threads;
    int precision; // enum precision, or -1: as the run's generator
};

static void print_help(void)
{
    printf(
        "usage: twinscale sample CHECKPOINT [options]\n\n"
        "CHECKPOINT is a snapshot-*.safetensors, or a run folder (its newest one is "
        "taken).\n"
        "Seed i gives the same image whatever the other seeds, the grid or the batch.\n\n"
        "  --seeds LIST      which images, like 0,1,4-6: at most %d,\n"
        "                    each from 0 to %" PRIu64 "           (0-63)\n"
        "  --grid CxR        columns and rows, like 8x8: at most %d\n"
        "                    of each                                  (square)\n"
        "  -o, --output PNG  where to                                 (grid.png)\n"
        "  --raw             G's own weights, not their moving average\n"
        "  --precision TYPE  fp16, bf16 or fp32; of fp16 and bf16, prints how close\n"
        "                    the images are to those in fp32, as PSNR (the run's)\n"
        "  --force           replace an existing file\n"
        "  --device NAME     auto, cuda:N, cpu, ref                   (auto)\n"
        "  --threads N       0 to 1024; 0 = all cores                 (0)\n\n"
        "example: twinscale sample outputs/00000-fashion-mnist-fmnist-quick-b64 "
        "--seeds 0-15 -o sixteen.png\n",
        SEEDS_MAX, SEED_MAX, GRID_SIDE_MAX);
}

static enum status read_threads(const char *text, int *threads)
{
    struct config config;
    TRY(config_set(&config, "threads", text, "--threads"));
    *threads = config.threads;
    return STATUS_OK;
}

static enum status read_precision(const char *text, int *precision)
{
    for (*precision = PRECISION_FP16; *precision <= PRECISION_FP32; ++*precision)
        if (strcmp(text, precision_name(*precision)) == 0)
            return STATUS_OK;
    return status_fail(STATUS_USAGE, "--precision %s: expected fp16, bf16 or fp32", text);
}

// Before minutes of drawing, not after.
static enum status check_output(const struct sample_options *options,
                                const char *checkpoint)
{
    const struct output_path output = {options->output, "-o", ".png", 1, &checkpoint};
    TRY(output_path_check(&output));
    if (!options->force && access(options->output, F_OK) == 0)
        return status_fail(STATUS_USAGE,
                           "%s exists; give another -o, or --force to replace it",
                           options->output);
    return STATUS_OK;
}

static enum status parse(int argc, char **argv, struct sample_options *options, int *help)
{
    static const struct option flags[] = {{"seeds", required_argument, NULL, 's'},
                                          {"grid", required_argument, NULL, 'g'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"raw", no_argument, NULL, 'r'},
                                          {"force", no_argument, NULL, 'f'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"precision", required_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    *options = (struct sample_options){
        .seeds = "0-63", .output = "grid.png", .device = "auto", .precision = -1};
    // getopt wants a program name before the arguments.
    argc += 1;
    argv -= 1;
    optind = 1;
    opterr = 0;
    for (int flag; (flag = getopt_long(argc, argv, ":o:h", flags, NULL)) != -1;) {
        switch (flag) {
        case 's': options->seeds = optarg; break;
        case 'g': options->grid = optarg; break;
        case 'o': options->output = optarg; break;
        case 'r': options->raw = 1; break;
        case 'f': options->force = 1; break;
        case 'd': options->device = optarg; break;
        case 't': TRY(read_threads(optarg, &options->threads)); break;
        case 'p': TRY(read_precision(optarg, &options->precision)); break;
        case 'h': *help = 1; return STATUS_OK;
        case ':':
            return status_fail(STATUS_USAGE,
                               "sample %s: needs a value; see twinscale sample "
                               "--help",
                               argv[optind - 1]);
        default:
            return status_fail(STATUS_USAGE,
                               "sample %s: no such option; see twinscale sample "
                               "--help",
                               argv[optind - 1]);
        }
    }
    if (optind != argc - 1)
        return status_fail(STATUS_USAGE,
                           "sample: expected one checkpoint or run folder, got "
                           "%d; see twinscale sample --help",
                           argc - optind);
    options->source = argv[optind];
    return STATUS_OK;
}

static enum status choose_grid(const struct sample_options *options, int count,
                               int *columns)
{
    if (!options->grid) {
        *columns = (int)ceil(sqrt((double)count));
        return STATUS_OK;
    }
    int rows;
    TRY(grid_parse(options->grid, columns, &rows));
    if (count > *columns * rows)
        return status_fail(
            STATUS_USAGE,
            "--grid %s has room for %d image%s, --seeds %s names %d; give a "
            "larger grid",
            options->grid, *columns * rows, PLURAL(*columns * rows), options->seeds,
            count);
    return STATUS_OK;
}

static enum status write_grid(const struct sample_options *options,
                              const struct checkpoint *checkpoint,
                              const struct config *config, const uint8_t *pixels,
                              int count, int columns)
{
    struct checkpoint_facts facts;
    TRY(checkpoint_facts(checkpoint, &facts));
    char kimg[32], digest[24];
    snprintf(kimg, sizeof kimg, "%.3f", (double)facts.images / 1000.0);
    snprintf(digest, sizeof digest, "%016" PRIx64, checkpoint_digest(checkpoint));
    const struct png_text texts[] = {{"Software", "twinscale " TWINSCALE_VERSION},
                                     {"twinscale:seeds", options->seeds},
                                     {"twinscale:kimg", kimg},
                                     {"twinscale:digest", digest},
                                     {"twinscale:weights", options->raw ? "raw" : "ema"}};
    struct grid grid = {.pixels = pixels,
                        .count = count,
                        .h = config->resolution,
                        .w = config->resolution,
                        .channels = config->channels,
                        .columns = columns,
                        .texts = texts,
                        .text_count = sizeof texts / sizeof *texts};
    TRY(grid_write(&grid, options->output, options->force));
    printf("grid: %s\n", options->output);
    return STATUS_OK;
}

/* What the images come from. */
struct drawing {
    const struct checkpoint *checkpoint;
    struct device *device;
    const struct config *config;
    const uint64_t *seeds;
    int count, raw;
};

static size_t pixel_bytes(const struct drawing *drawing)
{
    const struct config *config = drawing->config;
    return (size_t)drawing->count * (size_t)config->resolution *
           (size_t)config->resolution * (size_t)config->channels;
}

// The averaged G has its statistics in the file; G's own weights are drawn with new ones.
static enum status load_sampler(const struct drawing *drawing, struct sampler *sampler,
                                const float *weights)
{
    int are_there = 0;
    sampler_take_weights(sampler, drawing->device, weights);
    if (!drawing->raw)
        TRY(checkpoint_load_statistics(drawing->checkpoint, &sampler->net, &are_there));
    if (!are_there)
        sampler_load(sampler, drawing->device, weights);
    return STATUS_OK;
}

// With a generator of type `dtype`, but for its f32 layers.
static enum status draw_pixels(const struct drawing *drawing, enum dtype dtype,
                               uint8_t *pixels)
{
    struct device *device = drawing->device;
    struct dcgan_config sizes =
        trainer_dcgan_config(drawing->config, drawing->config->channels);
    struct sampler sampler = {.drawing = 0};
    enum status status =
        dcgan_generator(&sampler.net, device, &sizes, dtype, SAMPLER_BATCH);
    if (status == STATUS_OK)
        status = sampler_plan(&sampler, drawing->count);
    size_t weight_bytes = sampler.net.param_elements * sizeof(float);
    float *weights =
        status == STATUS_OK ? device->ops->memory.alloc(device, weight_bytes) : NULL;
    if (status == STATUS_OK && !weights)
        status = status_fail(STATUS_FAILED, "not enough memory for %zu bytes of weights",
                             weight_bytes);
    if (status == STATUS_OK)
        status = checkpoint_load_generator(drawing->checkpoint, &sampler.net,
                                           drawing->raw, weights);
    if (status == STATUS_OK)
        status = load_sampler(drawing, &sampler, weights);
    if (status == STATUS_OK) {
        sampler_start(&sampler, drawing->seeds, drawing->count);
        status = sampler_finish(&sampler, pixels);
    }
    if (weights)
        device->ops->memory.release(device, weights);
    sampler_release(&sampler);
    return status;
}

/* Peak signal-to-noise ratio in dB: 10 log10(255^2 / mean of (a - b)^2); infinite where
 * the two are equal. */
static double psnr(const uint8_t *a, const uint8_t *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return 10.0 * log10(255.0 * 255.0 * (double)count / sum);
}

static enum status print_closeness(const struct drawing *drawing, int precision,
                                   const uint8_t *pixels)
{
    uint8_t *exact = malloc(pixel_bytes(drawing));
    if (!exact)
        return status_fail(STATUS_FAILED, "not enough memory for %d image%s",
                           drawing->count, PLURAL(drawing->count));
    enum status status = draw_pixels(drawing, DTYPE_F32, exact);
    double decibels =
        status == STATUS_OK ? psnr(pixels, exact, pixel_bytes(drawing)) : 0.0;
    if (status == STATUS_OK && isinf(decibels))
        printf("psnr: no pixel differs between %s and fp32\n", precision_name(precision));
    else if (status == STATUS_OK)
        printf("psnr: %.1f dB between %s images and those in fp32\n", decibels,
               precision_name(precision));
    free(exact);
    return status;
}

static enum status draw(const struct sample_options *options,
                        const struct checkpoint *checkpoint, struct device *device,
                        const uint64_t *seeds, int count, int columns)
{
    struct config config;
    TRY(checkpoint_config(checkpoint, &config));
    struct drawing drawing = {.checkpoint = checkpoint,
                              .device = device,
                              .config = &config,
                              .seeds = seeds,
                              .count = count,
                              .raw = options->raw};
    int precision = options->precision < 0 ? config_precision(&config, &config.g)
                                           : options->precision;
    uint8_t *pixels = malloc(pixel_bytes(&drawing));
    if (!pixels)
        return status_fail(STATUS_FAILED, "not enough memory for %d image%s", count,
                           PLURAL(count));
    enum status status = draw_pixels(&drawing, precision_dtype(precision), pixels);
    if (status == STATUS_OK && options->precision >= 0 && precision != PRECISION_FP32)
        status = print_closeness(&drawing, precision, pixels);
    if (status == STATUS_OK)
        status = write_grid(options, checkpoint, &config, pixels, count, columns);
    free(pixels);
    return status;
}

static enum status sample(const struct sample_options *options, const uint64_t *seeds,
                          int count)
{
    int columns;
    char path[1024], note[512] = "";
    TRY(choose_grid(options, count, &columns));
    TRY(run_folder_find_snapshot(options->source, path, sizeof path, note, sizeof note));
    TRY(check_output(options, path));
    if (note[0])
        fprintf(stderr, "%s\n", note);
    struct checkpoint *checkpoint = NULL;
    struct device *device = NULL;
    enum status status = checkpoint_open(path, &checkpoint);
    if (status == STATUS_OK)
        status = device_open(options->device, options->threads, &device);
    if (status == STATUS_OK)
        status = draw(options, checkpoint, device, seeds, count, columns);
    device_close(device);
    checkpoint_close(checkpoint);
    return status;
}

enum status sample_command(int argc, char **argv)
{
    struct sample_options options;
    uint64_t *seeds;
    int count, help = 0;
    TRY(parse(argc, argv, &options, &help));
    if (help) {
        print_help();
        return STATUS_OK;
    }
    TRY(seeds_parse(options.seeds, &seeds, &count));
    enum status status = sample(&options, seeds, count);
    free(seeds);
    return status;
}
