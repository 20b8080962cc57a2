/* adam.h - one network's optimizer: settings, and the flat moments.
 * Flow:  grads -> grad_scaler_step() -> [adam_step] -> params and their half copy.
 * Owns:  m and v (one arena).  Borrows: the net. Adam's t lives in the scaler's state. */
#ifndef NETS_ADAM_H
#define NETS_ADAM_H

#include "nets/net.h"

struct adam_config {
    float lr, beta1, beta2, eps;
};

struct adam {
    struct adam_config config;
    struct net *net;
    float *m, *v; // [param_elements] f32
    struct arena arena;
};

enum status adam_create(struct adam *adam, struct net *net,
                        const struct adam_config *config);
void adam_release(struct adam *adam);

/* One step, or nothing if state says that the step must be skipped (ops.h). */
void adam_step(struct adam *adam, int is_unscaled, struct scaler_state *state);

#endif
