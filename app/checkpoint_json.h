/* checkpoint_json.h - the metadata of a checkpoint: counters, scalers, data.
 * Flow:  trainer -> JSON text -> checkpoint.c, and the scalers back. */
#ifndef APP_CHECKPOINT_JSON_H
#define APP_CHECKPOINT_JSON_H

#include <jansson.h>

#include "app/trainer.h"

/* {"step", "images", "scaler_g", "scaler_d"}, a scaler with PyTorch's five keys and the
 * counters; {"name", "count", "digest"} of the data. The caller frees. */
char *checkpoint_state_json(const struct trainer *trainer);
char *checkpoint_data_json(const struct dataset *dataset);

/* A scaler as it stands there; the caller owns it. */
json_t *checkpoint_scaler_json(const struct grad_scaler_saved *saved);

/* STATUS_DATA naming `path` when a key is missing or has another type. */
enum status checkpoint_scaler_from_json(json_t *json, const char *path,
                                        struct grad_scaler_saved *saved);

#endif
