/* tick.h - the numbers of a tick, and the forms that they are written in.
 * Flow:  step records and loss sums -> report -> [tick] -> the sinks (sinks.h).
 * Owns:  nothing but numbers. */
#ifndef APP_RECORD_TICK_H
#define APP_RECORD_TICK_H

#include <stddef.h>
#include <stdint.h>

#include "nets/role.h"

/* num, mean and standard deviation of a stream of numbers (StyleGAN's form), over those
 * that are finite; NaN and inf are counted beside them, so that a few do not hide the
 * rest. */
struct statistic {
    int64_t num; // finite ones
    int64_t nan, inf;
    double sum, sum_sq; // of the finite ones
};
void statistic_add(struct statistic *statistic, double value);
/* `num` values at once. Where their sum is not finite all of them count as NaN or inf:
 * which of them are is not known. */
void statistic_add_sums(struct statistic *statistic, int64_t num, double sum,
                        double sum_sq);
double statistic_mean(const struct statistic *statistic); // NaN when num is 0
double
statistic_std(const struct statistic *statistic); // population; 0 for one, NaN empty

/* Everything one tick reports; cleared after each. */
struct tick {
    int64_t index;
    int64_t step;
    int rollbacks; // so far
    double kimg, kimg_total, epoch;
    double tick_sec, total_sec, maintenance_sec, images_per_sec, eta_sec;
    struct statistic loss[ROLES];
    struct statistic score_real, score_fake, sign_real, sign_fake;
    float scale[ROLES]; // now; 0: this network is not scaled
    struct statistic scale_over_tick[ROLES];
    int64_t skipped[ROLES]; // in total
    int64_t skipped_in_tick[ROLES];
    int64_t held[ROLES];                   // steps that the other's overflow held back
    struct statistic grad_norm[ROLES];     // unscaled, unclipped; empty: not measured
    struct statistic clipped[ROLES];       // 1 for a step that was clipped, else 0
    struct statistic fake_scale_over_tick; // of D's loss on fakes; empty: it has none
    double cpu_mem_gb;
};

#define TICK_LINE_MAX 150

/* "tick 12  kimg 48.0/200 (0.80 ep)  1,234 img/s  eta 2m 03s  mean loss G 1.230 D 0.980
 * scale G 2^16 D 2^15  skip G 0 D 3 (+1)"; one line of at most TICK_LINE_MAX characters,
 * no newline, no colour. Fields are padded so that the lines of a run stand under each
 * other; (+1): skips within this tick, left out when 0. Losses are means over the tick:
 * of the finite ones, with the others beside ("1.230 (4 nan)"); without a value they are
 * "-". */
void tick_line(const struct tick *tick, char *text, size_t bytes);

/* A number of the tick, by the name that StyleGAN has for it: "Loss/G/loss". */
struct tick_value {
    const char *key;
    struct statistic of;
    int is_extra; // only some runs have it: empty in the others
};
#define TICK_VALUES 32
/* All of them, always the same in the same order. Returns how many. */
int tick_values(const struct tick *tick, struct tick_value values[TICK_VALUES]);

/* One JSON object, StyleGAN's form: {"Progress/kimg": {"num":1,"mean":..,"std":0}, ...,
 * "timestamp": ..}. Keys: Progress/tick, Progress/kimg, Progress/step, Progress/epoch,
 * Progress/rollbacks (see rollbacks.h),
 * Timing/total_sec, Timing/sec_per_tick, Timing/sec_per_kimg, Timing/maintenance_sec,
 * Timing/images_per_sec, Loss/G/loss, Loss/D/loss, Loss/scores/real, Loss/scores/fake,
 * Loss/signs/real, Loss/signs/fake, Scale/G, Scale/D (over the steps of the tick),
 * Scale/G_skipped, Scale/D_skipped (in total), Resources/cpu_mem_gb; where there are any,
 * Grad/G_norm, Grad/D_norm, Grad/G_clipped, Grad/D_clipped (shares), Scale/G_held,
 * Scale/D_held (in total) and Scale/D_fake. Other empty means are null. Where values were
 * NaN or inf, which `num` and `mean` leave out, their numbers follow as "nan" and "inf".
 * The caller frees. NULL without memory. */
char *tick_json(const struct tick *tick, double timestamp);

#endif
