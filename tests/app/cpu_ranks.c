/* cpu_ranks.c - the program with CPUs in the place of several GPUs, for test_ranks.c.
 *
 * The linker puts device_group_id() and device_open_with() of this file before the
 * product's. "cuda:N" is then the CPU, whose group ops add over the ranks in shared
 * memory, in the order of the ranks, and wait for all of them: for ever, when one is
 * lost, just as a GPU does. TEST_FAULT = "RANK:CALL:FAULT" lets a rank fail in its
 * CALLth max_f32, which is one per optimizer step: D's are the odd ones, G's the even
 * ones. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/ranks/group.h"
#include "kernels/device.h"
#include "kernels/ops.h"

#define CHUNK_BYTES 65536

struct shared {
    atomic_int arrived, generation;
    char slot[GROUP_WORLD_MAX][CHUNK_BYTES];
};

static struct shared *shared;
static struct ops ops; // the CPU's, with the group's in place

/* ---- sums ------------------------------------------------------------------------ */

static void wait_for_all(const struct device *device)
{
    int generation = atomic_load(&shared->generation);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == device->world) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->generation, 1);
    }
    while (atomic_load(&shared->generation) == generation)
        usleep(20);
}

/* Every rank's `bytes` into its slot; then `gather` makes of all what each gets. */
static void exchange(struct device *device, void *data, size_t bytes,
                     void (*gather)(const struct device *device, void *data,
                                    size_t bytes))
{
    for (size_t done = 0; done < bytes; done += CHUNK_BYTES) {
        size_t part = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        char *here = (char *)data + done;
        memcpy(shared->slot[device->rank], here, part);
        wait_for_all(device);
        gather(device, here, part);
        wait_for_all(device);
    }
}

static void gather_f32(const struct device *device, void *data, size_t bytes)
{
    float *sum = data;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) {
        sum[i] = 0.0f;
        for (int rank = 0; rank < device->world; rank++)
            sum[i] += ((const float *)shared->slot[rank])[i];
    }
}

static void gather_f64(const struct device *device, void *data, size_t bytes)
{
    double *sum = data;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) {
        sum[i] = 0.0;
        for (int rank = 0; rank < device->world; rank++)
            sum[i] += ((const double *)shared->slot[rank])[i];
    }
}

static void gather_max(const struct device *device, void *data, size_t bytes)
{
    float *most = data;
    for (size_t i = 0; i < bytes / sizeof *most; i++)
        for (int rank = 0; rank < device->world; rank++)
            if (((const float *)shared->slot[rank])[i] > most[i])
                most[i] = ((const float *)shared->slot[rank])[i];
}

static void sum_f32(struct device *device, float *data, size_t n)
{
    exchange(device, data, n * sizeof *data, gather_f32);
}

static void sum_f64(struct device *device, double *data, size_t n)
{
    exchange(device, data, n * sizeof *data, gather_f64);
}

// The fault of this rank's present call; "" for none.
static const char *fault_of(const struct device *device)
{
    static int calls;
    static char fault[16];
    int rank = -1, call = -1;
    const char *told = getenv("TEST_FAULT");
    calls++;
    if (told && sscanf(told, "%d:%d:%15s", &rank, &call, fault) == 3 &&
        rank == device->rank && calls == call)
        return fault;
    return "";
}

static void max_f32(struct device *device, float *data, size_t n)
{
    const char *fault = fault_of(device);
    if (strcmp(fault, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(fault, "device") == 0)
        device_set_fault(device, "conv_wgrad [64,4,4,32]: planted");
    if (strcmp(fault, "found") == 0)
        data[0] = 1.0f; // this rank alone finds inf
    exchange(device, data, n * sizeof *data, gather_max);
    if (strcmp(fault, "skip") == 0)
        data[0] = 1.0f; // this rank alone skips
}

/* ---- opening --------------------------------------------------------------------- */

enum status __wrap_device_group_id(const char *name, unsigned char id[DEVICE_GROUP_ID]);
enum status __wrap_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device);
enum status __real_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device);

enum status __wrap_device_group_id(const char *name, unsigned char id[DEVICE_GROUP_ID])
{
    int fd = memfd_create(name, 0); // stays open: it lives as long as this process
    if (fd < 0 || ftruncate(fd, sizeof *shared) != 0)
        return status_fail(STATUS_ENVIRONMENT, "%s: no shared memory", name);
    snprintf((char *)id, DEVICE_GROUP_ID, "/proc/%d/fd/%d", (int)getpid(), fd);
    return STATUS_OK;
}

static enum status open_shared(const struct device *device, const char *path)
{
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return status_fail(STATUS_ENVIRONMENT, "%s: rank %d does not find it", path,
                           device->rank);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(shared != MAP_FAILED);
    wait_for_all(device);
    return STATUS_OK;
}

enum status __wrap_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device)
{
    struct device_options alone = *options;
    const char *lacking = getenv("TEST_LACKS"); // "cuda:1": is not there
    alone.rank = 0;
    alone.world = 1;
    if (lacking && strcmp(lacking, name) == 0)
        return status_fail(STATUS_ENVIRONMENT, "device %s: there is none", name);
    TRY(__real_device_open_with("cpu", &alone, device));
    // As on a GPU: a step's results are read when the next one is queued.
    (*device)->steps_ahead = 1;
    if (options->world <= 1)
        return STATUS_OK;
    (*device)->rank = options->rank;
    (*device)->world = options->world;
    ops = *(*device)->ops;
    ops.group =
        (struct group_ops){.sum_f32 = sum_f32, .sum_f64 = sum_f64, .max_f32 = max_f32};
    (*device)->ops = &ops;
    return open_shared(*device, (const char *)options->group_id);
}
