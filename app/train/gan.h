/* gan.h - both networks, and what a pass does with them.
 * Flow:  batch -> [gan_make_fakes] -> [gan_forward] -> [gan_loss] -> [gan_walk] ->
 *        gradients.
 * Owns:  the networks, and G's output in D's type where the two differ.  Borrows: the
 *        device.
 *
 * There are two of these in a run that is looked at closely: the one that trains, and its
 * reference in f32 (probe.h), which takes the same passes. */
#ifndef APP_TRAIN_GAN_H
#define APP_TRAIN_GAN_H

#include "app/train/passes.h"
#include "nets/arch/dcgan.h"

/* What both read in a pass; device tensors of other owners. */
struct gan_batch {
    const struct tensor *real;    // [B,H,W,C] in D's type
    const struct tensor *latents; // [B,1,1,Z] in G's type
};

struct gan {
    struct device *device;
    struct passes passes;
    struct net net[ROLES];
    struct tensor
        fakes; // G's output as D reads it, where types differ; else data is NULL
    struct arena arena;
};

struct gan_config {
    struct dcgan_config sizes;
    enum dtype dtype[ROLES];
    int options[ROLES]; // of net_plan()
    int batch;          // samples of a pass on this device
    struct passes passes;
    int has_synced_norm;
};

/* Networks that are planned, with weights of zero. STATUS_USAGE where fp32_layers names
 * no layer, STATUS_FAILED as net_plan(). Safe to release after any failure. */
enum status gan_create(struct gan *gan, struct device *device,
                       const struct gan_config *config);
void gan_release(struct gan *gan);

/* ---- forward --------------------------------------------------------------------- */

/* G's forward pass over the latents. */
void gan_make_fakes(struct gan *gan, const struct gan_batch *batch);

/* D's forward pass over the real images, or over the fakes that were made last. */
void gan_forward(struct gan *gan, const struct gan_batch *batch, int pass);

/* The loss of a pass, a mean over its batch. */
struct pass_loss {
    enum loss_kind kind;
    float target;
    float weight; // of the mean: less than 1 where several batches make a step
    struct scaler_state *scale; // device: what the gradient is multiplied by
};

/* From D's logits: dL/dlogit times the scale into its output_grad, and the sums
 * (device). */
void gan_loss(struct gan *gan, const struct pass_loss *loss, struct loss_sums *sums);

/* ---- backward -------------------------------------------------------------------- */

/* The backward passes of a pass, in their order: through D, and for G on through G. */
struct gan_walk {
    int count;
    enum role role[ROLES];
    struct backward of[ROLES];
};

/* `grads` is where the gradients of the network that the pass trains go. D's weight
 * gradients are not computed where G is trained: they would carry G's scale. */
struct gan_walk gan_walk(struct gan *gan, const struct gan_batch *batch, int pass,
                         float *grads, int accumulates);

/* Between the two: D's input gradient in G's type, where they differ. */
void gan_hand_over(struct gan *gan);

#endif
