/* net.h - a network: a flat table of layers in execution order, and its flat blocks.
 * Flow:  batch or latents -> [net forward] -> loss seed -> [net backward] -> scaler, adam.
 * Owns:  one arena for parameters, one for activations and their gradients; the
 *        convolution plans.  Borrows: the device, and its input.
 *
 * Forward runs the table down, backward runs it up; there is no autograd graph: the line
 * that computes a gradient stands in layer_*.c. A row of the table is a module of PyTorch's
 * nn.Sequential, with the same index, so main.3.weight there is rows[3] here.
 *
 *     net_begin(&g, device, "g", DTYPE_F16, latents_shape);
 *     net_add_conv_transpose(&g, "conv1", ...); net_add_batch_norm(&g, "bn1"); ...
 *     TRY(net_plan(&g, 0));
 *     net_initialise(&g, seed, 0);
 *     g.input.data = latents;                   // borrowed until the backward pass
 *     net_forward(&g, NET_TRAIN);               // writes net_output(&g)
 *     net_backward(&g, NET_WGRAD | NET_DGRAD);  // reads net_output_grad(&g)
 */
#ifndef NETS_NET_H
#define NETS_NET_H

#include "kernels/arena.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "kernels/tensor.h"

#define NET_LAYERS_MAX 48
#define NET_PARAMS_MAX 96
#define NET_NAME_MAX 32

enum layer_kind {
    LAYER_CONV,           // y = conv(x, w) [+ b]
    LAYER_CONV_TRANSPOSE, // y = dgrad of a conv(x, w) [+ b]
    LAYER_LINEAR,         // a dense layer: a conv, or its transpose, that covers its map
    LAYER_BATCH_NORM,     // f32 statistics and parameters
    LAYER_ACTIVATION,     // ReLU, leaky ReLU or tanh
    LAYER_RESIDUAL,       // y = x + the output of an earlier row
};

/* What a parameter is, which decides its initial value (init.h) and its name. */
enum param_role { PARAM_WEIGHT, PARAM_BIAS, PARAM_GAMMA, PARAM_BETA };

/* One named slice of the flat blocks. */
struct param {
    char name[NET_NAME_MAX]; // "conv1.weight"
    int layer;
    enum param_role role;
    struct tensor shape; // data is NULL; shape and padding as stored
    size_t offset;       // in elements, into every flat block
};

/* One row. `input` and the row's own index name the tensors it joins; a residual row has a
 * second input, `skip`. */
struct layer {
    enum layer_kind kind;
    char name[NET_NAME_MAX]; // "conv1", "bn1", "act1"
    int input;               // row whose output it reads; -1 is the net's input
    enum dtype dtype;        // of its weights' copy and its operands
    int holds_f32;           // whatever the net's type
    int is_logit;            // writes f32, see net_make_head_f32()

    // Geometry (conv, conv transpose, linear): of the convolution it is, or is the dgrad of.
    struct conv_desc conv;
    struct conv_plan *plan;
    int is_transposed; // forward is the convolution's dgrad

    enum activation activation; // kind ACTIVATION only
    float slope;

    int weight, bias;         // params, -1 if none (gamma and beta for batch norm)
    struct norm_vectors norm; // batch norm only
    size_t norm_buffers;      // offset of running_mean in the buffers block

    // Fusion, decided by net_plan(): a batch norm or a convolution computes the activation
    // that follows it; that activation's row then only passes through.
    int fused_activation; // row, or -1
    int fused_into;       // row, or -1
    int feeds_norm; // row of the batch norm whose sums this convolution makes, or -1
    int undone_by;  // row of the convolution whose dgrad undoes this activation, or -1
    int is_remade;  // its output is not kept: NET_RECOMPUTE

    // Of a residual row: the row whose output it adds, else -1; and its own gradient, kept
    // until that row's turn comes. Of the row it adds: the residual row, else -1.
    int skip, skipped_by;
    struct tensor skip_dy;

    // Where the row below has another type: its output in this row's type, and the gradient
    // before it is cast to the type of the row below.
    int casts_input;
    struct tensor cast_x, cast_dx;

    struct tensor y;       // output
    struct tensor dy;      // gradient of the output
    struct tensor tangent; // directional derivative of the output, if planned
};

struct net {
    struct device *device;
    const char *name; // "g" or "d"
    enum dtype dtype; // of activations: f32, f16 or bf16

    int layer_count, param_count;
    struct layer layers[NET_LAYERS_MAX];
    struct param param[NET_PARAMS_MAX];

    // Flat blocks, [param_elements] each.
    size_t param_elements;
    float *params, *grads;
    void *half; // copy of params in `dtype`; NULL in a f32 net

    // Batch norm's running statistics, [buffer_elements] f32: per norm mean then variance.
    size_t buffer_elements;
    float *buffers;

    struct tensor input;         // borrowed: the caller points its data somewhere
    struct tensor input_grad;    // dL/dinput, if NET_INPUT_GRAD was planned
    struct tensor input_tangent; // borrowed too
    float norm_momentum;         // of the running statistics; NET_NORM_MOMENTUM
    int has_synced_norm;         // batch norm's statistics are those of all ranks
    int options;
    size_t kept_bytes;   // of outputs that lie there from the forward pass to the backward
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
    // Outputs of batch norm are not kept for the backward pass, which makes them again from
    // its input: less memory, the same bits.
    NET_RECOMPUTE = 8,
};

enum net_mode { NET_TRAIN, NET_EVAL };

/* ---- building -------------------------------------------------------------------- */

/* An empty table. `input` is the shape of one batch: its n is the batch of every pass. */
void net_begin(struct net *net, struct device *device, const char *name, enum dtype dtype,
               struct shape input);

/* Each adds one row that reads the row before it. `out` is the number of output channels. */
void net_add_conv(struct net *net, const char *name, int out, int kernel, int stride,
                  int pad, int has_bias);
void net_add_conv_transpose(struct net *net, const char *name, int out, int kernel,
                            int stride, int pad, int has_bias);
/* [N,H,W,C] -> [N, out.h, out.w, out.c]: a dense map from all inputs to all outputs. One of
 * the two maps must be 1x1 and the other square; the bias is one per output channel. */
void net_add_linear(struct net *net, const char *name, struct shape out, int has_bias);
void net_add_batch_norm(struct net *net, const char *name);
void net_add_activation(struct net *net, const char *name, enum activation activation,
                        float slope);
/* y = x + y of row `row`, the skipped row: of the same shape, and below the row before this
 * one. Blocks follow one another: `row` is not below the residual row before, so that a row
 * is skipped once. The skipped row is read in its own type; the sum is f32, rounded once. Its
 * gradient is that of the row that reads it plus that of this one:
 *   dx = dy;   dy of row `row` = store(what comes through the branch + dy)
 * Source: He et al. 2016, arXiv:1512.03385. */
void net_add_residual(struct net *net, const char *name, int row);

/* The last row, a convolution, writes f32: logits and losses are never half. Its operands
 * and its gradient keep the net's type. */
void net_make_head_f32(struct net *net);

/* Row `row` is f32 in a half net: its operands, its output and their gradients. Rows beside it
 * that keep the net's type are reached by casts; for the first row the net's input itself
 * becomes f32. Before net_plan(). */
void net_hold_f32(struct net *net, int row);

/* Decides fusion, plans and allots everything. STATUS_FAILED names the net, what did not fit
 * and how many bytes were wanted. Weights are zero until net_initialise() or a checkpoint. */
enum status net_plan(struct net *net, int options);
void net_release(struct net *net);

/* ---- passes ---------------------------------------------------------------------- */

/* Reads net->input. NET_TRAIN uses batch statistics and commits running ones if finite. */
void net_forward(struct net *net, enum net_mode mode);

/* Which gradients net_backward() computes. */
enum { NET_WGRAD = 1, NET_DGRAD = 2, NET_ACCUMULATE = 4 };

/* Reads net_output_grad(). NET_WGRAD fills net->grads (adds to it with NET_ACCUMULATE);
 * NET_DGRAD continues to input_grad. */
void net_backward(struct net *net, int what);
/* One row of it, the last one first: for who looks at gradients on the way. A row's dy is
 * complete when its turn comes, and may be overwritten by the rows below it. */
void net_backward_row(struct net *net, int row, int what);

/* What NET_RECOMPUTE adds to one backward pass with NET_WGRAD, by itself: to be timed. */
void net_recompute(struct net *net);

/* Directional derivative of the output along net->input_tangent, at the point of the last
 * net_forward(); into the last row's tangent. Fails, naming the row, where a layer has no
 * tangent (batch norm). */
enum status net_forward_tangent(struct net *net);

struct tensor *net_output(struct net *net);
struct tensor *net_output_grad(struct net *net);
/* What row `index` reads, in its own type: another row's output, a cast of it, or the net's
 * input. */
struct tensor *net_layer_input(struct net *net, int index);

/* ---- parameters ------------------------------------------------------------------ */

/* After params changed other than by adam_step(): renews the half copy. */
void net_params_changed(struct net *net);

/* The tensor of parameter `index` over `block` (params, grads, m, v, ema ...). */
struct tensor net_param_tensor(const struct net *net, int index, float *block);

/* Multiply-adds of one forward pass of one sample, from the table. */
double net_macs(const struct net *net);

#endif
