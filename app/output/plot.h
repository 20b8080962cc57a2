/* plot.h - the two plots of a run: loss scales on a log2 axis, and losses.
 * Flow:  dashboard facts + series -> [plot_scales, plot_losses] -> canvas.
 * Owns:  nothing.
 *
 * A panel is a title and a legend above an inner area with axes; both plots share their
 * x axis (kimg), so that one pointer reads both. */
#ifndef APP_OUTPUT_PLOT_H
#define APP_OUTPUT_PLOT_H

#include "app/output/canvas.h"
#include "app/output/dashboard.h"
#include "app/output/series.h"

/* Where the curves of a panel are. has_kimg: numbers below the x axis. */
struct area plot_inner(struct area panel, int has_kimg);

void plot_scales(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg);
void plot_losses(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg);

/* Two heat maps, layers by looks: how far each tensor is from overflow, and how much of it is
 * lost at the small end. */
void plot_layers(const struct canvas *canvas, const struct dashboard *dashboard,
                 struct area area);

/* The line and the box at the step below the pointer; inner areas of both plots. */
void plot_hover(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, struct area scales, struct area losses);

/* Columns of a plot that is `width` units wide: one per device pixel. */
int plot_columns(const struct canvas *canvas, double width);

#endif
