#include "app/view/bench_picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/view/picture.h"
#include "app/view/plot.h"
#include "app/view/tiles.h"

#define COLUMNS 3
#define PANEL_W 480.0
#define PANEL_H 250.0
#define HEAD 34.0    // a panel's title and note
#define SAMPLES 62.0 // the row of tiles below it
#define GAP 20.0
#define CAPTION 44.0
#define TILE_GAP 3
#define FRAME 2.0 // around a run that diverged

static struct area cell(int index)
{
    double w = PANEL_W + GAP, h = HEAD + PANEL_H + SAMPLES + GAP;
    return (struct area){GAP + (index % COLUMNS) * w, CAPTION + (index / COLUMNS) * h,
                         PANEL_W, PANEL_H + HEAD + SAMPLES};
}

/* The run's columns over the whole length: a point without a scale closes a run that
 * ended early. */
static int open_series(struct series *series, const struct dashboard *run, int columns)
{
    size_t count = run->point_count;
    struct history_point *points = calloc(count + 1, sizeof *points);
    if (!points)
        return 0;
    if (count > 0)
        memcpy(points, run->points, count * sizeof *points);
    points[count] = (struct history_point){.step = count ? points[count - 1].step : 1,
                                           .kimg = run->kimg_total,
                                           .scale = {NAN, NAN, NAN},
                                           .loss = {NAN, NAN}};
    size_t given = count && points[count - 1].kimg >= run->kimg_total ? count : count + 1;
    int is_open = series_create(series, points, given, columns, 1.0);
    free(points);
    return is_open;
}

struct range {
    double low, high;
};

// One range of scales for all panels, or they could not be compared by eye.
static struct range common_range(const struct dashboard *runs, int count)
{
    struct range range = {NAN, NAN};
    for (int i = 0; i < count; i++) {
        for (size_t p = 0; p < runs[i].point_count; p++) {
            for (int net = 0; net < SCALE_COUNT; net++) {
                float scale = runs[i].points[p].scale[net];
                if (!(isfinite(scale) && scale > 0.0f))
                    continue;
                range.low = fmin(range.low, log2((double)scale)); // passes NaN over
                range.high = fmax(range.high, log2((double)scale));
            }
        }
    }
    return range;
}

static int has_scale(const struct series *series)
{
    for (int c = 0; c < series->column_count; c++)
        for (int net = 0; net < SCALE_COUNT; net++)
            if (!isnan(series->columns[c].of[net].scale_last))
                return 1;
    return 0;
}

static void draw_run(const struct canvas *canvas, const struct dashboard *run,
                     struct area area, struct range range)
{
    const struct text_style title_style = {15.0, 1, INK_TEXT};
    const int has_diverged = strcmp(run->state, "diverged") == 0;
    const struct text_style note_style = {12.0, has_diverged,
                                          has_diverged ? INK_BAD : INK_MUTED};
    struct area panel = {area.x, area.y + HEAD, area.w, PANEL_H};
    struct series series;
    double used = canvas_text_fit(canvas, area.x, area.y + 22.0, area.w * 0.5,
                                  title_style, run->title);
    canvas_text_fit(canvas, area.x + used + 12.0, area.y + 22.0, area.w - used - 12.0,
                    note_style, run->run);
    if (has_diverged)
        canvas_fill_round(canvas,
                          (struct area){panel.x - FRAME, panel.y - FRAME,
                                        panel.w + 2.0 * FRAME, panel.h + 2.0 * FRAME},
                          7.0 + FRAME, INK_BAD, 1.0);
    if (!open_series(&series, run, plot_columns(canvas, plot_inner(panel, 1).w)))
        return;
    series.scale_low = range.low;
    series.scale_high = range.high;
    plot_scales(canvas, run, &series, panel, 1);
    struct area inner = plot_inner(panel, 1);
    if (!has_scale(&series))
        canvas_text(canvas, inner.x + inner.w / 2.0, inner.y + inner.h / 2.0 + 5.0,
                    ALIGN_CENTER, note_style, "no loss scale");
    series_release(&series);
}

static void paint_samples(const struct dashboard *run, struct area area, uint32_t *pixels,
                          int width, int height)
{
    if (!run->tiles)
        return;
    struct tiles_layout layout =
        tiles_fit(run, (int)area.w, (int)(SAMPLES - 8.0), TILE_GAP);
    tiles_paint(run, &layout, pixels, width, height, 4 * width, (int)area.x,
                (int)(area.y + HEAD + PANEL_H + 8.0));
}

static void draw_all(uint32_t *pixels, int width, int height, const char *title,
                     const struct dashboard *runs, int count)
{
    const struct text_style title_style = {17.0, 1, INK_TEXT};
    struct canvas canvas;
    picture_open(&canvas, pixels, width, height, 4 * width, 1.0);
    canvas_text_fit(&canvas, GAP, 31.0, canvas.width - 2.0 * GAP, title_style, title);
    struct range range = common_range(runs, count);
    for (int i = 0; i < count; i++)
        draw_run(&canvas, &runs[i], cell(i), range);
    picture_close(&canvas);
    for (int i = 0; i < count; i++)
        paint_samples(&runs[i], cell(i), pixels, width, height);
}

enum status bench_picture_write(const char *title, const struct dashboard *runs,
                                int count, const char *path)
{
    CHECK(count > 0, "count %d", count);
    int columns = count < COLUMNS ? count : COLUMNS;
    struct area last = cell(count - 1);
    int width = (int)(cell(columns - 1).x + PANEL_W + GAP);
    int height = (int)(last.y + last.h + GAP);
    uint32_t *pixels;
    TRY(picture_pixels(path, width, height, &pixels));
    draw_all(pixels, width, height, title, runs, count);
    enum status status = picture_write(path, pixels, width, height);
    free(pixels);
    return status;
}
