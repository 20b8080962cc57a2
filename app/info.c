/* info.c - `twinscale info`: what a checkpoint holds, and what this machine has. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/checkpoint.h"
#include "app/commands.h"
#include "app/info.h"
#include "app/record/layer_types.h"
#include "kernels/base/text.h"
#include "app/record/run_folder.h"
#include "app/record/summary.h"
#include "nets/layers/kinds.h"

/* What is shown of a checkpoint. */
enum part { PART_ALL, PART_DIGEST, PART_TYPES, PART_JSON };

static void print_help(void)
{
    printf(
        "usage: twinscale info CHECKPOINT [--digest|--precision|--json]\n"
        "       twinscale info --precision\n"
        "       twinscale info --devices\n\n"
        "Prints counters, the loss scalers, every setting and the layers of a "
        "checkpoint\n"
        "(a snapshot-*.safetensors, or a run folder: its newest one).\n\n"
        "  --digest    only one number over all tensors and the training state; equal\n"
        "              digests mean equal runs, wherever the files are\n"
        "  --precision which numbers are stored in half and which in f32, and why; with "
        "a\n"
        "              checkpoint, the types of each of its layers\n"
        "  --json      all of it as one JSON object: checkpoint, step, images, kimg,\n"
        "              elapsed_sec, rollbacks, data, scalers (G, D; D_fake where D has "
        "two),"
        "\n"
        "              found_scales, layers, parameters, settings, digest\n"
        "  --devices   the devices that can train here\n");
}

static void print_devices(void)
{
    char text[2048];
    device_list(text, sizeof text);
    fputs(text, stdout);
}

// The skipped steps are the network's, whichever loss of it overflowed.
static void print_scaler(const char *name, int width, const struct grad_scaler_saved *s)
{
    char scale[32];
    char held[48] = "";
    if (s->held > 0)
        snprintf(held, sizeof held, "  held back %lld", (long long)s->held);
    printf(
        "  %-*s  scale %-8s growth tracker %lld of %lld  skipped %lld of %lld%s  grown "
        "%lld  backed off %lld%s\n",
        width, name, scale_text((float)s->scale, scale, sizeof scale),
        (long long)s->growth_tracker, (long long)s->growth_interval,
        (long long)s->skipped, (long long)s->updates, held, (long long)s->growths,
        (long long)s->backoffs, s->enabled ? "" : "  (off)");
}

static void print_facts(const char *path, const struct checkpoint_facts *facts)
{
    char elapsed[32];
    printf("checkpoint: %s\n", path);
    printf("progress: step %lld, %.3f kimg, %s of training\n", (long long)facts->step,
           (double)facts->images / 1000.0,
           duration_text(facts->elapsed_sec, elapsed, sizeof elapsed));
    printf("data: %s, %lld image%s\n", facts->data_name, (long long)facts->data_count,
           PLURAL(facts->data_count));
    printf("loss scalers:\n");
    int has_fake = facts->has_fake_scaler, width = has_fake ? 6 : 1;
    print_scaler("G", width, &facts->scaler[ROLE_G]);
    print_scaler(has_fake ? "D real" : "D", width, &facts->scaler[ROLE_D]);
    if (has_fake)
        print_scaler("D fake", width, &facts->fake_scaler);
    if (facts->found_scales[0])
        printf("found at the start:\n");
    for (const char *line = facts->found_scales; line[0];) {
        size_t length = strcspn(line, "\n");
        printf("  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

enum status info_each_net(const struct config *config,
                          void (*visit)(void *context, const struct net *net),
                          void *context)
{
    enum status (*const build[ROLES])(struct net *, struct device *,
                                      const struct dcgan_config *, enum dtype, int) = {
        [ROLE_G] = dcgan_generator, [ROLE_D] = dcgan_discriminator};
    struct dcgan_config sizes = trainer_dcgan_config(config, config->channels);
    struct device *device;
    TRY(device_open("cpu", 1, &device));
    enum status status = STATUS_OK;
    for (int role = 0; role < ROLES && status == STATUS_OK; role++) {
        struct net net;
        status =
            build[role](&net, device, &sizes, trainer_dtype(config, role), config->batch);
        if (status == STATUS_OK)
            visit(context, &net);
        net_release(&net);
    }
    device_close(device);
    return status;
}

static void print_summary(void *context, const struct net *net)
{
    (void)context;
    summary_print(stdout, net);
}

static void print_layer_types(void *context, const struct net *net)
{
    (void)context;
    layer_types_print(stdout, net);
}

static enum status print_checkpoint(const char *path, const struct checkpoint *checkpoint)
{
    struct checkpoint_facts facts;
    struct config config;
    TRY(checkpoint_facts(checkpoint, &facts));
    TRY(checkpoint_config(checkpoint, &config));
    print_facts(path, &facts);
    printf("layers:\n");
    TRY(info_each_net(&config, print_summary, NULL));
    char *json = config_to_json(&config);
    TRY_MEMORY(json, "the settings");
    printf("settings:\n%s\n", json);
    free(json);
    printf("digest: %016" PRIx64 "\n", checkpoint_digest(checkpoint));
    return STATUS_OK;
}

static enum status print_types(const struct checkpoint *checkpoint)
{
    struct config config;
    TRY(checkpoint_config(checkpoint, &config));
    printf("layers:\n");
    return info_each_net(&config, print_layer_types, NULL);
}

static enum status info(const char *source, enum part part)
{
    char path[1024], note[512] = "";
    TRY(run_folder_find_snapshot(source, path, sizeof path, note, sizeof note));
    if (note[0])
        fprintf(stderr, "%s\n", note);
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(path, &checkpoint));
    enum status status = STATUS_OK;
    if (part == PART_DIGEST)
        printf("%016" PRIx64 "\n", checkpoint_digest(checkpoint));
    else if (part == PART_JSON)
        status = info_print_json(path, checkpoint);
    else if (part == PART_TYPES)
        status = print_types(checkpoint);
    else
        status = print_checkpoint(path, checkpoint);
    checkpoint_close(checkpoint);
    return status;
}

enum status info_command(int argc, char **argv)
{
    const char *source = NULL;
    enum part part = PART_ALL;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help();
            return STATUS_OK;
        }
        if (!strcmp(argv[i], "--devices")) {
            print_devices();
            return STATUS_OK;
        }
        if (!strcmp(argv[i], "--digest"))
            part = PART_DIGEST;
        else if (!strcmp(argv[i], "--precision"))
            part = PART_TYPES;
        else if (!strcmp(argv[i], "--json"))
            part = PART_JSON;
        else if (argv[i][0] == '-')
            return status_fail(STATUS_USAGE,
                               "info %s: no such option; see twinscale info "
                               "--help",
                               argv[i]);
        else if (source)
            return status_fail(STATUS_USAGE,
                               "info: one checkpoint at a time, got %s and %s", source,
                               argv[i]);
        else
            source = argv[i];
    }
    if (!source && part == PART_TYPES) {
        kinds_print_policies(stdout);
        return STATUS_OK;
    }
    if (!source)
        return status_fail(STATUS_USAGE, "info: expected a checkpoint, a run folder or "
                                         "--devices; see twinscale info --help");
    return info(source, part);
}
