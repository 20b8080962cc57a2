/* test_checkpoint_json.c - what a checkpoint holds is checked, field by field and tensor
 * by tensor, whatever its checksum says. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/safetensors.h"
#include "tests/app/disk.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512], run[1024], source[1100], spoilt[600];

static int make_one_run(void **state)
{
    (void)state;
    char runs[600];
    snprintf(out, sizeof out, "%s", make_folder("checkpoint"));
    twinscale_must("train " SMALL_RUN " --scaler per-loss --n-dis 2 --out '%s/runs' "
                   "--kimg 0.096 --snap 1",
                   out);
    snprintf(runs, sizeof runs, "%s/runs", out);
    snprintf(run, sizeof run, "%s", run_in(runs));
    snprintf(source, sizeof source, "%s/snapshot-000000.096.safetensors", run);
    snprintf(spoilt, sizeof spoilt, "%s/spoilt.safetensors", out);
    return 0;
}

static int remove_run(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

/* ---- another file with a right checksum ------------------------------------------ */

/* What to change of `source`; every other byte of content stays. */
struct change {
    const char *key, *value; // of the metadata; value NULL leaves it out
    const char *tensor;
    size_t index;
    float number;
    int is_of_earlier_release; // without the statistics of the averaged G
};

static void write_spoilt(const struct change *change)
{
    static const char *const keys[] = {
        "format", "twinscale.version", "config", "state", "data", "clock"};
    struct safetensors_file *file;
    struct safetensors_pair pairs[6];
    size_t pair_count = 0;
    assert_int_equal(safetensors_open(source, &file), STATUS_OK);
    size_t count = safetensors_count(file);
    struct safetensor *tensors = calloc(count, sizeof *tensors);
    float *copy = NULL;
    for (size_t i = 0; i < 6; i++) {
        int is_changed = change->key && strcmp(change->key, keys[i]) == 0;
        const char *value =
            is_changed ? change->value : safetensors_metadata(file, keys[i]);
        if (value)
            pairs[pair_count++] = (struct safetensors_pair){keys[i], value};
    }
    size_t kept = 0;
    for (size_t k = 0; k < count; k++) {
        const struct safetensor *tensor = safetensors_at(file, k);
        if (change->is_of_earlier_release && strncmp(tensor->name, "g.ema.", 6) == 0 &&
            strstr(tensor->name, ".running_"))
            continue;
        size_t i = kept++;
        tensors[i] = *tensor;
        if (!change->tensor || strcmp(change->tensor, tensors[i].name) != 0)
            continue;
        copy = malloc(tensors[i].bytes);
        memcpy(copy, tensors[i].data, tensors[i].bytes);
        copy[change->index] = change->number;
        tensors[i].data = copy;
    }
    assert_true(!change->tensor || copy);
    assert_int_equal(safetensors_write(spoilt, tensors, kept, pairs, pair_count, NULL),
                     STATUS_OK);
    free(copy);
    free(tensors);
    safetensors_close(file);
}

static enum status facts_of_spoilt(void)
{
    struct checkpoint *checkpoint;
    struct checkpoint_facts facts;
    enum status status = checkpoint_open(spoilt, &checkpoint);
    if (status != STATUS_OK)
        return status;
    status = checkpoint_facts(checkpoint, &facts);
    checkpoint_close(checkpoint);
    return status;
}

static void assert_refused(const struct change *change, const char *words)
{
    write_spoilt(change);
    if (facts_of_spoilt() != STATUS_DATA || !strstr(status_message(), words) ||
        !strstr(status_message(), spoilt))
        fail_msg("\"%s\" = %.200s: expected a refusal with \"%s\": %s", change->key,
                 change->value ? change->value : "(missing)", words, status_message());
}

static json_t *source_json(const char *key)
{
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(source, &file), STATUS_OK);
    json_t *json = json_loads(safetensors_metadata(file, key), 0, NULL);
    assert_non_null(json);
    safetensors_close(file);
    return json;
}

/* ---- every field ----------------------------------------------------------------- */

static json_t *whole; // the state that is walked

static void assert_state_is_refused(const char *key)
{
    char *text = json_dumps(whole, JSON_COMPACT);
    assert_refused(&(struct change){.key = "state", .value = text}, key);
    free(text);
}

/* Fields that a file need not have, and the one that has no upper limit. */
static int is_one_of(const char *key, const char *const *keys)
{
    while (*keys && strcmp(key, *keys) != 0)
        keys++;
    return *keys != NULL;
}

static void spoil_field(json_t *object, const char *key)
{
    static const char *const optional[] = {"rollbacks",
                                           "scaler_d_fake",
                                           "hysteresis_used",
                                           "growth_wait",
                                           "steps_since_rescale",
                                           "overflows_since_rescale",
                                           "held",
                                           "is_held",
                                           NULL};
    static const char *const unlimited[] = {"growth_factor", NULL};
    json_t *value = json_incref(json_object_get(object, key));
    json_t *wrong[] = {json_string("7"), json_null(), json_array(), json_integer(-1),
                       json_real(1e300)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (i == 4 && is_one_of(key, unlimited))
            continue;
        json_object_set(object, key, wrong[i]);
        assert_state_is_refused(key);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        json_decref(wrong[i]);
    if (json_is_integer(value)) {
        json_object_set_new(object, key, json_integer(9223372036854775797));
        assert_state_is_refused(key);
    }
    json_object_del(object, key);
    if (!is_one_of(key, optional))
        assert_state_is_refused(key);
    json_object_set_new(object, key, value);
}

static int spoil_fields(json_t *object)
{
    int count = 0;
    json_t *copy = json_copy(object), *value;
    const char *key;
    json_object_foreach(copy, key, value)
    {
        spoil_field(object, key);
        count += json_is_object(value) ? spoil_fields(value) : 1;
    }
    json_decref(copy);
    return count;
}

/* Walks what the program wrote: a field that is new there is walked, too. */
static void test_every_field_of_the_state_is_checked_by_name(void **state)
{
    (void)state;
    whole = source_json("state");
    json_object_set_new(whole, "rollbacks", json_integer(1));
    json_t *scaler = json_object_get(whole, "scaler_g");
    json_object_set_new(scaler, "held", json_integer(0));
    json_object_set_new(scaler, "is_held", json_false());
    char *text = json_dumps(whole, 0);
    write_spoilt(&(struct change){.key = "state", .value = text});
    assert_int_equal(facts_of_spoilt(), STATUS_OK); // nothing is wrong with it yet
    free(text);
    assert_int_equal(spoil_fields(whole), 3 + 18 + 16 + 16);
    json_decref(whole);
}

static void test_counters_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *object, *key;
        json_int_t value;
    } wrong[] = {
        {NULL, "images", 203},
        {NULL, "images", 64},
        {NULL, "images", 128},
        {NULL, "step", 2},
        {"scaler_g", "updates", 4},
        {"scaler_d", "updates", 3},
        {"scaler_g", "adam_t", 4},
        {"scaler_d", "skipped", 7},
        {"scaler_g", "growths", 4},
        {"scaler_g", "held", 4},
        {"scaler_g", "backoffs", 5},
        {"scaler_d_fake", "updates", 5},
        {"scaler_g", "skipped_in_a_row", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        whole = source_json("state");
        json_t *object =
            wrong[i].object ? json_object_get(whole, wrong[i].object) : whole;
        json_object_set_new(object, wrong[i].key, json_integer(wrong[i].value));
        // A wrong step shows in the images that go with it.
        assert_state_is_refused(strcmp(wrong[i].key, "step") ? wrong[i].key : "images");
        json_decref(whole);
    }
}

static void test_a_missing_scaler_is_told_by_its_name(void **state)
{
    (void)state;
    whole = source_json("state");
    json_object_del(whole, "scaler_d");
    assert_state_is_refused("state.scaler_d is missing");
    json_decref(whole);
}

static void test_metadata_that_is_not_what_it_must_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *words;
    } wrong[] = {
        {"twinscale.version", "1garbage", "version \"1garbage\""},
        {"twinscale.version", "2", "use the release that wrote it"},
        {"twinscale.version", " 1", "version \" 1\""},
        {"format", "pt", "not a checkpoint of this program"},
        {"state", NULL, "metadata \"state\" is missing"},
        {"state", "[1]", "metadata \"state\" is no object"},
        {"state", "{", "metadata \"state\" is not JSON"},
        {"config", NULL, "metadata \"config\" is missing"},
        {"data", NULL, "metadata \"data\" is missing"},
        {"data", "{\"count\":1,\"digest\":\"0123456789abcdef\"}", "data.name is missing"},
        {"data", "{\"name\":3,\"count\":1,\"digest\":\"0123456789abcdef\"}", "data.name"},
        {"data", "{\"name\":\"a\",\"count\":-5,\"digest\":\"0123456789abcdef\"}",
         "data.count is -5"},
        {"data", "{\"name\":\"a\",\"count\":1,\"digest\":\"xyz\"}", "data.digest"},
        {"data", "{\"name\":\"a\",\"count\":1}", "data.digest is missing"},
        {"clock", "soon", "metadata \"clock\" is \"soon\""},
        {"clock", "-1", "metadata \"clock\""},
        {"clock", "nan", "metadata \"clock\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(&(struct change){.key = wrong[i].key, .value = wrong[i].value},
                       wrong[i].words);
}

static void test_what_a_newer_release_wrote_is_called_so(void **state)
{
    (void)state;
    static const char *const objects[] = {"state", "config"};
    for (int i = 0; i < 2; i++) {
        json_t *json = source_json(objects[i]);
        json_object_set_new(json, "brand_new", json_integer(1));
        char *text = json_dumps(json, 0);
        assert_refused(&(struct change){.key = objects[i], .value = text}, "brand_new");
        assert_non_null(strstr(status_message(), "was written by a newer one"));
        free(text);
        json_decref(json);
    }
    whole = source_json("state");
    json_object_set_new(json_object_get(whole, "scaler_g"), "brand_new", json_true());
    assert_state_is_refused("state.scaler_g.brand_new is not known");
    json_decref(whole);
}

/* ---- tensors --------------------------------------------------------------------- */

static void test_values_that_cannot_be_trained_on_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        size_t index;
        float number;
        const char *words;
    } wrong[] = {
        {"g.conv1.weight", 3, NAN, "g.conv1.weight[3] is nan, expected a finite number"},
        {"d.conv1.weight", 0, INFINITY, "d.conv1.weight[0] is inf"},
        {"g.adam_m.conv2.weight", 1, -INFINITY, "g.adam_m.conv2.weight[1] is -inf"},
        {"d.adam_v.conv1.weight", 2, NAN, "d.adam_v.conv1.weight[2] is nan"},
        {"d.adam_v.conv1.weight", 2, -1.0f, "d.adam_v.conv1.weight[2] is -1, expected"},
        {"g.bn1.running_mean", 4, NAN, "g.bn1.running_mean[4] is nan"},
        {"d.bn2.running_var", 0, -0.5f, "d.bn2.running_var[0] is -0.5"},
        {"g.ema.conv1.weight", 5, NAN, "g.ema.conv1.weight[5] is nan"},
    };
    char text[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_spoilt(&(struct change){.tensor = wrong[i].tensor,
                                      .index = wrong[i].index,
                                      .number = wrong[i].number});
        int code =
            twinscale(text, sizeof text, "train --resume '%s' --kimg 0.128", spoilt);
        if (code != 4 || !strstr(text, wrong[i].words) || !strstr(text, spoilt))
            fail_msg("exit %d, expected \"%s\": %s", code, wrong[i].words, text);
    }
    // The last one is of the weights that are drawn.
    int code = twinscale(text, sizeof text, "sample '%s' -o '%s/no.png'", spoilt, out);
    if (code != 4 || !strstr(text, "g.ema.conv1.weight[5] is nan"))
        fail_msg("exit %d: %s", code, text);
    assert_false(path_exists(in_folder(out, "no.png")));
}

/* ---- the averaged G, here and elsewhere ------------------------------------------- */

/* The statistics in the file are those that `sample` would make: without them the same
 * pictures come out, to the last bit; with others, others do. */
static void test_the_averaged_g_is_drawn_with_the_statistics_in_the_file(void **state)
{
    (void)state;
    char text[1024];
    write_spoilt(&(struct change){.is_of_earlier_release = 1});
    twinscale_must("sample '%s' -o '%s/with.png'", source, out);
    twinscale_must("sample '%s' -o '%s/without.png'", spoilt, out);
    twinscale_must("sample '%s' --raw -o '%s/raw.png'", source, out);
    twinscale_must("sample '%s' --raw -o '%s/raw_without.png'", spoilt, out);
    write_spoilt(&(struct change){
        .tensor = "g.ema.bn1.running_mean", .index = 0, .number = 100.0f});
    twinscale_must("sample '%s' -o '%s/other.png'", spoilt, out);
    twinscale_must("sample '%s' --raw -o '%s/raw_other.png'", spoilt, out);
    // The text chunks differ by the digest: what counts are the pixels.
    assert_int_equal(
        run_command(
            text, sizeof text,
            "cd '%s' && for f in *.png; do tail -c +400 $f | head -c -100 >$f.data; "
            "done; cmp with.png.data without.png.data && "
            "cmp raw.png.data raw_without.png.data && "
            "cmp raw.png.data raw_other.png.data && "
            "! cmp -s with.png.data other.png.data && "
            "! cmp -s with.png.data raw.png.data",
            out),
        0);
}

static void test_a_snapshot_of_an_earlier_release_goes_on_to_the_same_bytes(void **state)
{
    (void)state;
    char digests[2][32], text[2048];
    write_spoilt(&(struct change){.is_of_earlier_release = 1});
    assert_int_equal(
        run_command(text, sizeof text,
                    "cd '%s' && for d in new old; do cp -r '%s' $d; done && "
                    "cp spoilt.safetensors old/snapshot-000000.096.safetensors",
                    out, run),
        0);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s/%s", out, i ? "old" : "new");
        twinscale_must("train --resume '%s' --kimg 0.16", text);
        digest_of(text, digests[i]);
    }
    assert_string_equal(digests[0], digests[1]);
}

/* ---- README ---------------------------------------------------------------------- */

/* True when `name` is what `pattern` stands for: NET is g or d, LAYER a layer's name. */
static int matches(const char *name, const char *pattern)
{
    while (*name && *pattern) {
        size_t length = strcspn(name, "."), letters = strcspn(pattern, ".");
        int is_net = letters == 3 && strncmp(pattern, "NET", 3) == 0;
        int is_layer = letters == 5 && strncmp(pattern, "LAYER", 5) == 0;
        int is_role = length >= 3 &&
                      (strncmp(name, "ema.", 4) == 0 || strncmp(name, "adam_", 5) == 0);
        if (is_net ? length != 1
                   : (is_layer ? is_role
                               : length != letters || strncmp(name, pattern, length)))
            return 0;
        name += length + (name[length] == '.');
        pattern += letters + (pattern[letters] == '.');
    }
    return !*name && !*pattern;
}

struct documented {
    char name[96];
    int found;
};

/* The names in backquotes that begin the rows of the table in app/README.md. */
static int read_documented(struct documented *names, int room)
{
    char *text = read_text(TESTS_DIR "/../app/README.md", NULL);
    char *line = strstr(text, "\n## What is in a snapshot\n");
    int count = 0;
    assert_non_null(line);
    char *end = strstr(line + 5, "\n## ");
    assert_non_null(end);
    *end = '\0';
    while ((line = strstr(line, "\n| `"))) {
        line += 4;
        assert_true(count < room);
        snprintf(names[count].name, sizeof names->name, "%.*s", (int)strcspn(line, "`"),
                 line);
        names[count++].found = 0;
    }
    free(text);
    return count;
}

static void mark(struct documented *names, int count, const char *name)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        if (matches(name, names[i].name)) {
            names[i].found = 1;
            found++;
        }
    if (found != 1)
        fail_msg("%s stands in %d rows of the table in app/README.md, 1 was expected",
                 name, found);
}

static void test_readme_has_every_name_of_a_snapshot_and_no_other(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "format",       "twinscale.version", "config", "state", "data", "clock",
        "found_scales", "twinscale.checksum"};
    struct documented names[64];
    int count = read_documented(names, 64);
    char runs[600], newest[1100];
    twinscale_must("train --preset dcgan28 --data builtin:shapes --g-width 2 --d-width 2 "
                   "--batch 8 --preview off --kimg 0.008 --out '%s/named' "
                   "--g-init-scale auto --grid 2x2",
                   out);
    snprintf(runs, sizeof runs, "%s/named", out);
    snprintf(newest, sizeof newest, "%s/snapshot-000000.008.safetensors", run_in(runs));
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(newest, &file), STATUS_OK);
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensor *tensor = safetensors_at(file, i);
        mark(names, count, tensor->name);
        assert_string_equal(tensor->dtype, "F32");
        assert_int_equal(tensor->rank, strstr(tensor->name, "conv") ||
                                               strstr(tensor->name, "fc1.w") ||
                                               strstr(tensor->name, "fc.w")
                                           ? 4
                                           : 1);
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[128];
        snprintf(text, sizeof text, "metadata.%s", keys[i]);
        if (!safetensors_metadata(file, keys[i]))
            fail_msg("the snapshot has no metadata %s", keys[i]);
        mark(names, count, text);
    }
    for (int i = 0; i < count; i++)
        if (!names[i].found)
            fail_msg("app/README.md has %s, the snapshot does not", names[i].name);
    safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_of_the_state_is_checked_by_name),
        cmocka_unit_test(test_counters_that_contradict_each_other_are_refused),
        cmocka_unit_test(test_a_missing_scaler_is_told_by_its_name),
        cmocka_unit_test(test_metadata_that_is_not_what_it_must_be_is_refused),
        cmocka_unit_test(test_what_a_newer_release_wrote_is_called_so),
        cmocka_unit_test(test_values_that_cannot_be_trained_on_are_refused_by_name),
        cmocka_unit_test(test_the_averaged_g_is_drawn_with_the_statistics_in_the_file),
        cmocka_unit_test(test_a_snapshot_of_an_earlier_release_goes_on_to_the_same_bytes),
        cmocka_unit_test(test_readme_has_every_name_of_a_snapshot_and_no_other),
    };
    return cmocka_run_group_tests(tests, make_one_run, remove_run);
}
