/* cudnn_plan.h - what a finalized cuDNN plan computes, read from the plan's own JSON, and
 * a CPU that computes it.
 * Flow:  plan descriptor -> [plan_read] -> plan_check() of the pointers -> plan_run().
 * Owns:  a plan stays until the program ends; queued work names it. */
#ifndef TESTS_CUDA_CUDNN_PLAN_H
#define TESTS_CUDA_CUDNN_PLAN_H

#include <stdint.h>

#include <jansson.h>

#define PLAN_TENSORS 32

enum plan_dtype { PLAN_F32, PLAN_F16, PLAN_BF16 };

struct plan_tensor {
    char name[24]; // its unique id, in digits
    enum plan_dtype dtype;
    int is_virtual, alignment;
    long dim[4], stride[4]; // N, C, H, W
    long count;             // elements
    size_t bytes;           // from the first element to the last one's end
};

struct plan {
    json_t *root, *nodes;
    struct plan_tensor tensors[PLAN_TENSORS];
    int tensor_count;
    int64_t workspace_bytes;
};

/* One execution: pointers[i] is the memory of tensor i, NULL for a virtual one. */
struct plan_call {
    struct plan *plan;
    void *pointers[PLAN_TENSORS];
    void *workspace;
};

/* NULL, with a complaint, if the text is no plan or holds what is not modelled. */
struct plan *plan_read(const char *text, size_t bytes, int64_t workspace_bytes);

/* 1 if every tensor and the workspace is live device memory, long enough, and aligned as
 * the plan declares. Complains about each one that is not. */
int plan_check(const struct plan_call *call);

/* Computes the graph in f32, rounds where a tensor is stored, and scribbles on the
 * workspace as real engines do. `call` is a struct plan_call *. */
void plan_run(void *call);

/* A node's members. */
const char *node_text(const json_t *node, const char *key);
double node_number(const json_t *node, const char *key, double otherwise);
void node_pair(const json_t *node, const char *key, long pair[2]);

/* ---- the arithmetic (cudnn_math.c), on dense f32 values in N, H, W, C order ----- */

struct values {
    long n, c, h, w;
    float *data;
};

enum conv_pass { CONV_FORWARD, CONV_DGRAD, CONV_WGRAD };

/* out = alpha * conv + beta * out, where out is y, x or w. Reads nothing of it if beta is
 * 0. */
void conv_run(enum conv_pass pass, struct values x, struct values w, struct values y,
              const json_t *node);

/* out[i] = f(a[i], b[i]); operands of extent 1 are repeated; b.data may be NULL. 0 if the
 * mode is not modelled. */
int pointwise_run(struct values a, struct values b, struct values out,
                  const json_t *node);

void genstats_run(struct values x, struct values sum, struct values square_sum);

#endif
