#include "app/set_at.h"

#include <stdio.h>
#include <string.h>

#include "app/number.h"

// Of those that were given before: --resume may repeat what is past.
static int is_in(const struct timed_change *changes, int count,
                 const struct timed_change *wanted)
{
    for (int i = 0; i < count; i++)
        if (changes[i].images == wanted->images &&
            strcmp(changes[i].request, wanted->request) == 0)
            return 1;
    return 0;
}

static int is_past(const struct set_at *set_at, int index, int64_t images)
{
    return set_at->change[index].images <= images - set_at->step_images;
}

static enum status check_past(const struct set_at *set_at, const struct config *saved,
                              int64_t images)
{
    struct timed_change before[SET_AT_MAX];
    char kimg[NUMBER_TEXT];
    int count = 0;
    if (saved)
        TRY(config_read_set_at(saved->set_at, before, &count));
    for (int i = 0; i < set_at->count; i++)
        if (is_past(set_at, i, images) && !is_in(before, count, &set_at->change[i]))
            return status_fail(STATUS_USAGE,
                               "--set-at: %s kimg has passed, the run is at %.4g; give a "
                               "later kimg, or change a run that goes on with twinscale "
                               "ctl",
                               number_text(set_at->change[i].kimg, kimg),
                               (double)images / 1000.0);
    return STATUS_OK;
}

enum status set_at_open(struct set_at *set_at, const struct config *config,
                        const struct config *saved, int64_t images)
{
    struct config later = *config;
    char kimg[NUMBER_TEXT], reason[1024], request[CONFIG_TEXT];
    set_at->made_count = 0;
    set_at->step_images = config_step_images(config);
    TRY(config_read_set_at(config->set_at, set_at->change, &set_at->count));
    TRY(check_past(set_at, saved, images));
    for (int i = 0; i < set_at->count; i++) {
        const struct timed_change *change = &set_at->change[i];
        if (is_past(set_at, i, images) ||
            change_check(&later, change->request, "--set-at") == STATUS_OK)
            continue;
        snprintf(reason, sizeof reason, "%s", status_message());
        snprintf(request, sizeof request, "%s", change->request);
        for (char *end = request; (end = strchr(end, '\n'));)
            *end = ',';
        return status_fail(STATUS_USAGE, "%s (in --set-at %s:%s)", reason,
                           number_text(change->kimg, kimg), request);
    }
    return STATUS_OK;
}

int set_at_next(const struct set_at *set_at, int64_t images, int previous)
{
    for (int i = previous + 1; i < set_at->count; i++)
        if (set_at->change[i].images <= images && !is_past(set_at, i, images))
            return i;
    return -1;
}

void set_at_made(struct set_at *set_at, const struct changes *changes, int64_t images)
{
    for (int i = 0; i < changes->count; i++) {
        const struct change *change = &changes->of[i];
        if (change_is_of_scale(change) || strcmp(change->before, change->after) == 0)
            continue;
        CHECK(set_at->made_count < SET_AT_MADE, "%d changes", set_at->made_count);
        set_at->made[set_at->made_count].images = images;
        snprintf(set_at->made[set_at->made_count].undo,
                 sizeof set_at->made[set_at->made_count].undo, "%s=%s", change->key,
                 change->before);
        set_at->made_count += 1;
    }
}

const char *set_at_undo(struct set_at *set_at, int64_t images)
{
    if (set_at->made_count == 0 || set_at->made[set_at->made_count - 1].images < images)
        return NULL;
    set_at->made_count -= 1;
    return set_at->made[set_at->made_count].undo;
}
