/* plan_tune.h - which of several plans for one graph is the fastest on this GPU.
 * Flow:  plan_build() with --tune -> [plan_tune] -> the winner, which the cache keeps.
 * Owns:  device memory of one call. */
#ifndef KERNELS_CUDA_PLAN_TUNE_H
#define KERNELS_CUDA_PLAN_TUNE_H

#include "kernels/cuda/cuda_plan.h"

#define PLAN_TUNE_MAX 5

/* The index of the plan with the shortest median over a few runs on zeros. 0, the
 * heuristics' own first choice, where memory or the measurement fails. */
int plan_tune(struct cudnnContext *handle, struct cuda_plan *plans, int count);

#endif
