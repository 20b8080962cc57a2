/* config_value.c - one setting's value: from text, to text, within its range. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/files/file_name.h"
#include "app/config/nearest.h"
#include "app/config/number.h"

static void *field_of(const struct setting *setting, struct config *config)
{
    return (char *)config + setting->offset;
}

static const void *const_field_of(const struct setting *setting,
                                  const struct config *config)
{
    return (const char *)config + setting->offset;
}

const char *setting_subject(const char *name, const char *source,
                            char text[SETTING_SUBJECT])
{
    if (source[0] == '-')
        snprintf(text, SETTING_SUBJECT, "%s", source);
    else
        snprintf(text, SETTING_SUBJECT, "%s: \"%s\"", source, name);
    return text;
}

/* "--batch: "12abc" is not a number; give a whole number from 1 to 8192" */
static enum status refuse(const struct setting *setting, const char *source,
                          const char *value, const char *problem)
{
    char subject[SETTING_SUBJECT], allowed[ALLOWED_TEXT];
    return status_fail(STATUS_USAGE, "%s: \"%s\" %s; give %s",
                       setting_subject(setting->name, source, subject), value, problem,
                       setting_allowed(setting, allowed));
}

// Written so that NaN is outside of every range.
static int is_in_range(const struct setting *setting, double value)
{
    int above = setting->is_min_open ? value > setting->min : value >= setting->min;
    return above && value <= setting->max;
}

/* ---- from text ------------------------------------------------------------------- */

static enum status parse_whole(const struct setting *setting, const char *value,
                               const char *source, int64_t *result)
{
    enum number_error error = number_read_whole(value, result);
    if (error != NUMBER_OK || !is_in_range(setting, (double)*result))
        return refuse(setting, source, value, number_problem(error));
    return STATUS_OK;
}

static int find_choice(const struct choices *choices, const char *value)
{
    for (int i = 0; i < choices->count; i++)
        if (strcmp(choices->word[i], value) == 0)
            return i;
    return -1;
}

static enum status parse_int(const struct setting *setting, const char *value,
                             const char *source, int *field)
{
    int64_t whole;
    if (setting->choices) {
        struct choices choices;
        setting_choices(setting, &choices);
        if (find_choice(&choices, value) < 0)
            return refuse(setting, source, value, "is not possible");
        if (setting_is_word(setting, value))
            value = "0";
        enum number_error error = number_read_whole(value, &whole);
        CHECK(error == NUMBER_OK, "%s has the choice %s", setting->name, value);
    } else {
        TRY(parse_whole(setting, value, source, &whole));
    }
    *field = (int)whole;
    return STATUS_OK;
}

static enum status parse_double(const struct setting *setting, const char *value,
                                const char *source, double *field)
{
    double real;
    if (setting_is_word(setting, value)) {
        *field = 0.0;
        return STATUS_OK;
    }
    enum number_error error = number_read(value, &real);
    int is_zero = error == NUMBER_OK && real == 0.0 && setting_is_word(setting, "0");
    if (error != NUMBER_OK || (!is_zero && !is_in_range(setting, real)))
        return refuse(setting, source, value, number_problem(error));
    *field = is_zero ? 0.0 : real; // without a sign
    return STATUS_OK;
}

static enum status parse_choice(const struct setting *setting, const char *value,
                                const char *source, int *field)
{
    struct choices choices;
    setting_choices(setting, &choices);
    int found = find_choice(&choices, value);
    if (found >= 0) {
        *field = found;
        return STATUS_OK;
    }
    const char *nearest = nearest_word(value, choices.word, choices.count);
    char problem[96] = "is not one of the choices";
    if (nearest)
        snprintf(problem, sizeof problem, "is not one of the choices (did you mean %s?)",
                 nearest);
    return refuse(setting, source, value, problem);
}

/* "static:1024" is static with both networks' init-scale at 1024. */
static enum status parse_static(struct config *config, const char *value,
                                const char *source)
{
    const char *scale = value + strlen("static:");
    struct config changed = *config;
    TRY(setting_parse(setting_find("g_init_scale"), &changed, scale, source));
    TRY(setting_parse(setting_find("d_init_scale"), &changed, scale, source));
    changed.scaler = SCALER_STATIC;
    *config = changed;
    return STATUS_OK;
}

static enum status parse_switch(const struct setting *setting, const char *value,
                                const char *source, int *field)
{
    static const char *const words[] = {"0",  "1",   "false", "true",
                                        "no", "yes", "off",   "on"};
    for (int i = 0; i < 8; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *field = i % 2;
            return STATUS_OK;
        }
    }
    return refuse(setting, source, value, "is neither on nor off");
}

static enum status parse_grid(const struct setting *setting, const char *value,
                              const char *source, int *field)
{
    int64_t sides[2] = {0, 0};
    enum number_error error = number_read_grid(value, sides);
    if (error == NUMBER_NOT_A_NUMBER)
        return refuse(setting, source, value, "is not a grid");
    if (error != NUMBER_OK || !is_in_range(setting, (double)sides[0]) ||
        !is_in_range(setting, (double)sides[1]))
        return refuse(setting, source, value, "is out of range");
    field[0] = (int)sides[0];
    field[1] = (int)sides[1];
    return STATUS_OK;
}

// Text goes into options.json and into snapshots as JSON, which holds nothing but UTF-8.
static enum status parse_text(const struct setting *setting, const char *value,
                              const char *source, char *field)
{
    char subject[SETTING_SUBJECT];
    setting_subject(setting->name, source, subject);
    size_t length = strlen(value);
    if (length >= setting->bytes)
        return status_fail(STATUS_USAGE,
                           "%s: the value has %zu bytes and at most %zu are possible: "
                           "\"%.40s...\"",
                           subject, length, setting->bytes - 1, value);
    for (size_t i = 0; i < length;) {
        size_t character = utf8_length((const unsigned char *)value + i);
        if (character == 0)
            return status_fail(STATUS_USAGE,
                               "%s: byte %zu of the value is not UTF-8 text; rename the "
                               "file, or reach it through a link with a plain name",
                               subject, i + 1);
        i += character;
    }
    memcpy(field, value, length + 1);
    return STATUS_OK;
}

enum status setting_parse(const struct setting *setting, struct config *config,
                          const char *value, const char *source)
{
    void *field = field_of(setting, config);
    if (field == &config->scaler && strncmp(value, "static:", 7) == 0)
        return parse_static(config, value, source);
    switch (setting->kind) {
    case SETTING_INT: return parse_int(setting, value, source, field);
    case SETTING_INT64: return parse_whole(setting, value, source, field);
    case SETTING_DOUBLE: return parse_double(setting, value, source, field);
    case SETTING_CHOICE: return parse_choice(setting, value, source, field);
    case SETTING_SWITCH: return parse_switch(setting, value, source, field);
    case SETTING_GRID: return parse_grid(setting, value, source, field);
    case SETTING_TEXT: return parse_text(setting, value, source, field);
    }
    CHECK(0, "setting %s has no kind", setting->name);
    return STATUS_FAILED;
}

/* ---- to text --------------------------------------------------------------------- */

const char *setting_text(const struct setting *setting, const struct config *config,
                         char text[CONFIG_TEXT])
{
    const void *field = const_field_of(setting, config);
    const int *ints = field;
    char number[NUMBER_TEXT];
    struct choices choices;
    switch (setting->kind) {
    case SETTING_INT:
    case SETTING_SWITCH:
        snprintf(text, CONFIG_TEXT, "%d", *ints);
        if (*ints == 0 && setting_is_word(setting, "auto"))
            snprintf(text, CONFIG_TEXT, "auto");
        break;
    case SETTING_INT64:
        snprintf(text, CONFIG_TEXT, "%" PRId64, *(const int64_t *)field);
        break;
    case SETTING_DOUBLE:
        snprintf(text, CONFIG_TEXT, "%s",
                 setting->choices && *(const double *)field == 0.0
                     ? setting->choices
                     : number_text(*(const double *)field, number));
        break;
    case SETTING_CHOICE:
        setting_choices(setting, &choices);
        CHECK(*ints >= 0 && *ints < choices.count, "%s is %d", setting->name, *ints);
        snprintf(text, CONFIG_TEXT, "%s", choices.word[*ints]);
        break;
    case SETTING_GRID: snprintf(text, CONFIG_TEXT, "%dx%d", ints[0], ints[1]); break;
    case SETTING_TEXT: snprintf(text, CONFIG_TEXT, "%s", (const char *)field); break;
    }
    return text;
}

enum status setting_check(const struct setting *setting, const struct config *config)
{
    char text[CONFIG_TEXT], flag[SETTING_FLAG];
    struct config scratch;
    setting_flag(setting, flag);
    if (setting->kind == SETTING_DOUBLE &&
        !isfinite(*(const double *)const_field_of(setting, config)))
        return refuse(setting, flag, "inf or NaN", "is out of range");
    return setting_parse(setting, &scratch, setting_text(setting, config, text), flag);
}
