/* checkpoint_json.c - one table has every field of a scaler: what is written by it is
 * read by it, so that every field that is saved is checked. */
#include "app/record/checkpoint_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/json_text.h"

#define COUNT_MAX ((json_int_t)1 << 53) // a run of that length has no end

enum field_kind { FIELD_WHOLE, FIELD_REAL, FIELD_SWITCH };

/* Whether a file has it. */
enum field_presence {
    FIELD_ALWAYS,
    FIELD_NEWER,  // checkpoints of earlier releases do not: nothing counted yet
    FIELD_IF_HELD // only where scalers hold each other back
};

static const struct field {
    const char *name;
    enum field_kind kind;
    enum field_presence presence;
    size_t offset; // into struct grad_scaler_saved
} scaler_fields[] = {
#define FIELD(name, kind, presence, member)                              \
    {                                                                    \
        name, kind, presence, offsetof(struct grad_scaler_saved, member) \
    }
    FIELD("scale", FIELD_REAL, FIELD_ALWAYS, scale),
    FIELD("growth_factor", FIELD_REAL, FIELD_ALWAYS, growth_factor),
    FIELD("backoff_factor", FIELD_REAL, FIELD_ALWAYS, backoff_factor),
    FIELD("growth_interval", FIELD_WHOLE, FIELD_ALWAYS, growth_interval),
    FIELD("_growth_tracker", FIELD_WHOLE, FIELD_ALWAYS, growth_tracker),
    FIELD("enabled", FIELD_SWITCH, FIELD_ALWAYS, enabled),
#define COUNT(name) FIELD(#name, FIELD_WHOLE, FIELD_ALWAYS, name),
#define TRACK(name) FIELD(#name, FIELD_WHOLE, FIELD_NEWER, name),
#include "scaler/counters.def"
#undef COUNT
#undef TRACK
    FIELD("held", FIELD_WHOLE, FIELD_IF_HELD, held),
    FIELD("is_held", FIELD_SWITCH, FIELD_IF_HELD, is_held),
#undef FIELD
};

enum { SCALER_FIELDS = sizeof scaler_fields / sizeof *scaler_fields };

/* ---- to JSON --------------------------------------------------------------------- */

static json_t *field_json(const struct field *field, const void *member)
{
    switch (field->kind) {
    case FIELD_WHOLE: return json_integer(*(const int64_t *)member);
    case FIELD_REAL: return json_real(*(const double *)member);
    default: return json_boolean(*(const int *)member);
    }
}

json_t *checkpoint_scaler_json(const struct grad_scaler_saved *saved)
{
    json_t *json = json_object();
    for (int i = 0; i < SCALER_FIELDS; i++) {
        const struct field *field = &scaler_fields[i];
        if (field->presence == FIELD_IF_HELD && !saved->held && !saved->is_held)
            continue;
        if (json_object_set_new(json, field->name,
                                field_json(field, (const char *)saved + field->offset)) !=
            0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

static char *dump(json_t *json)
{
    char *text = json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(json);
    return text;
}

char *checkpoint_state_json(const struct trainer *trainer)
{
    struct grad_scaler_saved g = grad_scaler_save(&trainer->scaler[ROLE_G]);
    struct grad_scaler_saved d = grad_scaler_save(&trainer->scaler[ROLE_D]);
    json_t *state =
        json_pack("{s:I, s:I, s:o, s:o}", "step", (json_int_t)trainer->progress.step,
                  "images", (json_int_t)trainer->progress.images, "scaler_g",
                  checkpoint_scaler_json(&g), "scaler_d", checkpoint_scaler_json(&d));
    // Only where there were some: elsewhere a snapshot is what it was before.
    int failed = 0;
    if (trainer->progress.rollbacks)
        failed |= json_object_set_new(state, "rollbacks",
                                      json_integer(trainer->progress.rollbacks));
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS) {
        struct grad_scaler_saved fake = grad_scaler_save(&trainer->topology.fake);
        failed |=
            json_object_set_new(state, "scaler_d_fake", checkpoint_scaler_json(&fake));
    }
    if (!failed)
        return dump(state);
    json_decref(state);
    return NULL;
}

char *checkpoint_data_json(const struct dataset *dataset)
{
    char digest[20];
    snprintf(digest, sizeof digest, "%016" PRIx64, dataset->digest);
    return dump(json_pack("{s:s, s:I, s:s}", "name", dataset->name, "count",
                          (json_int_t)dataset->count, "digest", digest));
}

/* ---- from JSON ------------------------------------------------------------------- */

/* An object of the file that is being read. */
struct object {
    const char *path, *name; // "state.scaler_g"
    json_t *json;
};

static enum status refuse(const struct object *object, const char *key, const char *found,
                          const char *expected)
{
    return status_fail(STATUS_DATA,
                       "%s: %s.%s %s, expected %s; the file is damaged, take an earlier "
                       "snapshot",
                       object->path, object->name, key, found, expected);
}

// "is -5", "is missing", '"is "x"': as it stands in the file, but not longer than a line.
static const char *found_text(const json_t *value, char text[96])
{
    char *dumped = value ? json_text(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (dumped)
        snprintf(text, 96, "is %.60s", dumped);
    else
        snprintf(text, 96, "is missing");
    free(dumped);
    return text;
}

static enum status read_whole(const struct object *object, const char *key,
                              json_int_t most, int64_t *whole)
{
    char found[96], expected[64];
    json_t *value = json_object_get(object->json, key);
    *whole = json_integer_value(value);
    if (json_is_integer(value) && *whole >= 0 && *whole <= most)
        return STATUS_OK;
    snprintf(expected, sizeof expected, "a whole number from 0 to %" JSON_INTEGER_FORMAT,
             most);
    return refuse(object, key, found_text(value, found), expected);
}

static enum status read_field(const struct object *object, const struct field *field,
                              void *member)
{
    char found[96];
    json_t *value = json_object_get(object->json, field->name);
    if (!value && field->presence != FIELD_ALWAYS)
        return STATUS_OK; // 0
    if (field->kind == FIELD_WHOLE)
        return read_whole(object, field->name, COUNT_MAX, member);
    if (field->kind == FIELD_REAL) {
        *(double *)member = json_number_value(value);
        return json_is_number(value)
                   ? STATUS_OK
                   : refuse(object, field->name, found_text(value, found), "a number");
    }
    *(int *)member = json_is_true(value);
    return json_is_boolean(value)
               ? STATUS_OK
               : refuse(object, field->name, found_text(value, found), "true or false");
}

static enum status refuse_unknown(const struct object *object, const char *key)
{
    return status_fail(STATUS_DATA,
                       "%s: %s.%s is not known to this release (" TWINSCALE_VERSION
                       "): the file was written by a newer one; use that",
                       object->path, object->name, key);
}

static enum status check_scaler_keys(const struct object *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object->json, key, value)
    {
        int is_known = 0;
        for (int i = 0; i < SCALER_FIELDS; i++)
            is_known |= strcmp(key, scaler_fields[i].name) == 0;
        if (!is_known)
            return refuse_unknown(object, key);
    }
    return STATUS_OK;
}

/* Every update is a step of Adam, or is not; what changed the scale was an update. */
static enum status check_counters(const struct object *object,
                                  const struct grad_scaler_saved *saved, int64_t updates)
{
    const struct {
        const char *key;
        int64_t value, most;
    } counters[] = {
        {"adam_t", saved->adam_t, updates},
        {"skipped", saved->skipped, updates},
        {"skipped_in_a_row", saved->skipped_in_a_row, saved->skipped},
        {"growths", saved->growths, updates},
        {"backoffs", saved->backoffs, updates},
        {"held", saved->held, updates},
    };
    char found[96], expected[96];
    if (saved->updates != updates) {
        snprintf(found, sizeof found, "is %" PRId64, saved->updates);
        snprintf(expected, sizeof expected, "%" PRId64 " as state.step has it", updates);
        return refuse(object, "updates", found, expected);
    }
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (counters[i].value > counters[i].most) {
            snprintf(found, sizeof found, "is %" PRId64, counters[i].value);
            snprintf(expected, sizeof expected, "at most %" PRId64 " at that step",
                     counters[i].most);
            return refuse(object, counters[i].key, found, expected);
        }
    return STATUS_OK;
}

static enum status read_scaler(const struct object *state, const char *key,
                               int64_t updates, struct grad_scaler_saved *saved)
{
    char name[64], found[96];
    snprintf(name, sizeof name, "%s.%s", state->name, key);
    const struct object object = {state->path, name, json_object_get(state->json, key)};
    memset(saved, 0, sizeof *saved);
    if (!json_is_object(object.json))
        return refuse(state, key, found_text(object.json, found),
                      "the state of a loss scaler");
    for (int i = 0; i < SCALER_FIELDS; i++)
        TRY(read_field(&object, &scaler_fields[i],
                       (char *)saved + scaler_fields[i].offset));
    TRY(check_scaler_keys(&object));
    TRY(check_counters(&object, saved, updates));
    if (saved->enabled && grad_scaler_check_saved(saved, name) != STATUS_OK) {
        char reason[512];
        snprintf(reason, sizeof reason, "%s", status_message());
        return status_fail(STATUS_DATA, "%s: %s", state->path, reason);
    }
    return STATUS_OK;
}

/* Reads step, images and rollbacks, which say where the run is. */
static enum status read_progress(const struct object *state, const struct config *config,
                                 struct checkpoint_facts *facts)
{
    int64_t rollbacks = 0, per_step = config_step_images(config);
    TRY(read_whole(state, "step", COUNT_MAX / per_step, &facts->step));
    TRY(read_whole(state, "images", COUNT_MAX, &facts->images));
    if (json_object_get(state->json, "rollbacks"))
        TRY(read_whole(state, "rollbacks", INT32_MAX, &rollbacks));
    facts->rollbacks = (int)rollbacks;
    if (facts->images == facts->step * per_step)
        return STATUS_OK;
    char found[96], expected[96];
    snprintf(found, sizeof found, "is %" PRId64, facts->images);
    snprintf(expected, sizeof expected, "%" PRId64 ": %" PRId64 " times %" PRId64,
             facts->step * per_step, facts->step, per_step);
    return refuse(state, "images", found, expected);
}

static enum status check_state_keys(const struct object *state)
{
    static const char *const known[] = {"step",     "images",   "rollbacks",
                                        "scaler_g", "scaler_d", "scaler_d_fake"};
    const char *key;
    json_t *value;
    json_object_foreach(state->json, key, value)
    {
        int is_known = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(key, known[i]) == 0;
        if (!is_known)
            return refuse_unknown(state, key);
    }
    return STATUS_OK;
}

static enum status read_state(const struct object *state, const struct config *config,
                              struct checkpoint_facts *facts)
{
    TRY(check_state_keys(state));
    TRY(read_progress(state, config, facts));
    int64_t d_updates = facts->step * config->n_dis;
    TRY(read_scaler(state, "scaler_g", facts->step, &facts->scaler[ROLE_G]));
    TRY(read_scaler(state, "scaler_d", d_updates, &facts->scaler[ROLE_D]));
    facts->has_fake_scaler = json_object_get(state->json, "scaler_d_fake") != NULL;
    if (!facts->has_fake_scaler)
        return STATUS_OK;
    return read_scaler(state, "scaler_d_fake", d_updates, &facts->fake_scaler);
}

static enum status parse(const char *text, struct object *object)
{
    json_error_t error = {0};
    object->json = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (json_is_object(object->json))
        return STATUS_OK;
    json_decref(object->json);
    return status_fail(STATUS_DATA,
                       "%s: its metadata \"%s\" %s%s; the file is damaged, take an "
                       "earlier snapshot",
                       object->path, object->name,
                       !text           ? "is missing"
                       : error.text[0] ? "is not JSON: "
                                       : "is no object",
                       error.text);
}

enum status checkpoint_state_from_json(const char *text, const char *path,
                                       const struct config *config,
                                       struct checkpoint_facts *facts)
{
    struct object state = {path, "state", NULL};
    TRY(parse(text, &state));
    enum status status = read_state(&state, config, facts);
    json_decref(state.json);
    return status;
}

static enum status read_data(const struct object *data, struct checkpoint_facts *facts)
{
    char found[96];
    json_t *name = json_object_get(data->json, "name");
    json_t *digest = json_object_get(data->json, "digest");
    const char *digits = json_string_value(digest);
    if (!json_is_string(name) || json_string_length(name) >= sizeof facts->data_name)
        return refuse(data, "name", found_text(name, found), "a name");
    TRY(read_whole(data, "count", COUNT_MAX, &facts->data_count));
    if (!digits || strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16)
        return refuse(data, "digest", found_text(digest, found), "16 hexadecimal digits");
    snprintf(facts->data_name, sizeof facts->data_name, "%s", json_string_value(name));
    facts->data_digest = strtoull(digits, NULL, 16);
    return STATUS_OK;
}

enum status checkpoint_data_from_json(const char *text, const char *path,
                                      struct checkpoint_facts *facts)
{
    struct object data = {path, "data", NULL};
    TRY(parse(text, &data));
    enum status status = read_data(&data, facts);
    json_decref(data.json);
    return status;
}
