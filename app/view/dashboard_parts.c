/* dashboard_parts.c - what stands around the plots: header, samples, footer. */
#include "app/view/dashboard_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"
#include "app/view/tiles.h"

/* One labelled number of the header. */
struct cell {
    const char *label;
    char value[64];
    double width;
};

enum { CELL_COUNT = 5 };

/* ---- Header ---------------------------------------------------------------------- */

static enum ink state_ink(const char *state)
{
    if (strncmp(state, "train", 5) == 0)
        return INK_GOOD;
    if (strncmp(state, "paus", 4) == 0)
        return INK_WAIT;
    if (strncmp(state, "fail", 4) == 0 || strncmp(state, "diverge", 7) == 0)
        return INK_BAD;
    return INK_MUTED;
}

/* A dot and a word in a rounded box; returns its width. */
static double draw_state(const struct canvas *canvas, double x, double y, double room,
                         const char *state)
{
    const struct text_style style = {12.0, 0, INK_TEXT};
    const double text_width = fmin(canvas_text_width(canvas, style, state), room - 32.0);
    if (!state[0] || text_width < 20.0)
        return 0.0;
    const struct area box = {x, y - 16.0, text_width + 32.0, 22.0};
    canvas_fill_round(canvas, box, 11.0, INK_RAISED, 1.0);
    canvas_fill_round(canvas, (struct area){x + 10.0, y - 9.0, 8.0, 8.0}, 4.0,
                      state_ink(state), 1.0);
    canvas_text_fit(canvas, x + 23.0, y - 0.7, text_width + 0.5, style, state);
    return box.w;
}

static int has_total(const struct dashboard *dashboard)
{
    return isfinite(dashboard->kimg_total) && dashboard->kimg_total > 0.0;
}

static void fill_cells(const struct dashboard *dashboard, struct cell *cells)
{
    char done[40], total[40];
    kimg_text(dashboard->kimg, done, sizeof(done));
    cells[0] = (struct cell){"kimg", "", 118.0};
    if (has_total(dashboard))
        snprintf(cells[0].value, sizeof(cells[0].value), "%s / %s", done,
                 kimg_text(dashboard->kimg_total, total, sizeof(total)));
    else
        snprintf(cells[0].value, sizeof(cells[0].value), "%s", done);
    cells[1] = (struct cell){"images/s", "", 74.0};
    const double rate = dashboard->images_per_sec;
    if (rate > 0.0)
        grouped_number(rate, rate < 99.95 ? 1 : 0, cells[1].value,
                       sizeof(cells[1].value));
    else
        snprintf(cells[1].value, sizeof(cells[1].value), "\xe2\x80\x93");
    cells[2] = (struct cell){"ETA", "", 92.0};
    if (dashboard->has_ended)
        snprintf(cells[2].value, sizeof(cells[2].value), "\xe2\x80\x93");
    else
        duration_text(dashboard->eta_sec, cells[2].value, sizeof(cells[2].value));
    cells[3] = (struct cell){"elapsed", "", 92.0};
    duration_text(dashboard->elapsed_sec, cells[3].value, sizeof(cells[3].value));
    cells[4] = (struct cell){"step", "", 78.0};
    grouped_number((double)dashboard->step, 0, cells[4].value, sizeof(cells[4].value));
}

/* Right-aligned columns, the first at the left; those that the title needs the room of
 * are left out from the end. Returns where the leftmost begins. */
static double draw_cells(const struct canvas *canvas, const struct dashboard *dashboard,
                         double least_title)
{
    const struct text_style value_style = {15.0, 1, INK_TEXT};
    const struct text_style label_style = {11.0, 0, INK_FAINT};
    struct cell cells[CELL_COUNT];
    fill_cells(dashboard, cells);
    double total = 0.0;
    int count = 0;
    for (; count < CELL_COUNT; count++) {
        struct cell *cell = &cells[count];
        cell->width =
            20.0 + fmax(cell->width, canvas_text_width(canvas, value_style, cell->value));
        if (canvas->width - 2.0 * MARGIN - total - cell->width < least_title)
            break;
        total += cell->width;
    }
    double x = canvas->width - MARGIN - total;
    for (int i = 0; i < count; i++) {
        const double end = x + cells[i].width;
        canvas_text(canvas, end, 27.0, ALIGN_RIGHT, label_style, cells[i].label);
        canvas_text(canvas, end, 47.0, ALIGN_RIGHT, value_style, cells[i].value);
        x = end;
    }
    return canvas->width - MARGIN - total;
}

static void draw_progress(const struct canvas *canvas, const struct dashboard *dashboard)
{
    const struct area bar = {MARGIN, HEADER - 18.0, canvas->width - 2.0 * MARGIN, 4.0};
    canvas_fill_round(canvas, bar, 2.0, INK_RAISED, 1.0);
    if (!has_total(dashboard))
        return;
    const double part = fmin(1.0, dashboard->kimg / dashboard->kimg_total);
    if (part > 0.0)
        canvas_fill_round(canvas,
                          (struct area){bar.x, bar.y, fmax(4.0, bar.w * part), bar.h},
                          2.0, INK_GOOD, 1.0);
}

void draw_header(const struct canvas *canvas, const struct dashboard *dashboard)
{
    const struct text_style title_style = {19.0, 1, INK_TEXT};
    const struct text_style note_style = {12.0, 0, INK_MUTED};
    const double title_width = canvas_text_width(canvas, title_style, dashboard->title) +
                               canvas_text_width(canvas, note_style, dashboard->state) +
                               70.0;
    const double least_title =
        fmin(fmax(title_width, canvas->width * 0.3), canvas->width * 0.45);
    const double room = draw_cells(canvas, dashboard, least_title) - MARGIN - 12.0;
    const double state_room =
        fmin(room / 2.0, canvas_text_width(canvas, (struct text_style){12.0, 0, INK_TEXT},
                                           dashboard->state) +
                             33.0);
    const double used = canvas_text_fit(canvas, MARGIN, 31.0, room - state_room - 12.0,
                                        title_style, dashboard->title);
    draw_state(canvas, MARGIN + used + 12.0, 31.0, state_room, dashboard->state);
    char note[320], epoch[48] = "";
    if (dashboard->epoch > 0.0)
        snprintf(epoch, sizeof(epoch), "epoch %.2f", dashboard->epoch);
    snprintf(note, sizeof(note), "%s%s%s%s%s", dashboard->precision,
             dashboard->precision[0] && dashboard->device[0] ? "   \xc2\xb7   " : "",
             dashboard->device, epoch[0] ? "   \xc2\xb7   " : "", epoch);
    const struct text_style reason_style = {12.0, 1, INK_BAD};
    if (dashboard->reason[0]) // it matters more than what was trained on
        canvas_text_fit(canvas, MARGIN, 51.0, room, reason_style, dashboard->reason);
    else
        canvas_text_fit(canvas, MARGIN, 51.0, room, note_style, note);
    draw_progress(canvas, dashboard);
}

/* ---- Samples --------------------------------------------------------------------- */

static int has_tiles(const struct dashboard *dashboard)
{
    return dashboard->tiles && dashboard->grid_columns > 0 && dashboard->grid_rows > 0 &&
           dashboard->tile_w > 0 && dashboard->tile_h > 0 &&
           dashboard->tile_channels >= 1 && dashboard->tile_channels <= 4;
}

/* The grid, straight into the pixels and so always sharp, within `side`, its caption
 * below. Cairo is told before and after. */
void draw_samples(const struct canvas *canvas, const struct dashboard *dashboard,
                  struct area side)
{
    const struct text_style caption_style = {12.0, 0, INK_MUTED};
    cairo_surface_t *surface = cairo_get_target(canvas->cairo);
    canvas_fill_round(canvas, side, 7.0, INK_PANEL, 1.0);
    const double baseline = side.y + side.h + 18.0;
    if (!has_tiles(dashboard)) {
        const struct text_style style = {13.0, 0, INK_MUTED};
        canvas_text(canvas, side.x + side.w / 2.0, side.y + side.h / 2.0 + 5.0,
                    ALIGN_CENTER, style, "the first samples appear here");
        return;
    }
    const double scale = canvas->scale, padding = 8.0;
    const int gap = (int)fmax(1.0, floor(2.0 * scale + 0.5));
    const struct tiles_layout layout =
        tiles_fit(dashboard, (int)((side.w - 2.0 * padding) * scale),
                  (int)((side.h - 2.0 * padding) * scale), gap);
    const int left = (int)(side.x * scale + (side.w * scale - layout.width) / 2.0);
    const int top = (int)(side.y * scale + (side.h * scale - layout.height) / 2.0);
    cairo_surface_flush(surface);
    tiles_paint(
        dashboard, &layout, (uint32_t *)(void *)cairo_image_surface_get_data(surface),
        cairo_image_surface_get_width(surface), cairo_image_surface_get_height(surface),
        cairo_image_surface_get_stride(surface), left < 0 ? 0 : left, top < 0 ? 0 : top);
    cairo_surface_mark_dirty(surface);
    char kimg[40], text[160];
    snprintf(text, sizeof(text), "EMA samples, fixed latents, drawn at %s kimg",
             kimg_text(dashboard->tiles_kimg, kimg, sizeof(kimg)));
    canvas_text_fit(canvas, side.x, baseline, side.w, caption_style, text);
}

/* ---- Footer ---------------------------------------------------------------------- */

// Units for the run folder's name, which more keys leave.
#define RUN_LEAST 110.0

/* Keys in small boxes, from the right; returns where they begin. */
static double draw_keys(const struct canvas *canvas, double baseline,
                        const struct dashboard *dashboard)
{
    const int is_paused = strncmp(dashboard->state, "paus", 4) == 0;
    const char *const keys[][2] = {
        {"q", dashboard->has_ended ? "close" : "save and quit"},
        {"e", "export grid"},
        {"l", dashboard->shows_layers ? "curves" : "layers"},
        {"space", is_paused ? "go on" : "pause"},
        {"s", "snapshot"},
        {"[ ] { }", "scale D, G"}};
    const size_t count = dashboard->has_ended ? 3 : sizeof(keys) / sizeof(keys[0]);
    const struct text_style key_style = {11.0, 1, INK_TEXT};
    const struct text_style word_style = {12.0, 0, INK_MUTED};
    double x = canvas->width - MARGIN;
    for (size_t i = 0; i < count; i++) {
        const double key_width = canvas_text_width(canvas, key_style, keys[i][0]) + 13.0;
        const double word_width = canvas_text_width(canvas, word_style, keys[i][1]);
        if (x - word_width - key_width - 7.0 < MARGIN + RUN_LEAST)
            break;
        x -= word_width;
        canvas_text(canvas, x, baseline, ALIGN_LEFT, word_style, keys[i][1]);
        x -= key_width + 7.0;
        const struct area cap = {x, baseline - 13.5, key_width, 18.0};
        canvas_fill_round(canvas, cap, 4.0, INK_RAISED, 1.0);
        canvas_text(canvas, x + key_width / 2.0, baseline - 0.5, ALIGN_CENTER, key_style,
                    keys[i][0]);
        x -= 20.0;
    }
    return x;
}

void draw_footer(const struct canvas *canvas, const struct dashboard *dashboard)
{
    const struct text_style style = {12.0, 0, INK_FAINT};
    const struct text_style notice_style = {12.0, 1, INK_GOOD};
    const double baseline = canvas->height - 15.0;
    const double end = dashboard->has_keys ? draw_keys(canvas, baseline, dashboard)
                                           : canvas->width - MARGIN;
    if (dashboard->notice[0])
        canvas_text_fit(canvas, MARGIN, baseline, end - MARGIN, notice_style,
                        dashboard->notice);
    else
        canvas_path_fit(canvas, MARGIN, baseline, end - MARGIN, style, dashboard->run);
}
