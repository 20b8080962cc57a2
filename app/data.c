/* data.c - `twinscale data check PATH`: every unusable file, before training. */
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "app/config/config.h"
#include "app/input/data_check.h"

static void print_help(void)
{
    fputs(
        "usage: twinscale data check PATH [--preset NAME] [SETTING ...]\n\n"
        "Reads a data set as training with the same settings would, and names every "
        "file\n"
        "that cannot be used, with its reason. PATH is a folder of pictures, a file of\n"
        "MNIST's IDX images, or builtin:fashion, builtin:shapes, fashion-mnist; a preset "
        "may\n"
        "have its own. Of the settings of twinscale train --help, those count that say "
        "how\n"
        "images are read: --resolution, --channels, --fit, --resize-filter, --threads. "
        "Exit\n"
        "code 4 if nothing is usable.\n\n"
        "examples: twinscale data check photos/\n"
        "          twinscale data check photos/ --preset fmnist-quick --fit pad\n",
        stdout);
}

static enum status check(const struct config *config,
                         const struct config_origins *origins)
{
    struct dataset_options options = {.resolution = config->resolution,
                                      .channels = config->channels,
                                      .fit = config->fit,
                                      .resize_filter = config->resize_filter,
                                      .threads = config->threads};
    struct data_asked asked = {.channels = config->channels,
                               .preset_channels = origins->preset_channels,
                               .mirror = config->mirror};
    return data_check(config->data, &options, &asked, stdout);
}

enum status data_command(int argc, char **argv)
{
    struct config config;
    struct config_origins origins;
    int wants_help = 0;
    if (argc < 1 || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
        print_help();
        return argc < 1 ? status_fail(STATUS_USAGE, "data: expected \"check PATH\"")
                        : STATUS_OK;
    }
    if (strcmp(argv[0], "check") != 0)
        return status_fail(STATUS_USAGE,
                           "data %s: no such command; there is data check PATH", argv[0]);
    config_default(&config);
    config_origins_begin(&origins, ORIGIN_DEFAULT);
    TRY(config_parse(&config, argc - 1, argv + 1, &wants_help, &origins));
    if (wants_help) {
        print_help();
        return STATUS_OK;
    }
    if (!config.data[0])
        return status_fail(STATUS_USAGE,
                           "data check: expected a path; see twinscale data --help");
    return check(&config, &origins);
}
