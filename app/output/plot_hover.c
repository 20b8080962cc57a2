/* plot_hover.c - the read-out at the step under the pointer. */
#include "app/output/plot.h"

#include <math.h>
#include <stdio.h>

#include "app/output/plot_parts.h"
#include "app/output/progress.h"

static void draw_hover_row(const struct canvas *canvas, const struct history_point *point,
                           struct area box, double y, int net)
{
    char text[64];
    const struct text_style name_style = {12.0, 1, network_ink[net]};
    const struct text_style style = {12.0, 0, INK_TEXT};
    canvas_text(canvas, box.x + 12.0, y, ALIGN_LEFT, name_style, network_name[net]);
    canvas_power(canvas, box.x + 82.0, y, ALIGN_RIGHT, style,
                 scale_text(point->scale[net], text, sizeof(text)));
    canvas_text(canvas, box.x + 150.0, y, ALIGN_RIGHT, style,
                loss_text(point->loss[net], text, sizeof(text)));
    if (point->skipped[net] > 0) {
        cairo_new_path(canvas->cairo);
        plot_triangle(canvas, box.x + 172.0, y - 1.5, net);
        canvas_ink(canvas, network_ink[net], 1.0);
        cairo_fill(canvas->cairo);
        if (point->skipped[net] > 1)
            snprintf(text, sizeof(text), "skipped %d\xc3\x97", point->skipped[net]);
        else
            snprintf(text, sizeof(text), "skipped");
        canvas_text(canvas, box.x + 181.0, y, ALIGN_LEFT, style, text);
    }
}

static void draw_hover_box(const struct canvas *canvas, const struct history_point *point,
                           struct area inner, double x)
{
    const int has_skips = point->skipped[NETWORK_G] > 0 || point->skipped[NETWORK_D] > 0;
    const struct text_style head = {12.0, 1, INK_TEXT}, label = {10.5, 0, INK_FAINT};
    char step[40], kimg[40], text[128];
    struct area box = {x + 12.0, inner.y + 10.0, has_skips ? 256.0 : 190.0, 86.0};
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
    canvas_text(canvas, box.x + 82.0, box.y + 38.0, ALIGN_RIGHT, label, "scale");
    canvas_text(canvas, box.x + 150.0, box.y + 38.0, ALIGN_RIGHT, label, "loss");
    for (int net = 0; net < NETWORK_COUNT; net++)
        draw_hover_row(canvas, point, box, box.y + 56.0 + net * 18.0, net);
}

void plot_hover(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, struct area scales, struct area losses)
{
    const double x = dashboard->hover_x / canvas->scale;
    const double y = dashboard->hover_y / canvas->scale;
    const int is_inside = dashboard->hover_x >= 0 && x >= scales.x &&
                          x < scales.x + scales.w && y >= scales.y &&
                          y < losses.y + losses.h;
    if (!is_inside || dashboard->point_count == 0)
        return;
    const struct axis axis = axis_exact(series->kimg_low, series->kimg_high, 7);
    const double kimg =
        series->kimg_low + (x - scales.x) / scales.w * (axis.high - axis.low);
    const struct history_point *point =
        &dashboard
             ->points[series_nearest(dashboard->points, dashboard->point_count, kimg)];
    const double line = axis_x(&axis, scales, point->kimg);
    canvas_hairline(canvas, line, scales.y, line, scales.y + scales.h, INK_TEXT, 0.55);
    canvas_hairline(canvas, line, losses.y, line, losses.y + losses.h, INK_TEXT, 0.55);
    draw_hover_box(canvas, point, y < losses.y ? scales : losses, line);
}
