/* history_recall.c - merges the two logs by step: events tell when a scale changed, ticks
 * tell losses and norms. */
#include "app/view/history_recall.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/view/history_note.h"
#include "app/files/json_lines.h"
#include "app/record/rollbacks.h"

struct change {
    int64_t step;
    double kimg;
    int scale; // whose: ROLE_G, ROLE_D, SCALE_D_FAKE
    int is_skip, is_held, is_change;
    float before, after;
};

struct tick_facts {
    int64_t step;
    double kimg;
    float loss[ROLES], norm[ROLES], clipped[ROLES];
    float scale[SCALE_COUNT];
};

struct logs {
    struct history *history;
    struct rollbacks rollbacks;
    struct change *changes;
    struct tick_facts *ticks;
    size_t change_count, tick_count;
    int64_t next_tick; // also of ticks that were given up: no two have one number
};

/* ---- reading --------------------------------------------------------------------- */

// NaN where there is no number: a loss that was not finite.
static double number_of(json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

static double mean_of(json_t *tick, const char *key)
{
    return number_of(json_object_get(tick, key), "mean");
}

static void push_change(struct logs *logs, const struct change *change)
{
    if (change->step < 1 || !isfinite(change->after))
        return;
    logs->changes =
        realloc(logs->changes, (logs->change_count + 1) * sizeof *logs->changes);
    CHECK_MEMORY(logs->changes, "%zu events", logs->change_count);
    logs->changes[logs->change_count++] = *change;
}

// The scales that the run went on with, where the event tells them: of all networks.
static void add_scales(struct logs *logs, json_t *event, struct change change)
{
    static const char *const keys[SCALE_COUNT] = {"scale_g", "scale_d", "scale_d_fake"};
    for (change.scale = 0; change.scale < SCALE_COUNT; change.scale++) {
        change.after = (float)number_of(event, keys[change.scale]);
        push_change(logs, &change);
    }
}

// A skip of D may be that of one of its losses, or of both; a growth tells of its own
// loss.
static void add_scale_event(struct logs *logs, json_t *event, struct change change)
{
    const char *loss = json_string_value(json_object_get(event, "loss"));
    int by_fake = loss && (!strcmp(loss, "fakes") || !strcmp(loss, "both"));
    int is_skip = change.is_skip;
    change.is_skip = is_skip && (!loss || strcmp(loss, "fakes") != 0);
    push_change(logs, &change);
    change.is_skip = is_skip && by_fake;
    change.scale = SCALE_D_FAKE;
    change.before = (float)number_of(event, "fake_scale_before");
    change.after = (float)number_of(event, "fake_scale_after");
    push_change(logs, &change);
}

static void add_event(void *context, json_t *event)
{
    struct logs *logs = context;
    const char *word = json_string_value(json_object_get(event, "event"));
    const char *net = json_string_value(json_object_get(event, "net"));
    int64_t step = json_whole_number(number_of(event, "step"));
    struct history_note note;
    if (rollbacks_gave_up(&logs->rollbacks, event))
        return;
    if (history_note_of(event, &note))
        history_add_note(logs->history, &note);
    if (!word || !net || step < 1)
        return;
    struct change change = {.step = step,
                            .kimg = number_of(event, "kimg"),
                            .scale = net[0] == 'G' ? ROLE_G : ROLE_D,
                            .is_skip = strcmp(word, "skip") == 0,
                            .is_held = strcmp(word, "held") == 0,
                            .is_change = strcmp(word, "change") == 0 ||
                                         strcmp(word, "fp32_layer") == 0,
                            .before = (float)number_of(event, "scale_before"),
                            .after = (float)number_of(event, "scale_after")};
    add_scale_event(logs, event, change);
    change.is_skip = change.is_held = change.is_change = 0;
    change.before = NAN;
    add_scales(logs, event, change);
}

static void add_tick(void *context, json_t *tick)
{
    struct logs *logs = context;
    int64_t step = json_whole_number(mean_of(tick, "Progress/step"));
    int64_t number = json_whole_number(mean_of(tick, "Progress/tick"));
    if (step < 1)
        return;
    if (number >= logs->next_tick)
        logs->next_tick = number + 1;
    if (rollbacks_gave_up(&logs->rollbacks, tick))
        return;
    logs->ticks = realloc(logs->ticks, (logs->tick_count + 1) * sizeof *logs->ticks);
    CHECK_MEMORY(logs->ticks, "%zu ticks", logs->tick_count);
    logs->ticks[logs->tick_count++] = (struct tick_facts){
        .step = step,
        .kimg = mean_of(tick, "Progress/kimg"),
        .loss = {(float)mean_of(tick, "Loss/G/loss"),
                 (float)mean_of(tick, "Loss/D/loss")},
        .norm = {(float)mean_of(tick, "Grad/G_norm"),
                 (float)mean_of(tick, "Grad/D_norm")},
        .clipped = {(float)mean_of(tick, "Grad/G_clipped"),
                    (float)mean_of(tick, "Grad/D_clipped")},
        .scale = {(float)mean_of(tick, "Scale/G"), (float)mean_of(tick, "Scale/D"),
                  (float)mean_of(tick, "Scale/D_fake")}};
}

/* ---- merging --------------------------------------------------------------------- */

// Before its first change a scale is what that change found; without any, what ticks say.
static void first_scales(const struct logs *logs, float scale[SCALE_COUNT])
{
    for (int s = 0; s < SCALE_COUNT; s++) {
        scale[s] = logs->tick_count ? logs->ticks[0].scale[s] : 1.0f;
        for (size_t i = logs->change_count; i-- > 0;)
            if (logs->changes[i].scale == s && isfinite(logs->changes[i].before))
                scale[s] = logs->changes[i].before;
    }
}

static struct history_point point_of(const struct tick_facts *tick, int64_t step,
                                     double kimg, const float scale[SCALE_COUNT])
{
    struct history_point point = {.step = step, .kimg = kimg};
    memcpy(point.scale, scale, sizeof point.scale);
    memcpy(point.loss, tick->loss, sizeof point.loss);
    return point;
}

// Of the tick as a whole, so once.
static void add_norms(struct history_point *point, const struct tick_facts *tick)
{
    for (int network = 0; network < ROLES; network++) {
        point->grad_norm[network] =
            isfinite(tick->norm[network]) ? tick->norm[network] : 0.0f;
        point->clipped[network] = tick->clipped[network] > 0.0f;
    }
}

// The changes from `next` on that were in one step; returns the first after them.
static size_t merge_step(const struct logs *logs, size_t next, float scale[SCALE_COUNT],
                         const struct tick_facts *tick, struct history_point *point)
{
    int64_t step = logs->changes[next].step;
    *point = point_of(tick, step, logs->changes[next].kimg, scale);
    for (; next < logs->change_count && logs->changes[next].step == step; next++) {
        const struct change *change = &logs->changes[next];
        scale[change->scale] = change->after;
        point->skipped[change->scale] += (uint8_t)change->is_skip;
        if (change->scale == SCALE_D_FAKE)
            continue;
        point->held[change->scale] += (uint8_t)change->is_held;
        point->changed[change->scale] |= (uint8_t)change->is_change;
    }
    memcpy(point->scale, scale, sizeof point->scale);
    return next;
}

static void merge(const struct logs *logs, struct history *history)
{
    float scale[SCALE_COUNT];
    size_t next = 0;
    first_scales(logs, scale);
    for (size_t i = 0; i < logs->tick_count; i++) {
        const struct tick_facts *tick = &logs->ticks[i];
        struct history_point point = {0};
        while (next < logs->change_count && logs->changes[next].step <= tick->step) {
            next = merge_step(logs, next, scale, tick, &point);
            if (point.step == tick->step)
                break;
            history_add(history, &point);
        }
        // A change may have made the point at the tick's own step.
        if (point.step != tick->step)
            point = point_of(tick, tick->step, tick->kimg, scale);
        add_norms(&point, tick);
        history_add(history, &point);
    }
}

int64_t history_recall(struct history *history, const char *stats_path,
                       const char *events_path)
{
    struct logs logs = {.history = history};
    rollbacks_read(&logs.rollbacks, events_path);
    json_lines_read(stats_path, add_tick, &logs);
    json_lines_read(events_path, add_event, &logs);
    merge(&logs, history);
    rollbacks_release(&logs.rollbacks);
    free(logs.changes);
    free(logs.ticks);
    return logs.next_tick;
}
