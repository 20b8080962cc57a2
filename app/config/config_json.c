/* config_json.c - the config as a JSON object, and back. Nothing else here knows jansson.
 * Keys are the settings' names; keys that begin with "_" are notes for a reader. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/files/json_text.h"
#include "app/config/number.h"

/* ---- to JSON --------------------------------------------------------------------- */

// False without memory.
static int print_string(FILE *stream, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string ? json_text(string, JSON_ENCODE_ANY) : NULL;
    int is_printed = quoted != NULL;
    if (quoted)
        fputs(quoted, stream);
    free(quoted);
    json_decref(string);
    return is_printed;
}

// Written by hand because jansson prints 2e-4 as 0.00020000000000000001.
char *config_to_json(const struct config *config)
{
    char *json = NULL, text[CONFIG_TEXT];
    size_t bytes;
    FILE *stream = open_memstream(&json, &bytes);
    if (!stream)
        return NULL;
    int is_whole = 1;
    fputs("{\n", stream);
    for (int i = 0; i < setting_count; i++) {
        const struct setting *setting = &settings[i];
        fprintf(stream, "  \"%s\": ", setting->name);
        setting_text(setting, config, text);
        if (setting->kind == SETTING_SWITCH)
            fputs(text[0] == '1' ? "true" : "false", stream);
        else if (setting->kind <= SETTING_DOUBLE && !isalpha((unsigned char)text[0]))
            fputs(text, stream);
        else
            is_whole &= print_string(stream, text);
        fputs(i + 1 < setting_count ? ",\n" : "\n", stream);
    }
    fputs("}\n", stream);
    if (fclose(stream) == 0 && is_whole)
        return json;
    free(json);
    return NULL;
}

/* ---- from JSON ------------------------------------------------------------------- */

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

static const char *wanted_type(const struct setting *setting)
{
    if (setting->kind == SETTING_SWITCH)
        return "true or false";
    return setting->kind <= SETTING_DOUBLE ? "a number" : "a string";
}

static enum status set_from_json(struct config *config, const char *name,
                                 const json_t *value, const char *source)
{
    const struct setting *setting = setting_find(name);
    if (!setting)
        return setting_unknown(name, source);
    int is_word =
        json_is_string(value) && setting_is_word(setting, json_string_value(value));
    if (!is_word && strcmp(type_name(value), wanted_type(setting)) != 0)
        return status_fail(STATUS_USAGE, "%s: \"%s\" is %s, expected %s", source,
                           setting->name, type_name(value), wanted_type(setting));

    char number[NUMBER_TEXT];
    const char *text = number;
    if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_boolean(value))
        text = json_is_true(value) ? "1" : "0";
    else if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else
        number_text(json_real_value(value), number);
    return setting_parse(setting, config, text, source);
}

static enum status set_all(struct config *config, json_t *object, const char *source,
                           const char *origin, struct config_origins *origins)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (name[0] == '_')
            continue;
        // What a file holds is data, whatever was wrong with it.
        if (set_from_json(config, name, value, source) != STATUS_OK)
            return status_fail(STATUS_DATA, "%s", status_message());
        const char *text = json_string_value(value);
        config_origin_record(origins, setting_find(name), text ? text : "", origin);
    }
    return STATUS_OK;
}

enum status config_from_json_as(struct config *config, const char *json,
                                const char *source, const char *origin,
                                struct config_origins *origins)
{
    json_error_t error;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return status_fail(STATUS_DATA, "%s: line %d, column %d: not JSON: %s", source,
                           error.line, error.column, error.text);
    struct config changed = *config;
    enum status status = json_is_object(object)
                             ? set_all(&changed, object, source, origin, origins)
                             : status_fail(STATUS_DATA,
                                           "%s: holds %s, expected an object of settings "
                                           "such as {\"batch\": 64}",
                                           source, type_name(object));
    if (status == STATUS_OK)
        *config = changed;
    json_decref(object);
    return status;
}

enum status config_from_json(struct config *config, const char *json, const char *source)
{
    return config_from_json_as(config, json, source, source, NULL);
}

// An options.json holds every setting, and with them those of one call of the program.
char *config_json_base(const char *json)
{
    json_t *object = json_loads(json, 0, NULL);
    const char *base = json_string_value(json_object_get(object, "preset"));
    int is_whole = json_object_get(object, "dry_run") != NULL;
    char *copy = base && base[0] && !is_whole ? strdup(base) : NULL;
    json_decref(object);
    return copy;
}

enum status config_from_saved(struct config *config, const char *json, const char *source)
{
    json_t *object = json_loads(json, 0, NULL), *value;
    enum status status = STATUS_OK;
    const char *name;
    json_object_foreach(object, name, value)
    {
        if (name[0] != '_' && !setting_find(name) && status == STATUS_OK)
            status = status_fail(STATUS_DATA,
                                 "%s: the setting \"%.40s\" is not known to this release "
                                 "(" TWINSCALE_VERSION
                                 "): the file was written by a newer one; use that",
                                 source, name);
    }
    json_decref(object);
    return status == STATUS_OK ? config_from_json(config, json, source) : status;
}

char *config_json_about(const char *json)
{
    json_t *object = json_loads(json, 0, NULL);
    const char *about = json_string_value(json_object_get(object, "_about"));
    char *copy = about ? strdup(about) : NULL;
    json_decref(object);
    return copy;
}
