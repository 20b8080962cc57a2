/* monitor.c - one mutex between the training thread and the screen.
 *
 * Facts and tiles are copied under the mutex, a few kilobytes each way. Requests are an
 * atomic word, which is written under it and read without. */
#include "app/view/monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_MS 50

struct monitor {
    pthread_mutex_t mutex;
    pthread_cond_t asked;
    struct history *history;
    struct layers *layers;
    struct dashboard facts; // its pointers are NULL here
    uint8_t *tiles;
    size_t tiles_bytes, tiles_room;
    uint64_t version;
    int is_finished;
    atomic_int requests;
};

struct monitor *monitor_create(void)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    struct history *history = history_create();
    struct layers *layers = layers_create();
    if (!monitor || !history || !layers) {
        free(monitor);
        history_destroy(history);
        layers_destroy(layers);
        return NULL;
    }
    pthread_mutex_init(&monitor->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monitor->asked, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_init(&monitor->requests, 0);
    monitor->history = history;
    monitor->layers = layers;
    return monitor;
}

void monitor_destroy(struct monitor *monitor)
{
    if (!monitor)
        return;
    pthread_cond_destroy(&monitor->asked);
    pthread_mutex_destroy(&monitor->mutex);
    history_destroy(monitor->history);
    layers_destroy(monitor->layers);
    free(monitor->tiles);
    free(monitor);
}

struct history *monitor_history(struct monitor *monitor)
{
    return monitor->history;
}

struct layers *monitor_layers(struct monitor *monitor)
{
    return monitor->layers;
}

static size_t tiles_size(const struct dashboard *facts)
{
    if (facts->grid_columns <= 0 || facts->grid_rows <= 0 || facts->tile_w <= 0 ||
        facts->tile_h <= 0 || facts->tile_channels <= 0)
        return 0;
    return (size_t)facts->grid_columns * (size_t)facts->grid_rows *
           (size_t)facts->tile_w * (size_t)facts->tile_h * (size_t)facts->tile_channels;
}

/* Copies the tiles; without memory for them the older ones stay. Returns 1 when copied.
 */
static int keep_tiles(struct monitor *monitor, const uint8_t *tiles, size_t bytes)
{
    if (bytes > monitor->tiles_room) {
        uint8_t *grown = realloc(monitor->tiles, bytes);
        if (!grown)
            return 0;
        monitor->tiles = grown;
        monitor->tiles_room = bytes;
    }
    memcpy(monitor->tiles, tiles, bytes);
    monitor->tiles_bytes = bytes;
    return 1;
}

void monitor_publish(struct monitor *monitor, const struct dashboard *facts,
                     const uint8_t *tiles)
{
    pthread_mutex_lock(&monitor->mutex);
    const struct dashboard before = monitor->facts;
    monitor->facts = *facts;
    const size_t bytes = tiles ? tiles_size(facts) : 0;
    if (bytes == 0 || !keep_tiles(monitor, tiles, bytes)) {
        // Shape and age describe the tiles that are kept, not those that did not come.
        monitor->facts.grid_columns = before.grid_columns;
        monitor->facts.grid_rows = before.grid_rows;
        monitor->facts.tile_w = before.tile_w;
        monitor->facts.tile_h = before.tile_h;
        monitor->facts.tile_channels = before.tile_channels;
        monitor->facts.tiles_kimg = before.tiles_kimg;
    }
    monitor->facts.tiles = NULL;
    monitor->facts.points = NULL;
    monitor->facts.point_count = 0;
    monitor->facts.notes = NULL;
    monitor->facts.note_count = 0;
    monitor->facts.layers = NULL;
    monitor->version++;
    pthread_mutex_unlock(&monitor->mutex);
}

int monitor_take_requests(struct monitor *monitor)
{
    return atomic_fetch_and(&monitor->requests, REQUEST_PAUSE);
}

// Until something is asked for, or WAIT_MS have passed: what else the worker looks for,
// it looks for then. The mutex is held.
static void wait_a_moment(struct monitor *monitor)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&monitor->asked, &monitor->mutex, &until);
}

void monitor_wait_while_paused(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
    while (atomic_load(&monitor->requests) == REQUEST_PAUSE && !monitor->is_finished)
        pthread_cond_wait(&monitor->asked, &monitor->mutex);
    pthread_mutex_unlock(&monitor->mutex);
}

void monitor_wait_for_request(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
    if ((atomic_load(&monitor->requests) & ~REQUEST_PAUSE) == 0)
        wait_a_moment(monitor);
    pthread_mutex_unlock(&monitor->mutex);
}

void monitor_finish(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
    monitor->is_finished = 1;
    monitor->version++;
    pthread_cond_broadcast(&monitor->asked);
    pthread_mutex_unlock(&monitor->mutex);
}

void monitor_request(struct monitor *monitor, int bits)
{
    pthread_mutex_lock(&monitor->mutex);
    monitor->requests |= bits & ~REQUEST_PAUSE;
    monitor->requests ^= bits & REQUEST_PAUSE;
    pthread_cond_broadcast(&monitor->asked);
    pthread_mutex_unlock(&monitor->mutex);
}

int monitor_is_paused(struct monitor *monitor)
{
    return (atomic_load(&monitor->requests) & REQUEST_PAUSE) != 0;
}

int monitor_is_finished(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
    const int is_finished = monitor->is_finished;
    pthread_mutex_unlock(&monitor->mutex);
    return is_finished;
}

uint64_t monitor_version(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
    const uint64_t version = monitor->version;
    pthread_mutex_unlock(&monitor->mutex);
    return version;
}

void monitor_read(struct monitor *monitor, struct monitor_view *view)
{
    struct dashboard *dashboard = &view->dashboard;
    pthread_mutex_lock(&monitor->mutex);
    *dashboard = monitor->facts;
    if (monitor->tiles_bytes > view->tiles_room) {
        uint8_t *grown = realloc(view->tiles, monitor->tiles_bytes);
        if (grown) {
            view->tiles = grown;
            view->tiles_room = monitor->tiles_bytes;
        }
    }
    if (monitor->tiles_bytes > 0 && monitor->tiles_bytes <= view->tiles_room) {
        memcpy(view->tiles, monitor->tiles, monitor->tiles_bytes);
        dashboard->tiles = view->tiles;
    }
    pthread_mutex_unlock(&monitor->mutex);
    // The history has its own lock, so that a long copy does not hold up a publish.
    dashboard->point_count =
        history_copy(monitor->history, &view->points, &view->points_room);
    dashboard->points = view->points;
    dashboard->note_count =
        history_copy_notes(monitor->history, &view->notes, &view->notes_room);
    dashboard->notes = view->notes;
    layers_copy(monitor->layers, &view->layers);
    dashboard->layers = &view->layers;
    dashboard->hover_x = dashboard->hover_y = -1;
}

void monitor_view_release(struct monitor_view *view)
{
    free(view->tiles);
    free(view->points);
    free(view->notes);
    layers_view_release(&view->layers);
    *view = (struct monitor_view){.tiles = NULL};
}
