/* resume.c - `twinscale train --resume`: goes on from a snapshot, in the same folder. */
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "app/record/checkpoint.h"
#include "app/forecast.h"
#include "app/files/json_lines.h"
#include "app/run.h"
#include "app/signals.h"

/* ---- the end --------------------------------------------------------------------- */

/* What events.jsonl says of a step and of what came after it. */
struct end {
    int64_t step;
    int has_event, goes_on;
};

static void look_for_end(void *context, json_t *line)
{
    struct end *end = context;
    const char *word = json_string_value(json_object_get(line, "event"));
    double step = json_line_number(line, "step");
    end->goes_on |= step > (double)end->step;
    end->has_event |= step == (double)end->step && word && strcmp(word, "finished") == 0;
}

/* True where the run was killed behind its last snapshot: that event is the last that a
 * run writes. */
static int is_unfinished(const char *path, const struct checkpoint_facts *facts)
{
    char copy[1024], events[1100];
    struct end end = {.step = facts->step};
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(events, sizeof events, "%s/events.jsonl", dirname(copy));
    json_lines_read(events, look_for_end, &end);
    return !end.has_event && !end.goes_on;
}

/* ---- going on -------------------------------------------------------------------- */

static enum status merge_settings(struct run *run, const struct checkpoint *checkpoint,
                                  int64_t images, int argc, char **argv)
{
    struct config saved;
    int wants_help;
    TRY(checkpoint_config(checkpoint, &saved));
    run->saved_kimg = saved.kimg;
    run->trainer.config = saved;
    run->trainer.config.gpus = 0;
    config_origins_begin(&run->origins, "snapshot");
    TRY(config_parse(&run->trainer.config, argc, argv, &wants_help, &run->origins));
    TRY(run_settle_gpus(run, saved.gpus));
    TRY(config_check_resume(&saved, &run->trainer.config, run->changes,
                            sizeof run->changes));
    config_follow_limits(&run->trainer.config); // as trainer_change() does
    TRY(config_check(&run->trainer.config));
    return set_at_open(&run->set_at, &run->trainer.config, &saved, images);
}

static enum status continue_run(struct run *run, const struct checkpoint *checkpoint,
                                const char *path, const struct checkpoint_facts *facts)
{
    char copy[1024];
    run_begin_data(run);
    TRY(run_create(run, facts->images));
    TRY(checkpoint_load(checkpoint, &run->trainer));
    TRY(run_prepare(run));
    if (run->trainer.config.dry_run)
        return run_dry(run);
    TRY(forecast(&run->trainer, &run->forecast_sec));
    if (!run_is_first(run))
        return run_follow(run);
    signals_answer(RUN_ANSWER);
    signals_note_saved(path, (double)facts->images / 1000.0);
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
    TRY(run_folder_find_snapshot(run->trainer.config.resume, path, sizeof path, note,
                                 sizeof note));
    if (note[0] && run_is_first(run))
        fprintf(stderr, "resume  %s\n", note);
    struct checkpoint *checkpoint;
    TRY(checkpoint_open(path, &checkpoint));
    struct checkpoint_facts facts;
    enum status status = checkpoint_facts(checkpoint, &facts);
    if (status == STATUS_OK)
        status = merge_settings(run, checkpoint, facts.images, argc, argv);
    int has_end = (double)facts.images >= run->trainer.config.kimg * 1000.0;
    int is_cut_short = has_end && run->trainer.config.kimg == run->saved_kimg &&
                       !run->trainer.config.dry_run && is_unfinished(path, &facts);
    if (status == STATUS_OK && run->trainer.config.show_config) {
        status = run_show_config(run);
    } else if (status == STATUS_OK && has_end && !is_cut_short) {
        if (run_is_first(run))
            printf("finished: %s has reached %.4g of %.4g kimg; to go on, give a larger "
                   "--kimg\n",
                   path, (double)facts.images / 1000.0, run->trainer.config.kimg);
    } else if (status == STATUS_OK) {
        if (run_is_first(run))
            fprintf(stderr, "resume  %s (step %lld, %.1f kimg)%s\n", path,
                    (long long)facts.step, (double)facts.images / 1000.0,
                    is_cut_short ? ": trained to its end; writes what was not written"
                                 : "");
        status = continue_run(run, checkpoint, path, &facts);
    }
    checkpoint_close(checkpoint);
    return status;
}
