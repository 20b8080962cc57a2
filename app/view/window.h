/* window.h - the SDL2 window: shows the dashboard, takes keys.
 * Flow:  monitor -> [window] (main thread only) -> screen;  keys -> monitor requests.
 * Owns:  SDL, the window, a streaming texture.  Borrows: the monitor.
 *
 * A window is opened only when a display is named (DISPLAY, WAYLAND_DISPLAY, or an
 * explicit SDL_VIDEODRIVER) and SDL's driver is a real one: SDL 2.26 succeeds silently
 * with an invisible "offscreen" driver. A driver that the user names in SDL_VIDEODRIVER
 * is taken as it is, "dummy" included (windows without a screen, for tests). Closing the
 * window never ends the training, nor does the death of an X server (with libX11 1.7 or
 * newer). */
#ifndef APP_VIEW_WINDOW_H
#define APP_VIEW_WINDOW_H

#include "app/view/monitor.h"

struct window;

/* The size that a window opens with on a desktop that has so much room (0: not known):
 * three quarters of its width or height, 16:9; at least 1280x720, or what nearly all of
 * it holds. */
void window_size(int usable_w, int usable_h, int *width, int *height);

/* STATUS_ENVIRONMENT with the reason when no window can be had. */
enum status window_open(const char *title, struct monitor *monitor,
                        struct window **window);
void window_close(struct window *window);

/* Handles input and redraws on news, at most 10 times a second, until monitor_finish(),
 * the user closed the window, or the display has gone; a pause is ended then.
 * Keys: space pause, l layers or curves, s snapshot, e export, [ ] { } scales, q save and
 * quit; when training has ended only l, e and q. On the thread that opened the
 * window. */
void window_run(struct window *window);

#endif
