/* dashboard.h - the one drawing of a run: samples, its loss scales, both losses, and
 * where gradients are clipped their norms; or, in the place of the curves, what every
 * layer's tensors held.
 * Flow:  history + sample pixels -> [dashboard_draw] -> window, preview.png, scales.png.
 * Owns:  nothing; draws into pixels. Free of SDL, so that it works and is tested
 * headless.
 *
 * Colours that stay apart for colour-blind readers, and a dash pattern besides: G blue
 * solid, D orange dashed, D's loss on fakes rose dotted. Scales on a log2 axis whose
 * range follows the data (below 2^0 too); every skip is a triangle on its own curve,
 * every step that was held back a ring. Dense curves are reduced to one min/max pair a
 * column. */
#ifndef APP_VIEW_DASHBOARD_H
#define APP_VIEW_DASHBOARD_H

#include <stdint.h>

#include "app/view/history.h"
#include "app/view/layers.h"
#include "kernels/base/status.h"

struct dashboard {
    char title[160];    // "dcgan28 on fashion-mnist"
    char run[256];      // run folder
    char device[160];   // "AMD EPYC, avx512, 2 threads"
    char precision[40]; // "fp16", "G fp32, D fp16"
    char state[64];     // "training", "paused", "finished", "saving ..."
    int has_ended;      // training has; state then says how
    char reason[256];   // of a run that failed or diverged; else ""
    int64_t step;
    double kimg, kimg_total, images_per_sec, eta_sec, elapsed_sec, epoch;
    int64_t skipped[ROLES]; // totals
    int64_t held[ROLES];
    float scale[SCALE_COUNT]; // SCALE_D_FAKE: 0 where D has one scale
    int32_t growth_tracker[SCALE_COUNT];
    int64_t growth_interval[SCALE_COUNT];
    float clip_norm[ROLES]; // 0: gradients are not clipped, nor their norm measured
    // The sample grid: columns x rows tiles of [h,w,channels] u8, tile after tile.
    int grid_columns, grid_rows, tile_w, tile_h, tile_channels;
    const uint8_t *tiles; // NULL until the first samples
    double tiles_kimg;    // when they were drawn
    const struct history_point *points;
    size_t point_count;
    const struct history_note *notes;
    size_t note_count;
    const struct layers_view *layers; // NULL: none
    int shows_layers;                 // the heat map in the place of both plots
    int hover_x, hover_y; // mouse in pixels, -1 when away: a read-out at that step
    int has_keys;         // a window: the footer tells its keys
    char notice[96]; // a passing word in the footer ("snapshot asked for"); "" for none
};

#define DASHBOARD_WIDTH 1280
#define DASHBOARD_HEIGHT 720

/* Draws into 32-bit xRGB pixels (0x00RRGGBB, native order), stride in bytes, laid out to
 * fill width x height (any size from 320x180 on; nothing happens for less than 1x1).
 * Below 1280x720 text shrinks less than the picture does, so that it stays legible. */
void dashboard_draw(const struct dashboard *dashboard, uint32_t *pixels, int width,
                    int height, int stride);

/* The whole frame as a PNG; only the scale curves (1000x420); only the heat map of layers
 * (1280x800). All atomic, over
 * an older file of that name; STATUS_FAILED with path and reason, see grid.h. */
enum status dashboard_write_png(const struct dashboard *dashboard, const char *path);
enum status dashboard_write_scales(const struct dashboard *dashboard, const char *path);
enum status dashboard_write_layers(const struct dashboard *dashboard, const char *path);

#endif
