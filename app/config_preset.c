/* config_preset.c - named sets of settings: those in the binary, or a file of the user's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config_table.h"
#include "app/nearest.h"
#include "app/regular_file.h"

#define PRESETS_MAX 32
#define PRESET_FILE_BYTES_MAX 65536

static int has_json_ending(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcasecmp(name + length - 5, ".json") == 0;
}

static enum status unknown_preset(const char *name)
{
    const char *names[PRESETS_MAX];
    char list[256] = "", meant[96] = "";
    size_t used = 0;
    for (int i = 0; i < embedded_preset_count; i++) {
        names[i] = embedded_presets[i].name;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 names[i]);
        CHECK(used < sizeof list && i < PRESETS_MAX, "too many presets");
    }
    const char *nearest = nearest_word(name, names, embedded_preset_count);
    if (nearest)
        snprintf(meant, sizeof meant, " (did you mean %s?)", nearest);
    return status_fail(
        STATUS_USAGE,
        "--preset: there is no preset \"%s\"%s; the presets are %s, and the path of a "
        ".json file of your own is one too",
        name, meant, list);
}

/* Reads a whole small file; the caller frees *text. */
static enum status read_file(const char *path, char **text)
{
    char reason[REGULAR_REASON];
    FILE *file = regular_open(path, "r", "a file of settings", reason);
    if (!file)
        return status_fail(
            errno ? STATUS_USAGE : STATUS_DATA,
            "--preset: %s: %s; give a preset's name or the path of a .json file", path,
            reason);
    *text = calloc(1, PRESET_FILE_BYTES_MAX + 1);
    CHECK(*text, "out of memory");
    errno = 0;
    size_t bytes = fread(*text, 1, PRESET_FILE_BYTES_MAX + 1, file);
    int failed = ferror(file), error = errno;
    fclose(file);
    if (!failed && bytes <= PRESET_FILE_BYTES_MAX && strlen(*text) == bytes)
        return STATUS_OK;
    free(*text);
    *text = NULL;
    if (failed)
        return status_fail(STATUS_DATA, "preset %s: cannot be read: %s", path,
                           strerror(error));
    return status_fail(
        STATUS_DATA,
        "preset %s: is not a file of settings: it has a zero byte, or more "
        "than %d bytes",
        path, PRESET_FILE_BYTES_MAX);
}

/* "my" of "folder/my.json". */
static enum status set_name_from_path(struct config *config, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *stem = strdup(slash ? slash + 1 : path);
    CHECK(stem, "out of memory");
    stem[strlen(stem) - strlen(".json")] = '\0';
    enum status status = config_set(config, "preset", stem, "--preset");
    free(stem);
    return status;
}

static enum status apply_file(struct config *config, const char *path)
{
    char *json, source[CONFIG_TEXT];
    TRY(read_file(path, &json));
    snprintf(source, sizeof source, "preset %s", path);
    // The name comes first: an options.json, which names its own preset, then keeps that.
    enum status status = set_name_from_path(config, path);
    if (status == STATUS_OK)
        status = config_from_json(config, json, source);
    free(json);
    return status;
}

static enum status apply_embedded(struct config *config, const char *name)
{
    char source[CONFIG_TEXT];
    for (int i = 0; i < embedded_preset_count; i++) {
        if (strcmp(embedded_presets[i].name, name) == 0) {
            snprintf(source, sizeof source, "preset %s", name);
            TRY(config_set(config, "preset", name, "--preset"));
            return config_from_json(config, embedded_presets[i].json, source);
        }
    }
    return unknown_preset(name);
}

enum status config_apply_preset(struct config *config, const char *name)
{
    struct config changed = *config;
    TRY(has_json_ending(name) ? apply_file(&changed, name)
                              : apply_embedded(&changed, name));
    // A preset says how to run. What to resume, and whether only to try, is not its to
    // say.
    memcpy(changed.resume, config->resume, sizeof changed.resume);
    changed.dry_run = config->dry_run;
    *config = changed;
    return STATUS_OK;
}
