/* plan_cache.h - finished plans on disk, so that a second start compiles nothing.
 * Flow:  plan_build() -> [plan_cache_load], or heuristics and compiler, then
 *        [plan_cache_save].
 * Owns:  nothing between calls.
 *
 * One file per plan, named by a hash of its key: cuDNN's version, the device, the graph
 * and the filters. A file is written beside its name and renamed, so several processes
 * may share a folder. A file that is unreadable, cut short, altered, of another key or
 * another version counts as absent, and is replaced. Nothing here is ever an error. */
#ifndef KERNELS_CUDA_PLAN_CACHE_H
#define KERNELS_CUDA_PLAN_CACHE_H

#include <stddef.h>

#include "kernels/cuda/cuda_plan.h"

/* $XDG_CACHE_HOME/twinscale/plans, else $HOME/.cache/twinscale/plans, made if needed;
 * into `path`, which is returned. NULL where there is no such place. */
const char *plan_cache_folder(char *path, size_t bytes);

/* 1 if maker->cache_folder held the plan and cuDNN took it. */
int plan_cache_load(struct plan_maker *maker, const struct plan_desc *desc,
                    int wants_tensor_cores, struct cuda_plan *plan);
void plan_cache_save(const struct plan_maker *maker, int wants_tensor_cores,
                     const struct cuda_plan *plan);

/* The path of a plan's file, into `path`. */
#define PLAN_CACHE_PATH 512
const char *plan_cache_path(const struct plan_maker *maker, const struct plan_desc *desc,
                            int wants_tensor_cores, char path[PLAN_CACHE_PATH]);

#endif
