/* toy.h - the smallest thing a scaler can guard: a few parameters, Adam, and a scaler.
 * Flow:  test plants gradients -> [toy] -> grad_scaler_* -> test looks at everything.
 * Owns:  parameters, optimizer, scaler.  Borrows: the device. */
#ifndef TESTS_SCALER_TOY_H
#define TESTS_SCALER_TOY_H

#include <stdint.h>

#include "nets/optim/adam.h"
#include "scaler/grad_scaler.h"
#include "scaler/topology.h"

#define TOY_MAX 96 // room of every array; param_elements may be less

/* The passes of every GAN. */
extern const struct topology_pass toy_passes[GAN_PASSES];

struct toy {
    struct device *device;
    struct net net; // parameters only: no layers, no activations
    struct adam adam;
    struct grad_scaler scaler;
};

/* Everything that a skipped step must leave alone. */
struct toy_weights {
    float params[TOY_MAX], m[TOY_MAX], v[TOY_MAX];
    int64_t adam_t;
};

/* PyTorch's defaults but for the three that tests vary. */
struct grad_scaler_config toy_config(double init_scale, double growth_factor,
                                     int64_t growth_interval);

/* `n` parameters (0..TOY_MAX) that start at a pattern; fails the test if it cannot. */
void toy_open(struct toy *toy, struct device *device, size_t n,
              const struct grad_scaler_config *config);
void toy_close(struct toy *toy);

/* Group fixtures: one "ref" device for a whole test program; closing tells its fault. */
extern struct device *toy_device;
int toy_open_device(void **state);
int toy_close_device(void **state);

/* Five parameters on toy_device: PyTorch's defaults, or some of them changed. */
void toy_open_default(struct toy *toy);
void toy_open_with(struct toy *toy, double init_scale, double growth_factor,
                   int64_t growth_interval);

void toy_fill_grads(struct toy *toy, float value);
void toy_set_grad(struct toy *toy, size_t index, float value);
void toy_get_grads(const struct toy *toy, float values[TOY_MAX]);
void toy_set_grads(struct toy *toy, const float values[TOY_MAX]);

struct toy_weights toy_weights(const struct toy *toy);
void assert_same_weights(const struct toy_weights *got, const struct toy_weights *want);
void assert_other_params(const struct toy_weights *got,
                         const struct toy_weights *not_these);

/* One whole iteration: scale, gradients of scale/1024 each (times 1/scale: 1/1024) with
 * `planted` in the last one unless it is 0, step, update. */
void toy_iterate(struct toy *toy, float planted);
void toy_good_steps(struct toy *toy, int count);
void toy_bad_steps(struct toy *toy, int count);

/* True if `call` aborts, tried in a process of its own. */
int toy_aborts(struct toy *toy, void (*call)(struct toy *toy));

float toy_scale(const struct toy *toy);
int toy_tracker(const struct toy *toy);
void assert_toy_scale(const struct toy *toy, float scale, int tracker); // bit for bit

uint32_t float_bits(float value);
float float_of_bits(uint32_t bits);

#endif
