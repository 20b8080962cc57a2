/* checkpoint_json.h - the metadata of a checkpoint: counters, scalers, data.
 * Flow:  trainer -> JSON text -> checkpoint.c, and back, each field checked.
 * Owns:  nothing. */
#ifndef APP_RECORD_CHECKPOINT_JSON_H
#define APP_RECORD_CHECKPOINT_JSON_H

#include <jansson.h>

#include "app/record/checkpoint.h"

/* {"step", "images", "scaler_g", "scaler_d"}, a scaler with PyTorch's five keys and the
 * counters; {"name", "count", "digest"} of the data. The caller frees. NULL without
 * memory. */
char *checkpoint_state_json(const struct trainer *trainer);
char *checkpoint_data_json(const struct dataset *dataset);

/* A scaler as it stands there; the caller owns it. NULL without memory. */
json_t *checkpoint_scaler_json(const struct grad_scaler_saved *saved);

/* Back again, into `facts`. STATUS_DATA names `path` and the field that is missing, has
 * another type or value than it may have, does not go with the others or with the
 * settings of the run, or is not known here. */
enum status checkpoint_state_from_json(const char *text, const char *path,
                                       const struct config *config,
                                       struct checkpoint_facts *facts);
enum status checkpoint_data_from_json(const char *text, const char *path,
                                      struct checkpoint_facts *facts);

#endif
