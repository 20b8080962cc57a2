#include "app/view/layers.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/json_lines.h"
#include "app/record/rollbacks.h"

struct layers {
    pthread_mutex_t mutex;
    int row_count;
    char name[LAYERS_MAX][LAYERS_NAME];
    struct columns {
        int count;
        struct layer_column of[LAYERS_LOOKS];
    } looks, skips;
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
    column->is_skip = 0;
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

// The second goes into the first, which then ends with it.
static void join_second(struct layer_column *first, const struct layer_column *second)
{
    join(first, second);
    first->step = second->step;
}

// Pairs of neighbours become one.
static void join_looks(struct columns *looks)
{
    int half = looks->count / 2;
    for (int i = 0; i < half; i++) {
        looks->of[i] = looks->of[2 * i];
        join_second(&looks->of[i], &looks->of[2 * i + 1]);
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
            join_second(&skips->of[last], &skips->of[i]);
        else
            skips->of[++last] = skips->of[i];
    }
    skips->count = last + 1;
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
    while (columns->count > 0 && columns->of[columns->count - 1].step > step)
        columns->count--;
}

void layers_rewind(struct layers *layers, int64_t step)
{
    pthread_mutex_lock(&layers->mutex);
    rewind_columns(&layers->looks, step);
    rewind_columns(&layers->skips, step);
    pthread_mutex_unlock(&layers->mutex);
}

static int copy_columns(const struct columns *from, struct layer_column **to)
{
    if (!*to)
        *to = malloc(LAYERS_LOOKS * sizeof **to);
    if (!*to)
        return 0;
    memcpy(*to, from->of, (size_t)from->count * sizeof **to);
    return from->count;
}

void layers_copy(const struct layers *layers, struct layers_view *view)
{
    struct layers *mutable = (struct layers *)(uintptr_t)layers;
    pthread_mutex_lock(&mutable->mutex);
    view->row_count = layers->row_count;
    memcpy(view->name, layers->name, sizeof view->name);
    view->column_count = copy_columns(&layers->looks, &view->columns);
    view->skip_count = copy_columns(&layers->skips, &view->skips);
    pthread_mutex_unlock(&mutable->mutex);
}

void layers_view_release(struct layers_view *view)
{
    free(view->columns);
    free(view->skips);
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
