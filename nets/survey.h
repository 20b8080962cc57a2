/* survey.h - what the tensors of a step hold, looked at on the device.
 * Flow:  backward -> [survey_look] -> scaler's update; later, on the host:
 *        [survey_first_nonfinite]
 *        -> the log's "first in d.conv3: activation".
 * Owns:  the list of tensors, on the device.  Borrows: the networks, and the results,
 *        which lie in the caller's memory.
 *
 *     survey_begin(&survey, device);
 *     survey_add_activations(&survey, &g);          // in the order in which to look
 *     survey_add_gradients(&survey, &d);
 *     TRY(survey_commit(&survey));
 *     survey_look(&survey, scaler_state, stats);    // queued; [survey.count] results
 *
 * With the gate of a scaler it costs one look at a flag unless the step is skipped.
 *
 * Gradients of activations lie in memory that the backward pass uses again and again, so
 * they can only be looked at while it runs: survey_backward() in the place of
 * net_backward(). */
#ifndef NETS_SURVEY_H
#define NETS_SURVEY_H

#include "nets/net.h"

enum survey_kind {
    SURVEY_ACTIVATION,
    SURVEY_ACTIVATION_GRADIENT,
    SURVEY_WEIGHT_GRADIENT,
    SURVEY_KINDS
};

/* "activation", "activation gradient", "weight gradient" */
const char *survey_kind_name(enum survey_kind kind);

/* One tensor of the list. */
struct survey_entry {
    const struct net *net;
    int node; // of the network
    enum survey_kind kind;
    size_t elements; // without padding
    enum dtype dtype;
};

struct survey {
    struct device *device;
    int count, room, is_cut; // cut short: there was no memory, which survey_commit() says
    struct survey_entry *entry;
    struct survey_span *spans_host;
    struct survey_span *spans; // the same, on the device
    struct arena arena;
};

void survey_begin(struct survey *survey, struct device *device);
/* Outputs of all nodes that are kept, in execution order. */
void survey_add_activations(struct survey *survey, struct net *net);
/* Gradients of all parameters in a block of them, in backward order. */
void survey_add_gradients(struct survey *survey, const struct net *net, float *grads);
/* What a backward pass makes, in its order: of each node the gradient of its output, then
 * those of its parameters, where they are asked for. */
void survey_add_backward(struct survey *survey, const struct net *net,
                         const struct backward *pass);
/* STATUS_FAILED without memory, of host or device. */
enum status survey_commit(struct survey *survey);
void survey_release(struct survey *survey);

/* Fills stats [count], in device memory; with a gate (or NULL) as survey.survey says.
 * Entries of kind SURVEY_ACTIVATION_GRADIENT are whatever lies in their memory. */
void survey_look(struct survey *survey, const struct scaler_state *gate,
                 struct survey_stats *stats);

/* The same for the activations of the list alone. */
void survey_look_at_activations(struct survey *survey, struct survey_stats *stats);

/* net_backward(net, pass) that looks at the entries of survey_add_backward(net, pass) on
 * its way; the same bits otherwise. */
void survey_backward(struct survey *survey, struct net *net, const struct backward *pass,
                     struct survey_stats *stats);

/* Where inf or NaN came first. */
struct nonfinite_place {
    char layer[NET_NAME_MAX + 8]; // "d.conv3"
    const char *tensor;           // survey_kind_name()
    enum survey_kind kind;
    int entry; // of the survey
};

/* The first entry, in the order of the list, that holds inf or NaN, from a host copy of
 * the results. 0 and *place untouched when there is none. */
int survey_first_nonfinite(const struct survey *survey, const struct survey_stats *stats,
                           struct nonfinite_place *place);

/* The largest magnitude that an entry may have where it is stored on its way. */
float survey_limit(const struct survey_entry *entry);

/* "d.conv3" of an entry. Returns `text`. */
const char *survey_layer(const struct survey_entry *entry, char text[NET_NAME_MAX + 8]);

#endif
