/* run_settings.c - the settings of a run as its data completes them, and
 * --show-config. */
#include <stdio.h>

#include "app/run.h"

void run_begin_data(struct run *run)
{
    run->asked = (struct data_asked){.channels = run->trainer.config.channels,
                                     .preset_channels = run->origins.preset_channels,
                                     .mirror = run->trainer.config.mirror};
    run->asked_resolution = run->trainer.config.resolution;
}

void run_follow_data(struct run *run, const struct dataset *dataset)
{
    run->trainer.config.channels = dataset->channels;
    run->trainer.config.resolution = dataset->resolution;
    if (run->asked.channels == 0)
        config_origin_set(&run->origins, "channels", ORIGIN_DATA);
    if (run->asked_resolution == 0)
        config_origin_set(&run->origins, "resolution", ORIGIN_DATA);
}

enum status run_show_config(struct run *run)
{
    struct dataset *dataset = NULL;
    run_begin_data(run);
    if (run->trainer.config.data[0]) {
        TRY(trainer_open_data(&run->trainer.config, NULL, &dataset));
        run_follow_data(run, dataset);
    }
    dataset_close(dataset);
    if (run_is_first(run))
        config_print_origins(stdout, &run->trainer.config, &run->origins, 0);
    return STATUS_OK;
}
