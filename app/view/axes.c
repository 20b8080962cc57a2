/* axes.c - where the numbers of a plot stand. */
#include "app/view/axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABEL_SIZE 11.0
#define LABEL_GAP 8.0

static const struct text_style label_style = {LABEL_SIZE, 0, INK_FAINT};

struct axis axis_of_scales(double low, double high, double otherwise)
{
    struct axis axis = {.is_log2 = 1};
    if (isnan(low) || isnan(high))
        low = high = isfinite(otherwise) ? otherwise : 16.0;
    // Never a whole exponent at the very edge, where its label would touch its
    // neighbours.
    const double margin = fmax(0.75, 0.06 * (high - low));
    axis.low = low - margin;
    axis.high = high + margin;
    const double missing = fmax(0.0, 4.5 - (axis.high - axis.low));
    axis.low -= missing / 2.0;
    axis.high += missing / 2.0;
    const double span = axis.high - axis.low;
    axis.step = span <= 6.0 ? 1.0 : span <= 13.0 ? 2.0 : span <= 28.0 ? 4.0 : 8.0;
    while (span / axis.step > 10.0)
        axis.step *= 2.0;
    return axis;
}

static double nice_step(double span, int tick_count)
{
    const double raw = span / tick_count;
    const double power = pow(10.0, floor(log10(raw)));
    const double digit = raw / power;
    return power * (digit <= 1.0 ? 1.0 : digit <= 2.0 ? 2.0 : digit <= 5.0 ? 5.0 : 10.0);
}

struct axis axis_exact(double low, double high, int tick_count)
{
    return (struct axis){
        .low = low, .high = high, .step = nice_step(high - low, tick_count)};
}

struct axis axis_of_values(double low, double high, int tick_count)
{
    if (isnan(low) || isnan(high))
        return axis_exact(0.0, 2.1, tick_count);
    // A flat curve still wants an axis, as wide as its value allows to tell numbers
    // apart.
    const double least = fmax(0.1, 1e-3 * fmax(fabs(low), fabs(high)));
    const double missing = fmax(0.0, least - (high - low));
    const double margin = 0.06 * (high - low) + missing / 2.0;
    // A loss that never is negative gets no room below zero.
    const double floor_value = low >= 0.0 ? 0.0 : -INFINITY;
    return axis_exact(fmax(floor_value, low - margin), high + margin, tick_count);
}

double axis_y(const struct axis *axis, struct area inner, double value)
{
    return inner.y + inner.h * (axis->high - value) / (axis->high - axis->low);
}

double axis_x(const struct axis *axis, struct area inner, double value)
{
    return inner.x + inner.w * (value - axis->low) / (axis->high - axis->low);
}

const char *axis_label(const struct axis *axis, double tick, char *text, size_t bytes)
{
    if (axis->is_log2) {
        snprintf(text, bytes, "2^%d", (int)lround(tick));
        return text;
    }
    if (fabs(tick) < 1e-9 * axis->step)
        return strcpy(text, "0");
    const double decimals = -floor(log10(axis->step) + 1e-9);
    if (fabs(tick) >= 1e7 || decimals > 6.0) {
        snprintf(text, bytes, "%.3g", tick);
        return text;
    }
    return grouped_number(tick, decimals > 0.0 ? (int)decimals : 0, text, bytes);
}

/* The first tick and how many there are; the bound keeps a strange range harmless. */
static int ticks(const struct axis *axis, double *first)
{
    const double start = ceil(axis->low / axis->step - 1e-9);
    const double end = floor(axis->high / axis->step + 1e-9);
    *first = start * axis->step;
    const double count = end - start + 1.0;
    return count >= 0.0 && count < 50.0 ? (int)count : 0;
}

void axis_draw_y(const struct canvas *canvas, const struct axis *axis, struct area inner)
{
    char text[48];
    double first;
    const int count = ticks(axis, &first);
    double taken = INFINITY; // labels so far reach up to here
    for (int i = 0; i < count; i++) {
        const double tick = first + i * axis->step;
        const double y = axis_y(axis, inner, tick);
        canvas_hairline(canvas, inner.x, y, inner.x + inner.w, y, INK_LINE, 0.85);
        if (y > taken - LABEL_SIZE)
            continue;
        taken = y;
        canvas_power(canvas, inner.x - LABEL_GAP, y + LABEL_SIZE * 0.36, ALIGN_RIGHT,
                     label_style, axis_label(axis, tick, text, sizeof(text)));
    }
}

void axis_draw_x(const struct canvas *canvas, const struct axis *axis, struct area inner,
                 enum axis_labels labels)
{
    char text[48];
    double first;
    const int count = ticks(axis, &first);
    const double bottom = inner.y + inner.h, baseline = bottom + LABEL_SIZE + 7.0;
    const double right = inner.x + inner.w;
    double taken = inner.x - 15.0; // labels so far reach to here
    if (labels == AXIS_LABELS_AND_UNIT)
        canvas_text(canvas, taken, baseline, ALIGN_RIGHT, label_style, "kimg");
    for (int i = 0; i < count; i++) {
        const double tick = first + i * axis->step;
        const double x = axis_x(axis, inner, tick);
        canvas_hairline(canvas, x, inner.y, x, bottom, INK_LINE, 0.85);
        if (labels == AXIS_BARE)
            continue;
        axis_label(axis, tick, text, sizeof(text));
        const double width = canvas_text_width(canvas, label_style, text);
        const double left = fmin(x - width / 2.0, right - width); // stays on the panel
        if (left < taken + 2.0)
            continue;
        canvas_text(canvas, left, baseline, ALIGN_LEFT, label_style, text);
        taken = left + width + 6.0;
    }
}
