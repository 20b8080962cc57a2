/* inject.h - plants faults, so that a run can show what they do.
 * Flow:  [inject_prepare] -> [inject_weights] -> forward -> [inject_activation] ->
 *        backward -> [inject_gradient] -> scaler's check.
 * Owns:  nothing; what it adds lies in the trainer's memory.
 *
 * `--inject d:10-40:inf,g:5:nan-forward` plants in steps 10 to 40 and in step 5 (the
 * first is 1; "d:10-:nan" has no end):
 *   inf, nan          in the network's first weight gradient
 *   nan-forward       a NaN in the first value of its output, in every forward pass
 *   huge-activation   60000 there, which f16 still holds; what multiplies it may not
 *   bad-weight        an inf in its first weight, before the step
 * Gradients and activations on the last of several devices only, to show how they agree;
 * weights on all, for all have the same.
 *
 * A step queues the same ops every time: what they add, mostly 0, is written to the
 * device before it. After a rollback only faults without an end are planted: the others
 * were met once, as a bad batch would be. */
#ifndef APP_TRAIN_INJECT_H
#define APP_TRAIN_INJECT_H

#include "app/config/config.h"
#include "kernels/tensor.h"

struct trainer;

enum planted_place {
    PLANTED_GRADIENT,
    PLANTED_ACTIVATION,
    PLANTED_WEIGHT,
    PLANTED_PLACES
};

struct planted {
    int count; // of faults that the run may plant
    struct planted_fault fault[FAULTS_MAX];
    float *values;          // device: [2 networks][PLANTED_PLACES]
    struct tensor pixel[2]; // device: f32 copy of the pixel that holds the activation
};

/* Asks the trainer's open arena for room, after the networks. */
void inject_reserve(struct trainer *trainer);

/* Before a step: writes what this step plants to the device. */
void inject_prepare(struct trainer *trainer);

/* In a step, the same ops every time. */
void inject_weights(struct trainer *trainer);
void inject_activation(struct trainer *trainer, int network);
void inject_gradient(struct trainer *trainer, int network);

#endif
