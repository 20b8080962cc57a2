/* pool.h - threads that share the tasks of one op.
 * Flow:  cpu_open() -> pool_create(); each op -> [pool_run] -> tasks.
 * Owns:  threads - 1 threads; the caller of pool_run() is the first.
 *
 * Made for busy machines, where a barrier over all threads waits for whichever has lost
 * its core. Here the caller works too and waits only for tasks that another thread has
 * really begun; a thread begins with its own share of the tasks, the same part in every
 * op, and then takes from the others'; one that wakes too late finds the op closed and
 * sleeps again. An idle thread looks out for work a few microseconds, since the next op
 * follows soon within a step, and then sleeps.
 *
 * Shares are for cores that have no cache in common, as those of a server that lie on
 * different dies: there a line of another core's cache costs about five times what it
 * costs on one die, and tasks that were dealt one by one to whoever came had nearly every
 * op read what the other core had just written. fmnist-quick's step on two cores took 8 %
 * less with shares on one die and 19 % less on two, and there another 15 % less when what
 * passes between ops had its place by share too: backend.h, slab. */
#ifndef KERNELS_CPU_POOL_H
#define KERNELS_CPU_POOL_H

#include <stddef.h>

#include "kernels/base/status.h"

struct pool;

/* STATUS_FAILED, with the system's reason, when a thread cannot be started. */
enum status pool_create(int threads, struct pool **pool);
void pool_destroy(struct pool *pool); // NULL is fine

/* The first task of a thread's share of `tasks`; that of the thread after it ends the
 * share.
 */
static inline size_t pool_share(size_t tasks, int threads, int thread)
{
    return tasks * (size_t)thread / (size_t)threads;
}

/* The thread in whose share a task is. */
static inline int pool_owner(size_t tasks, int threads, size_t task)
{
    return (int)(((task + 1) * (size_t)threads - 1) / tasks);
}

/* Runs run(job, task, thread) once for each task in [0, tasks), in any order, thread in
 * [0, threads). Returns when all are done. One caller at a time. */
void pool_run(struct pool *pool, size_t tasks,
              void (*run)(void *job, size_t task, int thread), void *job);

#endif
