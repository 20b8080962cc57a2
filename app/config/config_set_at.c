/* config_set_at.c - reads --set-at: settings that change at a kimg. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/config/config_table.h"
#include "app/config/number.h"

static enum status refuse_item(const char *item)
{
    return status_fail(STATUS_USAGE,
                       "--set-at: \"%.60s\" cannot be read; give a kimg and what changes "
                       "there, such as 50:g.lr=1e-4,d.scale=64,100:d.growth_interval=500",
                       item);
}

// "50" of "50:g.lr=1e-4", for changes[*count], which it begins.
static enum status read_kimg(const char *text, struct timed_change *changes, int *count)
{
    struct timed_change *change = &changes[*count];
    char before[NUMBER_TEXT];
    double kimg;
    if (*count == SET_AT_MAX)
        return status_fail(STATUS_USAGE,
                           "--set-at: has more than %d times; join those that are near "
                           "each other",
                           SET_AT_MAX);
    enum number_error error = number_read(text, &kimg);
    if (error != NUMBER_OK || kimg < 0.0 || kimg > setting_find("kimg")->max)
        return status_fail(
            STATUS_USAGE,
            "--set-at: the kimg \"%.60s\" %s; give a number from 0 to that "
            "of --kimg, as in 50:g.lr=1e-4",
            text, number_problem(error));
    if (*count > 0 && kimg <= changes[*count - 1].kimg)
        return status_fail(STATUS_USAGE,
                           "--set-at: %.60s kimg comes after %s; give each kimg once, in "
                           "rising order",
                           text, number_text(changes[*count - 1].kimg, before));
    // A kimg that is a whole number of images is that, however it was rounded.
    *change = (struct timed_change){.kimg = kimg,
                                    .images = (int64_t)ceil(kimg * 1000.0 - 1e-6)};
    *count += 1;
    return STATUS_OK;
}

enum status config_read_set_at(const char *text, struct timed_change changes[SET_AT_MAX],
                               int *count)
{
    char words[CONFIG_TEXT];
    *count = 0;
    snprintf(words, sizeof words, "%s", text);
    char *rest = text[0] ? words : NULL;
    for (char *item; (item = strsep(&rest, ","));) {
        char *colon = strchr(item, ':'), *equals = strchr(item, '=');
        int has_kimg = colon && equals && colon < equals;
        char *setting = has_kimg ? colon + 1 : item;
        if (!equals || equals == setting || (!has_kimg && *count == 0))
            return refuse_item(item);
        if (has_kimg) {
            *colon = '\0';
            TRY(read_kimg(item, changes, count));
        }
        struct timed_change *change = &changes[*count - 1];
        size_t used = strlen(change->request);
        snprintf(change->request + used, sizeof change->request - used, "%s%s",
                 used ? "\n" : "", setting);
    }
    return STATUS_OK;
}
