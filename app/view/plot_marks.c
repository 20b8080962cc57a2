#include "app/view/plot_marks.h"

#include <math.h>
#include <stdio.h>

#include "app/view/plot_parts.h"

#define SIDE 7.0 // of the square of a changed setting

static const struct text_style word_style = {11.0, 0, INK_MUTED};

static int has_note(const struct dashboard *dashboard, enum note_kind kind)
{
    for (size_t i = 0; i < dashboard->note_count; i++)
        if (dashboard->notes[i].kind == kind &&
            (kind != NOTE_CHANGE || dashboard->notes[i].network >= 0))
            return 1;
    return 0;
}

int plot_has_mark_key(const struct dashboard *dashboard)
{
    return has_note(dashboard, NOTE_CHANGE) || has_note(dashboard, NOTE_ROLLBACK);
}

static void draw_dashes(const struct canvas *canvas, double x, double top, double bottom)
{
    static const double dashes[] = {5.0, 4.0};
    cairo_t *cairo = canvas->cairo;
    cairo_new_path(cairo);
    cairo_move_to(cairo, x, top);
    cairo_line_to(cairo, x, bottom);
    canvas_ink(canvas, INK_WAIT, 0.9);
    cairo_set_line_width(cairo, 1.4);
    cairo_set_dash(cairo, dashes, 2, 0.0);
    cairo_stroke(cairo);
    cairo_set_dash(cairo, NULL, 0, 0.0);
}

void plot_mark_key(const struct canvas *canvas, const struct dashboard *dashboard,
                   double x, double y, double end)
{
    if (has_note(dashboard, NOTE_CHANGE)) {
        for (int net = 0; net < ROLES; net++)
            canvas_fill_round(canvas,
                              (struct area){x + net * (SIDE + 3.0), y - SIDE, SIDE, SIDE},
                              1.0, network_ink[net], 1.0);
        x += 2.0 * SIDE + 10.0;
        x += 18.0 + canvas_text_fit(canvas, x, y, end - x, word_style,
                                    "a setting of G, of D was changed");
    }
    plot_rollback_key(canvas, dashboard, x, y, end);
}

void plot_rollback_key(const struct canvas *canvas, const struct dashboard *dashboard,
                       double x, double y, double end)
{
    if (!has_note(dashboard, NOTE_ROLLBACK) || x + 14.0 > end)
        return;
    draw_dashes(canvas, x + 3.0, y - 11.0, y + 3.0);
    canvas_text_fit(canvas, x + 12.0, y, end - x - 12.0, word_style,
                    "rollback to a snapshot");
}

void plot_rollbacks(const struct canvas *canvas, const struct dashboard *dashboard,
                    double low, double high, struct area inner, int has_names)
{
    double free_from = inner.x; // names so far reach to here
    for (size_t i = 0; i < dashboard->note_count; i++) {
        const struct history_note *note = &dashboard->notes[i];
        const double x = inner.x + inner.w * (note->kimg - low) / (high - low);
        if (note->kind != NOTE_ROLLBACK || !(x >= inner.x && x <= inner.x + inner.w))
            continue;
        char name[32];
        draw_dashes(canvas, x, inner.y, inner.y + inner.h);
        snprintf(name, sizeof name, "rollback %d", note->number);
        const double width = canvas_text_width(canvas, word_style, name);
        // To the right of the line, or to its left at the edge of the plot.
        const int is_right = x + 5.0 + width <= inner.x + inner.w;
        const double left = is_right ? x + 5.0 : x - 5.0 - width;
        if (!has_names || left < free_from)
            continue;
        canvas_text(canvas, left, inner.y + 11.0, ALIGN_LEFT, word_style, name);
        free_from = left + width + 8.0;
    }
}

const struct history_note *plot_note_at(const struct dashboard *dashboard, double kimg,
                                        double reach)
{
    const struct history_note *nearest = NULL;
    for (size_t i = 0; i < dashboard->note_count; i++) {
        const double distance = fabs(dashboard->notes[i].kimg - kimg);
        if (distance <= reach && (!nearest || distance < fabs(nearest->kimg - kimg)))
            nearest = &dashboard->notes[i];
    }
    return nearest;
}
