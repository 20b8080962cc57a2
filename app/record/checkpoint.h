/* checkpoint.h - a whole run in one safetensors file.
 * Flow:  trainer -> [checkpoint_save] -> snapshot-000200.safetensors ->
 *        [checkpoint_load].
 * Owns:  an open checkpoint owns its mapped file.
 *
 * Tensors: g.conv1.weight, g.adam_m.conv1.weight, g.adam_v..., g.ema...,
 * g.bn1.running_mean and d.* alike, and g.ema.bn1.running_mean, what the averaged G is
 * drawn with; all f32 in the layouts of nets/ without padding (README has them all).
 * Metadata: "config" (every setting), "state" (step, images, the scalers with PyTorch's
 * five keys and the counters), "data" (name, count, digest of the pixels), "clock"
 * (seconds trained), "twinscale.version", and after --g-init-scale auto "found_scales",
 * sentences for info. The digest covers tensors and state, not paths, settings or
 * times. */
#ifndef APP_RECORD_CHECKPOINT_H
#define APP_RECORD_CHECKPOINT_H

#include "app/train/trainer.h"

#define CHECKPOINT_VERSION "1"

struct checkpoint;

/* Everything, written whole or not at all. The trainer's sampler, which must not be
 * drawing, makes the statistics of the averaged G for it. STATUS_FAILED keeps the older
 * file, and a weight that is inf or NaN is refused by name: a checkpoint is always good
 * to go back to. */
enum status checkpoint_save(struct trainer *trainer, const char *path);

/* Opens and verifies. STATUS_DATA with path, found, expected. */
enum status checkpoint_open(const char *path, struct checkpoint **checkpoint);
void checkpoint_close(struct checkpoint *checkpoint);

/* The settings of the run that wrote it, and what `info` and `sample` tell: every field
 * is checked, by itself and against the others. STATUS_DATA names it. */
enum status checkpoint_config(const struct checkpoint *checkpoint, struct config *config);
struct checkpoint_facts {
    int64_t step, images;
    double elapsed_sec;
    int rollbacks;
    struct grad_scaler_saved scaler[ROLES];
    struct grad_scaler_saved fake_scaler; // of D's loss on fakes, where has_fake_scaler
    int has_fake_scaler;
    char data_name[64];
    int64_t data_count;
    uint64_t data_digest;
    char found_scales[FOUND_SCALES_TEXT]; // as in struct trainer
};
enum status checkpoint_facts(const struct checkpoint *checkpoint,
                             struct checkpoint_facts *facts);

/* Over all tensors (name, shape, bytes) in name order and the state. */
uint64_t checkpoint_digest(const struct checkpoint *checkpoint);

/* Puts everything into a trainer that was created with the checkpoint's config.
 * STATUS_DATA when a tensor is missing or has another shape, or the data set is
 * another. */
enum status checkpoint_load(const struct checkpoint *checkpoint, struct trainer *trainer);

/* Only G's weights, averaged (or raw), into `block` ([param_elements] f32 on the device)
 * of a generator with the checkpoint's sizes. */
enum status checkpoint_load_generator(const struct checkpoint *checkpoint,
                                      const struct net *generator, int raw, float *block);

/* Batch norm's statistics of the averaged G into `generator`'s own, as the run that wrote
 * the checkpoint recomputed them. *are_there is 0 in checkpoints of earlier releases,
 * which do not have them. */
enum status checkpoint_load_statistics(const struct checkpoint *checkpoint,
                                       const struct net *generator, int *are_there);

#endif
