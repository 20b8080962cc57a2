#include "kernels/cuda/conv_plans.h"

#include <cudnn.h>
#include <string.h>

static struct shape stored(struct shape shape, int multiple)
{
    shape.c = (shape.c + multiple - 1) / multiple * multiple;
    return shape;
}

/* Whether a graph with an epilogue is tried before the plain pass and cuda_epilogue().
 *
 * cuDNN's fused engines are compiled at run time, once for each machine, and spare a pass
 * over the output; the plain ones come compiled and are tuned by hand. Which of the two
 * is faster at the sizes of these networks only a GPU can tell; until it has, fused.
 *
 * Two gradients are left to cuda_epilogue(): ReLU's, because cuDNN may put a zero where
 * it must multiply by one (inf * 0 is NaN, and the loss scaler has to see it), and
 * tanh's, because cuDNN wants the activation's input and we keep its output. */
static int is_fused_first(const struct plan_desc *graph)
{
    return !graph->undoes || graph->activation == ACTIVATION_LEAKY_RELU;
}

static int has_epilogue(const struct plan_desc *graph)
{
    return graph->has_bias || graph->makes_sums || graph->activation != ACTIVATION_NONE;
}

int conv_plans_describe(const struct conv_desc *desc, int multiple, enum conv_use use,
                        struct plan_desc *graph)
{
    *graph = (struct plan_desc){.x = stored(desc->x, multiple),
                                .y = stored(desc->y, multiple),
                                .kernel = desc->kernel,
                                .stride = desc->stride,
                                .pad = desc->pad,
                                .dtype = desc->dtype,
                                .out_dtype = desc->dtype};
    enum plan_pass own = desc->is_transposed ? PLAN_DGRAD : PLAN_FORWARD;
    enum plan_pass other = desc->is_transposed ? PLAN_FORWARD : PLAN_DGRAD;
    int has_steps = desc->has_bias || desc->activation != ACTIVATION_NONE;
    if (use <= CONV_OWN_SUMS) {
        graph->pass = own;
        graph->out_dtype = desc->out_dtype;
    }
    if (use == CONV_OWN || use == CONV_OWN_SUMS) {
        graph->has_bias = desc->has_bias;
        graph->activation = desc->activation;
        graph->slope = desc->slope;
    }
    switch (use) {
    case CONV_OWN_PLAIN: return !desc->is_inference || !has_steps;
    case CONV_OWN: return has_steps;
    case CONV_OWN_SUMS:
        graph->makes_sums = 1;
        return desc->makes_sums && !desc->is_inference;
    case CONV_OTHER: graph->pass = other; return !desc->is_inference;
    case CONV_OTHER_UNDO:
        graph->pass = other;
        graph->undoes = 1;
        graph->activation = desc->input_activation;
        graph->slope = desc->input_slope;
        return !desc->is_inference && desc->input_activation != ACTIVATION_NONE;
    default: graph->pass = PLAN_WGRAD; return !desc->is_inference;
    }
}

// The use that takes the place of one without a plan; itself if there is no plainer one.
static enum conv_use plainer(enum conv_use use)
{
    switch (use) {
    case CONV_OWN_SUMS: return CONV_OWN;
    case CONV_OWN: return CONV_OWN_PLAIN;
    case CONV_OTHER_UNDO: return CONV_OTHER;
    default: return use;
    }
}

struct cuda_plan *conv_plans_find(struct conv_plans *plans, enum conv_use use)
{
    while (!plans->plans[use].plan && plainer(use) != use)
        use = plainer(use);
    return &plans->plans[use];
}

static enum status no_plan(const struct plan_maker *maker, const struct plan_desc *graph)
{
    char text[PLAN_TEXT];
    return status_fail(
        STATUS_FAILED,
        "%s: cuDNN %zu has no plan for this convolution on %s (%s); choose "
        "another --precision, other widths or a smaller batch",
        plan_text(graph, text), cudnnGetVersion(), maker->device,
        maker->reason[0] ? maker->reason : "it gives no reason");
}

/* A plain pass has to exist, and on tensor cores if that can be. A fused one is worth
 * having only there: without them, the plain pass and a second kernel are faster. */
static enum status build(struct plan_maker *maker, const struct plan_desc *graph,
                         struct cuda_plan *plan)
{
    int is_half = graph->dtype != DTYPE_F32;
    if (has_epilogue(graph)) {
        if (is_fused_first(graph))
            plan_build(maker, graph, is_half, plan);
        return STATUS_OK;
    }
    if (plan_build(maker, graph, is_half, plan) ||
        (is_half && plan_build(maker, graph, 0, plan)))
        return STATUS_OK;
    return no_plan(maker, graph);
}

/* The plain pass of an inference layer is built only where its fused one is missing. */
static enum status build_missing(struct plan_maker *maker, const struct conv_desc *desc,
                                 int multiple, struct conv_plans *plans)
{
    struct plan_desc graph;
    conv_plans_describe(desc, multiple, CONV_OWN_PLAIN, &graph);
    if (conv_plans_find(plans, CONV_OWN)->plan)
        return STATUS_OK;
    return build(maker, &graph, &plans->plans[CONV_OWN_PLAIN]);
}

enum status conv_plans_build(struct plan_maker *maker, const struct conv_desc *desc,
                             int multiple, struct conv_plans *plans)
{
    memset(plans, 0, sizeof *plans);
    enum status status = STATUS_OK;
    for (int use = 0; use < CONV_USES && status == STATUS_OK; use++) {
        struct plan_desc graph;
        if (conv_plans_describe(desc, multiple, (enum conv_use)use, &graph))
            status = build(maker, &graph, &plans->plans[use]);
    }
    if (status == STATUS_OK)
        status = build_missing(maker, desc, multiple, plans);
    if (status != STATUS_OK)
        conv_plans_release(plans);
    return status;
}

void conv_plans_release(struct conv_plans *plans)
{
    for (int use = 0; use < CONV_USES; use++)
        plan_release(&plans->plans[use]);
}

int64_t conv_plans_workspace(const struct conv_plans *plans)
{
    int64_t most = 0;
    for (int use = 0; use < CONV_USES; use++)
        if (plans->plans[use].workspace_bytes > most)
            most = plans->plans[use].workspace_bytes;
    return most;
}
