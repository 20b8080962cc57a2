/* series.h - a history reduced to one entry per pixel column.
 * Flow:  history points -> [series_create] -> plot.
 * Owns:  its columns. Free of cairo.
 *
 * Drawing costs the same for 500 steps and for 200,000: of the steps that fall into one
 * column only the extremes, the first and last scale, the skips and a smoothed loss
 * remain. */
#ifndef APP_VIEW_SERIES_H
#define APP_VIEW_SERIES_H

#include <stddef.h>

#include "app/view/history.h"

/* What one network did in one column; of D's loss on fakes, its scale alone. */
struct column_of_network {
    float scale_first, scale_last, scale_min, scale_max; // NaN when no scale was usable
    float skip_scale; // smallest scale after a skip; NaN without a skip
    float held_scale; // the same of steps that were held back
    int skips;
    int changes;              // of its settings
    int clips;                // steps whose gradients were clipped
    float norm_min, norm_max; // of its gradients; NaN when none was measured
    double norm_sum;          // of log2, over norm_count steps
    int norm_count;
    int loss_count; // finite losses
    double loss_sum;
    float loss_min, loss_max;         // NaN when loss_count is 0
    double loss_smooth;               // NaN when loss_count is 0
    double smooth_sum, smooth_weight; // of this column and those to its left
};

struct column {
    int count; // steps; 0 when none fell here
    struct column_of_network of[SCALE_COUNT];
};

struct series {
    int column_count;
    struct column *columns;
    size_t point_count;
    double kimg_low, kimg_high; // left and right end
    double scale_low,
        scale_high;             // log2 of the smallest and the largest scale; NaN if none
    double norm_low, norm_high; // log2 of the norms; NaN if none
    double loss_low, loss_high; // what is worth showing of the losses; NaN if none
    double loss_most;           // the largest of all
    int has_loss_band, has_norm_band; // columns in which they differ
};

/* Reduces `points` to `column_count` columns; losses are smoothed with an exponential
 * window of `smooth_columns` to each side. Returns 0 when there is no memory. */
int series_create(struct series *series, const struct history_point *points, size_t count,
                  int column_count, double smooth_columns);
void series_release(struct series *series);

/* The column (0 .. column_count - 1) of a number of images. */
int series_column(const struct series *series, double kimg);
/* The point that is nearest to a number of images; count must be > 0. */
size_t series_nearest(const struct history_point *points, size_t count, double kimg);

#endif
