/* report_watch.c - says once what is wrong with how the loss scales move
 * (scaler/watch.h). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/recovery/diagnosis.h"
#include "app/files/json_lines.h"
#include "app/report.h"
#include "app/report_events.h"
#include "app/train/train.h"
#include "kernels/base/text.h"

// 0 for a scale that does not grow.
static int64_t interval_of(const struct report *report, int network)
{
    const struct grad_scaler_config *config = &report->trainer->scaler[network].config;
    return config->enabled && !config->is_static ? config->growth_interval : 0;
}

void report_watch_open(struct report *report)
{
    watch_begin(&report->watch, interval_of(report, ROLE_G), interval_of(report, ROLE_D));
}

void report_watch_follow(struct report *report)
{
    for (int network = 0; network < ROLES; network++)
        report->watch.of[network].growth_interval = interval_of(report, network);
}

// The finding that an event tells; `word` is "oscillation", or a drift's kind.
static int finding_of(const char *word, const char *net)
{
    int is_g = net[0] == 'G';
    if (strcmp(word, "oscillation") == 0)
        return is_g ? WATCH_OSCILLATES_G : WATCH_OSCILLATES_D;
    if (strcmp(word, "stuck") == 0)
        return is_g ? WATCH_STUCK_G : WATCH_STUCK_D;
    if (strcmp(word, "skips") == 0)
        return WATCH_SKIPS_APART;
    return strcmp(word, "scales") == 0 ? WATCH_SCALES_APART : 0;
}

static const char *word_of(json_t *event, const char *key)
{
    const char *word = json_string_value(json_object_get(event, key));
    return word ? word : "";
}

static void recall_event(void *context, json_t *event)
{
    struct report *report = context;
    const char *word = word_of(event, "event");
    if (strcmp(word, "loss") == 0)
        report->logged_losses |= 1 << (word_of(event, "net")[0] == 'G' ? ROLE_G : ROLE_D);
    report->batch_pictures += word_of(event, "picture")[0] != '\0';
    if (strcmp(word, "drift") == 0)
        word = word_of(event, "kind");
    else if (strcmp(word, "oscillation") != 0)
        return;
    report->watch.found |= finding_of(word, word_of(event, "net"));
}

void report_watch_recall(struct report *report, const char *events_path)
{
    json_lines_read(events_path, recall_event, report);
}

/* ---- oscillation ----------------------------------------------------------------- */

// "step 120: d.conv3: weight gradient at 2^14; ..." of the last swings, oldest first.
static void swings_text(const struct watched *own, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = own->swings - WATCH_SWINGS; i < own->swings; i++) {
        const struct watch_swing *swing = &own->swing[i % WATCH_SWINGS];
        char scale[32];
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%sstep %lld: %s at %s",
                                     used ? "; " : "", (long long)swing->step,
                                     swing->place[0] ? swing->place : "not seen where",
                                     scale_text(swing->scale, scale, sizeof scale));
    }
}

static json_t *swings_json(const struct watched *own)
{
    json_t *swings = json_array();
    for (int64_t i = own->swings - WATCH_SWINGS; i < own->swings; i++) {
        const struct watch_swing *swing = &own->swing[i % WATCH_SWINGS];
        json_array_append_new(
            swings, json_pack("{s:I, s:f, s:s}", "at", (json_int_t)swing->step, "scale",
                              (double)swing->scale, "place", swing->place));
    }
    return swings;
}

// In optimizer step `slot`, whose skip is the last of the swings.
static void log_oscillation(struct report *report, int slot)
{
    int network = train_slot_network(report->trainer, slot);
    const struct watched *own = &report->watch.of[network];
    struct diagnosis last;
    char swings[512];
    diagnose(report->trainer, slot, &last);
    const char *layers = last.facts.fp32_layers;
    swings_text(own, swings, sizeof swings);
    report_print(
        report,
        "warning: %s's scale oscillates: %d overflows at scales that had been good "
        "for %lld steps, within %d such intervals (%s). Known causes: a learning "
        "rate that is too high (lower --%c-lr), a network that is unstable "
        "at that layer (a smaller --%c-width, or %s %s), or images "
        "unlike the others (their files are in events.jsonl). This warning is not "
        "repeated",
        role_letter(network), WATCH_SWINGS, (long long)own->growth_interval,
        WATCH_INTERVALS, swings, network == ROLE_G ? 'g' : 'd',
        network == ROLE_G ? 'g' : 'd', layers[0] ? "--fp32-layers" : "--precision",
        layers[0] ? layers : "fp32");
    event_write(report, json_pack("{s:s, s:s, s:o}", "event", "oscillation", "net",
                                  role_letter(network), "swings", swings_json(own)));
}

/* ---- G and D --------------------------------------------------------------------- */

// `net` may be "": both.
static void log_drift(struct report *report, const char *kind, const char *net,
                      const char *sentence)
{
    report_print(report, "warning: %s. This warning is not repeated", sentence);
    event_write(report, json_pack("{s:s, s:s, s:s, s:s}", "event", "drift", "kind", kind,
                                  "net", net, "reason", sentence));
}

static int holds_both(const struct report *report)
{
    return report->trainer->config.skip == SKIP_BOTH;
}

static void log_stuck(struct report *report, int network)
{
    char text[256];
    snprintf(text, sizeof text,
             "%s skipped its last %lld steps while %s took all of its own, and trains "
             "ahead of it; see why in log.txt, or hold both back with --skip both",
             role_letter(network), (long long)report->watch.of[network].stuck,
             role_letter(!network));
    if (holds_both(report)) // where D has more steps than G
        snprintf(text, sizeof text, "%s skipped its last %lld steps; see why in log.txt",
                 role_letter(network), (long long)report->watch.of[network].stuck);
    log_drift(report, "stuck", role_letter(network), text);
}

static void log_rates(struct report *report)
{
    const struct watched *g = &report->watch.of[ROLE_G];
    const struct watched *d = &report->watch.of[ROLE_D];
    char text[256];
    snprintf(text, sizeof text,
             "G skips %.1f %% of its steps and D %.1f %%, so one learns more often than "
             "the other; lower the learning rate of the one that skips%s",
             100.0 * g->skip_rate, 100.0 * d->skip_rate,
             holds_both(report) ? "" : ", or hold both back with --skip both");
    log_drift(report, "skips", "", text);
}

static void log_scales(struct report *report)
{
    char g[32], d[32], text[320];
    snprintf(
        text, sizeof text,
        "the scales of G (%s) and D (%s) have been more than 2^%.0f apart for a "
        "growth interval: the gradients of the one with the larger scale are fading; "
        "see them with --grad-stats",
        scale_text(report->watch.of[ROLE_G].scale, g, sizeof g),
        scale_text(report->watch.of[ROLE_D].scale, d, sizeof d), WATCH_APART);
    log_drift(report, "scales", "", text);
}

void report_watch(struct report *report, int slot, const char *place)
{
    const struct trainer *trainer = report->trainer;
    int network = train_slot_network(trainer, slot);
    int found = watch_step(&report->watch, network, trainer->last.place.step,
                           &trainer->last.view.records[slot], place);
    if (found & (WATCH_OSCILLATES_G | WATCH_OSCILLATES_D))
        log_oscillation(report, slot);
    if (found & (WATCH_STUCK_G | WATCH_STUCK_D))
        log_stuck(report, network);
    if (found & WATCH_SKIPS_APART)
        log_rates(report);
    if (found & WATCH_SCALES_APART)
        log_scales(report);
}

/* ---- losses ---------------------------------------------------------------------- */

void report_watch_loss(struct report *report, int network, double loss)
{
    int64_t *steps = &report->far_steps[network];
    const char *name = role_letter(network);
    char letter = network == ROLE_G ? 'g' : 'd';
    double far =
        (double)loss_at((enum loss_kind)report->trainer->config.loss, LOGIT_FAR, 0.0f)
            .loss;
    *steps = isfinite(loss) && loss > far ? *steps + 1 : 0;
    if (*steps < LOGIT_FAR_STEPS || report->logged_losses & 1 << network)
        return;
    report->logged_losses |= 1 << network;
    report_print(
        report,
        "warning: %s's loss has been above %g for %d steps (now %.4g), where less "
        "than 10 is usual: D's logits are far on the wrong side; look at the samples "
        "and at Loss/scores in stats.jsonl, and lower --%c-lr or go on from an older "
        "snapshot. Said once",
        name, far, LOGIT_FAR_STEPS, loss, letter);
    event_write(report, json_pack("{s:s, s:s, s:f, s:i}", "event", "loss", "net", name,
                                  "loss", loss, "steps", LOGIT_FAR_STEPS));
}
