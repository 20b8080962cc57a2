/* watch.h - tells a loss scale that behaves as it should from one that does not.
 * Flow:  every step_record -> [watch_step] -> findings, each once -> log, events, window.
 * Owns:  nothing; plain data, and no clock: the same records give the same findings.
 *
 * The normal saw-tooth: after growth_interval good steps the scale grows, the new one is
 * too high, one overflow brings it back, and so on for ever. Gradients vary, so now and
 * then it takes a second overflow. What neither explains is one at WATCH_DEPTH times less
 * than a scale which a whole growth interval has shown to be good: the gradients
 * themselves have grown. When the scale then goes up again, that was a swing.
 * WATCH_SWINGS of them within WATCH_INTERVALS growth intervals are an oscillation.
 *
 * Two networks drift apart when
 *   - one skips every step while the other takes its own: WATCH_STUCK in a row;
 *   - one skips more than WATCH_OFTEN of its steps and the other less than WATCH_SELDOM,
 *     over WATCH_RATE_STEPS steps of each;
 *   - their scales stay further apart than 2^WATCH_APART for a growth interval.
 *
 * Source: NVIDIA/apex#864 for the saw-tooth, #715 and the mission's list of causes for
 * oscillation, #114 for one network that gains on the other. */
#ifndef SCALER_WATCH_H
#define SCALER_WATCH_H

#include <stdint.h>

#include "kernels/scaler_state.h"
#include "nets/role.h"

#define WATCH_DEPTH 2.0f
#define WATCH_SWINGS 3
#define WATCH_INTERVALS 30
#define WATCH_STUCK 12
#define WATCH_OFTEN 0.10
#define WATCH_SELDOM 0.01
#define WATCH_RATE_STEPS 400
#define WATCH_APART 14.0
#define WATCH_PLACE 96

/* Bits; each is found once in a watch's life. */
enum watch_finding {
    WATCH_OSCILLATES_G = 1,
    WATCH_OSCILLATES_D = 2,
    WATCH_STUCK_G = 4, // skips every step while the other goes on
    WATCH_STUCK_D = 8,
    WATCH_SKIPS_APART = 16,
    WATCH_SCALES_APART = 32
};

/* An overflow that no growth explains. */
struct watch_swing {
    int64_t step;
    float scale;             // that overflowed
    char place[WATCH_PLACE]; // "d.conv3: activation gradient"
};

/* One network's part. */
struct watched {
    int64_t growth_interval;
    float scale; // after its last record; 0 before the first
    float good;  // the largest scale that a whole growth interval has shown to be good
    int64_t updates;                        // records so far
    struct watch_swing swing[WATCH_SWINGS]; // the last ones
    int64_t swing_update[WATCH_SWINGS];     // when, in updates
    int64_t swings;
    int64_t stuck;                  // skips in a row during which the other took a step
    int64_t other_taken;            // steps of the other since the last record
    int64_t rate_steps, rate_skips; // of the window that is being filled
    double skip_rate;               // of the last whole window; -1 before
    int64_t apart;                  // records in a row with the scales too far apart
};

struct watch {
    struct watched of[ROLES];
    int found; // bits told already
};

/* The growth intervals of both; 0 where the scale never moves by itself. */
void watch_begin(struct watch *watch, int64_t g_interval, int64_t d_interval);

/* One optimizer step of `network` in training step `step`; `place` tells where an
 * overflow was first seen, or "". Returns the bits that are new. */
int watch_step(struct watch *watch, int network, int64_t step,
               const struct step_record *record, const char *place);

#endif
