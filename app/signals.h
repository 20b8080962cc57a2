/* signals.h - SIGINT, SIGTERM and SIGUSR1 become requests, as keys in the window do.
 * Flow:  signal -> [handler] -> monitor requests -> save, quit.
 * Owns:  the handlers and whom they tell; the one place with global state, since a handler
 *        has no other way.  Borrows: the monitor, until signals_install(NULL). */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include "app/output/monitor.h"

/* SIGINT, SIGTERM, SIGHUP (unless ignored): save and end with 0; a second SIGINT ends at
 * once with 130. SIGUSR1: save a snapshot. SIGPIPE and SIGXFSZ are ignored: writes that fail
 * say so themselves. NULL: nobody is told any more. */
void signals_install(struct monitor *monitor);

/* For ranks above 0 of several processes: what reaches them reaches rank 0 too, which
 * decides for all. Until the process ends. */
void signals_ignore(void);

#endif
