/* liveness.h - memory for tensors that do not live at the same time.
 * Flow:  net_plan.c says when each buffer is in use -> [liveness_pack] -> an offset for
 *        each.
 * Owns:  nothing. */
#ifndef NETS_LIVENESS_H
#define NETS_LIVENESS_H

#include <stddef.h>

/* A buffer is in use from `first` to `last`, both included. */
struct life {
    size_t bytes;
    int first, last;
    size_t offset; // the result
};

/* True where both are in use at one time. */
int lives_overlap(const struct life *one, const struct life *other);

/* Gives every buffer an offset, a multiple of ARENA_ALIGN, so that no two that overlap in
 * time overlap in memory. Largest first, each at the lowest place that is free: never
 * more than the sum, and the least there is for a chain. `order` has room for count
 * numbers. Returns the bytes that are needed.
 * Source: "greedy by size", Pisarchyk and Lee 2020, arXiv:2001.03288. */
size_t liveness_pack(struct life *lives, int count, int *order);

#endif
