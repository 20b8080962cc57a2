/* trainer.h - everything one run holds between two steps.
 * Flow:  config -> [trainer_create] -> step.c trains it -> checkpoint.c saves it.
 * Owns:  device, data, both networks with optimizer and scaler, the average, the sampler,
 *        what goes into a step (feed) and what comes out of it (results).
 *
 * Its counters say where the run is; with the config they determine every number that
 * follows, which is why a resumed run is the run that was never stopped. */
#ifndef APP_TRAIN_TRAINER_H
#define APP_TRAIN_TRAINER_H

#include "app/config/config.h"
#include "app/train/feed.h"
#include "app/train/inject.h"
#include "app/train/probe.h"
#include "app/train/results.h"
#include "nets/optim/adam.h"
#include "nets/arch/dcgan.h"
#include "nets/optim/ema.h"
#include "nets/sampler.h"
#include "nets/survey.h"
#include "scaler/grad_scaler.h"
#include "scaler/topology.h"

/* Where a run is. All of it is saved. */
struct progress {
    int64_t step;   // G steps
    int64_t images; // real images shown to D
    double elapsed_sec;
    int rollbacks; // so far; they choose the order of images and latents
};

/* What a step did, as reports and recovery read it. */
struct step_result {
    struct results_place place; // the counters after it
    struct results_view view;   // losses, records, and what skipped steps held
    // Of each network's last optimizer step, in this step or before; of topology.fake.
    struct step_record record[ROLES], fake_record;
};

#define FOUND_SCALES_TEXT 1024

struct trainer {
    struct config config;
    struct device *device;
    struct dataset *dataset;
    int borrows_dataset; // trainer_create_with_data()
    struct gan gan;
    struct adam adam[ROLES];
    struct grad_scaler scaler[ROLES];
    struct topology topology; // of their scalers
    struct ema ema;
    struct device *sample_stream; // samples are drawn beside the training
    struct sampler sampler;
    struct feed feed;
    struct progress progress; // of the last step that was queued

    struct repeat *repeat;       // the recorded step
    struct survey survey[ROLES]; // where to look when that network skips
    struct probe probe;          // statistics of all tensors, where that is asked for
    struct planted planted;      // what --inject adds
    struct arena arena;          // of planted and small things

    struct results results;
    struct step_result last; // of the last step that was collected

    char found_scales[FOUND_SCALES_TEXT]; // by init-scale auto (init_scale.h), for info
};

/* The storage type of a run's activations. */
enum dtype precision_dtype(int precision);
/* The same of one network, ROLE_G or ROLE_D. */
enum dtype trainer_dtype(const struct config *config, int network);
/* True where the network's gradients pass through f16. G's come through D. */
int trainer_gradients_are_half(const struct config *config, int network);
/* What both networks are made from. */
struct gan_config trainer_gan_config(const struct trainer *trainer);

/* What a pass reads, and its loss. */
struct gan_batch trainer_batch(const struct trainer *trainer);
struct pass_loss trainer_pass_loss(struct trainer *trainer, int pass);

/* The network sizes and f32 layers that a config asks for, which it has to outlive;
 * `channels` is the data set's. */
struct dcgan_config trainer_dcgan_config(const struct config *config, int channels);

/* Which of the devices that train one run together. */
struct trainer_rank {
    int rank, world;
    int device_index; // counted from the N of "cuda:N"
    unsigned char group_id[DEVICE_GROUP_ID];
    // Called while pictures are decoded, as in struct dataset_options; or NULL.
    void (*show_decoding)(void *context, size_t done, size_t total);
};

/* Opens device and data, then builds everything, with initial weights. config->channels
 * and config->resolution are set from the data where they were 0. Any failure leaves
 * *trainer safe to release. */
enum status trainer_create(struct trainer *trainer, const struct config *config);

/* The same for `rank`, alone or one of several, with a data set that several trainers
 * read, each of which borrows it: it is closed by the caller, after them. Where *shared
 * is NULL it is read, and stands there. */
enum status trainer_create_with_data(struct trainer *trainer, const struct config *config,
                                     const struct trainer_rank *rank,
                                     struct dataset **shared);
/* The same for one rank of several; all of them have to call it. */
enum status trainer_create_rank(struct trainer *trainer, const struct config *config,
                                const struct trainer_rank *rank);
/* The device of that rank: "cuda:3". Returns `name`. */
#define TRAINER_DEVICE 32
const char *trainer_device_name(const struct config *config,
                                const struct trainer_rank *rank,
                                char name[TRAINER_DEVICE]);
/* The data set of a config alone; `progress` (may be NULL) as in struct
 * dataset_options. */
enum status trainer_open_data(const struct config *config,
                              void (*progress)(void *context, size_t done, size_t total),
                              struct dataset **dataset);
void trainer_release(struct trainer *trainer);

/* Networks, optimizers, scalers and all that comes with them anew, after a change of
 * trainer->config; device and data stay. A checkpoint and trainer_start_data() have to
 * follow. No step may be on its way. Until it is done there is memory for both: where
 * that fails, STATUS_FAILED and the trainer is what it was. */
enum status trainer_rebuild(struct trainer *trainer);

/* Starts the prefetch thread at the current image. Once, after a resume has set it; again
 * after a rollback has set progress back, with no step on its way, or
 * trainer_rebuild(). */
enum status trainer_start_data(struct trainer *trainer);

/* The seed of latents, flips and the order of images: the run's, and another one after
 * each rollback. */
uint64_t trainer_stream_seed(const struct trainer *trainer);

/* Thousands of real images shown when the last step was queued; epochs of the data
 * set. */
double trainer_kimg(const struct trainer *trainer);
double trainer_epoch(const struct trainer *trainer);

/* True where a network has a loss scale. */
int trainer_wants_scaler(const struct config *config, int network);

/* Images of a batch that this device takes. */
int trainer_rows(const struct trainer *trainer);

#endif
