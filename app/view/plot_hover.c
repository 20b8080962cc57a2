/* plot_hover.c - the read-out at the step under the pointer. */
#include "app/view/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/view/plot_marks.h"
#include "app/view/plot_parts.h"
#include "kernels/base/text.h"
#include "app/view/history.h"

/* Where the columns of the box end; the marks begin there. */
#define SCALE_END 82.0
#define LOSS_END 150.0
#define NORM_END 218.0

static double marks_x(const struct dashboard *dashboard)
{
    return (plot_has_norms(dashboard) ? NORM_END : LOSS_END) + 22.0;
}

// "skipped", "skipped 3x", or "held back"; a step can be both, and then skipped says
// more.
static void draw_hover_mark(const struct canvas *canvas,
                            const struct history_point *point, double x, double y,
                            int net)
{
    char text[64];
    const struct text_style style = {12.0, 0, INK_TEXT};
    if (point->skipped[net] == 0) {
        if (net >= ROLES || point->held[net] == 0)
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
    if (net < ROLES) {
        canvas_text(canvas, box.x + LOSS_END, y, ALIGN_RIGHT, style,
                    loss_text(point->loss[net], text, sizeof(text)));
        if (point->grad_norm[net] > 0.0f && plot_has_norms(dashboard))
            canvas_text(canvas, box.x + NORM_END, y, ALIGN_RIGHT, style,
                        loss_text(point->grad_norm[net], text, sizeof(text)));
    }
    draw_hover_mark(canvas, point, box.x + marks_x(dashboard), y, net);
}

/* ---- the box ---------------------------------------------------------------------- */

#define LINE 16.0     // of a note
#define NOTE_LINES 12 // at most
#define REACH 6.0     // units from a mark to the pointer

static const struct text_style note_style = {11.5, 0, INK_TEXT};

/* What is said of the marks under the pointer: the notes of one step, line by line. */
struct hover_notes {
    int count;
    char line[NOTE_LINES][HISTORY_NOTE];
};

static void add_lines(struct hover_notes *notes, const char *text)
{
    while (*text && notes->count < NOTE_LINES) {
        const int length = (int)strcspn(text, "\n");
        snprintf(notes->line[notes->count++], HISTORY_NOTE, "%.*s", length, text);
        text += length + (text[length] == '\n');
    }
}

static struct hover_notes notes_of(const struct dashboard *dashboard,
                                   const struct history_note *nearest, double reach)
{
    struct hover_notes notes = {0};
    int others = 0;
    for (size_t i = 0; nearest && i < dashboard->note_count; i++) {
        const struct history_note *note = &dashboard->notes[i];
        if (note->step == nearest->step)
            add_lines(&notes, note->text);
        else
            others += fabs(note->kimg - nearest->kimg) <= reach;
    }
    char text[64];
    snprintf(text, sizeof text, "%d more mark%s close by", others,
             others == 1 ? "" : "s");
    if (others > 0)
        add_lines(&notes, text);
    return notes;
}

static double notes_width(const struct canvas *canvas, const struct hover_notes *notes)
{
    double width = 0.0;
    for (int i = 0; i < notes->count; i++)
        width = fmax(width, canvas_text_width(canvas, note_style, notes->line[i]));
    return width;
}

static struct area place_box(const struct canvas *canvas,
                             const struct dashboard *dashboard,
                             const struct history_point *point,
                             const struct hover_notes *notes, struct area inner, double x)
{
    const int rows = plot_scale_count(dashboard);
    int has_marks = point->held[ROLE_G] > 0 || point->held[ROLE_D] > 0;
    for (int scale = 0; scale < rows; scale++)
        has_marks |= point->skipped[scale] > 0;
    const double table = marks_x(dashboard) + (has_marks ? 84.0 : 18.0);
    struct area box = {x + 12.0, inner.y + 10.0,
                       fmax(table, notes_width(canvas, notes) + 24.0),
                       50.0 + 18.0 * rows + LINE * notes->count};
    box.w = fmin(box.w, canvas->width - 8.0);
    if (box.x + box.w > inner.x + inner.w)
        box.x = x - 12.0 - box.w;
    box.x = fmax(box.x, fmin(inner.x, canvas->width - 4.0 - box.w));
    box.y = fmax(4.0, fmin(box.y, canvas->height - 4.0 - box.h));
    return box;
}

static void draw_hover_box(const struct canvas *canvas, const struct dashboard *dashboard,
                           const struct history_point *point,
                           const struct hover_notes *notes, struct area box)
{
    const int rows = plot_scale_count(dashboard);
    const struct text_style head = {12.0, 1, INK_TEXT}, label = {10.5, 0, INK_FAINT};
    char step[40], kimg[40], text[128];
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
    for (int i = 0; i < notes->count; i++)
        canvas_text_fit(canvas, box.x + 12.0, box.y + 56.0 + rows * 18.0 + LINE * i,
                        box.w - 24.0, note_style, notes->line[i]);
}

/* ---- the pointer ------------------------------------------------------------------ */

// The plot under the pointer, or NULL.
static const struct area *plot_under(const struct area *plots, int count, double x,
                                     double y)
{
    for (int i = 0; i < count; i++)
        if (x >= plots[i].x && x < plots[i].x + plots[i].w && y >= plots[i].y &&
            y < plots[i].y + plots[i].h)
            return &plots[i];
    return NULL;
}

void plot_hover(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, const struct area *plots, int count)
{
    const double x = dashboard->hover_x / canvas->scale;
    const double y = dashboard->hover_y / canvas->scale;
    const struct area *under =
        dashboard->hover_x >= 0 ? plot_under(plots, count, x, y) : NULL;
    if (!under || dashboard->point_count == 0)
        return;
    const double low = series->kimg_low, range = series->kimg_high - low;
    const double kimg = low + (x - under->x) / under->w * range;
    const double reach = REACH / under->w * range;
    // A mark draws the pointer to itself: its step is a hair among thousands.
    const struct history_note *note = plot_note_at(dashboard, kimg, reach);
    const struct history_point *point = &dashboard->points[series_nearest(
        dashboard->points, dashboard->point_count, note ? note->kimg : kimg)];
    const struct hover_notes notes = notes_of(dashboard, note, reach);
    for (int i = 0; i < count; i++) {
        const double line = plots[i].x + (point->kimg - low) / range * plots[i].w;
        canvas_hairline(canvas, line, plots[i].y, line, plots[i].y + plots[i].h, INK_TEXT,
                        0.55);
    }
    const double line = under->x + (point->kimg - low) / range * under->w;
    draw_hover_box(canvas, dashboard, point, &notes,
                   place_box(canvas, dashboard, point, &notes, *under, line));
}
