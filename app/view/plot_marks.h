/* plot_marks.h - what notes of the history add to a plot: rollbacks, and the key to
 * marks.
 * Flow:  plot_scales, plot_losses, plot_layers -> [plot_marks] -> canvas.
 * Owns:  nothing. */
#ifndef APP_VIEW_PLOT_MARKS_H
#define APP_VIEW_PLOT_MARKS_H

#include "app/view/canvas.h"
#include "app/view/dashboard.h"

/* True where settings were changed or the run went back: a row of the legend says so. */
int plot_has_mark_key(const struct dashboard *dashboard);
/* That row, on a baseline. */
void plot_mark_key(const struct canvas *canvas, const struct dashboard *dashboard,
                   double x, double y, double end);

/* Of rollbacks alone. */
void plot_rollback_key(const struct canvas *canvas, const struct dashboard *dashboard,
                       double x, double y, double end);

/* A dashed line where the run went back to, on an axis from `low` to `high` kimg across
 * `inner`; has_names: "rollback 3" beside it, where there is room. */
void plot_rollbacks(const struct canvas *canvas, const struct dashboard *dashboard,
                    double low, double high, struct area inner, int has_names);

/* The note nearest to `kimg`, at most `reach` kimg away; NULL for none. */
const struct history_note *plot_note_at(const struct dashboard *dashboard, double kimg,
                                        double reach);

#endif
