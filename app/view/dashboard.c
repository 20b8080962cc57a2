/* dashboard.c - lays the picture out: header, samples, plots, footer.
 *
 * Everything is placed in design units. A picture of 1280x720 pixels is 1280x720 units; a
 * larger one is scaled up; in a smaller one the units shrink only with the square root,
 * and the layout gets fewer of them: text stays legible, plots give way. */
#include "app/view/dashboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/view/dashboard_parts.h"
#include "app/view/picture.h"
#include "app/view/plot.h"

#define GAP 16.0
#define SMOOTH_UNITS 7.0
#define SCALES_WIDTH 1000
#define SCALES_HEIGHT 420
#define LAYERS_WIDTH 1280
#define LAYERS_HEIGHT 800

static double scale_of(int width, int height)
{
    const double fit =
        fmin((double)width / DASHBOARD_WIDTH, (double)height / DASHBOARD_HEIGHT);
    return fit >= 1.0 ? fit : sqrt(fit);
}

/* ---- Layout ---------------------------------------------------------------------- */

struct layout {
    struct area samples, plots;
    int has_norms;
    int is_abreast;                    // the plots stand side by side
    struct area scales, norms, losses; // within `plots`
};

// Units from which on there is room for it.
#define NORMS_LEAST 460.0   // of height, for a third plot
#define ABREAST_LEAST 330.0 // of width, for a plot beside others
#define SAMPLES_LEAST 170.0 // of width, for the caption below samples
#define STRIP_SHAPE 1.9     // width by height of a grid that stands above the plots

static void place_plots(struct layout *layout, int has_norms)
{
    const struct area plots = layout->plots;
    const double gap = GAP * 0.75;
    layout->has_norms = has_norms && plots.h >= NORMS_LEAST;
    const double room = plots.h - gap * (layout->has_norms ? 2 : 1);
    const double scales_h = room * (layout->has_norms ? 0.4 : 0.53);
    const double norms_h = layout->has_norms ? room * 0.3 : 0.0;
    double y = plots.y;
    layout->scales = (struct area){plots.x, y, plots.w, scales_h};
    y += scales_h + gap;
    layout->norms = (struct area){plots.x, y, plots.w, norms_h};
    y += layout->has_norms ? norms_h + gap : 0.0;
    layout->losses = (struct area){plots.x, y, plots.w, room - scales_h - norms_h};
}

// Below a wide grid there is little height but all the width.
static void place_plots_abreast(struct layout *layout, int has_norms)
{
    const struct area plots = layout->plots;
    const double gap = GAP * 0.75;
    layout->is_abreast = 1;
    layout->has_norms = has_norms && plots.w >= 3.0 * ABREAST_LEAST;
    const int count = layout->has_norms ? 3 : 2;
    const double w = (plots.w - gap * (count - 1)) / count;
    layout->scales = (struct area){plots.x, plots.y, w, plots.h};
    layout->norms = (struct area){plots.x + w + gap, plots.y, w, plots.h};
    layout->losses =
        (struct area){plots.x + (count - 1) * (w + gap), plots.y, w, plots.h};
}

// Width by height of the whole grid.
static double grid_shape(const struct dashboard *dashboard)
{
    const double w = (double)dashboard->grid_columns * dashboard->tile_w;
    const double h = (double)dashboard->grid_rows * dashboard->tile_h;
    return w > 0.0 && h > 0.0 ? w / h : 1.0;
}

/* Samples beside the plots, above them where the picture is taller than wide; a grid that
 * is much wider than high takes the whole width above plots that stand abreast, a narrow
 * one leaves its room to the plots. */
static struct layout place(const struct canvas *canvas, const struct dashboard *dashboard)
{
    struct layout layout = {.is_abreast = 0};
    const double shape = grid_shape(dashboard);
    const double bottom = canvas->height - FOOTER;
    const struct area body = {MARGIN, HEADER, canvas->width - 2.0 * MARGIN,
                              fmax(40.0, bottom - HEADER)};
    const int is_tall = canvas->height > 1.1 * canvas->width;
    const int is_strip = !is_tall && shape > STRIP_SHAPE;
    struct area plots = body;
    if (is_tall || is_strip) {
        const double most = body.h * (is_tall ? 0.5 : 0.42);
        const double side = fmin(body.w / fmax(1.0, shape), most);
        layout.samples = (struct area){body.x, body.y, body.w, side};
        plots.y += side + CAPTION + GAP / 2.0;
        plots.h -= side + CAPTION + GAP / 2.0;
    } else {
        const double h = fmax(20.0, fmin(body.h - CAPTION, body.w * 0.46));
        const double w = fmin(h, fmax(h * shape, SAMPLES_LEAST));
        layout.samples = (struct area){body.x, body.y, w, h};
        plots.x += w + GAP;
        plots.w -= w + GAP;
    }
    layout.plots = plots;
    if (is_strip)
        place_plots_abreast(&layout, plot_has_norms(dashboard));
    else
        place_plots(&layout, plot_has_norms(dashboard));
    return layout;
}

static void draw_plots(const struct canvas *canvas, const struct dashboard *dashboard,
                       const struct layout *layout)
{
    const int abreast = layout->is_abreast; // each then has its own numbers below
    struct area inner[3] = {plot_inner_of_scales(dashboard, layout->scales, abreast)};
    int count = 1;
    struct series series;
    if (!series_create(&series, dashboard->points, dashboard->point_count,
                       plot_columns(canvas, inner[0].w), SMOOTH_UNITS * canvas->scale))
        return; // no memory for the curves: the rest of the picture still tells
    plot_scales(canvas, dashboard, &series, layout->scales, abreast);
    if (layout->has_norms) {
        plot_norms(canvas, dashboard, &series, layout->norms, abreast);
        inner[count++] = plot_inner(layout->norms, abreast);
    }
    plot_losses(canvas, dashboard, &series, layout->losses, 1);
    inner[count++] = plot_inner(layout->losses, 1);
    plot_hover(canvas, dashboard, &series, inner, count);
    series_release(&series);
}

static void draw_all(const struct canvas *canvas, const struct dashboard *dashboard)
{
    const struct layout layout = place(canvas, dashboard);
    draw_header(canvas, dashboard);
    draw_samples(canvas, dashboard, layout.samples);
    draw_footer(canvas, dashboard);
    if (dashboard->shows_layers)
        plot_layers(canvas, dashboard, layout.plots);
    else
        draw_plots(canvas, dashboard, &layout);
}

void dashboard_draw(const struct dashboard *dashboard, uint32_t *pixels, int width,
                    int height, int stride)
{
    if (width < 1 || height < 1)
        return;
    struct canvas canvas;
    picture_open(&canvas, pixels, width, height, stride, scale_of(width, height));
    draw_all(&canvas, dashboard);
    picture_close(&canvas);
}

/* ---- Files ----------------------------------------------------------------------- */

// Title and run folder at the top; returns the area below.
static struct area draw_caption(const struct canvas *canvas,
                                const struct dashboard *dashboard)
{
    const struct text_style title_style = {15.0, 1, INK_TEXT};
    const struct text_style note_style = {12.0, 0, INK_FAINT};
    const double width = canvas->width - 2.0 * MARGIN;
    const double used =
        canvas_text_fit(canvas, MARGIN, 29.0, width * 0.6, title_style, dashboard->title);
    canvas_path_fit(canvas, MARGIN + used + 14.0, 29.0, width - used - 14.0, note_style,
                    dashboard->run);
    return (struct area){MARGIN, 42.0, width, canvas->height - 42.0 - 14.0};
}

static void draw_scales_only(const struct canvas *canvas,
                             const struct dashboard *dashboard)
{
    const struct area panel = draw_caption(canvas, dashboard);
    struct series series;
    if (!series_create(&series, dashboard->points, dashboard->point_count,
                       plot_columns(canvas, plot_inner_of_scales(dashboard, panel, 1).w),
                       SMOOTH_UNITS))
        return;
    plot_scales(canvas, dashboard, &series, panel, 1);
    series_release(&series);
}

static void draw_layers_only(const struct canvas *canvas,
                             const struct dashboard *dashboard)
{
    plot_layers(canvas, dashboard, draw_caption(canvas, dashboard));
}

static enum status write_picture(const struct dashboard *dashboard, const char *path,
                                 int width, int height,
                                 void (*draw)(const struct canvas *canvas,
                                              const struct dashboard *dashboard))
{
    uint32_t *pixels;
    TRY(picture_pixels(path, width, height, &pixels));
    struct canvas canvas;
    picture_open(&canvas, pixels, width, height, width * 4, 1.0);
    draw(&canvas, dashboard);
    picture_close(&canvas);
    const enum status status = picture_write(path, pixels, width, height);
    free(pixels);
    return status;
}

enum status dashboard_write_png(const struct dashboard *dashboard, const char *path)
{
    return write_picture(dashboard, path, DASHBOARD_WIDTH, DASHBOARD_HEIGHT, draw_all);
}

enum status dashboard_write_scales(const struct dashboard *dashboard, const char *path)
{
    return write_picture(dashboard, path, SCALES_WIDTH, SCALES_HEIGHT, draw_scales_only);
}

enum status dashboard_write_layers(const struct dashboard *dashboard, const char *path)
{
    return write_picture(dashboard, path, LAYERS_WIDTH, LAYERS_HEIGHT, draw_layers_only);
}
