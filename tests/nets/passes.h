/* passes.h - the backward pass of a test: what it is asked for, in flags, at the net's
 * own places. */
#ifndef TESTS_NETS_PASSES_H
#define TESTS_NETS_PASSES_H

#include "nets/net.h"

enum { WGRAD = 1, DGRAD = 2, ACCUMULATE = 4 };

static inline struct backward backward_of(struct net *net, const struct tensor *x,
                                          int what)
{
    return (struct backward){.x = x,
                             .dy = &net->output_grad,
                             .dx = what & DGRAD ? &net->input_grad : NULL,
                             .grads = what & WGRAD ? net->grads : NULL,
                             .accumulates = (what & ACCUMULATE) != 0};
}

/* From net->output_grad. */
static inline void run_backward(struct net *net, const struct tensor *x, int what)
{
    struct backward pass = backward_of(net, x, what);
    net_backward(net, &pass);
}

#endif
