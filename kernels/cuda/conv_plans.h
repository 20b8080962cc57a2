/* conv_plans.h - all the plans that one layer will need, built at setup.
 * Flow:  cuda_conv.c's prepare() -> [conv_plans_build] -> plan_build() for each.
 * Owns:  the plans, until conv_plans_release().
 *
 * A layer asks for its own output, with and without its epilogue, for the other
 * direction, and for the weight gradient. Where cuDNN has no plan that does the whole of
 * it, the plain pass takes its place, and cuda_epilogue() does the rest. */
#ifndef KERNELS_CUDA_CONV_PLANS_H
#define KERNELS_CUDA_CONV_PLANS_H

#include "kernels/cuda/cuda_plan.h"

enum conv_use {
    CONV_OWN_PLAIN,  // own output: the convolution alone
    CONV_OWN,        // with bias and activation
    CONV_OWN_SUMS,   // and with the channels' sums
    CONV_OTHER,      // the other direction
    CONV_OTHER_UNDO, // times the gradient of the input's activation
    CONV_WGRAD,
    CONV_USES
};

/* plans[use].plan is NULL where nobody needs it, or where there is none. */
struct conv_plans {
    struct cuda_plan plans[CONV_USES];
};

/* cuDNN's engines may use this much memory of their own. */
#define CONV_WORKSPACE_MAX ((int64_t)64 << 20)

/* Builds the plans of `desc`, whose channels are stored in multiples of `multiple`.
 * STATUS_FAILED names shapes, pass and cuDNN's reason. */
enum status conv_plans_build(struct plan_maker *maker, const struct conv_desc *desc,
                             int multiple, struct conv_plans *plans);
void conv_plans_release(struct conv_plans *plans);

/* The plan that serves `use`: its own, or the next plainer one. */
struct cuda_plan *conv_plans_find(struct conv_plans *plans, enum conv_use use);

/* What `use` of this layer is, as a graph; 0 if the layer never asks for it, or if it is
 * the same as a plainer use. */
int conv_plans_describe(const struct conv_desc *desc, int multiple, enum conv_use use,
                        struct plan_desc *graph);

/* The largest workspace among them. */
int64_t conv_plans_workspace(const struct conv_plans *plans);

#endif
