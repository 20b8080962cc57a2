/* report_layers.c - what every layer's tensors held, into layers.jsonl and the heat
 * map. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/report.h"
#include "app/files/json_text.h"
#include "app/report_events.h"
#include "app/train/train.h"

#define HALF_MAX 65504.0

_Static_assert((int)LAYER_ACTIVATIONS == (int)SURVEY_ACTIVATION &&
                   (int)LAYER_ACTIVATION_GRADIENTS == (int)SURVEY_ACTIVATION_GRADIENT &&
                   (int)LAYER_WEIGHT_GRADIENTS == (int)SURVEY_WEIGHT_GRADIENT,
               "the heat map counts tensors as the survey does");

/* ---- one tensor ------------------------------------------------------------------ */

struct tensor_facts {
    double mean, std, finite, lost, subnormal; // NaN: not known
    double max, headroom;
};

/* Shares are of all elements; padding, which is zero, is not counted. */
static struct tensor_facts facts_of(const struct survey_entry *entry,
                                    const struct survey_stats *stats,
                                    const struct survey_stats *reference)
{
    double all = (double)entry->elements;
    double finite = all - (double)stats->inf - (double)stats->nan;
    struct tensor_facts facts = {.max = (double)stats->max_abs,
                                 .finite = finite / all,
                                 .subnormal = (double)stats->subnormal / all,
                                 .lost = NAN};
    facts.mean = finite > 0.0 ? stats->sum / finite : (double)NAN;
    facts.std = finite > 0.0
                    ? sqrt(fmax(0.0, stats->sumsq / finite - facts.mean * facts.mean))
                    : (double)NAN;
    facts.headroom = facts.max > 0.0 ? log2(HALF_MAX / facts.max) : (double)NAN;
    // Both have the same padding.
    if (reference)
        facts.lost = fmax(0.0, (double)stats->zero - (double)reference->zero) / all;
    return facts;
}

static json_t *number_or_null(double value)
{
    char digits[32]; // five of them are enough, and keep the file small
    snprintf(digits, sizeof digits, "%.5g", value);
    return isfinite(value) ? json_real(strtod(digits, NULL)) : json_null();
}

static json_t *tensor_json(const char *pass, const struct survey_entry *entry,
                           const struct tensor_facts *facts)
{
    char layer[NET_NAME_MAX + 8];
    json_t *json =
        json_pack("{s:s, s:s, s:s}", "pass", pass, "layer", survey_layer(entry, layer),
                  "tensor", survey_kind_name(entry->kind));
    json_object_set_new(json, "mean", number_or_null(facts->mean));
    json_object_set_new(json, "std", number_or_null(facts->std));
    json_object_set_new(json, "max", number_or_null(facts->max));
    json_object_set_new(json, "finite", number_or_null(facts->finite));
    json_object_set_new(json, "lost", number_or_null(facts->lost));
    json_object_set_new(json, "subnormal", number_or_null(facts->subnormal));
    json_object_set_new(json, "headroom", number_or_null(facts->headroom));
    return json;
}

/* ---- one look -------------------------------------------------------------------- */

// In G's pass D only hands on, at G's scale: the map shows D in its own passes.
static int is_in_map(const struct passes *passes, int pass,
                     const struct survey_entry *entry)
{
    return (passes->row[pass].trains == ROLE_G) == (entry->net->name[0] == 'g');
}

static void add_to_column(const struct report *report, struct layer_column *column,
                          const struct survey_entry *entry,
                          const struct tensor_facts *facts)
{
    char name[NET_NAME_MAX + 8];
    int row = layers_row(monitor_layers(report->monitor), survey_layer(entry, name));
    if (row < 0)
        return;
    struct layer_cell cell = {
        .headroom = (float)facts->headroom,
        .small = (float)(facts->subnormal + (isnan(facts->lost) ? 0.0 : facts->lost)),
        .has_overflowed = facts->finite < 1.0};
    layer_column_join(column, row, (enum layer_tensor)entry->kind, &cell);
}

/* A line of layers.jsonl that is being made, with its column of the heat map. */
struct look_line {
    const char *reason;
    json_t *tensors;
    struct layer_column column;
};

static double kimg_of(const struct report *report)
{
    return (double)report->trainer->last.place.images / 1000.0;
}

static void begin_line(const struct report *report, struct look_line *line,
                       const char *reason, int is_skip)
{
    line->reason = reason;
    line->tensors = json_array();
    layer_column_begin(&line->column, report->trainer->last.place.step, kimg_of(report));
    line->column.is_skip = is_skip;
}

// `reference` may be NULL; and `column`, of the heat map.
static void add_tensors(const struct report *report, json_t *tensors,
                        struct layer_column *column, int pass,
                        const struct survey *survey, const struct survey_stats *stats,
                        const struct survey_stats *reference)
{
    const struct passes *passes = &report->trainer->gan.passes;
    for (int i = 0; i < survey->count; i++) {
        const struct survey_entry *entry = &survey->entry[i];
        struct tensor_facts facts =
            facts_of(entry, &stats[i], reference ? &reference[i] : NULL);
        json_array_append_new(tensors,
                              tensor_json(passes->row[pass].word, entry, &facts));
        if (column && is_in_map(passes, pass, entry))
            add_to_column(report, column, entry, &facts);
    }
}

static void add_view(const struct report *report, json_t *tensors,
                     struct layer_column *column, const struct probe_view *view)
{
    for (int pass = 0; pass < report->trainer->gan.passes.count; pass++)
        if (view->has[pass])
            add_tensors(report, tensors, column, pass,
                        &report->trainer->probe.survey[pass], view->stats[pass],
                        view->reference[pass]);
}

// Of a step that could not be taken again: what was left at its end.
static void add_remains(const struct report *report, json_t *tensors,
                        struct layer_column *column, int slot)
{
    const struct trainer *trainer = report->trainer;
    int network = train_slot_network(trainer, slot);
    add_tensors(report, tensors, column, network == ROLE_G ? PASS_G_MAIN : PASS_D_FAKE,
                &trainer->survey[network],
                trainer->last.view.stats + slot * trainer->results.stats_count, NULL);
}

static void end_line(struct report *report, struct look_line *line)
{
    const struct step_record *record = report->trainer->last.record;
    layers_add(monitor_layers(report->monitor), &line->column);
    json_t *json = json_pack(
        "{s:s, s:o, s:f, s:f, s:I, s:f, s:i, s:I}", "reason", line->reason, "layers",
        line->tensors, "scale_g", (double)record[ROLE_G].scale_used, "scale_d",
        (double)record[ROLE_D].scale_used, "step", (json_int_t)line->column.step, "kimg",
        line->column.kimg, "rollbacks", report->trainer->progress.rollbacks, "timestamp",
        (json_int_t)time(NULL));
    char *text = json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(json);
    if (text)
        run_folder_line(report->folder, RUN_LOG_LAYERS, text);
    free(text);
}

static void write_view(struct report *report, const struct probe_view *view,
                       const char *reason, int is_skip)
{
    struct look_line line;
    begin_line(report, &line, reason, is_skip);
    add_view(report, line.tensors, &line.column, view);
    end_line(report, &line);
}

static void write_remains(struct report *report, int slot, const char *reason)
{
    struct look_line line;
    begin_line(report, &line, reason, 1);
    add_remains(report, line.tensors, &line.column, slot);
    end_line(report, &line);
}

json_t *report_layers_of_skip(const struct report *report, int slot)
{
    const struct probe_view *view = probe_of_skip(report->trainer, slot);
    json_t *tensors = json_array();
    if (view)
        add_view(report, tensors, NULL, view);
    else
        add_remains(report, tensors, NULL, slot);
    return tensors;
}

static int is_looked_at(const struct survey *survey, const struct net *net, int row)
{
    for (int i = 0; i < survey->count; i++)
        if (survey->entry[i].net == net && survey->entry[i].node == row)
            return 1;
    return 0;
}

void report_name_layers(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    const struct survey *survey = &trainer->probe.survey[PASS_G_MAIN];
    char name[NET_NAME_MAX + 8];
    for (int network = 0; network < ROLES; network++) {
        const struct net *net = &trainer->gan.net[network];
        for (int row = 0; row < net->node_count; row++)
            if (is_looked_at(survey, net, row))
                layers_row(
                    monitor_layers(report->monitor),
                    survey_layer(&(struct survey_entry){.net = net, .node = row}, name));
    }
}

void report_layers(struct report *report)
{
    const struct trainer *trainer = report->trainer;
    const struct probe_view *view = probe_of_step(trainer);
    if (view)
        write_view(report, view, "grad-stats", 0);
    for (int slot = 0; slot < trainer->results.record_count; slot++) {
        int is_g = train_slot_network(trainer, slot) == ROLE_G;
        const char *reason = is_g ? "skip G" : "skip D";
        const struct probe_view *skip = probe_of_skip(trainer, slot);
        if (!trainer->last.view.records[slot].was_skipped)
            continue;
        if (skip)
            write_view(report, skip, reason, 1);
        else
            write_remains(report, slot, reason);
    }
}
