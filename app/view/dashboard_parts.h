/* dashboard_parts.h - the parts of the picture around the plots.
 * Flow:  dashboard_draw -> [draw_header, draw_samples, draw_footer] -> canvas.
 * Owns:  nothing. */
#ifndef APP_VIEW_DASHBOARD_PARTS_H
#define APP_VIEW_DASHBOARD_PARTS_H

#include "app/view/canvas.h"
#include "app/view/dashboard.h"

// Units that the layout keeps free for them.
#define MARGIN 20.0
#define HEADER 78.0
#define FOOTER 34.0
#define CAPTION 26.0 // below the samples

/* Title, state, device, and the numbers of the run with a progress bar below. */
void draw_header(const struct canvas *canvas, const struct dashboard *dashboard);
/* The grid in `side`, its caption below it. */
void draw_samples(const struct canvas *canvas, const struct dashboard *dashboard,
                  struct area side);
/* The run folder (or a passing notice), and in a window the keys. */
void draw_footer(const struct canvas *canvas, const struct dashboard *dashboard);

#endif
