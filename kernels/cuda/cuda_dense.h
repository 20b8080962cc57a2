/* cuda_dense.h - dense layers: a convolution whose kernel covers its map, by cuBLAS.
 * Flow:  cuda_conv.c -> [dense_run] -> cublasGemmEx.
 * Owns:  nothing.  Borrows: the handle, with its stream and workspace set.
 *
 * With y 1x1 and the kernel as large as x, NHWC memory makes all three passes one matrix
 * product, F = H*W*C features, K outputs:
 *   forward  y[N,K]  = x[N,F] w[K,F]^T
 *   dgrad    dx[N,F] = dy[N,K] w[K,F]
 *   wgrad    dw[K,F] = dy[N,K]^T x[N,F]
 * Sums are f32, whatever the operands. */
#ifndef KERNELS_CUDA_CUDA_DENSE_H
#define KERNELS_CUDA_CUDA_DENSE_H

#include "kernels/cuda/cuda_plan.h"

struct cublasContext; // cublasHandle_t

int dense_fits(const struct conv_desc *desc);

/* cuBLAS wants this much workspace for its fastest kernels.
 * Source: NVIDIA, cuBLAS documentation, cublasSetWorkspace(). */
size_t dense_workspace_bytes(int compute_capability);

/* Binds the workspace, and forbids sums in less than f32. NULL or cuBLAS's reason. Needed
 * again whenever the handle's stream or the workspace changes. */
const char *dense_bind(struct cublasContext *handle, void *workspace, size_t bytes);

struct dense_call {
    enum plan_pass pass;
    int rows, features, outputs; // N, F and K, as stored
    enum dtype dtype, out_dtype;
    int allows_tf32;
    const void *x, *w, *y; // one of them is the result
};

/* Queues the product on the handle's stream. NULL or cuBLAS's reason. */
const char *dense_run(struct cublasContext *handle, const struct dense_call *call);

#endif
