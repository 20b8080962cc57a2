/* plot_hover.c - the read-out at the step under the pointer. */
#include "app/output/plot.h"

#include <math.h>
#include <stdio.h>

#include "app/output/plot_parts.h"
#include "app/output/progress.h"

/* Where the columns of the box end; the marks begin there. */
#define SCALE_END 82.0
#define LOSS_END 150.0
#define NORM_END 218.0

static double marks_x(const struct dashboard *dashboard)
{
    return (plot_has_norms(dashboard) ? NORM_END : LOSS_END) + 22.0;
}

// "skipped", "skipped 3x", or "held back"; a step can be both, and then skipped says more.
static void draw_hover_mark(const struct canvas *canvas,
                            const struct history_point *point, double x, double y,
                            int net)
{
    char text[64];
    const struct text_style style = {12.0, 0, INK_TEXT};
    if (point->skipped[net] == 0) {
        if (net >= NETWORK_COUNT || point->held[net] == 0)
            return;
        plot_ring(canvas, x, y - 4.5, net);
        canvas_text(canvas, x + 9.0, y, ALIGN_LEFT, style, "held back");
        return;
    }
    cairo_new_path(canvas->cairo);
    plot_triangle(canvas, x, y - 1.5, net);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_fill(canvas->cairo);
    if (point->skipped[net] > 1)
        snprintf(text, sizeof(text), "skipped %d\xc3\x97", point->skipped[net]);
    else
        snprintf(text, sizeof(text), "skipped");
    canvas_text(canvas, x + 9.0, y, ALIGN_LEFT, style, text);
}

static void draw_hover_row(const struct canvas *canvas, const struct dashboard *dashboard,
                           const struct history_point *point, struct area box, double y,
                           int net)
{
    char text[64];
    const struct text_style name_style = {12.0, 1, network_ink[net]};
    const struct text_style style = {12.0, 0, INK_TEXT};
    canvas_text(canvas, box.x + 12.0, y, ALIGN_LEFT, name_style,
                plot_scale_name(dashboard, net));
    canvas_power(canvas, box.x + SCALE_END, y, ALIGN_RIGHT, style,
                 scale_text(point->scale[net], text, sizeof(text)));
    if (net < NETWORK_COUNT) {
        canvas_text(canvas, box.x + LOSS_END, y, ALIGN_RIGHT, style,
                    loss_text(point->loss[net], text, sizeof(text)));
        if (point->grad_norm[net] > 0.0f && plot_has_norms(dashboard))
            canvas_text(canvas, box.x + NORM_END, y, ALIGN_RIGHT, style,
                        loss_text(point->grad_norm[net], text, sizeof(text)));
    }
    draw_hover_mark(canvas, point, box.x + marks_x(dashboard), y, net);
}

static void draw_hover_box(const struct canvas *canvas, const struct dashboard *dashboard,
                           const struct history_point *point, struct area inner, double x)
{
    const int rows = plot_scale_count(dashboard);
    int has_marks = point->held[NETWORK_G] > 0 || point->held[NETWORK_D] > 0;
    for (int scale = 0; scale < rows; scale++)
        has_marks |= point->skipped[scale] > 0;
    const struct text_style head = {12.0, 1, INK_TEXT}, label = {10.5, 0, INK_FAINT};
    char step[40], kimg[40], text[128];
    struct area box = {x + 12.0, inner.y + 10.0,
                       marks_x(dashboard) + (has_marks ? 84.0 : 18.0),
                       50.0 + 18.0 * rows};
    if (box.x + box.w > inner.x + inner.w)
        box.x = x - 12.0 - box.w;
    box.x = fmax(box.x, inner.x);
    grouped_number((double)point->step, 0, step, sizeof(step));
    kimg_text(point->kimg, kimg, sizeof(kimg));
    snprintf(text, sizeof(text), "step %s", step);
    canvas_fill_round(canvas, box, 6.0, INK_RAISED, 0.96);
    const double used =
        canvas_text_fit(canvas, box.x + 12.0, box.y + 20.0, box.w - 24.0, head, text);
    snprintf(text, sizeof(text), "%s kimg", kimg);
    canvas_text_fit(canvas, box.x + 22.0 + used, box.y + 20.0, box.w - used - 32.0, label,
                    text);
    const double labels = box.y + 38.0;
    canvas_text(canvas, box.x + SCALE_END, labels, ALIGN_RIGHT, label, "scale");
    canvas_text(canvas, box.x + LOSS_END, labels, ALIGN_RIGHT, label, "loss");
    if (plot_has_norms(dashboard))
        canvas_text(canvas, box.x + NORM_END, labels, ALIGN_RIGHT, label, "norm");
    for (int net = 0; net < rows; net++)
        draw_hover_row(canvas, dashboard, point, box, box.y + 56.0 + net * 18.0, net);
}

void plot_hover(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, const struct area *plots, int count)
{
    const struct area *top = &plots[0], *bottom = &plots[count - 1];
    const double x = dashboard->hover_x / canvas->scale;
    const double y = dashboard->hover_y / canvas->scale;
    const int is_inside = dashboard->hover_x >= 0 && x >= top->x && x < top->x + top->w &&
                          y >= top->y && y < bottom->y + bottom->h;
    if (!is_inside || dashboard->point_count == 0)
        return;
    const struct axis axis = axis_exact(series->kimg_low, series->kimg_high, 7);
    const double kimg = series->kimg_low + (x - top->x) / top->w * (axis.high - axis.low);
    const struct history_point *point =
        &dashboard
             ->points[series_nearest(dashboard->points, dashboard->point_count, kimg)];
    const double line = axis_x(&axis, *top, point->kimg);
    const struct area *under = top;
    for (int i = 0; i < count; i++) {
        canvas_hairline(canvas, line, plots[i].y, line, plots[i].y + plots[i].h, INK_TEXT,
                        0.55);
        under = y >= plots[i].y ? &plots[i] : under;
    }
    draw_hover_box(canvas, dashboard, point, *under, line);
}
