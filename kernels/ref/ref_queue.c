/* ref_queue.c - the queue and the group of a device that does everything at once,
 * alone. */
#include <string.h>

#include "kernels/ref/ref.h"

static void copy_now(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes)
        memmove(to, from, bytes);
}

static void mark(struct device *device, int slot)
{
    (void)device;
    CHECK(slot >= 0 && slot < DEVICE_MARKS, "mark %d", slot);
}

static int is_passed(struct device *device, int slot)
{
    mark(device, slot);
    return 1;
}

static void follow(struct device *device, struct device *other)
{
    (void)device;
    (void)other;
}

static void repeat(struct device *device, struct repeat **repeat,
                   void (*work)(void *argument), void *argument)
{
    (void)device;
    (void)repeat;
    work(argument);
}

static void forget(struct device *device, struct repeat **repeat)
{
    (void)device;
    *repeat = NULL;
}

static enum status open_lane(struct device *device, struct device **lane)
{
    *lane = device;
    return STATUS_OK;
}

static void close_lane(struct device *device, struct device *lane)
{
    CHECK(lane == device);
}

void ref_fill_queue(struct queue_ops *ops)
{
    *ops = (struct queue_ops){
        .upload_later = copy_now,
        .download_later = copy_now,
        .mark = mark,
        .wait_mark = mark,
        .is_passed = is_passed,
        .follow = follow,
        .repeat = repeat,
        .forget = forget,
        .open_lane = open_lane,
        .close_lane = close_lane,
    };
}

/* ---- a device alone -------------------------------------------------------------- */

static void keep_f32(struct device *device, float *data, size_t n)
{
    (void)device;
    (void)data;
    (void)n;
}

static void keep_f64(struct device *device, double *data, size_t n)
{
    (void)device;
    (void)data;
    (void)n;
}

void ref_fill_group(struct group_ops *ops)
{
    *ops =
        (struct group_ops){.sum_f32 = keep_f32, .sum_f64 = keep_f64, .max_f32 = keep_f32};
}
