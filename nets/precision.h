/* precision.h - which numbers are stored in half and which in f32: the op policy.
 * Flow:  [op policies] -> net_build.c gives every tensor its type; `info` prints it.
 * Owns:  nothing.
 *
 * One row per kind of op, which stands in its file under layers/, one column per kind of
 * tensor. A layer has one type, that of its network or f32 where --fp32-layers names it;
 * a column says whether the tensor is stored in that type or in f32 whatever it is.
 * Source: PyTorch's CUDA autocast lists (aten/src/ATen/autocast_mode.h), and for what
 * they leave open the rule of the op itself, told in the row. */
#ifndef NETS_PRECISION_H
#define NETS_PRECISION_H

#include <stdio.h>

#include "nets/kind.h"

/* The policy that a node follows. */
const struct op_policy *node_policy(const struct node *node);

/* Of what is no layer: the loss, and the optimizer with all that works on f32 masters. */
extern const struct op_policy precision_loss, precision_optimizer;

/* The type of a tensor of an op in a layer of type `layer`. Aborts where there is
 * none. */
enum dtype precision_of(const struct op_policy *policy, enum tensor_use use,
                        enum dtype layer);

/* ---- layers that stay f32 -------------------------------------------------------- */

/* "g.conv2,d.act*": names of layers with their network, where * stands for any
 * characters. Makes every node of `net` that one of the patterns names f32, before
 * net_plan(). NULL and "" name none. */
void precision_hold_f32(struct net *net, const char *patterns);

/* STATUS_USAGE, with the names that there are, for a pattern that names no layer of
 * `nets`. */
enum status precision_check_patterns(const char *patterns, const struct net *const *nets,
                                     int count);

/* ---- where two networks meet ----------------------------------------------------- */

/* True where the two are the same bytes, so that one can stand for the other. */
int precision_agrees(const struct tensor *one, const struct tensor *other);

#endif
