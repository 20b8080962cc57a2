#include "kernels/arena.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

void arena_begin(struct arena *arena, struct device *device, const char *name)
{
    *arena = (struct arena){.device = device, .name = name};
}

size_t arena_region(struct arena *arena, size_t bytes)
{
    CHECK(!arena->block, "%s was committed already", arena->name);
    size_t offset = arena->bytes;
    // Sums that do not fit a size_t stay at its maximum, which no device will alloc.
    size_t padded = bytes > SIZE_MAX - ARENA_ALIGN
                        ? SIZE_MAX
                        : (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    arena->bytes = padded > SIZE_MAX - offset ? SIZE_MAX : offset + padded;
    return offset;
}

void arena_reserve_at(struct arena *arena, void **pointer, size_t offset)
{
    CHECK(!arena->block, "%s was committed already", arena->name);
    CHECK(offset <= arena->bytes, "%s: offset %zu of %zu", arena->name, offset,
          arena->bytes);
    if (arena->slot_count == arena->slot_room) {
        size_t room = arena->slot_room ? arena->slot_room * 2 : 32;
        struct arena_slot *slots = realloc(arena->slots, room * sizeof *slots);
        if (!slots) {
            arena->lacks_slots = 1;
            return;
        }
        arena->slots = slots;
        arena->slot_room = room;
    }
    arena->slots[arena->slot_count++] = (struct arena_slot){pointer, offset};
}

void arena_reserve(struct arena *arena, void **pointer, size_t bytes)
{
    arena_reserve_at(arena, pointer, arena_region(arena, bytes));
}

enum status arena_commit(struct arena *arena)
{
    CHECK(!arena->block, "%s was committed already", arena->name);
    if (arena->lacks_slots)
        return memory_missing("the list of %s", arena->name);
    // One spare unit, so that slots of zero bytes at the end point into the block too.
    size_t bytes =
        arena->bytes > SIZE_MAX - ARENA_ALIGN ? SIZE_MAX : arena->bytes + ARENA_ALIGN;
    arena->block = arena->device->ops->memory.alloc(arena->device, bytes);
    if (!arena->block)
        return status_fail(STATUS_FAILED,
                           "%s: %.1f MiB wanted, %s has %.1f MiB free; give a smaller "
                           "--batch, or narrower networks (--g-width, --d-width)",
                           arena->name, (double)bytes / 1048576.0, arena->device->name,
                           (double)arena->device->ops->memory.available(arena->device) /
                               1048576.0);
    for (size_t i = 0; i < arena->slot_count; i++)
        *arena->slots[i].pointer = (char *)arena->block + arena->slots[i].offset;
    return STATUS_OK;
}

void arena_release(struct arena *arena)
{
    if (arena->block)
        arena->device->ops->memory.release(arena->device, arena->block);
    free(arena->slots);
    *arena = (struct arena){.device = arena->device, .name = arena->name};
}
