/* report.h - what a run tells: log, ticks, pictures, window.
 * Flow:  train_step() -> [report] -> terminal, log.txt, stats.jsonl, layers.jsonl,
 *        events.jsonl, PNGs, monitor.
 * Owns:  its buffers.  Borrows: trainer, run folder, monitor.
 *
 * Nothing here can end a run: a picture or a log line that cannot be written is said once
 * and training goes on. */
#ifndef APP_REPORT_H
#define APP_REPORT_H

#include <stdatomic.h>

#include "app/view/monitor.h"
#include "app/record/tick.h"
#include "app/record/run_folder.h"
#include "app/train/trainer.h"
#include "scaler/watch.h"

/* A mean logit so far on the wrong side: f32 cannot tell its sigmoid from 0 or 1 from 17
 * on. A few steps of it may pass, LOGIT_FAR_STEPS in a row are no training. */
#define LOGIT_FAR 50.0f
#define LOGIT_FAR_STEPS 32

#define BATCH_PICTURES 16 // batch-step*.png of a run

struct report {
    struct trainer *trainer;
    struct run_folder *folder;
    struct monitor *monitor;
    int wants_preview;     // preview.png at ticks, without a window
    atomic_int has_window; // the main thread clears it when the window is gone
    struct tick tick;      // being filled
    double tick_started, maintenance_sec, last_publish, last_samples, sample_cost;
    double last_pictures, pictures_cost;
    double images_per_sec, eta_sec;
    double forecast_sec; // an image, before the first step; 0: not known
    uint64_t *seeds;
    uint8_t *tiles; // newest samples of the fixed latents
    int tile_count;
    double tiles_kimg, drawing_kimg,
        drawing_since; // of those shown, of those being drawn
    int64_t images_at_tick;
    const char *state; // "training", "paused" ...
    int has_ended;
    char reason[256]; // of the end, "" for none
    int had_picture_error;
    int64_t quiet_steps[ROLES]; // taken in a row, since the last skip
    float good_scale[ROLES];    // at which the scale last grew; 0 before
    int batch_pictures;         // written so far: at most BATCH_PICTURES
    struct watch watch;
    int64_t far_steps[ROLES]; // in a row with a loss beyond that of LOGIT_FAR
    int logged_losses;        // bit 1 << network: said already
};

enum status report_open(struct report *report, struct trainer *trainer,
                        struct run_folder *folder, struct monitor *monitor,
                        int has_window, int wants_preview);
/* Of a resumed run: its curves and the number of its next tick, from stats.jsonl and
 * events.jsonl, its looks at layers from layers.jsonl, and what was said once. */
void report_recall(struct report *report);
void report_close(struct report *report);

/* A line for a person: on stderr (past the bar) and in log.txt. */
void report_print(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* After every step: history, events for skips, sums of the tick, the bar, the window. */
void report_step(struct report *report);

/* What was looked at in the step that was just taken (probe.h), into layers.jsonl and the
 * heat map: a line is one object with "reason" ("grad-stats", "skip D", "skip G"),
 * "scale_g", "scale_d" (the scales that gradients below carry), "step", "kimg",
 * "timestamp", "rollbacks" (record/rollbacks.h) and "layers", a list of one object a
 * tensor:
 *   pass       real and fakes are D's losses, generator is G's
 *   layer      "d.conv3"
 *   tensor     activation, activation gradient, weight gradient
 *   mean, std, max   of its finite values as stored; max is the largest magnitude
 *   finite     share of finite values
 *   lost       share of zeros that the same step in f32 does not have: the zeros counted,
 *              less those that the f32 reference counts; null without --grad-stats or in
 *              fp32. Where rounding moved an activation over 0 the two differ besides
 *   subnormal  share of values that are subnormal in the tensor's own type
 *   headroom   log2(65504 / max); null where all is zero
 * Weight gradients are f32 sums of half products, those of D's fakes on top of its
 * reals'. On a device that runs ahead, a skip has no activation gradients: they are gone
 * by then. */
void report_layers(struct report *report);
/* Gives the heat map its rows, in the order of the line. */
void report_name_layers(struct report *report);

/* Watches how the scales move; `place` is where the optimizer step overflowed, or "". */
void report_watch_open(struct report *report);
/* After a change of settings: the growth intervals are those of now. */
void report_watch_follow(struct report *report);
/* Of a resumed run: what events.jsonl has told is not told again. What was told after the
 * snapshot is no longer in that file, and is told of the steps that come again. */
void report_watch_recall(struct report *report, const char *events_path);
void report_watch(struct report *report, int slot, const char *place);

/* Says once when the loss of a network, of the step that was just taken, stays beyond
 * that of LOGIT_FAR. NaN and inf are no matter of it: their steps are skipped, and that
 * is said. */
void report_watch_loss(struct report *report, int network, double loss);

/* True where preview.png stands in for a window. */
int report_draws_preview(struct report *report);

/* scales.png, stats.png once layers were looked at, and preview.png where there is no
 * window, as things stand. */
void report_write_pictures(struct report *report);

/* After a rollback from `images`: the curves and the heat map end where the run is now,
 * the tick that is being filled and what is told of a scale's behaviour begin anew, and
 * no image is counted twice. */
void report_rewind(struct report *report, int64_t images);

/* Closes the tick: line, stats.jsonl, and scales.png and preview.png where they have
 * taken less than 1 % of the time so far. */
void report_tick(struct report *report);

/* Draws the fixed latents with the averaged weights as they are now, for the window and
 * the next grid: start() queues that beside the training, unless it is still at the last
 * ones; take() waits for what was started and shows it. A CPU has drawn when start()
 * returns, and it is taken at once. draw() does both. */
void report_start_samples(struct report *report);
void report_take_samples(struct report *report);
void report_draw_samples(struct report *report);

/* Writes reals.png, or the samples last drawn under `name` ("fakes000200.png"). `path`
 * (may be NULL) receives where. */
void report_write_reals(struct report *report);
void report_write_samples(struct report *report, const char *name, char *path,
                          size_t bytes);

/* Writes `count` real images, positions in the data set, under `name`: as they are
 * there. */
enum status report_write_images(struct report *report, const size_t *images, size_t count,
                                const char *name);

/* Hands the monitor where the run is, and the tiles when there are new ones (else
 * NULL). */
void report_publish(struct report *report, const uint8_t *tiles);

/* The last word of a run ("finished", "stopped", "diverged", "failed"), with its reason
 * or "": in log, events and pictures. */
void report_end(struct report *report, const char *state, const char *reason);

/* Tells the window a word about what goes on ("paused", "saving ..."). */
void report_state(struct report *report, const char *state);

/* Seconds that were not training (saving, drawing, pausing), so that images/s tells the
 * truth. Counted once, by whoever called the work of a step's end. */
void report_maintenance(struct report *report, double seconds);

#endif
