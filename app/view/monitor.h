/* monitor.h - what the training thread tells the screen, and what the screen asks of it.
 * Flow:  train (worker thread) -> [monitor] -> window (main thread), and keys back.
 * Owns:  a copy of the newest dashboard facts and tiles, and the history; one mutex.
 *
 * Publishing copies a few kilobytes and returns; drawing happens elsewhere. Requests are
 * flags that the worker collects between steps; signals set the same flags. */
#ifndef APP_VIEW_MONITOR_H
#define APP_VIEW_MONITOR_H

#include "app/view/dashboard.h"
#include "app/view/layers.h"

/* Bits of monitor_requests(). */
enum {
    REQUEST_SNAPSHOT = 1, // save a checkpoint now
    REQUEST_EXPORT = 2,   // write the sample grid now
    REQUEST_QUIT = 4,     // save, then end with exit 0
    REQUEST_PAUSE = 8,    // told as long as paused
    REQUEST_CONTROL = 16, // look at what ctl asks (app/live/control.h)
    REQUEST_HALVE_D = 32, // these four: a network's loss scale
    REQUEST_DOUBLE_D = 64,
    REQUEST_HALVE_G = 128,
    REQUEST_DOUBLE_G = 256,
};

struct monitor;

/* NULL when there is no memory. */
struct monitor *monitor_create(void);
void monitor_destroy(struct monitor *monitor);
struct history *monitor_history(struct monitor *monitor);
struct layers *monitor_layers(struct monitor *monitor);

/* Worker: facts without tiles and points; tiles only when there are new ones (else NULL).
 */
void monitor_publish(struct monitor *monitor, const struct dashboard *facts,
                     const uint8_t *tiles);
/* Worker: the bits asked for since the last call (PAUSE stays as long as it holds). */
int monitor_take_requests(struct monitor *monitor);
/* Worker: waits until the pause ends or something else is asked for. A new wait after
 * that request was taken goes on waiting. */
void monitor_wait_while_paused(struct monitor *monitor);
/* Worker: returns when something is asked for, or after a moment. */
void monitor_wait_for_request(struct monitor *monitor);
/* Worker: all is done; window_run() ends. */
void monitor_finish(struct monitor *monitor);

/* Screen: asks for `bits`; PAUSE toggles. */
void monitor_request(struct monitor *monitor, int bits);
int monitor_is_paused(struct monitor *monitor);
int monitor_is_finished(struct monitor *monitor);
/* A number that grows with every publish: redraw when it changed. */
uint64_t monitor_version(struct monitor *monitor);
/* Screen: a consistent copy to draw from. Start with a zeroed view; it owns what it
 * points to and is reused from frame to frame. Hover is away (-1) after each read. */
struct monitor_view {
    struct dashboard dashboard; // points into the buffers below
    uint8_t *tiles;
    size_t tiles_room;
    struct history_point *points;
    size_t points_room;
    struct history_note *notes;
    size_t notes_room;
    struct layers_view layers;
};
void monitor_read(struct monitor *monitor, struct monitor_view *view);
void monitor_view_release(struct monitor_view *view);

#endif
