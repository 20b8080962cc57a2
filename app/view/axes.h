/* axes.h - ranges with a margin, nice ticks, grid lines with labels.
 * Flow:  series ranges -> [axes] -> plot.
 * Owns:  nothing. */
#ifndef APP_VIEW_AXES_H
#define APP_VIEW_AXES_H

#include "app/view/canvas.h"

struct axis {
    double low, high; // on a log2 axis: exponents
    double step;      // between ticks, at multiples of it
    int is_log2;
};

/* The exponents low..high (NaN: none yet, then around `otherwise`), with a margin, at
 * least four apart, ticks at whole exponents. */
struct axis axis_of_scales(double low, double high, double otherwise);
/* Values low..high (NaN: none yet) with a margin; about `tick_count` ticks at 1, 2 or 5
 * times a power of ten. */
struct axis axis_of_values(double low, double high, int tick_count);
/* Exactly low..high, the same ticks. */
struct axis axis_exact(double low, double high, int tick_count);

double axis_y(const struct axis *axis, struct area inner, double value);
double axis_x(const struct axis *axis, struct area inner, double value);
/* "2^-4", "0.25", "12,000" */
const char *axis_label(const struct axis *axis, double tick, char *text, size_t bytes);

/* Grid lines across `inner` with labels to its left (y) or below it (x, with "kimg"). */
void axis_draw_y(const struct canvas *canvas, const struct axis *axis, struct area inner);
enum axis_labels { AXIS_BARE, AXIS_LABELS, AXIS_LABELS_AND_UNIT };
void axis_draw_x(const struct canvas *canvas, const struct axis *axis, struct area inner,
                 enum axis_labels labels);

#endif
