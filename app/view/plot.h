/* plot.h - the two plots of a run: loss scales on a log2 axis, and losses.
 * Flow:  dashboard facts + series -> [plot_scales, plot_losses] -> canvas.
 * Owns:  nothing.
 *
 * A panel is a title and a legend above an inner area with axes; both plots share their
 * x axis (kimg), so that one pointer reads both. */
#ifndef APP_VIEW_PLOT_H
#define APP_VIEW_PLOT_H

#include "app/view/canvas.h"
#include "app/view/dashboard.h"
#include "app/view/series.h"

/* Where the curves of a panel are. has_kimg: numbers below the x axis. */
struct area plot_inner(struct area panel, int has_kimg);
/* The same of the panel of scales, whose legend may have more rows. */
struct area plot_inner_of_scales(const struct dashboard *dashboard, struct area panel,
                                 int has_kimg);

/* How many scales there are to draw: two, or three. */
int plot_scale_count(const struct dashboard *dashboard);

void plot_scales(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg);
/* Norms of unscaled gradients before clipping, on a log2 axis: a line where they are
 * clipped to, and a mark at the foot for every column in which they were. */
void plot_norms(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, struct area panel, int has_kimg);
int plot_has_norms(const struct dashboard *dashboard);
void plot_losses(const struct canvas *canvas, const struct dashboard *dashboard,
                 const struct series *series, struct area panel, int has_kimg);

/* Two heat maps, layers by looks: how far each tensor is from overflow, and how much of
 * it is lost at the small end. */
void plot_layers(const struct canvas *canvas, const struct dashboard *dashboard,
                 struct area area);

/* The line and the box at the step below the pointer, and what its marks stand for; inner
 * areas of `count` plots with one range of kimg. */
void plot_hover(const struct canvas *canvas, const struct dashboard *dashboard,
                const struct series *series, const struct area *plots, int count);

/* Columns of a plot that is `width` units wide: one per device pixel. */
int plot_columns(const struct canvas *canvas, double width);

#endif
