/* resume.c - `twinscale train --resume`: goes on from a snapshot, in the same folder. */
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "app/checkpoint.h"
#include "app/run.h"

static enum status merge_settings(struct run *run, const struct checkpoint *checkpoint,
                                  int64_t images, int argc, char **argv)
{
    struct config saved;
    int wants_help;
    TRY(checkpoint_config(checkpoint, &saved));
    run->config = saved;
    run->config.gpus = 0;
    TRY(config_parse(&run->config, argc, argv, &wants_help));
    TRY(run_settle_gpus(run, saved.gpus));
    TRY(config_check_resume(&saved, &run->config, run->changes, sizeof run->changes));
    config_follow_limits(&run->config); // as trainer_change() does
    TRY(config_check(&run->config));
    return set_at_open(&run->set_at, &run->config, &saved, images);
}

static enum status continue_run(struct run *run, const struct checkpoint *checkpoint,
                                const char *path, const struct checkpoint_facts *facts)
{
    char copy[1024];
    TRY(run_create(run, facts->images));
    TRY(checkpoint_load(checkpoint, &run->trainer));
    TRY(run_prepare(run));
    if (run->config.dry_run)
        return run_dry(run);
    if (!run_is_first(run))
        return run_follow(run);
    snprintf(copy, sizeof copy, "%s", path);
    TRY(run_folder_reopen(&run->folder, dirname(copy), (double)facts->images / 1000.0,
                          facts->rollbacks));
    run_folder_set_aside(&run->folder, (double)facts->images / 1000.0);
    run->is_resumed = 1;
    snprintf(run->last_snapshot, sizeof run->last_snapshot, "%s", path);
    snprintf(run->good_snapshot, sizeof run->good_snapshot, "%s", path);
    run->saved_at = facts->images;
    return run_train(run);
}

enum status resume_run(struct run *run, int argc, char **argv)
{
    char path[1024], note[512] = "";
    TRY(run_folder_find_snapshot(run->config.resume, path, sizeof path, note,
                                 sizeof note));
    if (note[0] && run_is_first(run))
        fprintf(stderr, "resume  %s\n", note);
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(path, &checkpoint));
    struct checkpoint_facts facts;
    enum status status = checkpoint_facts(checkpoint, &facts);
    if (status == STATUS_OK)
        status = merge_settings(run, checkpoint, facts.images, argc, argv);
    if (status == STATUS_OK && (double)facts.images >= run->config.kimg * 1000.0) {
        if (run_is_first(run))
            printf("finished: %s has reached %.4g of %.4g kimg; to go on, give a larger "
                   "--kimg\n",
                   path, (double)facts.images / 1000.0, run->config.kimg);
    } else if (status == STATUS_OK) {
        if (run_is_first(run))
            fprintf(stderr, "resume  %s (step %lld, %.1f kimg)\n", path,
                    (long long)facts.step, (double)facts.images / 1000.0);
        status = continue_run(run, checkpoint, path, &facts);
    }
    checkpoint_close(checkpoint);
    return status;
}
