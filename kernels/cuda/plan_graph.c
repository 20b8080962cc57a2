/* plan_graph.c - operation graphs of cuDNN: a convolution, then pointwise steps and sums.
 *
 * cuDNN names dimensions N, C, H, W whatever the layout; strides say that memory is NHWC.
 * What lies between two operations of a graph is a virtual f32 tensor: it never reaches
 * memory, so bias and activation act on the f32 sum and the result is rounded once. */
#include "kernels/cuda/plan_graph.h"

#include <stdbool.h>
#include <stdio.h>

// Numbers of a graph's tensors; those from UID_VIRTUAL on are virtual.
enum { UID_X = 1, UID_W, UID_Y, UID_BIAS, UID_UNDO, UID_SUM, UID_SUMSQ, UID_VIRTUAL };

// cuDNN may count on it: arenas and scratch blocks are aligned to 256 bytes.
#define TENSOR_ALIGN 16

/* ---- descriptors ----------------------------------------------------------------- */

void plan_failure_text(cudnnStatus_t status, char *text, size_t bytes)
{
    char detail[384] = "";
    cudnnGetLastErrorString(detail, sizeof detail);
    snprintf(text, bytes, "%s%s%s", cudnnGetErrorString(status), detail[0] ? ": " : "",
             detail);
}

static void keep_failure(struct plan_parts *parts, cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS || parts->failure != CUDNN_STATUS_SUCCESS)
        return;
    parts->failure = status;
    plan_failure_text(status, parts->reason, sizeof parts->reason);
}

cudnnBackendDescriptor_t plan_part(struct plan_parts *parts,
                                   cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t part = NULL;
    CHECK(parts->count < PLAN_PARTS_MAX, "%d descriptors", parts->count);
    if (parts->failure == CUDNN_STATUS_SUCCESS)
        keep_failure(parts, cudnnBackendCreateDescriptor(type, &part));
    if (part)
        parts->made[parts->count++] = part;
    return part;
}

void plan_part_set(struct plan_parts *parts, cudnnBackendDescriptor_t part,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *values)
{
    if (parts->failure == CUDNN_STATUS_SUCCESS)
        keep_failure(parts, cudnnBackendSetAttribute(part, name, type, count, values));
}

void plan_part_finalize(struct plan_parts *parts, cudnnBackendDescriptor_t part)
{
    if (parts->failure == CUDNN_STATUS_SUCCESS)
        keep_failure(parts, cudnnBackendFinalize(part));
}

void plan_parts_release(struct plan_parts *parts)
{
    while (parts->count > 0)
        cudnnBackendDestroyDescriptor(parts->made[--parts->count]);
}

static void set_part(struct plan_parts *parts, cudnnBackendDescriptor_t part,
                     cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    plan_part_set(parts, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_type(struct plan_parts *parts, cudnnBackendDescriptor_t part,
                     cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    plan_part_set(parts, part, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

/* ---- tensors --------------------------------------------------------------------- */

static cudnnDataType_t data_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return CUDNN_DATA_HALF;
    case DTYPE_BF16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
    }
}

static cudnnBackendDescriptor_t tensor(struct plan_parts *parts, int64_t uid,
                                       struct shape s, enum dtype dtype)
{
    cudnnBackendDescriptor_t part = plan_part(parts, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t sizes[4] = {s.n, s.c, s.h, s.w}, align = TENSOR_ALIGN;
    int64_t strides[4] = {(int64_t)s.h * s.w * s.c, 1, (int64_t)s.w * s.c, s.c};
    bool is_virtual = uid >= UID_VIRTUAL;
    set_type(parts, part, CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype));
    plan_part_set(parts, part, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    plan_part_set(parts, part, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    plan_part_set(parts, part, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    plan_part_set(parts, part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                  &align);
    plan_part_set(parts, part, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                  &is_virtual);
    plan_part_finalize(parts, part);
    return part;
}

static cudnnBackendDescriptor_t channel_vector(struct plan_parts *parts, int64_t uid,
                                               int channels)
{
    return tensor(parts, uid, (struct shape){1, 1, 1, channels}, DTYPE_F32);
}

/* ---- the convolution ------------------------------------------------------------- */

/* The names that each pass has for the same things. */
struct pass_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

static const struct pass_names pass_names[] = {
    [PLAN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [PLAN_DGRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [PLAN_WGRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnBackendDescriptor_t geometry(struct plan_parts *parts,
                                         const struct plan_desc *desc)
{
    cudnnBackendDescriptor_t part =
        plan_part(parts, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t axes = 2, ones[2] = {1, 1};
    int64_t pads[2] = {desc->pad, desc->pad}, strides[2] = {desc->stride, desc->stride};
    set_type(parts, part, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                  CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1,
                  &axes);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
                  pads);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
                  pads);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
                  ones);
    plan_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
                  strides);
    plan_part_finalize(parts, part);
    return part;
}

static struct shape weight_shape(const struct plan_desc *desc)
{
    return (struct shape){desc->y.c, desc->kernel, desc->kernel, desc->x.c};
}

static int has_steps(const struct plan_desc *desc)
{
    return desc->has_bias || desc->activation != ACTIVATION_NONE;
}

/* Number and type of the convolution's own result. */
struct result {
    int64_t uid;
    enum dtype dtype;
};

static struct result conv_result(const struct plan_desc *desc, int64_t out_uid)
{
    if (has_steps(desc))
        return (struct result){UID_VIRTUAL, DTYPE_F32};
    return (struct result){out_uid, desc->out_dtype};
}

static int64_t output_uid(const struct plan_desc *desc)
{
    return desc->pass == PLAN_FORWARD ? UID_Y : desc->pass == PLAN_DGRAD ? UID_X : UID_W;
}

/* The convolution; *out is its result. */
static cudnnBackendDescriptor_t convolution(struct plan_parts *parts,
                                            const struct plan_desc *desc,
                                            cudnnBackendDescriptor_t *out)
{
    const struct pass_names *names = &pass_names[desc->pass];
    const int64_t uids[3] = {UID_X, UID_W, UID_Y};
    const struct shape shapes[3] = {desc->x, weight_shape(desc), desc->y};
    const cudnnBackendAttributeName_t attributes[3] = {names->x, names->w, names->y};
    struct result result = conv_result(desc, output_uid(desc));
    cudnnBackendDescriptor_t conv = geometry(parts, desc), operands[3];
    for (int i = 0; i < 3; i++) {
        int is_out = uids[i] == output_uid(desc);
        operands[i] = tensor(parts, is_out ? result.uid : uids[i], shapes[i],
                             is_out ? result.dtype : desc->dtype);
        if (is_out)
            *out = operands[i];
    }
    cudnnBackendDescriptor_t operation = plan_part(parts, names->operation);
    for (int i = 0; i < 3; i++)
        set_part(parts, operation, attributes[i], operands[i]);
    float one = 1.0f, zero = 0.0f;
    set_part(parts, operation, names->convolution, conv);
    plan_part_set(parts, operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    plan_part_set(parts, operation, names->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    plan_part_finalize(parts, operation);
    return operation;
}

/* ---- what follows it ------------------------------------------------------------- */

static cudnnBackendDescriptor_t pointwise_kind(struct plan_parts *parts,
                                               cudnnPointwiseMode_t mode, float slope)
{
    cudnnBackendDescriptor_t part = plan_part(parts, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    double clip_slope = (double)slope;
    plan_part_set(parts, part, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
                  &mode);
    set_type(parts, part, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    if (slope != 0.0f)
        plan_part_set(parts, part, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
                      CUDNN_TYPE_DOUBLE, 1, &clip_slope);
    plan_part_finalize(parts, part);
    return part;
}

static cudnnBackendDescriptor_t pointwise(struct plan_parts *parts,
                                          cudnnBackendDescriptor_t kind,
                                          cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t part =
        plan_part(parts, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    plan_part_finalize(parts, part);
    return part;
}

static cudnnBackendDescriptor_t pointwise_gradient(struct plan_parts *parts,
                                                   cudnnBackendDescriptor_t kind,
                                                   cudnnBackendDescriptor_t dy,
                                                   cudnnBackendDescriptor_t x,
                                                   cudnnBackendDescriptor_t dx)
{
    cudnnBackendDescriptor_t part =
        plan_part(parts, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
    plan_part_finalize(parts, part);
    return part;
}

static cudnnBackendDescriptor_t sums(struct plan_parts *parts, cudnnBackendDescriptor_t x,
                                     int channels)
{
    cudnnBackendDescriptor_t part =
        plan_part(parts, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    plan_part_set(parts, part, CUDNN_ATTR_OPERATION_GENSTATS_MODE,
                  CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set_type(parts, part, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
    set_part(parts, part, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x);
    set_part(parts, part, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
             channel_vector(parts, UID_SUM, channels));
    set_part(parts, part, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
             channel_vector(parts, UID_SUMSQ, channels));
    plan_part_finalize(parts, part);
    return part;
}

/* Where a graph stands while it is put together. */
struct assembly {
    struct plan_parts *parts;
    const struct plan_desc *desc;
    struct shape out;
    cudnnBackendDescriptor_t now; // result of the last operation
    cudnnBackendDescriptor_t operations[4];
    int count;
};

static cudnnBackendDescriptor_t out_tensor(const struct assembly *a)
{
    return tensor(a->parts, output_uid(a->desc), a->out, a->desc->out_dtype);
}

static void add_bias(struct assembly *a)
{
    cudnnBackendDescriptor_t kind = pointwise_kind(a->parts, CUDNN_POINTWISE_ADD, 0.0f);
    cudnnBackendDescriptor_t bias = channel_vector(a->parts, UID_BIAS, a->out.c);
    cudnnBackendDescriptor_t sum =
        a->desc->activation == ACTIVATION_NONE
            ? out_tensor(a)
            : tensor(a->parts, UID_VIRTUAL + 1, a->out, DTYPE_F32);
    a->operations[a->count++] = pointwise(a->parts, kind, a->now, bias, sum);
    a->now = sum;
}

static void add_activation(struct assembly *a)
{
    int is_tanh = a->desc->activation == ACTIVATION_TANH;
    float slope = a->desc->activation == ACTIVATION_LEAKY_RELU ? a->desc->slope : 0.0f;
    cudnnBackendDescriptor_t kind = pointwise_kind(
        a->parts, is_tanh ? CUDNN_POINTWISE_TANH_FWD : CUDNN_POINTWISE_RELU_FWD, slope);
    cudnnBackendDescriptor_t y = out_tensor(a);
    a->operations[a->count++] = pointwise(a->parts, kind, a->now, NULL, y);
    a->now = y;
}

// Leaky ReLU keeps the sign, so its output tells the slope as well as its input would.
static void add_undo(struct assembly *a)
{
    CHECK(a->desc->activation == ACTIVATION_LEAKY_RELU, "activation %d",
          a->desc->activation);
    cudnnBackendDescriptor_t kind =
        pointwise_kind(a->parts, CUDNN_POINTWISE_RELU_BWD, a->desc->slope);
    cudnnBackendDescriptor_t undo =
        tensor(a->parts, UID_UNDO, a->out, a->desc->out_dtype);
    cudnnBackendDescriptor_t dx = out_tensor(a);
    a->operations[a->count++] = pointwise_gradient(a->parts, kind, a->now, undo, dx);
    a->now = dx;
}

cudnnBackendDescriptor_t plan_graph(struct plan_parts *parts, struct cudnnContext *handle,
                                    const struct plan_desc *desc)
{
    struct assembly a = {.parts = parts, .desc = desc};
    a.out = desc->pass == PLAN_FORWARD ? desc->y : desc->x;
    a.operations[a.count++] = convolution(parts, desc, &a.now);
    if (desc->has_bias)
        add_bias(&a);
    if (desc->undoes)
        add_undo(&a);
    else if (desc->activation != ACTIVATION_NONE)
        add_activation(&a);
    if (desc->makes_sums)
        a.operations[a.count++] = sums(parts, a.now, a.out.c);
    cudnnBackendDescriptor_t graph =
        plan_part(parts, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    plan_part_set(parts, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, a.count, a.operations);
    if (handle)
        plan_part_set(parts, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                      1, &handle);
    plan_part_finalize(parts, graph);
    return graph;
}

int plan_tensors(const struct plan_desc *desc, const struct plan_pointers *at,
                 int64_t uids[PLAN_TENSORS_MAX], void *pointers[PLAN_TENSORS_MAX])
{
    const struct {
        int64_t uid;
        const void *pointer;
        int is_used;
    } all[] = {
        {UID_X, at->x, 1},
        {UID_W, at->w, 1},
        {UID_Y, at->y, 1},
        {UID_BIAS, at->bias, desc->has_bias},
        {UID_UNDO, at->undo, desc->undoes},
        {UID_SUM, at->sum, desc->makes_sums},
        {UID_SUMSQ, at->sumsq, desc->makes_sums},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].is_used)
            continue;
        CHECK(count < PLAN_TENSORS_MAX, "%d tensors", count);
        uids[count] = all[i].uid;
        pointers[count++] = (void *)(uintptr_t)all[i].pointer;
    }
    return count;
}
