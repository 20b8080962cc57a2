#include "app/view/layers.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/json_lines.h"
#include "app/record/rollbacks.h"

struct columns {
    int count;
    struct layer_column of[LAYERS_LOOKS];
};

struct layers {
    pthread_mutex_t mutex;
    int row_count, row_room;
    char (*name)[LAYERS_NAME];
    struct columns looks, skips;
};

struct layers *layers_create(void)
{
    struct layers *layers = calloc(1, sizeof *layers);
    if (layers)
        pthread_mutex_init(&layers->mutex, NULL);
    return layers;
}

static void drop_from(struct columns *columns, int first)
{
    for (int i = first; i < columns->count; i++)
        free(columns->of[i].cells);
    columns->count = first;
}

void layers_destroy(struct layers *layers)
{
    if (!layers)
        return;
    drop_from(&layers->looks, 0);
    drop_from(&layers->skips, 0);
    free(layers->name);
    pthread_mutex_destroy(&layers->mutex);
    free(layers);
}

/* ---- columns --------------------------------------------------------------------- */

void layer_column_begin(struct layer_column *column, int64_t step, double kimg)
{
    *column = (struct layer_column){.step = step, .kimg = kimg};
}

static const struct layer_cell unseen = {NAN, NAN, 0};

static size_t place(int row, enum layer_tensor tensor)
{
    return (size_t)row * LAYER_TENSORS + tensor;
}

// False without memory.
static int grow(struct layer_column *column, int rows)
{
    if (rows <= column->rows)
        return 1;
    struct layer_cell *cells =
        realloc(column->cells, place(rows, 0) * sizeof *column->cells);
    if (!cells)
        return 0;
    for (size_t i = place(column->rows, 0); i < place(rows, 0); i++)
        cells[i] = unseen;
    column->cells = cells;
    column->rows = rows;
    return 1;
}

void layer_column_join(struct layer_column *column, int row, enum layer_tensor tensor,
                       const struct layer_cell *seen)
{
    if (!grow(column, row + 1))
        return;
    struct layer_cell *cell = &column->cells[place(row, tensor)];
    cell->headroom = fminf(cell->headroom, seen->headroom); // a NaN gives way
    cell->small = fmaxf(cell->small, seen->small);
    cell->has_overflowed |= seen->has_overflowed;
}

struct layer_cell layer_column_cell(const struct layer_column *column, int row,
                                    enum layer_tensor tensor)
{
    return row < column->rows ? column->cells[place(row, tensor)] : unseen;
}

// The second goes into the first.
static void join(struct layer_column *first, struct layer_column *second)
{
    for (int row = 0; row < second->rows; row++)
        for (int tensor = 0; tensor < LAYER_TENSORS; tensor++)
            layer_column_join(first, row, (enum layer_tensor)tensor,
                              &second->cells[place(row, (enum layer_tensor)tensor)]);
    first->step = second->step;
    free(second->cells);
    second->cells = NULL;
}

// Pairs of neighbours become one.
static void join_looks(struct columns *looks)
{
    int half = looks->count / 2;
    for (int i = 0; i < half; i++) {
        looks->of[i] = looks->of[2 * i];
        join(&looks->of[i], &looks->of[2 * i + 1]);
    }
    looks->count = half;
}

// Those less than a hair of the picture apart become one: at most half of them are left.
static void join_skips(struct columns *skips)
{
    double range = skips->of[skips->count - 1].kimg - skips->of[0].kimg;
    int last = 0;
    for (int i = 1; i < skips->count; i++) {
        if (skips->of[i].kimg - skips->of[last].kimg <= range / (LAYERS_LOOKS / 2 - 1))
            join(&skips->of[last], &skips->of[i]);
        else
            skips->of[++last] = skips->of[i];
    }
    skips->count = last + 1;
}

// A place for one more name; false without memory.
static int make_room(struct layers *layers)
{
    if (layers->row_count < layers->row_room)
        return 1;
    int room = 2 * layers->row_room + 32;
    void *name = realloc(layers->name, (size_t)room * sizeof *layers->name);
    if (!name)
        return 0;
    layers->name = name;
    layers->row_room = room;
    return 1;
}

int layers_row(struct layers *layers, const char *name)
{
    pthread_mutex_lock(&layers->mutex);
    int row = 0;
    while (row < layers->row_count && strcmp(layers->name[row], name) != 0)
        row += 1;
    if (row == layers->row_count && make_room(layers))
        snprintf(layers->name[layers->row_count++], LAYERS_NAME, "%s", name);
    int is_there = row < layers->row_count;
    pthread_mutex_unlock(&layers->mutex);
    return is_there ? row : -1;
}

void layers_add(struct layers *layers, struct layer_column *column)
{
    pthread_mutex_lock(&layers->mutex);
    struct columns *columns = column->is_skip ? &layers->skips : &layers->looks;
    struct layer_column *last = columns->count ? &columns->of[columns->count - 1] : NULL;
    if (last && last->step == column->step) {
        join(last, column);
    } else {
        if (columns->count == LAYERS_LOOKS && column->is_skip)
            join_skips(columns);
        else if (columns->count == LAYERS_LOOKS)
            join_looks(columns);
        columns->of[columns->count++] = *column;
    }
    pthread_mutex_unlock(&layers->mutex);
}

static void rewind_columns(struct columns *columns, int64_t step)
{
    int kept = columns->count;
    while (kept > 0 && columns->of[kept - 1].step > step)
        kept--;
    drop_from(columns, kept);
}

void layers_rewind(struct layers *layers, int64_t step)
{
    pthread_mutex_lock(&layers->mutex);
    rewind_columns(&layers->looks, step);
    rewind_columns(&layers->skips, step);
    pthread_mutex_unlock(&layers->mutex);
}

/* ---- copies ---------------------------------------------------------------------- */

static size_t cells_of(const struct columns *columns)
{
    size_t count = 0;
    for (int i = 0; i < columns->count; i++)
        count += place(columns->of[i].rows, 0);
    return count;
}

// Returns what follows the cells that were copied.
static struct layer_cell *copy_columns(const struct columns *from,
                                       struct layer_column *to, struct layer_cell *cells)
{
    for (int i = 0; i < from->count; i++) {
        size_t count = place(from->of[i].rows, 0);
        to[i] = from->of[i];
        to[i].cells = cells;
        if (count > 0)
            memcpy(cells, from->of[i].cells, count * sizeof *cells);
        cells += count;
    }
    return cells;
}

static void copy_all(const struct layers *layers, struct layers_view *view)
{
    const struct columns *looks = &layers->looks, *skips = &layers->skips;
    size_t cells = cells_of(looks) + cells_of(skips);
    view->name = malloc(((size_t)layers->row_count + 1) * sizeof *view->name);
    view->columns = malloc(((size_t)looks->count + 1) * sizeof *view->columns);
    view->skips = malloc(((size_t)skips->count + 1) * sizeof *view->skips);
    view->cells = malloc((cells + 1) * sizeof *view->cells);
    if (!view->name || !view->columns || !view->skips || !view->cells) {
        layers_view_release(view);
        return;
    }
    if (layers->row_count > 0)
        memcpy(view->name, layers->name, (size_t)layers->row_count * sizeof *view->name);
    view->row_count = layers->row_count;
    view->column_count = looks->count;
    view->skip_count = skips->count;
    copy_columns(skips, view->skips, copy_columns(looks, view->columns, view->cells));
}

void layers_copy(const struct layers *layers, struct layers_view *view)
{
    struct layers *mutable = (struct layers *)(uintptr_t)layers;
    layers_view_release(view);
    pthread_mutex_lock(&mutable->mutex);
    copy_all(layers, view);
    pthread_mutex_unlock(&mutable->mutex);
}

void layers_view_release(struct layers_view *view)
{
    free(view->name);
    free(view->columns);
    free(view->skips);
    free(view->cells);
    *view = (struct layers_view){.columns = NULL};
}

/* ---- recalling ------------------------------------------------------------------- */

static int tensor_of(const char *word)
{
    static const char *const words[] = {"activation", "activation gradient",
                                        "weight gradient"};
    for (int i = 0; word && i < LAYER_TENSORS; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static float number_of(json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    return json_is_number(number) ? (float)json_number_value(number) : NAN;
}

static void recall_tensor(struct layers *layers, struct layer_column *column,
                          json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "layer"));
    int tensor = tensor_of(json_string_value(json_object_get(object, "tensor")));
    int row = name && tensor >= 0 ? layers_row(layers, name) : -1;
    if (row < 0)
        return;
    float lost = number_of(object, "lost");
    struct layer_cell cell = {.headroom = number_of(object, "headroom"),
                              .small = number_of(object, "subnormal") +
                                       (isnan(lost) ? 0.0f : lost),
                              .has_overflowed = number_of(object, "finite") < 1.0f};
    layer_column_join(column, row, (enum layer_tensor)tensor, &cell);
}

struct recall {
    struct layers *layers;
    struct rollbacks rollbacks;
};

static void recall_line(void *context, json_t *line)
{
    struct recall *recall = context;
    json_t *tensors = json_object_get(line, "layers"), *tensor;
    json_t *step = json_object_get(line, "step"), *kimg = json_object_get(line, "kimg");
    size_t i;
    if (!json_is_array(tensors) || !json_is_integer(step) || !json_is_number(kimg) ||
        rollbacks_gave_up(&recall->rollbacks, line))
        return;
    struct layer_column column;
    layer_column_begin(&column, json_integer_value(step), json_number_value(kimg));
    const char *reason = json_string_value(json_object_get(line, "reason"));
    column.is_skip = reason && strncmp(reason, "skip", 4) == 0;
    json_array_foreach(tensors, i, tensor) recall_tensor(recall->layers, &column, tensor);
    layers_add(recall->layers, &column);
}

void layers_recall(struct layers *layers, const char *looks_path, const char *events_path)
{
    struct recall recall = {.layers = layers};
    rollbacks_read(&recall.rollbacks, events_path);
    json_lines_read(looks_path, recall_line, &recall);
    rollbacks_release(&recall.rollbacks);
}
