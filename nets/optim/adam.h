/* adam.h - one network's optimizer: settings, and the flat moments.
 * Flow:  grads -> grad_scaler_step() -> [adam_step] -> params and their half copy.
 * Owns:  m and v (one arena).  Borrows: the net, and a moving average that the same sweep
 *        moves (ema_attach). Adam's t lives in the scaler's state. */
#ifndef NETS_OPTIM_ADAM_H
#define NETS_OPTIM_ADAM_H

#include "nets/net.h"
#include "nets/optim/optimizer.h"

struct adam_config {
    float lr, beta1, beta2, eps;
};

struct adam {
    struct optimizer optimizer; // its first member
    struct adam_config config;
    struct net *net;
    float *m, *v;           // [param_elements] f32
    float *ema;             // [param_elements] f32 moving average of the weights, or NULL
    const float *ema_decay; // device scalar
    struct arena arena;
};

enum status adam_create(struct adam *adam, struct net *net,
                        const struct adam_config *config);
void adam_release(struct adam *adam);

/* optimizer.step: of a skipped step the average moves all the same (ops.h). */
void adam_step(struct optimizer *optimizer, int is_unscaled, struct scaler_state *state);

#endif
