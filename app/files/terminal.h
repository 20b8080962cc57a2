/* terminal.h - the line at the bottom of the terminal: a progress bar, or a note.
 * Flow:  whoever takes long -> [progress_bar] -> stderr; [progress_clear] before any
 *        other line.
 * Owns:  whether such a line is there. */
#ifndef APP_FILES_TERMINAL_H
#define APP_FILES_TERMINAL_H

#include <stddef.h>

/* The bar: drawn on stderr if it is a terminal, at most 10 times a second. */
void progress_bar(double done, double total, double images_per_sec, double eta_sec);
/* In its place a line of text, at most as often. */
void progress_note(const char *text);
/* The bar while many pictures are decoded: struct dataset_options' progress. */
void progress_decoding(void *context, size_t done, size_t total);
/* Removes any of them so that a line can be printed. */
void progress_clear(void);
/* A tick line on stderr; on a terminal too narrow for it in two lines, cut before
 * "loss". */
void progress_print_tick(const char *line);
/* True if colour may be used on stderr. */
int progress_has_color(void);

/* What progress_bar() draws. */
struct bar {
    double done, total; // kimg
    double images_per_sec, eta_sec;
    int columns; // of the terminal; the text keeps one free, so that it never wraps
    int is_utf8; // block characters in eighths; else '#' and '-'
    int has_color;
};
/* " 24% [#####-----]  48.0/200 kimg  1,234 img/s  eta 2m 03s"; on a narrow terminal the
 * bar goes first, then what stands at the end. */
void bar_text(const struct bar *bar, char *text, size_t bytes);

#endif
