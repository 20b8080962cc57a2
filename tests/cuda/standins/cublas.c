/* cublas.c - a stand-in for libcublas.so.13: one GEMM, queued on the handle's stream like
 * all device work and computed on the CPU with f32 sums. A handle that has no workspace
 * of the caller's may not be used in a capture: the real library would allocate there. */
#include <cublas_v2.h>

#include <stdlib.h>

#include "tests/cuda/standins/standin.h"
#include "tests/cuda/standins/stored.h"

#define EXPORT __attribute__((visibility("default")))

struct cublasContext {
    cudaStream_t stream;
    int has_workspace;
    cublasMath_t math;
};

// A matrix in column order, and what is asked of it. Pointers stand first, for the queue
// to see which memory is in use.
struct gemm {
    const void *a, *b;
    void *c;
    float alpha, beta;
    int m, n, k, lda, ldb, ldc, is_a_transposed, is_b_transposed;
    enum stored a_type, b_type, c_type;
};

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = standin_has_device() ? calloc(1, sizeof **handle) : NULL;
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->has_workspace = 0;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                            size_t bytes)
{
    if (bytes > 0 && !standin_is_device(workspace, bytes, "cublasSetWorkspace"))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((uintptr_t)workspace % 256) {
        standin_complain("cublasSetWorkspace: %p is not aligned to 256 bytes", workspace);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->has_workspace = bytes > 0;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math)
{
    handle->math = math;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle,
                                              cublasPointerMode_t mode)
{
    (void)handle;
    if (mode == CUBLAS_POINTER_MODE_HOST)
        return CUBLAS_STATUS_SUCCESS;
    standin_complain(
        "cublasSetPointerMode: alpha and beta on the device are not modelled");
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

EXPORT const char *cublasGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the program failed to execute";
    default: return "another cuBLAS status";
    }
}

/* ---- the product ---------------------------------------------------------------- */

// rows x columns of op(matrix), dense, column by column.
static float *dense(const void *matrix, enum stored type, int is_transposed, int ld,
                    int rows, int columns)
{
    float *values = malloc((size_t)rows * (size_t)columns * sizeof *values), *to = values;
    for (long column = 0; column < columns; column++)
        for (long row = 0; row < rows; row++)
            *to++ = stored_read(
                matrix, is_transposed ? column + row * ld : row + column * (long)ld,
                type);
    return values;
}

static void run_gemm(void *data)
{
    struct gemm *gemm = data;
    float *a =
        dense(gemm->a, gemm->a_type, gemm->is_a_transposed, gemm->lda, gemm->m, gemm->k);
    float *b =
        dense(gemm->b, gemm->b_type, gemm->is_b_transposed, gemm->ldb, gemm->k, gemm->n);
    float *sums = malloc((size_t)gemm->m * sizeof *sums);
    for (long j = 0; j < gemm->n; j++) {
        memset(sums, 0, (size_t)gemm->m * sizeof *sums);
        for (long l = 0; l < gemm->k; l++) {
            const float factor = b[j * gemm->k + l], *column = a + l * gemm->m;
            for (long i = 0; i < gemm->m; i++)
                sums[i] += factor * column[i];
        }
        for (long i = 0; i < gemm->m; i++) {
            long place = i + j * gemm->ldc;
            float value = gemm->alpha * sums[i];
            if (gemm->beta != 0)
                value += gemm->beta * stored_read(gemm->c, place, gemm->c_type);
            stored_write(gemm->c, place, gemm->c_type, value);
        }
    }
    free(a);
    free(b);
    free(sums);
}

static int stored_of(cudaDataType type, enum stored *stored)
{
    if (type == CUDA_R_32F)
        *stored = STORED_F32;
    else if (type == CUDA_R_16F)
        *stored = STORED_F16;
    else if (type == CUDA_R_16BF)
        *stored = STORED_BF16;
    else
        return 0;
    return 1;
}

static int is_whole(const void *matrix, enum stored type, int rows, int columns, int ld,
                    const char *what)
{
    size_t unit = type == STORED_F32 ? 4 : 2;
    if (ld < rows) {
        standin_complain("%s: its leading dimension %d is less than its %d rows", what,
                         ld, rows);
        return 0;
    }
    return standin_is_device(
        matrix, ((size_t)(columns - 1) * (size_t)ld + (size_t)rows) * unit, what);
}

static int is_right(const struct gemm *gemm)
{
    int right = gemm->m > 0 && gemm->n > 0 && gemm->k > 0 &&
                gemm->a_type == gemm->b_type &&
                (gemm->c_type == STORED_F32 || gemm->c_type == gemm->a_type);
    if (!right) {
        standin_complain("cublasGemmEx: %d x %d x %d of types %d, %d, %d: not supported",
                         gemm->m, gemm->n, gemm->k, gemm->a_type, gemm->b_type,
                         gemm->c_type);
        return 0;
    }
    int a_rows = gemm->is_a_transposed ? gemm->k : gemm->m;
    int b_rows = gemm->is_b_transposed ? gemm->n : gemm->k;
    right &= is_whole(gemm->a, gemm->a_type, a_rows, gemm->m + gemm->k - a_rows,
                      gemm->lda, "cublasGemmEx, A");
    right &= is_whole(gemm->b, gemm->b_type, b_rows, gemm->k + gemm->n - b_rows,
                      gemm->ldb, "cublasGemmEx, B");
    return right & is_whole(gemm->c, gemm->c_type, gemm->m, gemm->n, gemm->ldc,
                            "cublasGemmEx, C");
}

static int is_f32(cublasComputeType_t compute)
{
    return compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
           compute == CUBLAS_COMPUTE_32F_FAST_TF32;
}

EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op,
                                   cublasOperation_t b_op, int m, int n, int k,
                                   const void *alpha, const void *a, cudaDataType a_type,
                                   int lda, const void *b, cudaDataType b_type, int ldb,
                                   const void *beta, void *c, cudaDataType c_type,
                                   int ldc, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm)
{
    struct gemm gemm = {.a = a,
                        .b = b,
                        .c = c,
                        .m = m,
                        .n = n,
                        .k = k,
                        .lda = lda,
                        .ldb = ldb,
                        .ldc = ldc,
                        .is_a_transposed = a_op != CUBLAS_OP_N,
                        .is_b_transposed = b_op != CUBLAS_OP_N};
    (void)algorithm;
    if (!is_f32(compute) || !stored_of(a_type, &gemm.a_type) ||
        !stored_of(b_type, &gemm.b_type) || !stored_of(c_type, &gemm.c_type)) {
        standin_complain("cublasGemmEx: compute type %d or a data type is not modelled",
                         (int)compute);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!is_right(&gemm))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!handle->has_workspace && standin_is_capturing(handle->stream)) {
        standin_complain(
            "cublasGemmEx in a capture, and the handle has no workspace since "
            "cublasSetStream");
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    gemm.alpha = *(const float *)alpha;
    gemm.beta = *(const float *)beta;
    return standin_enqueue(handle->stream, "cublasGemmEx", run_gemm, &gemm, sizeof gemm)
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}
