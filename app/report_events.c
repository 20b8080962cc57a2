#include "app/report_events.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/train.h"
#include "nets/nonfinite.h"

static const char *const network_names[NETWORK_COUNT] = {"G", "D"};

// One line of events.jsonl; takes the object.
static void write_event(struct report *report, json_t *event)
{
    const struct trainer *trainer = report->trainer;
    json_object_set_new(event, "step", json_integer(trainer->progress.step));
    json_object_set_new(event, "kimg", json_real(trainer_kimg(trainer)));
    json_object_set_new(event, "timestamp", json_integer((json_int_t)time(NULL)));
    char *line = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(event);
    if (line)
        run_folder_event(report->folder, line);
    free(line);
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

// In the order of the line: G's output is D's input.
static struct nonfinite_place find_place(const struct trainer *trainer, int network)
{
    struct nonfinite_place place = {.tensor = NULL};
    if (!nonfinite_activation(&trainer->player[NETWORK_G].net, &place) &&
        !nonfinite_activation(&trainer->player[NETWORK_D].net, &place))
        nonfinite_gradient(&trainer->player[network].net, &place);
    return place;
}

// G has one pass of losses, a D step two: on real and on fake.
static int had_finite_logits(const struct trainer *trainer, int slot)
{
    const struct loss_sums *sums = trainer->sums_host + 2 * slot;
    return sums[0].is_finite &&
           (train_slot_network(trainer, slot) == NETWORK_G || sums[1].is_finite);
}

void event_skip(struct report *report, int slot)
{
    const struct trainer *trainer = report->trainer;
    const struct step_record *record = &trainer->records_host[slot];
    int network = train_slot_network(trainer, slot);
    int forward_finite = had_finite_logits(trainer, slot);
    // What an earlier D step of this step left behind is overwritten by now.
    struct nonfinite_place place = {.tensor = NULL};
    if (slot + 2 >= trainer->record_count)
        place = find_place(trainer, network);
    char before[32], after[32], where[80];
    run_folder_log(
        report->folder, "step %lld: %s skipped, %s%s; scale %s -> %s%s",
        (long long)trainer->progress.step, network_names[network], overflow_word(record),
        place_text(&place, where, sizeof where),
        scale_text(record->scale_used, before, sizeof before),
        scale_text(record->scale_after, after, sizeof after),
        forward_finite ? "" : "; the logits were inf or NaN too: no scale can help");
    json_t *event = scale_event("skip", network, record);
    json_object_set_new(event, "forward_finite", json_boolean(forward_finite));
    if (place.tensor) {
        json_object_set_new(event, "layer", json_string(place.layer));
        json_object_set_new(event, "tensor", json_string(place.tensor));
    }
    write_event(report, event);
}

void event_growth(struct report *report, int slot)
{
    const struct step_record *record = &report->trainer->records_host[slot];
    int network = train_slot_network(report->trainer, slot);
    char after[32];
    run_folder_log(report->folder, "step %lld: %s's scale grew to %s",
                   (long long)report->trainer->progress.step, network_names[network],
                   scale_text(record->scale_after, after, sizeof after));
    write_event(report, scale_event("growth", network, record));
}

void event_word(struct report *report, const char *word, const char *reason)
{
    json_t *event = json_pack("{s:s}", "event", word);
    if (reason[0])
        json_object_set_new(event, "reason", json_string(reason));
    write_event(report, event);
}
