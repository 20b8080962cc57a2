/* cudnn_plan.c - reads, checks and runs the operation graph of a finalized cuDNN plan. */
#include "tests/cuda/standins/cudnn_plan.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standins/standin.h"
#include "tests/cuda/standins/stored.h"

/* ---- reading -------------------------------------------------------------------- */

const char *node_text(const json_t *node, const char *key)
{
    return json_string_value(json_object_get(node, key));
}

double node_number(const json_t *node, const char *key, double otherwise)
{
    const json_t *value = json_object_get(node, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

void node_pair(const json_t *node, const char *key, long pair[2])
{
    const json_t *array = json_object_get(node, key);
    for (size_t i = 0; i < 2; i++)
        pair[i] = (long)json_integer_value(json_array_get(array, i));
}

static int read_dtype(const char *name, enum plan_dtype *dtype)
{
    static const char *const names[] = {"CUDNN_DATA_FLOAT", "CUDNN_DATA_HALF",
                                        "CUDNN_DATA_BFLOAT16"};
    for (int i = 0; name && i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *dtype = (enum plan_dtype)i;
            return 1;
        }
    standin_complain("cuDNN plan: tensors of %s are not modelled",
                     name ? name : "no type");
    return 0;
}

static int read_tensor(const json_t *json, struct plan_tensor *tensor)
{
    const json_t *dim = json_object_get(json, "dim"),
                 *stride = json_object_get(json, "stride");
    const char *name = node_text(json, "name");
    long last = 0;
    if (!name || json_array_size(dim) != 4 || json_array_size(stride) != 4 ||
        json_is_true(json_object_get(json, "isByValue"))) {
        standin_complain("cuDNN plan: tensor %s has not 4 extents, or is a number",
                         name ? name : "without a name");
        return 0;
    }
    strncpy(tensor->name, name, sizeof tensor->name - 1);
    tensor->is_virtual = json_is_true(json_object_get(json, "isVirtual"));
    tensor->alignment = (int)node_number(json, "ptrAlignment", 16);
    tensor->count = 1;
    for (size_t i = 0; i < 4; i++) {
        tensor->dim[i] = (long)json_integer_value(json_array_get(dim, i));
        tensor->stride[i] = (long)json_integer_value(json_array_get(stride, i));
        tensor->count *= tensor->dim[i];
        last += (tensor->dim[i] - 1) * tensor->stride[i];
    }
    if (!read_dtype(node_text(json, "dataType"), &tensor->dtype))
        return 0;
    tensor->bytes = (size_t)(last + 1) * (tensor->dtype == PLAN_F32 ? 4 : 2);
    return 1;
}

struct plan *plan_read(const char *text, size_t bytes, int64_t workspace_bytes)
{
    json_error_t error;
    struct plan *plan = calloc(1, sizeof *plan);
    plan->root = json_loadb(text, bytes, JSON_DISABLE_EOF_CHECK, &error);
    const json_t *graph = json_object_get(plan->root, "operationGraph");
    const json_t *tensors = json_object_get(graph, "tensors");
    plan->nodes = json_object_get(graph, "nodes");
    plan->workspace_bytes = workspace_bytes;
    size_t count = json_array_size(tensors);
    int is_right = plan->nodes && count > 0 && count <= PLAN_TENSORS;
    if (!is_right)
        standin_complain("cuDNN plan: its JSON has no operation graph (%s)",
                         plan->root ? "read" : error.text);
    for (size_t i = 0; i < count && is_right; i++)
        is_right =
            read_tensor(json_array_get(tensors, i), &plan->tensors[plan->tensor_count++]);
    if (is_right)
        return plan;
    json_decref(plan->root);
    free(plan);
    return NULL;
}

/* ---- checking ------------------------------------------------------------------- */

int plan_check(const struct plan_call *call)
{
    const struct plan *plan = call->plan;
    char what[64];
    int is_right = 1;
    for (int i = 0; i < plan->tensor_count; i++) {
        const struct plan_tensor *tensor = &plan->tensors[i];
        if (tensor->is_virtual)
            continue;
        snprintf(what, sizeof what, "cudnnBackendExecute, tensor %s", tensor->name);
        is_right &= standin_is_device(call->pointers[i], tensor->bytes, what);
        if ((uintptr_t)call->pointers[i] % (uintptr_t)tensor->alignment) {
            standin_complain("%s: %p is not aligned to the %d bytes that were declared",
                             what, call->pointers[i], tensor->alignment);
            is_right = 0;
        }
    }
    if (plan->workspace_bytes > 0)
        is_right &= standin_is_device(call->workspace, (size_t)plan->workspace_bytes,
                                      "cudnnBackendExecute, workspace");
    return is_right;
}

/* ---- running -------------------------------------------------------------------- */

// The values of one execution: data is NULL until they are read or computed.
struct run {
    const struct plan_call *call;
    struct values values[PLAN_TENSORS];
    int is_output[PLAN_TENSORS];
};

static long place(const struct plan_tensor *tensor, long n, long c, long h, long w)
{
    return n * tensor->stride[0] + c * tensor->stride[1] + h * tensor->stride[2] +
           w * tensor->stride[3];
}

static void load(const struct plan_tensor *tensor, const void *memory, float *to)
{
    for (long n = 0; n < tensor->dim[0]; n++)
        for (long h = 0; h < tensor->dim[2]; h++)
            for (long w = 0; w < tensor->dim[3]; w++)
                for (long c = 0; c < tensor->dim[1]; c++)
                    *to++ = stored_read(memory, place(tensor, n, c, h, w),
                                        (enum stored)tensor->dtype);
}

static void store(const struct plan_tensor *tensor, const float *from, void *memory)
{
    for (long n = 0; n < tensor->dim[0]; n++)
        for (long h = 0; h < tensor->dim[2]; h++)
            for (long w = 0; w < tensor->dim[3]; w++)
                for (long c = 0; c < tensor->dim[1]; c++)
                    stored_write(memory, place(tensor, n, c, h, w),
                                 (enum stored)tensor->dtype, *from++);
}

static int tensor_index(const struct plan *plan, const json_t *node, const char *key)
{
    const char *name = node_text(node, key);
    for (int i = 0; name && i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].name, name) == 0)
            return i;
    return -1;
}

static void make_room(struct run *run, int index)
{
    const struct plan_tensor *tensor = &run->call->plan->tensors[index];
    struct values *values = &run->values[index];
    if (!values->data)
        values->data = malloc((size_t)tensor->count * sizeof(float));
    values->n = tensor->dim[0];
    values->c = tensor->dim[1];
    values->h = tensor->dim[2];
    values->w = tensor->dim[3];
}

// The operand's values; data is NULL if the node has none of that name, or if it is not
// computed yet.
static struct values input(struct run *run, const json_t *node, const char *key)
{
    struct plan *plan = run->call->plan;
    int index = tensor_index(plan, node, key);
    if (index < 0)
        return (struct values){0};
    if (!run->values[index].data && !plan->tensors[index].is_virtual &&
        !run->is_output[index]) {
        make_room(run, index);
        load(&plan->tensors[index], run->call->pointers[index], run->values[index].data);
    }
    return run->values[index];
}

static struct values output(struct run *run, const json_t *node, const char *key)
{
    int index = tensor_index(run->call->plan, node, key);
    if (index < 0)
        return (struct values){0};
    make_room(run, index);
    // Only what is added to is read.
    if (node_number(node, "beta", 0) != 0)
        load(&run->call->plan->tensors[index], run->call->pointers[index],
             run->values[index].data);
    return run->values[index];
}

// What is stored has its type's precision for those who read it in the same plan.
static void finish(struct run *run, const json_t *node, const char *key)
{
    struct plan *plan = run->call->plan;
    int index = tensor_index(plan, node, key);
    struct plan_tensor *tensor = &plan->tensors[index];
    for (long i = 0; !tensor->is_virtual && i < tensor->count; i++)
        run->values[index].data[i] =
            stored_round(run->values[index].data[i], (enum stored)tensor->dtype);
}

static void mark_outputs(struct run *run, const json_t *node)
{
    static const char *const bwd_data[] = {"dX", NULL},
                             *const bwd_filter[] = {"dW", NULL},
                             *const stats[] = {"Sum", "SqSum", NULL},
                             *const others[] = {"Y", "dX", NULL};
    const char *op = node_text(node, "operation");
    const char *const *keys = strstr(op, "BACKWARD_FILTER") ? bwd_filter
                              : strstr(op, "BACKWARD_DATA") ? bwd_data
                              : strstr(op, "GEN_STATS")     ? stats
                                                            : others;
    for (; *keys; keys++) {
        int index = tensor_index(run->call->plan, node, *keys);
        if (index >= 0)
            run->is_output[index] = 1;
    }
}

static int run_conv(struct run *run, const json_t *node, const char *op)
{
    enum conv_pass pass = strstr(op, "BACKWARD_DATA")     ? CONV_DGRAD
                          : strstr(op, "BACKWARD_FILTER") ? CONV_WGRAD
                                                          : CONV_FORWARD;
    static const char *const keys[3][3] = {
        {"X", "W", "Y"}, {"dX", "W", "dY"}, {"X", "dW", "dY"}};
    static const int out[3] = {2, 0, 1};
    struct values operands[3];
    for (int i = 0; i < 3; i++) {
        operands[i] =
            i == out[pass] ? (struct values){0} : input(run, node, keys[pass][i]);
        if (i != out[pass] && !operands[i].data)
            return 0;
    }
    operands[out[pass]] = output(run, node, keys[pass][out[pass]]);
    if (operands[0].c != operands[1].c || operands[1].n != operands[2].c)
        standin_complain("cuDNN plan: convolutions in groups are not modelled");
    else
        conv_run(pass, operands[0], operands[1], operands[2], node);
    finish(run, node, keys[pass][out[pass]]);
    return 1;
}

static int run_pointwise(struct run *run, const json_t *node)
{
    const char *mode = node_text(node, "pointwiseMode");
    int is_backward = strstr(mode, "_BWD") != NULL;
    const char *second = is_backward ? "dY" : "B", *result = is_backward ? "dX" : "Y";
    struct values a = input(run, node, "X"), b = input(run, node, second);
    if (!a.data || (node_text(node, second) && !b.data))
        return 0;
    if (!pointwise_run(a, b, output(run, node, result), node))
        standin_complain("cuDNN plan: %s is not modelled", mode);
    finish(run, node, result);
    return 1;
}

static int run_genstats(struct run *run, const json_t *node)
{
    struct values x = input(run, node, "X");
    if (!x.data)
        return 0;
    genstats_run(x, output(run, node, "Sum"), output(run, node, "SqSum"));
    finish(run, node, "Sum");
    finish(run, node, "SqSum");
    return 1;
}

// 0 if an operand of it has still to be computed.
static int run_node(struct run *run, const json_t *node)
{
    const char *op = node_text(node, "operation");
    if (strstr(op, "CONVOLUTION"))
        return run_conv(run, node, op);
    if (strstr(op, "POINTWISE"))
        return run_pointwise(run, node);
    if (strstr(op, "GEN_STATS"))
        return run_genstats(run, node);
    standin_complain("cuDNN plan: %s is not modelled", op);
    return 1;
}

static void run_nodes(struct run *run)
{
    char is_done[PLAN_TENSORS] = {0};
    size_t count = json_array_size(run->call->plan->nodes), done = 0, before = 1;
    for (size_t i = 0; i < count; i++)
        mark_outputs(run, json_array_get(run->call->plan->nodes, i));
    while (done < count && done != before) {
        before = done;
        for (size_t i = 0; i < count && i < PLAN_TENSORS; i++)
            if (!is_done[i] && run_node(run, json_array_get(run->call->plan->nodes, i))) {
                is_done[i] = 1;
                done += 1;
            }
    }
    if (done < count)
        standin_complain("cuDNN plan: %zu of %zu operations have no operands",
                         count - done, count);
}

void plan_run(void *data)
{
    struct run run = {.call = data};
    const struct plan *plan = run.call->plan;
    run_nodes(&run);
    for (int i = 0; i < plan->tensor_count; i++) {
        if (run.is_output[i] && !plan->tensors[i].is_virtual && run.values[i].data)
            store(&plan->tensors[i], run.values[i].data, run.call->pointers[i]);
        free(run.values[i].data);
    }
    if (plan->workspace_bytes > 0)
        memset(run.call->workspace, 0xa5, (size_t)plan->workspace_bytes);
}
