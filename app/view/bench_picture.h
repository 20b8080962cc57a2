/* bench_picture.h - several runs in one picture: loss scales and a row of samples of
 * each.
 * Flow:  bench_scaler_report.c -> [bench_picture_write] -> bench.png.
 * Owns:  nothing. */
#ifndef APP_VIEW_BENCH_PICTURE_H
#define APP_VIEW_BENCH_PICTURE_H

#include "app/view/dashboard.h"

/* One panel a run, three in a row: its title, a note (`run`), a red frame and note where
 * its `state` is "diverged", its scales on axes that all panels share (0 to kimg_total;
 * the same powers of two), and its first row of tiles, if it has tiles. Atomic, over an
 * older file; STATUS_FAILED with path and reason, see grid.h. */
enum status bench_picture_write(const char *title, const struct dashboard *runs,
                                int count, const char *path);

#endif
