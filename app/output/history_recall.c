#include "app/output/history_recall.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// NaN where the log has no number: a loss that was not finite.
static double mean_of(json_t *tick, const char *key)
{
    json_t *mean = json_object_get(json_object_get(tick, key), "mean");
    return json_is_number(mean) ? json_number_value(mean) : (double)NAN;
}

static void add_tick(struct history *history, json_t *tick, int64_t skipped[NETWORK_COUNT])
{
    static const char *const scale_keys[] = {"Scale/G", "Scale/D"};
    static const char *const loss_keys[] = {"Loss/G/loss", "Loss/D/loss"};
    static const char *const skip_keys[] = {"Scale/G_skipped", "Scale/D_skipped"};
    struct history_point point = {.step = (int64_t)mean_of(tick, "Progress/step"),
                                  .kimg = mean_of(tick, "Progress/kimg")};
    for (int network = 0; network < NETWORK_COUNT; network++) {
        int64_t total = (int64_t)mean_of(tick, skip_keys[network]);
        int64_t now = total - skipped[network];
        skipped[network] = total;
        point.skipped[network] = (uint8_t)(now < 0 ? 0 : now > 255 ? 255 : now);
        point.scale[network] = (float)mean_of(tick, scale_keys[network]);
        point.loss[network] = (float)mean_of(tick, loss_keys[network]);
    }
    history_add(history, &point);
}

int64_t history_recall(struct history *history, const char *stats_path)
{
    FILE *file = fopen(stats_path, "r");
    if (!file)
        return 0;
    char *line = NULL;
    size_t room = 0;
    int64_t next_tick = 0, skipped[NETWORK_COUNT] = {0};
    while (getline(&line, &room, file) > 0) {
        json_t *tick = json_loads(line, 0, NULL);
        double step = mean_of(tick, "Progress/step");
        if (step >= 1.0 && mean_of(tick, "Scale/G_skipped") >= 0.0 &&
            mean_of(tick, "Scale/D_skipped") >= 0.0) {
            add_tick(history, tick, skipped);
            next_tick = (int64_t)mean_of(tick, "Progress/tick") + 1;
        }
        json_decref(tick);
    }
    free(line);
    fclose(file);
    return next_tick;
}
