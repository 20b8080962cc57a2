/* passes.h - the passes of a training step, as a table.
 * Flow:  step.c runs the rows from the first to the last; the probe, the f32 reference,
 *        the search for an initial scale, the heat map and the reports go through the
 *        same rows.
 * Owns:  nothing.
 *
 *     pass     trains  D reads  target               gradients
 *     d_real   D       real     1 - label_smoothing  of D
 *     d_fake   D       fakes    0                    of D
 *     g_main   G       fakes    1                    through D, of G
 *
 * Which loss scale a pass carries is a column of the scalers' topology
 * (scaler/topology.c). A new pass is a value of enum gan_pass (nets/role.h) and a row in
 * both tables. */
#ifndef APP_TRAIN_PASSES_H
#define APP_TRAIN_PASSES_H

#include "app/config/config.h"
#include "nets/role.h"

enum pass_input { INPUT_REAL, INPUT_FAKES };

struct pass_row {
    const char *word; // "real", in events and sentences
    enum role trains;
    enum pass_input input;
    float target; // of the logits: 1 real, 0 fake
    int is_smoothed;
};

extern const struct pass_row pass_rows[GAN_PASSES];

/* The target of a pass in this run. */
float pass_target(const struct config *config, enum gan_pass pass);

/* How many passes train `role`, and the first of them. */
int pass_count(enum role role);
enum gan_pass pass_first(enum role role);

/* Batches of an optimizer step of the network that a pass trains. */
int pass_batches(const struct config *config, enum gan_pass pass);

#endif
