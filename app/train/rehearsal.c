#include "app/train/rehearsal.h"

#include <string.h>

#include "app/train/train.h"

static size_t buffer_bytes(const struct trainer *trainer, int network)
{
    return trainer->gan.net[network].buffer_elements * sizeof(float);
}

// The images of the step are on the device from here on.
static void take_images(struct trainer *trainer)
{
    trainer->progress.step += 1;
    inject_prepare(trainer);
    trainer->progress.step -= 1;
    feed_next(&trainer->feed);
}

enum status rehearsal_open(struct rehearsal *rehearsal, struct trainer *trainer)
{
    const struct memory_ops *memory = &trainer->device->ops->memory;
    struct arena *arena = &rehearsal->arena;
    CHECK(train_pending(trainer) == 0);
    memset(rehearsal, 0, sizeof *rehearsal);
    arena_begin(arena, trainer->device, "a rehearsal of the first step");
    arena_reserve(arena, (void **)&rehearsal->draw, sizeof *rehearsal->draw);
    for (int network = 0; network < ROLES; network++)
        arena_reserve(arena, (void **)&rehearsal->buffers[network],
                      buffer_bytes(trainer, network));
    TRY(arena_commit(arena));
    memory->copy(trainer->device, rehearsal->draw, trainer->feed.draw,
                 sizeof *rehearsal->draw);
    for (int network = 0; network < ROLES; network++)
        memory->copy(trainer->device, rehearsal->buffers[network],
                     trainer->gan.net[network].buffers, buffer_bytes(trainer, network));
    rehearsal->trainer = trainer;
    take_images(trainer);
    return STATUS_OK;
}

void rehearsal_take(struct rehearsal *rehearsal, int turns,
                    void (*check)(struct trainer *trainer, int network, void *context),
                    void *context)
{
    struct trainer *trainer = rehearsal->trainer;
    const struct memory_ops *memory = &trainer->device->ops->memory;
    train_rehearse(trainer, turns, check, context);
    memory->copy(trainer->device, trainer->feed.draw, rehearsal->draw,
                 sizeof *rehearsal->draw);
    for (int network = 0; network < ROLES; network++)
        memory->copy(trainer->device, trainer->gan.net[network].buffers,
                     rehearsal->buffers[network], buffer_bytes(trainer, network));
}

enum status rehearsal_close(struct rehearsal *rehearsal)
{
    struct trainer *trainer = rehearsal->trainer;
    if (trainer)
        trainer->device->ops->memory.wait(trainer->device);
    arena_release(&rehearsal->arena);
    if (!trainer)
        return STATUS_OK;
    TRY(device_fault(trainer->device));
    return trainer_start_data(trainer);
}
