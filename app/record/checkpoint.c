#include "app/record/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/checkpoint_json.h"
#include "app/record/checkpoint_tensors.h"
#include "kernels/packed.h"
#include "app/config/number.h"
#include "app/files/safetensors.h"
#include "kernels/half.h"

#define FOUND_SCALES "found_scales"
#define EMA "ema."

struct checkpoint {
    char path[1024];
    struct safetensors_file *file;
};

/* ---- saving ---------------------------------------------------------------------- */

/* The first element that is inf or NaN, or the number of all. */
static size_t first_bad(const struct safetensor *tensor)
{
    const float *values = tensor->data;
    size_t i = 0, count = tensor->bytes / sizeof *values;
    while (i < count && is_finite_f32(values[i]))
        i++;
    return i;
}

// A NaN's sign means nothing.
static const char *value_text(float value, char text[32])
{
    if (isnan(value))
        return "nan";
    snprintf(text, 32, "%g", (double)value);
    return text;
}

static enum status check_finite(const struct safetensor *tensor)
{
    char text[32];
    const float *values = tensor->data;
    size_t bad = first_bad(tensor);
    if (bad < tensor->bytes / sizeof *values)
        return status_fail(
            STATUS_DIVERGED,
            "%s[%zu] is %s: the run has diverged and is not saved, so that "
            "the last checkpoint stays good; resume from it with a lower "
            "learning rate",
            tensor->name, bad, value_text(values[bad], text));
    return STATUS_OK;
}

/* The state, a tensor at a time: a second copy of all of it would be as large as it
 * is. */
struct saving {
    struct trainer *trainer;
    struct state_list list;
    struct safetensor *tensors; // [list.count] described, without data
    float *packed, *stored;     // room for the largest, without padding and with it
};

static const void *packed_data(void *context, const struct safetensor *tensor)
{
    struct saving *saving = context;
    size_t i = 0;
    while (i < saving->list.count && strcmp(saving->tensors[i].name, tensor->name) != 0)
        i++;
    CHECK(i < saving->list.count, "%s", tensor->name);
    packed_download(saving->trainer->device, &saving->list.entry[i].tensor,
                    saving->stored, saving->packed);
    return saving->packed;
}

/* What goes with the averaged weights wherever they are loaded: the statistics that the
 * sampler draws them with. A resume does not need them, it makes them again. */
static void list_sampled(struct state_list *list, struct trainer *trainer)
{
    struct sampler *sampler = &trainer->sampler;
    struct device *stream = sampler->net.device;
    sampler_load(sampler, trainer->device, trainer->ema.average);
    stream->ops->memory.wait(stream);
    state_list_running(list, &sampler->net, EMA);
}

static enum status describe_all(struct saving *saving, const char *path)
{
    size_t most = 1, most_stored = 1;
    state_list_all(&saving->list, saving->trainer);
    list_sampled(&saving->list, saving->trainer);
    saving->tensors = calloc(saving->list.count, sizeof *saving->tensors);
    TRY_MEMORY(saving->tensors, "%zu tensors of %s", saving->list.count, path);
    for (size_t i = 0; i < saving->list.count; i++) {
        const struct state_tensor *entry = &saving->list.entry[i];
        size_t elements = tensor_elements(&entry->tensor);
        size_t stored = tensor_bytes(&entry->tensor);
        most = elements > most ? elements : most;
        most_stored = stored > most_stored ? stored : most_stored;
        state_describe(entry, &saving->tensors[i]);
    }
    saving->packed = malloc(most * sizeof *saving->packed);
    saving->stored = malloc(most_stored);
    TRY_MEMORY(saving->packed && saving->stored, "the largest tensor of %s, %zu bytes",
               path, most_stored);
    return STATUS_OK;
}

static enum status check_all_finite(struct saving *saving)
{
    for (size_t i = 0; i < saving->list.count; i++) {
        struct safetensor tensor = saving->tensors[i];
        tensor.data = packed_data(saving, &tensor);
        TRY(check_finite(&tensor));
    }
    return STATUS_OK;
}

/* The texts of the metadata; NULL where memory was short. */
struct texts {
    char *config, *state, *data;
};

static enum status write_texts(struct saving *saving, const char *path,
                               const struct texts *texts)
{
    struct trainer *trainer = saving->trainer;
    char clock[64];
    snprintf(clock, sizeof clock, "%.3f", trainer->progress.elapsed_sec);
    TRY_MEMORY(texts->config && texts->state && texts->data, "the metadata of %s", path);
    const struct safetensors_pair pairs[] = {
        {"format", "twinscale"},
        {"twinscale.version", CHECKPOINT_VERSION},
        {"config", texts->config},
        {"state", texts->state},
        {"data", texts->data},
        {"clock", clock},
        {FOUND_SCALES, trainer->found_scales}, // the last: where there is nothing, none
    };
    size_t pair_count = sizeof pairs / sizeof *pairs - !trainer->found_scales[0];
    struct safetensors_source source = {packed_data, saving};
    return safetensors_write(path, saving->tensors, saving->list.count, pairs, pair_count,
                             &source);
}

static enum status write_state(struct saving *saving, const char *path)
{
    struct texts texts = {.config = config_to_json(&saving->trainer->config),
                          .state = checkpoint_state_json(saving->trainer),
                          .data = checkpoint_data_json(saving->trainer->dataset)};
    enum status status = write_texts(saving, path, &texts);
    free(texts.config);
    free(texts.state);
    free(texts.data);
    return status;
}

enum status checkpoint_save(struct trainer *trainer, const char *path)
{
    struct saving *saving = calloc(1, sizeof *saving);
    TRY_MEMORY(saving, "%s", path);
    saving->trainer = trainer;
    enum status status = describe_all(saving, path);
    if (status == STATUS_OK)
        status = check_all_finite(saving);
    if (status == STATUS_OK)
        status = write_state(saving, path);
    free(saving->packed);
    free(saving->stored);
    free(saving->tensors);
    free(saving);
    return status;
}

/* ---- opening --------------------------------------------------------------------- */

static enum status check_format(const struct checkpoint *checkpoint)
{
    const char *format = safetensors_metadata(checkpoint->file, "format");
    const char *version = safetensors_metadata(checkpoint->file, "twinscale.version");
    if (!format || strcmp(format, "twinscale") != 0 || !version)
        return status_fail(STATUS_DATA,
                           "%s: a safetensors file, but not a checkpoint of this program "
                           "(format %s); give a snapshot-*.safetensors of a run",
                           checkpoint->path, format ? format : "not said");
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return status_fail(
            STATUS_DATA,
            "%s: checkpoint version \"%.20s\", this program reads %s; use the "
            "release that wrote it",
            checkpoint->path, version, CHECKPOINT_VERSION);
    return STATUS_OK;
}

enum status checkpoint_open(const char *path, struct checkpoint **checkpoint)
{
    struct checkpoint *opened = calloc(1, sizeof *opened);
    TRY_MEMORY(opened, "%s", path);
    snprintf(opened->path, sizeof opened->path, "%s", path);
    enum status status = safetensors_open(path, &opened->file);
    if (status == STATUS_OK)
        status = check_format(opened);
    if (status != STATUS_OK) {
        checkpoint_close(opened);
        return status;
    }
    *checkpoint = opened;
    return STATUS_OK;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    safetensors_close(checkpoint->file);
    free(checkpoint);
}

enum status checkpoint_config(const struct checkpoint *checkpoint, struct config *config)
{
    const char *text = safetensors_metadata(checkpoint->file, "config");
    if (!text)
        return status_fail(STATUS_DATA,
                           "%s: its metadata \"config\" is missing; the file is "
                           "damaged",
                           checkpoint->path);
    config_default(config);
    return config_from_saved(config, text, checkpoint->path);
}

static enum status read_clock(const struct checkpoint *checkpoint,
                              struct checkpoint_facts *facts)
{
    const char *text = safetensors_metadata(checkpoint->file, "clock");
    if (!text)
        return STATUS_OK; // the file is of the first release
    if (number_read(text, &facts->elapsed_sec) == NUMBER_OK && facts->elapsed_sec >= 0.0)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "%s: its metadata \"clock\" is \"%.20s\", expected the seconds "
                       "trained; the file is damaged, take an earlier snapshot",
                       checkpoint->path, text);
}

static enum status read_found_scales(const struct checkpoint *checkpoint,
                                     struct checkpoint_facts *facts)
{
    const char *found = safetensors_metadata(checkpoint->file, FOUND_SCALES);
    if (found && strlen(found) >= sizeof facts->found_scales)
        return status_fail(STATUS_DATA,
                           "%s: its metadata \"" FOUND_SCALES
                           "\" has %zu bytes, at most %zu were expected; the file is "
                           "damaged, take an earlier snapshot",
                           checkpoint->path, strlen(found),
                           sizeof facts->found_scales - 1);
    snprintf(facts->found_scales, sizeof facts->found_scales, "%s", found ? found : "");
    return STATUS_OK;
}

enum status checkpoint_facts(const struct checkpoint *checkpoint,
                             struct checkpoint_facts *facts)
{
    struct config config;
    memset(facts, 0, sizeof *facts);
    TRY(checkpoint_config(checkpoint, &config));
    TRY(checkpoint_state_from_json(safetensors_metadata(checkpoint->file, "state"),
                                   checkpoint->path, &config, facts));
    TRY(checkpoint_data_from_json(safetensors_metadata(checkpoint->file, "data"),
                                  checkpoint->path, facts));
    TRY(read_clock(checkpoint, facts));
    return read_found_scales(checkpoint, facts);
}

static int by_name(const void *a, const void *b)
{
    const struct safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

uint64_t checkpoint_digest(const struct checkpoint *checkpoint)
{
    size_t count = safetensors_count(checkpoint->file);
    const struct safetensor **order = malloc((count + 1) * sizeof *order);
    CHECK_MEMORY(order, "the names of tensors");
    for (size_t i = 0; i < count; i++)
        order[i] = safetensors_at(checkpoint->file, i);
    qsort(order, count, sizeof *order, by_name);
    uint64_t digest = DIGEST_START;
    for (size_t i = 0; i < count; i++) {
        const struct safetensor *tensor = order[i];
        digest = digest_bytes(digest, tensor->name, strlen(tensor->name));
        digest = digest_bytes(digest, tensor->shape,
                              (size_t)tensor->rank * sizeof *tensor->shape);
        digest = digest_bytes(digest, tensor->data, tensor->bytes);
    }
    free(order);
    const char *state = safetensors_metadata(checkpoint->file, "state");
    return state ? digest_bytes(digest, state, strlen(state)) : digest;
}

/* ---- loading --------------------------------------------------------------------- */

/* A checksum says that a file is what was written, not that it can be trained on. */
static enum status check_values(const struct checkpoint *checkpoint,
                                const struct safetensor *tensor)
{
    char text[32];
    const float *values = tensor->data;
    size_t count = tensor->bytes / sizeof *values, bad = first_bad(tensor);
    int is_square =
        strstr(tensor->name, ".adam_v.") || strstr(tensor->name, ".running_var");
    for (size_t i = 0; is_square && i < bad; i++)
        if (values[i] < 0.0f)
            bad = i;
    if (bad == count)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "%s: %s[%zu] is %s, expected a finite number%s; take an earlier "
                       "snapshot",
                       checkpoint->path, tensor->name, bad, value_text(values[bad], text),
                       is_square ? " of 0 or more" : "");
}

static enum status load_entry(const struct checkpoint *checkpoint, struct device *device,
                              const struct state_tensor *entry, const char *saved_name)
{
    const struct safetensor *saved = safetensors_find(checkpoint->file, saved_name);
    size_t bytes = tensor_elements(&entry->tensor) * sizeof(float);
    if (!saved)
        return status_fail(STATUS_DATA, "%s: tensor %s is missing; the file is damaged",
                           checkpoint->path, saved_name);
    struct safetensor want;
    state_describe(entry, &want);
    if (strcmp(saved->dtype, want.dtype) != 0 || saved->bytes != bytes ||
        saved->rank != want.rank ||
        memcmp(saved->shape, want.shape, (size_t)want.rank * sizeof *want.shape) != 0) {
        char text[SHAPE_TEXT];
        return status_fail(
            STATUS_DATA,
            "%s: tensor %s has dtype %s and %zu bytes, this run needs F32 of "
            "%s; it belongs to another network",
            checkpoint->path, saved_name, saved->dtype, saved->bytes,
            shape_text(entry->tensor.shape, text));
    }
    TRY(check_values(checkpoint, saved));
    return packed_upload(device, &entry->tensor, saved->data);
}

static enum status check_data(const struct checkpoint *checkpoint,
                              const struct checkpoint_facts *facts,
                              const struct dataset *dataset)
{
    if (facts->data_digest == dataset->digest)
        return STATUS_OK;
    return status_fail(
        STATUS_DATA,
        "%s: trained on %s with %lld image%s, but %s has other pixels (%zu "
        "image%s); give the same data, or start a new run",
        checkpoint->path, facts->data_name, (long long)facts->data_count,
        PLURAL(facts->data_count), dataset->source, dataset->count,
        PLURAL(dataset->count));
}

static enum status load_tensors(const struct checkpoint *checkpoint,
                                struct trainer *trainer)
{
    struct state_list *list = malloc(sizeof *list);
    TRY_MEMORY(list, "the names of tensors");
    state_list_all(list, trainer);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++)
        status =
            load_entry(checkpoint, trainer->device, &list->entry[i], list->entry[i].name);
    free(list);
    return status;
}

/* Loads the scaler, and into the host's record what is shown of it until a step is taken:
 * where none is left to take, to the end. */
static enum status load_scaler(struct grad_scaler *scaler, struct step_record *record,
                               const struct grad_scaler_saved *saved)
{
    TRY(grad_scaler_load(scaler, saved));
    struct scaler_state loaded = grad_scaler_read(scaler);
    *record = (struct step_record){.scale_after = loaded.scale,
                                   .growth_tracker = loaded.growth_tracker,
                                   .hysteresis_used = loaded.hysteresis_used,
                                   .adam_t = loaded.adam_t,
                                   .updates = loaded.updates,
                                   .skipped = loaded.skipped,
                                   .skipped_in_a_row = loaded.skipped_in_a_row,
                                   .growths = loaded.growths,
                                   .backoffs = loaded.backoffs,
                                   .held = loaded.held};
    return STATUS_OK;
}

static enum status load_scalers(const struct checkpoint *checkpoint,
                                struct trainer *trainer,
                                const struct checkpoint_facts *facts)
{
    for (int network = 0; network < ROLES; network++) {
        TRY(load_scaler(&trainer->scaler[network], &trainer->last.record[network],
                        &facts->scaler[network]));
    }
    if (trainer->topology.kind != TOPOLOGY_PER_LOSS)
        return STATUS_OK;
    if (!facts->has_fake_scaler)
        return status_fail(
            STATUS_DATA,
            "%s: its state has no scaler_d_fake, which a run with --scaler "
            "per-loss needs; the file is damaged",
            checkpoint->path);
    return load_scaler(&trainer->topology.fake, &trainer->last.fake_record,
                       &facts->fake_scaler);
}

enum status checkpoint_load(const struct checkpoint *checkpoint, struct trainer *trainer)
{
    struct checkpoint_facts facts;
    TRY(checkpoint_facts(checkpoint, &facts));
    TRY(check_data(checkpoint, &facts, trainer->dataset));
    TRY(load_tensors(checkpoint, trainer));
    for (int network = 0; network < ROLES; network++)
        net_params_changed(&trainer->gan.net[network]);
    TRY(load_scalers(checkpoint, trainer, &facts));
    trainer->progress = (struct progress){.step = facts.step,
                                          .images = facts.images,
                                          .elapsed_sec = facts.elapsed_sec,
                                          .rollbacks = facts.rollbacks};
    memcpy(trainer->found_scales, facts.found_scales, sizeof facts.found_scales);
    uint64_t draw = (uint64_t)(facts.images / trainer->config.batch);
    trainer->device->ops->memory.upload(trainer->device, trainer->feed.draw, &draw,
                                        sizeof draw);
    return STATUS_OK;
}

enum status checkpoint_load_generator(const struct checkpoint *checkpoint,
                                      const struct net *generator, int raw, float *block)
{
    struct state_list *list = malloc(sizeof *list);
    TRY_MEMORY(list, "the names of tensors");
    list->count = 0;
    state_list_block(list, generator, raw ? "" : EMA, block);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++)
        status = load_entry(checkpoint, generator->device, &list->entry[i],
                            list->entry[i].name);
    free(list);
    return status;
}

enum status checkpoint_load_statistics(const struct checkpoint *checkpoint,
                                       const struct net *generator, int *are_there)
{
    struct state_list *list = malloc(sizeof *list);
    TRY_MEMORY(list, "the names of tensors");
    list->count = 0;
    state_list_running(list, generator, EMA);
    *are_there = list->count == 0 ||
                 safetensors_find(checkpoint->file, list->entry[0].name) != NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; *are_there && i < list->count && status == STATUS_OK; i++)
        status = load_entry(checkpoint, generator->device, &list->entry[i],
                            list->entry[i].name);
    free(list);
    return status;
}
