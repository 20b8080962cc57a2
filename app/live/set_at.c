#include "app/live/set_at.h"

#include <stdio.h>
#include <string.h>

#include "app/config/number.h"

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

static enum status refuse_past(const struct timed_change *change, int64_t images)
{
    char kimg[NUMBER_TEXT];
    return status_fail(STATUS_USAGE,
                       "--set-at: %s kimg has passed, the run is at %.4g; give a later "
                       "kimg, or change a run that goes on with twinscale ctl",
                       number_text(change->kimg, kimg), (double)images / 1000.0);
}

static enum status refuse_request(const struct timed_change *change)
{
    char kimg[NUMBER_TEXT], reason[1024], words[CONFIG_TEXT];
    snprintf(reason, sizeof reason, "%s", status_message());
    return status_fail(STATUS_USAGE, "%s (in --set-at %s:%s)", reason,
                       number_text(change->kimg, kimg),
                       set_at_words(change->request, words));
}

const char *set_at_words(const char *request, char words[CONFIG_TEXT])
{
    snprintf(words, CONFIG_TEXT, "%s", request);
    for (char *end = words; (end = strchr(end, '\n'));)
        *end = ',';
    return words;
}

enum status set_at_open(struct set_at *set_at, const struct config *config,
                        const struct config *saved, int64_t images)
{
    struct config now = *config, was = saved ? *saved : *config;
    struct timed_change before[SET_AT_MAX];
    int count = 0;
    set_at->made_count = 0;
    set_at->step_images = config_step_images(config);
    TRY(config_read_set_at(config->set_at, set_at->change, &set_at->count));
    if (saved)
        TRY(config_read_set_at(saved->set_at, before, &count));
    for (int i = 0; i < set_at->count; i++) {
        const struct timed_change *change = &set_at->change[i];
        int is_new = !is_in(before, count, change);
        if (is_past(set_at, i, images)) {
            if (is_new)
                return refuse_past(change, images);
            continue;
        }
        int was_possible = change_check(&was, change->request, "--set-at") == STATUS_OK;
        if (change_check(&now, change->request, "--set-at") != STATUS_OK &&
            (is_new || was_possible))
            return refuse_request(change);
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
    CHECK(set_at->made_count < SET_AT_MAX, "%d changes", set_at->made_count);
    char *undo = set_at->made[set_at->made_count].undo;
    size_t used = 0, bytes = sizeof set_at->made->undo;
    for (int i = 0; i < changes->count; i++) {
        const struct change *change = &changes->of[i];
        if (change_is_of_scale(change) || strcmp(change->before, change->after) == 0)
            continue;
        used += (size_t)snprintf(undo + used, bytes - used, "%s%s=%s", used ? "\n" : "",
                                 change->key, change->before);
        CHECK(used < bytes, "no room for %s", change->key);
    }
    if (used == 0)
        return;
    set_at->made[set_at->made_count].images = images;
    set_at->made_count += 1;
}

const char *set_at_undo(struct set_at *set_at, int64_t images)
{
    if (set_at->made_count == 0 || set_at->made[set_at->made_count - 1].images < images)
        return NULL;
    set_at->made_count -= 1;
    return set_at->made[set_at->made_count].undo;
}
