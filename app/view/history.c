/* history.c - the growing list of steps, thinned before it grows too long to draw.
 *
 * Thinning takes the older half in groups of consecutive steps and keeps of each group
 * the first step, every step that skipped, was held back or was followed by a change, and
 * the steps with the smallest and the largest of each scale, loss and norm. A curve drawn
 * as min and max per pixel column looks the same. */
#include "app/view/history.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THIN_GROUP 64

struct history {
    pthread_mutex_t mutex;
    struct history_point *points;
    size_t count, room;
    size_t thin_at; // the count at which the older half is thinned next
    struct history_note *notes;
    size_t note_count, note_room;
};

struct history *history_create(void)
{
    struct history *history = calloc(1, sizeof(*history));
    if (!history)
        return NULL;
    pthread_mutex_init(&history->mutex, NULL);
    history->thin_at = HISTORY_MAX;
    return history;
}

void history_destroy(struct history *history)
{
    if (!history)
        return;
    pthread_mutex_destroy(&history->mutex);
    free(history->points);
    free(history->notes);
    free(history);
}

/* Marks the points of a group with the smallest and the largest value of a float field.
 * NaN compares false and is never an extreme. */
static void mark_extremes(const struct history_point *group, size_t n, size_t field,
                          uint8_t *keep)
{
    size_t low = n, high = n;
    float low_value = 0.0f, high_value = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)&group[i] + field, sizeof(value));
        if (value == value && (low == n || value < low_value)) {
            low = i;
            low_value = value;
        }
        if (value == value && (high == n || value > high_value)) {
            high = i;
            high_value = value;
        }
    }
    if (low < n)
        keep[low] = keep[high] = 1;
}

static int is_marked(const struct history_point *point)
{
    int marks = point->skipped[SCALE_D_FAKE];
    for (int net = 0; net < ROLES; net++)
        marks |= point->skipped[net] | point->held[net] | point->changed[net];
    return marks != 0;
}

static size_t thin_group(struct history_point *to, const struct history_point *group,
                         size_t n)
{
    uint8_t keep[THIN_GROUP] = {1};
    // All floats of a point, one after the other.
    for (size_t field = offsetof(struct history_point, scale);
         field < offsetof(struct history_point, skipped); field += sizeof(float))
        mark_extremes(group, n, field, keep);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (keep[i] || is_marked(&group[i]))
            to[kept++] = group[i]; // never ahead of the reading position
    return kept;
}

static void thin_older_half(struct history *history)
{
    struct history_point *points = history->points;
    const size_t half = history->count / 2;
    size_t kept = 0;
    for (size_t start = 0; start < half; start += THIN_GROUP) {
        const size_t n = half - start < THIN_GROUP ? half - start : THIN_GROUP;
        kept += thin_group(points + kept, points + start, n);
    }
    memmove(points + kept, points + half, (history->count - half) * sizeof(*points));
    history->count -= half - kept;
    // When nearly every step skipped little was freed: let it grow rather than thin each
    // time.
    history->thin_at = history->count + HISTORY_MAX / 4;
    if (history->thin_at < HISTORY_MAX)
        history->thin_at = HISTORY_MAX;
}

static int grow(struct history *history)
{
    const size_t room = history->room ? 2 * history->room : 1024;
    struct history_point *points = realloc(history->points, room * sizeof(*points));
    if (!points)
        return 0;
    history->points = points;
    history->room = room;
    return 1;
}

void history_add(struct history *history, const struct history_point *point)
{
    pthread_mutex_lock(&history->mutex);
    if (history->count >= history->thin_at)
        thin_older_half(history);
    // Without memory for more, room is made by thinning; training goes on in any case.
    if (history->count == history->room && !grow(history) && history->count >= THIN_GROUP)
        thin_older_half(history);
    if (history->count < history->room)
        history->points[history->count++] = *point;
    pthread_mutex_unlock(&history->mutex);
}

void history_add_note(struct history *history, const struct history_note *note)
{
    pthread_mutex_lock(&history->mutex);
    if (history->note_count == HISTORY_NOTES_MAX) {
        const size_t half = HISTORY_NOTES_MAX / 2;
        memmove(history->notes, history->notes + half, half * sizeof(*note));
        history->note_count = half;
    }
    if (history->note_count == history->note_room) {
        const size_t room = history->note_room ? 2 * history->note_room : 64;
        struct history_note *notes = realloc(history->notes, room * sizeof(*notes));
        if (notes) {
            history->notes = notes;
            history->note_room = room;
        }
    }
    if (history->note_count < history->note_room)
        history->notes[history->note_count++] = *note;
    pthread_mutex_unlock(&history->mutex);
}

void history_rewind(struct history *history, int64_t step)
{
    pthread_mutex_lock(&history->mutex);
    while (history->count > 0 && history->points[history->count - 1].step > step)
        history->count--;
    while (history->note_count > 0 && history->notes[history->note_count - 1].step > step)
        history->note_count--;
    pthread_mutex_unlock(&history->mutex);
}

void history_mark(struct history *history, int network)
{
    pthread_mutex_lock(&history->mutex);
    if (history->count > 0)
        history->points[history->count - 1].changed[network] = 1;
    pthread_mutex_unlock(&history->mutex);
}

size_t history_count(const struct history *history)
{
    struct history *mutable =
        (struct history *)history; // the mutex is not part of the value
    pthread_mutex_lock(&mutable->mutex);
    const size_t count = history->count;
    pthread_mutex_unlock(&mutable->mutex);
    return count;
}

// At most `count` items of `size` bytes into *items, which is grown to hold them if it
// can be.
static size_t copy_items(const void *from, size_t count, size_t size, void **items,
                         size_t *room)
{
    if (count > *room) {
        // Room for as many again, so that a growing history does not realloc at each
        // frame.
        void *grown = realloc(*items, 2 * count * size);
        if (grown) {
            *items = grown;
            *room = 2 * count;
        } else {
            count = *room;
        }
    }
    if (count > 0)
        memcpy(*items, from, count * size);
    return count;
}

size_t history_copy(const struct history *history, struct history_point **points,
                    size_t *room)
{
    struct history *mutable = (struct history *)history;
    void *items = *points;
    pthread_mutex_lock(&mutable->mutex);
    const size_t count =
        copy_items(history->points, history->count, sizeof(**points), &items, room);
    pthread_mutex_unlock(&mutable->mutex);
    *points = items;
    return count;
}

size_t history_copy_notes(const struct history *history, struct history_note **notes,
                          size_t *room)
{
    struct history *mutable = (struct history *)history;
    void *items = *notes;
    pthread_mutex_lock(&mutable->mutex);
    const size_t count =
        copy_items(history->notes, history->note_count, sizeof(**notes), &items, room);
    pthread_mutex_unlock(&mutable->mutex);
    *notes = items;
    return count;
}
