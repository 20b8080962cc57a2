/* layers.h - what the tensors of each layer held, look after look: the columns of a heat
 * map.
 * Flow:  report_layers -> [layers] -> plot_layers (window, stats.png);
 *        layers.jsonl -> [layers_recall] after a resume.
 * Owns:  its columns; safe between one writer and many readers (a mutex inside).
 *
 * Steps of --grad-stats and skipped steps are kept apart: a look of the grid stands for
 * the steps until the next one, a skip only for itself. Beyond LAYERS_LOOKS of either
 * neighbours are joined, the worse value of each kept, so that a run of days still fits
 * the picture; of skips those that are close together. */
#ifndef APP_VIEW_LAYERS_H
#define APP_VIEW_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#define LAYERS_LOOKS 192
#define LAYERS_NAME 40

enum layer_tensor {
    LAYER_ACTIVATIONS,
    LAYER_ACTIVATION_GRADIENTS,
    LAYER_WEIGHT_GRADIENTS,
    LAYER_TENSORS
};

/* One tensor at one look. */
struct layer_cell {
    float
        headroom; // log2(65504 / largest magnitude); 0 and less: beyond; NaN: not seen
    float small; // share of values lost to zero or subnormal, 0..1; NaN: not seen
    uint8_t has_overflowed; // it held inf or NaN
};

struct layer_column {
    int64_t step; // the last that was joined
    double kimg;  // of the first
    int is_skip;  // else a look of --grad-stats
    int rows;
    struct layer_cell *cells; // [rows][LAYER_TENSORS]; those of later rows are not seen
};

/* A copy to draw from. */
struct layers_view {
    int row_count;
    char (*name)[LAYERS_NAME]; // "g.conv1"; G's layers, then D's
    int column_count;          // looks of --grad-stats
    int skip_count;
    struct layer_column *columns, *skips;
    struct layer_cell *cells; // of all columns
};

struct layers;

/* NULL when there is no memory. */
struct layers *layers_create(void);
void layers_destroy(struct layers *layers);

/* A column in which nothing is seen yet; layers_add() takes over what it grows to. */
void layer_column_begin(struct layer_column *column, int64_t step, double kimg);
/* The cell of a row, now the worse of what is there and `seen`. Without memory for a new
 * row nothing changes. */
void layer_column_join(struct layer_column *column, int row, enum layer_tensor tensor,
                       const struct layer_cell *seen);
struct layer_cell layer_column_cell(const struct layer_column *column, int row,
                                    enum layer_tensor tensor);

/* The row of that name, added at the end when it is new; -1 without memory. */
int layers_row(struct layers *layers, const char *name);
/* A column of the same step and kind as the last one is joined with it. */
void layers_add(struct layers *layers, struct layer_column *column);

/* Copies all; without memory for it, the view is empty. layers_view_release()
 * afterwards. */
void layers_copy(const struct layers *layers, struct layers_view *view);
void layers_view_release(struct layers_view *view);

/* Forgets all looks after `step`. */
void layers_rewind(struct layers *layers, int64_t step);

/* Of a resumed run: the looks in layers.jsonl that no rollback in events.jsonl gave
 * up. */
void layers_recall(struct layers *layers, const char *looks_path,
                   const char *events_path);

#endif
