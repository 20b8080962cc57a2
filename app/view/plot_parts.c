/* plot_parts.c - pens, marks and panels of the plots. */
#include "app/view/plot_parts.h"

#include <math.h>
#include <stdio.h>

#include "app/view/plot_marks.h"

#define HEAD 50.0   // title and legend above the inner area
#define ROW 18.0    // of a legend
#define GUTTER 52.0 // y labels
#define FOOT 26.0   // x labels

const enum ink network_ink[SCALE_COUNT] = {INK_G, INK_D, INK_D_FAKE};

int plot_columns(const struct canvas *canvas, double width)
{
    const double columns = width * canvas->scale;
    return columns < 2.0 ? 2 : columns > 8192.0 ? 8192 : (int)columns;
}

struct area plot_inner(struct area panel, int has_kimg)
{
    const double foot = has_kimg ? FOOT : PLOT_PADDING;
    return (struct area){panel.x + GUTTER, panel.y + HEAD,
                         fmax(1.0, panel.w - GUTTER - PLOT_PADDING),
                         fmax(1.0, panel.h - HEAD - foot)};
}

int plot_scale_count(const struct dashboard *dashboard)
{
    return dashboard->scale[SCALE_D_FAKE] > 0.0f ? SCALE_COUNT : ROLES;
}

struct area plot_inner_of_scales(const struct dashboard *dashboard, struct area panel,
                                 int has_kimg)
{
    const int rows = plot_scale_count(dashboard) - ROLES + plot_has_mark_key(dashboard);
    const double more = ROW * rows;
    struct area inner = plot_inner(panel, has_kimg);
    inner.y += more;
    inner.h = fmax(1.0, inner.h - more);
    return inner;
}

const char *plot_scale_name(const struct dashboard *dashboard, int scale)
{
    if (plot_scale_count(dashboard) == ROLES || scale == ROLE_G)
        return role_letter(scale);
    return scale == ROLE_D ? "D real" : "D fake";
}

double column_x(const struct series *series, struct area inner, int column)
{
    return inner.x + inner.w * (column + 0.5) / series->column_count;
}

void plot_select_pen(const struct canvas *canvas, int net, double width)
{
    static const double dashes[] = {6.0, 3.0}, dots[] = {2.0, 2.5};
    cairo_new_path(canvas->cairo);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_set_line_width(canvas->cairo, width);
    cairo_set_line_join(canvas->cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(canvas->cairo, net == SCALE_D_FAKE ? dots : dashes,
                   net == ROLE_G ? 0 : 2, 0.0);
}

void plot_stroke(const struct canvas *canvas)
{
    cairo_stroke(canvas->cairo);
    cairo_set_dash(canvas->cairo, NULL, 0, 0.0);
}

void plot_begin_curves(const struct canvas *canvas, struct area inner)
{
    cairo_save(canvas->cairo);
    cairo_new_path(canvas->cairo);
    cairo_rectangle(canvas->cairo, inner.x, inner.y, inner.w, inner.h);
    cairo_clip(canvas->cairo);
    cairo_set_antialias(canvas->cairo, CAIRO_ANTIALIAS_FAST);
}

void plot_dot(const struct canvas *canvas, double x, double y, int net)
{
    cairo_new_path(canvas->cairo);
    cairo_arc(canvas->cairo, x, y, net == ROLE_G ? 4.2 : 2.6, 0.0, 2.0 * M_PI);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_fill(canvas->cairo);
}

void plot_triangle(const struct canvas *canvas, double x, double y, int net)
{
    const double half = net == ROLE_G ? 4.4 : 3.2;
    cairo_move_to(canvas->cairo, x, y);
    cairo_rel_line_to(canvas->cairo, -half, -1.8 * half);
    cairo_rel_line_to(canvas->cairo, 2.0 * half, 0.0);
    cairo_close_path(canvas->cairo);
}

void plot_ring(const struct canvas *canvas, double x, double y, int net)
{
    cairo_new_path(canvas->cairo);
    cairo_arc(canvas->cairo, x, y, 3.4, 0.0, 2.0 * M_PI);
    canvas_ink(canvas, INK_PANEL, 1.0);
    cairo_fill_preserve(canvas->cairo);
    canvas_ink(canvas, network_ink[net], 1.0);
    cairo_set_line_width(canvas->cairo, 1.5);
    cairo_stroke(canvas->cairo);
}

double plot_key(const struct canvas *canvas, double x, double y, int net,
                const char *name)
{
    const struct text_style style = {12.5, 1, network_ink[net]};
    plot_select_pen(canvas, net, 2.0);
    cairo_move_to(canvas->cairo, x, y - 4.5);
    cairo_line_to(canvas->cairo, x + 21.0, y - 4.5);
    plot_stroke(canvas);
    return x + 28.0 + canvas_text(canvas, x + 28.0, y, ALIGN_LEFT, style, name);
}

void plot_title(const struct canvas *canvas, struct area panel, const char *title,
                const char *note, double title_end, double note_end)
{
    const struct text_style title_style = {14.0, 1, INK_TEXT};
    const struct text_style note_style = {11.0, 0, INK_FAINT};
    const double x = panel.x + PLOT_PADDING;
    canvas_fill_round(canvas, panel, 7.0, INK_PANEL, 1.0);
    canvas_text_fit(canvas, x, panel.y + 21.0, title_end - PLOT_PADDING, title_style,
                    title);
    canvas_text_fit(canvas, x, panel.y + 38.0, note_end - PLOT_PADDING, note_style, note);
}

void plot_frame(const struct canvas *canvas, const struct series *series,
                const struct axis *y_axis, struct area inner, int has_kimg)
{
    const int tick_count = (int)fmax(3.0, fmin(12.0, inner.w / 80.0));
    const struct axis x_axis =
        axis_exact(series->kimg_low, series->kimg_high, tick_count);
    axis_draw_x(canvas, &x_axis, inner, has_kimg ? AXIS_LABELS_AND_UNIT : AXIS_BARE);
    axis_draw_y(canvas, y_axis, inner);
    if (series->point_count > 0)
        return;
    const struct text_style style = {13.0, 0, INK_MUTED};
    const char *text = "waiting for the first step";
    // A clear patch, so that no grid line runs through the words.
    const double width = canvas_text_width(canvas, style, text) + 24.0;
    const double x = inner.x + inner.w / 2.0, y = inner.y + inner.h / 2.0;
    canvas_fill(canvas, (struct area){x - width / 2.0, y - 13.0, width, 26.0}, INK_PANEL);
    canvas_text(canvas, x, y + 5.0, ALIGN_CENTER, style, text);
}

const char *loss_text(float loss, char *text, size_t bytes)
{
    if (isnan(loss))
        snprintf(text, bytes, "NaN");
    else
        snprintf(text, bytes, fabsf(loss) < 1000.0f ? "%.3f" : "%.3g", (double)loss);
    return text;
}
