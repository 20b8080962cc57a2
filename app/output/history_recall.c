/* history_recall.c - merges the two logs by step: events tell when a scale changed, ticks
 * tell the losses. */
#include "app/output/history_recall.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/output/json_lines.h"
#include "app/output/rollbacks.h"

struct change {
    int64_t step;
    double kimg;
    int network, is_skip, is_change;
    float before, after;
};

struct tick_facts {
    int64_t step;
    double kimg;
    float loss[NETWORK_COUNT], scale[NETWORK_COUNT];
};

struct logs {
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
    CHECK(logs->changes, "no memory for %zu events", logs->change_count);
    logs->changes[logs->change_count++] = *change;
}

// The scales that both networks went on with.
static void add_rollback(struct logs *logs, json_t *event, struct change change)
{
    static const char *const keys[NETWORK_COUNT] = {"scale_g", "scale_d"};
    for (int network = 0; network < NETWORK_COUNT; network++) {
        change.network = network;
        change.after = (float)number_of(event, keys[network]);
        push_change(logs, &change);
    }
}

static void add_event(void *context, json_t *event)
{
    struct logs *logs = context;
    const char *word = json_string_value(json_object_get(event, "event"));
    const char *net = json_string_value(json_object_get(event, "net"));
    double step = number_of(event, "step");
    if (!word || !net || !(step >= 1.0) || rollbacks_gave_up(&logs->rollbacks, event))
        return;
    struct change change = {.step = (int64_t)step,
                            .kimg = number_of(event, "kimg"),
                            .network = net[0] == 'G' ? NETWORK_G : NETWORK_D,
                            .is_skip = strcmp(word, "skip") == 0,
                            .is_change = strcmp(word, "change") == 0 ||
                                         strcmp(word, "fp32_layer") == 0,
                            .before = (float)number_of(event, "scale_before"),
                            .after = (float)number_of(event, "scale_after")};
    if (strcmp(word, "rollback") == 0)
        add_rollback(logs, event, change);
    else
        push_change(logs, &change);
}

static void add_tick(void *context, json_t *tick)
{
    struct logs *logs = context;
    double step = mean_of(tick, "Progress/step");
    if (!(step >= 1.0))
        return;
    logs->next_tick = (int64_t)mean_of(tick, "Progress/tick") + 1;
    if (rollbacks_gave_up(&logs->rollbacks, tick))
        return;
    logs->ticks = realloc(logs->ticks, (logs->tick_count + 1) * sizeof *logs->ticks);
    CHECK(logs->ticks, "no memory for %zu ticks", logs->tick_count);
    logs->ticks[logs->tick_count++] = (struct tick_facts){
        .step = (int64_t)step,
        .kimg = mean_of(tick, "Progress/kimg"),
        .loss = {(float)mean_of(tick, "Loss/G/loss"),
                 (float)mean_of(tick, "Loss/D/loss")},
        .scale = {(float)mean_of(tick, "Scale/G"), (float)mean_of(tick, "Scale/D")}};
}

/* ---- merging --------------------------------------------------------------------- */

// Before its first change a scale is what that change found; without any, what ticks say.
static void first_scales(const struct logs *logs, float scale[NETWORK_COUNT])
{
    for (int network = 0; network < NETWORK_COUNT; network++) {
        scale[network] = logs->tick_count ? logs->ticks[0].scale[network] : 1.0f;
        for (size_t i = logs->change_count; i-- > 0;)
            if (logs->changes[i].network == network && isfinite(logs->changes[i].before))
                scale[network] = logs->changes[i].before;
    }
}

static struct history_point point_of(const struct tick_facts *tick, int64_t step,
                                     double kimg, const float scale[NETWORK_COUNT])
{
    struct history_point point = {.step = step, .kimg = kimg};
    for (int network = 0; network < NETWORK_COUNT; network++) {
        point.loss[network] = tick->loss[network];
        point.scale[network] = scale[network];
    }
    return point;
}

static void merge(const struct logs *logs, struct history *history)
{
    float scale[NETWORK_COUNT];
    size_t next = 0;
    first_scales(logs, scale);
    for (size_t i = 0; i < logs->tick_count; i++) {
        const struct tick_facts *tick = &logs->ticks[i];
        int is_covered = 0; // a change has made a point at the tick's own step
        while (next < logs->change_count && logs->changes[next].step <= tick->step) {
            int64_t step = logs->changes[next].step;
            double kimg = logs->changes[next].kimg;
            uint8_t skipped[NETWORK_COUNT] = {0}, changed[NETWORK_COUNT] = {0};
            for (; next < logs->change_count && logs->changes[next].step == step;
                 next++) {
                scale[logs->changes[next].network] = logs->changes[next].after;
                skipped[logs->changes[next].network] +=
                    (uint8_t)logs->changes[next].is_skip;
                changed[logs->changes[next].network] |=
                    (uint8_t)logs->changes[next].is_change;
            }
            struct history_point point = point_of(tick, step, kimg, scale);
            memcpy(point.skipped, skipped, sizeof skipped);
            memcpy(point.changed, changed, sizeof changed);
            history_add(history, &point);
            is_covered = step == tick->step;
        }
        struct history_point point = point_of(tick, tick->step, tick->kimg, scale);
        if (!is_covered)
            history_add(history, &point);
    }
}

int64_t history_recall(struct history *history, const char *stats_path,
                       const char *events_path)
{
    struct logs logs = {0};
    rollbacks_read(&logs.rollbacks, events_path);
    json_lines_read(stats_path, add_tick, &logs);
    json_lines_read(events_path, add_event, &logs);
    merge(&logs, history);
    rollbacks_release(&logs.rollbacks);
    free(logs.changes);
    free(logs.ticks);
    return logs.next_tick;
}
