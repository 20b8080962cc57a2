/* arena.h - one block of device memory, planned before it is allocated.
 * Flow:  setup reserves every tensor and array of a role, then commits once; a step
 *        allocates nothing.
 * Owns:  the block.  Borrows: the device, and the pointers it will fill in.
 *
 *     struct arena arena;
 *     arena_begin(&arena, device, "d activations");
 *     arena_reserve(&arena, &tensor.data, tensor_bytes(&tensor));
 *     TRY(arena_commit(&arena));       // one allocation, zeroed; every pointer is set
 *     ...
 *     arena_release(&arena);
 */
#ifndef KERNELS_ARENA_H
#define KERNELS_ARENA_H

#include <stddef.h>

#include "kernels/device.h"

#define ARENA_ALIGN 256 // bytes; covers cuDNN's 16, a cache line's 64 and an AVX-512 load

struct arena_slot {
    void **pointer;
    size_t offset;
};

struct arena {
    struct device *device;
    const char *name; // for messages: what the memory is for
    struct arena_slot *slots;
    size_t slot_count, slot_room;
    int lacks_slots; // no memory for the list: arena_commit() fails
    size_t bytes;    // reserved so far
    void *block;
};

void arena_begin(struct arena *arena, struct device *device, const char *name);

/* Sets *pointer at commit, to `bytes` aligned bytes. *pointer must outlive the commit. */
void arena_reserve(struct arena *arena, void **pointer, size_t bytes);

/* Like arena_reserve, at an offset chosen by the caller (tensors that share memory
 * because their lives do not overlap). The offset is relative to a region made by
 * arena_region(). */
void arena_reserve_at(struct arena *arena, void **pointer, size_t offset);

/* Reserves `bytes` without a pointer and returns the offset of the region. */
size_t arena_region(struct arena *arena, size_t bytes);

/* Allocates the block, zeroed. STATUS_FAILED names the role and the bytes that were
 * wanted, or says that memory was short for the list of pointers. */
enum status arena_commit(struct arena *arena);
void arena_release(struct arena *arena);

#endif
