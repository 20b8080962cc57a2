/* cases_cudnn.c - right and wrong executions of plans that the real cuDNN makes for a
 * device that is not there. The program knows nothing of that: it makes a handle and uses
 * it. */
#include <cudnn.h>

#include "tests/cuda/standins/cases.h"

#define OK(call) EXPECT((call) == CUDNN_STATUS_SUCCESS)

typedef cudnnBackendDescriptor_t part; // the library's own name does not fit a line

// A 4x4 convolution of stride 2, NHWC, f16:  x [B,H,H,C]  w [D,4,4,C]  y [B,P,P,D]
enum { B = 2, H = 8, C = 16, D = 8, P = 4, X, W, Y };

#define X_COUNT (B * H * H * C)
#define W_COUNT (D * 16 * C)
#define Y_COUNT (B * P * P * D)

static cudnnHandle_t handle;
static cudaStream_t stream;
static _Float16 *x, *w, *y;

/* ---- plans ---------------------------------------------------------------------- */

static part make(cudnnBackendDescriptorType_t type)
{
    part made;
    OK(cudnnBackendCreateDescriptor(type, &made));
    return made;
}

static void set_parts(part to, cudnnBackendAttributeName_t name, part value)
{
    OK(cudnnBackendSetAttribute(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value));
}

static void set_numbers(part to, cudnnBackendAttributeName_t name, int64_t count,
                        int64_t a, int64_t b)
{
    int64_t numbers[2] = {a, b};
    OK(cudnnBackendSetAttribute(to, name, CUDNN_TYPE_INT64, count, numbers));
}

static part tensor(int64_t id, int64_t n, int64_t size, int64_t channels)
{
    part made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_HALF;
    int64_t dim[4] = {n, channels, size, size};
    int64_t stride[4] = {size * size * channels, 1, size * channels, channels};
    OK(cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                                1, &type));
    OK(cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
                                dim));
    OK(cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                                stride));
    set_numbers(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, id, 0);
    set_numbers(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, 16, 0);
    OK(cudnnBackendFinalize(made));
    return made;
}

static part convolution(void)
{
    part made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    OK(cudnnBackendSetAttribute(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                                CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendSetAttribute(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                                CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    set_numbers(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, 2, 0);
    set_numbers(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, 1, 1);
    set_numbers(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, 1, 1);
    set_numbers(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, 1, 1);
    set_numbers(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, 2, 2);
    OK(cudnnBackendFinalize(made));
    return made;
}

static part graph(int is_wgrad, float beta)
{
    part made =
        make(is_wgrad ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
                      : CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    static const cudnnBackendAttributeName_t names[2][6] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const cudnnBackendAttributeName_t *name = names[is_wgrad];
    float alpha = 1;
    set_parts(made, name[0], tensor(X, B, H, C));
    set_parts(made, name[1], tensor(W, D, 4, C));
    set_parts(made, name[2], tensor(Y, B, P, D));
    set_parts(made, name[3], convolution());
    OK(cudnnBackendSetAttribute(made, name[4], CUDNN_TYPE_FLOAT, 1, &alpha));
    OK(cudnnBackendSetAttribute(made, name[5], CUDNN_TYPE_FLOAT, 1, &beta));
    OK(cudnnBackendFinalize(made));
    part whole = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_parts(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, made);
    OK(cudnnBackendSetAttribute(whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                                CUDNN_TYPE_HANDLE, 1, &handle));
    OK(cudnnBackendFinalize(whole));
    return whole;
}

static int64_t workspace_of(part plan)
{
    int64_t bytes = 0, count;
    OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                CUDNN_TYPE_INT64, 1, &count, &bytes));
    return bytes;
}

// The heuristics' first plan that finalizes and has at least this much workspace.
static part plan_of(part operations, int64_t least_workspace)
{
    part heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[16];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    set_parts(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    OK(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                CUDNN_TYPE_HEUR_MODE, 1, &mode));
    OK(cudnnBackendFinalize(heuristics));
    for (int i = 0; i < 16; i++)
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 16, &count, configs));
    for (int64_t i = 0; i < count && i < 16; i++) {
        part plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_parts(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        OK(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                    CUDNN_TYPE_HANDLE, 1, &handle));
        if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
            workspace_of(plan) >= least_workspace)
            return plan;
        OK(cudnnBackendDestroyDescriptor(plan));
    }
    const int a_plan_was_found = 0;
    EXPECT(a_plan_was_found);
    return NULL;
}

// The same plan again, by way of its text.
static part reload(part plan)
{
    const cudnnBackendAttributeName_t name =
        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t bytes = 0, count;
    OK(cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, 0, &bytes, NULL));
    char *text = malloc((size_t)bytes);
    OK(cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, bytes, &count, text));
    OK(cudnnBackendDestroyDescriptor(plan));
    part again = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(again, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                CUDNN_TYPE_HANDLE, 1, &handle));
    OK(cudnnBackendSetAttribute(again, name, CUDNN_TYPE_CHAR, bytes, text));
    OK(cudnnBackendFinalize(again));
    free(text);
    return again;
}

static cudnnStatus_t execute(part plan, const void *x_at, const void *y_at,
                             void *workspace)
{
    part pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const void *pointers[3] = {x_at, w, y_at};
    int64_t ids[3] = {X, W, Y};
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                CUDNN_TYPE_INT64, 3, ids));
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                CUDNN_TYPE_VOID_PTR, 3, pointers));
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                CUDNN_TYPE_VOID_PTR, 1, &workspace));
    OK(cudnnBackendFinalize(pack));
    cudnnStatus_t status = cudnnBackendExecute(handle, plan, pack);
    OK(cudnnBackendDestroyDescriptor(pack));
    return status;
}

/* ---- data ----------------------------------------------------------------------- */

static float x_value(int i)
{
    return (float)(i * 7 % 5 - 2);
}

static float w_value(int i)
{
    return (float)(i * 3 % 7 - 3);
}

static _Float16 *upload(int count, float (*value)(int))
{
    _Float16 *there = device_block((size_t)count * 2), *host = malloc((size_t)count * 2);
    for (int i = 0; i < count; i++)
        host[i] = (_Float16)value(i);
    MUST(cudaMemcpy(there, host, (size_t)count * 2, cudaMemcpyHostToDevice));
    free(host);
    return there;
}

static void prepare(void)
{
    OK(cudnnCreate(&handle));
    stream = new_stream();
    OK(cudnnSetStream(handle, stream));
    x = upload(X_COUNT, x_value);
    w = upload(W_COUNT, w_value);
    y = device_block(Y_COUNT * 2); // NaN: with beta = 0 nobody may read it
}

static float one_output(int n, int p, int q, int d)
{
    float sum = 0;
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++)
            for (int c = 0; c < C; c++) {
                int h = 2 * p - 1 + r, v = 2 * q - 1 + s;
                if (h >= 0 && h < H && v >= 0 && v < H)
                    sum += x_value(((n * H + h) * H + v) * C + c) *
                           w_value(((d * 4 + r) * 4 + s) * C + c);
            }
    return sum;
}

static void expect_outputs(float factor)
{
    _Float16 host[Y_COUNT];
    MUST(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < Y_COUNT; i++) {
        float want = one_output(i / (P * P * D), i / (P * D) % P, i / D % P, i % D);
        EXPECT((float)host[i] == (float)(_Float16)(factor * want));
    }
}

static void *workspace_for(part plan)
{
    int64_t bytes = workspace_of(plan);
    return bytes ? device_block((size_t)bytes) : NULL;
}

/* ---- cases ---------------------------------------------------------------------- */

static void a_plan_computes_its_convolution(void)
{
    prepare();
    part plan = plan_of(graph(0, 0), 0);
    OK(execute(plan, x, y, workspace_for(plan)));
    expect_outputs(1);
    part again = reload(plan);
    MUST(cudaMemset(y, 0xff, Y_COUNT * 2));
    OK(execute(again, x, y, workspace_for(again)));
    expect_outputs(1);
    OK(cudnnDestroy(handle));
}

static void a_plan_adds_to_its_output(void)
{
    prepare();
    part first = plan_of(graph(0, 0), 0), more = plan_of(graph(0, 1), 0);
    OK(execute(first, x, y, workspace_for(first)));
    OK(execute(more, x, y, workspace_for(more)));
    expect_outputs(2);
}

static void a_plan_is_captured(void)
{
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    prepare();
    part plan = plan_of(graph(0, 0), 0);
    void *workspace = workspace_for(plan);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(execute(plan, x, y, workspace));
    MUST(cudaStreamEndCapture(stream, &captured));
    MUST(cudaGraphInstantiate(&ready, captured, 0));
    MUST(cudaGraphLaunch(ready, stream));
    expect_outputs(1);
}

static void tensor_on_the_host(void)
{
    prepare();
    part plan = plan_of(graph(0, 0), 0);
    void *host = malloc(X_COUNT * 2);
    EXPECT(execute(plan, host, y, workspace_for(plan)) == CUDNN_STATUS_BAD_PARAM);
}

static void tensor_that_is_misaligned(void)
{
    prepare();
    part plan = plan_of(graph(0, 0), 0);
    _Float16 *larger = device_block(X_COUNT * 2 + 16);
    EXPECT(execute(plan, larger + 1, y, workspace_for(plan)) == CUDNN_STATUS_BAD_PARAM);
}

static void tensor_that_is_too_short(void)
{
    prepare();
    part plan = plan_of(graph(0, 0), 0);
    EXPECT(execute(plan, x, device_block(Y_COUNT * 2 - 2), workspace_for(plan)) ==
           CUDNN_STATUS_BAD_PARAM);
}

static void workspace_that_is_too_small(void)
{
    prepare();
    part plan = plan_of(graph(1, 0), 17);
    EXPECT(execute(plan, x, y, device_block(16)) == CUDNN_STATUS_BAD_PARAM);
}

// The scribble of one plan's workspace is seen by a plan that keeps its input there.
static void workspace_that_holds_data(void)
{
    float host[4];
    prepare();
    part plan = plan_of(graph(1, 0), 17);
    float *workspace = workspace_for(plan);
    MUST(cudaMemset(workspace, 0, 16));
    OK(execute(plan, x, upload(Y_COUNT, x_value), workspace));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(host, workspace, 16, cudaMemcpyDeviceToHost));
    EXPECT(host[0] != 0);
}

static void a_handle_needs_a_device(void)
{
    EXPECT(cudnnCreate(&handle) == CUDNN_STATUS_NOT_INITIALIZED);
    printf("version %zu\n", cudnnGetVersion());
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct named_case cases[] = {
        CASE(a_plan_computes_its_convolution),
        CASE(a_plan_adds_to_its_output),
        CASE(a_plan_is_captured),
        CASE(tensor_on_the_host),
        CASE(tensor_that_is_misaligned),
        CASE(tensor_that_is_too_short),
        CASE(workspace_that_is_too_small),
        CASE(workspace_that_holds_data),
        CASE(a_handle_needs_a_device),
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
