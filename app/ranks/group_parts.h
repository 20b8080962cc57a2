/* group_parts.h - what a group is made of, for the group_*.c files alone.
 * Flow:  group_fork.c or group_meet.c connects, group_watch.c listens, group.c says.
 * Owns:  see group.h. */
#ifndef APP_RANKS_GROUP_PARTS_H
#define APP_RANKS_GROUP_PARTS_H

#include <pthread.h>
#include <sys/types.h>

#include "app/ranks/group.h"
#include "app/ranks/group_wire.h"

// Rank 0 runs ahead of the others by the steps on their way, with a few orders for each.
#define GROUP_QUEUE 16

struct group_peer {
    int fd;        // -1: not connected
    int is_gone;   // the other end was closed; for the watcher alone
    pid_t pid;     // of a process that was started here, until it has been waited for; 0
    char name[96]; // "rank 3 (node7, process 4242)"
    struct wire_message queue[GROUP_QUEUE];
    int first, count;
};

struct group {
    int rank, world;
    int is_child;             // was forked: ends with _exit
    struct group_peer *peers; // [world] by rank; ranks above 0 know peers[0] alone
    double grace_sec;

    pthread_t watcher;
    int has_watcher;
    int wake[2]; // a byte here makes the watcher look up

    pthread_mutex_t sending; // one message at a time
    pthread_mutex_t lock;    // of all that follows, and of the queues
    pthread_cond_t changed;
    int is_over;        // rank 0 has said that all is done: no rank is missed any more
    int must_stop;      // the watcher
    enum status status; // of the first failure, here or elsewhere
    char reason[WIRE_BYTES + 128];
    int is_lost;     // it was elsewhere
    int is_told;     // somebody else says it to the user
    double deadline; // when the watcher ends the process; 0 = not
    void (*tell)(void *context, const char *reason);
    void *context;
};

/* group_fork.c, group_meet.c: fill rank, is_child and peers. */
enum status group_fork(struct group *group);
enum status group_meet(struct group *group, const struct group_start *start);

/* group_watch.c. */
enum status group_watch_start(struct group *group);
void group_watch_stop(struct group *group);
/* Keeps the first failure and starts the time that is left; true when this is it.
 * `is_lost`: it was elsewhere. */
int group_set_failure(struct group *group, enum status status, const char *reason,
                      int is_lost, int is_told);
/* Waits for `rank`'s next message, which must be of `kind`. */
enum status group_take(struct group *group, int rank, enum wire_kind kind,
                       struct wire_message *message);
enum status group_send(struct group *group, int rank, enum wire_kind kind,
                       const void *data, size_t bytes);
/* Rank 0 to all others, else to rank 0; true when all took it. */
int group_send_failure(struct group *group, enum status status, const char *reason);

#endif
