/* group.h - the processes that train one run together, one for each GPU.
 * Flow:  run.c -> [group_join] -> trainer_create() on every rank -> [orders] ->
 *        [group_leave].
 * Owns:  the sockets between rank 0 and the others, a thread that watches them, and the
 *        processes that it started.
 *
 *     struct group *group;                     // NULL: alone; every function takes that
 *     TRY(group_join(&start, &group));         // from here on there are `world` of them
 *     TRY(group_share(group, id, sizeof id));  // rank 0's bytes on every rank
 *     ...
 *     status = group_leave(group, status);     // tells the others how this one ended
 *     trainer_release(...);
 *     group_close(group, status);
 *
 * Only a few bytes travel here. What is summed over the ranks goes from device to device
 * (kernels/ops.h, group_ops), and all ranks have to queue the same steps for that. So
 * rank 0 alone decides, and orders before every step what comes next; keys and signals
 * are its.
 *
 * A rank that fails sends its sentence to rank 0, which ends the run on all others. A
 * rank that dies closes its socket, which is noticed at once. The program may then stand
 * in a call that waits for that rank's device: when it has not ended by itself after
 * grace_sec, the watching thread ends it, with the sentence and its exit code. */
#ifndef APP_RANKS_GROUP_H
#define APP_RANKS_GROUP_H

#include <stddef.h>

#include "kernels/base/status.h"

struct group;

#define GROUP_WORLD_MAX 64

/* What torchrun, mpirun or srun told this process by environment variables. */
struct group_place {
    int is_launched;      // by one of them; else all else is 0
    const char *launcher; // "torchrun"
    int rank, world;      // of all processes
    int local_rank;       // on this machine: which GPU
    int sees_one_device;  // the launcher shows each process its own GPU alone
    char address[256];    // where rank 0 listens
    int port;
};

/* STATUS_USAGE names the variable that is missing or wrong. */
enum status group_read_environment(struct group_place *place);

/* The index of this rank's GPU, counted from that of rank 0's. */
int group_device_index(const struct group_place *place, int rank);

struct group_start {
    int world; // 1: alone
    const struct group_place
        *place; // launched: the ranks meet by TCP; else they are forked
    int (*is_stopped)(
        void *context); // asked while ranks wait for each other; may be NULL
    void *context;
    double meet_sec, grace_sec; // 0 = the usual
};

/* Returns in every process of the group; in forked ones with all that the caller had set
 * up, which must not hold threads or devices yet. Fails with the reason when a process
 * cannot be started, ranks do not meet in time, or do not fit together. */
enum status group_join(const struct group_start *start, struct group **group);

/* Says how this process ends: success waits, on ranks above 0, for rank 0 to say that
 * all is done, or returns how that failed; failure tells the others, unless they brought
 * it. Before the device is closed. */
enum status group_leave(struct group *group, enum status status);

/* For a thread that ends this process at once: the others get the reason. NULL is
 * fine. */
void group_tell_end(struct group *group, enum status status, const char *reason);

/* Last: waits for the processes that were started, and ends those that do not end. Does
 * not return in a process that was forked. NULL is fine. */
void group_close(struct group *group, enum status status);

int group_rank(const struct group *group);
int group_world(const struct group *group);

/* STATUS_OK, or the loss of a rank: which, and why. */
enum status group_check(struct group *group);

/* A failure of this rank's device is often the echo of another rank's end. Waits a moment
 * for such news and then returns (and tells) that instead of `status`. */
enum status group_blame(struct group *group, enum status status);

/* `tell` is called with the reason before the watching thread ends the process. */
void group_on_loss(struct group *group, void (*tell)(void *context, const char *reason),
                   void *context);

/* ---- what ranks tell each other -------------------------------------------------- */

/* Rank 0's `data` on every rank. */
enum status group_share(struct group *group, void *data, size_t bytes);

/* All ranks call it with the same `what` ("the loss scalers"). On rank 0 STATUS_FAILED
 * when a rank's text differs from its own, with both texts and `advice`. */
enum status group_agree(struct group *group, const char *what, const char *text,
                        const char *advice);

enum group_order {
    ORDER_STEP,    // queue one step
    ORDER_COMPARE, // agree on the scalers
    ORDER_CHANGE,  // take a request of change.h by group_share()
    ORDER_END,     // all is done: rank 0 gives it by group_leave()
};

/* Rank 0: to all others; nothing is waited for. */
enum status group_order(struct group *group, enum group_order order);
/* The others: the next one. */
enum status group_take_order(struct group *group, enum group_order *order);

#endif
