#include "app/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/record/checkpoint_json.h"
#include "app/files/json_text.h"
#include "app/record/summary.h"

static json_t *checked(json_t *json)
{
    CHECK_MEMORY(json, "what a checkpoint holds");
    return json;
}

struct tables {
    json_t *layers, *parameters;
};

static void add_net(void *context, const struct net *net)
{
    struct tables *tables = context;
    for (int i = 0; i < net->node_count; i++) {
        struct summary_row row = summary_row(net, i);
        json_array_append_new(
            tables->layers,
            checked(json_pack("{s:s, s:s, s:I, s:s, s:s}", "layer", row.layer, "kind",
                              row.kind, "parameters", (json_int_t)row.parameters,
                              "output", row.output, "type", row.type)));
    }
    json_object_set_new(tables->parameters, net->name[0] == 'g' ? "G" : "D",
                        json_integer((json_int_t)summary_parameters(net)));
}

static json_t *scalers_json(const struct checkpoint_facts *facts)
{
    json_t *scalers = checked(json_object());
    json_object_set_new(scalers, "G",
                        checked(checkpoint_scaler_json(&facts->scaler[ROLE_G])));
    json_object_set_new(scalers, "D",
                        checked(checkpoint_scaler_json(&facts->scaler[ROLE_D])));
    if (facts->has_fake_scaler)
        json_object_set_new(scalers, "D_fake",
                            checked(checkpoint_scaler_json(&facts->fake_scaler)));
    return scalers;
}

// A sentence a line.
static json_t *sentences_json(const char *text)
{
    json_t *list = checked(json_array());
    while (text[0]) {
        size_t length = strcspn(text, "\n");
        json_array_append_new(list, json_stringn(text, length));
        text += length + (text[length] == '\n');
    }
    return list;
}

static json_t *settings_json(const struct config *config)
{
    char *text = config_to_json(config);
    json_t *settings = checked(text ? json_loads(text, 0, NULL) : NULL);
    free(text);
    return settings;
}

enum status info_print_json(const char *path, const struct checkpoint *checkpoint)
{
    struct checkpoint_facts facts;
    struct config config;
    char digest[20], data_digest[20];
    struct tables tables = {.layers = checked(json_array()),
                            .parameters = checked(json_object())};
    TRY(checkpoint_facts(checkpoint, &facts));
    TRY(checkpoint_config(checkpoint, &config));
    TRY(info_each_net(&config, add_net, &tables));
    snprintf(digest, sizeof digest, "%016" PRIx64, checkpoint_digest(checkpoint));
    snprintf(data_digest, sizeof data_digest, "%016" PRIx64, facts.data_digest);
    json_t *info = checked(json_pack(
        "{s:s, s:I, s:I, s:f, s:f, s:i, s:{s:s, s:I, s:s}, s:o, s:o, s:o, s:o, s:o, s:s}",
        "checkpoint", path, "step", (json_int_t)facts.step, "images",
        (json_int_t)facts.images, "kimg", (double)facts.images / 1000.0, "elapsed_sec",
        facts.elapsed_sec, "rollbacks", facts.rollbacks, "data", "name", facts.data_name,
        "images", (json_int_t)facts.data_count, "digest", data_digest, "scalers",
        scalers_json(&facts), "found_scales", sentences_json(facts.found_scales),
        "layers", tables.layers, "parameters", tables.parameters, "settings",
        settings_json(&config), "digest", digest));
    char *text = json_text(info, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(info);
    CHECK_MEMORY(text, "what a checkpoint holds");
    puts(text);
    free(text);
    return STATUS_OK;
}
