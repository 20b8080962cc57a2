/* display.h - is there a screen for a window, and what if it goes away.
 * Flow:  window_open -> [display_start] -> SDL.
 * Owns:  SDL's video part between display_start() and display_stop().
 *
 * SDL 2.26 succeeds without a screen by a driver that shows nothing, and Xlib ends the
 * whole process when its server dies; a training run must suffer neither. */
#ifndef APP_VIEW_DISPLAY_H
#define APP_VIEW_DISPLAY_H

#include <signal.h>

#include "kernels/base/status.h"

/* Starts SDL's video for a screen that a person can see. STATUS_ENVIRONMENT otherwise,
 * with the reason; SDL is stopped again then. A driver named by the user in
 * SDL_VIDEODRIVER is taken as it is, "dummy" too: that is how a window is tested without
 * a screen. Errors of the X protocol are passed over from now on, where Xlib would end
 * the process. */
enum status display_start(void);
void display_stop(void);

/* From now on a dead X server sets *is_lost instead of ending the process. `sdl_window`
 * is an SDL_Window; nothing happens unless it is on X11. Once lost, SDL must not be
 * called again. is_lost must live as long as the process. */
void display_survive_loss(void *sdl_window, volatile sig_atomic_t *is_lost);

/* True for the SDL_Event (of type SDL_SYSWMEVENT, which must be enabled) that tells that
 * another program has destroyed the X window under `sdl_window`; SDL itself does not. */
int display_event_destroys(const void *sdl_event, void *sdl_window);

#endif
