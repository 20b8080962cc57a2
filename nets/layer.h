/* layer.h - the passes of one row of the table, by kind.
 * Flow:  net.c walks the table and calls these; each calls one or two ops.
 *
 *   forward          y from x; batch norm and convolutions also do the fused activation
 *   forward_tangent  the directional derivative of y from that of x, at the last forward
 *   dgrad            dx from delta, the gradient of y (before the activation that is fused
 *                    into this row, for a convolution: its row has already been undone)
 *   wgrad            adds to or overwrites the parameters' gradients, from (delta, input)
 *   commit           state that may advance only when the forward pass was finite
 * wgrad takes its input explicitly, so that a gradient penalty can hand it a tangent. */
#ifndef NETS_LAYER_H
#define NETS_LAYER_H

#include "nets/net.h"

struct layer_passes {
    const char *kind; // "conv", for summaries and messages
    void (*forward)(struct net *net, struct layer *layer, const struct tensor *x,
                    enum net_mode mode);
    enum status (*forward_tangent)(struct net *net, struct layer *layer,
                                   const struct tensor *x_tangent);
    void (*dgrad)(struct net *net, struct layer *layer, const struct tensor *x,
                  struct tensor *dx);
    void (*wgrad)(struct net *net, struct layer *layer, const struct tensor *delta,
                  const struct tensor *input, int accumulate);
    void (*commit)(struct net *net, struct layer *layer);
};

/* Never NULL; a slot is NULL where a kind has nothing to do (an activation has no wgrad). */
const struct layer_passes *layer_passes(enum layer_kind kind);

/* A batch norm's output once more, of its last forward pass; with its fused activation. */
void layer_remake(struct net *net, struct layer *norm);

/* True for rows that are a convolution or its transpose, dense layers among them. */
int layer_is_conv(const struct layer *layer);

#endif
