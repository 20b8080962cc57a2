/* optimizer.h - what a loss scaler knows of an optimizer: its gradients, and its step.
 * Flow:  backward -> gradients -> grad_scaler_step() -> [optimizer->step] -> parameters.
 * Owns:  nothing; every optimizer (adam.h) has one as a member. */
#ifndef NETS_OPTIM_OPTIMIZER_H
#define NETS_OPTIM_OPTIMIZER_H

#include <stddef.h>

#include "kernels/scaler_state.h"

#define GRAD_BLOCKS_MAX 4

/* Gradients that one scale covers: blocks of f32 on the device. */
struct gradients {
    int count;
    struct grad_block {
        float *grads;
        size_t n; // 0 has nothing to check
    } block[GRAD_BLOCKS_MAX];
};

struct optimizer {
    struct gradients gradients;
    /* Moves the parameters, or nothing where `state` says that the step must be skipped.
     * `is_unscaled`: the gradients no longer carry state's scale. */
    void (*step)(struct optimizer *optimizer, int is_unscaled,
                 struct scaler_state *state);
};

#endif
