/* plot_scales.c - the loss scales on a log2 axis; every skip, every step that was held
 * back every change and every rollback a mark. */
#include "app/view/plot.h"

#include <math.h>
#include <stdio.h>

#include "app/view/plot_marks.h"
#include "app/view/plot_parts.h"
#include "kernels/base/text.h"

/* A step curve: the scale holds until the step that changes it. */
static void draw_scale_curve(const struct canvas *canvas, const struct series *series,
                             const struct axis *axis, struct area inner, int net)
{
    cairo_t *cairo = canvas->cairo;
    double x = inner.x, y = NAN;
    plot_select_pen(canvas, net, 2.0);
    for (int c = 0; c < series->column_count; c++) {
        const struct column_of_network *column = &series->columns[c].of[net];
        if (isnan(column->scale_last))
            continue;
        x = column_x(series, inner, c);
        // The first scale moves the pen; later the old scale is held up to this column.
        cairo_line_to(cairo, x,
                      isnan(y) ? axis_y(axis, inner, log2(column->scale_first)) : y);
        cairo_line_to(cairo, x, axis_y(axis, inner, log2(column->scale_min)));
        cairo_line_to(cairo, x, axis_y(axis, inner, log2(column->scale_max)));
        y = axis_y(axis, inner, log2(column->scale_last));
        cairo_line_to(cairo, x, y);
    }
    plot_stroke(canvas);
}

/* One triangle a column, its tip on the curve at the scale that the skip left. */
static void draw_skips(const struct canvas *canvas, const struct series *series,
                       const struct axis *axis, struct area inner, int net)
{
    cairo_t *cairo = canvas->cairo;
    cairo_new_path(cairo);
    for (int c = 0; c < series->column_count; c++) {
        const struct column_of_network *column = &series->columns[c].of[net];
        if (isnan(column->skip_scale))
            continue;
        const double x = column_x(series, inner, c);
        const double y = axis_y(axis, inner, log2(column->skip_scale));
        plot_triangle(canvas, x, y, net);
    }
    canvas_ink(canvas, INK_PANEL, 1.0); // a dark rim keeps marks apart
    cairo_set_line_width(cairo, 1.6);
    cairo_stroke_preserve(cairo);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_fill(cairo);
}

/* One ring a column, on the curve: the scale stays where it is. */
static void draw_held(const struct canvas *canvas, const struct series *series,
                      const struct axis *axis, struct area inner, int net)
{
    for (int c = 0; c < series->column_count; c++) {
        const float scale = series->columns[c].of[net].held_scale;
        if (!isnan(scale))
            plot_ring(canvas, column_x(series, inner, c),
                      axis_y(axis, inner, log2(scale)), net);
    }
}

/* A thin upright line through the panel where settings were changed by hand, with a
 * square at its foot: D's stands on G's. */
static void draw_changes(const struct canvas *canvas, const struct series *series,
                         struct area inner, int net)
{
    const double side = 7.0, foot = inner.y + inner.h - side * (net == ROLE_D ? 2 : 1);
    for (int c = 0; c < series->column_count; c++) {
        if (series->columns[c].of[net].changes == 0)
            continue;
        const double x = column_x(series, inner, c);
        canvas_fill_round(canvas, (struct area){x - 0.5, inner.y, 1.0, inner.h}, 0.0,
                          network_ink[net], 0.6);
        canvas_fill_round(canvas, (struct area){x - side / 2.0, foot, side, side}, 1.0,
                          network_ink[net], 1.0);
    }
}

static void draw_last_scale(const struct canvas *canvas, const struct series *series,
                            const struct axis *axis, struct area inner, int net)
{
    for (int c = series->column_count - 1; c >= 0; c--) {
        const float scale = series->columns[c].of[net].scale_last;
        if (isnan(scale))
            continue;
        plot_dot(canvas, column_x(series, inner, c), axis_y(axis, inner, log2(scale)),
                 net);
        return;
    }
}

/* A small bar and "1,204/2,000 clean steps": how far the scale is from growing. */
static void draw_growth(const struct canvas *canvas, const struct dashboard *dashboard,
                        double x, double y, double end, int net)
{
    const struct text_style style = {12.0, 0, INK_MUTED};
    const int64_t interval = dashboard->growth_interval[net];
    if (interval <= 0) {
        canvas_text(canvas, x, y, ALIGN_LEFT, style, "scaling off");
        return;
    }
    char clean[40], wanted[40], text[128];
    grouped_number(dashboard->growth_tracker[net], 0, clean, sizeof(clean));
    grouped_number((double)interval, 0, wanted, sizeof(wanted));
    snprintf(text, sizeof(text), "%s/%s clean steps", clean, wanted);
    const double part =
        fmin(1.0, (double)dashboard->growth_tracker[net] / (double)interval);
    const struct area bar = {x, y - 6.5, 34.0, 4.0};
    canvas_fill_round(canvas, bar, 2.0, INK_LINE, 1.0);
    if (part > 0.0)
        canvas_fill_round(canvas, (struct area){bar.x, bar.y, bar.w * part, bar.h}, 2.0,
                          network_ink[net], 1.0);
    canvas_text_fit(canvas, x + 42.0, y, end - x - 42.0, style, text);
}

/* Where the columns of the legend stand, from its left end. */
struct legend {
    double x, end;
    double scale, skips, held, growth; // 0: there is no room for it, or no need
    double skips_width;
};

#define TITLE_WIDTH 90.0
#define GROWTH_WIDTH 196.0
#define HELD_WIDTH 88.0

static struct legend place_legend(const struct dashboard *dashboard, struct area panel)
{
    const int has_held = dashboard->held[ROLE_G] + dashboard->held[ROLE_D] > 0;
    const double left = panel.x + PLOT_PADDING + TITLE_WIDTH;
    struct legend legend = {.end = panel.x + panel.w - PLOT_PADDING};
    double room = legend.end - left - 4.0;
    const int has_three = plot_scale_count(dashboard) > ROLES;
    legend.scale = has_three ? 84.0 : 50.0;
    legend.skips = legend.scale + 58.0;
    legend.skips_width = has_three ? 100.0 : 88.0;
    double width = legend.skips + legend.skips_width;
    if (has_held && width + HELD_WIDTH <= room) {
        legend.held = width;
        width += HELD_WIDTH;
    }
    if (width + GROWTH_WIDTH <= room) {
        legend.growth = width;
        width += GROWTH_WIDTH;
    } else if (legend.held == 0.0) {
        width -= 24.0; // what stands last needs no gap
    }
    legend.x = fmax(legend.end - width, left);
    return legend;
}

static void draw_counts(const struct canvas *canvas, const struct dashboard *dashboard,
                        const struct legend *legend, double y, int net)
{
    const struct text_style style = {12.0, 0, INK_MUTED};
    const char *whose = plot_scale_count(dashboard) > ROLES && net == ROLE_D
                            ? "D " // for either loss
                            : "";
    const double x = legend->x + legend->skips;
    char text[64], count[40];
    grouped_number((double)dashboard->skipped[net], 0, count, sizeof(count));
    snprintf(text, sizeof(text), "%s %sskip%s", count, whose,
             dashboard->skipped[net] == 1 ? "" : "s");
    cairo_new_path(canvas->cairo);
    plot_triangle(canvas, x, y - 1.5, net);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_fill(canvas->cairo);
    canvas_text_fit(canvas, x + 8.0, y,
                    fmin(legend->skips_width - 12.0, legend->end - x - 8.0), style, text);
    if (legend->held == 0.0)
        return;
    const double held = legend->x + legend->held;
    grouped_number((double)dashboard->held[net], 0, count, sizeof(count));
    snprintf(text, sizeof(text), "%s held", count);
    plot_ring(canvas, held + 4.0, y - 4.5, net);
    canvas_text_fit(canvas, held + 13.0, y, HELD_WIDTH - 17.0, style, text);
}

static void draw_scale_legend(const struct canvas *canvas,
                              const struct dashboard *dashboard, struct area panel)
{
    const struct text_style value_style = {12.5, 0, INK_TEXT};
    const struct legend legend = place_legend(dashboard, panel);
    for (int net = 0; net < plot_scale_count(dashboard); net++) {
        char text[64];
        const double y = panel.y + 20.0 + net * 18.0;
        plot_key(canvas, legend.x, y, net, plot_scale_name(dashboard, net));
        if (dashboard->scale[net] > 0.0f)
            canvas_power(canvas, legend.x + legend.scale, y, ALIGN_LEFT, value_style,
                         scale_text(dashboard->scale[net], text, sizeof(text)));
        if (net < ROLES)
            draw_counts(canvas, dashboard, &legend, y, net);
        if (legend.growth > 0.0)
            draw_growth(canvas, dashboard, legend.x + legend.growth, y, legend.end, net);
    }
}

void plot_scales(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg)
{
    const struct area inner = plot_inner_of_scales(dashboard, panel, has_kimg);
    const int count = plot_scale_count(dashboard);
    const float now = dashboard->scale[ROLE_G];
    const struct axis axis = axis_of_scales(series->scale_low, series->scale_high,
                                            now > 0.0f ? log2((double)now) : (double)NAN);
    const double legend = place_legend(dashboard, panel).x - panel.x - 6.0;
    plot_title(canvas, panel, "Loss scale", "log2 axis", legend, legend);
    draw_scale_legend(canvas, dashboard, panel);
    plot_mark_key(canvas, dashboard, panel.x + PLOT_PADDING,
                  panel.y + 20.0 + count * 18.0, panel.x + panel.w - PLOT_PADDING);
    plot_frame(canvas, series, &axis, inner, has_kimg);
    plot_begin_curves(canvas, inner);
    for (int net = 0; net < ROLES; net++)
        draw_changes(canvas, series, inner, net);
    plot_rollbacks(canvas, dashboard, series->kimg_low, series->kimg_high, inner, 1);
    for (int net = 0; net < count; net++)
        draw_scale_curve(canvas, series, &axis, inner, net);
    for (int net = 0; net < ROLES; net++)
        draw_held(canvas, series, &axis, inner, net);
    for (int net = 0; net < count; net++)
        draw_skips(canvas, series, &axis, inner, net);
    cairo_restore(canvas->cairo);
    for (int net = 0; net < count; net++)
        draw_last_scale(canvas, series, &axis, inner, net);
}
