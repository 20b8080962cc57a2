/* plan_graph.h - what a plan_desc means, in cuDNN's descriptors.
 * Flow:  plan_build() -> [plan_graph] -> heuristics -> plan.
 * Owns:  every descriptor made on the way, until plan_parts_release(). */
#ifndef KERNELS_CUDA_PLAN_GRAPH_H
#define KERNELS_CUDA_PLAN_GRAPH_H

#include <cudnn.h>

#include "kernels/cuda/cuda_plan.h"

#define PLAN_PARTS_MAX 96

/* Descriptors that live and die together. The first failure stays; calls after it do
 * nothing, so that a sequence is checked once, at its end. */
struct plan_parts {
    cudnnBackendDescriptor_t made[PLAN_PARTS_MAX];
    int count;
    cudnnStatus_t failure;
    char reason[512];
};

cudnnBackendDescriptor_t plan_part(struct plan_parts *parts,
                                   cudnnBackendDescriptorType_t type);
void plan_part_set(struct plan_parts *parts, cudnnBackendDescriptor_t part,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *values);
void plan_part_finalize(struct plan_parts *parts, cudnnBackendDescriptor_t part);
/* "CUDNN_STATUS_NOT_SUPPORTED: ..." of the last call on this thread. */
void plan_failure_text(cudnnStatus_t status, char *text, size_t bytes);
void plan_parts_release(struct plan_parts *parts);

/* The finalized graph; parts->failure tells. */
cudnnBackendDescriptor_t plan_graph(struct plan_parts *parts, struct cudnnContext *handle,
                                    const struct plan_desc *desc);

/* The tensors that the graph of `desc` has outside itself: their numbers in the graph,
 * and where `at` has them. Returns how many, at most PLAN_TENSORS_MAX. */
int plan_tensors(const struct plan_desc *desc, const struct plan_pointers *at,
                 int64_t uids[PLAN_TENSORS_MAX], void *pointers[PLAN_TENSORS_MAX]);

#endif
