#include "app/train/results.h"

#include <string.h>

// Each part begins where any of them may.
static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t sums_bytes(const struct results *results)
{
    return aligned((size_t)results->sums_count * sizeof(struct loss_sums));
}

static size_t records_bytes(const struct results *results)
{
    return aligned((size_t)results->record_count * sizeof(struct step_record));
}

static size_t fakes_bytes(const struct results *results)
{
    return aligned((size_t)results->fake_count * sizeof(struct step_record));
}

static size_t stats_bytes(const struct results *results)
{
    return aligned((size_t)results->record_count * (size_t)results->stats_count *
                   sizeof(struct survey_stats));
}

static struct results_view view_of(const struct results *results, void *block)
{
    char *start = block;
    char *records = start + sums_bytes(results);
    char *fakes = records + records_bytes(results);
    return (struct results_view){
        .sums = block,
        .records = (void *)records,
        .fakes = (void *)fakes,
        .stats = (void *)(fakes + fakes_bytes(results)),
    };
}

enum status results_create(struct results *results, struct device *device,
                           const struct results_size *size)
{
    *results = (struct results){.device = device,
                                .sums_count = size->sums,
                                .record_count = size->records,
                                .fake_count = size->fakes,
                                .stats_count = size->stats};
    results->bytes = sums_bytes(results) + records_bytes(results) + fakes_bytes(results) +
                     stats_bytes(results);
    void *block;
    arena_begin(&results->arena, device, "results of a step");
    arena_reserve(&results->arena, &block, results->bytes);
    TRY(arena_commit(&results->arena));
    results->here = view_of(results, block);
    for (int i = 0; i < RESULTS_RING; i++) {
        results->ring[i] = device->ops->memory.alloc_host(device, results->bytes);
        if (!results->ring[i])
            return status_fail(STATUS_FAILED,
                               "not enough memory for %zu bytes of a step's results",
                               results->bytes);
    }
    return STATUS_OK;
}

void results_release(struct results *results)
{
    if (!results || !results->device)
        return;
    for (int i = 0; i < RESULTS_RING; i++)
        if (results->ring[i])
            results->device->ops->memory.release_host(results->device, results->ring[i]);
    arena_release(&results->arena);
    memset(results, 0, sizeof *results);
}

void results_send(struct results *results, struct results_place place)
{
    CHECK(results_pending(results) < RESULTS_RING, "%d pending",
          results_pending(results));
    int slot = (int)(results->sent % RESULTS_RING);
    const struct queue_ops *queue = &results->device->ops->queue;
    queue->download_later(results->device, results->ring[slot], results->here.sums,
                          results->bytes);
    queue->mark(results->device, slot);
    results->place[slot] = place;
    results->sent += 1;
}

int results_pending(const struct results *results)
{
    return (int)(results->sent - results->taken);
}

enum status results_take(struct results *results, struct results_view *view,
                         struct results_place *place)
{
    CHECK(results_pending(results) > 0);
    int slot = (int)(results->taken % RESULTS_RING);
    results->device->ops->queue.wait_mark(results->device, slot);
    TRY(device_fault(results->device));
    *view = view_of(results, results->ring[slot]);
    *place = results->place[slot];
    results->taken += 1;
    return STATUS_OK;
}
