#include "app/report_events.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/train.h"

static const char *const network_names[NETWORK_COUNT] = {"G", "D"};

// One line of events.jsonl, as of `step`; takes the object.
static void write_event(struct report *report, json_t *event, int64_t step, double kimg)
{
    json_object_set_new(event, "step", json_integer(step));
    json_object_set_new(event, "kimg", json_real(kimg));
    json_object_set_new(event, "timestamp", json_integer((json_int_t)time(NULL)));
    char *line = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(event);
    if (line)
        run_folder_event(report->folder, line);
    free(line);
}

// Of the step that was last collected.
static void write_step_event(struct report *report, json_t *event)
{
    const struct results_place *place = &report->trainer->last_place;
    write_event(report, event, place->step, (double)place->images / 1000.0);
}

static const char *overflow_word(const struct step_record *record)
{
    if (record->found_inf != 0.0f)
        return "inf or NaN in its gradients";
    return "a gradient became inf when unscaled";
}

static json_t *scale_event(const char *word, int network,
                           const struct step_record *record)
{
    return json_pack("{s:s, s:s, s:f, s:f}", "event", word, "net", network_names[network],
                     "scale_before", (double)record->scale_used, "scale_after",
                     (double)record->scale_after);
}

// " (first in d.conv3: weight gradient)", or "" where nothing is left to be seen.
static const char *place_text(const struct nonfinite_place *place, char *text,
                              size_t bytes)
{
    text[0] = '\0';
    if (place->tensor)
        snprintf(text, bytes, " (first in %s: %s)", place->layer, place->tensor);
    return text;
}

// G has one pass of losses, a D step two: on real and on fake.
static int had_finite_logits(const struct trainer *trainer, int slot)
{
    const struct loss_sums *sums = trainer->last.sums + 2 * slot;
    int passes = train_slot_network(trainer, slot) == NETWORK_G ? 1 : 2;
    return sums[0].nonfinite + (passes > 1 ? sums[1].nonfinite : 0.0) == 0.0;
}

void event_skip(struct report *report, int slot)
{
    const struct trainer *trainer = report->trainer;
    const struct step_record *record = &trainer->last.records[slot];
    int network = train_slot_network(trainer, slot);
    int forward_finite = had_finite_logits(trainer, slot);
    struct nonfinite_place place = {.tensor = NULL};
    train_first_nonfinite(trainer, slot, &place);
    char before[32], after[32], where[80];
    run_folder_log(
        report->folder, "step %lld: %s skipped, %s%s; scale %s -> %s%s",
        (long long)trainer->last_place.step, network_names[network],
        overflow_word(record), place_text(&place, where, sizeof where),
        scale_text(record->scale_used, before, sizeof before),
        scale_text(record->scale_after, after, sizeof after),
        forward_finite ? "" : "; the logits were inf or NaN too: no scale can help");
    json_t *event = scale_event("skip", network, record);
    json_object_set_new(event, "forward_finite", json_boolean(forward_finite));
    if (place.tensor) {
        json_object_set_new(event, "layer", json_string(place.layer));
        json_object_set_new(event, "tensor", json_string(place.tensor));
    }
    write_step_event(report, event);
}

void event_growth(struct report *report, int slot)
{
    const struct step_record *record = &report->trainer->last.records[slot];
    int network = train_slot_network(report->trainer, slot);
    char after[32];
    run_folder_log(report->folder, "step %lld: %s's scale grew to %s",
                   (long long)report->trainer->last_place.step, network_names[network],
                   scale_text(record->scale_after, after, sizeof after));
    write_step_event(report, scale_event("growth", network, record));
}

void event_word(struct report *report, const char *word, const char *reason)
{
    json_t *event = json_pack("{s:s}", "event", word);
    if (reason[0])
        json_object_set_new(event, "reason", json_string(reason));
    const struct trainer *trainer = report->trainer;
    write_event(report, event, trainer->progress.step, trainer_kimg(trainer));
}
