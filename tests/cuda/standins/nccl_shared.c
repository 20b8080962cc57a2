/* nccl_shared.c - ranks in several processes, in step with each other. Each copies a
 * piece of its data into its slot; when all have, each reads all slots in the order of
 * the ranks, so that all get the same bits. */
#include "tests/cuda/standins/nccl_shared.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/standins/standin.h"
#include "tests/cuda/standins/stored.h"

#define RANKS 16
#define SLOT_BYTES ((size_t)1 << 18)

// What all processes see. It begins as zeros.
struct meeting {
    atomic_int attached, arrived, phase;
    atomic_int is_gone[RANKS];
    pid_t processes[RANKS];
    struct wish wishes[RANKS];
    _Alignas(64) char slots[][SLOT_BYTES];
};

struct shared {
    struct meeting *meeting;
    int rank, ranks;
};

size_t element_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
    default: return 0;
    }
}

/* ---- waiting for the others ----------------------------------------------------- */

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static double patience_ms(void)
{
    const char *seconds = getenv("STANDIN_NCCL_SECONDS");
    return 1e3 * (seconds && *seconds ? strtod(seconds, NULL) : 20);
}

// A process that was killed may stay as a zombie until its parent asks after it.
static int is_dead(pid_t process)
{
    char path[64], line[256] = "";
    if (kill(process, 0) != 0)
        return 1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static int someone_is_lost(const struct shared *shared)
{
    for (int rank = 0; rank < shared->ranks; rank++)
        if (atomic_load(&shared->meeting->is_gone[rank]) ||
            is_dead(shared->meeting->processes[rank]))
            return 1;
    return 0;
}

// Waits until *counter differs from `old`, or reaches `wanted` if that is not 0. 0 if it
// never does.
static int wait_for(const struct shared *shared, atomic_int *counter, int old, int wanted)
{
    struct timespec pause = {.tv_nsec = 30000};
    double end = now_ms() + patience_ms(), look = now_ms() + 20;
    for (;;) {
        int value = atomic_load(counter);
        if (wanted ? value >= wanted : value != old)
            return 1;
        if (now_ms() > end)
            return 0;
        // Who has left after the last arrival is not missed: look at the counter once
        // more.
        if (!wanted && now_ms() > look) {
            look = now_ms() + 20;
            if (someone_is_lost(shared) && atomic_load(counter) == old)
                return 0;
        }
        nanosleep(&pause, NULL);
    }
}

static int has_left(const struct shared *shared)
{
    int any = 0;
    for (int rank = 0; rank < shared->ranks; rank++)
        any |= atomic_load(&shared->meeting->is_gone[rank]);
    return any;
}

// 0 if not all ranks come. Who gives up is gone for the others too: they do not wait for
// it, nor take a late arrival for a whole group.
static int meet(struct shared *shared)
{
    struct meeting *meeting = shared->meeting;
    int phase = atomic_load(&meeting->phase), is_whole = !has_left(shared);
    if (is_whole && atomic_fetch_add(&meeting->arrived, 1) + 1 == shared->ranks) {
        atomic_store(&meeting->arrived, 0);
        atomic_fetch_add(&meeting->phase, 1);
    } else if (is_whole) {
        is_whole = wait_for(shared, &meeting->phase, phase, 0);
    }
    if (!is_whole)
        shared_leave(shared);
    return is_whole;
}

/* ---- joining and leaving -------------------------------------------------------- */

static struct meeting *map_meeting(const char *name, int ranks)
{
    size_t bytes = sizeof(struct meeting) + (size_t)ranks * SLOT_BYTES;
    int file = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (file < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (ftruncate(file, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

struct shared *shared_join(const char *name, int rank, int ranks)
{
    struct shared *shared = calloc(1, sizeof *shared);
    struct meeting *meeting = ranks <= RANKS ? map_meeting(name, ranks) : NULL;
    if (!meeting) {
        free(shared);
        return NULL;
    }
    *shared = (struct shared){meeting, rank, ranks};
    meeting->processes[rank] = getpid();
    atomic_fetch_add(&meeting->attached, 1);
    int are_there = wait_for(shared, &meeting->attached, 0, ranks);
    if (rank == 0 || !are_there)
        shm_unlink(name);
    if (are_there)
        return shared;
    free(shared);
    return NULL;
}

void shared_leave(struct shared *shared)
{
    atomic_store(&shared->meeting->is_gone[shared->rank], 1);
}

/* ---- the work ------------------------------------------------------------------- */

static double read_number(const char *slot, size_t index, ncclDataType_t type)
{
    if (type == ncclFloat64)
        return ((const double *)(const void *)slot)[index];
    enum stored stored = type == ncclFloat16    ? STORED_F16
                         : type == ncclBfloat16 ? STORED_BF16
                                                : STORED_F32;
    return (double)stored_read(slot, (long)index, stored);
}

static void write_number(void *to, size_t index, ncclDataType_t type, double value)
{
    enum stored stored = type == ncclFloat16    ? STORED_F16
                         : type == ncclBfloat16 ? STORED_BF16
                                                : STORED_F32;
    if (type == ncclFloat64)
        ((double *)to)[index] = value;
    else
        stored_write(to, (long)index, stored, (float)value);
}

static int64_t read_whole(const char *slot, size_t index, ncclDataType_t type)
{
    return type == ncclInt64 ? ((const int64_t *)(const void *)slot)[index]
                             : ((const int32_t *)(const void *)slot)[index];
}

static void write_whole(void *to, size_t index, ncclDataType_t type, int64_t value)
{
    if (type == ncclInt64)
        ((int64_t *)to)[index] = value;
    else
        ((int32_t *)to)[index] = (int32_t)value;
}

// As NCCL does, max and min pass over a NaN where there is a number.
static double join_numbers(double a, double b, ncclRedOp_t op)
{
    return op == ncclMax ? fmax(a, b) : op == ncclMin ? fmin(a, b) : a + b;
}

static int64_t join_wholes(int64_t a, int64_t b, ncclRedOp_t op)
{
    return op == ncclMax ? (a > b ? a : b) : op == ncclMin ? (a < b ? a : b) : a + b;
}

static void reduce_slots(const struct shared *shared, const struct wish *wish, char *to,
                         size_t count)
{
    int is_whole = wish->type == ncclInt32 || wish->type == ncclInt64;
    char(*slots)[SLOT_BYTES] = shared->meeting->slots;
    for (size_t i = 0; i < count; i++) {
        double number = is_whole ? 0 : read_number(slots[0], i, wish->type);
        int64_t whole = is_whole ? read_whole(slots[0], i, wish->type) : 0;
        for (int rank = 1; rank < shared->ranks; rank++)
            if (is_whole)
                whole =
                    join_wholes(whole, read_whole(slots[rank], i, wish->type), wish->op);
            else
                number = join_numbers(number, read_number(slots[rank], i, wish->type),
                                      wish->op);
        if (wish->op == ncclAvg) {
            whole /= shared->ranks;
            number /= shared->ranks;
        }
        if (is_whole)
            write_whole(to, i, wish->type, whole);
        else
            write_number(to, i, wish->type, number);
    }
}

static ncclResult_t agree(struct shared *shared, const struct wish *wish)
{
    struct wish *wishes = shared->meeting->wishes;
    wishes[shared->rank] = *wish;
    if (!meet(shared))
        return ncclRemoteError;
    int is_same = 1;
    for (int rank = 0; rank < shared->ranks; rank++)
        is_same &= wishes[rank].count == wish->count && wishes[rank].type == wish->type &&
                   wishes[rank].op == wish->op && wishes[rank].root == wish->root &&
                   wishes[rank].is_broadcast == wish->is_broadcast;
    if (!meet(shared))
        return ncclRemoteError;
    if (is_same)
        return ncclSuccess;
    standin_complain("NCCL: rank %d and the others call different collectives, or of "
                     "different size, type or operation (%zu elements here)",
                     shared->rank, wish->count);
    return ncclInvalidUsage;
}

ncclResult_t shared_do(struct shared *shared, const struct wish *wish, const void *from,
                       void *to)
{
    size_t unit = element_bytes(wish->type), step = SLOT_BYTES / unit;
    ncclResult_t result = agree(shared, wish);
    for (size_t done = 0; done < wish->count && result == ncclSuccess; done += step) {
        size_t count = wish->count - done < step ? wish->count - done : step;
        char *target = (char *)to + done * unit;
        if (!wish->is_broadcast || shared->rank == wish->root)
            memcpy(shared->meeting->slots[shared->rank], (const char *)from + done * unit,
                   count * unit);
        if (!meet(shared))
            return ncclRemoteError;
        if (wish->is_broadcast)
            memcpy(target, shared->meeting->slots[wish->root], count * unit);
        else
            reduce_slots(shared, wish, target, count);
        // Nobody overwrites a slot that another still reads.
        if (!meet(shared))
            return ncclRemoteError;
    }
    return result;
}
