/* precision.h - which numbers are stored in half and which in f32: the op policy.
 * Flow:  [precision table] -> net_build.c gives every tensor its type; `info` prints it.
 * Owns:  nothing.
 *
 * One row per kind of op, one column per kind of tensor. A layer has one type, that of its
 * network or f32 where --fp32-layers names it; a column says whether the tensor is stored in
 * that type or in f32 whatever it is.
 * Source: PyTorch's CUDA autocast lists (aten/src/ATen/autocast_mode.h), and for what they
 * leave open the rule of the op itself, told in the row. */
#ifndef NETS_PRECISION_H
#define NETS_PRECISION_H

#include <stdio.h>

#include "nets/net.h"

enum op_kind {
    OP_CONV,
    OP_CONV_TRANSPOSE,
    OP_LINEAR,
    OP_LOGIT, // the last convolution or dense layer of a discriminator
    OP_BATCH_NORM,
    OP_ACTIVATION,
    OP_RESIDUAL,
    OP_LOSS,
    OP_OPTIMIZER, // Adam, moving average, finite check, clipping, loss scale
    OP_KINDS
};

enum tensor_role {
    ROLE_OPERAND,   // what the op reads: its input and its copy of the weights
    ROLE_OUTPUT,    // what it writes forward
    ROLE_GRADIENT,  // dL/doutput that it reads, and dL/dinput that it writes
    ROLE_WGRAD,     // its weights' gradient where it is made
    ROLE_PARAMETER, // weights, their collected gradients, moments, running statistics
    ROLE_SUM,       // what it adds up in
    TENSOR_ROLES
};

enum storage { STORED_NOWHERE, STORED_AS_LAYER, STORED_F32 };

struct op_policy {
    const char *op;
    enum storage storage[TENSOR_ROLES];
    const char *source;
};

const struct op_policy *precision_policy(enum op_kind op);

/* The type of a tensor of `op` in a layer of type `layer`. Aborts where there is none. */
enum dtype precision_of(enum op_kind op, enum tensor_role role, enum dtype layer);

/* The row that a layer of the table follows. */
enum op_kind precision_op(const struct layer *layer);

/* The table, for people. */
void precision_print(FILE *stream);

/* ---- layers that stay f32 -------------------------------------------------------- */

/* "g.conv2,d.act*": names of layers with their network, where * stands for any characters.
 * Gives every row of `net` that one of the patterns names to f32, before net_plan(). NULL
 * and "" name none. */
void precision_hold_f32(struct net *net, const char *patterns);

/* STATUS_USAGE, with the names that there are, for a pattern that names no layer of `nets`. */
enum status precision_check_patterns(const char *patterns, const struct net *const *nets,
                                     int count);

/* ---- where two networks meet ----------------------------------------------------- */

/* True where the two are the same bytes, so that one can stand for the other. */
int precision_agrees(const struct tensor *one, const struct tensor *other);

#endif
