/* dashboard.c - lays the picture out: header, samples, plots, footer.
 *
 * Everything is placed in design units. A picture of 1280x720 pixels is 1280x720 units; a
 * larger one is scaled up; in a smaller one the units shrink only with the square root,
 * and the layout gets fewer of them: text stays legible, plots give way. */
#include "app/output/dashboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/output/dashboard_parts.h"
#include "app/output/picture.h"
#include "app/output/plot.h"

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
    struct area scales, norms, losses; // within `plots`
};

#define NORMS_LEAST 380.0 // units of height from which on a third plot has room

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

/* Samples beside the plots; above them where the picture is taller than wide. */
static struct layout place(const struct canvas *canvas, int has_norms)
{
    struct layout layout;
    const double bottom = canvas->height - FOOTER;
    const struct area body = {MARGIN, HEADER, canvas->width - 2.0 * MARGIN,
                              fmax(40.0, bottom - HEADER)};
    struct area plots = body;
    if (canvas->height > 1.1 * canvas->width) {
        const double side = fmin(body.w, body.h * 0.5);
        layout.samples = (struct area){body.x, body.y, body.w, side};
        plots.y += side + CAPTION + GAP / 2.0;
        plots.h -= side + CAPTION + GAP / 2.0;
    } else {
        const double side = fmin(body.h - CAPTION, body.w * 0.46);
        layout.samples = (struct area){body.x, body.y, side, fmax(20.0, side)};
        plots.x += side + GAP;
        plots.w -= side + GAP;
    }
    layout.plots = plots;
    place_plots(&layout, has_norms);
    return layout;
}

static void draw_plots(const struct canvas *canvas, const struct dashboard *dashboard,
                       const struct layout *layout)
{
    struct area inner[3] = {plot_inner_of_scales(dashboard, layout->scales, 0)};
    int count = 1;
    struct series series;
    if (!series_create(&series, dashboard->points, dashboard->point_count,
                       plot_columns(canvas, inner[0].w), SMOOTH_UNITS * canvas->scale))
        return; // no memory for the curves: the rest of the picture still tells
    plot_scales(canvas, dashboard, &series, layout->scales, 0);
    if (layout->has_norms) {
        plot_norms(canvas, dashboard, &series, layout->norms, 0);
        inner[count++] = plot_inner(layout->norms, 0);
    }
    plot_losses(canvas, dashboard, &series, layout->losses, 1);
    inner[count++] = plot_inner(layout->losses, 1);
    plot_hover(canvas, dashboard, &series, inner, count);
    series_release(&series);
}

static void draw_all(const struct canvas *canvas, const struct dashboard *dashboard)
{
    const struct layout layout = place(canvas, plot_has_norms(dashboard));
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
    uint32_t *pixels = malloc(sizeof *pixels * (size_t)width * (size_t)height);
    if (!pixels)
        return status_fail(STATUS_FAILED, "%s: no memory for the picture", path);
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
