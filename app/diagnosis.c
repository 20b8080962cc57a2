#include "app/diagnosis.h"

#include <stdio.h>
#include <string.h>

#include "app/input/batch.h"
#include "app/output/progress.h"
#include "app/train.h"

#define STUBBORN_SKIPS 8       // in a row: 2^8 less has not helped
#define SENSIBLE_SCALE 1024.0f // most gradients fit at this one
#define GOOD_SHARE 4           // an interval's part after which a scale counts as tried

/* ---- the cause ------------------------------------------------------------------- */

enum overflow_cause overflow_cause(const struct overflow_facts *facts)
{
    int is_first = facts->skips_in_a_row <= 1;
    int is_tried = facts->good_steps >= facts->growth_interval / GOOD_SHARE;
    if (!facts->has_place && !facts->found_inf)
        return facts->found_inf_unscaled ? CAUSE_UNSCALING : CAUSE_NORM;
    if (!facts->has_place && facts->forward_finite)
        return CAUSE_ELSEWHERE;
    int is_forward =
        !facts->forward_finite || (facts->has_place && facts->kind == SURVEY_ACTIVATION);
    int is_invalid =
        facts->has_place && facts->nan > 0 && facts->inf == 0 && !facts->may_hide_inf;
    if (is_first && facts->only_real && is_tried && !is_invalid)
        return CAUSE_OUTLIER;
    if (is_invalid)
        return CAUSE_INVALID;
    if (is_forward)
        return CAUSE_FORWARD;
    int is_stubborn =
        facts->skips_in_a_row >= STUBBORN_SKIPS && facts->scale <= SENSIBLE_SCALE;
    if (facts->scale < 1.0f || is_stubborn || !facts->is_half)
        return CAUSE_GRADIENTS;
    return CAUSE_SCALE;
}

const char *overflow_cause_word(enum overflow_cause cause)
{
    static const char *const words[] = {
        [CAUSE_SCALE] = "scale",         [CAUSE_OUTLIER] = "outlier",
        [CAUSE_GRADIENTS] = "gradients", [CAUSE_FORWARD] = "forward",
        [CAUSE_INVALID] = "invalid",     [CAUSE_UNSCALING] = "unscaling",
        [CAUSE_NORM] = "norm",           [CAUSE_ELSEWHERE] = "elsewhere"};
    return words[cause];
}

const char *overflow_keep_f32(const struct overflow_facts *facts,
                              char text[OVERFLOW_KEEP])
{
    text[0] = '\0';
    if (facts->fp32_layers[0])
        snprintf(text, OVERFLOW_KEEP,
                 "keep what overflowed in f32 with --fp32-layers %s, ",
                 facts->fp32_layers);
    return text;
}

// "--d-lr", or what keeps more of the range where the precision is the limit.
static void advise_range(const struct overflow_facts *facts, const char *network,
                         char *text, size_t bytes)
{
    char letter = network[0] == 'G' ? 'g' : 'd', keep[OVERFLOW_KEEP];
    if (facts->is_half)
        snprintf(text, bytes, "lower --%c-lr, %sor train with --precision bf16 or fp32",
                 letter, overflow_keep_f32(facts, keep));
    else
        snprintf(text, bytes, "lower --%c-lr", letter);
}

const char *overflow_advice(enum overflow_cause cause, const struct overflow_facts *facts,
                            const char *network, const char *files, char *text,
                            size_t bytes)
{
    char range[OVERFLOW_KEEP + 96];
    advise_range(facts, network, range, sizeof range);
    switch (cause) {
    case CAUSE_SCALE:
        snprintf(text, bytes,
                 "the scale was too high for this layer; it has been lowered, nothing "
                 "needs to be done");
        break;
    case CAUSE_OUTLIER:
        snprintf(text, bytes,
                 "only real images overflowed, at a scale that was good for many: one of "
                 "them may be unlike the others; look at %s",
                 files[0] ? files : "this batch");
        break;
    case CAUSE_GRADIENTS:
        snprintf(text, bytes, "gradients stay out of range at any scale; %s", range);
        break;
    case CAUSE_FORWARD:
        snprintf(text, bytes,
                 "activations left the range of the forward pass, so no loss scale can "
                 "help; %s",
                 range);
        break;
    case CAUSE_INVALID:
        snprintf(text, bytes,
                 "NaN with no inf before it: a division by zero, an exp out of range, or "
                 "a weight that is NaN already; go on from an older snapshot with a "
                 "lower --%c-lr",
                 network[0] == 'G' ? 'g' : 'd');
        break;
    case CAUSE_UNSCALING:
        snprintf(text, bytes,
                 "dividing by a scale below 1 took a finite gradient out of range; %s",
                 range);
        break;
    case CAUSE_NORM:
        snprintf(text, bytes, "each gradient is finite, their norm is not; %s", range);
        break;
    case CAUSE_ELSEWHERE:
        snprintf(text, bytes,
                 "no tensor of the last batch here holds it: an earlier batch of the "
                 "step, another device, or a fault planted with --inject");
        break;
    }
    return text;
}

/* ---- the facts ------------------------------------------------------------------- */

// The types that meet where a row reads the one before: f32 cast to f16 may make an inf
// that only what comes out of the row shows, as a NaN.
static int reads_cast(const struct survey_entry *entry)
{
    const struct layer *layer = &entry->net->layers[entry->row];
    return layer->casts_input && layer->dtype == DTYPE_F16;
}

static void take_stats(struct diagnosis *diagnosis, const struct survey *survey,
                       const struct survey_stats *stats)
{
    diagnosis->entry = &survey->entry[diagnosis->place.entry];
    diagnosis->facts.has_place = 1;
    diagnosis->facts.may_hide_inf =
        diagnosis->place.kind == SURVEY_ACTIVATION && reads_cast(diagnosis->entry);
    diagnosis->facts.kind = diagnosis->place.kind;
    diagnosis->facts.inf = stats->inf;
    diagnosis->facts.nan = stats->nan;
    diagnosis->facts.max_finite = stats->max_abs;
}

// From the step that was taken again. The pass over real images comes first in D's.
static int find_in_view(const struct trainer *trainer, int slot,
                        struct diagnosis *diagnosis)
{
    static const char *const words[] = {"real", "fakes", "generator"};
    const struct look_view *view = look_at_skip(trainer, slot);
    int is_bad[LOOK_PASSES] = {0}, first = -1;
    for (int pass = LOOK_PASSES - 1; view && pass >= 0; pass--) {
        const struct survey *survey = &trainer->look.survey[pass];
        struct nonfinite_place place;
        if (!view->has[pass] ||
            !survey_first_nonfinite(survey, view->stats[pass], &place))
            continue;
        is_bad[pass] = 1;
        first = pass;
        diagnosis->place = place;
    }
    if (first < 0)
        return 0;
    take_stats(diagnosis, &trainer->look.survey[first],
               &view->stats[first][diagnosis->place.entry]);
    diagnosis->pass = words[first];
    diagnosis->is_exact = 1;
    // Weight gradients of both passes are added up: the activations' own tell the pass.
    const struct survey *fakes = &trainer->look.survey[LOOK_D_FAKE];
    is_bad[LOOK_D_FAKE] = 0;
    for (int i = 0; first == LOOK_D_REAL && i < fakes->count; i++)
        if (fakes->entry[i].kind != SURVEY_WEIGHT_GRADIENT)
            is_bad[LOOK_D_FAKE] |= view->stats[LOOK_D_FAKE][i].inf > 0 ||
                                   view->stats[LOOK_D_FAKE][i].nan > 0;
    diagnosis->facts.only_real = first == LOOK_D_REAL && !is_bad[LOOK_D_FAKE];
    return 1;
}

static int is_norm(const struct survey_entry *entry)
{
    return entry->net->layers[entry->row].kind == LAYER_BATCH_NORM;
}

/* True when what `entry` handed on was spoilt. The nearest batch norm below tells: its
 * gradients are f32 sums, not finite only where what it received was not. Without one, any
 * layer below. */
static int spoils_layers_below(const struct survey *survey, int entry,
                               const struct survey_stats *stats)
{
    int is_spoilt = 0;
    for (int i = entry + 1; i < survey->count; i++) {
        const struct survey_entry *below = &survey->entry[i];
        if (below->kind != SURVEY_WEIGHT_GRADIENT ||
            below->row >= survey->entry[entry].row)
            continue;
        if (is_norm(below))
            return stats[i].inf + stats[i].nan > 0;
        is_spoilt |= stats[i].inf + stats[i].nan > 0;
    }
    return is_spoilt;
}

// From activations and weight gradients at the step's end.
static int find_in_survey(const struct trainer *trainer, int slot,
                          struct diagnosis *diagnosis)
{
    const struct survey *survey = &trainer->survey[train_slot_network(trainer, slot)];
    const struct survey_stats *stats =
        trainer->last.stats + slot * trainer->results.stats_count;
    struct nonfinite_place *place = &diagnosis->place;
    if (!survey_first_nonfinite(survey, stats, place))
        return 0;
    take_stats(diagnosis, survey, &stats[place->entry]);
    const struct survey_entry *entry = &survey->entry[place->entry];
    if (place->kind != SURVEY_WEIGHT_GRADIENT)
        return 1;
    // A batch norm's are f32 sums over its gradient: they do not overflow by themselves.
    if (is_norm(entry) || spoils_layers_below(survey, place->entry, stats)) {
        place->kind = diagnosis->facts.kind = SURVEY_ACTIVATION_GRADIENT;
        place->tensor = survey_kind_name(place->kind);
        diagnosis->facts.may_hide_inf = 1;
    }
    return 1;
}

/* ---- what f32 would mend --------------------------------------------------------- */

static void add_layer(struct overflow_facts *facts, const struct net *net, int row)
{
    char name[NET_NAME_MAX + 8];
    size_t used = strlen(facts->fp32_layers);
    if (net->layers[row].dtype == DTYPE_F16)
        snprintf(facts->fp32_layers + used, sizeof facts->fp32_layers - used, "%s%s",
                 used ? "," : "",
                 survey_layer(&(struct survey_entry){.net = net, .row = row}, name));
}

// The row that reads `row`'s output, and makes its gradient: of D, for the last one of G.
static void add_reader(struct overflow_facts *facts, const struct trainer *trainer,
                       const struct net *net, int row)
{
    if (row + 1 < net->layer_count)
        add_layer(facts, net, row + 1);
    else if (net == &trainer->player[NETWORK_G].net)
        add_layer(facts, &trainer->player[NETWORK_D].net, 0);
}

/* An activation and its gradient are f32 all the way only where the layer that writes it and
 * the one that reads it are: between types both are cast, which overflows just the same. What
 * is one op with the layer's own belongs to it. A weight gradient is the layer's alone. */
static void name_layers(const struct trainer *trainer, struct diagnosis *diagnosis)
{
    struct overflow_facts *facts = &diagnosis->facts;
    const struct survey_entry *entry = diagnosis->entry;
    if (!facts->has_place || diagnosis->cause == CAUSE_INVALID)
        return; // no matter of range
    if (facts->kind == SURVEY_ACTIVATION && entry->dtype != DTYPE_F16 &&
        !reads_cast(entry))
        return;
    const struct layer *layer = &entry->net->layers[entry->row];
    add_layer(facts, entry->net, entry->row);
    if (facts->kind == SURVEY_WEIGHT_GRADIENT)
        return;
    int last = layer->fused_activation >= 0 ? layer->fused_activation : entry->row;
    if (last != entry->row)
        add_layer(facts, entry->net, last);
    add_reader(facts, trainer, entry->net, last);
}

/* ---- the whole ------------------------------------------------------------------- */

static int had_finite_logits(const struct trainer *trainer, int slot)
{
    if (train_slot_network(trainer, slot) == NETWORK_G)
        return train_losses(trainer).g.nonfinite == 0.0;
    struct step_losses losses = train_turn_losses(trainer, slot);
    return losses.real.nonfinite + losses.fake.nonfinite == 0.0;
}

void diagnose(const struct trainer *trainer, int slot, int64_t good_steps,
              struct diagnosis *diagnosis)
{
    const struct step_record *record = &trainer->last.records[slot];
    int network = train_slot_network(trainer, slot);
    *diagnosis = (struct diagnosis){
        .pass = "",
        .facts = {
            .forward_finite = had_finite_logits(trainer, slot),
            .is_half = trainer_gradients_are_half(&trainer->config, network),
            .found_inf = record->found_inf != 0.0f || record->found_inf_elsewhere != 0.0f,
            .found_inf_unscaled = record->found_inf_unscaled != 0.0f,
            .scale = record->scale_used,
            .skips_in_a_row = record->skipped_in_a_row,
            .good_steps = good_steps,
            .growth_interval = trainer->player[network].scaler.config.growth_interval}};
    if (!find_in_view(trainer, slot, diagnosis))
        find_in_survey(trainer, slot, diagnosis);
    diagnosis->cause = overflow_cause(&diagnosis->facts);
    name_layers(trainer, diagnosis);
}

/* ---- images ---------------------------------------------------------------------- */

size_t diagnosis_images(const struct trainer *trainer, int slot, size_t *images,
                        size_t room)
{
    const struct config *config = &trainer->config;
    if (train_slot_network(trainer, slot) == NETWORK_G)
        return 0;
    int64_t per_turn = (int64_t)config->batch * config->d.accum;
    int64_t first = trainer->last_place.images - config_step_images(config) +
                    (int64_t)slot * per_turn;
    size_t count = (size_t)per_turn < room ? (size_t)per_turn : room;
    batch_indices(trainer->dataset, trainer_stream_seed(trainer), (uint64_t)first, count,
                  images);
    return (size_t)per_turn;
}
