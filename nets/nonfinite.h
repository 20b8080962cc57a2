/* nonfinite.h - where in a network inf or NaN came first, after a step that was skipped.
 * Flow:  grad_scaler found inf -> [nonfinite] -> a line of the log.
 * Owns:  a host copy of one block while it looks.  Borrows: the network.
 *
 * It copies from the device, so it is for the steps that were skipped and no others. */
#ifndef NETS_NONFINITE_H
#define NETS_NONFINITE_H

#include "nets/net.h"

struct nonfinite_place {
    char layer[NET_NAME_MAX + 8]; // "d.conv3"
    const char *tensor;           // "activation" or "weight gradient"
};

/* The first row, in execution order, whose output of the last net_forward() holds inf or
 * NaN. 0 and *place untouched when there is none. */
int nonfinite_activation(const struct net *net, struct nonfinite_place *place);

/* The first row, in backward order, whose parameters have a gradient that is inf or NaN. */
int nonfinite_gradient(const struct net *net, struct nonfinite_place *place);

#endif
