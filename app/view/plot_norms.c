/* plot_norms.c - how large gradients are before they are clipped, and where they were. */
#include "app/view/plot.h"

#include <math.h>
#include <stdio.h>

#include "app/view/plot_parts.h"

#define MARK 4.0 // height of a mark at the foot
#define TITLE_LEAST 120.0

static int is_clipped(const struct dashboard *dashboard, int net)
{
    return dashboard->clip_norm[net] > 0.0f;
}

int plot_has_norms(const struct dashboard *dashboard)
{
    return is_clipped(dashboard, ROLE_G) || is_clipped(dashboard, ROLE_D);
}

// Both curves, the limits where they are in use, and room for the marks below them.
static struct axis axis_of_norms(const struct dashboard *dashboard,
                                 const struct series *series, struct area inner)
{
    double low = series->norm_low, high = series->norm_high;
    for (int net = 0; net < ROLES; net++) {
        if (!is_clipped(dashboard, net))
            continue;
        const double limit = log2((double)dashboard->clip_norm[net]);
        // A limit far above all norms is left out, for it would flatten them.
        if (isnan(high) || limit < high + 6.0) {
            low = fmin(low, limit);
            high = fmax(high, limit);
        }
    }
    struct axis axis = axis_of_scales(low, high, 0.0);
    const double foot = fmin(0.5, ((double)ROLES * MARK + 2.0) / inner.h);
    axis.low -= foot / (1.0 - foot) * (axis.high - axis.low);
    return axis;
}

// Smallest to largest norm of each column, and a line through their means.
static void draw_norms(const struct canvas *canvas, const struct series *series,
                       const struct axis *axis, struct area inner, int net)
{
    cairo_t *cairo = canvas->cairo;
    cairo_new_path(cairo);
    for (int c = 0; c < series->column_count; c++) {
        const struct column_of_network *column = &series->columns[c].of[net];
        if (column->norm_count == 0)
            continue;
        cairo_move_to(cairo, column_x(series, inner, c),
                      axis_y(axis, inner, log2(column->norm_min)));
        cairo_line_to(cairo, column_x(series, inner, c),
                      axis_y(axis, inner, log2(column->norm_max)));
    }
    canvas_ink(canvas, network_ink[net], 0.3);
    cairo_set_line_width(cairo, fmax(1.0, inner.w / series->column_count));
    cairo_stroke(cairo);
    plot_select_pen(canvas, net, 1.6);
    for (int c = 0; c < series->column_count; c++) {
        const struct column_of_network *column = &series->columns[c].of[net];
        if (column->norm_count > 0)
            cairo_line_to(cairo, column_x(series, inner, c),
                          axis_y(axis, inner, column->norm_sum / column->norm_count));
    }
    plot_stroke(canvas);
}

static void draw_limit(const struct canvas *canvas, const struct axis *axis,
                       struct area inner, double limit, int net)
{
    const double y = axis_y(axis, inner, log2(limit));
    canvas_hairline(canvas, inner.x, y, inner.x + inner.w, y, network_ink[net], 0.8);
}

// D's marks stand on G's.
static void draw_clips(const struct canvas *canvas, const struct series *series,
                       struct area inner, int net)
{
    const double y = inner.y + inner.h - MARK * (net == ROLE_D ? 2 : 1);
    const double width = fmax(1.5, inner.w / series->column_count);
    for (int c = 0; c < series->column_count; c++)
        if (series->columns[c].of[net].clips > 0)
            canvas_fill_round(
                canvas,
                (struct area){column_x(series, inner, c) - width / 2.0, y, width, MARK},
                0.0, network_ink[net], 1.0);
}

// As wide as it is drawn, or what the title leaves of the panel.
static double legend_x(struct area panel)
{
    return fmax(panel.x + panel.w - PLOT_PADDING - 212.0,
                panel.x + PLOT_PADDING + TITLE_LEAST);
}

static void draw_norm_legend(const struct canvas *canvas,
                             const struct dashboard *dashboard, struct area panel)
{
    const struct text_style style = {12.5, 0, INK_TEXT}, note = {12.0, 0, INK_MUTED};
    const double end = panel.x + panel.w - PLOT_PADDING;
    const double x = legend_x(panel);
    int row = 0;
    for (int net = 0; net < ROLES; net++) {
        if (!is_clipped(dashboard, net))
            continue;
        char text[64];
        const double y = panel.y + 20.0 + row++ * 18.0;
        float norm = 0.0f;
        for (size_t i = dashboard->point_count; i-- > 0 && !(norm > 0.0f);)
            norm = dashboard->points[i].grad_norm[net];
        plot_key(canvas, x, y, net, role_letter(net));
        if (norm > 0.0f)
            canvas_text_fit(canvas, x + 50.0, y, fmin(62.0, end - x - 50.0), style,
                            loss_text(norm, text, sizeof(text)));
        if (x + 126.0 > end)
            continue;
        canvas_fill_round(canvas, (struct area){x + 116.0, y - 8.0, 3.0, 8.0}, 0.0,
                          network_ink[net], 1.0);
        snprintf(text, sizeof(text), "clipped to %.4g",
                 (double)dashboard->clip_norm[net]);
        canvas_text_fit(canvas, x + 124.0, y, end - x - 124.0, note, text);
    }
}

void plot_norms(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, struct area panel, int has_kimg)
{
    const struct area inner = plot_inner(panel, has_kimg);
    const struct axis axis = axis_of_norms(dashboard, series, inner);
    const int has_two = is_clipped(dashboard, ROLE_G) && is_clipped(dashboard, ROLE_D);
    const double legend = legend_x(panel) - panel.x - 6.0;
    plot_title(canvas, panel, legend < 140.0 ? "Norms" : "Gradient norms",
               series->has_norm_band
                   ? "unscaled, log2 axis    number: last step    line: mean    band: "
                     "lowest to highest"
                   : "unscaled, log2 axis    number: last step",
               legend, has_two ? legend : panel.w - PLOT_PADDING);
    draw_norm_legend(canvas, dashboard, panel);
    plot_frame(canvas, series, &axis, inner, has_kimg);
    plot_begin_curves(canvas, inner);
    for (int net = 0; net < ROLES; net++)
        if (is_clipped(dashboard, net))
            draw_limit(canvas, &axis, inner, dashboard->clip_norm[net], net);
    for (int net = 0; net < ROLES; net++)
        draw_norms(canvas, series, &axis, inner, net);
    for (int net = 0; net < ROLES; net++)
        draw_clips(canvas, series, inner, net);
    cairo_restore(canvas->cairo);
}
