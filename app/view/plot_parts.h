/* plot_parts.h - what the plots and the read-out share: pens, marks, panels.
 * Flow:  plot_scales, plot_losses, plot_hover -> [plot_parts] -> canvas.
 * Owns:  nothing. */
#ifndef APP_VIEW_PLOT_PARTS_H
#define APP_VIEW_PLOT_PARTS_H

#include "app/view/axes.h"
#include "app/view/canvas.h"
#include "app/view/plot.h"
#include "app/view/series.h"

#define PLOT_PADDING 14.0

extern const enum ink network_ink[SCALE_COUNT];

/* "G"; "D", or where its losses have a scale each "D real" and "D fake". */
const char *plot_scale_name(const struct dashboard *dashboard, int scale);

/* The middle of a column. */
double column_x(const struct series *series, struct area inner, int column);

/* A new path in the colour of that scale or network; D is dashed besides, and its loss on
 * fakes dotted, so that they can be told from G without colour. plot_stroke() draws it
 * and ends the dashes. */
void plot_select_pen(const struct canvas *canvas, int net, double width);
void plot_stroke(const struct canvas *canvas);
/* Clips to the inner area until cairo_restore(). */
void plot_begin_curves(const struct canvas *canvas, struct area inner);

/* The newest value. D's dot is smaller, so that G's is seen below it. */
void plot_dot(const struct canvas *canvas, double x, double y, int net);
/* Adds a triangle to the path, pointing down to (x, y); D's is smaller for the same
 * reason. */
void plot_triangle(const struct canvas *canvas, double x, double y, int net);
/* A ring around (x, y), in the network's colour. */
void plot_ring(const struct canvas *canvas, double x, double y, int net);
/* A short sample of the line, then `name`. Returns where the text ends. */
double plot_key(const struct canvas *canvas, double x, double y, int net,
                const char *name);

/* The panel with its title and a note below it, which end that far from the panel's left:
 * a legend may stand beside them. */
void plot_title(const struct canvas *canvas, struct area panel, const char *title,
                const char *note, double title_end, double note_end);
/* Both axes, and a friendly word while there is nothing to show. */
void plot_frame(const struct canvas *canvas, const struct series *series,
                const struct axis *y_axis, struct area inner, int has_kimg);

/* "1.104", "NaN", "inf", "2.31e+04" */
const char *loss_text(float loss, char *text, size_t bytes);

#endif
