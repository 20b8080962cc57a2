#include "app/train/feed.h"

#include <string.h>

#include "kernels/philox.h"

enum status feed_create(struct feed *feed, struct device *device,
                        const struct tensor *real, const struct tensor *latents,
                        int turns)
{
    memset(feed, 0, sizeof *feed);
    feed->device = device;
    feed->turns = turns;
    feed->real = *real;
    feed->latents = *latents;
    struct shape pixels = real->shape;
    pixels.n *= turns;
    feed->pixels = tensor_of(DTYPE_U8, pixels, NULL);
    struct arena *arena = &feed->arena;
    arena_begin(arena, device, "inputs of a step");
    arena_reserve(arena, &feed->pixels.data, tensor_bytes(&feed->pixels));
    for (int i = 0; i < FEED_STAGES; i++)
        arena_reserve(arena, &feed->stage[i], tensor_bytes(&feed->pixels));
    arena_reserve(arena, &feed->real.data, tensor_bytes(&feed->real));
    arena_reserve(arena, &feed->latents.data, tensor_bytes(&feed->latents));
    arena_reserve(arena, (void **)&feed->draw, sizeof *feed->draw);
    arena_reserve(arena, (void **)&feed->again, sizeof *feed->again);
    TRY(arena_commit(arena));
    return device->ops->queue.open_stream(device, &feed->stream);
}

void feed_release(struct feed *feed)
{
    if (!feed || !feed->device)
        return;
    if (feed->stream)
        feed->device->ops->queue.close_stream(feed->device, feed->stream);
    arena_release(&feed->arena);
    memset(feed, 0, sizeof *feed);
}

/* A staging block was last read FEED_STAGES steps ago, by a step whose results the host
 * has taken since (results.h): it is free, and the upload waits for nothing. The host's
 * buffers stay as they are for as long (batch.h). */
void feed_next(struct feed *feed)
{
    const struct ops *ops = feed->device->ops;
    char *stage = feed->stage[feed->uploads++ % FEED_STAGES];
    size_t bytes = tensor_bytes(&feed->pixels), turn_bytes = bytes / (size_t)feed->turns;
    for (int turn = 0; turn < feed->turns; turn++)
        ops->queue.upload_later(feed->stream, stage + (size_t)turn * turn_bytes,
                                batch_next(feed->batches), turn_bytes);
    ops->queue.follow(feed->device, feed->stream);
    ops->memory.copy(feed->device, feed->pixels.data, stage, bytes);
}

// Rows are counted over the whole batch, whatever share of it is here.
static uint64_t first_row(const struct feed *feed)
{
    return (uint64_t)feed->device->rank * (uint64_t)feed->real.shape.n;
}

static void draw_latents(struct feed *feed, const uint64_t *draw)
{
    feed->device->ops->image.normal(feed->device, feed->seed, STREAM_LATENT, draw,
                                    first_row(feed), &feed->latents);
}

void feed_draw(struct feed *feed, int turn)
{
    const struct ops *ops = feed->device->ops;
    struct tensor pixels = feed->pixels;
    pixels.shape.n = pixels.n_stored = feed->real.shape.n;
    pixels.data = (char *)feed->pixels.data +
                  (size_t)turn * (tensor_bytes(&feed->pixels) / (size_t)feed->turns);
    ops->image.from_u8(feed->device, &pixels, feed->mirror, feed->seed, feed->draw,
                       first_row(feed), &feed->real);
    draw_latents(feed, feed->draw);
    ops->image.advance(feed->device, feed->draw);
}

void feed_remember(struct feed *feed)
{
    feed->device->ops->memory.copy(feed->device, feed->again, feed->draw,
                                   sizeof *feed->again);
}

void feed_draw_again(struct feed *feed)
{
    draw_latents(feed, feed->again);
    feed_pass_over(feed);
}

void feed_pass_over(struct feed *feed)
{
    feed->device->ops->image.advance(feed->device, feed->again);
}
