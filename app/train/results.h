/* results.h - what a step did, on its way from the device to the host.
 * Flow:  train_step() writes the device's block -> [results_send] -> a ring of host
 *        memory
 *        -> [results_take] -> reports.
 * Owns:  the block and the ring.  Borrows: the device.
 *
 * A GPU works while the host goes on, so the host reads a step's results when the next
 * step is already queued: device->steps_ahead late. On a CPU it reads them at once. */
#ifndef APP_TRAIN_RESULTS_H
#define APP_TRAIN_RESULTS_H

#include "kernels/arena.h"
#include "kernels/ops.h"

#define RESULTS_RING 2 // steps on their way; more than steps_ahead

/* What lies in a block, in this order. Device memory while a step writes it, host memory
 * for who reads it. */
struct results_view {
    struct loss_sums *sums;      // [sums_count] per batch of D real and fake, then G's
    struct step_record *records; // [record_count] D's steps in turn, then G's
    struct step_record *fakes;   // [fake_count] of the scaler of D's loss on fakes
    struct survey_stats *stats;  // [record_count][stats_count], of skipped steps only
};

/* The counters after the step that results belong to. */
struct results_place {
    int64_t step, images;
};

struct results {
    struct device *device;
    int sums_count, record_count, fake_count, stats_count;
    size_t bytes;
    struct results_view here; // the device's block
    void *ring[RESULTS_RING];
    struct results_place place[RESULTS_RING];
    int64_t sent, taken;
    struct arena arena;
};

/* How much a step tells: passes with a loss; optimizer steps; those of D whose loss on
 * fakes has a scaler of its own; tensors to look at when one is skipped. */
struct results_size {
    int sums, records, fakes, stats;
};
enum status results_create(struct results *results, struct device *device,
                           const struct results_size *size);
void results_release(struct results *results);

/* Queues the copy of the block to the host. At most RESULTS_RING may be on their way. */
void results_send(struct results *results, struct results_place place);

/* Steps sent and not yet taken. */
int results_pending(const struct results *results);

/* Waits for the oldest step that is on its way and shows it; *view stays good until
 * RESULTS_RING - 1 more are sent. STATUS_FAILED is a fault of the device. */
enum status results_take(struct results *results, struct results_view *view,
                         struct results_place *place);

#endif
