/* processes.h - processes that join a group, for the tests of app/group*.c.
 * Owns:  a process from begin() to finish(). */
#ifndef TESTS_APP_PROCESSES_H
#define TESTS_APP_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#include "app/ranks/group.h"

/* One process that begins, as `twinscale train` does. What all of them print, and the
 * life of all of them, hang on one pipe: its end is the end of the last one. */
struct process {
    pid_t pid;
    int output;
};

/* Starts it: join, `body`, leave, close, and what main() does. */
struct process begin(const struct group_start *start,
                     enum status (*body)(struct group *));

/* The exit code (or 128 + signal) of the process that began, when all are gone, and what
 * they printed. Fails the test when one stays. */
int finish(struct process process, char *text, size_t bytes);

double now(void); // seconds, monotonic
void assert_says(const char *text, const char *words);
/* One sentence, once, whatever the number of ranks. */
void assert_one_line(const char *text);

/* ---- bodies ---------------------------------------------------------------------- */

enum status shares(struct group *group);           // 128 bytes; all agree on having them
enum status order_for_ever(struct group *group);   // rank 0, until it hears of a loss
enum status take_for_ever(struct group *group);    // the others
enum status one_has_bad_data(struct group *group); // rank 2 fails with STATUS_DATA
enum status one_dies_at_once(struct group *group); // rank 1, by SIGKILL

#endif
