#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 2000 }; // of an idle thread before it sleeps: some tens of microseconds

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    int threads;
    struct worker *workers; // [threads - 1]
    int started;            // how many of them run

    pthread_mutex_t lock;
    pthread_cond_t opened, left;
    atomic_uint op;       // counts ops; a change wakes whoever looks out
    atomic_int inside;    // workers within the op
    int is_open, is_over; // under the lock: workers may enter; the pool ends

    // The op, written before it opens.
    void (*run)(void *job, size_t task, int thread);
    void *job;
    size_t tasks;
    atomic_size_t next;
};

static void look_away(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(struct pool *pool, int thread)
{
    size_t task;
    while ((task = atomic_fetch_add(&pool->next, 1)) < pool->tasks)
        pool->run(pool->job, task, thread);
}

/* Waits for an op newer than `seen`; returns 0 when the pool ends. With the lock held
 * after, and the worker counted as inside if the op is still open. */
static int wait_for_op(struct pool *pool, unsigned *seen)
{
    for (int look = 0; look < LOOKS && atomic_load(&pool->op) == *seen; look++)
        look_away();
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_over && atomic_load(&pool->op) == *seen)
        pthread_cond_wait(&pool->opened, &pool->lock);
    *seen = atomic_load(&pool->op);
    return !pool->is_over;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned seen = 0;
    while (wait_for_op(pool, &seen)) {
        int is_open = pool->is_open;
        if (is_open)
            atomic_fetch_add(&pool->inside, 1);
        pthread_mutex_unlock(&pool->lock);
        if (!is_open)
            continue;
        take_tasks(pool, worker->index);
        pthread_mutex_lock(&pool->lock);
        if (atomic_fetch_sub(&pool->inside, 1) == 1)
            pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void pool_run(struct pool *pool, size_t tasks,
              void (*run)(void *job, size_t task, int thread), void *job)
{
    if (pool->threads == 1 || tasks <= 1) {
        for (size_t task = 0; task < tasks; task++)
            run(job, task, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->run = run;
    pool->job = job;
    pool->tasks = tasks;
    atomic_store(&pool->next, 0);
    pool->is_open = 1;
    atomic_fetch_add(&pool->op, 1);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);

    take_tasks(pool, 0);

    pthread_mutex_lock(&pool->lock);
    pool->is_open = 0;
    pthread_mutex_unlock(&pool->lock);
    for (int look = 0; look < LOOKS && atomic_load(&pool->inside) > 0; look++)
        look_away();
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->inside) > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

/* Workers leave every signal to the threads that expect them. */
static int start_worker(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum status pool_create(int threads, struct pool **result)
{
    struct pool *pool = calloc(1, sizeof *pool);
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return status_fail(STATUS_FAILED, "cpu: no memory for %d threads", threads);
    }
    pool->threads = threads;
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->opened, NULL);
    pthread_cond_init(&pool->left, NULL);
    for (int i = 0; i < threads - 1; i++) {
        workers[i] = (struct worker){.pool = pool, .index = i + 1};
        int error = start_worker(&workers[i]);
        if (error) {
            pool_destroy(pool);
            return status_fail(
                STATUS_FAILED,
                "cpu: thread %d of %d could not be started (%s); ask for fewer "
                "threads",
                i + 2, threads, strerror(error));
        }
        pool->started = i + 1;
    }
    *result = pool;
    return STATUS_OK;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_over = 1;
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->opened);
    pthread_cond_destroy(&pool->left);
    free(pool->workers);
    free(pool);
}
