/* canvas.h - the few things that the dashboard draws with: inks, text, boxes.
 * Flow:  dashboard, plot -> [canvas] -> cairo -> pixels.
 * Owns:  nothing; the cairo context belongs to the caller. Inside app/view only.
 *
 * Lengths are design units: the canvas is scaled so that text keeps its look on a small
 * window and on a high-resolution screen. */
#ifndef APP_VIEW_CANVAS_H
#define APP_VIEW_CANVAS_H

#include <cairo.h>
#include <stddef.h>
#include <stdint.h>

struct canvas {
    cairo_t *cairo;
    double scale; // device pixels per unit
    double width, height;
};

struct area {
    double x, y, w, h;
};

/* Every colour of the picture. G and D stay apart for colour-blind readers. */
enum ink {
    INK_BACKGROUND,
    INK_PANEL,
    INK_RAISED, // boxes over a panel
    INK_LINE,   // frames and grid lines
    INK_TEXT,
    INK_MUTED,
    INK_FAINT,
    INK_G,
    INK_D,
    INK_D_FAKE,
    INK_GOOD,
    INK_WAIT,
    INK_BAD,
};

enum align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };

struct text_style {
    double size;
    int is_bold;
    enum ink ink;
};

/* 0x00RRGGBB. Every ink for words has at least 4.5:1 on every ground (WCAG 2, AA). */
uint32_t ink_color(enum ink ink);
void canvas_ink(const struct canvas *canvas, enum ink ink, double alpha);
void canvas_fill(const struct canvas *canvas, struct area area, enum ink ink);
void canvas_fill_round(const struct canvas *canvas, struct area area, double radius,
                       enum ink ink, double alpha);
/* One device pixel wide and sharp, whatever the scale. */
void canvas_hairline(const struct canvas *canvas, double x0, double y0, double x1,
                     double y1, enum ink ink, double alpha);

/* Text on a baseline; y is the baseline, x the left, centre or right end. Bytes that are
 * not UTF-8 show as '?'. canvas_text() returns the width drawn. */
double canvas_text(const struct canvas *canvas, double x, double y, enum align align,
                   struct text_style style, const char *text);
double canvas_text_width(const struct canvas *canvas, struct text_style style,
                         const char *text);
/* The same in at most `room` units: too long a text loses its end to an ellipsis. A path
 * loses its folders first, then the middle of its name, for both ends of that tell
 * something; where only a few letters would be left nothing is drawn. */
double canvas_text_fit(const struct canvas *canvas, double x, double y, double room,
                       struct text_style style, const char *text);
double canvas_path_fit(const struct canvas *canvas, double x, double y, double room,
                       struct text_style style, const char *text);

/* "2^16" with a raised exponent; any other text as it is. */
double canvas_power(const struct canvas *canvas, double x, double y, enum align align,
                    struct text_style style, const char *text);

/* Copies `text` with every byte that is not part of valid UTF-8 replaced by '?'. */
void text_to_utf8(const char *text, char *utf8, size_t bytes);
/* "1,204" */
const char *grouped_number(double value, int decimals, char *text, size_t bytes);
/* Thousands of images: "0.06", "48.0", "1,204". */
const char *kimg_text(double kimg, char *text, size_t bytes);

#endif
