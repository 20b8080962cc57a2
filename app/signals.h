/* signals.h - what each signal does to `train` and `bench`, in one table.
 * Flow:  signal -> [a thread that waits for them] -> monitor requests, as keys in the
 *        window make them -> save, quit; and a line on stderr at once, however long a
 *        step takes.
 * Owns:  the thread, and what it says; the one place with global state, since signals
 *        belong to the process.  Borrows: the monitor, until signals_close().
 *
 * A thread and not a handler: it may print, lock, and end the program whatever the others
 * are doing, so that nothing has to look whether a signal has come. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include "app/config/signals_table.h"
#include "kernels/base/status.h"

struct monitor;

/* Begins to wait for signals; before any other thread exists, which would take them
 * first. Until signals_answer() all that ask for the end end the program at once. SIGPIPE
 * is ignored: writes that fail are looked at. STATUS_FAILED when there is no thread. */
enum status signals_open(struct monitor *monitor);
void signals_close(void);

/* From now on the monitor is asked to quit, and `words` say on stderr what will happen:
 * "stopping after this step, then saving". NULL: as in the beginning, and at once if the
 * end has been asked for. */
void signals_answer(const char *words);

/* For ranks above 0 of several processes: what reaches them reaches rank 0 too, which
 * decides for all. Until the process ends. */
void signals_ignore(void);

/* Called on the thread before it ends the program, with the reason. One at a time; NULL
 * for none. */
void signals_on_end(void (*leave)(void *context, const char *reason), void *context);

/* What is lost when a second Ctrl-C comes: what was trained after the newest snapshot. */
void signals_note_saved(const char *snapshot, double kimg);
void signals_note_trained(double kimg);

#endif
