/* nccl_shared.h - where the ranks of a group meet: a block of memory that their processes
 * share.
 * Flow:  collective call -> queue of the stream -> [shared_do].
 * Owns:  its part of the block; the block's name is gone once all ranks are there. */
#ifndef TESTS_CUDA_NCCL_SHARED_H
#define TESTS_CUDA_NCCL_SHARED_H

#include <stddef.h>

#include <nccl.h>

struct shared;

/* What a rank wants done; every rank has to want the same. */
struct wish {
    int is_broadcast, root;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
};

/* NULL if the others do not come within STANDIN_NCCL_SECONDS (20). */
struct shared *shared_join(const char *name, int rank, int ranks);

/* Those that wait for this rank see that it is gone. */
void shared_leave(struct shared *shared);

/* Does what all ranks wish. ncclRemoteError if one is gone or does not come in time,
 * ncclInvalidUsage, with a complaint, if they wish different things. */
ncclResult_t shared_do(struct shared *shared, const struct wish *wish, const void *from,
                       void *to);

/* Bytes of one element, 0 for a type that is not modelled. */
size_t element_bytes(ncclDataType_t type);

#endif
