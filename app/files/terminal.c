#include "app/files/terminal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kernels/base/process.h"
#include "kernels/base/text.h"

#define REDRAW_SEC 0.1
#define CELLS_MAX 60 // a longer bar says no more
#define CELLS_MIN 8  // a shorter one says nothing

/* Whether a bar stands on the terminal, and since when. One terminal, one state. */
static atomic_int is_drawn;
static double drawn_at = -1.0;

/* ---- what the terminal can do ---------------------------------------------------- */

static int is_set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0];
}

/* A terminal that can take back what it shows. */
static int can_redraw(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

int progress_has_color(void)
{
    return can_redraw() && !is_set("NO_COLOR");
}

/* By the environment, in the order of locale(7): setlocale() would change how every other
 * part of the program reads and writes decimal points. */
static int wants_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++)
        if (is_set(names[i]))
            return strcasestr(getenv(names[i]), "UTF-8") != NULL ||
                   strcasestr(getenv(names[i]), "UTF8") != NULL;
    return 0;
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* ---- the text -------------------------------------------------------------------- */

/* `cells` columns, filled up to `share`, in eighths of a column where there are such
 * signs. */
static void cells_text(const struct bar *bar, double share, int cells, char *text,
                       size_t bytes)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    int filled = (int)(share * cells * 8.0 + 1e-9);
    size_t used = 0;
    const char *color = bar->has_color ? "\033[36m" : "",
               *plain = bar->has_color ? "\033[0m" : "";
    used += (size_t)snprintf(text, bytes, "%s%s", bar->is_utf8 ? "▕" : "[", color);
    for (int i = 0; i < cells && used + 16 < bytes; i++) {
        int part = filled - 8 * i < 0 ? 0 : filled - 8 * i > 8 ? 8 : filled - 8 * i;
        const char *cell = bar->is_utf8 ? eighths[part] : part == 8 ? "#" : "-";
        used += (size_t)snprintf(text + used, bytes - used, "%s", cell);
    }
    snprintf(text + used, bytes - used, "%s%s", plain, bar->is_utf8 ? "▏" : "]");
}

void bar_text(const struct bar *bar, char *text, size_t bytes)
{
    double share = bar->total > 0.0 ? bar->done / bar->total : 0.0;
    share = share > 0.0 ? fmin(share, 1.0) : 0.0;
    int decimals = bar->total < 1.0 ? 3 : bar->total < 10.0 ? 2 : 1;
    char rate[32], eta[32], facts[128], head[16], cells[CELLS_MAX * 4 + 32] = "";
    // 99.9 % must not read as done.
    snprintf(head, sizeof head, "%3d%% ", (int)(share * 100.0 + 1e-9));
    snprintf(facts, sizeof facts, "%.*f/%.7g kimg  %s img/s  eta %s", decimals, bar->done,
             bar->total, rate_text(bar->images_per_sec, rate, sizeof rate),
             duration_text(bar->eta_sec, eta, sizeof eta));
    int room = bar->columns - 1 - (int)strlen(head);
    int fit = room - (int)strlen(facts) - 4; // two ends, two blanks
    if (fit >= CELLS_MIN) {
        cells_text(bar, share, fit < CELLS_MAX ? fit : CELLS_MAX, cells, sizeof cells);
        snprintf(text, bytes, "%s%s  %s", head, cells, facts);
    } else {
        snprintf(text, bytes, "%s%.*s", head, room > 0 ? room : 0, facts);
    }
}

/* ---- the terminal ---------------------------------------------------------------- */

// Not more often than somebody can read.
static int is_due(void)
{
    double now = now_seconds();
    if (drawn_at >= 0.0 && now - drawn_at < REDRAW_SEC)
        return 0;
    drawn_at = now;
    return can_redraw();
}

static void draw(const char *text)
{
    // One call, one write: no flicker, and no half line between other messages.
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    atomic_store(&is_drawn, 1);
}

void progress_note(const char *text)
{
    if (is_due())
        draw(text);
}

void progress_bar(double done, double total, double images_per_sec, double eta_sec)
{
    if (!is_due())
        return;
    struct bar bar = {.done = done,
                      .total = total,
                      .images_per_sec = images_per_sec,
                      .eta_sec = eta_sec,
                      .columns = terminal_columns(),
                      .is_utf8 = wants_utf8(),
                      .has_color = progress_has_color()};
    char text[512];
    bar_text(&bar, text, sizeof text);
    draw(text);
}

void progress_clear(void)
{
    if (!atomic_exchange(&is_drawn, 0))
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}

void progress_print_tick(const char *line)
{
    const char *second = strstr(line, "mean loss G");
    progress_clear();
    if (second && isatty(STDERR_FILENO) && (int)strlen(line) > terminal_columns())
        fprintf(stderr, "%.*s\n%*s%s\n", (int)(second - line), line, 10, "", second);
    else
        fprintf(stderr, "%s\n", line);
}

void progress_decoding(void *context, size_t done, size_t total)
{
    (void)context;
    if (total > 1000 && done % 1000 == 0)
        progress_bar((double)done, (double)total, 0.0, -1.0);
}
