#include "app/post_mortem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/recovery/diagnosis.h"
#include "app/files/json_text.h"
#include "app/files/atomic_file.h"
#include "app/files/set_aside.h"
#include "app/files/regular_file.h"
#include "app/report_events.h"

#define IMAGES_MAX 1024

// "post-mortem/NAME" in the run folder.
static const char *file_in(const struct report *report, const char *name, char path[1024])
{
    return run_folder_file(report->folder, path, 1024, "post-mortem/%s", name);
}

static enum status write_text(const struct report *report, const char *name,
                              const char *text)
{
    char path[1024];
    struct atomic_file file;
    TRY(atomic_open(&file, file_in(report, name, path)));
    fprintf(file.stream, "%s\n", text);
    return atomic_commit(&file);
}

static enum status write_options(const struct report *report)
{
    char *json = config_to_json(&report->trainer->config);
    TRY_MEMORY(json, "the settings");
    enum status status = write_text(report, "options.json", json);
    free(json);
    return status;
}

static enum status write_layers(const struct report *report, const struct storm *storm)
{
    const struct results *results = &report->trainer->results;
    int slot = results->record_count - (storm->network == ROLE_G ? 1 : 2);
    json_t *layers =
        json_pack("{s:I, s:o}", "step", (json_int_t)report->trainer->last.place.step,
                  "layers", report_layers_of_skip(report, slot));
    char *json =
        layers ? json_text(layers, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(layers);
    TRY_MEMORY(json, "the statistics of layers");
    enum status status = write_text(report, "layers.json", json);
    free(json);
    return status;
}

static enum status write_batch(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    size_t images[IMAGES_MAX];
    size_t count =
        diagnosis_images(trainer, trainer->config.n_dis - 1, images, IMAGES_MAX);
    TRY_MEMORY(count, "the order of the batch's images");
    return report_write_images(report, images, count < IMAGES_MAX ? count : IMAGES_MAX,
                               "post-mortem/batch.png");
}

static enum status copy_events(const struct report *report)
{
    char from[1024], path[1024], block[4096], reason[REGULAR_REASON];
    struct atomic_file file;
    run_folder_file(report->folder, from, sizeof from, "events.jsonl");
    FILE *events = regular_open(from, "r", "a log", reason);
    if (!events)
        return status_fail(STATUS_FAILED, "%s: %s", from, reason);
    enum status status = atomic_open(&file, file_in(report, "events.jsonl", path));
    if (status == STATUS_OK) {
        size_t bytes;
        while ((bytes = fread(block, 1, sizeof block, events)) > 0)
            fwrite(block, 1, bytes, file.stream);
        status = atomic_commit(&file);
    }
    fclose(events);
    return status;
}

/* An empty folder, and what an earlier end of this run left there under another name. */
static enum status make_folder(const char *path)
{
    char kept[1100];
    rmdir(path); // may be empty
    struct stat facts;
    if (lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        int reason = set_aside(path, kept, sizeof kept);
        if (reason)
            return status_fail(STATUS_FAILED, "%s: cannot be set aside as %s: %s", path,
                               kept, strerror(reason));
    }
    if (mkdir(path, 0777) != 0)
        return status_fail(STATUS_FAILED, "%s: cannot be made: %s", path,
                           strerror(errno));
    return STATUS_OK;
}

enum status post_mortem_write(struct report *report, const struct storm *storm,
                              const char *reason, char *path, size_t bytes)
{
    run_folder_file(report->folder, path, bytes, "post-mortem");
    TRY(make_folder(path));
    TRY(write_text(report, "reason.txt", reason));
    TRY(write_options(report));
    TRY(write_layers(report, storm));
    TRY(copy_events(report));
    return write_batch(report);
}
