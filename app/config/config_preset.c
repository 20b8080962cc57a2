/* config_preset.c - named sets of settings: those in the binary, or a file of the user's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/nearest.h"
#include "app/files/regular_file.h"

#define PRESETS_MAX 32
#define PRESET_FILE_BYTES_MAX 65536
#define BASES_MAX 8 // a preset, its base, the base of that and so on

static int has_json_ending(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcasecmp(name + length - 5, ".json") == 0;
}

static enum status unknown_preset(const char *name, const char *source)
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
        "%s: there is no preset \"%s\"%s; the presets are %s, and the path of a "
        ".json file of your own is one too",
        source, name, meant, list);
}

/* Reads a whole small file; the caller frees *text. */
static enum status read_file(const char *path, const char *source, char **text)
{
    char reason[REGULAR_REASON];
    FILE *file = regular_open(path, "r", "a file of settings", reason);
    if (!file)
        return status_fail(errno ? STATUS_USAGE : STATUS_DATA,
                           "%s: %s: %s; give a preset's name or the path of a .json file",
                           source, path, reason);
    *text = calloc(1, PRESET_FILE_BYTES_MAX + 1);
    CHECK_MEMORY(*text, "a preset");
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
    CHECK_MEMORY(stem, "the name of a preset");
    stem[strlen(stem) - strlen(".json")] = '\0';
    enum status status = config_set(config, "preset", stem, "--preset");
    free(stem);
    return status;
}

/* ---- a preset on the base of another ---------------------------------------------- */

/* A preset that is being applied, and the file that named it as its base. */
struct link {
    const char *name;         // of an embedded one, or a path
    const struct link *above; // NULL: named by --preset
};

static enum status apply(struct config *config, const struct link *link,
                         struct config_origins *origins);

// "--preset", or `preset my.json: "preset"`: where the name of a preset stands.
static const char *naming_place(const struct link *link, char text[CONFIG_TEXT + 32])
{
    if (link->above)
        snprintf(text, CONFIG_TEXT + 32, "preset %.*s: \"preset\"", CONFIG_TEXT,
                 link->above->name);
    else
        snprintf(text, CONFIG_TEXT + 32, "--preset");
    return text;
}

// "preset dcgan64", or "preset dcgan64, the base of my.json".
static const char *origin_of(const struct link *link, char text[ORIGIN_TEXT])
{
    const char *slash = link->above ? strrchr(link->above->name, '/') : NULL;
    if (link->above)
        snprintf(text, ORIGIN_TEXT, "preset %.30s, the base of %.40s", link->name,
                 slash ? slash + 1 : link->above->name);
    else
        snprintf(text, ORIGIN_TEXT, "preset %.80s", link->name);
    return text;
}

static enum status check_chain(const struct link *link)
{
    int depth = 1;
    for (const struct link *one = link->above; one; one = one->above, depth++)
        if (strcmp(one->name, link->name) == 0)
            return status_fail(
                STATUS_DATA,
                "preset %s: \"preset\" leads back to %s, so that neither "
                "has a base to begin with; take it out of one of the files",
                link->above->name, link->name);
    if (depth <= BASES_MAX)
        return STATUS_OK;
    return status_fail(
        STATUS_DATA,
        "preset %s: is the base of a base, %d times over, and at most %d are "
        "read; write their settings into one file",
        link->name, depth - 1, BASES_MAX - 1);
}

// A path is as seen from the file that names it.
static enum status apply_base(struct config *config, const struct link *above,
                              const char *base, struct config_origins *origins)
{
    char path[2 * CONFIG_TEXT];
    const char *slash = strrchr(above->name, '/');
    int is_beside = has_json_ending(base) && base[0] != '/' && slash;
    snprintf(path, sizeof path, "%.*s%s", is_beside ? (int)(slash + 1 - above->name) : 0,
             above->name, base);
    struct link link = {.name = path, .above = above};
    TRY(check_chain(&link));
    return apply(config, &link, origins);
}

static enum status apply_file(struct config *config, const struct link *link,
                              struct config_origins *origins)
{
    char *json, source[CONFIG_TEXT + 8], place[CONFIG_TEXT + 32], origin[ORIGIN_TEXT];
    TRY(read_file(link->name, naming_place(link, place), &json));
    snprintf(source, sizeof source, "preset %.*s", CONFIG_TEXT, link->name);
    char *base = config_json_base(json);
    enum status status = STATUS_OK;
    if (base)
        status = apply_base(config, link, base, origins);
    // The name comes first: an options.json, which names its own preset, then keeps that.
    if (status == STATUS_OK)
        status = set_name_from_path(config, link->name);
    if (status == STATUS_OK)
        status =
            config_from_json_as(config, json, source, origin_of(link, origin), origins);
    if (status == STATUS_OK && base)
        status = set_name_from_path(config, link->name);
    free(base);
    free(json);
    return status;
}

static enum status apply_embedded(struct config *config, const struct link *link,
                                  struct config_origins *origins)
{
    char place[CONFIG_TEXT + 32], origin[ORIGIN_TEXT];
    for (int i = 0; i < embedded_preset_count; i++) {
        if (strcmp(embedded_presets[i].name, link->name) != 0)
            continue;
        TRY(config_set(config, "preset", link->name, "--preset"));
        origin_of(link, origin);
        return config_from_json_as(config, embedded_presets[i].json, origin, origin,
                                   origins);
    }
    return unknown_preset(link->name, naming_place(link, place));
}

static enum status apply(struct config *config, const struct link *link,
                         struct config_origins *origins)
{
    return has_json_ending(link->name) ? apply_file(config, link, origins)
                                       : apply_embedded(config, link, origins);
}

enum status preset_apply(struct config *config, const char *name,
                         struct config_origins *origins)
{
    struct config changed = *config;
    struct link link = {.name = name};
    TRY(apply(&changed, &link, origins));
    // A preset says how to run. What to resume, and whether only to try, is not its to
    // say.
    memcpy(changed.resume, config->resume, sizeof changed.resume);
    changed.dry_run = config->dry_run;
    changed.show_config = config->show_config;
    *config = changed;
    return STATUS_OK;
}

enum status config_apply_preset(struct config *config, const char *name)
{
    return preset_apply(config, name, NULL);
}
