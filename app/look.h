/* look.h - every tensor of a step, looked at: for --grad-stats, and for the reason of a skip.
 * Flow:  train.c's passes -> [look_backward] -> statistics -> report_layers.c, diagnosis.c.
 * Owns:  lists and statistics, on the device and on the host; with --grad-stats in half
 *        precision an f32 twin of each network.  Borrows: the trainer it is part of.
 *
 * A step that is not looked at does exactly what it would do without any of this. One that
 * is (every N steps) is a second list of ops, which a GPU records beside the usual one.
 *
 * Nobody knows before a step whether it will overflow, and its activation gradients are gone
 * when its end tells. Where the host waits for every step, which a CPU does, a skipped
 * optimizer step is therefore taken again: its weights have not moved, its last batch is
 * still there, so the same bits come out, and this time every tensor is looked at. A GPU has
 * gone on by then; what its weight gradients tell is read by diagnosis.c.
 *
 * The f32 twin answers what no look at a half tensor can: which zeros are real. It takes the
 * same weights, images, latents and scale through the same passes in f32. */
#ifndef APP_LOOK_H
#define APP_LOOK_H

#include "app/results.h"
#include "nets/role.h"
#include "nets/survey.h"

struct trainer;

/* What was seen of one step; host memory. */
struct look_view {
    int64_t step; // 0: nothing
    int has[GAN_PASSES];
    int was_tried_at_one,
        overflows_at_one; // of a skip: taken a third time at a scale of 1
    struct survey_stats *stats[GAN_PASSES]; // [survey[pass].count]
    struct survey_stats *twin[GAN_PASSES];  // of the same tensors in f32, or NULL
};

struct look {
    struct device *device;
    int is_on;             // the pass that runs is looked at
    struct repeat *repeat; // the recorded step that is
    struct survey survey[GAN_PASSES];
    struct survey_stats *stats[GAN_PASSES], *twin_stats[GAN_PASSES]; // device
    struct loss_sums *unread;                                        // device
    float *d_buffers; // device: D's running statistics, while a step is taken again

    // [RESULTS_RING] of steps with statistics, then [RESULTS_RING][record_count] of optimizer
    // steps that were taken again.
    struct look_view *views;
    struct survey_stats *view_stats, *trial_stats; // host; the latter of one pass
    int record_count;

    struct net twin[2]; // [ROLE_G], [ROLE_D]; node_count 0 where there is none
    struct survey twin_survey[GAN_PASSES];
    struct tensor twin_real, twin_latents;
    struct arena arena;
};

/* After the networks, feed and results. */
enum status look_create(struct trainer *trainer);
void look_release(struct look *look);

/* True when --grad-stats asks for the statistics of this step: the first, and every Nth. */
int look_is_due(const struct trainer *trainer, int64_t step);

/* Entries of the pass that has most of them. */
int look_most_entries(const struct look *look);

/* net_backward(), of G or D within `pass`, looked at if that is on. */
void look_backward(struct trainer *trainer, enum gan_pass pass, struct net *net,
                   const struct backward *backward);

/* Copies what a step with statistics showed to the host. Waits for the device. */
void look_keep(struct trainer *trainer);

/* Around taking a skipped optimizer step again. begin() is false where that is not needed,
 * or not possible; after end() all but gradients is as it was. */
int look_begin_again(struct trainer *trainer, int network);
void look_end_again(struct trainer *trainer, int network, int slot);

/* Around taking it a third time, at a scale of 1, after look_end_again(): what overflows there
 * is too large for any scale above. begin() is true from the second skip in a row on, for the
 * first is nearly always a scale that grew. `kept` is the caller's, for both. */
struct look_kept_scales {
    struct scaler_state state[2];
};
int look_begin_at_one(struct trainer *trainer, int network,
                      struct look_kept_scales *kept);
void look_end_at_one(struct trainer *trainer, int network, int slot,
                     const struct look_kept_scales *kept);

/* Around a pass of D that is no part of the run: D's running statistics are kept, and the
 * statistics of layers are in look.stats. */
void look_begin_trial(struct trainer *trainer);
void look_end_trial(struct trainer *trainer);

/* What was seen of the step that was last collected, or of its optimizer step `slot`; NULL
 * for nothing. */
const struct look_view *look_at_step(const struct trainer *trainer);
const struct look_view *look_at_skip(const struct trainer *trainer, int slot);

#endif
