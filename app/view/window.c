/* window.c - the dashboard in a window, and its keys.
 *
 * Watching must not slow the training: the loop sleeps until input or news, and news is
 * drawn so seldom that drawing takes at most NEWS_SHARE of one core. Cairo draws straight
 * into the texture's memory. SDL's software renderer is tried first: a few milliseconds a
 * frame, and no graphics driver in a process that may train on the same card. */
#include "app/view/window.h"

#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/view/display.h"
#include "kernels/base/process.h"

#define FRAME_SEC 0.1    // at most 10 frames a second
#define NEWS_SHARE 0.04  // of one core, for drawing news
#define NEWS_SEC_MAX 2.0 // but news is never older than this
#define NOTICE_SEC 2.5

struct window {
    struct monitor *monitor;
    struct monitor_view view;
    SDL_Window *sdl_window;
    SDL_Renderer *renderer;
    SDL_Texture *texture;
    int width, height;    // of the texture, in pixels
    int mouse_x, mouse_y; // in pixels; -1 when away
    int is_closed;        // by the user
    int is_destroyed;     // by another program; is_closed too then
    int is_quitting;      // q was pressed
    int shows_layers;     // l was pressed
    int has_input;        // something changed here: redraw
    uint64_t drawn_version;
    double last_frame, frame_cost; // seconds
    char notice[96];
    double notice_until;
    volatile sig_atomic_t is_lost; // the display has gone away
};

void window_size(int usable_w, int usable_h, int *width, int *height)
{
    *width = DASHBOARD_WIDTH;
    *height = DASHBOARD_HEIGHT;
    if (usable_w < 1 || usable_h < 1)
        return;
    if (usable_w * 3 / 4 > *width && usable_h * 3 / 4 > *height) {
        // A 16:9 picture in three quarters of both.
        const int by_height = usable_h * 3 / 4 * 16 / 9, by_width = usable_w * 3 / 4;
        *width = by_width < by_height ? by_width : by_height;
        *height = *width * 9 / 16;
    }
    if (usable_w * 19 / 20 < *width)
        *width = usable_w * 19 / 20;
    if (usable_h * 19 / 20 < *height)
        *height = usable_h * 19 / 20;
}

static void choose_size(int *width, int *height)
{
    SDL_Rect usable;
    if (SDL_GetDisplayUsableBounds(0, &usable) != 0)
        usable.w = usable.h = 0;
    window_size(usable.w, usable.h, width, height);
}

static int make_window(struct window *window, const char *title)
{
    int width, height;
    choose_size(&width, &height);
    window->sdl_window =
        SDL_CreateWindow(title, SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED, width,
                         height, SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI);
    if (!window->sdl_window)
        return 0;
    display_survive_loss(window->sdl_window, &window->is_lost);
    SDL_EventState(SDL_SYSWMEVENT, SDL_ENABLE); // see display_event_destroys()
    SDL_SetWindowMinimumSize(window->sdl_window, 480, 270);
    SDL_StopTextInput(); // letters are keys here, not the business of an input method
    window->renderer = SDL_CreateRenderer(window->sdl_window, -1, SDL_RENDERER_SOFTWARE);
    if (!window->renderer)
        window->renderer = SDL_CreateRenderer(window->sdl_window, -1, 0);
    return window->renderer != NULL;
}

enum status window_open(const char *title, struct monitor *monitor,
                        struct window **window)
{
    struct window *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return status_fail(STATUS_FAILED, "no memory for a window");
    const enum status status = display_start();
    if (status != STATUS_OK) {
        free(opened);
        return status;
    }
    opened->monitor = monitor;
    opened->mouse_x = opened->mouse_y = -1;
    if (!make_window(opened, title)) {
        status_fail(
            STATUS_ENVIRONMENT,
            "no window can be opened: SDL's driver '%s' says: %s; use --preview png",
            SDL_GetCurrentVideoDriver(), SDL_GetError());
        window_close(opened);
        return STATUS_ENVIRONMENT;
    }
    opened->has_input = 1;
    *window = opened;
    return STATUS_OK;
}

void window_close(struct window *window)
{
    if (!window)
        return;
    monitor_view_release(&window->view);
    // A lost display would be touched by every one of SDL's destructors, and Xlib still
    // knows the address of is_lost: what is left stays until the process ends.
    if (window->is_lost)
        return;
    if (window->texture)
        SDL_DestroyTexture(window->texture);
    if (window->renderer)
        SDL_DestroyRenderer(window->renderer);
    if (window->sdl_window)
        SDL_DestroyWindow(window->sdl_window);
    display_stop();
    free(window);
}

/* ---- Input ----------------------------------------------------------------------- */

static void notify(struct window *window, const char *text)
{
    snprintf(window->notice, sizeof(window->notice), "%s", text);
    window->notice_until = now_seconds() + NOTICE_SEC;
}

static void ask_scale(struct window *window, int request)
{
    char text[64];
    snprintf(text, sizeof(text), "%s %c's loss scale after this step",
             request & (REQUEST_HALVE_D | REQUEST_HALVE_G) ? "halving" : "doubling",
             request & (REQUEST_HALVE_G | REQUEST_DOUBLE_G) ? 'G' : 'D');
    monitor_request(window->monitor, request);
    notify(window, text);
}

// Keys that ask the training for something; false for any other.
static int asks_training(SDL_Keycode key)
{
    return key == SDLK_SPACE || key == SDLK_s || key == SDLK_LEFTBRACKET ||
           key == SDLK_RIGHTBRACKET;
}

static void handle_key(struct window *window, const SDL_KeyboardEvent *key)
{
    const int is_shifted = (key->keysym.mod & KMOD_SHIFT) != 0;
    // Ctrl-S and its like belong to the desktop; a key that is held down counts once.
    if (key->repeat || (key->keysym.mod & (KMOD_CTRL | KMOD_ALT | KMOD_GUI)))
        return;
    if (window->view.dashboard.has_ended && asks_training(key->keysym.sym)) {
        notify(window, "training has ended");
        window->has_input = 1;
        return;
    }
    switch (key->keysym.sym) {
    case SDLK_SPACE: monitor_request(window->monitor, REQUEST_PAUSE); break;
    case SDLK_s:
        monitor_request(window->monitor, REQUEST_SNAPSHOT);
        notify(window, "saving a snapshot after this step");
        break;
    case SDLK_e:
        monitor_request(window->monitor, REQUEST_EXPORT);
        notify(window, "writing the sample grid after this step");
        break;
    case SDLK_l: window->shows_layers = !window->shows_layers; break;
    case SDLK_LEFTBRACKET: // with shift: { and }
        ask_scale(window, is_shifted ? REQUEST_HALVE_G : REQUEST_HALVE_D);
        break;
    case SDLK_RIGHTBRACKET:
        ask_scale(window, is_shifted ? REQUEST_DOUBLE_G : REQUEST_DOUBLE_D);
        break;
    case SDLK_q:
        monitor_request(window->monitor, REQUEST_QUIT);
        window->is_quitting = 1;
        break;
    default: // Escape too: nothing that cannot be undone hangs on a stray key
        return;
    }
    window->has_input = 1;
}

/* The mouse speaks in window units; on a high-resolution screen a unit is several pixels.
 */
static void handle_motion(struct window *window, const SDL_MouseMotionEvent *motion)
{
    int unit_w = 0, unit_h = 0;
    SDL_GetWindowSize(window->sdl_window, &unit_w, &unit_h);
    window->mouse_x = unit_w > 0 ? motion->x * window->width / unit_w : motion->x;
    window->mouse_y = unit_h > 0 ? motion->y * window->height / unit_h : motion->y;
    window->has_input = 1;
}

static void handle_event(struct window *window, const SDL_Event *event)
{
    switch (event->type) {
    case SDL_QUIT: window->is_closed = 1; break;
    case SDL_KEYDOWN: handle_key(window, &event->key); break;
    case SDL_MOUSEMOTION: handle_motion(window, &event->motion); break;
    case SDL_WINDOWEVENT:
        if (event->window.event == SDL_WINDOWEVENT_CLOSE)
            window->is_closed = 1;
        if (event->window.event == SDL_WINDOWEVENT_LEAVE)
            window->mouse_x = window->mouse_y = -1;
        window->has_input = 1;
        break;
    case SDL_SYSWMEVENT:
        if (display_event_destroys(event, window->sdl_window))
            window->is_closed = window->is_destroyed = 1;
        break;
    case SDL_RENDER_TARGETS_RESET:
    case SDL_RENDER_DEVICE_RESET: // the texture's pixels are gone
        window->width = window->height = 0;
        window->has_input = 1;
        break;
    default: break;
    }
}

/* ---- Drawing --------------------------------------------------------------------- */

/* A texture of the window's size in pixels. Returns 0 when there is nothing to draw on.
 */
static int fit_texture(struct window *window)
{
    int width = 0, height = 0;
    if (SDL_GetRendererOutputSize(window->renderer, &width, &height) != 0 || width < 1 ||
        height < 1)
        return 0;
    if (window->texture && width == window->width && height == window->height)
        return 1;
    if (window->texture)
        SDL_DestroyTexture(window->texture);
    window->texture = SDL_CreateTexture(window->renderer, SDL_PIXELFORMAT_XRGB8888,
                                        SDL_TEXTUREACCESS_STREAMING, width, height);
    window->width = width;
    window->height = height;
    return window->texture != NULL;
}

/* What the window knows and the training does not: pointer, keys, a passing notice. */
static void add_own_facts(struct window *window)
{
    struct dashboard *dashboard = &window->view.dashboard;
    dashboard->has_keys = 1;
    dashboard->shows_layers = window->shows_layers;
    dashboard->hover_x = window->mouse_x;
    dashboard->hover_y = window->mouse_y;
    const char *state = window->is_quitting                  ? "saving ..."
                        : monitor_is_paused(window->monitor) ? "paused"
                                                             : NULL;
    if (state && !dashboard->has_ended)
        snprintf(dashboard->state, sizeof(dashboard->state), "%s", state);
    if (now_seconds() < window->notice_until)
        snprintf(dashboard->notice, sizeof(dashboard->notice), "%s", window->notice);
}

static void draw(struct window *window)
{
    const double start = now_seconds();
    void *pixels;
    int pitch;
    window->has_input = 0;
    window->last_frame = start;
    window->drawn_version = monitor_version(window->monitor);
    if (!fit_texture(window) ||
        SDL_LockTexture(window->texture, NULL, &pixels, &pitch) != 0)
        return;
    monitor_read(window->monitor, &window->view);
    add_own_facts(window);
    dashboard_draw(&window->view.dashboard, pixels, window->width, window->height, pitch);
    SDL_UnlockTexture(window->texture);
    SDL_RenderCopy(window->renderer, window->texture, NULL, NULL);
    SDL_RenderPresent(window->renderer);
    window->frame_cost = now_seconds() - start;
}

/* Seconds until the next frame is due; 0 or less: now. Without anything to show it is one
 * look at the monitor away. */
static double time_to_frame(struct window *window)
{
    const double now = now_seconds();
    if (window->notice[0] && now >= window->notice_until) {
        window->notice[0] = '\0';
        window->has_input = 1;
    }
    const double since = now - window->last_frame;
    if (window->has_input)
        return FRAME_SEC - since;
    if (monitor_version(window->monitor) == window->drawn_version)
        return FRAME_SEC;
    double news_sec = window->frame_cost / NEWS_SHARE;
    if (news_sec < FRAME_SEC)
        news_sec = FRAME_SEC;
    if (news_sec > NEWS_SEC_MAX)
        news_sec = NEWS_SEC_MAX;
    return news_sec - since;
}

void window_run(struct window *window)
{
    while (!window->is_closed && !window->is_lost &&
           !monitor_is_finished(window->monitor)) {
        double wait_sec = time_to_frame(window);
        if (wait_sec <= 0.0) {
            draw(window);
            continue;
        }
        // News comes without an event, so the monitor is looked at in between.
        if (wait_sec > FRAME_SEC)
            wait_sec = FRAME_SEC;
        SDL_Event event;
        int has_event = SDL_WaitEventTimeout(&event, (int)(wait_sec * 1000.0) + 1);
        while (has_event && !window->is_lost) {
            handle_event(window, &event);
            has_event = SDL_PollEvent(&event);
        }
    }
    if (!window->is_lost && window->is_closed && !window->is_destroyed)
        SDL_HideWindow(window->sdl_window);
    // Without a window no key could end the pause.
    if (monitor_is_paused(window->monitor) && !monitor_is_finished(window->monitor))
        monitor_request(window->monitor, REQUEST_PAUSE);
}
