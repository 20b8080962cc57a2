/* passes.h - the passes of a training step, as a table.
 * Flow:  config -> [passes_choose] -> step.c runs the rows from the first to the last;
 *        the probe, the f32 reference, the search for an initial scale, the scalers'
 *        topology, the heat map and the reports go through the same rows.
 * Owns:  nothing.
 *
 *     pass     trains  D reads  loss      target               scale in per-loss
 *     d_real   D       real     --loss    1 - label_smoothing  d
 *     d_fake   D       fakes    --loss    0                    d_fake
 *     g_main   G       fakes    --loss    1                    g
 *
 * In the other topologies a pass carries the scale of the network that it trains. A new
 * pass is a row in passes_choose(), after these three. */
#ifndef APP_TRAIN_PASSES_H
#define APP_TRAIN_PASSES_H

#include "app/config/config.h"
#include "kernels/losses.h"
#include "nets/role.h"

enum pass_input { INPUT_REAL, INPUT_FAKES };

struct pass_row {
    const char *word; // "real", in events and sentences
    enum role trains;
    enum pass_input input;
    enum loss_kind loss;
    float target;           // of the logits: 1 real, 0 fake
    float weight;           // of the loss
    int has_scale_of_fakes; // in TOPOLOGY_PER_LOSS
};

struct passes {
    struct pass_row row[PASSES_MAX];
    int count;
};

/* Those of a run with this config. */
void passes_choose(struct passes *passes, const struct config *config);

/* How many train `role`, and the first of them. */
int passes_count(const struct passes *passes, enum role role);
int passes_first(const struct passes *passes, enum role role);

/* How many before `pass` train the same network. */
int passes_place(const struct passes *passes, int pass);

#endif
