/* runs.h - small training runs of the real program, and what they leave behind. */
#ifndef TESTS_APP_RUNS_H
#define TESTS_APP_RUNS_H

#include <stddef.h>

#include "app/record/checkpoint.h"

/* A DCGAN-32 that takes milliseconds a step: 16 images of builtin:shapes. Its scales
 * start low enough that only planted overflows happen. */
#define SMALL_RUN                                                                \
    "--data builtin:shapes --resolution 32 --g-width 8 --d-width 8 --latent 16 " \
    "--batch 16 --seed 3 --preview off --keep 0 --grid 4x4 "                     \
    "--g-init-scale 1024 --d-init-scale 1024"

/* Shell words for a program in the background: wait_for CONDITION polls for a minute. */
#define WAIT_FOR                                                     \
    "wait_for() { n=0; while ! eval \"$1\" && [ $n -lt 12000 ]; do " \
    "sleep 0.05; n=$((n+1)); done; [ $n -lt 12000 ]; }; "            \
    "count() { cat $1 2>/dev/null | wc -l; }; "

/* Settings of the same size, for a trainer without the program around it. */
struct config small_config(void);

/* `twinscale <arguments>`; output into `text`; returns the exit code. */
int twinscale(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails the test, with the program's output, unless it exits with 0. */
void twinscale_must(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the test, with the program's output, unless it exits with `code` and says one
 * line, with `words` in it. */
void twinscale_refuses(int code, const char *words, const char *arguments);

/* The only run folder in `out`; valid until the next call. */
const char *run_in(const char *out);

/* What the newest checkpoint of a run folder says. */
struct checkpoint_facts facts_of(const char *run);

/* The digest that `twinscale info --digest` prints for a run folder or file. */
void digest_of(const char *source, char text[32]);

/* Mean of `key` over all ticks of the run's stats.jsonl from number `first` on. */
double mean_of(const char *run, const char *key, int first);

/* The largest |a - b| over all elements of all tensors of the newest checkpoints of two
 * run folders, relative to the largest |b| of its tensor. */
double run_difference(const char *a, const char *b);

/* Lines of a file of the run that have `words`. */
int lines_with(const char *run, const char *file, const char *words);

/* What the run's events.jsonl says of its scales, one line an event: "skip G 3 1024
 * 512". */
const char *scale_events(const char *run, char *text, size_t bytes);

#endif
