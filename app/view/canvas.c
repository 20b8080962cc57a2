/* canvas.c - inks, text that fits its room, boxes with round corners. */
#include "app/view/canvas.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FONT "DejaVu Sans" // another sans serif where it is not installed
#define TEXT_BYTES 320
#define ELLIPSIS "\xe2\x80\xa6"
#define MINUS "\xe2\x88\x92"

uint32_t ink_color(enum ink ink)
{
    static const uint32_t colors[] = {
        [INK_BACKGROUND] = 0x0f1115, [INK_PANEL] = 0x16191f, [INK_RAISED] = 0x232831,
        [INK_LINE] = 0x2b303a,       [INK_TEXT] = 0xe9ebef,  [INK_MUTED] = 0xb4bbc7,
        [INK_FAINT] = 0x99a1ae,      [INK_G] = 0x40b8fa,     [INK_D] = 0xfa8c33,
        [INK_D_FAKE] = 0xe08fc6,     [INK_GOOD] = 0x55c58f,  [INK_WAIT] = 0xf2c14e,
        [INK_BAD] = 0xf2647a,
    };
    return colors[ink];
}

void canvas_ink(const struct canvas *canvas, enum ink ink, double alpha)
{
    const uint32_t color = ink_color(ink);
    cairo_set_source_rgba(canvas->cairo, (color >> 16 & 255) / 255.0,
                          (color >> 8 & 255) / 255.0, (color & 255) / 255.0, alpha);
}

void canvas_fill(const struct canvas *canvas, struct area area, enum ink ink)
{
    canvas_ink(canvas, ink, 1.0);
    cairo_rectangle(canvas->cairo, area.x, area.y, area.w, area.h);
    cairo_fill(canvas->cairo);
}

void canvas_fill_round(const struct canvas *canvas, struct area area, double radius,
                       enum ink ink, double alpha)
{
    cairo_t *cairo = canvas->cairo;
    const double r = fmin(radius, fmin(area.w, area.h) / 2.0);
    if (r < 0.0)
        return;
    const double right = area.x + area.w - r, bottom = area.y + area.h - r;
    cairo_new_path(cairo);
    cairo_arc(cairo, right, area.y + r, r, -M_PI / 2, 0.0);
    cairo_arc(cairo, right, bottom, r, 0.0, M_PI / 2);
    cairo_arc(cairo, area.x + r, bottom, r, M_PI / 2, M_PI);
    cairo_arc(cairo, area.x + r, area.y + r, r, M_PI, 3 * M_PI / 2);
    cairo_close_path(cairo);
    canvas_ink(canvas, ink, alpha);
    cairo_fill(cairo);
}

/* The middle of the device pixel that holds `value`. */
static double snap(const struct canvas *canvas, double value)
{
    return (floor(value * canvas->scale) + 0.5) / canvas->scale;
}

void canvas_hairline(const struct canvas *canvas, double x0, double y0, double x1,
                     double y1, enum ink ink, double alpha)
{
    cairo_new_path(canvas->cairo);
    cairo_move_to(canvas->cairo, snap(canvas, x0), snap(canvas, y0));
    cairo_line_to(canvas->cairo, snap(canvas, x1), snap(canvas, y1));
    cairo_set_line_width(canvas->cairo, 1.0 / canvas->scale);
    canvas_ink(canvas, ink, alpha);
    cairo_stroke(canvas->cairo);
}

/* Length of the UTF-8 character that starts at `s`, 0 if none does. */
static size_t character_bytes(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    const size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    const int is_overlong =
        (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    const int is_surrogate = s[0] == 0xed && s[1] >= 0xa0;
    const int is_beyond = s[0] == 0xf4 && s[1] >= 0x90;
    return is_overlong || is_surrogate || is_beyond ? 0 : n;
}

void text_to_utf8(const char *text, char *utf8, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;
    while (*s) {
        const size_t n = character_bytes(s);
        const size_t step = n ? n : 1;
        if (used + step >= bytes)
            break;
        if (n && *s >= 0x20)
            memcpy(utf8 + used, s, n);
        else
            utf8[used] = '?';
        used += step;
        s += step;
    }
    utf8[used] = '\0';
}

static void select_style(const struct canvas *canvas, struct text_style style)
{
    cairo_select_font_face(canvas->cairo, FONT, CAIRO_FONT_SLANT_NORMAL,
                           style.is_bold ? CAIRO_FONT_WEIGHT_BOLD
                                         : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(canvas->cairo, style.size);
}

/* The width of valid UTF-8 in the selected style. */
static double advance(const struct canvas *canvas, const char *utf8)
{
    cairo_text_extents_t extents;
    cairo_text_extents(canvas->cairo, utf8, &extents);
    return extents.x_advance;
}

double canvas_text_width(const struct canvas *canvas, struct text_style style,
                         const char *text)
{
    char utf8[TEXT_BYTES];
    text_to_utf8(text, utf8, sizeof(utf8));
    select_style(canvas, style);
    return advance(canvas, utf8);
}

double canvas_text(const struct canvas *canvas, double x, double y, enum align align,
                   struct text_style style, const char *text)
{
    char utf8[TEXT_BYTES];
    text_to_utf8(text, utf8, sizeof(utf8));
    select_style(canvas, style);
    const double width = advance(canvas, utf8);
    if (align == ALIGN_CENTER)
        x -= width / 2.0;
    else if (align == ALIGN_RIGHT)
        x -= width;
    canvas_ink(canvas, style.ink, 1.0);
    cairo_move_to(canvas->cairo, x, y);
    cairo_show_text(canvas->cairo, utf8);
    cairo_new_path(canvas->cairo);
    return width;
}

#define NAME_LEAST 9 // bytes of a name, below which it is nobody's

static size_t back_to_character(const char *utf8, size_t at)
{
    while (at > 0 && ((unsigned char)utf8[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* About `keep` bytes of `utf8`, from its start or from both ends, with an ellipsis at the
 * cut. */
static void cut(const char *utf8, size_t keep, int keeps_ends, char *text, size_t bytes)
{
    const size_t length = strlen(utf8), tail = keeps_ends ? keep / 2 : 0;
    const size_t head = back_to_character(utf8, keep - tail);
    size_t from = length - tail;
    while (((unsigned char)utf8[from] & 0xc0) == 0x80)
        from++;
    snprintf(text, bytes, "%.*s" ELLIPSIS "%s", (int)head, utf8, utf8 + from);
}

static double text_fit(const struct canvas *canvas, double x, double y, double room,
                       struct text_style style, const char *utf8, int keeps_ends)
{
    char shown[TEXT_BYTES + 8];
    if (advance(canvas, utf8) <= room)
        return canvas_text(canvas, x, y, ALIGN_LEFT, style, utf8);
    // The longest cut that fits, by bisection: low fits (or is empty), high does not.
    size_t low = 0, high = strlen(utf8);
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        cut(utf8, middle, keeps_ends, shown, sizeof(shown));
        if (advance(canvas, shown) <= room)
            low = middle;
        else
            high = middle;
    }
    cut(utf8, low, keeps_ends, shown, sizeof(shown));
    if (advance(canvas, shown) > room || (keeps_ends && low < NAME_LEAST))
        return 0.0;
    return canvas_text(canvas, x, y, ALIGN_LEFT, style, shown);
}

double canvas_text_fit(const struct canvas *canvas, double x, double y, double room,
                       struct text_style style, const char *text)
{
    char utf8[TEXT_BYTES];
    text_to_utf8(text, utf8, sizeof(utf8));
    select_style(canvas, style);
    return text_fit(canvas, x, y, room, style, utf8, 0);
}

double canvas_path_fit(const struct canvas *canvas, double x, double y, double room,
                       struct text_style style, const char *text)
{
    char utf8[TEXT_BYTES], shorter[TEXT_BYTES + 8];
    text_to_utf8(text, utf8, sizeof(utf8));
    select_style(canvas, style);
    const char *slash = strrchr(utf8, '/');
    if (!slash || advance(canvas, utf8) <= room)
        return text_fit(canvas, x, y, room, style, utf8, 1);
    snprintf(shorter, sizeof(shorter), ELLIPSIS "%s", slash);
    return text_fit(canvas, x, y, room, style,
                    advance(canvas, shorter) <= room ? shorter : slash + 1, 1);
}

double canvas_power(const struct canvas *canvas, double x, double y, enum align align,
                    struct text_style style, const char *text)
{
    if (strncmp(text, "2^", 2) != 0)
        return canvas_text(canvas, x, y, align, style, text);
    char exponent[32];
    const int is_negative = text[2] == '-';
    snprintf(exponent, sizeof(exponent), "%s%s", is_negative ? MINUS : "",
             text + 2 + is_negative);
    struct text_style raised = style;
    raised.size = style.size * 0.76;
    const double base_width = canvas_text_width(canvas, style, "2");
    const double gap = style.size * 0.04;
    const double width = base_width + gap + canvas_text_width(canvas, raised, exponent);
    if (align == ALIGN_CENTER)
        x -= width / 2.0;
    else if (align == ALIGN_RIGHT)
        x -= width;
    canvas_text(canvas, x, y, ALIGN_LEFT, style, "2");
    canvas_text(canvas, x + base_width + gap, y - style.size * 0.36, ALIGN_LEFT, raised,
                exponent);
    return width;
}

const char *grouped_number(double value, int decimals, char *text, size_t bytes)
{
    char plain[64];
    if (!isfinite(value) || fabs(value) >= 1e15) {
        snprintf(text, bytes, isfinite(value) ? "%.3g" : "?", value);
        return text;
    }
    snprintf(plain, sizeof(plain), "%.*f", decimals, fabs(value));
    const size_t whole = strcspn(plain, ".");
    size_t used = 0;
    if (value < 0.0 && strspn(plain, "0.") != strlen(plain))
        used += (size_t)snprintf(text, bytes, MINUS);
    for (size_t i = 0; plain[i] && used + 2 < bytes; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = plain[i];
    }
    text[used] = '\0';
    return text;
}

const char *kimg_text(double kimg, char *text, size_t bytes)
{
    const double size = fabs(kimg);
    return grouped_number(kimg, size < 9.995 ? 2 : size < 999.95 ? 1 : 0, text, bytes);
}
