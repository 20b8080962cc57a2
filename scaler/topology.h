/* topology.h - how many loss scales a GAN has, and what an overflow in one network means
 * to the other.
 * Flow:  topology_scale() -> losses -> backward into topology_grads() -> [topology_step]
 *        -> [topology_update] -> the records of both scalers.
 * Owns:  where D's two losses have a scaler each: that of its loss on fakes, and a block
 *        for that loss's gradients.  Borrows: both networks' scalers and optimizers.
 *
 *                    scaler of       the rule is applied           known from
 *                    d_real d_fake g
 *   PER_NETWORK      d      d      g to each, after its own step   two GradScalers
 *   SHARED           one             once, after both steps        PyTorch's docs
 *   SHARED_PER_STEP  one             after each step               update() twice
 *   PER_LOSS         d      d_fake g to each of D's losses and G's apex, num_losses=3
 *
 * In all of them a network skips only by its own gradients, unless skip is SKIP_BOTH:
 * then an overflow of D holds back G's step of the same iteration, and one of G the next
 * step of D. A step that is held back is counted by itself (held), and no rule is applied
 * for it.
 *
 * In SHARED both networks keep a state with the same scale, and so does SHARED_PER_STEP:
 * each has its own flags and counters, and Adam's t. In PER_LOSS D's own scaler is that
 * of its loss on real images; gradients are unscaled by the scale they carry before they
 * are added, and D skips where either overflowed, though only the scale that did backs
 * off.
 *
 * Source: PyTorch's AMP examples ("working with multiple models, losses, and
 * optimizers"); apex examples/dcgan/main_amp.py; PyTorch-StudioGAN for update() after
 * each step. */
#ifndef SCALER_TOPOLOGY_H
#define SCALER_TOPOLOGY_H

#include "nets/role.h"
#include "scaler/grad_scaler.h"

enum topology_kind {
    TOPOLOGY_PER_NETWORK,
    TOPOLOGY_SHARED, // D and G step in turn, once each
    TOPOLOGY_SHARED_PER_STEP,
    TOPOLOGY_PER_LOSS
};

/* Which scaler a pass belongs to: that of a role, or topology.fake. */
enum { SCALER_D_FAKE = ROLES };

enum skip_rule { SKIP_OWN, SKIP_BOTH };

/* What one network brings. */
struct scaled {
    struct grad_scaler *scaler;
    struct optimizer *optimizer;
    float clip_norm; // of the unscaled gradients, at most; 0: no clipping
};

/* What a pass brings: the network that it trains, and the scaler that it has in
 * TOPOLOGY_PER_LOSS, of a role or SCALER_D_FAKE. */
struct topology_pass {
    enum role trains;
    int per_loss;
};

struct topology {
    struct device *device;
    enum topology_kind kind;
    enum skip_rule skip;
    struct scaled network[ROLES];
    int scaler_of[PASSES_MAX]; // each pass's: of a role, or SCALER_D_FAKE

    // PER_LOSS only.
    struct grad_scaler fake; // of D's loss on fakes; its counters are those of D's steps
    struct gradients fake_grads; // as large as D's
    struct scaler_state *sum;    // device: what the check of the added gradients finds
    struct arena arena;
};

/* The scalers are created, with one config where they share a scale (CHECK). `pass` are
 * the passes of a step in their order. */
enum status topology_create(struct topology *topology, enum topology_kind kind,
                            enum skip_rule skip, const struct scaled network[ROLES],
                            const struct topology_pass pass[], int passes);
void topology_release(struct topology *topology);

/* The state that a pass multiplies its loss's seed by. */
struct scaler_state *topology_scale(struct topology *topology, int pass);

/* Where the weight gradients of a pass go: its network's block, or where the pass has a
 * scaler of its own a block of its own. */
float *topology_grads(const struct topology *topology, int pass);

/* True for a pass whose gradients carry topology.fake's scale. */
int topology_has_own_grads(const struct topology *topology, int pass);

/* True for the first pass of a step whose gradients go where this one's do. */
int topology_begins(const struct topology *topology, int pass);

/* Once the gradients of all losses are there, summed over the ranks: checks, clips, steps
 * or skips. Until topology_update() the network's state tells what was found. */
void topology_step(struct topology *topology, enum role network);

/* Applies the rule, where it is this network's turn: in SHARED, for both after G's step,
 * when D's record is written too. */
void topology_update(struct topology *topology, enum role network);

#endif
