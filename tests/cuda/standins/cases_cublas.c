/* cases_cublas.c - right and wrong uses of cuBLAS: the one product that the backend
 * needs. */
#include <cublas_v2.h>

#include "tests/cuda/standins/cases.h"

#define M 5
#define N 7
#define K 6
#define WORKSPACE 4096

static cublasHandle_t handle;
static cudaStream_t stream;

static void prepare(int has_workspace)
{
    stream = new_stream();
    EXPECT(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) ==
           CUBLAS_STATUS_SUCCESS);
    if (has_workspace)
        EXPECT(cublasSetWorkspace(handle, device_block(WORKSPACE), WORKSPACE) ==
               CUBLAS_STATUS_SUCCESS);
}

// Small whole numbers, exact in every type; the same for row and column order.
static float number(int matrix, int row, int column)
{
    return (float)((matrix * 3 + row * 5 + column * 2) % 7 - 3);
}

static void put(void *memory, int index, cudaDataType type, float value)
{
    if (type == CUDA_R_32F)
        ((float *)memory)[index] = value;
    else
        ((_Float16 *)memory)[index] = (_Float16)value;
}

static float get(const void *memory, int index, cudaDataType type)
{
    return type == CUDA_R_32F ? ((const float *)memory)[index]
                              : (float)((const _Float16 *)memory)[index];
}

// op(matrix) is rows x columns, stored with a leading dimension one larger than needed.
static void *upload_matrix(int matrix, int rows, int columns, int is_transposed,
                           cudaDataType type, int *ld)
{
    int stored_rows = is_transposed ? columns : rows,
        stored_columns = rows + columns - stored_rows;
    float host[(K + 3) * (K + 3)] = {0};
    *ld = stored_rows + 1;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            int place = is_transposed ? column + row * *ld : row + column * *ld;
            put(host, place, type, number(matrix, row, column));
        }
    size_t bytes = (size_t)(*ld * stored_columns) * (type == CUDA_R_32F ? 4 : 2);
    void *there = device_block(bytes);
    MUST(cudaMemcpy(there, host, bytes, cudaMemcpyHostToDevice));
    return there;
}

static void check_product(int is_a_transposed, int is_b_transposed, cudaDataType type,
                          cudaDataType c_type, float beta)
{
    int lda, ldb, ldc = M;
    float alpha = 2, host[M * N];
    size_t bytes = M * N * (c_type == CUDA_R_32F ? 4 : 2);
    void *a = upload_matrix(0, M, K, is_a_transposed, type, &lda);
    void *b = upload_matrix(1, K, N, is_b_transposed, type, &ldb);
    void *c = device_block(bytes); // NaN: with beta = 0 nobody may read it
    for (int i = 0; i < M * N; i++)
        put(host, i, c_type, 4);
    if (beta != 0)
        MUST(cudaMemcpy(c, host, bytes, cudaMemcpyHostToDevice));
    EXPECT(cublasGemmEx(handle, is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                        is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, M, N, K, &alpha, a,
                        type, lda, b, type, ldb, &beta, c, c_type, ldc,
                        CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    MUST(cudaMemcpyAsync(host, c, bytes, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++) {
            float sum = beta * 4;
            for (int k = 0; k < K; k++)
                sum += alpha * number(0, row, k) * number(1, k, column);
            EXPECT(get(host, row + column * M, c_type) == sum);
        }
}

static void products_are_right(void)
{
    prepare(1);
    for (int i = 0; i < 8; i++) {
        float beta = i & 4 ? 0.5f : 0;
        check_product(i & 1, i & 2, CUDA_R_32F, CUDA_R_32F, beta);
        check_product(i & 1, i & 2, CUDA_R_16F, CUDA_R_16F, beta);
        check_product(i & 1, i & 2, CUDA_R_16F, CUDA_R_32F, beta);
    }
    EXPECT(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

static cublasStatus_t any_product(float *a, int lda)
{
    static float *block;
    float one = 1, zero = 0;
    block = block ? block : device_block(64 * 4);
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a ? a : block,
                        CUDA_R_32F, lda, block + 16, CUDA_R_32F, 4, &zero, block + 32,
                        CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

static void capture_product(int has_workspace, cublasStatus_t expected)
{
    cudaGraph_t graph;
    prepare(has_workspace);
    EXPECT(any_product(NULL, 4) == CUBLAS_STATUS_SUCCESS);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT(any_product(NULL, 4) == expected);
    MUST(cudaStreamEndCapture(stream, &graph));
}

static void a_product_is_captured(void)
{
    capture_product(1, CUBLAS_STATUS_SUCCESS);
}

static void capture_without_workspace(void)
{
    capture_product(0, CUBLAS_STATUS_EXECUTION_FAILED);
}

static void workspace_is_forgotten_with_the_stream(void)
{
    cudaGraph_t graph;
    prepare(1);
    EXPECT(any_product(NULL, 4) == CUBLAS_STATUS_SUCCESS);
    EXPECT(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT(any_product(NULL, 4) == CUBLAS_STATUS_EXECUTION_FAILED);
    MUST(cudaStreamEndCapture(stream, &graph));
}

static void product_of_host_memory(void)
{
    float host[16];
    prepare(1);
    EXPECT(any_product(host, 4) == CUBLAS_STATUS_INVALID_VALUE);
}

static void leading_dimension_too_small(void)
{
    prepare(1);
    EXPECT(any_product(NULL, 3) == CUBLAS_STATUS_INVALID_VALUE);
}

static void matrix_past_the_end(void)
{
    prepare(1);
    EXPECT(any_product(NULL, 100) == CUBLAS_STATUS_INVALID_VALUE);
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct named_case cases[] = {
        CASE(products_are_right),        CASE(a_product_is_captured),
        CASE(capture_without_workspace), CASE(workspace_is_forgotten_with_the_stream),
        CASE(product_of_host_memory),    CASE(leading_dimension_too_small),
        CASE(matrix_past_the_end),
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
