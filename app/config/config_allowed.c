/* config_allowed.c - what a setting allows, in words. */
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/number.h"

#define RANGE_TEXT 96

void setting_choices(const struct setting *setting, struct choices *choices)
{
    choices->count = 0;
    snprintf(choices->text, sizeof choices->text, "%s", setting->choices);
    char *rest = choices->text;
    for (char *word; (word = strsep(&rest, "|"));) {
        CHECK(choices->count < CHOICES_MAX, "%s has too many choices", setting->name);
        choices->word[choices->count++] = word;
    }
}

int setting_is_word(const struct setting *setting, const char *text)
{
    if (!setting->choices)
        return 0;
    if (setting->kind == SETTING_INT)
        return strcmp(text, "auto") == 0 && strncmp(setting->choices, "auto|", 5) == 0;
    return setting->kind == SETTING_DOUBLE && strcmp(text, setting->choices) == 0;
}

/* "crop, pad or stretch" */
static void list_choices(const struct setting *setting, char text[ALLOWED_TEXT])
{
    struct choices choices;
    setting_choices(setting, &choices);
    size_t used = 0;
    for (int i = 0; i < choices.count; i++) {
        const char *joint = i == 0 ? "" : i == choices.count - 1 ? " or " : ", ";
        used += (size_t)snprintf(text + used, ALLOWED_TEXT - used, "%s%s", joint,
                                 choices.word[i]);
    }
}

/* "from 1 to 100", "above 0 and at most 1" */
static void range_words(const struct setting *setting, char text[RANGE_TEXT])
{
    char min[NUMBER_TEXT], max[NUMBER_TEXT];
    number_text(setting->min, min);
    number_text(setting->max, max);
    if (!setting->is_min_open)
        snprintf(text, RANGE_TEXT, "from %s to %s", min, max);
    else
        snprintf(text, RANGE_TEXT, "above %s and at most %s", min, max);
}

const char *setting_range(const struct setting *setting, char text[ALLOWED_TEXT])
{
    char range[RANGE_TEXT];
    int is_number = setting->kind <= SETTING_DOUBLE || setting->kind == SETTING_GRID;
    int has_words = setting->choices && setting->kind != SETTING_DOUBLE;
    text[0] = '\0';
    if (!is_number || has_words)
        return text;
    range_words(setting, range);
    snprintf(text, ALLOWED_TEXT, "%s%s", setting->kind == SETTING_GRID ? "each " : "",
             strncmp(range, "from ", 5) == 0 ? range + 5 : range);
    return text;
}

const char *setting_allowed(const struct setting *setting, char text[ALLOWED_TEXT])
{
    char range[RANGE_TEXT];
    int is_number = setting->kind == SETTING_DOUBLE;
    if (setting->choices && !is_number) {
        list_choices(setting, text);
        return text;
    }
    range_words(setting, range);
    switch (setting->kind) {
    case SETTING_DOUBLE:
        snprintf(text, ALLOWED_TEXT, "%s%sa number %s",
                 setting->choices ? setting->choices : "", setting->choices ? " or " : "",
                 range);
        break;
    case SETTING_SWITCH:
        snprintf(text, ALLOWED_TEXT, "1 or 0 (or true, false, yes, no, on, off)");
        break;
    case SETTING_GRID:
        snprintf(text, ALLOWED_TEXT, "columns x rows, such as 8x8, each %s", range);
        break;
    case SETTING_TEXT:
        snprintf(text, ALLOWED_TEXT, "text of at most %zu bytes", setting->bytes - 1);
        break;
    default: snprintf(text, ALLOWED_TEXT, "a whole number %s", range);
    }
    return text;
}
