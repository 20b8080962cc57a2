/* device.h - where tensors live and ops run.
 * Flow:  main opens one device; nets, scaler and app pass it first to everything.
 * Owns:  its op table, its threads, the first fault of a step.
 *
 *     struct device *device;
 *     TRY(device_open("auto", 0, &device));
 *     ...
 *     TRY(device_fault(device));       // once per step: did anything go wrong?
 *     device_close(device);            // NULL is fine
 *
 * Setup functions return a status; ops of a step return nothing: the device keeps the
 * FIRST fault, with the op's name and shapes, and device_fault() tells it. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"
#include "kernels/tensor.h"

#define DEVICE_GROUP_ID 128 // bytes

struct ops; // kernels/ops.h: the op table, one per backend

struct device {
    const char *name;      // "cpu", "ref", "cuda:0"
    const struct ops *ops; // every slot filled, or device_open() would have refused
    int channel_multiple;  // channels are stored padded to this; 1 on a CPU
    int threads;
    int steps_ahead; // that the host may queue before it reads what they did; 0 on a CPU
    int rank, world; // of the devices that train one run together; 0 of 1 when alone
    char description[160]; // for a person: "AMD EPYC, avx512, 2 threads"
    char note[256];  // why "auto" did not take the GPU; "" if it did, or was not asked
    char fault[256]; // "" or the first fault: op, shapes, reason
    void *backend;   // the backend's own state
    void (*close)(struct device *device); // the backend's, for device_close()
};

/* Opens `name`: "auto" (a GPU when it works, else the CPU), "cpu", "ref", "cuda:N".
 *   threads  0 = one per core that this process may use, or the environment variable
 *            TWINSCALE_THREADS = 1..1024
 * The environment variable TWINSCALE_ISA = avx512-bf16 | avx512 | avx2 | c lowers what
 * "cpu" uses.
 * Refuses, with the reason: an unknown name, an absent GPU, an op table with an empty
 * slot (named), arithmetic that hides inf and NaN (the build used -ffast-math or its
 * like). On success the caller owns *device. */
enum status device_open(const char *name, int threads, struct device **device);
void device_close(struct device *device);

/* What can be asked of a device beyond its name; zeros are the defaults. */
struct device_options {
    int threads;          // of a CPU; 0 = one per core that this process may use
    int is_deterministic; // GPU: only algorithms that give the same bits every time
    int allows_tf32;      // GPU: f32 products may be rounded to TF32's 10 bits
    int is_plain;         // GPU: queue.repeat() queues every op anew instead of replaying
    int tunes_plans;      // GPU: time the first candidates of each convolution
    int rank, world;      // of a group; world 0 or 1 is a device alone
    unsigned char
        group_id[DEVICE_GROUP_ID]; // the same on every rank, by device_group_id()
};
enum status device_open_with(const char *name, const struct device_options *options,
                             struct device **device);

/* A new group's id, which rank 0 makes and hands to the others. STATUS_ENVIRONMENT where
 * the devices of `name` cannot work together. */
enum status device_group_id(const char *name, unsigned char id[DEVICE_GROUP_ID]);

/* STATUS_OK, or STATUS_FAILED with the first fault since the device was opened. Does not
 * wait: what is still queued has not failed yet. */
enum status device_fault(struct device *device);

/* Keeps a fault unless one is kept already. For ops. */
void device_set_fault(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line per usable device, for `twinscale info --devices`; returns the count. Lines
 * are written into `text` (bytes), with the reason where a kind of device is absent. */
int device_list(char *text, size_t text_bytes);

/* A tensor of this device: like tensor_of(), with the device's padding of channels, which
 * float dtypes get. `is_weight` pads the rows (output channels) too. */
struct tensor device_tensor(const struct device *device, enum dtype dtype,
                            struct shape shape, int is_weight);

/* ---- what device_open() asks of every backend; for its tests --------------------- */

/* The name of the first empty slot ("conv.wgrad"), or NULL when every slot is filled. */
const char *ops_empty_slot(const struct ops *ops);

/* STATUS_FAILED unless every slot is filled, and inf and NaN are seen: by
 * is_finite_f32(), and by grads_check() through the table, at the places where vector
 * code and its tails begin and end. */
enum status device_accept(struct device *device);

#endif
