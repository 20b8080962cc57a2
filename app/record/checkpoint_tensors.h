/* checkpoint_tensors.h - the tensors that a run consists of, and their way to a file.
 * Flow:  trainer -> [state_list_all] -> checkpoint.c saves and loads every entry.
 * Owns:  nothing: entries point into the trainer's blocks. */
#ifndef APP_RECORD_CHECKPOINT_TENSORS_H
#define APP_RECORD_CHECKPOINT_TENSORS_H

#include "app/files/safetensors.h"
#include "app/train/trainer.h"

struct state_tensor {
    char name[96];        // "g.adam_m.conv1.weight"
    struct tensor tensor; // f32, on the device, with its padding
};

#define STATE_TENSORS_MAX (20 * NET_NODES_MAX)

struct state_list {
    size_t count;
    struct state_tensor entry[STATE_TENSORS_MAX];
};

/* Adds every parameter of `net` over `block` as NET.ROLEPARAM (role "ema." or ""). */
void state_list_block(struct state_list *list, const struct net *net, const char *role,
                      float *block);

/* Adds batch norm's running statistics of `net`, as NET.ROLELAYER.running_mean and
 * _var. */
void state_list_running(struct state_list *list, const struct net *net, const char *role);

/* Weights, running statistics, Adam's moments and the average: all that a run is. */
void state_list_all(struct state_list *list, struct trainer *trainer);

/* How the file describes it: rank 4 for weights, 1 for vectors. Without data. */
void state_describe(const struct state_tensor *entry, struct safetensor *out);

#endif
