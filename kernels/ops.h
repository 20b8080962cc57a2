/* ops.h - the op contract: what every backend can do, and what each op means.
 * Flow:  nets -> [ops] -> ref | cpu | cuda.
 * Owns:  nothing: a table of functions.
 *
 * `ref` fills every slot with the obvious loops and IS the meaning; `cpu` is ref plus
 * faster bodies; `cuda` fills every slot. One test compares them all with ref. The bodies
 * of conv.forward are ref_conv_forward(), cpu_conv_forward() and cuda_conv_forward(), and
 * so on.
 *
 * Two kinds of function:
 *   prepare   at setup: may allocate and fail with a sentence (shapes, plans, workspace)
 *   run       in a step: allocates nothing, returns nothing, reads nothing back to host.
 *             Every scalar that changes from step to step (step counter, scale, Adam's t)
 *             is a device pointer, so that a captured graph replays it rightly. A fault
 *             is kept by the device (device_set_fault).
 *
 * Every pointer is device memory unless the name ends in _host. Every sum is f32 or
 * wider, whatever the storage. "half type" below is f16 or bf16; `store(v)` rounds to the
 * tensor's dtype (half.h). Sizes that do not agree are our own mistake: CHECK aborts.
 * Results are the same bits whatever the number of threads. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"
#include "kernels/losses.h"
#include "kernels/philox.h"
#include "kernels/scaler_state.h"
#include "kernels/tensor.h"

/* ---- memory ---------------------------------------------------------------------- */

struct memory_ops {
    /* Zeroed, ARENA_ALIGN-aligned device memory; NULL when there is not enough. */
    void *(*alloc)(struct device *device, size_t bytes);
    void (*release)(struct device *device, void *block);
    void (*zero)(struct device *device, void *data, size_t bytes);
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);
    /* Host to device and back. The host's bytes are taken before upload() returns;
     * download() waits until the work queued before it is done. */
    void (*upload)(struct device *device, void *to, const void *from_host, size_t bytes);
    void (*download)(struct device *device, void *to_host, const void *from,
                     size_t bytes);
    /* Waits until everything queued so far is done. */
    void (*wait)(struct device *device);
    /* Bytes that can still be allocated; SIZE_MAX where nobody can tell. */
    size_t (*available)(struct device *device);
    /* Zeroed host memory that the device reads and writes by itself (pinned, on a GPU);
     * for upload_later() and download_later(). NULL when there is not enough. */
    void *(*alloc_host)(struct device *device, size_t bytes);
    void (*release_host)(struct device *device, void *block);
};

/* ---- the queue ------------------------------------------------------------------- */

/* A GPU works through a queue while the host goes on; on a CPU every op has ended when it
 * returns, and the queue is always empty. A stream is a second queue of the same
 * device. */

#define DEVICE_MARKS 4

struct repeat; // what a device recorded of one piece of work

struct queue_ops {
    /* Like upload() and download() without a wait. The host block is from alloc_host(),
     * and is not touched until a mark that is set later has been passed. */
    void (*upload_later)(struct device *device, void *to, const void *from_host,
                         size_t bytes);
    void (*download_later)(struct device *device, void *to_host, const void *from,
                           size_t bytes);

    /* Remembers this place of the queue as `slot`, 0..DEVICE_MARKS-1; waits for it, or
     * asks whether it is passed. A slot that was never marked is passed. */
    void (*mark)(struct device *device, int slot);
    void (*wait_mark)(struct device *device, int slot);
    int (*is_passed)(struct device *device, int slot);

    /* What `device` is given from now on begins after all that `other`, a stream of the
     * same device, has been given so far. */
    void (*follow)(struct device *device, struct device *other);

    /* Does work(argument), which queues the same ops with the same arguments every time.
     * A device may record one call and replay it afterwards; *repeat, NULL before the
     * first call, is its own. forget() ends that: after any of the arguments changed. */
    void (*repeat)(struct device *device, struct repeat **repeat,
                   void (*work)(void *argument), void *argument);
    void (*forget)(struct device *device, struct repeat **repeat);

    /* A second queue of lower priority, for work beside the training; *stream is `device`
     * itself where there is only one. Same memory, same ops, a fault of its own. */
    enum status (*open_stream)(struct device *device, struct device **stream);
    void (*close_stream)(struct device *device, struct device *stream);
};

/* ---- several devices that train one run ------------------------------------------ */

/* Every rank (device->rank of device->world) calls these in the same order, queued like
 * any op. A device alone leaves the data as it is. */
struct group_ops {
    /* data[i] = sum, or maximum, over the ranks of data[i].   [n] */
    void (*sum_f32)(struct device *device, float *data, size_t n);
    void (*sum_f64)(struct device *device, double *data, size_t n);
    void (*max_f32)(struct device *device, float *data, size_t n);
};

/* ---- convolution ----------------------------------------------------------------- */

enum activation {
    ACTIVATION_NONE,
    ACTIVATION_RELU,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_TANH
};

/* A square convolution between a wide tensor x and a narrow tensor y:
 *   y[n,p,q,k] = sum over r,s,c of
 *                x[n, p*stride - pad + r, q*stride - pad + s, c] * w[k,r,s,c]
 *   x [N,H,W,C]   w [K,R,R,C]   y [N,P,Q,K]    P = (H + 2 pad - R)/stride + 1, Q alike
 * A transposed convolution is its dgrad (y in, x out). A dense layer is the case where y
 * is 1x1 and R = H: one matrix product over NHWC memory. A backend may route that to a
 * GEMM. Taps beyond x count as zero; where an operand is inf or NaN beside the border, a
 * backend may make NaN of them (inf * 0) where ref leaves them out. */
struct conv_desc {
    struct shape x, y;
    int kernel, stride, pad;
    enum dtype dtype; // of x, y, w, dx and dy: f32, f16 or bf16
    // Of the layer's own output (y, or a transposed one's x): dtype, or f32 for a logit
    // head. The other direction writes `dtype`; the tensor handed in tells.
    enum dtype out_dtype;

    // What will be asked of it, for backends that plan ahead. A pass with no epilogue,
    // and the one given here without its sums, are always allowed; any other is our
    // mistake.
    int is_transposed; // the layer's own output is x, made by dgrad()
    int is_inference;  // only the layer's own output is wanted: no gradients
    int has_bias, makes_sums;
    enum activation activation;
    float slope;
    // Of the activation that made the layer's input, for conv_epilogue.undo; or NONE.
    enum activation input_activation;
    float input_slope;
};

/* What the convolution does to each sum before it stores it.
 *   out[.., c] = store(act(sum + bias[c]))
 *   sum[c]   = sum over n,h,w of out[.., c]        (of the stored, rounded values)
 *   sumsq[c] = sum over n,h,w of out[.., c]^2
 *   bias [C] f32 or NULL    slope 0..1, leaky ReLU only    sum, sumsq [C] f32, both or
 *   none; they are overwritten, not added to.
 * With `undo`, the output y of an activation, of out's shape, it computes that
 * activation's gradient instead, and has neither bias nor sums:
 *   out = store(sum * act'(undo))     act' as in pointwise.act_backward
 * where a backend may round the sum to out's dtype before it multiplies.
 * bias, sum and sumsq have room for the stored channels; what lies beyond C is zero in
 * bias and may be overwritten in the sums. */
struct conv_epilogue {
    const float *bias;
    enum activation activation;
    float slope;
    float *sum, *sumsq;
    const struct tensor *undo;
};

struct conv_plan; // the backend's: algorithm, packing buffers, cuDNN plan

enum pass_kind { PASS_FORWARD, PASS_DGRAD, PASS_WGRAD, PASS_KINDS };

/* How a plan runs one of its passes, for people and measurements. */
struct conv_way {
    char algorithm[24]; // one word or two: "winograd", "direct", "cuDNN 12"
    char reason[32];    // why this one: "Winograd/direct cost 0.71"
    // Those of its sums of products: as many as the definition has, or fewer. What
    // transforms and the filling of vectors take is not counted.
    double multiplications;
    enum dtype arithmetic; // whose peak() bounds them
};

struct conv_ops {
    /* Checks the geometry, chooses algorithms, allocates workspace. The device owns what
     * the plan needs until release(). STATUS_FAILED names the shapes. */
    enum status (*prepare)(struct device *device, const struct conv_desc *desc,
                           struct conv_plan **plan);
    void (*release)(struct device *device, struct conv_plan *plan);

    /* y = conv(x, w), then the epilogue (NULL: plain store). */
    void (*forward)(struct device *device, struct conv_plan *plan, const struct tensor *x,
                    const struct tensor *w, const struct conv_epilogue *epilogue,
                    struct tensor *y);

    /* dx[n,h,w,c] = sum over k and taps of dy[n,p,q,k] * w[k,r,s,c], then the
     * epilogue. */
    void (*dgrad)(struct device *device, struct conv_plan *plan, const struct tensor *dy,
                  const struct tensor *w, const struct conv_epilogue *epilogue,
                  struct tensor *dx);

    /* dw[k,r,s,c] = round(sum over n,p,q of dy * x) to `dtype`, since cuDNN has no wgrad
     * that reads halves and writes floats; then grad = (accumulate ? grad : 0) + dw in
     * f32.
     *   grad [K,R,R,C] f32, stored like the weight tensor (with its padding) */
    void (*wgrad)(struct device *device, struct conv_plan *plan, const struct tensor *x,
                  const struct tensor *dy, float *grad, int accumulate);

    /* Tells how the plan runs that pass, one that it was prepared for. */
    void (*describe)(struct device *device, struct conv_plan *plan, enum pass_kind pass,
                     struct conv_way *way);

    /* The multiplications and additions per second, counted as one, that this device does
     * with operands of `dtype` that stay in registers: measured now, which takes some
     * milliseconds. 0 where the backend cannot tell. */
    double (*peak)(struct device *device, enum dtype dtype);
};

/* ---- batch norm ------------------------------------------------------------------ */

/* Per-channel vectors of one batch norm, all [C] f32; sum and sumsq have room for the
 * stored channels. x is the input of the norm. */
struct norm_vectors {
    const float *gamma, *beta; // parameters
    float *sum, *sumsq;        // of x over n,h,w: from the conv epilogue or stats()
    float *mean, *inv_std;     // of this batch
    float *unbiased_var;       // sumsq-based, times count/(count-1)
    float *scale, *shift;      // y = x*scale + shift
    float *running_mean, *running_var; // committed only when finite
    float *sum_dz, *sum_dz_xhat;       // of this backward pass
};

struct norm_ops {
    /* sum and sumsq of x, where no convolution made them. */
    void (*stats)(struct device *device, const struct tensor *x, float *sum,
                  float *sumsq);

    /* mean = sum/count; var = max(sumsq/count - mean^2, 0); inv_std = 1/sqrt(var + eps);
     * unbiased_var = var*count/(count-1) (var when count is 1);
     * scale = gamma*inv_std; shift = beta - mean*scale.
     * Source: Ioffe and Szegedy 2015, arXiv:1502.03167; PyTorch's eps and unbiased
     * rule. */
    void (*finalize)(struct device *device, const struct norm_vectors *v, int channels,
                     int64_t count, float eps);

    /* scale and shift from the running statistics. */
    void (*finalize_running)(struct device *device, const struct norm_vectors *v,
                             int channels, float eps);

    /* running = (1 - momentum)*running + momentum*batch, for mean and unbiased_var, but
     * only if mean and unbiased_var of ALL channels are finite; otherwise nothing
     * changes. */
    void (*commit)(struct device *device, const struct norm_vectors *v, int channels,
                   float momentum);

    /* y = store(act(x*scale + shift)).  y may be x. */
    void (*act_forward)(struct device *device, const struct tensor *x,
                        const struct norm_vectors *v, enum activation activation,
                        float slope, struct tensor *y);

    /* With z = x*scale + shift, dz = dy*act'(z), xhat = (x - mean)*inv_std:
     * sum_dz = sum dz, sum_dz_xhat = sum dz*xhat (overwritten). For tanh act' is
     * 1-tanh(z)^2. */
    void (*act_reduce)(struct device *device, const struct tensor *dy,
                       const struct tensor *x, const struct norm_vectors *v,
                       enum activation activation, float slope);

    /* dx = store(scale * (dz - sum_dz/count - xhat*sum_dz_xhat/count)).  dx may be dy. */
    void (*act_dgrad)(struct device *device, const struct tensor *dy,
                      const struct tensor *x, const struct norm_vectors *v,
                      enum activation activation, float slope, int64_t count,
                      struct tensor *dx);
};

/* ---- pointwise ------------------------------------------------------------------- */

struct pointwise_ops {
    /* y = store(act(x)).  y may be x. */
    void (*act_forward)(struct device *device, const struct tensor *x,
                        enum activation activation, float slope, struct tensor *y);

    /* dx = store(dy * act'), with act' told by the OUTPUT y: ReLU and leaky ReLU by its
     * sign (y > 0 ? 1 : slope; ReLU's slope is 0), tanh 1 - y^2, none 1.  dx may be dy.
     * The same op is the tangent of the activation (dy := tangent in, dx := tangent out).
     * act' is multiplied: an infinite dy at a dead unit is NaN, never a silent 0. */
    void (*act_backward)(struct device *device, const struct tensor *dy,
                         const struct tensor *y, enum activation activation, float slope,
                         struct tensor *dx);

    /* to = store(from), any pair of f32, f16, bf16. */
    void (*cast)(struct device *device, const struct tensor *from, struct tensor *to);

    /* grad[c] = (accumulate ? grad[c] : 0) + sum over n,h,w of dy[.., c].  grad [C]
     * f32 */
    void (*bias_grad)(struct device *device, const struct tensor *dy, float *grad,
                      int accumulate);

    /* y = store(a + b): added in f32, rounded once.
     *   a, b, y   one shape, each of any float dtype   y may be a or b, in that one's
     *   dtype */
    void (*add_tensors)(struct device *device, const struct tensor *a,
                        const struct tensor *b, struct tensor *y);

    /* to[i] += from[i], f32, n elements. */
    void (*add)(struct device *device, float *to, const float *from, size_t n);
};

/* ---- resampling ------------------------------------------------------------------ */

/* Between two grids of pixels of which one is k times as high and as wide as the other, k
 * a whole number; N and C are the same. Each is the dgrad of the other, with one factor.
 *   x, y   each of any float dtype; added and multiplied in f32, rounded once */
struct resample_ops {
    /* y[n,i,j,c] = store(factor * sum over r, s < k of x[n, i*k + r, j*k + s, c]):
     * average pool with factor 1/k^2, sum pool with 1. */
    void (*down)(struct device *device, const struct tensor *x, float factor,
                 struct tensor *y);

    /* y[n,i,j,c] = store(factor * x[n, i/k, j/k, c]): nearest neighbour with factor 1. */
    void (*up)(struct device *device, const struct tensor *x, float factor,
               struct tensor *y);
};

/* ---- images and random numbers --------------------------------------------------- */

struct image_ops {
    /* y = store(u8/127.5 - 1): 0 -> -1, 255 -> 1. With mirror, sample i is flipped left
     * to right when the lowest bit of philox(seed, STREAM_FLIP, *step, first_row + i) is
     * 1.
     *   pixels [N,H,W,C] u8    y [N,H,W,C]    step: device counter, NULL means 0 */
    void (*from_u8)(struct device *device, const struct tensor *pixels, int mirror,
                    uint64_t seed, const uint64_t *step, uint64_t first_row,
                    struct tensor *y);

    /* pixels = floor(clamp((x + 1)*127.5, 0, 255) + 0.5): -1 -> 0, 0 -> 128, 1 -> 255.
     * NaN becomes 0. */
    void (*to_u8)(struct device *device, const struct tensor *x, struct tensor *pixels);

    /* z[i, c] = store(normal number c%4 of philox_normal4(seed, stream, *step,
     * (first_row + i)*2^20 + c/4)): row and column alone choose the value.
     *   z [N,1,1,C]    step: device counter, NULL means 0 */
    void (*normal)(struct device *device, uint64_t seed, uint32_t stream,
                   const uint64_t *step, uint64_t first_row, struct tensor *z);

    /* *counter += 1, on the device. */
    void (*advance)(struct device *device, uint64_t *counter);
};

/* ---- losses ---------------------------------------------------------------------- */

/* Sums over the samples of one forward pass, read by the host a step late. Overwritten.
 * All doubles, so that several devices add theirs with one group.sum_f64(). */
struct loss_sums {
    double loss, loss_sq;   // of the per-sample loss
    double score, score_sq; // of the logit
    double sign;            // +1 for a logit > 0, -1 for < 0, 0 for 0 and NaN
    double count;           // of samples
    double nonfinite;       // logits that were inf or NaN
};

#define LOSS_SUMS_DOUBLES (sizeof(struct loss_sums) / sizeof(double))

struct loss_ops {
    /* A loss of losses.h on logits with target t in [0,1], in f32:
     *   L = weight/N * sum loss(x_i, t)
     *   seed_i = store(scale * weight/N * slope(x_i, t)), scale = scaler_scale(state)
     * D on real: t = 1 - smoothing (Salimans et al. 2016, arXiv:1606.03498); D on fake:
     * t = 0; G: t = 1.
     *   logits [N,1,1,1] f32   seed [N,1,1,1], any float dtype   sums: one, device
     *   memory */
    void (*on_logits)(struct device *device, enum loss_kind kind,
                      const struct tensor *logits, float target, float weight,
                      const struct scaler_state *state, struct tensor *seed,
                      struct loss_sums *sums);
};

/* ---- optimizer and scaler -------------------------------------------------------- */

struct adam_args {
    float *params; // [n] f32 master weights, updated
    void *half;    // [n] copy in half_dtype for the next forward, or NULL
    enum dtype half_dtype;
    const float *grads; // [n] f32, still scaled
    float *m, *v;       // [n] f32 moments, updated
    size_t n;
    float lr, beta1, beta2, eps;
    float *ema;             // [n] f32 moving average of params, or NULL
    const float *ema_decay; // device scalar: a ramp-up changes it every step
};

struct optimizer_ops {
    /* Reads grads [n] f32 once:  found_inf |= any g is inf or NaN (a bit test, before any
     * multiplication);  found_inf_unscaled |= any finite g where g * (1/scale) is not. */
    void (*grads_check)(struct device *device, const float *grads, size_t n,
                        struct scaler_state *state);

    /* grads *= scaler_inverse(state), for those who look at or clip unscaled
     * gradients. */
    void (*grads_unscale)(struct device *device, float *grads, size_t n,
                          const struct scaler_state *state);

    /* Unless scaler_must_skip(state), with t = adam_t + 1 and
     * g = grads * (is_unscaled ? 1 : scaler_inverse(state)):
     *   m = beta1*m + (1-beta1)*g;   v = beta2*v + (1-beta2)*g^2
     *   p -= lr/(1-beta1^t) * m / (sqrt(v)/sqrt(1-beta2^t) + eps);   half = round(p)
     * and adam_t = t afterwards. Bias corrections in f64. Then, skipped or not, with
     * `ema`:
     *   ema = ema*decay + p*(1-decay)
     * Source: Kingma and Ba 2015, arXiv:1412.6980, in PyTorch's order of operations. */
    void (*adam_step)(struct device *device, const struct adam_args *args,
                      int is_unscaled, struct scaler_state *state);

    /* scaler_finish_step() on the device. */
    void (*scaler_update)(struct device *device, struct scaler_state *state,
                          struct step_record *record);

    /* scaler_finish_both(), scaler_take_scale() and scaler_spread_overflow() there. */
    void (*scaler_both)(struct device *device, struct scaler_state *first,
                        struct step_record *first_record, struct scaler_state *second,
                        struct step_record *second_record, int holds);
    void (*scaler_share)(struct device *device, const struct scaler_state *from,
                         struct scaler_state *to);
    void (*scaler_share_overflow)(struct device *device, const struct scaler_state *from,
                                  struct scaler_state *to, enum overflow_reach reach);

    /* *norm = norm_of_sum(sqrt(sum of grads^2)), the sum in f64, in an order that depends
     * on n and the device alone.   grads [n] f32   norm: one float */
    void (*grads_norm)(struct device *device, const float *grads, size_t n, float *norm);

    /* grads *= clip_factor(*norm, max_norm); untouched where that is 1. */
    void (*grads_clip)(struct device *device, float *grads, size_t n, float max_norm,
                       const float *norm);

    /* half = round(params) for n elements. */
    void (*half_copy)(struct device *device, const float *params, void *half,
                      enum dtype half_dtype, size_t n);
};

/* ---- looking at numbers ---------------------------------------------------------- */

/* A piece of memory to look at: n stored elements, padding and all. */
struct survey_span {
    const void *data;
    size_t n;
    enum dtype dtype; // f32, f16 or bf16
};

/* What a survey found in one span. sum, sumsq and max_abs are over finite elements;
 * `subnormal` counts what is subnormal in the span's own dtype. */
struct survey_stats {
    double sum, sumsq;
    uint64_t inf, nan, zero, subnormal;
    float max_abs;
};

struct survey_ops {
    /* stats[i] of spans[i], i < count; both arrays in device memory. With `gate` (not
     * NULL) only if scaler_must_skip(gate), otherwise nothing is read or written: that
     * costs one look at a flag, so it can stand in every step. */
    void (*survey)(struct device *device, const struct survey_span *spans, int count,
                   const struct scaler_state *gate, struct survey_stats *stats);
};

struct ops {
    struct memory_ops memory;
    struct queue_ops queue;
    struct group_ops group;
    struct conv_ops conv;
    struct norm_ops norm;
    struct pointwise_ops pointwise;
    struct resample_ops resample;
    struct image_ops image;
    struct loss_ops loss;
    struct optimizer_ops optimizer;
    struct survey_ops survey;
};

#endif
