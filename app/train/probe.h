/* probe.h - statistics of every tensor of a step: for --grad-stats, and for the reason of
 * a skip.
 * Flow:  step.c's passes -> [probe_backward] -> statistics -> report_layers.c,
 *        diagnosis.c.
 * Owns:  lists and statistics, on the device and on the host; with --grad-stats in half
 *        precision a reference of both networks in f32.  Borrows: the trainer it is part
 *        of.
 *
 * A step that is not probed does exactly what it would do without any of this. One that
 * is (every N steps) is a second list of ops, which a GPU records beside the usual one.
 *
 * Whether a step overflows is known at its end, when its activation gradients are gone.
 * Where the host waits for every step, as with a CPU, a skipped optimizer step is
 * therefore repeated: its weights have not moved, its last batch is still there, so the
 * same bits come out, and this time every tensor is probed. A GPU has gone on by then;
 * what its weight gradients show is read by diagnosis.c.
 *
 * The reference answers what no statistics of a half tensor can: which zeros are real. It
 * takes the same weights, images, latents and scale through the same passes in f32. */
#ifndef APP_TRAIN_PROBE_H
#define APP_TRAIN_PROBE_H

#include "app/train/results.h"
#include "app/train/gan.h"
#include "nets/survey.h"

struct trainer;

/* What was seen of one step; host memory. */
struct probe_view {
    int64_t step; // 0: nothing
    int has[PASSES_MAX];
    int was_tried_at_one,
        overflows_at_one; // of a skip: taken a third time at a scale of 1
    struct survey_stats *stats[PASSES_MAX];     // [survey[pass].count]
    struct survey_stats *reference[PASSES_MAX]; // of the same tensors in f32, or NULL
};

struct probe {
    struct device *device;
    int is_on;             // the pass that runs is probed
    int passes;            // of a step
    struct repeat *repeat; // the recorded step that is
    struct survey survey[PASSES_MAX];
    struct survey_stats *stats[PASSES_MAX], *reference_stats[PASSES_MAX]; // device
    struct loss_sums *unread;                                             // device
    float *d_buffers; // device: D's running statistics, while a step is taken again

    // [RESULTS_RING] of steps with statistics, then [RESULTS_RING][record_count] of
    // optimizer steps that were taken again.
    struct probe_view *views;
    struct survey_stats *view_stats, *trial_stats; // host; the latter of one pass
    int record_count;

    struct gan reference; // device is NULL where there is none
    struct survey reference_survey[PASSES_MAX];
    struct tensor real, latents; // what it reads
    struct arena arena;
};

/* After the networks, feed and results. */
enum status probe_create(struct trainer *trainer);
void probe_release(struct probe *probe);

/* True when --grad-stats asks for the statistics of this step: the first, and every
 * Nth. */
int probe_is_due(const struct trainer *trainer, int64_t step);

/* Entries of the pass that has most of them. */
int probe_most_entries(const struct probe *probe);

/* The backward passes of `pass`, whose loss has been computed; probed if that is on.
 * Gradients of weights are added to those that are there, or overwrite them. */
void probe_backward(struct trainer *trainer, int pass, int accumulates);

/* Copies what a step with statistics showed to the host. Waits for the device. */
void probe_keep(struct trainer *trainer);

/* Around taking a skipped optimizer step again. begin() is false where that is not
 * needed, or not possible; after end() all but gradients is as it was. */
int probe_begin_again(struct trainer *trainer, int network);
void probe_end_again(struct trainer *trainer, int network, int slot);

/* Around taking it a third time, at a scale of 1, after probe_end_again(): what overflows
 * there is too large for any scale above. begin() is true from the second skip in a row
 * on, for the first is nearly always a scale that grew. `kept` is the caller's, for
 * both. */
struct probe_kept_scales {
    struct scaler_state state[PASSES_MAX];
};
int probe_begin_at_one(struct trainer *trainer, int network,
                       struct probe_kept_scales *kept);
void probe_end_at_one(struct trainer *trainer, int network, int slot,
                      const struct probe_kept_scales *kept);

/* Around a pass of D that is no part of the run: D's running statistics are kept, and the
 * statistics of layers are in probe.stats. */
void probe_begin_trial(struct trainer *trainer);
void probe_end_trial(struct trainer *trainer);

/* What was seen of the step that was last collected, or of its optimizer step `slot`;
 * NULL for nothing. */
const struct probe_view *probe_of_step(const struct trainer *trainer);
const struct probe_view *probe_of_skip(const struct trainer *trainer, int slot);

#endif
