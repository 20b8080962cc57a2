/* group_watch.c - the thread that listens to the other ranks.
 *
 * It alone reads the sockets, so the loss of a rank is known at once, whatever the rest
 * of the process waits for. A wait for a GPU that will never answer cannot be ended from
 * outside; the process can. */
#include "app/ranks/group_parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/files/terminal.h"
#include "kernels/base/process.h"

#define CHILD_SEC 0.5 // for the system to tell how a process ended

// Ranks above 0 talk with rank 0 alone.
static int peer_count(const struct group *group)
{
    return group->rank == 0 ? group->world : 1;
}

/* ---- failures -------------------------------------------------------------------- */

static void wake_watcher(struct group *group)
{
    char byte = 0;
    ssize_t written = write(group->wake[1], &byte, 1);
    (void)written; // a full pipe wakes it as well
}

int group_set_failure(struct group *group, enum status status, const char *reason,
                      int is_lost, int is_told)
{
    pthread_mutex_lock(&group->lock);
    int is_first = group->status == STATUS_OK;
    if (is_first) {
        group->status = status;
        snprintf(group->reason, sizeof group->reason, "%s", reason);
        group->is_lost = is_lost;
        group->deadline = now_seconds() + group->grace_sec;
    }
    group->is_told |= is_told;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    wake_watcher(group);
    return is_first;
}

int group_send_failure(struct group *group, enum status status, const char *reason)
{
    int is_sent = 1;
    pthread_mutex_lock(&group->sending);
    for (int rank = 0; rank < peer_count(group); rank++)
        if (group->peers[rank].fd >= 0)
            is_sent &= wire_send_failure(group->peers[rank].fd, (int)status, reason);
    pthread_mutex_unlock(&group->sending);
    return is_sent;
}

/* How a process that was started here ended; "" when it has not, or was not. */
static void how_it_ended(struct group_peer *peer, char *text, size_t bytes)
{
    int state = 0;
    text[0] = '\0';
    if (!peer->pid)
        return;
    for (double until = now_seconds() + CHILD_SEC; now_seconds() < until; usleep(5000)) {
        pid_t found = waitpid(peer->pid, &state, WNOHANG);
        if (found == 0 || (found < 0 && errno == EINTR))
            continue;
        peer->pid = 0;
        if (found > 0 && WIFSIGNALED(state))
            snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(state),
                     strsignal(WTERMSIG(state)));
        else if (found > 0)
            snprintf(text, bytes, "ended with exit code %d and gave no reason",
                     WEXITSTATUS(state));
        return;
    }
}

// Rank 0 passes the news on at once: all others may be waiting for the lost one.
static void lose(struct group *group, enum status status, const char *reason, int is_told)
{
    int is_first = group_set_failure(group, status, reason, 1, is_told);
    if (is_first && group->rank == 0)
        group_send_failure(group, status, reason);
}

// The other end was closed.
static void note_end(struct group *group, struct group_peer *peer)
{
    char how[96], reason[256];
    peer->is_gone = 1;
    pthread_mutex_lock(&group->lock);
    int is_missed = !group->is_over && group->status == STATUS_OK;
    pthread_mutex_unlock(&group->lock);
    if (!is_missed)
        return;
    how_it_ended(peer, how, sizeof how);
    snprintf(reason, sizeof reason, "%s %s", peer->name,
             how[0] ? how : "is gone and gave no reason; see what it printed itself");
    lose(group, STATUS_FAILED, reason, 0);
}

static void note_failure(struct group *group, const struct group_peer *peer,
                         const struct wire_failure *failure)
{
    char reason[WIRE_BYTES + 128];
    int is_known = failure->status > STATUS_OK && failure->status <= STATUS_INTERRUPTED;
    snprintf(reason, sizeof reason, "%s ended the run: %.*s", peer->name,
             (int)sizeof failure->reason, failure->reason);
    lose(group, is_known ? (enum status)failure->status : STATUS_FAILED, reason,
         group->rank != 0);
}

/* ---- listening ------------------------------------------------------------------- */

static void put(struct group *group, struct group_peer *peer,
                const struct wire_message *message)
{
    enum group_order order = ORDER_STEP;
    if (message->kind == WIRE_ORDER)
        memcpy(&order, message->data, sizeof order);
    pthread_mutex_lock(&group->lock);
    peer->queue[(peer->first + peer->count++) % GROUP_QUEUE] = *message;
    // Rank 0 may be gone before the order to end is carried out.
    group->is_over |= message->kind == WIRE_ORDER && order == ORDER_END;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

static void listen_to(struct group *group, struct group_peer *peer)
{
    struct wire_message message;
    if (!wire_receive(peer->fd, &message)) {
        note_end(group, peer);
    } else if (message.kind == WIRE_FAILED) {
        struct wire_failure failure;
        memcpy(&failure, message.data, sizeof failure);
        note_failure(group, peer, &failure);
    } else {
        put(group, peer, &message);
    }
}

/* The rest of the process did not end in time. */
static void end_process(struct group *group)
{
    if (group->is_lost && group->tell)
        group->tell(group->context, group->reason);
    if (!(group->is_child && group->is_told)) {
        progress_clear();
        fprintf(stderr, "twinscale: %s\n", group->reason);
    }
    _exit(status_exit_code(group->status));
}

// Milliseconds until the deadline, for poll(); -1 for ever. Past it, nothing returns.
static int time_left(struct group *group)
{
    pthread_mutex_lock(&group->lock);
    double deadline = group->deadline, left = deadline - now_seconds();
    pthread_mutex_unlock(&group->lock);
    if (deadline == 0.0)
        return -1;
    if (left <= 0.0)
        end_process(group);
    return (int)(left * 1000.0) + 1;
}

// Who to listen to: a sender whose queue is full waits. False when the watcher shall
// stop.
static int prepare(struct group *group, struct pollfd *polled)
{
    int count = peer_count(group);
    pthread_mutex_lock(&group->lock);
    for (int i = 0; i < count; i++) {
        const struct group_peer *peer = &group->peers[i];
        int is_open = !peer->is_gone && peer->count < GROUP_QUEUE;
        polled[i] = (struct pollfd){.fd = is_open ? peer->fd : -1, .events = POLLIN};
    }
    polled[count] = (struct pollfd){.fd = group->wake[0], .events = POLLIN};
    int goes_on = !group->must_stop;
    pthread_mutex_unlock(&group->lock);
    return goes_on;
}

static void *watch(void *argument)
{
    struct group *group = argument;
    struct pollfd polled[GROUP_WORLD_MAX + 1];
    int count = peer_count(group);
    while (prepare(group, polled)) {
        if (poll(polled, (nfds_t)count + 1, time_left(group)) <= 0)
            continue;
        for (int i = 0; i < count; i++)
            if (polled[i].revents)
                listen_to(group, &group->peers[i]);
        char bytes[64];
        if (polled[count].revents && read(group->wake[0], bytes, sizeof bytes) < 0)
            continue;
    }
    return NULL;
}

enum status group_watch_start(struct group *group)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for the main thread
    int error = pthread_create(&group->watcher, NULL, watch, group);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return status_fail(STATUS_FAILED, "--gpus: no thread to watch the ranks: %s",
                           strerror(error));
    group->has_watcher = 1;
    return STATUS_OK;
}

void group_watch_stop(struct group *group)
{
    if (!group->has_watcher)
        return;
    pthread_mutex_lock(&group->lock);
    group->must_stop = 1;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    wake_watcher(group);
    pthread_join(group->watcher, NULL);
    group->has_watcher = 0;
}

/* ---- messages -------------------------------------------------------------------- */

enum status group_take(struct group *group, int rank, enum wire_kind kind,
                       struct wire_message *message)
{
    struct group_peer *peer = &group->peers[rank];
    pthread_mutex_lock(&group->lock);
    while (peer->count == 0 && group->status == STATUS_OK)
        pthread_cond_wait(&group->changed, &group->lock);
    int has_one = peer->count > 0, was_full = 0;
    if (has_one) {
        *message = peer->queue[peer->first];
        peer->first = (peer->first + 1) % GROUP_QUEUE;
        was_full = peer->count-- == GROUP_QUEUE;
    }
    pthread_mutex_unlock(&group->lock);
    if (was_full)
        wake_watcher(group);
    if (!has_one)
        return group_check(group);
    if (message->kind != (uint32_t)kind)
        return status_fail(STATUS_FAILED, "%s sent message %u where %d was due",
                           peer->name, message->kind, (int)kind);
    return STATUS_OK;
}

enum status group_send(struct group *group, int rank, enum wire_kind kind,
                       const void *data, size_t bytes)
{
    struct group_peer *peer = &group->peers[rank];
    pthread_mutex_lock(&group->sending);
    int is_sent = peer->fd >= 0 && wire_send(peer->fd, kind, data, bytes);
    pthread_mutex_unlock(&group->sending);
    if (is_sent)
        return STATUS_OK;
    char reason[192];
    snprintf(reason, sizeof reason, "%s takes no messages any more", peer->name);
    status_fail(STATUS_FAILED, "%s", reason);
    // The watcher, which sees the same end, knows more about it.
    enum status status = group_blame(group, STATUS_FAILED);
    group_set_failure(group, STATUS_FAILED, reason, 1, 0);
    return status;
}
