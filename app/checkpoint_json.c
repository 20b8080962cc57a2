#include "app/checkpoint_json.h"

#include <inttypes.h>
#include <stdio.h>

json_t *checkpoint_scaler_json(const struct grad_scaler_saved *saved)
{
    json_t *json = json_pack(
        "{s:f, s:f, s:f, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "scale",
        saved->scale, "growth_factor", saved->growth_factor, "backoff_factor",
        saved->backoff_factor, "growth_interval", (json_int_t)saved->growth_interval,
        "_growth_tracker", (json_int_t)saved->growth_tracker, "enabled", saved->enabled,
        "adam_t", (json_int_t)saved->adam_t, "updates", (json_int_t)saved->updates,
        "skipped", (json_int_t)saved->skipped, "skipped_in_a_row",
        (json_int_t)saved->skipped_in_a_row, "growths", (json_int_t)saved->growths,
        "backoffs", (json_int_t)saved->backoffs);
    json_t *beyond = json_pack(
        "{s:I, s:I, s:I, s:I}", "hysteresis_used", (json_int_t)saved->hysteresis_used,
        "growth_wait", (json_int_t)saved->growth_wait, "steps_since_rescale",
        (json_int_t)saved->steps_since_rescale, "overflows_since_rescale",
        (json_int_t)saved->overflows_since_rescale);
    CHECK(json && beyond && json_object_update(json, beyond) == 0,
          "a scaler could not be written as JSON");
    json_decref(beyond);
    // Only where scalers hold each other back: elsewhere a snapshot is what it was before.
    if (saved->held || saved->is_held)
        CHECK(json_object_set_new(json, "held", json_integer(saved->held)) == 0 &&
              json_object_set_new(json, "is_held", json_boolean(saved->is_held)) == 0);
    return json;
}

// What checkpoints of earlier releases do not have reads as 0: nothing counted yet.
static int unpack_beyond(json_t *json, json_error_t *error,
                         struct grad_scaler_saved *saved)
{
    json_int_t used = 0, wait = 0, steps = 0, overflows = 0, held = 0;
    int is_held = 0;
    int failed = json_unpack_ex(json, error, 0, "{s?I, s?I, s?I, s?I, s?I, s?b}",
                                "hysteresis_used", &used, "growth_wait", &wait,
                                "steps_since_rescale", &steps, "overflows_since_rescale",
                                &overflows, "held", &held, "is_held", &is_held);
    saved->held = held;
    saved->is_held = is_held;
    saved->hysteresis_used = used;
    saved->growth_wait = wait;
    saved->steps_since_rescale = steps;
    saved->overflows_since_rescale = overflows;
    return failed;
}

enum status checkpoint_scaler_from_json(json_t *json, const char *path,
                                        struct grad_scaler_saved *saved)
{
    json_int_t interval, tracker, adam_t, updates, skipped, in_a_row, growths, backoffs;
    json_error_t error;
    if (json_unpack_ex(json, &error, 0,
                       "{s:F, s:F, s:F, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I}",
                       "scale", &saved->scale, "growth_factor", &saved->growth_factor,
                       "backoff_factor", &saved->backoff_factor, "growth_interval",
                       &interval, "_growth_tracker", &tracker, "enabled", &saved->enabled,
                       "adam_t", &adam_t, "updates", &updates, "skipped", &skipped,
                       "skipped_in_a_row", &in_a_row, "growths", &growths, "backoffs",
                       &backoffs) ||
        unpack_beyond(json, &error, saved))
        return status_fail(STATUS_DATA, "%s: its scaler state cannot be read: %s", path,
                           error.text);
    saved->growth_interval = interval;
    saved->growth_tracker = tracker;
    saved->adam_t = adam_t;
    saved->updates = updates;
    saved->skipped = skipped;
    saved->skipped_in_a_row = in_a_row;
    saved->growths = growths;
    saved->backoffs = backoffs;
    return STATUS_OK;
}

static char *dump(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(json);
    CHECK(text, "a JSON value could not be written");
    return text;
}

char *checkpoint_state_json(const struct trainer *trainer)
{
    struct grad_scaler_saved g = grad_scaler_save(&trainer->player[NETWORK_G].scaler);
    struct grad_scaler_saved d = grad_scaler_save(&trainer->player[NETWORK_D].scaler);
    json_t *state =
        json_pack("{s:I, s:I, s:o, s:o}", "step", (json_int_t)trainer->progress.step,
                  "images", (json_int_t)trainer->progress.images, "scaler_g",
                  checkpoint_scaler_json(&g), "scaler_d", checkpoint_scaler_json(&d));
    // Only where there were some: elsewhere a snapshot is what it was before.
    if (trainer->progress.rollbacks)
        CHECK(json_object_set_new(state, "rollbacks",
                                  json_integer(trainer->progress.rollbacks)) == 0);
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS) {
        struct grad_scaler_saved fake = grad_scaler_save(&trainer->topology.fake);
        CHECK(json_object_set_new(state, "scaler_d_fake",
                                  checkpoint_scaler_json(&fake)) == 0);
    }
    return dump(state);
}

char *checkpoint_data_json(const struct dataset *dataset)
{
    char digest[20];
    snprintf(digest, sizeof digest, "%016" PRIx64, dataset->digest);
    return dump(json_pack("{s:s, s:I, s:s}", "name", dataset->name, "count",
                          (json_int_t)dataset->count, "digest", digest));
}
