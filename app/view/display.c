/* display.c - the rule for opening a window, and surviving the X server.
 *
 * Xlib's own way to lose a server is exit(). Since libX11 1.7 a program may replace that
 * per connection (XSetIOErrorExitHandler): calls then fail and return. The functions are
 * looked up among the libraries that SDL and cairo have loaded, so this program does not
 * link to X11 itself and runs where there is none. With an older libX11 the process ends
 * as ever; the checkpoints on disk are what is left then. */
#include "app/view/display.h"

#include <SDL.h>
#include <SDL_syswm.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static void set_hints(void)
{
    SDL_SetHint(SDL_HINT_NO_SIGNAL_HANDLERS, "1"); // Ctrl-C belongs to the training
    SDL_SetHint(SDL_HINT_VIDEO_ALLOW_SCREENSAVER, "1");
    SDL_SetHint(SDL_HINT_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR, "0");
    SDL_SetHint(SDL_HINT_FRAMEBUFFER_ACCELERATION, "0"); // plain pixels to X, no OpenGL
    SDL_SetHint(SDL_HINT_APP_NAME, "twinscale");
}

/* Drivers that open windows that no screen shows, or that take a text console over. */
static int is_invisible(const char *driver)
{
    static const char *const names[] = {"offscreen", "dummy", "evdev", "KMSDRM"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(driver, names[i]) == 0)
            return 1;
    return 0;
}

#ifdef SDL_VIDEO_DRIVER_X11

// The default would print and exit; what follows is decided in on_exit_wanted().
static int on_io_error(Display *x_display)
{
    (void)x_display;
    return 0;
}

static void on_exit_wanted(Display *x_display, void *is_lost)
{
    (void)x_display;
    *(volatile sig_atomic_t *)is_lost = 1;
}

static int on_protocol_error(Display *x_display, XErrorEvent *event)
{
    (void)x_display;
    (void)event;
    return 0;
}

/* SDL keeps the handler that it finds and puts it back before it closes its connections;
 * an error that comes then (SDL 2.26 wakes its own, already destroyed window) would still
 * meet Xlib's default and end the process. So this one is set before SDL starts. */
static void pass_over_protocol_errors(void)
{
    typedef int error_handler(Display *, XErrorEvent *);
    error_handler *(*set_error_handler)(error_handler *);
    *(void **)&set_error_handler = dlsym(RTLD_DEFAULT, "XSetErrorHandler");
    if (set_error_handler)
        set_error_handler(on_protocol_error);
}

void display_survive_loss(void *sdl_window, volatile sig_atomic_t *is_lost)
{
    typedef int io_handler(Display *);
    io_handler *(*set_io_handler)(io_handler *);
    void (*set_exit_handler)(Display *, void (*)(Display *, void *), void *);

    SDL_SysWMinfo info;
    SDL_VERSION(&info.version);
    if (!SDL_GetWindowWMInfo(sdl_window, &info) || info.subsystem != SDL_SYSWM_X11)
        return;
    *(void **)&set_io_handler = dlsym(RTLD_DEFAULT, "XSetIOErrorHandler");
    *(void **)&set_exit_handler = dlsym(RTLD_DEFAULT, "XSetIOErrorExitHandler");
    if (!set_io_handler || !set_exit_handler)
        return;
    set_io_handler(on_io_error);
    set_exit_handler(info.info.x11.display, on_exit_wanted, (void *)is_lost);
}

int display_event_destroys(const void *sdl_event, void *sdl_window)
{
    const SDL_Event *event = sdl_event;
    SDL_SysWMinfo info;
    SDL_VERSION(&info.version);
    if (event->type != SDL_SYSWMEVENT || event->syswm.msg->subsystem != SDL_SYSWM_X11 ||
        !SDL_GetWindowWMInfo(sdl_window, &info) || info.subsystem != SDL_SYSWM_X11)
        return 0;
    const XEvent *x_event = &event->syswm.msg->msg.x11.event;
    return x_event->type == DestroyNotify &&
           x_event->xdestroywindow.window == info.info.x11.window;
}

#else

int display_event_destroys(const void *sdl_event, void *sdl_window)
{
    (void)sdl_event;
    (void)sdl_window;
    return 0;
}

static void pass_over_protocol_errors(void)
{
}

void display_survive_loss(void *sdl_window, volatile sig_atomic_t *is_lost)
{
    (void)sdl_window;
    (void)is_lost;
}

#endif

enum status display_start(void)
{
    const char *chosen = variable("SDL_VIDEODRIVER");
    const char *x11 = variable("DISPLAY"), *wayland = variable("WAYLAND_DISPLAY");
    if (!chosen && !x11 && !wayland)
        return status_fail(
            STATUS_ENVIRONMENT,
            "no window can be opened: neither DISPLAY nor WAYLAND_DISPLAY is "
            "set; start from a desktop (or by ssh -X), or use --preview png");
    set_hints();
    pass_over_protocol_errors();
    // Only drivers that the named displays can serve: SDL then says why it fails.
    if (!chosen)
        SDL_SetHint(SDL_HINT_VIDEODRIVER, !wayland ? "x11"
                                          : !x11   ? "wayland"
                                                   : "x11,wayland");
    if (SDL_InitSubSystem(SDL_INIT_VIDEO) != 0)
        return status_fail(
            STATUS_ENVIRONMENT,
            "no window can be opened on %s '%s': %s; check that it runs and "
            "admits you, or use --preview png",
            chosen ? "SDL_VIDEODRIVER"
            : x11  ? "display"
                   : "Wayland display",
            chosen ? chosen
            : x11  ? x11
                   : wayland,
            SDL_GetError());
    const char *driver = SDL_GetCurrentVideoDriver();
    if (chosen || (driver && !is_invisible(driver)))
        return STATUS_OK;
    const enum status status = status_fail(STATUS_ENVIRONMENT,
                                           "no window can be opened: SDL found only its "
                                           "driver '%s', which shows nothing; start "
                                           "from a desktop, or use --preview png",
                                           driver ? driver : "none");
    display_stop();
    return status;
}

void display_stop(void)
{
    SDL_QuitSubSystem(SDL_INIT_VIDEO);
}
