#include "app/output/layers.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/output/json_lines.h"
#include "app/output/rollbacks.h"

struct layers {
    pthread_mutex_t mutex;
    int row_count, column_count;
    char name[LAYERS_MAX][LAYERS_NAME];
    struct layer_column columns[LAYERS_LOOKS];
};

struct layers *layers_create(void)
{
    struct layers *layers = calloc(1, sizeof *layers);
    if (layers)
        pthread_mutex_init(&layers->mutex, NULL);
    return layers;
}

void layers_destroy(struct layers *layers)
{
    if (!layers)
        return;
    pthread_mutex_destroy(&layers->mutex);
    free(layers);
}

/* ---- columns --------------------------------------------------------------------- */

void layer_column_clear(struct layer_column *column, int64_t step, double kimg)
{
    column->step = step;
    column->kimg = kimg;
    for (int tensor = 0; tensor < LAYER_TENSORS; tensor++)
        for (int row = 0; row < LAYERS_MAX; row++)
            column->cell[tensor][row] = (struct layer_cell){NAN, NAN, 0};
}

void layer_cell_join(struct layer_cell *to, const struct layer_cell *from)
{
    to->headroom = fminf(to->headroom, from->headroom); // a NaN gives way
    to->small = fmaxf(to->small, from->small);
    to->has_overflowed |= from->has_overflowed;
}

static void join(struct layer_column *to, const struct layer_column *from)
{
    for (int tensor = 0; tensor < LAYER_TENSORS; tensor++)
        for (int row = 0; row < LAYERS_MAX; row++)
            layer_cell_join(&to->cell[tensor][row], &from->cell[tensor][row]);
}

// Pairs of neighbours become one; the second's step and kimg stay.
static void join_neighbours(struct layers *layers)
{
    int half = layers->column_count / 2;
    for (int i = 0; i < half; i++) {
        struct layer_column *first = &layers->columns[2 * i];
        struct layer_column *second = &layers->columns[2 * i + 1];
        join(second, first);
        layers->columns[i] = *second;
    }
    layers->column_count = half;
}

int layers_row(struct layers *layers, const char *name)
{
    pthread_mutex_lock(&layers->mutex);
    int row = 0;
    while (row < layers->row_count && strcmp(layers->name[row], name) != 0)
        row += 1;
    if (row == layers->row_count && row < LAYERS_MAX)
        snprintf(layers->name[layers->row_count++], LAYERS_NAME, "%s", name);
    pthread_mutex_unlock(&layers->mutex);
    return row < LAYERS_MAX ? row : -1;
}

void layers_add(struct layers *layers, const struct layer_column *column)
{
    pthread_mutex_lock(&layers->mutex);
    struct layer_column *last =
        layers->column_count ? &layers->columns[layers->column_count - 1] : NULL;
    if (last && last->step == column->step) {
        join(last, column);
    } else {
        if (layers->column_count == LAYERS_LOOKS)
            join_neighbours(layers);
        layers->columns[layers->column_count++] = *column;
    }
    pthread_mutex_unlock(&layers->mutex);
}

void layers_rewind(struct layers *layers, int64_t step)
{
    pthread_mutex_lock(&layers->mutex);
    while (layers->column_count > 0 &&
           layers->columns[layers->column_count - 1].step > step)
        layers->column_count--;
    pthread_mutex_unlock(&layers->mutex);
}

void layers_copy(const struct layers *layers, struct layers_view *view)
{
    struct layers *mutable = (struct layers *)(uintptr_t)layers;
    if (!view->columns)
        view->columns = malloc(LAYERS_LOOKS * sizeof *view->columns);
    pthread_mutex_lock(&mutable->mutex);
    view->row_count = layers->row_count;
    memcpy(view->name, layers->name, sizeof view->name);
    view->column_count = view->columns ? layers->column_count : 0;
    if (view->column_count)
        memcpy(view->columns, layers->columns,
               (size_t)view->column_count * sizeof *view->columns);
    pthread_mutex_unlock(&mutable->mutex);
}

void layers_view_release(struct layers_view *view)
{
    free(view->columns);
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
    layer_cell_join(&column->cell[tensor][row], &cell);
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
    layer_column_clear(&column, json_integer_value(step), json_number_value(kimg));
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
