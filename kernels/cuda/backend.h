/* backend.h - one GPU's queue with its libraries, as the files of this folder share it.
 * Flow:  cuda.c (in the program) loads the module -> module.c fills this -> ops use it.
 * Owns:  a stream, the handles bound to it, its scratch memory.
 *
 * A stream (queue.open_stream) is a second backend on the same GPU with a stream and
 * handles of its own; nothing is shared between two streams but device memory. */
#ifndef KERNELS_CUDA_BACKEND_H
#define KERNELS_CUDA_BACKEND_H

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cudnnContext;  // cudnnHandle_t
struct cublasContext; // cublasHandle_t
struct cuda_group;    // cuda_group.c: the NCCL communicator, NULL when alone

struct cuda_backend {
    struct ops ops; // device->ops points here
    char name[16];  // "cuda:0"
    int index, is_lane;
    int compute_capability; // 90 for 9.0
    int multiprocessors;
    struct device_options options;

    cudaStream_t stream;
    struct cudnnContext *cudnn;
    struct cublasContext *cublas;
    cudaEvent_t marks[DEVICE_MARKS];
    int is_marked[DEVICE_MARKS];
    cudaEvent_t joint;      // for follow()
    int is_recording;       // queue.repeat() is capturing
    struct repeat *repeats; // all that were begun and are not forgotten

    // Grown by conv.prepare(), never in a step. One of each is enough: a queue runs one
    // op at a time.
    void *workspace; // of cuDNN's plans and of cuBLAS
    size_t workspace_bytes;
    void *scratch; // results on their way: a dW before it is added, an unfused epilogue's
    size_t scratch_bytes;
    float *partial; // CUDA_PARTIAL_FLOATS partial sums of the deterministic reductions
    struct cuda_group *group;
};

#define CUDA_PARTIAL_FLOATS (1 << 20)

static inline struct cuda_backend *cuda_backend(const struct device *device)
{
    return (struct cuda_backend *)device->backend;
}

/* Keeps a fault "conv.forward: out of memory" if `error` is one. */
void cuda_keep_error(struct device *device, const char *op, cudaError_t error);

/* Makes a scratch block at least `bytes` large; only while nothing is queued. */
enum status cuda_grow(struct device *device, void **block, size_t *has, size_t bytes,
                      const char *what);

/* One family each; module.c calls them all. */
void cuda_fill_memory(struct memory_ops *ops);       // cuda_memory.c
void cuda_fill_queue(struct queue_ops *ops);         // cuda_queue.c
void cuda_fill_group(struct group_ops *ops);         // cuda_group.c
void cuda_fill_conv(struct conv_ops *ops);           // cuda_conv.c
void cuda_fill_norm(struct norm_ops *ops);           // norm.cu
void cuda_fill_pointwise(struct pointwise_ops *ops); // pointwise.cu
void cuda_fill_resample(struct resample_ops *ops);   // resample.cu
void cuda_fill_image(struct image_ops *ops);         // image.cu
void cuda_fill_loss(struct loss_ops *ops);           // loss.cu
void cuda_fill_optimizer(struct optimizer_ops *ops); // optimizer.cu
void cuda_fill_scaler(struct optimizer_ops *ops);    // scaler.cu: the rest of them
void cuda_fill_survey(struct survey_ops *ops);       // survey.cu

/* For convolutions (conv_extra.cu): grad = (accumulate ? grad : 0) + dw.
 *   dw [n] of `dtype`   grad [n] f32 */
void cuda_add_wgrad(struct device *device, const void *dw, enum dtype dtype, float *grad,
                    size_t n, int accumulate);

/* An epilogue that the convolution itself did not do, over `from` (of any float dtype,
 * may be out->data): what conv_epilogue says, out and sums included. */
void cuda_epilogue(struct device *device, const void *from, enum dtype from_dtype,
                   const struct conv_epilogue *epilogue, struct tensor *out);

#ifdef __cplusplus
}
#endif

#endif
