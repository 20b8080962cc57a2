#include "nets/liveness.h"

#include <stdint.h>

#include "kernels/arena.h"

int lives_overlap(const struct life *one, const struct life *other)
{
    return one->first <= other->last && other->first <= one->last;
}

// Sums that do not fit a size_t stay at its maximum, which no device will give.
static size_t plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static size_t padded(size_t bytes)
{
    return plus(bytes, ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

// Larger ones first; of equal ones the one that was named first.
static void sort_by_size(const struct life *lives, int count, int *order)
{
    for (int i = 0; i < count; i++) {
        int place = i;
        for (; place > 0 && lives[order[place - 1]].bytes < lives[i].bytes; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
}

// The lowest offset at which `life` meets none of the first `placed` of `order`.
static size_t lowest_place(const struct life *lives, const int *order, int placed,
                           const struct life *life)
{
    size_t offset = 0;
    for (int is_free = 0; !is_free;) {
        is_free = 1;
        for (int i = 0; i < placed; i++) {
            const struct life *other = &lives[order[i]];
            size_t end = plus(other->offset, padded(other->bytes));
            if (offset < end && other->offset < plus(offset, padded(life->bytes)) &&
                lives_overlap(life, other)) {
                offset = end;
                is_free = 0;
            }
        }
    }
    return offset;
}

size_t liveness_pack(struct life *lives, int count, int *order)
{
    size_t bytes = 0;
    sort_by_size(lives, count, order);
    for (int i = 0; i < count; i++) {
        struct life *life = &lives[order[i]];
        life->offset = lowest_place(lives, order, i, life);
        size_t end = plus(life->offset, padded(life->bytes));
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}
