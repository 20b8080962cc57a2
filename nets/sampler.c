#include "nets/sampler.h"

#include <string.h>

static size_t image_bytes(const struct sampler *sampler)
{
    return tensor_bytes(&sampler->pixels) / SAMPLER_BATCH;
}

enum status sampler_plan(struct sampler *sampler, int room)
{
    struct device *device = sampler->net.device;
    sampler->room = room;
    CHECK(sampler->net.input.shape.n == SAMPLER_BATCH, "%d samples",
          sampler->net.input.shape.n);
    TRY(net_plan(&sampler->net, NET_INFERENCE));
    sampler->z = sampler->net.input;
    // Pixels are what a person sees: no padding.
    sampler->pixels = tensor_of(DTYPE_U8, net_output(&sampler->net)->shape, NULL);
    sampler->host =
        device->ops->memory.alloc_host(device, (size_t)room * image_bytes(sampler));
    if (!sampler->host)
        return status_fail(STATUS_FAILED,
                           "not enough memory for %d sample images of %d x %d; ask for "
                           "fewer",
                           room, sampler->pixels.shape.h, sampler->pixels.shape.w);
    arena_begin(&sampler->arena, device, "samples");
    arena_reserve(&sampler->arena, &sampler->z.data, tensor_bytes(&sampler->z));
    arena_reserve(&sampler->arena, &sampler->pixels.data, tensor_bytes(&sampler->pixels));
    TRY(arena_commit(&sampler->arena));
    return STATUS_OK;
}

void sampler_release(struct sampler *sampler)
{
    if (!sampler || !sampler->net.device)
        return;
    struct device *device = sampler->net.device;
    device->ops->memory.wait(device);
    net_release(&sampler->net);
    arena_release(&sampler->arena);
    if (sampler->host)
        device->ops->memory.release_host(device, sampler->host);
    memset(sampler, 0, sizeof *sampler);
}

void sampler_take_weights(struct sampler *sampler, struct device *source,
                          const float *weights)
{
    struct net *net = &sampler->net;
    const struct ops *ops = net->device->ops;
    CHECK(!sampler->drawing, "%d images are being drawn", sampler->drawing);
    ops->memory.copy(source, net->params, weights, net->param_elements * sizeof(float));
    ops->queue.follow(net->device, source);
    net_params_changed(net);
}

void sampler_load(struct sampler *sampler, struct device *source, const float *weights)
{
    struct net *net = &sampler->net;
    const struct ops *ops = net->device->ops;
    sampler_take_weights(sampler, source, weights);
    // Where a batch overflows, its statistics are not taken: nothing earlier stays
    // either.
    if (net->buffer_elements)
        ops->memory.zero(net->device, net->buffers, net->buffer_elements * sizeof(float));
    for (int batch = 0; batch < SAMPLER_CALIBRATION_BATCHES; batch++) {
        ops->image.normal(net->device, 0, STREAM_CALIBRATE, NULL,
                          (uint64_t)batch * SAMPLER_BATCH, &sampler->z);
        // The k-th batch at momentum 1/k makes the running statistics a plain mean.
        net->norm_momentum = 1.0f / (float)(batch + 1);
        net_forward(net, &sampler->z, NET_TRAIN);
    }
}

// Consecutive seeds are consecutive rows: one call fills them. `rows` latents, from
// `first`.
static int fill_latents(struct sampler *sampler, const uint64_t *seeds, int count)
{
    int filled = 0;
    while (filled < count) {
        int run = 1;
        while (filled + run < count &&
               seeds[filled + run] == seeds[filled] + (uint64_t)run)
            run++;
        struct tensor rows = sampler->z;
        rows.shape.n = rows.n_stored = run;
        size_t row_bytes = tensor_bytes(&rows) / (size_t)run;
        rows.data = (uint8_t *)sampler->z.data + (size_t)filled * row_bytes;
        sampler->net.device->ops->image.normal(sampler->net.device, 0, STREAM_SAMPLE,
                                               NULL, seeds[filled], &rows);
        filled += run;
    }
    return filled;
}

void sampler_start(struct sampler *sampler, const uint64_t *seeds, int count)
{
    struct net *net = &sampler->net;
    const struct ops *ops = net->device->ops;
    CHECK(!sampler->drawing && count <= sampler->room, "%d of %d", count, sampler->room);
    for (int done = 0; done < count; done += SAMPLER_BATCH) {
        int now = count - done < SAMPLER_BATCH ? count - done : SAMPLER_BATCH;
        fill_latents(sampler, seeds + done, now);
        ops->image.to_u8(net->device, net_forward(net, &sampler->z, NET_EVAL),
                         &sampler->pixels);
        ops->queue.download_later(
            net->device, sampler->host + (size_t)done * image_bytes(sampler),
            sampler->pixels.data, (size_t)now * image_bytes(sampler));
    }
    ops->queue.mark(net->device, 0);
    sampler->drawing = count;
}

int sampler_is_done(const struct sampler *sampler)
{
    struct device *device = sampler->net.device;
    return sampler->drawing && device->ops->queue.is_passed(device, 0);
}

enum status sampler_finish(struct sampler *sampler, uint8_t *pixels_host)
{
    struct device *device = sampler->net.device;
    device->ops->queue.wait_mark(device, 0);
    memcpy(pixels_host, sampler->host, (size_t)sampler->drawing * image_bytes(sampler));
    sampler->drawing = 0;
    return device_fault(device);
}
