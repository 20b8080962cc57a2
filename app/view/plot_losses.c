/* plot_losses.c - what both networks lose: a band of extremes below a smoothed line. */
#include "app/view/plot.h"

#include <math.h>
#include <stdio.h>

#include "app/view/plot_marks.h"
#include "app/view/plot_parts.h"

/* Smallest to largest loss of each column. A column with steps but no finite loss ends
 * one band; the next begins a new one. */
static void draw_band(const struct canvas *canvas, const struct series *series,
                      const struct axis *axis, struct area inner, int net)
{
    cairo_t *cairo = canvas->cairo;
    int start = 0;
    cairo_new_path(cairo);
    while (start < series->column_count) {
        int end = start, has_any = 0;
        for (; end < series->column_count; end++) {
            const struct column *column = &series->columns[end];
            if (column->count > 0 && column->of[net].loss_count == 0)
                break;
            if (column->count == 0)
                continue;
            cairo_line_to(cairo, column_x(series, inner, end),
                          axis_y(axis, inner, column->of[net].loss_max));
            has_any = 1;
        }
        for (int c = end - 1; c >= start; c--)
            if (series->columns[c].count > 0)
                cairo_line_to(cairo, column_x(series, inner, c),
                              axis_y(axis, inner, series->columns[c].of[net].loss_min));
        if (has_any)
            cairo_close_path(cairo);
        cairo_new_sub_path(cairo);
        start = end + 1;
    }
    canvas_ink(canvas, network_ink[net], 0.22);
    cairo_fill(cairo);
}

static void draw_smooth(const struct canvas *canvas, const struct series *series,
                        const struct axis *axis, struct area inner, int net)
{
    cairo_t *cairo = canvas->cairo;
    plot_select_pen(canvas, net, 2.0);
    for (int c = 0; c < series->column_count; c++) {
        const struct column *column = &series->columns[c];
        if (column->count == 0)
            continue;
        if (column->of[net].loss_count == 0) { // only NaN or inf: a gap
            cairo_new_sub_path(cairo);
            continue;
        }
        cairo_line_to(cairo, column_x(series, inner, c),
                      axis_y(axis, inner, column->of[net].loss_smooth));
    }
    plot_stroke(canvas);
}

static void draw_last_loss(const struct canvas *canvas, const struct series *series,
                           const struct axis *axis, struct area inner, int net)
{
    for (int c = series->column_count - 1; c >= 0; c--) {
        const struct column_of_network *column = &series->columns[c].of[net];
        if (column->loss_count == 0)
            continue;
        plot_dot(canvas, column_x(series, inner, c),
                 axis_y(axis, inner, column->loss_smooth), net);
        return;
    }
}

#define LEGEND_WIDTH 212.0

// Which of the three each is, and what the axis leaves out.
static const char *note_of(const struct series *series, const struct axis *axis,
                           char note[160])
{
    char most[48], beyond[80] = "";
    if (series->loss_most > axis->high)
        snprintf(beyond, sizeof beyond, " (to %s, beyond the axis)",
                 loss_text((float)series->loss_most, most, sizeof most));
    snprintf(note, 160, "number: last step    line, dot: smoothed%s%s",
             series->has_loss_band ? "    band: lowest to highest" : "",
             series->has_loss_band ? beyond : "");
    return note;
}

static void draw_loss_legend(const struct canvas *canvas,
                             const struct dashboard *dashboard, struct area panel)
{
    double x = panel.x + panel.w - PLOT_PADDING - LEGEND_WIDTH;
    for (int net = 0; net < ROLES; net++, x += 112.0) {
        char text[48];
        const double end = plot_key(canvas, x, panel.y + 20.0, net, role_letter(net));
        if (dashboard->point_count == 0)
            continue;
        const float loss = dashboard->points[dashboard->point_count - 1].loss[net];
        struct text_style style = {12.5, 0, INK_TEXT};
        if (!isfinite(loss))
            style = (struct text_style){12.5, 1, INK_BAD};
        canvas_text_fit(canvas, end + 9.0, panel.y + 20.0, 62.0, style,
                        loss_text(loss, text, sizeof(text)));
    }
}

void plot_losses(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg)
{
    const struct area inner = plot_inner(panel, has_kimg);
    const struct axis axis =
        axis_of_values(series->loss_low, series->loss_high, inner.h > 150.0 ? 6 : 4);
    char note[160];
    plot_title(canvas, panel, "Losses", note_of(series, &axis, note),
               panel.w - LEGEND_WIDTH - PLOT_PADDING, panel.w - PLOT_PADDING);
    draw_loss_legend(canvas, dashboard, panel);
    plot_frame(canvas, series, &axis, inner, has_kimg);
    plot_begin_curves(canvas, inner);
    plot_rollbacks(canvas, dashboard, series->kimg_low, series->kimg_high, inner, 0);
    for (int net = 0; net < ROLES; net++)
        draw_band(canvas, series, &axis, inner, net);
    for (int net = 0; net < ROLES; net++)
        draw_smooth(canvas, series, &axis, inner, net);
    cairo_restore(canvas->cairo);
    for (int net = 0; net < ROLES; net++)
        draw_last_loss(canvas, series, &axis, inner, net);
}
