/* net.h - a network: a graph of nodes in execution order, and its flat blocks.
 * Flow:  batch or latents -> [net_forward] -> loss seed -> [net_backward] -> scaler,
 *        optimizer.
 * Owns:  one arena for parameters, one for activations and their gradients; what its
 *        layer kinds hold per node.  Borrows: the device.
 *
 * A node is one layer: a row with its kind (layers/kind.h), the nodes that it reads, and
 * its output. Forward runs the nodes from the first to the last, backward from the last
 * to the first; there is no autograd graph: the line that computes a gradient stands in
 * layers/KIND.c. A node may read several others and be read by several; the gradient of
 * what is read by several is the sum of theirs. The output of the last node is the net's.
 *
 *     TRY(net_begin(&g, device, "g", DTYPE_F16, latents_shape));
 *     int x = net_add_linear(&g, "fc1", NET_INPUT, (struct shape){64, 7, 7, 128}, 0);
 *     x = net_add_batch_norm(&g, "bn1", x); ...                // layers/layers.h
 *     TRY(net_plan(&g, 0));
 *     net_initialise(&g, seed, 0);
 *     net_forward(&g, &latents, NET_TRAIN);                    // writes net_output(&g)
 *     net_backward(&g, &(struct backward){&latents, &dy, .grads = g.grads}); */
#ifndef NETS_NET_H
#define NETS_NET_H

#include "kernels/arena.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "kernels/tensor.h"

#define NET_NODES_MAX 1024
#define NET_NAME_MAX 32
#define NODE_INPUTS_MAX 4
#define NODE_OWN_BYTES 192

/* In the place of a node: what the net itself reads; the node that was added last (or the
 * net's input, where there is none). */
enum { NET_INPUT = -1, NET_PREVIOUS = -2 };

/* What a parameter is, which decides its initial value (init.h) and its name. */
enum param_role { PARAM_WEIGHT, PARAM_BIAS, PARAM_GAMMA, PARAM_BETA };

/* One named slice of the flat blocks. */
struct param {
    char name[NET_NAME_MAX]; // "conv1.weight"
    int node;
    enum param_role role;
    struct tensor shape; // data is NULL; shape and padding as stored
    size_t offset;       // in elements, into every flat block
};

/* State that is no parameter, as PyTorch's buffers: "bn1.running_mean", [elements]
 * f32. */
struct net_buffer {
    char name[NET_NAME_MAX];
    int elements;
    float initial;
    size_t offset; // in elements, into net.buffers
};

/* How a node's gradient for one of its inputs reaches that input's own. */
enum join {
    JOIN_NONE, // it is written there
    JOIN_CAST, // it is cast to that type
    JOIN_ADD,  // it is added to what other readers have left there
};

/* One input of a node. */
struct edge {
    int from;         // a node, or NET_INPUT
    int is_cast;      // it has another type: the node reads a cast of it
    struct tensor x;  // the cast
    struct tensor dx; // where the node's dgrad writes, but for JOIN_NONE
    enum join join;
};

struct layer_kind;

struct node {
    const struct layer_kind *kind;
    char name[NET_NAME_MAX]; // "conv1", "bn1", "act1"
    int edge_count;
    struct edge edge[NODE_INPUTS_MAX];
    enum dtype dtype; // of its operands and its copy of the weights
    int holds_f32;    // whatever the net's type: net_hold_f32()
    int is_head;      // writes f32: net_make_head_f32()
    int weight, bias; // params, -1 if none (gamma and beta for batch norm)
    _Alignas(16) unsigned char own[NODE_OWN_BYTES]; // its kind's: geometry, statistics

    // What an activation computes.
    enum activation activation;
    float slope;

    // Fusion, decided by net_plan(); nodes, or -1.
    int fused_activation; // the activation that this node computes as well
    int fused_into;       // of that activation: the node that computes it
    int sums_for;         // the batch norm whose sums this convolution makes
    int sums_from;        // of that batch norm: the convolution
    int undone_by;        // of an activation: the convolution whose dgrad undoes it
    int is_remade;        // its output is not kept: NET_RECOMPUTE

    struct tensor y;       // output
    struct tensor dy;      // gradient of the output, except of the last node
    struct tensor tangent; // directional derivative of the output, if planned
};

struct net {
    struct device *device;
    const char *name; // "g" or "d"
    enum dtype dtype; // of activations: f32, f16 or bf16

    int node_count, param_count, buffer_count;
    struct node *node;
    struct param *param;
    struct net_buffer *buffer;

    // Flat blocks, [param_elements] each.
    size_t param_elements;
    float *params, *grads;
    void *half; // copy of params in `dtype`; NULL in a f32 net

    size_t buffer_elements;
    float *buffers; // [buffer_elements] f32

    struct tensor input;       // type and shape of what it reads; no data
    struct tensor output_grad; // a place for dL/doutput, and with NET_INPUT_GRAD one for
    struct tensor input_grad;  // dL/dinput: good until the next pass of this net
    float norm_momentum;       // of the running statistics; NET_NORM_MOMENTUM
    int has_synced_norm;       // batch norm's statistics are those of all ranks
    int options;
    size_t kept_bytes; // of outputs that lie there from the forward pass to the backward
    size_t unkept_bytes; // of those that do not, by NET_RECOMPUTE
    struct arena parameters, activations;
};

#define NET_NORM_EPS 1e-5f // PyTorch's defaults
#define NET_NORM_MOMENTUM 0.1f

/* What net_plan() makes room for. */
enum {
    NET_INFERENCE = 1,  // no gradients at all: a net that only samples
    NET_INPUT_GRAD = 2, // dL/dinput (a discriminator, for the generator's sake)
    NET_TANGENT = 4,    // forward_tangent
    // Outputs of batch norm are not kept for the backward pass, which makes them again
    // from its input: less memory, the same bits.
    NET_RECOMPUTE = 8,
    NET_UNSHARED = 16, // every tensor has memory of its own: to test the plan against
};

enum net_mode { NET_TRAIN, NET_EVAL };

/* ---- building -------------------------------------------------------------------- */

/* An empty graph. `input` is the shape of one batch: its n is the batch of every pass.
 * STATUS_FAILED without memory; then, as after any failure, net_release() is safe. */
enum status net_begin(struct net *net, struct device *device, const char *name,
                      enum dtype dtype, struct shape input);

/* The last node, a convolution, writes f32: logits and losses are never half. Its
 * operands and its gradient keep the net's type. */
void net_make_head_f32(struct net *net);

/* A node is f32 in a half net: its operands, its output and their gradients. Nodes beside
 * it that keep the net's type are reached by casts; for a node that reads the net's
 * input, that itself becomes f32. Before net_plan(). */
void net_hold_f32(struct net *net, int node);

/* Decides fusion, plans and allocates everything. STATUS_FAILED names the net, what did
 * not fit and how many bytes were wanted. Weights are zero until net_initialise() or a
 * checkpoint. */
enum status net_plan(struct net *net, int options);
void net_release(struct net *net);

/* ---- passes ---------------------------------------------------------------------- */

/* Reads `x`, as net->input describes it. NET_TRAIN uses batch statistics and commits
 * running ones if they are finite. Returns net_output(). */
const struct tensor *net_forward(struct net *net, const struct tensor *x,
                                 enum net_mode mode);

/* A backward pass: what it reads, and what it is asked for. */
struct backward {
    const struct tensor *x;  // what net_forward() has read
    const struct tensor *dy; // dL/doutput; not written to
    struct tensor *dx;       // gets dL/dx; NULL where it is not asked for
    float *grads;            // [param_elements] f32, get dL/dparameters; NULL: not asked
    int accumulates;         // dL/dparameters are added to what lies there
};

void net_backward(struct net *net, const struct backward *pass);
/* One node of it, the last one first: for who looks at gradients on the way. A node's dy
 * is complete when its turn comes, and may be overwritten by the nodes below it. */
void net_backward_node(struct net *net, const struct backward *pass, int node);

/* One pass of one node by itself: to be timed. Advances no state. */
void net_node_pass(struct net *net, const struct backward *pass, int node,
                   enum pass_kind kind);

/* What NET_RECOMPUTE adds to one backward pass with gradients of weights, by itself: to
 * be timed. */
void net_recompute(struct net *net);

/* Directional derivative of the output along `x_tangent`, at the point of the last
 * net_forward(); into the last node's tangent. Fails, naming the node, where a layer has
 * no tangent (batch norm). */
enum status net_forward_tangent(struct net *net, const struct tensor *x_tangent);

struct tensor *net_output(struct net *net);

/* What node `index` reads by its first edge, in its own type, in a pass over `x`. */
const struct tensor *net_node_input(const struct net *net, int index,
                                    const struct tensor *x);
/* True for the last node, whose gradient is the caller's, and for one below it that
 * undoes its activation. */
int net_begins_backward(const struct net *net, int index);
/* The gradient of node `index`, in a pass. */
const struct tensor *net_node_dy(const struct net *net, int index,
                                 const struct backward *pass);

/* The only node that reads node `index`, or -1 where several or none do. */
int net_only_reader(const struct net *net, int index);

/* True for an activation whose gradient is in memory only as that of the node below: it
 * is undone by that node, or by the one that reads it. */
int net_passes_through(const struct net *net, int index);

/* ---- parameters ------------------------------------------------------------------ */

/* After params changed other than by the optimizer: renews the half copy. */
void net_params_changed(struct net *net);

/* The tensor of parameter `index` over `block` (params, grads, m, v, ema ...). */
struct tensor net_param_tensor(const struct net *net, int index, float *block);

/* Multiply-adds of one forward pass of one sample, over all nodes. */
double net_macs(const struct net *net);

#endif
