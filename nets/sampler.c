#include "nets/sampler.h"

#include <stdlib.h>
#include <string.h>

enum status sampler_create(struct sampler *sampler, struct device *device,
                           const struct dcgan_config *config, enum dtype dtype)
{
    memset(sampler, 0, sizeof *sampler);
    dcgan_generator(&sampler->net, device, config, dtype, SAMPLER_BATCH);
    TRY(net_plan(&sampler->net, NET_INFERENCE));
    sampler->z = sampler->net.input;
    // Pixels are what a person sees: no padding.
    sampler->pixels = tensor_of(DTYPE_U8, net_output(&sampler->net)->shape, NULL);
    sampler->staging = malloc(tensor_bytes(&sampler->pixels));
    if (!sampler->staging)
        return status_fail(STATUS_FAILED,
                           "not enough memory for %d sample images of %d x %d",
                           SAMPLER_BATCH, config->resolution, config->resolution);
    arena_begin(&sampler->arena, device, "samples");
    arena_reserve(&sampler->arena, &sampler->z.data, tensor_bytes(&sampler->z));
    arena_reserve(&sampler->arena, &sampler->pixels.data, tensor_bytes(&sampler->pixels));
    TRY(arena_commit(&sampler->arena));
    sampler->net.input.data = sampler->z.data;
    return STATUS_OK;
}

void sampler_release(struct sampler *sampler)
{
    if (!sampler || !sampler->net.device)
        return;
    net_release(&sampler->net);
    arena_release(&sampler->arena);
    free(sampler->staging);
    memset(sampler, 0, sizeof *sampler);
}

void sampler_load(struct sampler *sampler, const float *weights)
{
    struct net *net = &sampler->net;
    const struct ops *ops = net->device->ops;
    ops->memory.copy(net->device, net->params, weights,
                     net->param_elements * sizeof(float));
    net_params_changed(net);
    for (int batch = 0; batch < SAMPLER_CALIBRATION_BATCHES; batch++) {
        ops->image.normal(net->device, 0, STREAM_CALIBRATE, NULL,
                          (uint64_t)batch * SAMPLER_BATCH, &sampler->z);
        // The k-th batch at momentum 1/k makes the running statistics a plain mean.
        net->norm_momentum = 1.0f / (float)(batch + 1);
        net_forward(net, NET_TRAIN);
    }
}

// Consecutive seeds are consecutive rows: one call fills them. `rows` latents, from `first`.
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

void sampler_draw(struct sampler *sampler, const uint64_t *seeds, int count,
                  uint8_t *pixels_host)
{
    struct net *net = &sampler->net;
    const struct ops *ops = net->device->ops;
    size_t image_bytes = tensor_bytes(&sampler->pixels) / SAMPLER_BATCH;
    for (int done = 0; done < count; done += SAMPLER_BATCH) {
        int now = count - done < SAMPLER_BATCH ? count - done : SAMPLER_BATCH;
        fill_latents(sampler, seeds + done, now);
        net_forward(net, NET_EVAL);
        ops->image.to_u8(net->device, net_output(net), &sampler->pixels);
        ops->memory.download(net->device, sampler->staging, sampler->pixels.data,
                             tensor_bytes(&sampler->pixels));
        memcpy(pixels_host + (size_t)done * image_bytes, sampler->staging,
               (size_t)now * image_bytes);
    }
}
