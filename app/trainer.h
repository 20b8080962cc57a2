/* trainer.h - everything one run holds between two steps.
 * Flow:  config -> [trainer_create] -> train.c steps it -> checkpoint.c saves it.
 * Owns:  device, data, both networks with optimizer and scaler, the average, the sampler.
 *
 * Its counters say where the run is; with the config they determine every number that
 * follows, which is why a resumed run is the run that was never stopped. */
#ifndef APP_TRAINER_H
#define APP_TRAINER_H

#include "app/config.h"
#include "app/input/batch.h"
#include "app/output/history.h"
#include "nets/adam.h"
#include "nets/dcgan.h"
#include "nets/ema.h"
#include "nets/sampler.h"
#include "scaler/grad_scaler.h"

/* One network with what belongs to it alone. */
struct player {
    struct net net;
    struct adam adam;
    struct grad_scaler scaler;
    struct step_record record; // host copy of its last optimizer step's
};

/* Where a run is. All of it is saved. */
struct progress {
    int64_t step;   // G steps
    int64_t images; // real images shown to D
    double elapsed_sec;
};

struct trainer {
    struct config config;
    struct device *device;
    struct dataset *dataset;
    struct batch_stream *batches;
    struct player player[NETWORK_COUNT]; // [NETWORK_G], [NETWORK_D]
    struct ema ema;
    struct sampler sampler;
    struct progress progress;

    // Inputs of a step, in one arena.
    struct tensor pixels;   // [B,H,W,C] u8, as they come from the data set
    struct tensor real;     // the same as D reads them
    struct tensor latents;  // [B,1,1,latent]
    uint64_t *draw;         // device counter of D steps: selects latents and flips
    struct loss_sums *sums; // device: per D step real and fake, then G's
    struct loss_sums *sums_host;
    int sums_count;
    // One per optimizer step of a step: D's n_dis in turn, then G's.
    struct step_record *records; // device
    struct step_record *records_host;
    int record_count;
    struct arena arena;
};

/* The storage type of a run's activations. */
enum dtype precision_dtype(int precision);
/* The network sizes that a config asks for; `channels` is the data set's. */
struct dcgan_config trainer_dcgan_config(const struct config *config, int channels);

/* Opens device and data, then builds everything, with initial weights. config->channels is
 * set from the data when it was 0. Any failure leaves *trainer safe to release. */
enum status trainer_create(struct trainer *trainer, const struct config *config);
void trainer_release(struct trainer *trainer);

/* Starts the prefetch thread at the current image. Once, after a resume has set it. */
enum status trainer_start_data(struct trainer *trainer);

/* Thousands of real images shown; epochs of the data set. */
double trainer_kimg(const struct trainer *trainer);
double trainer_epoch(const struct trainer *trainer);

#endif
