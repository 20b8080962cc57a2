#include "app/report_events.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/live/change.h"
#include "app/recovery/diagnosis.h"
#include "app/recovery/init_scale.h"
#include "app/files/json_text.h"
#include "app/view/history_note.h"
#include "app/recovery/outlier.h"
#include "app/train/train.h"
#include "kernels/base/text.h"

#define IMAGES_MAX 1024 // of a skip, in events.jsonl

// One line of events.jsonl, as of `step`; takes the object.
static void write_event(struct report *report, json_t *event, int64_t step, double kimg)
{
    json_object_set_new(event, "step", json_integer(step));
    json_object_set_new(event, "kimg", json_real(kimg));
    json_object_set_new(event, "rollbacks",
                        json_integer(report->trainer->progress.rollbacks));
    json_object_set_new(event, "timestamp", json_integer((json_int_t)time(NULL)));
    struct history_note note;
    if (history_note_of(event, &note))
        history_add_note(monitor_history(report->monitor), &note);
    char *line = json_text(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(event);
    if (line)
        run_folder_line(report->folder, RUN_LOG_EVENTS, line);
    free(line);
}

// Of the step that was last collected.
static void write_step_event(struct report *report, json_t *event)
{
    const struct results_place *place = &report->trainer->last.place;
    write_event(report, event, place->step, (double)place->images / 1000.0);
}

static const char *overflow_word(const struct step_record *record)
{
    if (record->found_inf != 0.0f)
        return "inf or NaN in its gradients";
    if (record->found_inf_unscaled != 0.0f)
        return "a gradient became inf when unscaled";
    return "gradients that are finite add up to inf";
}

static json_t *scale_event(const char *word, int network,
                           const struct step_record *record)
{
    return json_pack("{s:s, s:s, s:f, s:f}", "event", word, "net", role_letter(network),
                     "scale_before", (double)record->scale_used, "scale_after",
                     (double)record->scale_after);
}

/* ---- D's loss on fakes, with a scale of its own ----------------------------------- */

// Its record of this optimizer step, or NULL.
static const struct step_record *fake_record(const struct trainer *trainer, int slot)
{
    return slot < trainer->results.fake_count ? &trainer->last.view.fakes[slot] : NULL;
}

// "real", "fakes", "both" or "their sum"; NULL where D has one scale.
static const char *overflowed_loss(const struct trainer *trainer, int slot)
{
    const struct step_record *fake = fake_record(trainer, slot);
    if (!fake)
        return NULL;
    int real = step_has_overflowed(&trainer->last.view.records[slot]);
    int fakes = step_has_overflowed(fake);
    if (!real && !fakes)
        return "their sum";
    return real && fakes ? "both" : fakes ? "fakes" : "real";
}

static void set_fake_scale(json_t *event, float before, float after)
{
    json_object_set_new(event, "fake_scale_before", json_real((double)before));
    json_object_set_new(event, "fake_scale_after", json_real((double)after));
}

// Adds what the skip did to it.
static void add_fake_scale(json_t *event, const struct trainer *trainer, int slot)
{
    const struct step_record *fake = fake_record(trainer, slot);
    if (!fake)
        return;
    json_object_set_new(event, "loss", json_string(overflowed_loss(trainer, slot)));
    set_fake_scale(event, fake->scale_used, fake->scale_after);
}

// Its growth is told by itself: D's own scale has not moved with it.
static void event_fake_growth(struct report *report, int slot)
{
    const struct step_record *fake = fake_record(report->trainer, slot);
    char after[32];
    if (!fake || fake->scale_after <= fake->scale_used)
        return;
    run_folder_log(report->folder, "step %lld: D's scale on fakes grew to %s",
                   (long long)report->trainer->last.place.step,
                   scale_text(fake->scale_after, after, sizeof after));
    json_t *event = json_pack("{s:s, s:s}", "event", "growth", "net", "D");
    json_object_set_new(event, "loss", json_string("fakes"));
    set_fake_scale(event, fake->scale_used, fake->scale_after);
    write_step_event(report, event);
}

/* ---- skips ----------------------------------------------------------------------- */

// "d.conv3: weight gradient", or "" where nothing is left to be seen.
static void place_text(const struct diagnosis *diagnosis, char text[WATCH_PLACE])
{
    text[0] = '\0';
    if (diagnosis->facts.has_place)
        snprintf(text, WATCH_PLACE, "%s: %s", diagnosis->place.layer,
                 diagnosis->place.tensor);
}

// "; 3 inf, 0 NaN, largest finite 65472 there".
static const char *counts_text(const struct diagnosis *diagnosis, char *text,
                               size_t bytes)
{
    static const char *const where[] = {" in its weight gradients", " there"};
    const struct overflow_facts *facts = &diagnosis->facts;
    int is_there = diagnosis->is_exact || facts->kind != SURVEY_ACTIVATION_GRADIENT;
    char inf[32], nan[32];
    text[0] = '\0';
    if (facts->has_place)
        snprintf(text, bytes, "; %s inf, %s NaN, largest finite %.4g%s%s%s",
                 count_text((int64_t)facts->inf, inf, sizeof inf),
                 count_text((int64_t)facts->nan, nan, sizeof nan),
                 (double)facts->max_finite, where[is_there],
                 diagnosis->pass[0] ? ", pass " : "", diagnosis->pass);
    return text;
}

// "; scale 2^10 -> 2^9", with the loss that overflowed where D has a scale for each.
static const char *change_text(const struct trainer *trainer, int slot, char *text,
                               size_t bytes)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    const struct step_record *fake = fake_record(trainer, slot);
    char before[32], after[32];
    int length = snprintf(text, bytes, "; scale %s -> %s",
                          scale_text(record->scale_used, before, sizeof before),
                          scale_text(record->scale_after, after, sizeof after));
    if (fake && (size_t)length < bytes)
        snprintf(text + length, bytes - (size_t)length,
                 ", on fakes %s -> %s; overflow: %s",
                 scale_text(fake->scale_used, before, sizeof before),
                 scale_text(fake->scale_after, after, sizeof after),
                 overflowed_loss(trainer, slot));
    return text;
}

// Of D, where its loss on fakes has a scale: what that one found counts too.
static const char *reason_text(const struct trainer *trainer, int slot)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    const struct step_record *fake = fake_record(trainer, slot);
    return overflow_word(fake && !step_has_overflowed(record) ? fake : record);
}

/* ---- the images of D's skips ------------------------------------------------------ */

// Positions in the data set, and the files there without those whose names are not UTF-8.
static void add_images(json_t *event, const struct trainer *trainer, int slot)
{
    char *const *names = trainer->dataset->files;
    json_t *images = json_array(), *files = json_array();
    size_t index[IMAGES_MAX];
    size_t count = diagnosis_images(trainer, slot, index, IMAGES_MAX);
    for (size_t i = 0; i < count && i < IMAGES_MAX; i++) {
        json_array_append_new(images, json_integer((json_int_t)index[i]));
        if (names)
            json_array_append_new(files, json_string(names[index[i]]));
    }
    json_object_set_new(event, "images", images);
    json_object_set_new(event, "files", files);
}

struct outlier {
    int place;    // among the step's images, -1 for none
    size_t image; // position in the data set
    const char *file;
    char picture[64]; // "" where there are enough
    char text[768];
};

/* The outlier comes first in the picture. Of a run whose data are full of them, the first
 * BATCH_PICTURES are enough. */
static void draw_batch(struct report *report, struct outlier *outlier, size_t *images,
                       size_t count)
{
    if (report->batch_pictures >= BATCH_PICTURES)
        return;
    images[outlier->place] = images[0];
    images[0] = outlier->image;
    snprintf(outlier->picture, sizeof outlier->picture, "batch-step%lld.png",
             (long long)report->trainer->last.place.step);
    if (report_write_images(report, images, count, outlier->picture) != STATUS_OK) {
        report_print(report, "warning: %s", status_message());
        outlier->picture[0] = '\0';
        return;
    }
    report->batch_pictures += 1;
}

static void find_outlier(struct report *report, int slot, struct diagnosis *diagnosis,
                         struct outlier *outlier)
{
    struct trainer *trainer = report->trainer;
    size_t images[IMAGES_MAX];
    size_t count = diagnosis_images(trainer, slot, images, IMAGES_MAX);
    if (count == 0 || count > IMAGES_MAX ||
        !outlier_is_possible(trainer, diagnosis, slot, report->good_scale[ROLE_D],
                             report->quiet_steps[ROLE_D]))
        return;
    int row = outlier_find(trainer, diagnosis);
    if (row < 0)
        return;
    diagnosis->cause = CAUSE_OUTLIER;
    outlier->place = (int)count - trainer->config.batch + row;
    outlier->image = images[outlier->place];
    outlier->file =
        trainer->dataset->files ? trainer->dataset->files[outlier->image] : "";
    draw_batch(report, outlier, images, count);
    snprintf(outlier->text, sizeof outlier->text, "image %zu of the data%s%s%s%s",
             outlier->image, outlier->file[0] ? ", " : "", outlier->file,
             outlier->picture[0] ? ", the first in " : "", outlier->picture);
}

static void add_outlier(json_t *event, const struct outlier *outlier)
{
    json_object_set_new(event, "image", json_integer((json_int_t)outlier->image));
    if (outlier->picture[0])
        json_object_set_new(event, "picture", json_string(outlier->picture));
}

static void add_diagnosis(json_t *event, const struct diagnosis *diagnosis)
{
    const struct overflow_facts *facts = &diagnosis->facts;
    int has = facts->has_place;
    json_object_set_new(event, "layer",
                        has ? json_string(diagnosis->place.layer) : json_null());
    json_object_set_new(event, "tensor",
                        has ? json_string(diagnosis->place.tensor) : json_null());
    json_object_set_new(event, "pass", json_string(diagnosis->pass));
    json_object_set_new(event, "inf",
                        has ? json_integer((json_int_t)facts->inf) : json_null());
    json_object_set_new(event, "nan",
                        has ? json_integer((json_int_t)facts->nan) : json_null());
    json_object_set_new(event, "max_finite",
                        has ? json_real((double)facts->max_finite) : json_null());
    json_object_set_new(event, "exact", json_boolean(diagnosis->is_exact));
    json_object_set_new(event, "forward_finite", json_boolean(facts->forward_finite));
    json_object_set_new(event, "cause",
                        json_string(overflow_cause_word(diagnosis->cause)));
}

static void event_skip(struct report *report, int slot, char place[WATCH_PLACE])
{
    const struct trainer *trainer = report->trainer;
    const struct step_record *record = &trainer->last.view.records[slot];
    int network = train_slot_network(trainer, slot);
    struct diagnosis diagnosis;
    struct outlier outlier = {.place = -1};
    diagnose(trainer, slot, &diagnosis);
    place_text(&diagnosis, place);
    find_outlier(report, slot, &diagnosis, &outlier);
    char change[160], counts[160], advice[1024];
    overflow_advice(diagnosis.cause, &diagnosis.facts, role_letter(network), outlier.text,
                    advice, sizeof advice);
    run_folder_log(report->folder, "step %lld: %s skipped, %s%s%s%s%s%s%s%s",
                   (long long)trainer->last.place.step, role_letter(network),
                   reason_text(trainer, slot), place[0] ? " (first in " : "", place,
                   place[0] ? ")" : "", change_text(trainer, slot, change, sizeof change),
                   counts_text(&diagnosis, counts, sizeof counts), advice[0] ? "; " : "",
                   advice);
    json_t *event = scale_event("skip", network, record);
    add_diagnosis(event, &diagnosis);
    add_images(event, trainer, slot);
    if (outlier.place >= 0)
        add_outlier(event, &outlier);
    add_fake_scale(event, trainer, slot);
    write_step_event(report, event);
}

/* ---- steps that were not skipped ------------------------------------------------- */

static void event_held(struct report *report, int slot)
{
    const struct trainer *trainer = report->trainer;
    int network = train_slot_network(trainer, slot);
    run_folder_log(report->folder, "step %lld: %s held back, because %s overflowed",
                   (long long)trainer->last.place.step, role_letter(network),
                   role_letter(!network));
    write_step_event(report,
                     scale_event("held", network, &trainer->last.view.records[slot]));
}

// A scale that moved without a skip of its network: it grew, or is shared.
static void event_rescale(struct report *report, int network,
                          const struct step_record *record)
{
    int has_grown = record->scale_after > record->scale_used;
    char after[32];
    run_folder_log(report->folder, "step %lld: %s's scale %s to %s",
                   (long long)report->trainer->last.place.step, role_letter(network),
                   has_grown ? "grew" : "went down with the other's",
                   scale_text(record->scale_after, after, sizeof after));
    write_step_event(report,
                     scale_event(has_grown ? "growth" : "backoff", network, record));
}

// A long quiet spell is what makes an overflow remarkable, and a scale that has held for
// a whole growth interval. Unlike the watch's, that one stays good after an overflow: of
// a few odd images each is named.
static void count_quiet_steps(struct report *report, int network,
                              const struct step_record *record)
{
    if (record->was_skipped)
        report->quiet_steps[network] = 0;
    else if (!record->was_held)
        report->quiet_steps[network] += 1;
    if (!record->was_skipped && record->scale_after > record->scale_used)
        report->good_scale[network] = record->scale_used;
}

void event_write(struct report *report, json_t *event)
{
    write_step_event(report, event);
}

void event_write_scales(struct report *report, json_t *event)
{
    const struct trainer *trainer = report->trainer;
    json_object_set_new(event, "scale_g",
                        json_real((double)trainer->last.record[ROLE_G].scale_after));
    json_object_set_new(event, "scale_d",
                        json_real((double)trainer->last.record[ROLE_D].scale_after));
    if (trainer->topology.kind == TOPOLOGY_PER_LOSS)
        json_object_set_new(event, "scale_d_fake",
                            json_real((double)trainer->last.fake_record.scale_after));
    write_step_event(report, event);
}

void event_optimizer_step(struct report *report, int slot, char place[WATCH_PLACE])
{
    const struct trainer *trainer = report->trainer;
    const struct step_record *record = &trainer->last.view.records[slot];
    int network = train_slot_network(trainer, slot);
    int is_moved = record->scale_after != record->scale_used;
    place[0] = '\0';
    if (record->was_skipped)
        event_skip(report, slot, place);
    else if (is_moved)
        event_rescale(report, network, record);
    count_quiet_steps(report, network, record);
    if (record->was_held)
        event_held(report, slot);
    event_fake_growth(report, slot);
    // The one scale that both have moves twice in a step: each of them tells both moves.
    if (is_moved && trainer->topology.kind == TOPOLOGY_SHARED_PER_STEP)
        event_rescale(report, !network, record);
}

void event_found_scale(struct report *report, const struct found_scales *found, int index)
{
    static const char *const words[] = {[FOUND_LIMIT] = "limit",
                                        [FOUND_NO_LIMIT] = "no limit",
                                        [FOUND_NOTHING] = "nothing"};
    const struct found_scale *scale = &found->of[index];
    int is_seen = scale->bad.layer[0] != '\0';
    json_t *largest = scale->kind == FOUND_NOTHING
                          ? json_null()
                          : json_real(ldexp(1.0, scale->exponent));
    write_step_event(
        report, json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:s, s:s, s:i, s:f}", "event",
                          "init_scale", "net", role_letter(scale->network), "loss",
                          scale->loss, "found", words[scale->kind], "largest", largest,
                          "scale", (double)scale->start, "layer", scale->bad.layer,
                          "tensor", is_seen ? scale->bad.tensor : "", "rehearsals",
                          found->rehearsals, "seconds", found->seconds));
}

void event_change(struct report *report, const struct change *change, const char *by)
{
    const struct trainer *trainer = report->trainer;
    int has_net = change->network != CHANGE_OF_RUN;
    json_t *event =
        json_pack("{s:s, s:s*, s:s, s:s, s:s, s:o*, s:o*, s:s}", "event", "change", "net",
                  has_net ? role_letter(change->network) : NULL, "key", change->key,
                  "before", change->before, "after", change->after, "scale_before",
                  has_net ? json_real((double)change->scale_before) : NULL, "scale_after",
                  has_net ? json_real((double)change->scale_after) : NULL, "by", by);
    if (change->fake_scale_after > 0.0f)
        set_fake_scale(event, change->fake_scale_before, change->fake_scale_after);
    write_event(report, event, trainer->progress.step, trainer_kimg(trainer));
}

void event_word(struct report *report, const char *word, const char *reason)
{
    json_t *event = json_pack("{s:s}", "event", word);
    if (reason[0])
        json_object_set_new(event, "reason", json_string(reason));
    const struct trainer *trainer = report->trainer;
    write_event(report, event, trainer->progress.step, trainer_kimg(trainer));
}
