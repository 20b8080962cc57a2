/* kind.h - what a kind of layer is: a row of functions and facts.
 * Flow:  layers/KIND.c defines one, kinds.def lists it; net_plan.c and net.c walk the
 *        nodes of a net and ask their kinds. Nothing outside asks which kind a node is
 *        of.
 * Owns:  nothing.
 *
 * A new kind is a file that defines `const struct layer_kind NAME_kind` and
 * `int net_add_NAME(...)`, a line in kinds.def and one in layers.h. */
#ifndef NETS_KIND_H
#define NETS_KIND_H

#include "nets/net.h"

/* ---- precision ------------------------------------------------------------------- */

/* The tensors of an op. */
enum tensor_use {
    USE_OPERAND,   // what it reads: its input and its copy of the weights
    USE_OUTPUT,    // what it writes forward
    USE_GRADIENT,  // dL/doutput that it reads, and dL/dinput that it writes
    USE_WGRAD,     // its weights' gradient where it is made
    USE_PARAMETER, // weights, their collected gradients, moments, running statistics
    USE_SUM,       // what it adds up in
    TENSOR_USES
};

enum storage { STORED_NOWHERE, STORED_AS_LAYER, STORED_F32 };

/* Which tensors are stored in the type of their layer, that of its network or f32 where
 * --fp32-layers names it, and which in f32 whatever that is. */
struct op_policy {
    const char *op;
    enum storage storage[TENSOR_USES];
    const char *source;
};

/* ---- the kind -------------------------------------------------------------------- */

/* All passes are queued on net->device. x[k] is what edge k reads, in the node's type. */
struct layer_kind {
    const char *name; // "conv", for summaries and messages; NULL: that of its activation
    struct op_policy policy;
    const struct op_policy *head_policy; // where it may be a net's head; else NULL

    // What the plan may do with it.
    unsigned is_in_place : 1;           // dx[0] may be dy, and in a sampler y may be x[0]
    unsigned reads_any_type : 1;        // its inputs need no cast
    unsigned computes_activation : 1;   // also the activation that reads it
    unsigned undoes_own_activation : 1; // its dgrad does, from its input
    unsigned
        undoes_input_activation : 1;     // its dgrad does, of an activation that it reads
    unsigned makes_sums : 1;             // of its output, for a batch norm
    unsigned wants_sums : 1;             // of its input
    unsigned can_remake : 1;             // its output, from its input
    unsigned only_wgrad_reads_input : 1; // its dgrad does not

    /* Before and after memory is there: plans; vectors of its own, in the arena of
     * activations; pointers into the parameters. Each may be NULL. */
    enum status (*prepare)(struct net *net, struct node *node);
    void (*reserve)(struct net *net, struct node *node, struct arena *arena);
    void (*bind)(struct net *net, struct node *node);
    void (*release)(struct net *net, struct node *node);

    /* node->y from x, with the fused activation. */
    void (*forward)(struct net *net, struct node *node, const struct tensor *const x[],
                    enum net_mode mode);
    /* node->y once more, of the last forward pass; where can_remake. */
    void (*remake)(struct net *net, struct node *node, const struct tensor *x);
    /* node->tangent, the directional derivative of y along that of x. */
    enum status (*forward_tangent)(struct net *net, struct node *node,
                                   const struct tensor *const x_tangent[]);
    /* dx[k] from dy, before its fused activation where another node undoes that; all
     * edges, dx[0] last. */
    void (*dgrad)(struct net *net, struct node *node, const struct tensor *const x[],
                  const struct tensor *dy, struct tensor *const dx[]);
    /* Adds to or overwrites the weight's gradient in `grads`; the input is explicit, so
     * that a gradient penalty can give a tangent. After dgrad, unless the input is
     * remade. */
    void (*wgrad)(struct net *net, struct node *node, const struct tensor *delta,
                  const struct tensor *x, float *grads, int accumulates);
    /* The same of the bias, which a penalty does not have. */
    void (*bias_grad)(struct net *net, struct node *node, const struct tensor *delta,
                      float *grads, int accumulates);
    /* State that may advance only when the forward pass was finite. */
    void (*commit)(struct net *net, struct node *node);
    /* Multiply-adds of one forward pass over the batch. */
    double (*macs)(const struct node *node);
};

/* ---- for the files of layers ----------------------------------------------------- */

/* A node that reads `inputs`, of the net's type; its y is still to be described. Returns
 * the node; its number is net->node_count - 1. */
struct node *net_add_node(struct net *net, const struct layer_kind *kind,
                          const char *name, const int *inputs, int count);

/* Shape of what node `input` (or NET_INPUT, NET_PREVIOUS) puts out. */
struct shape net_shape_of(const struct net *net, int input);

/* Describes y, by shape and the kind's policy. */
void net_set_output(struct net *net, struct node *node, struct shape shape);

/* One more parameter or buffer of the node that was added last. Returns its number. */
int net_add_param(struct net *net, enum param_role role, struct shape shape);
int net_add_buffer(struct net *net, const char *name, int elements, float initial);

/* The activation that `node` computes besides its own op; ACTIVATION_NONE if none. */
enum activation node_fused_activation(const struct net *net, const struct node *node,
                                      float *slope);

#endif
