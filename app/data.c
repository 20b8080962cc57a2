/* data.c - `twinscale data check PATH`: every unusable file, before training. */
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/input/data_check.h"

static void print_help(void)
{
    printf(
        "usage: twinscale data check PATH [--resolution 64] [--channels N] "
        "[--fit crop|pad|stretch]\n\n"
        "Reads a data set as training would, and names every file that cannot be used\n"
        "with its reason. PATH is a folder of PNG files, a file of MNIST's IDX images, "
        "or\n"
        "builtin:fashion, builtin:shapes, fashion-mnist. Exit code 4 if nothing is "
        "usable.\n");
}

static enum status check(const struct config *config)
{
    struct dataset_options options = {.resolution = config->resolution,
                                      .channels = config->channels,
                                      .fit = config->fit,
                                      .resize_filter = config->resize_filter};
    return data_check(config->data, &options, stdout);
}

enum status data_command(int argc, char **argv)
{
    struct config config;
    int has_path = 0;
    config_default(&config);
    if (argc < 1 || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
        print_help();
        return argc < 1 ? status_fail(STATUS_USAGE, "data: expected \"check PATH\"")
                        : STATUS_OK;
    }
    if (strcmp(argv[0], "check") != 0)
        return status_fail(STATUS_USAGE,
                           "data %s: no such command; there is data check PATH", argv[0]);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help();
            return STATUS_OK;
        }
        const char *name = !strncmp(argv[i], "--", 2) ? argv[i] + 2 : NULL;
        if (!name) {
            if (has_path++)
                return status_fail(STATUS_USAGE,
                                   "data check: one path at a time, got %s and "
                                   "%s",
                                   config.data, argv[i]);
            TRY(config_set(&config, "data", argv[i], "data check"));
        } else if (strcmp(name, "resolution") && strcmp(name, "channels") &&
                   strcmp(name, "fit")) {
            return status_fail(STATUS_USAGE,
                               "data check %s: no such option; see twinscale "
                               "data --help",
                               argv[i]);
        } else if (i + 1 == argc) {
            return status_fail(STATUS_USAGE, "data check %s: needs a value", argv[i]);
        } else {
            TRY(config_set(&config, name, argv[i + 1], argv[i]));
            i++;
        }
    }
    if (!has_path || !config.data[0])
        return status_fail(STATUS_USAGE,
                           "data check: expected a path; see twinscale data "
                           "--help");
    return check(&config);
}
