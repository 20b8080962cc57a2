#include "app/recovery/diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input/batch.h"
#include "app/train/train.h"
#include "kernels/half.h"
#include "kernels/packed.h"
#include "nets/precision.h"

/* ---- the facts ------------------------------------------------------------------- */

// The types that meet where a row reads the one before: f32 cast to f16 may make an inf
// that only what comes out of the row shows, as a NaN.
static int reads_cast(const struct survey_entry *entry)
{
    const struct node *node = &entry->net->node[entry->node];
    return node->edge[0].is_cast && node->dtype == DTYPE_F16;
}

static void take_stats(const struct trainer *trainer, struct diagnosis *diagnosis,
                       const struct survey *survey, const struct survey_stats *stats)
{
    diagnosis->entry = &survey->entry[diagnosis->place.entry];
    diagnosis->facts.has_place = 1;
    diagnosis->facts.is_in_d = diagnosis->entry->net == &trainer->gan.net[ROLE_D];
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
    const struct probe_view *view = probe_of_skip(trainer, slot);
    int is_bad[PASSES_MAX] = {0}, first = PASS_NONE;
    diagnosis->facts.was_repeated = view != NULL;
    diagnosis->facts.was_tried_at_one = view && view->was_tried_at_one;
    diagnosis->facts.overflows_at_one = view && view->overflows_at_one;
    for (int pass = trainer->gan.passes.count - 1; view && pass >= 0; pass--) {
        const struct survey *survey = &trainer->probe.survey[pass];
        struct nonfinite_place place;
        if (!view->has[pass] ||
            !survey_first_nonfinite(survey, view->stats[pass], &place))
            continue;
        is_bad[pass] = 1;
        first = pass;
        diagnosis->place = place;
    }
    if (first == PASS_NONE)
        return 0;
    diagnosis->facts.is_repeatable = 1;
    take_stats(trainer, diagnosis, &trainer->probe.survey[first],
               &view->stats[first][diagnosis->place.entry]);
    diagnosis->pass = trainer->gan.passes.row[first].word;
    diagnosis->is_exact = 1;
    // Weight gradients of both passes are added up: the activations' own tell the pass.
    const struct survey *fakes = &trainer->probe.survey[PASS_D_FAKE];
    is_bad[PASS_D_FAKE] = 0;
    for (int i = 0; first == PASS_D_REAL && i < fakes->count; i++)
        if (fakes->entry[i].kind != SURVEY_WEIGHT_GRADIENT)
            is_bad[PASS_D_FAKE] |= view->stats[PASS_D_FAKE][i].inf > 0 ||
                                   view->stats[PASS_D_FAKE][i].nan > 0;
    diagnosis->only_real = first == PASS_D_REAL && !is_bad[PASS_D_FAKE];
    return 1;
}

// Where a weight gradient is an f32 sum over the layer's own gradient, as batch norm's
// is, it is not finite only where that was not.
static int sums_in_f32(const struct survey_entry *entry)
{
    const struct node *node = &entry->net->node[entry->node];
    return node_policy(node)->storage[USE_WGRAD] == STORED_F32;
}

/* True when what `entry` handed on was spoilt. The nearest batch norm below tells.
 * Without one, any layer below. */
static int spoils_layers_below(const struct survey *survey, int entry,
                               const struct survey_stats *stats)
{
    int is_spoilt = 0;
    for (int i = entry + 1; i < survey->count; i++) {
        const struct survey_entry *below = &survey->entry[i];
        if (below->kind != SURVEY_WEIGHT_GRADIENT ||
            below->node >= survey->entry[entry].node)
            continue;
        if (sums_in_f32(below))
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
        trainer->last.view.stats + slot * trainer->results.stats_count;
    struct nonfinite_place *place = &diagnosis->place;
    if (!survey_first_nonfinite(survey, stats, place))
        return 0;
    take_stats(trainer, diagnosis, survey, &stats[place->entry]);
    const struct survey_entry *entry = &survey->entry[place->entry];
    if (place->kind != SURVEY_WEIGHT_GRADIENT)
        return 1;
    if (sums_in_f32(entry) || spoils_layers_below(survey, place->entry, stats)) {
        place->kind = diagnosis->facts.kind = SURVEY_ACTIVATION_GRADIENT;
        place->tensor = survey_kind_name(place->kind);
        diagnosis->facts.may_hide_inf = 1;
    }
    return 1;
}

/* ---- weights --------------------------------------------------------------------- */

// "NaN", "inf" or "-inf": printf would give a NaN its sign.
static const char *nonfinite_word(float value)
{
    return isnan(value) ? "NaN" : value > 0.0f ? "inf" : "-inf";
}

// The first that is inf or NaN, with its index in the checkpoint's tensor.
static int find_bad_value(struct device *device, const struct net *net, int param,
                          char text[OVERFLOW_WEIGHT])
{
    struct tensor tensor = net_param_tensor(net, param, net->params);
    size_t count = tensor_elements(&tensor), i = 0;
    float *values = malloc(count * sizeof *values + tensor_bytes(&tensor));
    if (!values)
        return 0;
    packed_download(device, &tensor, values + count, values);
    while (i < count && is_finite_f32(values[i]))
        i++;
    if (i < count)
        snprintf(text, OVERFLOW_WEIGHT, "%.6s.%.31s[%zu] is %s", net->name,
                 net->param[param].name, i, nonfinite_word(values[i]));
    free(values);
    return i < count;
}

/* Of the layer where inf or NaN came first in the forward pass, or of one before it.
 * Where no layer is known, of the network that was skipped, then of the other. Only
 * there: with such a weight no forward pass is finite. */
static void find_weight(const struct trainer *trainer, struct diagnosis *diagnosis)
{
    struct overflow_facts *facts = &diagnosis->facts;
    if (facts->forward_finite && !(facts->has_place && facts->kind == SURVEY_ACTIVATION))
        return;
    for (int turn = 0; turn < ROLES && !facts->weight[0]; turn++) {
        int is_d = turn ? !facts->is_in_d : facts->is_in_d;
        const struct net *net = &trainer->gan.net[is_d ? ROLE_D : ROLE_G];
        int is_known = facts->has_place && diagnosis->entry->net == net;
        for (int i = 0; i < net->param_count; i++)
            if ((!is_known || net->param[i].node <= diagnosis->entry->node) &&
                find_bad_value(trainer->device, net, i, facts->weight)) {
                facts->is_in_d = is_d;
                break;
            }
        if (facts->has_place)
            break;
    }
}

/* ---- what f32 would mend --------------------------------------------------------- */

static void add_layer(struct overflow_facts *facts, const struct net *net, int row)
{
    char name[NET_NAME_MAX + 8];
    size_t used = strlen(facts->fp32_layers);
    if (net->node[row].dtype == DTYPE_F16)
        snprintf(facts->fp32_layers + used, sizeof facts->fp32_layers - used, "%s%s",
                 used ? "," : "",
                 survey_layer(&(struct survey_entry){.net = net, .node = row}, name));
}

static int reads(const struct node *node, int index)
{
    for (int k = 0; k < node->edge_count; k++)
        if (node->edge[k].from == index)
            return 1;
    return 0;
}

// The nodes that read `index`'s output, and make its gradient: of D, for the last one of
// G.
static void add_readers(struct overflow_facts *facts, const struct trainer *trainer,
                        const struct net *net, int index)
{
    for (int i = index + 1; i < net->node_count; i++)
        if (reads(&net->node[i], index))
            add_layer(facts, net, i);
    if (index + 1 == net->node_count && net == &trainer->gan.net[ROLE_G])
        add_layer(facts, &trainer->gan.net[ROLE_D], 0);
}

/* An activation and its gradient are f32 all the way only where the layer that writes it
 * and the one that reads it are: between types both are cast, which overflows just the
 * same. What is one op with the layer's own belongs to it. A weight gradient is the
 * layer's alone. */
static void name_layers(const struct trainer *trainer, struct diagnosis *diagnosis)
{
    struct overflow_facts *facts = &diagnosis->facts;
    const struct survey_entry *entry = diagnosis->entry;
    int is_nan = facts->inf == 0 && !facts->may_hide_inf;
    if (!facts->has_place || is_nan || diagnosis->cause == CAUSE_WEIGHT)
        return; // no matter of range
    if (facts->kind == SURVEY_ACTIVATION && entry->dtype != DTYPE_F16 &&
        !reads_cast(entry))
        return;
    const struct node *node = &entry->net->node[entry->node];
    add_layer(facts, entry->net, entry->node);
    if (facts->kind == SURVEY_WEIGHT_GRADIENT)
        return;
    int last = node->fused_activation >= 0 ? node->fused_activation : entry->node;
    if (last != entry->node)
        add_layer(facts, entry->net, last);
    add_readers(facts, trainer, entry->net, last);
}

/* ---- the whole ------------------------------------------------------------------- */

static int had_finite_logits(const struct trainer *trainer, int slot)
{
    if (train_slot_network(trainer, slot) == ROLE_G)
        return train_losses(trainer).of[PASS_G_MAIN].nonfinite == 0.0;
    struct step_losses losses = train_turn_losses(trainer, slot);
    return losses.of[PASS_D_REAL].nonfinite + losses.of[PASS_D_FAKE].nonfinite == 0.0;
}

// Where D's losses have a scale each, the one that overflowed tells whether it was
// lowered.
static void take_scale(const struct trainer *trainer, int slot,
                       struct overflow_facts *facts)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    const struct step_record *fake =
        slot < trainer->results.fake_count ? &trainer->last.view.fakes[slot] : NULL;
    if (fake && !step_has_overflowed(record))
        record = fake;
    facts->scale = record->scale_used;
    facts->scale_after = record->scale_after;
    facts->at_floor = record->at_floor;
}

void diagnose(const struct trainer *trainer, int slot, struct diagnosis *diagnosis)
{
    const struct step_record *record = &trainer->last.view.records[slot];
    int network = train_slot_network(trainer, slot);
    *diagnosis = (struct diagnosis){
        .pass = "",
        .facts = {.forward_finite = had_finite_logits(trainer, slot),
                  .is_half = trainer_gradients_are_half(&trainer->config, network),
                  .is_in_d = network == ROLE_D,
                  .found_inf =
                      record->found_inf != 0.0f || record->found_inf_elsewhere != 0.0f,
                  .found_inf_unscaled = record->found_inf_unscaled != 0.0f,
                  .is_static = trainer->scaler[network].config.is_static}};
    take_scale(trainer, slot, &diagnosis->facts);
    if (!find_in_view(trainer, slot, diagnosis))
        find_in_survey(trainer, slot, diagnosis);
    find_weight(trainer, diagnosis);
    diagnosis->cause = overflow_cause(&diagnosis->facts);
    name_layers(trainer, diagnosis);
}

/* ---- images ---------------------------------------------------------------------- */

size_t diagnosis_images(const struct trainer *trainer, int slot, size_t *images,
                        size_t room)
{
    const struct config *config = &trainer->config;
    if (train_slot_network(trainer, slot) == ROLE_G)
        return 0;
    int64_t per_turn = (int64_t)config->batch * config->d.accum;
    int64_t first = trainer->last.place.images - config_step_images(config) +
                    (int64_t)slot * per_turn;
    size_t count = (size_t)per_turn < room ? (size_t)per_turn : room;
    enum status status = batch_indices(trainer->dataset, trainer_stream_seed(trainer),
                                       (uint64_t)first, count, images);
    return status == STATUS_OK ? (size_t)per_turn : 0;
}
