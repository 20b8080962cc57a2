/* ref_queue.c - the queue and the group of a device that does everything at once,
 * alone. */
#include <string.h>

#include "kernels/ref/ref.h"

static void ref_queue_upload_later(struct device *device, void *to, const void *from,
                                   size_t bytes)
{
    (void)device;
    if (bytes)
        memmove(to, from, bytes);
}

static void ref_queue_mark(struct device *device, int slot)
{
    (void)device;
    CHECK(slot >= 0 && slot < DEVICE_MARKS, "mark %d", slot);
}

static int ref_queue_is_passed(struct device *device, int slot)
{
    ref_queue_mark(device, slot);
    return 1;
}

static void ref_queue_follow(struct device *device, struct device *other)
{
    (void)device;
    (void)other;
}

static void ref_queue_repeat(struct device *device, struct repeat **repeat,
                             void (*work)(void *argument), void *argument)
{
    (void)device;
    (void)repeat;
    work(argument);
}

static void ref_queue_forget(struct device *device, struct repeat **repeat)
{
    (void)device;
    *repeat = NULL;
}

static enum status ref_queue_open_stream(struct device *device, struct device **stream)
{
    *stream = device;
    return STATUS_OK;
}

static void ref_queue_close_stream(struct device *device, struct device *stream)
{
    CHECK(stream == device);
}

void ref_fill_queue(struct queue_ops *ops)
{
    *ops = (struct queue_ops){
        .upload_later = ref_queue_upload_later,
        .download_later = ref_queue_upload_later,
        .mark = ref_queue_mark,
        .wait_mark = ref_queue_mark,
        .is_passed = ref_queue_is_passed,
        .follow = ref_queue_follow,
        .repeat = ref_queue_repeat,
        .forget = ref_queue_forget,
        .open_stream = ref_queue_open_stream,
        .close_stream = ref_queue_close_stream,
    };
}

/* ---- a device alone -------------------------------------------------------------- */

static void ref_group_sum_f32(struct device *device, float *data, size_t n)
{
    (void)device;
    (void)data;
    (void)n;
}

static void ref_group_sum_f64(struct device *device, double *data, size_t n)
{
    (void)device;
    (void)data;
    (void)n;
}

void ref_fill_group(struct group_ops *ops)
{
    *ops = (struct group_ops){.sum_f32 = ref_group_sum_f32,
                              .sum_f64 = ref_group_sum_f64,
                              .max_f32 = ref_group_sum_f32};
}
