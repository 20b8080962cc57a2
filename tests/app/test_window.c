/* test_window.c - the window on a real X server (Xvfb), driven by xdotool.
 *
 * A worker thread plays the training: it publishes and collects requests. A driver thread
 * plays the person: it looks at the screen, presses keys, closes the window. window_run()
 * has the main thread, as in the program. The screen is read from Xvfb's framebuffer
 * file. */
#include "app/view/window.h"

#include <SDL.h>
#include <SDL_syswm.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/support.h"

#define TITLE "twinscale window test"
#define SCREEN_W 1440
#define SCREEN_H 900
#define PATIENCE_MS 600000
#define COLOR_G 0x40b8fau
#define COLOR_TRAINING \
    0x55c58fu // the dot before "training"; without a total nothing else

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* ---- The training ---------------------------------------------------------------- */

struct worker {
    struct monitor *monitor;
    pthread_t thread;
    atomic_long steps;
    atomic_int seen_requests; // every bit ever taken
    atomic_int is_paused, must_stop, has_ended;
};

static struct dashboard facts_of(long step)
{
    struct dashboard facts = {.step = step,
                              .kimg = 0.064 * (double)step,
                              .images_per_sec = 1234.0,
                              .scale = {65536.0f, 1024.0f},
                              .growth_interval = {2000, 2000},
                              .grid_columns = 2,
                              .grid_rows = 2,
                              .tile_w = 2,
                              .tile_h = 2,
                              .tile_channels = 3};
    strcpy(facts.title, "a test");
    strcpy(facts.state, "training");
    return facts;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint8_t tiles[4 * 12];
    memset(tiles, 200, sizeof(tiles));
    while (!atomic_load(&worker->must_stop)) {
        const long step = atomic_fetch_add(&worker->steps, 1) + 1;
        const struct history_point point = {.step = step,
                                            .kimg = 0.064 * (double)step,
                                            .scale = {65536.0f, 1024.0f},
                                            .loss = {2.0f, 1.0f}};
        struct dashboard facts = facts_of(step);
        facts.has_ended = atomic_load(&worker->has_ended);
        if (facts.has_ended)
            strcpy(facts.state, "finished");
        history_add(monitor_history(worker->monitor), &point);
        monitor_publish(worker->monitor, &facts, tiles);
        const int requests = monitor_take_requests(worker->monitor);
        atomic_fetch_or(&worker->seen_requests, requests);
        if (requests & REQUEST_PAUSE) {
            atomic_store(&worker->is_paused, 1);
            monitor_wait_while_paused(worker->monitor);
            atomic_store(&worker->is_paused, 0);
        }
        pause_ms(5);
    }
    return NULL;
}

static void worker_start(struct worker *worker)
{
    memset(worker, 0, sizeof(*worker));
    worker->monitor = monitor_create();
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

/* True if the training goes on by itself. */
static int worker_is_alive(struct worker *worker)
{
    const long before = atomic_load(&worker->steps);
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        if (atomic_load(&worker->steps) >= before + 3)
            return 1;
        pause_ms(10);
    }
    return 0;
}

static void worker_stop(struct worker *worker)
{
    atomic_store(&worker->must_stop, 1);
    monitor_finish(worker->monitor); // ends a pause too
    pthread_join(worker->thread, NULL);
    monitor_destroy(worker->monitor);
}

static int wait_for_bit(atomic_int *bits, int bit)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        if (atomic_load(bits) & bit)
            return 1;
        pause_ms(10);
    }
    return 0;
}

static int wait_for_zero(atomic_int *value)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        if (atomic_load(value) == 0)
            return 1;
        pause_ms(10);
    }
    return 0;
}

/* ---- The screen ------------------------------------------------------------------ */

struct screen {
    pid_t pid;
    char display[32];
    char folder[512];
};

static int is_installed(const char *program)
{
    char text[256];
    return run_command(text, sizeof(text), "command -v %s", program) == 0;
}

/* Starts an X server on a display of its own choice and tells it by DISPLAY. */
static void screen_open(struct screen *screen)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(screen->folder, sizeof(screen->folder), "%s", make_folder("screen"));
    screen->pid = fork();
    assert_true(screen->pid >= 0);
    if (screen->pid == 0) {
        char number[16], size[32];
        prctl(PR_SET_PDEATHSIG, SIGTERM); // no server outlives a test that fails
        snprintf(number, sizeof(number), "%d", ends[1]);
        snprintf(size, sizeof(size), "%dx%dx24", SCREEN_W, SCREEN_H);
        close(ends[0]);
        execlp("Xvfb", "Xvfb", "-displayfd", number, "-screen", "0", size, "-fbdir",
               screen->folder, "-nolisten", "tcp", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char digits[16] = "";
    size_t used = 0;
    ssize_t got;
    while (used + 1 < sizeof(digits) && (got = read(ends[0], digits + used, 1)) == 1 &&
           digits[used] != '\n')
        used++;
    close(ends[0]);
    digits[used] = '\0';
    assert_true(used > 0); // the server told its number
    snprintf(screen->display, sizeof(screen->display), ":%s", digits);
    setenv("DISPLAY", screen->display, 1);
}

static void screen_kill(struct screen *screen)
{
    if (screen->pid > 0) {
        kill(screen->pid, SIGKILL);
        waitpid(screen->pid, NULL, 0);
    }
    screen->pid = 0;
}

static void screen_close(struct screen *screen)
{
    if (screen->pid > 0) {
        kill(screen->pid, SIGTERM);
        waitpid(screen->pid, NULL, 0);
    }
    remove_folder(screen->folder);
    unsetenv("DISPLAY");
}

static uint32_t big_endian(const uint8_t *bytes, int word)
{
    bytes += 4 * word;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           bytes[3];
}

/* How many pixels of the whole screen have one colour, from Xvfb's file in XWD format. */
static long count_color(const struct screen *screen, uint32_t color)
{
    char path[600];
    uint8_t header[100];
    snprintf(path, sizeof(path), "%s/Xvfb_screen0", screen->folder);
    FILE *file = fopen(path, "rb");
    if (!file || fread(header, 1, sizeof(header), file) != sizeof(header)) {
        if (file)
            fclose(file);
        return -1;
    }
    const uint32_t header_bytes = big_endian(header, 0), width = big_endian(header, 4);
    const uint32_t height = big_endian(header, 5), line_bytes = big_endian(header, 12);
    const uint32_t color_count = big_endian(header, 19);
    uint8_t *line = malloc(line_bytes);
    long count = 0;
    fseek(file, (long)(header_bytes + 12 * color_count), SEEK_SET);
    for (uint32_t y = 0; y < height && fread(line, 1, line_bytes, file) == line_bytes;
         y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t pixel;
            memcpy(&pixel, line + 4 * x, sizeof(pixel));
            count += (pixel & 0xffffff) == color;
        }
    free(line);
    fclose(file);
    return count;
}

/* Until at least `least` pixels (or, for 0, none) have the color. */
static int wait_for_color(const struct screen *screen, uint32_t color, long least)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += 50) {
        const long count = count_color(screen, color);
        if (least > 0 ? count >= least : count == 0)
            return 1;
        pause_ms(50);
    }
    return 0;
}

/* ---- The person ------------------------------------------------------------------ */

/* The X id of the window, 0 if there is none. */
static unsigned long find_window(void)
{
    char text[256];
    if (run_command(text, sizeof(text), "xdotool search --sync --name '^%s$'", TITLE) !=
        0)
        return 0;
    return strtoul(text, NULL, 10);
}

static int press(unsigned long id, const char *key)
{
    char text[256];
    return run_command(text, sizeof(text), "xdotool windowfocus %lu key %s", id, key) ==
           0;
}

/* What a window manager sends when its close button is pressed. There is none here, so
 * the test sends it, with the Xlib that SDL has loaded. */
static int press_close_button(const char *display_name, unsigned long id)
{
    Display *(*open)(const char *);
    Atom (*intern)(Display *, const char *, Bool);
    Status (*send)(Display *, Window, Bool, long, XEvent *);
    int (*close_display)(Display *);
    *(void **)&open = dlsym(RTLD_DEFAULT, "XOpenDisplay");
    *(void **)&intern = dlsym(RTLD_DEFAULT, "XInternAtom");
    *(void **)&send = dlsym(RTLD_DEFAULT, "XSendEvent");
    *(void **)&close_display = dlsym(RTLD_DEFAULT, "XCloseDisplay");
    if (!open || !intern || !send || !close_display)
        return 0;
    Display *display = open(display_name);
    if (!display)
        return 0;
    XEvent event = {.xclient = {.type = ClientMessage, .window = id, .format = 32}};
    event.xclient.message_type = intern(display, "WM_PROTOCOLS", False);
    event.xclient.data.l[0] = (long)intern(display, "WM_DELETE_WINDOW", False);
    const int is_sent = send(display, id, False, NoEventMask, &event) != 0;
    close_display(display);
    return is_sent;
}

/* What the driver thread does, and what it found. */
struct driver {
    struct screen *screen;
    struct worker *worker;
    int has_picture, is_paused, is_resumed, has_snapshot, has_export, ignores_escape;
    int shows_finished, ignores_others;
    int shows_layers, shows_curves, shows_saving, has_scales, has_quit, is_closed;
};

static void *drive_keys(void *argument)
{
    struct driver *driver = argument;
    struct worker *worker = driver->worker;
    const unsigned long id = find_window();
    driver->has_picture = wait_for_color(driver->screen, COLOR_G, 200) &&
                          wait_for_color(driver->screen, COLOR_TRAINING, 20);
    press(id, "l"); // no layer was looked at here, so nothing has G's colour
    driver->shows_layers = wait_for_color(driver->screen, COLOR_G, 0);
    press(id, "l");
    driver->shows_curves = wait_for_color(driver->screen, COLOR_G, 200);
    press(id, "space");
    driver->is_paused = wait_for_bit(&worker->is_paused, 1);
    press(id, "space");
    driver->is_resumed = wait_for_zero(&worker->is_paused);

    atomic_store(&worker->seen_requests, 0);
    press(id, "Escape");
    press(id, "ctrl+s");
    press(id, "e"); // keys arrive in order: once this is seen the others were too
    driver->has_export = wait_for_bit(&worker->seen_requests, REQUEST_EXPORT);
    driver->ignores_escape = atomic_load(&worker->seen_requests) == REQUEST_EXPORT;
    press(id, "s");
    driver->has_snapshot = wait_for_bit(&worker->seen_requests, REQUEST_SNAPSHOT);
    press(id, "q");
    driver->has_quit = wait_for_bit(&worker->seen_requests, REQUEST_QUIT);
    driver->shows_saving = wait_for_color(driver->screen, COLOR_TRAINING, 0);
    driver->is_closed = press_close_button(driver->screen->display, id);
    return NULL;
}

static void *drive_after_the_end(void *argument)
{
    struct driver *driver = argument;
    struct worker *worker = driver->worker;
    const unsigned long id = find_window();
    driver->has_picture = wait_for_color(driver->screen, COLOR_TRAINING, 20);
    atomic_store(&worker->has_ended, 1);
    driver->shows_finished = wait_for_color(driver->screen, COLOR_TRAINING, 0);
    press(id, "space");
    press(id, "s");
    press(id, "bracketleft");
    press(id, "e"); // keys arrive in order: once this is seen the others were too
    driver->has_export = wait_for_bit(&worker->seen_requests, REQUEST_EXPORT);
    driver->ignores_others = atomic_load(&worker->seen_requests) == REQUEST_EXPORT;
    press(id, "q");
    driver->has_quit = wait_for_bit(&worker->seen_requests, REQUEST_QUIT);
    driver->is_closed = press_close_button(driver->screen->display, id);
    return NULL;
}

static void *drive_pause_and_close(void *argument)
{
    struct driver *driver = argument;
    const unsigned long id = find_window();
    press(id, "space");
    driver->is_paused = wait_for_bit(&driver->worker->is_paused, 1);
    driver->is_closed = press_close_button(driver->screen->display, id);
    return NULL;
}

static void *drive_kill_server(void *argument)
{
    struct driver *driver = argument;
    driver->has_picture = wait_for_color(driver->screen, COLOR_G, 200);
    screen_kill(driver->screen);
    return NULL;
}

static void *drive_finish(void *argument)
{
    struct driver *driver = argument;
    driver->has_picture = wait_for_color(driver->screen, COLOR_G, 200);
    monitor_finish(driver->worker->monitor);
    return NULL;
}

/* Runs the window with a worker and `drive`; both end before it returns but the worker.
 */
static void run_driven(struct screen *screen, struct worker *worker,
                       struct driver *driver, void *(*drive)(void *))
{
    struct window *window = NULL;
    pthread_t thread;
    memset(driver, 0, sizeof(*driver));
    driver->screen = screen;
    driver->worker = worker;
    screen_open(screen);
    worker_start(worker);
    const enum status status = window_open(TITLE, worker->monitor, &window);
    if (status != STATUS_OK)
        fail_msg("the window did not open: %s", status_message());
    assert_int_equal(pthread_create(&thread, NULL, drive, driver), 0);
    window_run(window);
    pthread_join(thread, NULL);
    window_close(window);
}

static void test_keys_reach_the_training_and_closing_leaves_it_running(void **state)
{
    (void)state;
    struct screen screen;
    struct worker worker;
    struct driver driver;
    run_driven(&screen, &worker, &driver, drive_keys);
    assert_true(driver.has_picture);
    assert_true(driver.shows_layers);
    assert_true(driver.shows_curves);
    assert_true(driver.is_paused);
    assert_true(driver.is_resumed);
    assert_true(driver.has_export);
    assert_true(driver.ignores_escape);
    assert_true(driver.has_snapshot);
    assert_true(driver.has_quit);
    assert_true(driver.shows_saving);
    assert_true(driver.is_closed);
    assert_false(monitor_is_finished(worker.monitor));
    assert_true(worker_is_alive(&worker));
    worker_stop(&worker);
    screen_close(&screen);
}

static void test_when_training_has_ended_only_export_and_quit_are_asked_for(void **state)
{
    (void)state;
    struct screen screen;
    struct worker worker;
    struct driver driver;
    run_driven(&screen, &worker, &driver, drive_after_the_end);
    assert_true(driver.has_picture);
    assert_true(driver.shows_finished);
    assert_true(driver.has_export);
    assert_true(driver.ignores_others);
    assert_true(driver.has_quit);
    assert_true(driver.is_closed);
    worker_stop(&worker);
    screen_close(&screen);
}

static void test_closing_a_paused_window_ends_the_pause(void **state)
{
    (void)state;
    struct screen screen;
    struct worker worker;
    struct driver driver;
    run_driven(&screen, &worker, &driver, drive_pause_and_close);
    assert_true(driver.is_paused);
    assert_true(driver.is_closed);
    assert_true(worker_is_alive(&worker));
    worker_stop(&worker);
    screen_close(&screen);
}

static void test_the_window_ends_when_the_training_has_finished(void **state)
{
    (void)state;
    struct screen screen;
    struct worker worker;
    struct driver driver;
    run_driven(&screen, &worker, &driver, drive_finish);
    assert_true(driver.has_picture);
    worker_stop(&worker);
    screen_close(&screen);
}

static void test_a_dead_x_server_leaves_the_training_running(void **state)
{
    (void)state;
    struct screen screen;
    struct worker worker;
    struct driver driver;
    run_driven(&screen, &worker, &driver, drive_kill_server);
    assert_true(driver.has_picture);
    assert_false(monitor_is_finished(worker.monitor));
    assert_true(worker_is_alive(&worker));
    worker_stop(&worker);
    screen_close(&screen);
}

/* ---- Without a screen ------------------------------------------------------------ */

static void forget_displays(void)
{
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    unsetenv("SDL_VIDEODRIVER");
}

static void expect_no_window(const char *word)
{
    struct monitor *monitor = monitor_create();
    struct window *window = NULL;
    assert_int_equal(window_open(TITLE, monitor, &window), STATUS_ENVIRONMENT);
    assert_null(window);
    if (!strstr(status_message(), word) || !strstr(status_message(), "--preview png"))
        fail_msg("the sentence should hold '%s' and the way out: %s", word,
                 status_message());
    monitor_destroy(monitor);
}

static void test_a_window_opens_with_a_share_of_its_display(void **state)
{
    (void)state;
    static const int rows[][4] = {
        {0, 0, 1280, 720},        // not known
        {3840, 2160, 2880, 1620}, // 4K
        {1920, 1080, 1440, 810},  // HD
        {5120, 1440, 1920, 1080}, // very wide
        {1366, 728, 1280, 691},   // a small laptop, with a panel
        {1024, 768, 972, 720},    {640, 480, 608, 456},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int width, height;
        window_size(rows[i][0], rows[i][1], &width, &height);
        if (width != rows[i][2] || height != rows[i][3])
            fail_msg("%dx%d: %dx%d", rows[i][0], rows[i][1], width, height);
    }
}

static void test_without_a_display_no_window_opens(void **state)
{
    (void)state;
    forget_displays();
    expect_no_window("DISPLAY");
    setenv("DISPLAY", "", 1); // empty is not set
    expect_no_window("DISPLAY");
}

static void test_a_dead_display_is_named(void **state)
{
    (void)state;
    forget_displays();
    setenv("DISPLAY", ":7654", 1);
    expect_no_window(":7654");
}

static void test_a_driver_that_does_not_exist_is_named(void **state)
{
    (void)state;
    forget_displays();
    setenv("SDL_VIDEODRIVER", "nonesuch", 1);
    expect_no_window("nonesuch");
}

static void push_key(SDL_Keycode key, Uint8 repeat)
{
    SDL_Event event = {
        .key = {.type = SDL_KEYDOWN, .state = SDL_PRESSED, .repeat = repeat}};
    event.key.keysym.sym = key;
    SDL_PushEvent(&event);
}

static void push_bracket(SDL_Keycode key, Uint16 mod)
{
    SDL_Event event = {.key = {.type = SDL_KEYDOWN, .state = SDL_PRESSED}};
    event.key.keysym.sym = key;
    event.key.keysym.mod = mod;
    SDL_PushEvent(&event);
}

static void push_window_event(Uint8 kind, int width, int height)
{
    SDL_Event event = {.window = {.type = SDL_WINDOWEVENT, .event = kind}};
    event.window.data1 = width;
    event.window.data2 = height;
    SDL_PushEvent(&event);
}

static void *push_events(void *argument)
{
    struct driver *driver = argument;
    struct worker *worker = driver->worker;
    SDL_Event motion = {.motion = {.type = SDL_MOUSEMOTION, .x = 900, .y = 200}};
    SDL_PushEvent(&motion);
    push_key(SDLK_SPACE, 0);
    push_key(SDLK_SPACE, 1); // held down: no second toggle
    driver->is_paused = wait_for_bit(&worker->is_paused, 1);
    pause_ms(300);
    driver->is_paused &= atomic_load(&worker->is_paused);
    push_key(SDLK_s, 0);
    driver->has_snapshot = wait_for_bit(&worker->seen_requests, REQUEST_SNAPSHOT);
    push_bracket(SDLK_LEFTBRACKET, KMOD_NONE);
    driver->has_scales = wait_for_bit(&worker->seen_requests, REQUEST_HALVE_D);
    push_bracket(SDLK_RIGHTBRACKET, KMOD_LSHIFT);
    driver->has_scales &= wait_for_bit(&worker->seen_requests, REQUEST_DOUBLE_G);
    driver->has_scales &=
        !(atomic_load(&worker->seen_requests) & (REQUEST_DOUBLE_D | REQUEST_HALVE_G));
    push_window_event(SDL_WINDOWEVENT_LEAVE, 0, 0);
    push_window_event(SDL_WINDOWEVENT_SIZE_CHANGED, 800, 600);
    push_key(SDLK_q, 0);
    driver->has_quit = wait_for_bit(&worker->seen_requests, REQUEST_QUIT);
    push_window_event(SDL_WINDOWEVENT_CLOSE, 0, 0);
    return NULL;
}

static void test_a_driver_named_by_the_user_opens_even_without_a_screen(void **state)
{
    (void)state;
    struct worker worker;
    struct window *window = NULL;
    pthread_t thread;
    forget_displays();
    setenv("SDL_VIDEODRIVER", "dummy", 1);
    worker_start(&worker);
    struct driver driver = {.worker = &worker};
    assert_int_equal(window_open(TITLE, worker.monitor, &window), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, push_events, &driver), 0);
    window_run(window);
    pthread_join(thread, NULL);
    window_close(window);
    forget_displays();
    assert_true(driver.is_paused);
    assert_true(driver.has_scales);
    assert_true(driver.has_snapshot);
    assert_true(driver.has_quit);
    assert_true(worker_is_alive(&worker));
    worker_stop(&worker);
}

int main(void)
{
    const struct CMUnitTest without_screen[] = {
        cmocka_unit_test(test_a_window_opens_with_a_share_of_its_display),
        cmocka_unit_test(test_without_a_display_no_window_opens),
        cmocka_unit_test(test_a_dead_display_is_named),
        cmocka_unit_test(test_a_driver_that_does_not_exist_is_named),
        cmocka_unit_test(test_a_driver_named_by_the_user_opens_even_without_a_screen),
    };
    const struct CMUnitTest on_screen[] = {
        cmocka_unit_test(test_keys_reach_the_training_and_closing_leaves_it_running),
        cmocka_unit_test(test_when_training_has_ended_only_export_and_quit_are_asked_for),
        cmocka_unit_test(test_when_training_has_ended_only_export_and_quit_are_asked_for),
        cmocka_unit_test(test_closing_a_paused_window_ends_the_pause),
        cmocka_unit_test(test_the_window_ends_when_the_training_has_finished),
        // The last one: SDL cannot be used in this process afterwards.
        cmocka_unit_test(test_a_dead_x_server_leaves_the_training_running),
    };
    const int failed = cmocka_run_group_tests(without_screen, NULL, NULL);
    if (failed)
        return failed;
    if (!is_installed("Xvfb") || !is_installed("xdotool")) {
        printf(
            "skipped: the tests on a screen need Xvfb and xdotool, and one is missing\n");
        return 77;
    }
    forget_displays();
    return cmocka_run_group_tests(on_screen, NULL, NULL);
}
