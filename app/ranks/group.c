/* group.c - joins, speaks, agrees and leaves. Who is where: group_place.c; how they meet:
 * group_meet.c; who listens: group_watch.c. */
#include "app/ranks/group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/ranks/group_parts.h"
#include "kernels/base/process.h"

#define GRACE_SEC 3.0    // for a process to end by itself when the run has failed
#define BLAME_SEC 0.5    // for the news that explains a fault to arrive
#define REAP_SEC 20.0    // for a process to close its device after the run
#define MESSAGE_SEC 10.0 // for a message that has begun
#define ITEM_BYTES 80

/* ---- joining --------------------------------------------------------------------- */

static struct group *create(const struct group_start *start)
{
    struct group *group = calloc(1, sizeof *group);
    CHECK_MEMORY(group, "the ranks");
    group->world = start->world;
    group->peers = calloc((size_t)start->world, sizeof *group->peers);
    CHECK_MEMORY(group->peers, "the ranks");
    for (int rank = 0; rank < start->world; rank++)
        group->peers[rank].fd = -1;
    group->grace_sec = start->grace_sec > 0.0 ? start->grace_sec : GRACE_SEC;
    group->wake[0] = group->wake[1] = -1;
    pthread_mutex_init(&group->sending, NULL);
    pthread_mutex_init(&group->lock, NULL);
    pthread_condattr_t forward;
    pthread_condattr_init(&forward);
    pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
    pthread_cond_init(&group->changed, &forward);
    pthread_condattr_destroy(&forward);
    return group;
}

// What comes after the ranks are connected, on each of them.
static enum status begin(struct group *group)
{
    for (int rank = 0; rank < group->world; rank++)
        if (group->peers[rank].fd >= 0)
            wire_set_limit(group->peers[rank].fd, MESSAGE_SEC);
    if (pipe2(group->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return status_fail(STATUS_FAILED, "--gpus: no pipe: %s", strerror(errno));
    return group_watch_start(group);
}

enum status group_join(const struct group_start *start, struct group **result)
{
    *result = NULL;
    CHECK(start->world >= 1 && start->world <= GROUP_WORLD_MAX, "%d", start->world);
    if (start->world == 1)
        return STATUS_OK;
    struct group *group = create(start);
    *result = group; // group_close() ends what has begun
    int is_launched = start->place && start->place->is_launched;
    enum status status = is_launched ? group_meet(group, start) : group_fork(group);
    if (status == STATUS_OK)
        status = begin(group);
    if (status != STATUS_OK && group->rank == 0)
        group_send_failure(group, status, status_message());
    return status;
}

int group_rank(const struct group *group)
{
    return group ? group->rank : 0;
}

int group_world(const struct group *group)
{
    return group ? group->world : 1;
}

/* ---- losses ---------------------------------------------------------------------- */

void group_on_loss(struct group *group, void (*tell)(void *context, const char *reason),
                   void *context)
{
    if (!group)
        return;
    pthread_mutex_lock(&group->lock);
    group->tell = tell;
    group->context = context;
    pthread_mutex_unlock(&group->lock);
}

enum status group_check(struct group *group)
{
    if (!group)
        return STATUS_OK;
    char reason[sizeof group->reason];
    pthread_mutex_lock(&group->lock);
    enum status status = group->status;
    memcpy(reason, group->reason, sizeof reason);
    pthread_mutex_unlock(&group->lock);
    return status == STATUS_OK ? STATUS_OK : status_fail(status, "%s", reason);
}

enum status group_blame(struct group *group, enum status status)
{
    if (!group || status != STATUS_FAILED)
        return status;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(BLAME_SEC * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&group->lock);
    int error = 0;
    while (group->status == STATUS_OK && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&group->changed, &group->lock, &until);
    int is_lost = group->status != STATUS_OK && group->is_lost;
    pthread_mutex_unlock(&group->lock);
    return is_lost ? group_check(group) : status;
}

/* ---- what ranks tell each other -------------------------------------------------- */

enum status group_share(struct group *group, void *data, size_t bytes)
{
    struct wire_message message;
    if (!group)
        return STATUS_OK;
    if (group->rank == 0) {
        for (int rank = 1; rank < group->world; rank++)
            TRY(group_send(group, rank, WIRE_SHARED, data, bytes));
        return STATUS_OK;
    }
    TRY(group_take(group, 0, WIRE_SHARED, &message));
    CHECK(message.bytes == bytes, "%u bytes, %zu expected", message.bytes, bytes);
    memcpy(data, message.data, bytes);
    return STATUS_OK;
}

/* The item of a JSON text that `at` lies in; of another text, the part around it. */
static const char *item_at(const char *text, size_t at, char item[ITEM_BYTES])
{
    size_t first = at, length = 0;
    while (first > 0 && at - first < ITEM_BYTES / 2 && !strchr(",{", text[first - 1]))
        first--;
    while (text[first + length] && !strchr(",}", text[first + length]) &&
           length + 1 < ITEM_BYTES)
        length++;
    snprintf(item, ITEM_BYTES, "%.*s", (int)length, text + first);
    return item;
}

static enum status fail_different(const struct group_peer *peer, const char *what,
                                  const char *theirs, const char *own, const char *advice)
{
    char their_item[ITEM_BYTES], own_item[ITEM_BYTES];
    size_t at = 0;
    while (theirs[at] && theirs[at] == own[at])
        at++;
    return status_fail(STATUS_FAILED,
                       "%s of %s and of rank 0 are not the same: %s there, %s "
                       "here; %s",
                       what, peer->name, item_at(theirs, at, their_item),
                       item_at(own, at, own_item), advice);
}

enum status group_agree(struct group *group, const char *what, const char *text,
                        const char *advice)
{
    if (!group)
        return STATUS_OK;
    size_t bytes = strlen(text) + 1;
    if (group->rank != 0)
        return group_send(group, 0, WIRE_TEXT, text, bytes);
    for (int rank = 1; rank < group->world; rank++) {
        struct wire_message message;
        TRY(group_take(group, rank, WIRE_TEXT, &message));
        message.data[WIRE_BYTES - 1] = '\0';
        if (strcmp(message.data, text) != 0)
            return fail_different(&group->peers[rank], what, message.data, text, advice);
    }
    return STATUS_OK;
}

enum status group_order(struct group *group, enum group_order order)
{
    TRY(group_check(group));
    for (int rank = 1; group && rank < group->world; rank++)
        TRY(group_send(group, rank, WIRE_ORDER, &order, sizeof order));
    return STATUS_OK;
}

enum status group_take_order(struct group *group, enum group_order *order)
{
    struct wire_message message;
    TRY(group_take(group, 0, WIRE_ORDER, &message));
    memcpy(order, message.data, sizeof *order);
    return STATUS_OK;
}

/* ---- leaving --------------------------------------------------------------------- */

static void set_over(struct group *group)
{
    pthread_mutex_lock(&group->lock);
    group->is_over = 1;
    pthread_mutex_unlock(&group->lock);
}

static int is_over(struct group *group)
{
    pthread_mutex_lock(&group->lock);
    int over = group->is_over;
    pthread_mutex_unlock(&group->lock);
    return over;
}

/* Rank 0 has done all that there was to do, and says so; what becomes of the others now
 * does not matter to the run. A rank that took the same steps is done earlier, and
 * waits. */
static enum status leave_in_peace(struct group *group)
{
    if (group->rank == 0) {
        set_over(group);
        (void)group_order(group, ORDER_END);
        return STATUS_OK;
    }
    enum group_order order = ORDER_STEP;
    while (!is_over(group) && order != ORDER_END)
        TRY(group_take_order(group, &order));
    return STATUS_OK;
}

enum status group_leave(struct group *group, enum status status)
{
    if (!group || !group->has_watcher)
        return status;
    if (status == STATUS_OK)
        status = leave_in_peace(group);
    if (status == STATUS_OK)
        return STATUS_OK;
    const char *reason = status_message();
    pthread_mutex_lock(&group->lock);
    int is_news = group->rank == 0 || !group->is_lost;
    pthread_mutex_unlock(&group->lock);
    int is_told = is_news && group_send_failure(group, status, reason);
    group_set_failure(group, status, reason, 0, group->rank != 0 && is_told);
    return status;
}

void group_tell_end(struct group *group, enum status status, const char *reason)
{
    if (group)
        group_send_failure(group, status, reason);
}

static void reap(struct group_peer *peer, double deadline)
{
    for (; peer->pid; usleep(5000)) {
        pid_t found = waitpid(peer->pid, NULL, WNOHANG);
        if (found > 0 || (found < 0 && errno == ECHILD))
            peer->pid = 0;
        else if (now_seconds() > deadline)
            kill(peer->pid, SIGKILL);
    }
}

static void release(struct group *group)
{
    for (int i = 0; i < 2; i++)
        if (group->wake[i] >= 0)
            close(group->wake[i]);
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    pthread_mutex_destroy(&group->sending);
    free(group->peers);
    free(group);
}

void group_close(struct group *group, enum status status)
{
    if (!group)
        return;
    group_watch_stop(group);
    for (int rank = 0; rank < group->world; rank++)
        if (group->peers[rank].fd >= 0)
            close(group->peers[rank].fd);
    double patience = status == STATUS_OK ? REAP_SEC : group->grace_sec + 2.0;
    double deadline = now_seconds() + patience;
    for (int rank = 0; rank < group->world; rank++)
        reap(&group->peers[rank], deadline);
    int is_child = group->is_child;
    if (is_child && status != STATUS_OK && !group->is_told)
        fprintf(stderr, "twinscale: %s\n", status_message());
    release(group);
    // What a program does at exit belongs to the process that began.
    if (is_child)
        _exit(status_exit_code(status));
}
