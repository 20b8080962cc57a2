#include "kernels/cuda/cuda_dense.h"

#include <cublas_v2.h>

int dense_fits(const struct conv_desc *desc)
{
    return desc->y.h == 1 && desc->y.w == 1 && desc->pad == 0 &&
           desc->kernel == desc->x.h && desc->kernel == desc->x.w;
}

size_t dense_workspace_bytes(int compute_capability)
{
    return (size_t)(compute_capability >= 90 ? 32 : 4) << 20;
}

static const char *reason(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? NULL : cublasGetStatusString(status);
}

const char *dense_bind(struct cublasContext *handle, void *workspace, size_t bytes)
{
    cublasStatus_t status = cublasSetWorkspace(handle, workspace, bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetMathMode(handle,
                                   CUBLAS_DEFAULT_MATH |
                                       CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    return reason(status);
}

static cudaDataType data_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return CUDA_R_16F;
    case DTYPE_BF16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
    }
}

/* One operand in cuBLAS's words: columns lie one after another, so a row of ours is a
 * column there, and each product is written the other way round. */
struct operand {
    cublasOperation_t operation;
    const void *data;
    int leading;
    enum dtype dtype;
};

static cublasStatus_t product(cublasHandle_t handle, const struct dense_call *call,
                              int rows, int columns, int depth, const struct operand *a,
                              const struct operand *b, const struct operand *c)
{
    const float one = 1.0f, zero = 0.0f;
    int is_tf32 = call->dtype == DTYPE_F32 && call->allows_tf32;
    return cublasGemmEx(
        handle, a->operation, b->operation, rows, columns, depth, &one, a->data,
        data_type(a->dtype), a->leading, b->data, data_type(b->dtype), b->leading, &zero,
        (void *)(uintptr_t)c->data, data_type(c->dtype), c->leading,
        is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

const char *dense_run(struct cublasContext *handle, const struct dense_call *call)
{
    int n = call->rows, f = call->features, k = call->outputs;
    struct operand x = {CUBLAS_OP_N, call->x, f, call->dtype};
    struct operand w = {CUBLAS_OP_N, call->w, f, call->dtype};
    struct operand y = {CUBLAS_OP_N, call->y, k, call->dtype};
    cublasStatus_t status;
    switch (call->pass) {
    case PLAN_FORWARD:
        w.operation = CUBLAS_OP_T;
        y.dtype = call->out_dtype;
        status = product(handle, call, k, n, f, &w, &x, &y);
        break;
    case PLAN_DGRAD:
        x.dtype = call->out_dtype;
        status = product(handle, call, f, n, k, &w, &y, &x);
        break;
    default:
        y.operation = CUBLAS_OP_T;
        w.dtype = call->out_dtype;
        status = product(handle, call, f, k, n, &x, &y, &w);
        break;
    }
    return reason(status);
}
