#include "app/checkpoint.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/checkpoint_json.h"
#include "app/checkpoint_tensors.h"
#include "app/output/safetensors.h"
#include "kernels/half.h"

#define FOUND_SCALES "found_scales"

struct checkpoint {
    char path[1024];
    struct safetensors_file *file;
};

/* ---- saving ---------------------------------------------------------------------- */

static enum status check_finite(const struct safetensor *tensor)
{
    const float *values = tensor->data;
    for (size_t i = 0; i < tensor->bytes / sizeof *values; i++)
        if (!is_finite_f32(values[i]))
            return status_fail(
                STATUS_DIVERGED,
                "%s[%zu] is %s: the run has diverged and is not saved, so that "
                "the last checkpoint stays good; resume from it with a lower "
                "learning rate",
                tensor->name, i,
                isnan(values[i])   ? "nan"
                : values[i] > 0.0f ? "inf"
                                   : "-inf");
    return STATUS_OK;
}

/* The state, a tensor at a time: a second copy of all of it would be as large as it is. */
struct saving {
    struct trainer *trainer;
    struct state_list list;
    struct safetensor *tensors; // [list.count] described, without data
    float *packed;              // room for the largest
};

static const void *packed_data(void *context, const struct safetensor *tensor)
{
    struct saving *saving = context;
    size_t i = 0;
    while (i < saving->list.count && strcmp(saving->tensors[i].name, tensor->name) != 0)
        i++;
    CHECK(i < saving->list.count, "%s", tensor->name);
    state_download(saving->trainer->device, &saving->list.entry[i].tensor,
                   saving->packed);
    return saving->packed;
}

static void describe_all(struct saving *saving)
{
    size_t most = 1;
    state_list_all(&saving->list, saving->trainer);
    saving->tensors = calloc(saving->list.count, sizeof *saving->tensors);
    CHECK(saving->tensors);
    for (size_t i = 0; i < saving->list.count; i++) {
        const struct state_tensor *entry = &saving->list.entry[i];
        size_t elements = tensor_elements(&entry->tensor);
        most = elements > most ? elements : most;
        state_describe(entry, &saving->tensors[i]);
    }
    saving->packed = malloc(most * sizeof *saving->packed);
    CHECK(saving->packed, "%zu elements", most);
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

static enum status write_state(struct saving *saving, const char *path)
{
    struct trainer *trainer = saving->trainer;
    char clock[64];
    snprintf(clock, sizeof clock, "%.3f", trainer->progress.elapsed_sec);
    char *config = config_to_json(&trainer->config);
    char *state = checkpoint_state_json(trainer),
         *data = checkpoint_data_json(trainer->dataset);
    const struct safetensors_pair pairs[] = {
        {"format", "twinscale"},
        {"twinscale.version", "1"},
        {"config", config},
        {"state", state},
        {"data", data},
        {"clock", clock},
        {FOUND_SCALES, trainer->found_scales}, // the last: where there is nothing, none
    };
    size_t pair_count = sizeof pairs / sizeof *pairs - !trainer->found_scales[0];
    struct safetensors_source source = {packed_data, saving};
    enum status status = safetensors_write(path, saving->tensors, saving->list.count,
                                           pairs, pair_count, &source);
    free(config);
    free(state);
    free(data);
    return status;
}

enum status checkpoint_save(struct trainer *trainer, const char *path)
{
    struct saving *saving = calloc(1, sizeof *saving);
    CHECK(saving);
    saving->trainer = trainer;
    describe_all(saving);
    enum status status = check_all_finite(saving);
    if (status == STATUS_OK)
        status = write_state(saving, path);
    free(saving->packed);
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
    if (atoi(version) != CHECKPOINT_VERSION)
        return status_fail(STATUS_DATA,
                           "%s: checkpoint version %s, this program reads %d; use the "
                           "release that wrote it",
                           checkpoint->path, version, CHECKPOINT_VERSION);
    return STATUS_OK;
}

enum status checkpoint_open(const char *path, struct checkpoint **checkpoint)
{
    struct checkpoint *opened = calloc(1, sizeof *opened);
    CHECK(opened);
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

static enum status metadata_json(const struct checkpoint *checkpoint, const char *key,
                                 json_t **json)
{
    const char *text = safetensors_metadata(checkpoint->file, key);
    json_error_t error = {0};
    *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!*json)
        return status_fail(STATUS_DATA,
                           "%s: its metadata \"%s\" %s%s; the file is damaged",
                           checkpoint->path, key, text ? "is not JSON: " : "is missing",
                           text ? error.text : "");
    return STATUS_OK;
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
    return config_from_json(config, text, checkpoint->path);
}

static enum status read_state(const struct checkpoint *checkpoint,
                              struct checkpoint_facts *facts)
{
    json_t *state;
    TRY(metadata_json(checkpoint, "state", &state));
    json_int_t step, images;
    enum status status = STATUS_OK;
    if (json_unpack(state, "{s:I, s:I}", "step", &step, "images", &images))
        status = status_fail(STATUS_DATA,
                             "%s: its state lacks step and images; the file is "
                             "damaged",
                             checkpoint->path);
    static const char *const keys[] = {
        [NETWORK_G] = "scaler_g", [NETWORK_D] = "scaler_d"};
    for (int network = 0; network < NETWORK_COUNT && status == STATUS_OK; network++)
        status = checkpoint_scaler_from_json(json_object_get(state, keys[network]),
                                             checkpoint->path, &facts->scaler[network]);
    json_t *fake = json_object_get(state, "scaler_d_fake");
    facts->has_fake_scaler = fake != NULL;
    if (status == STATUS_OK && fake)
        status = checkpoint_scaler_from_json(fake, checkpoint->path, &facts->fake_scaler);
    if (status == STATUS_OK) {
        facts->step = step;
        facts->rollbacks = (int)json_integer_value(json_object_get(state, "rollbacks"));
        facts->images = images;
    }
    json_decref(state);
    return status;
}

enum status checkpoint_facts(const struct checkpoint *checkpoint,
                             struct checkpoint_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    TRY(read_state(checkpoint, facts));
    json_t *data;
    TRY(metadata_json(checkpoint, "data", &data));
    const char *name, *digest;
    json_int_t count;
    enum status status = STATUS_OK;
    if (json_unpack(data, "{s:s, s:I, s:s}", "name", &name, "count", &count, "digest",
                    &digest)) {
        status = status_fail(STATUS_DATA,
                             "%s: its data description cannot be read; the file "
                             "is damaged",
                             checkpoint->path);
    } else {
        snprintf(facts->data_name, sizeof facts->data_name, "%s", name);
        facts->data_count = count;
        facts->data_digest = strtoull(digest, NULL, 16);
    }
    json_decref(data);
    const char *clock = safetensors_metadata(checkpoint->file, "clock");
    facts->elapsed_sec = clock ? strtod(clock, NULL) : 0.0;
    const char *found = safetensors_metadata(checkpoint->file, FOUND_SCALES);
    snprintf(facts->found_scales, sizeof facts->found_scales, "%s", found ? found : "");
    return status;
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
    CHECK(order);
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
    state_upload(device, &entry->tensor, saved->data);
    return STATUS_OK;
}

static enum status check_data(const struct checkpoint *checkpoint,
                              const struct checkpoint_facts *facts,
                              const struct dataset *dataset)
{
    if (facts->data_digest == dataset->digest)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "%s: trained on %s with %lld images, but %s has other pixels (%zu "
                       "images); give the same data, or start a new run",
                       checkpoint->path, facts->data_name, (long long)facts->data_count,
                       dataset->source, dataset->count);
}

static enum status load_tensors(const struct checkpoint *checkpoint,
                                struct trainer *trainer)
{
    struct state_list *list = malloc(sizeof *list);
    CHECK(list);
    state_list_all(list, trainer);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++)
        status =
            load_entry(checkpoint, trainer->device, &list->entry[i], list->entry[i].name);
    free(list);
    return status;
}

static enum status load_scalers(const struct checkpoint *checkpoint,
                                struct trainer *trainer,
                                const struct checkpoint_facts *facts)
{
    for (int network = 0; network < NETWORK_COUNT; network++)
        TRY(grad_scaler_load(&trainer->player[network].scaler, &facts->scaler[network]));
    if (trainer->topology.kind != TOPOLOGY_PER_LOSS)
        return STATUS_OK;
    if (!facts->has_fake_scaler)
        return status_fail(
            STATUS_DATA,
            "%s: its state has no scaler_d_fake, which a run with --scaler "
            "per-loss needs; the file is damaged",
            checkpoint->path);
    return grad_scaler_load(&trainer->topology.fake, &facts->fake_scaler);
}

enum status checkpoint_load(const struct checkpoint *checkpoint, struct trainer *trainer)
{
    struct checkpoint_facts facts;
    TRY(checkpoint_facts(checkpoint, &facts));
    TRY(check_data(checkpoint, &facts, trainer->dataset));
    TRY(load_tensors(checkpoint, trainer));
    for (int network = 0; network < NETWORK_COUNT; network++)
        net_params_changed(&trainer->player[network].net);
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
    CHECK(list);
    list->count = 0;
    state_list_block(list, generator, raw ? "" : "ema.", block);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++)
        status = load_entry(checkpoint, generator->device, &list->entry[i],
                            list->entry[i].name);
    free(list);
    return status;
}
