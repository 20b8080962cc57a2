/* signals.h - SIGINT, SIGTERM and SIGUSR1 as requests that the trainer collects.
 * Flow:  handler sets a flag -> [signals_take] between steps -> save, quit.
 * Owns:  three flags; the one place with global state, since a handler has no other way. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

/* SIGINT, SIGTERM, SIGHUP (unless ignored): save and end with 0; a second SIGINT ends at
 * once with 130. SIGUSR1: save a snapshot. SIGPIPE and SIGXFSZ are ignored: writes that fail
 * say so themselves. */
void signals_install(void);

/* REQUEST_QUIT and REQUEST_SNAPSHOT (monitor.h) asked for since the last call. */
int signals_take(void);

#endif
