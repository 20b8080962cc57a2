/* control.h - how `twinscale ctl` reaches a run that is going on: a socket in its folder.
 * Flow:  ctl -> [control_ask] -> the thread of [control_open] -> monitor
 *        (REQUEST_CONTROL)
 *        -> the training thread, between steps: [control_take], [control_answer] -> ctl.
 * Owns:  the socket `control`, a thread, and the one request that is being served.
 *
 * A socket and not a file, because what a file holds outlives those it is meant for: a
 * request left by a run that was killed would be carried out by the run that resumes,
 * hours later. A socket that a killed run leaves behind connects to no process, which is
 * told at once; the next run in the folder, which holds its lock, replaces it. A request
 * is one packet (SOCK_SEQPACKET), so that there is no half of one. A socket's address has
 * 107 bytes, a folder's path may have more: both sides open the folder and name the
 * socket through /proc/self/fd. Only the user who runs the training may connect. */
#ifndef APP_LIVE_CONTROL_H
#define APP_LIVE_CONTROL_H

#include <stddef.h>

#include "app/view/monitor.h"
#include "kernels/base/status.h"

struct control;

#define CONTROL_BYTES 8192 // of a request or an answer, at most

/* Listens in `folder`, whose lock the caller holds. STATUS_FAILED with the reason, such
 * as a file system without sockets. */
enum status control_open(const char *folder, struct monitor *monitor,
                         struct control **control);
/* Who still waits is told that the run has ended. NULL is fine. */
void control_close(struct control *control);
/* No more than that: the socket goes from the folder, for a program that ends at once. */
void control_remove(const struct control *control);

/* Training thread: the request that waits, or NULL; valid until it is answered. */
const char *control_take(struct control *control);
/* STATUS_OK with what is to be said, or STATUS_USAGE with the reason of a refusal. */
void control_answer(struct control *control, enum status status, const char *text);

/* The other side: asks the run in `folder` and waits. STATUS_USAGE when no run is going
 * on there, or with its refusal; STATUS_FAILED when it does not answer. */
enum status control_ask(const char *folder, const char *request,
                        char answer[CONTROL_BYTES]);

#endif
