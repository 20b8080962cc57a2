/* config_parse.c - train's arguments: the preset first, then every flag in order.
 *   --name value   --name=value   --switch   --no-switch   --switch=0   PATH   --
 * A flag that is given twice counts as it was given last, so that a script can pass its
 * own flags and then its caller's. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "app/config/config_table.h"
#include "app/config/nearest.h"

struct reader {
    int argc, next;
    char **argv;
    int flags_ended; // after "--"
};

/* One setting from the command line; setting is NULL for a bare word. */
struct argument {
    const struct setting *setting;
    char flag[SETTING_SUBJECT - 32]; // as it was written
    const char *value;
};

static int is_flag(const struct reader *reader, const char *word)
{
    return !reader->flags_ended && word[0] == '-' && word[1] != '\0';
}

static int is_switch_word(const char *word)
{
    return strcmp(word, "0") == 0 || strcmp(word, "1") == 0;
}

/* The value of a flag without "=". A switch takes a following 0 or 1 only, so that
 * `--mirror photos` leaves photos alone. */
static enum status read_value(struct reader *reader, struct argument *argument)
{
    const char *following =
        reader->next < reader->argc ? reader->argv[reader->next] : NULL;
    if (argument->setting->kind == SETTING_SWITCH) {
        argument->value = "1";
        if (following && is_switch_word(following)) {
            argument->value = following;
            reader->next++;
        }
        return STATUS_OK;
    }
    if (!following || strncmp(following, "--", 2) == 0) {
        char allowed[ALLOWED_TEXT];
        return status_fail(STATUS_USAGE, "%s: its value is missing; give %s",
                           argument->flag, setting_allowed(argument->setting, allowed));
    }
    argument->value = following;
    reader->next++;
    return STATUS_OK;
}

/* "--no-mirror" is mirror=0. */
static const struct setting *find_negated(const char *name)
{
    if (strncmp(name, "no-", 3) != 0)
        return NULL;
    const struct setting *setting = setting_find(name + 3);
    return setting && setting->kind == SETTING_SWITCH ? setting : NULL;
}

static enum status read_flag(struct reader *reader, struct argument *argument,
                             const char *word)
{
    size_t length = strcspn(word, "=");
    snprintf(argument->flag, sizeof argument->flag, "%.*s", (int)length, word);
    if (strcmp(argument->flag, "-n") == 0)
        snprintf(argument->flag, sizeof argument->flag, "--dry-run");
    if (strncmp(argument->flag, "--", 2) != 0)
        return status_fail(
            STATUS_USAGE,
            "%s: there is no such short flag; there are -n (--dry-run) and "
            "-h (--help)",
            argument->flag);

    const char *name = argument->flag + 2;
    const char *given = word[length] == '=' ? word + length + 1 : NULL;
    const struct setting *negated = find_negated(name);
    argument->setting = negated ? negated : setting_find(name);
    if (!argument->setting)
        return setting_unknown(name, argument->flag);
    if (negated && given)
        return status_fail(STATUS_USAGE, "%s: takes no value, and \"%s\" was given",
                           argument->flag, given);
    if (negated)
        argument->value = "0";
    else if (given)
        argument->value = given;
    else
        TRY(read_value(reader, argument));
    return STATUS_OK;
}

/* An empty path or name is mostly a variable of a script that is not set: taken for "not
 * given", `--resume "$RUN"` would begin a new run. */
static enum status check_not_empty(const struct argument *argument)
{
    static const char *const units[] = {"PATH", "NAME", "FOLDER", "RUN"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!argument->value[0] && strcmp(argument->setting->unit, units[i]) == 0)
            return status_fail(
                STATUS_USAGE, "%s: is empty, %s was expected; see twinscale train --help",
                argument->flag, units[i]);
    return STATUS_OK;
}

/* Reads the next argument; only while reader->next < reader->argc. At the end after a
 * "--", argument->value is NULL. */
static enum status read_argument(struct reader *reader, struct argument *argument)
{
    const char *word = reader->argv[reader->next++];
    *argument = (struct argument){0};
    if (!reader->flags_ended && strcmp(word, "--") == 0) {
        reader->flags_ended = 1;
        return STATUS_OK;
    }
    if (is_flag(reader, word)) {
        TRY(read_flag(reader, argument, word));
        return check_not_empty(argument);
    }
    argument->value = word;
    return STATUS_OK;
}

/* The last --preset, or NULL. */
static enum status find_preset(int argc, char **argv, const char **name)
{
    struct reader reader = {.argc = argc, .argv = argv};
    *name = NULL;
    while (reader.next < argc) {
        struct argument argument;
        TRY(read_argument(&reader, &argument));
        if (argument.setting && strcmp(argument.setting->name, "preset") == 0)
            *name = argument.value;
    }
    return STATUS_OK;
}

/* `train fmnist-quick`: a preset's name, or nearly, where no such file is. */
static enum status check_bare_word(const char *word)
{
    const char *names[CONFIG_SETTINGS_MAX];
    struct stat facts;
    CHECK(embedded_preset_count <= CONFIG_SETTINGS_MAX);
    for (int i = 0; i < embedded_preset_count; i++)
        names[i] = embedded_presets[i].name;
    const char *nearest = nearest_word(word, names, embedded_preset_count);
    if (!nearest || stat(word, &facts) == 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "%s: a word without a flag is the data set, and there is no such "
                       "file; did you mean --preset %s?",
                       word, nearest);
}

/* A bare word is the data set, once. */
static enum status set_bare_word(struct config *config, const char *word,
                                 const char **earlier_data)
{
    if (*earlier_data)
        return status_fail(
            STATUS_USAGE,
            "%s: a word without a flag is the data set, which is \"%s\" already; give "
            "one, and settings with --",
            word, *earlier_data);
    if (!word[0])
        return status_fail(STATUS_USAGE,
                           "an argument is empty, PATH or a setting was expected; see "
                           "twinscale train --help");
    *earlier_data = word;
    TRY(check_bare_word(word));
    return config_set(config, "data", word, "--data");
}

static int asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return 1;
    return 0;
}

static enum status read_arguments(struct config *config, int argc, char **argv,
                                  struct config_origins *origins)
{
    const char *data = NULL;
    struct reader reader = {.argc = argc, .argv = argv};
    while (reader.next < argc) {
        struct argument argument;
        TRY(read_argument(&reader, &argument));
        if (!argument.value)
            continue;
        if (!argument.setting) {
            TRY(set_bare_word(config, argument.value, &data));
            config_origin_set(origins, "data", ORIGIN_FLAG);
            continue;
        }
        config_origin_record(origins, argument.setting, argument.value, ORIGIN_FLAG);
        if (strcmp(argument.setting->name, "preset") == 0)
            continue; // applied already
        TRY(setting_parse(argument.setting, config, argument.value, argument.flag));
        if (strcmp(argument.setting->name, "data") == 0)
            data = argument.value;
    }
    return STATUS_OK;
}

static int is_given(const struct config_origins *origins, const char *name)
{
    return strcmp(config_origin(origins, name), ORIGIN_DEFAULT) != 0;
}

// A fixed scale of 65536, where the rule of the others only begins, suits hardly any run.
static void follow_static(struct config *config, struct config_origins *origins)
{
    struct network_config *const networks[] = {&config->g, &config->d};
    static const char *const names[] = {"g_init_scale", "d_init_scale"};
    for (int i = 0; i < 2; i++)
        if (config->scaler == SCALER_STATIC && !is_given(origins, names[i])) {
            networks[i]->init_scale = 0.0;
            config_origin_set(origins, names[i], "--scaler static");
        }
}

// A preset's channels are those of the data that it was made for.
static void follow_data(struct config *config, const struct config *before,
                        struct config_origins *origins)
{
    int has_preset = strncmp(config_origin(origins, "channels"), "preset ", 7) == 0;
    int has_data = strcmp(config_origin(origins, "data"), ORIGIN_FLAG) == 0;
    if (!has_preset || !has_data)
        return;
    origins->preset_channels = config->channels;
    config->channels = before->channels;
    config_origin_set(origins, "channels", ORIGIN_DATA);
}

enum status config_parse(struct config *config, int argc, char **argv, int *wants_help,
                         struct config_origins *origins)
{
    struct config_origins unasked;
    *wants_help = asks_for_help(argc, argv);
    if (*wants_help)
        return STATUS_OK;
    if (!origins) {
        origins = &unasked;
        config_origins_begin(origins, ORIGIN_DEFAULT);
    }
    const struct config before = *config;
    const char *preset;
    TRY(find_preset(argc, argv, &preset));
    if (preset)
        TRY(preset_apply(config, preset, origins));
    TRY(read_arguments(config, argc, argv, origins));
    follow_static(config, origins);
    follow_data(config, &before, origins);
    return STATUS_OK;
}
