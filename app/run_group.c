/* run_group.c - a run on several GPUs: from one process to many, and what all but the
 * first do. They have no folder, window, keys or signals: they queue the steps that rank
 * 0 orders, so that the sums over all devices (step.c) find their partners. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/record/checkpoint_json.h"
#include "app/live/control.h"
#include "app/files/json_text.h"
#include "app/files/safetensors.h"
#include "app/report_events.h"
#include "app/run.h"
#include "app/signals.h"
#include "app/recovery/storm.h"
#include "app/train/train.h"
#include "app/files/terminal.h"

/* ---- from one process to many ---------------------------------------------------- */

enum status run_settle_gpus(struct run *run, int otherwise)
{
    const struct group_place *place = &run->place;
    int asked = run->trainer.config.gpus;
    if (asked == 0)
        run->trainer.config.gpus = place->is_launched ? place->world : otherwise;
    if (!place->is_launched || run->trainer.config.gpus == place->world)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "--gpus: %d, but this is rank %d of %d processes that %s has started; "
        "leave the flag out, or start the program by itself",
        asked, place->rank, place->world, place->launcher);
}

static int is_stopped(void *run)
{
    return monitor_take_requests(((struct run *)run)->monitor) & REQUEST_QUIT;
}

// The run ends within a moment: what must be known of it is written here.
static void set_loss(void *context, const char *reason)
{
    struct run *run = context;
    if (!run->report.folder)
        return;
    run_folder_log(&run->folder, "error: %s", reason);
    event_word(&run->report, "failed", reason);
    run_print_last_snapshot(run);
}

int run_newest_snapshot(const struct run *run, char path[1024])
{
    char note[256];
    snprintf(path, 1024, "%s", run->last_snapshot);
    return access(path, R_OK) == 0 ||
           run_folder_find_snapshot(run->folder.path, path, 1024, note, sizeof note) ==
               STATUS_OK;
}

void run_tell_ranks(void *context, const char *reason)
{
    group_tell_end(((struct run *)context)->group, STATUS_INTERRUPTED, reason);
}

void run_leave_at_once(void *context, const char *reason)
{
    struct run *run = context;
    control_remove(run->control);
    run_tell_ranks(run, reason);
}

void run_print_last_snapshot(struct run *run)
{
    char path[1024];
    if (run->last_snapshot[0] && run_newest_snapshot(run, path))
        report_print(&run->report,
                     "the last snapshot is good: twinscale train --resume %s", path);
}

// Paths, and what each process may have its own of, do not count.
static enum status agree_on_settings(struct run *run, int64_t images)
{
    struct config shared = run->trainer.config;
    char text[64];
    shared.data[0] = shared.out[0] = shared.resume[0] = shared.preset[0] = '\0';
    shared.device[0] = '\0';
    shared.threads = 0;
    char *json = config_to_json(&shared);
    TRY_MEMORY(json, "the settings");
    snprintf(text, sizeof text, "settings %08" PRIx64 " from image %" PRId64,
             digest_bytes(DIGEST_START, json, strlen(json)) & 0xffffffff, images);
    free(json);
    return group_agree(run->group, "the settings", text,
                       "start every process with the same flags and snapshot");
}

static enum status agree_on_data(struct run *run)
{
    char *json = checkpoint_data_json(run->trainer.dataset);
    TRY_MEMORY(json, "the name of the data");
    enum status status = group_agree(run->group, "the data", json,
                                     "every process has to read the same images");
    free(json);
    return status;
}

enum status run_create(struct run *run, int64_t images)
{
    struct group_start start = {.world = run->trainer.config.gpus,
                                .place = &run->place,
                                .is_stopped = is_stopped,
                                .context = run};
    signals_answer("stopping"); // is_stopped() is asked while they meet
    TRY(group_join(&start, &run->group));
    int rank = group_rank(run->group);
    if (rank > 0) {
        signals_ignore();
    } else {
        signals_on_end(run_tell_ranks, run);
        signals_answer(NULL);
        group_on_loss(run->group, set_loss, run);
    }
    struct trainer_rank here = {.show_decoding = rank ? NULL : progress_decoding,
                                .rank = rank,
                                .world = group_world(run->group),
                                .device_index = group_device_index(&run->place, rank)};
    char device[TRAINER_DEVICE];
    TRY(agree_on_settings(run, images));
    if (run->group && rank == 0)
        TRY(device_group_id(trainer_device_name(&run->trainer.config, &here, device),
                            here.group_id));
    TRY(group_share(run->group, here.group_id, sizeof here.group_id));
    enum status status = trainer_create_rank(&run->trainer, &run->trainer.config, &here);
    progress_clear();
    TRY(status);
    return agree_on_data(run);
}

int run_is_first(const struct run *run)
{
    return (run->group ? group_rank(run->group) : run->place.rank) == 0;
}

/* ---- the scalers ----------------------------------------------------------------- */

enum status run_compare_scalers(struct run *run)
{
    if (!run->group)
        return STATUS_OK;
    char *text = checkpoint_state_json(&run->trainer);
    json_t *state = text ? json_loads(text, 0, NULL) : NULL, *value;
    const char *key;
    enum status status = STATUS_OK;
    free(text);
    TRY_MEMORY(state, "the state of the scalers");
    json_object_foreach(state, key, value)
    {
        char *item = json_text(value, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!item)
            status = memory_missing("the state of the scalers");
        if (status == STATUS_OK)
            status = group_agree(run->group, key, item,
                                 "the ranks no longer train the same networks, which is "
                                 "a fault of this program or of a GPU; resume from the "
                                 "last snapshot");
        free(item);
    }
    json_decref(state);
    return status;
}

/* ---- ranks above 0 --------------------------------------------------------------- */

static enum status take_step(struct trainer *trainer)
{
    train_step(trainer);
    return storm_collect(trainer, trainer->device->steps_ahead);
}

enum status run_follow(struct run *run)
{
    for (;;) {
        enum group_order order;
        TRY(group_take_order(run->group, &order));
        switch (order) {
        case ORDER_STEP: TRY(take_step(&run->trainer)); break;
        case ORDER_COMPARE:
            TRY(storm_collect(&run->trainer, 0));
            TRY(run_compare_scalers(run));
            break;
        case ORDER_CHANGE:
            TRY(storm_collect(&run->trainer, 0));
            TRY(run_follow_change(run));
            break;
        case ORDER_END: return STATUS_OK;
        }
    }
}
