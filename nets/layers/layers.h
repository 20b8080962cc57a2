/* layers.h - adding layers to a net.
 * Flow:  an architecture -> [net_add_...] -> nodes -> net_plan().
 *
 * Each adds one node that reads `input`: the number of an earlier node, NET_INPUT, or
 * NET_PREVIOUS; and returns the number of the new one. Shapes that do not fit abort
 * (CHECK). */
#ifndef NETS_LAYERS_LAYERS_H
#define NETS_LAYERS_LAYERS_H

#include "nets/net.h"

/* y = conv(x, w) [+ b]; `out` channels. */
int net_add_conv(struct net *net, const char *name, int input, int out, int kernel,
                 int stride, int pad, int has_bias);
/* y = the dgrad of a convolution (x, w) [+ b]. */
int net_add_conv_transpose(struct net *net, const char *name, int input, int out,
                           int kernel, int stride, int pad, int has_bias);
/* [N,H,W,C] -> [N, out.h, out.w, out.c]: a dense map from all inputs to all outputs. One
 * of the two maps must be 1x1 and the other square; the bias is one per output
 * channel. */
int net_add_linear(struct net *net, const char *name, int input, struct shape out,
                   int has_bias);
/* Statistics over the batch, f32. Not of the net's input. */
int net_add_batch_norm(struct net *net, const char *name, int input);
int net_add_activation(struct net *net, const char *name, int input,
                       enum activation activation, float slope);
/* y = store(a + b), of one shape; each is read in its own type, the sum is f32, rounded
 * once.
 *   da = dy, db = dy
 * Source: He et al. 2016, arXiv:1512.03385. */
int net_add_residual(struct net *net, const char *name, int a, int b);

/* y = the mean of blocks of k x k pixels, of which H and W are multiples; as PyTorch's
 * avg_pool2d(x, k). */
int net_add_average_pool(struct net *net, const char *name, int input, int k);

/* The convolution that a node is, or is the dgrad of; NULL for other kinds. */
const struct conv_desc *node_conv(const struct node *node);
/* Its plan, and whether it is the dgrad; only where node_conv() is not NULL. */
struct conv_plan *node_conv_plan(const struct node *node);
int node_conv_is_transposed(const struct node *node);

#endif
