/* series.c - from steps to pixel columns.
 *
 * The range of the losses holds all of them, unless the wildest columns (2 % at each end)
 * make it WIDEST times as wide as it would be without them: one spike at the start must
 * not flatten a day of training. It always holds the smoothed lines, so that a loss that
 * runs away is seen. */
#include "app/view/series.h"

#include <math.h>
#include <stdlib.h>

#define OUTLIERS 0.02
#define WIDEST 2.5

int series_column(const struct series *series, double kimg)
{
    const double part =
        (kimg - series->kimg_low) / (series->kimg_high - series->kimg_low);
    const double column = floor(part * series->column_count);
    if (!(column > 0.0)) // also NaN
        return 0;
    return column < series->column_count ? (int)column : series->column_count - 1;
}

size_t series_nearest(const struct history_point *points, size_t count, double kimg)
{
    size_t low = 0, high = count - 1; // the first point at or beyond kimg lies in between
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (points[middle].kimg < kimg)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && kimg - points[low - 1].kimg < points[low].kimg - kimg)
        low--;
    return low;
}

/* From zero when the run began there, else from the first step that is known. */
static void find_kimg_range(struct series *series, const struct history_point *points,
                            size_t count)
{
    series->kimg_low = 0.0;
    series->kimg_high = 1.0;
    if (count == 0)
        return;
    const double first = points[0].kimg, last = points[count - 1].kimg;
    if (points[0].step > 1 && first > 0.1 * last && last > first)
        series->kimg_low = first;
    if (last > series->kimg_low)
        series->kimg_high = last;
    else
        series->kimg_high = series->kimg_low + 1.0;
}

static void clear_columns(struct series *series)
{
    for (int c = 0; c < series->column_count; c++)
        for (int net = 0; net < SCALE_COUNT; net++)
            series->columns[c].of[net] = (struct column_of_network){
                .scale_first = NAN,
                .scale_last = NAN,
                .scale_min = NAN,
                .scale_max = NAN,
                .skip_scale = NAN,
                .held_scale = NAN,
                .norm_min = NAN,
                .norm_max = NAN,
                .loss_min = NAN,
                .loss_max = NAN,
                .loss_smooth = NAN,
            };
}

static void add_scale(struct column_of_network *column, float scale, int skips)
{
    column->skips += skips;
    if (!(isfinite(scale) && scale > 0.0f)) // no place on a log2 axis
        return;
    if (isnan(column->scale_first))
        column->scale_first = scale;
    column->scale_last = scale;
    column->scale_min = fminf(column->scale_min, scale); // fminf passes NaN over
    column->scale_max = fmaxf(column->scale_max, scale);
    if (skips > 0)
        column->skip_scale = fminf(column->skip_scale, scale);
}

static void add_norm(struct column_of_network *column, float norm)
{
    if (!(isfinite(norm) && norm > 0.0f))
        return;
    column->norm_count++;
    column->norm_sum += log2((double)norm);
    column->norm_min = fminf(column->norm_min, norm);
    column->norm_max = fmaxf(column->norm_max, norm);
}

static void add_loss(struct column_of_network *column, float loss)
{
    if (!isfinite(loss))
        return;
    column->loss_count++;
    column->loss_sum += loss;
    column->loss_min = fminf(column->loss_min, loss);
    column->loss_max = fmaxf(column->loss_max, loss);
}

// What has no part in a scale.
static void add_network(struct column_of_network *column,
                        const struct history_point *point, int net)
{
    add_loss(column, point->loss[net]);
    add_norm(column, point->grad_norm[net]);
    if (point->held[net] > 0 && point->scale[net] > 0.0f)
        column->held_scale = fminf(column->held_scale, point->scale[net]);
    column->clips += point->clipped[net] > 0;
    column->changes += point->changed[net];
}

/* Weights fall by 1/e every `window` columns to both sides, so the line does not lag
 * behind the curve. One pass from each end collects sums and weights. */
static void smooth_losses(struct series *series, int net, double window)
{
    const double decay = exp(-1.0 / window);
    double sum = 0.0, weight = 0.0;
    for (int c = 0; c < series->column_count; c++) {
        struct column_of_network *column = &series->columns[c].of[net];
        sum = sum * decay + column->loss_sum;
        weight = weight * decay + column->loss_count;
        column->smooth_sum = sum;
        column->smooth_weight = weight;
    }
    sum = weight = 0.0; // from here on, of the columns to the right
    for (int c = series->column_count - 1; c >= 0; c--) {
        struct column_of_network *column = &series->columns[c].of[net];
        if (column->loss_count > 0)
            column->loss_smooth =
                (column->smooth_sum + sum) / (column->smooth_weight + weight);
        sum = (sum + column->loss_sum) * decay;
        weight = (weight + column->loss_count) * decay;
    }
}

static void widen(double *low, double *high, double value)
{
    *low = fmin(*low, value); // fmin and fmax pass NaN over
    *high = fmax(*high, value);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void find_ranges(struct series *series, double *lows, double *highs)
{
    size_t n = 0;
    series->scale_low = series->scale_high = NAN;
    series->norm_low = series->norm_high = NAN;
    series->loss_low = series->loss_high = series->loss_most = NAN;
    for (int c = 0; c < series->column_count; c++) {
        for (int net = 0; net < SCALE_COUNT; net++) {
            const struct column_of_network *column = &series->columns[c].of[net];
            series->has_norm_band |= column->norm_max > column->norm_min;
            series->has_loss_band |= column->loss_max > column->loss_min;
            if (column->norm_count > 0) {
                widen(&series->norm_low, &series->norm_high, log2(column->norm_min));
                widen(&series->norm_low, &series->norm_high, log2(column->norm_max));
            }
            if (!isnan(column->scale_min)) {
                widen(&series->scale_low, &series->scale_high, log2(column->scale_min));
                widen(&series->scale_low, &series->scale_high, log2(column->scale_max));
            }
            if (column->loss_count == 0)
                continue;
            widen(&series->loss_low, &series->loss_high, column->loss_smooth);
            lows[n] = column->loss_min;
            highs[n++] = column->loss_max;
        }
    }
    if (n == 0)
        return;
    qsort(lows, n, sizeof(*lows), ascending);
    qsort(highs, n, sizeof(*highs), ascending);
    const size_t cut = (size_t)(OUTLIERS * (double)n);
    widen(&series->loss_low, &series->loss_high, lows[cut]);
    widen(&series->loss_low, &series->loss_high, highs[n - 1 - cut]);
    series->loss_most = highs[n - 1];
    const double range = series->loss_high - series->loss_low;
    if (fmax(highs[n - 1], series->loss_high) - fmin(lows[0], series->loss_low) <=
        WIDEST * range) {
        widen(&series->loss_low, &series->loss_high, lows[0]);
        widen(&series->loss_low, &series->loss_high, highs[n - 1]);
    }
}

int series_create(struct series *series, const struct history_point *points, size_t count,
                  int column_count, double smooth_columns)
{
    const size_t slots = (size_t)(column_count > 0 ? column_count : 1);
    *series = (struct series){.column_count = (int)slots, .point_count = count};
    series->columns = calloc(slots, sizeof(*series->columns));
    double *sorted = calloc(2 * slots * ROLES, sizeof(*sorted));
    if (!series->columns || !sorted) {
        free(sorted);
        series_release(series);
        return 0;
    }
    find_kimg_range(series, points, count);
    clear_columns(series);
    for (size_t i = 0; i < count; i++) {
        struct column *column = &series->columns[series_column(series, points[i].kimg)];
        column->count++;
        for (int scale = 0; scale < SCALE_COUNT; scale++)
            add_scale(&column->of[scale], points[i].scale[scale],
                      points[i].skipped[scale]);
        for (int net = 0; net < ROLES; net++)
            add_network(&column->of[net], &points[i], net);
    }
    for (int net = 0; net < ROLES; net++)
        smooth_losses(series, net, smooth_columns);
    find_ranges(series, sorted, sorted + slots * ROLES);
    free(sorted);
    return 1;
}

void series_release(struct series *series)
{
    free(series->columns);
    series->columns = NULL;
}
