#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOKS = 2000, // of an idle thread before it sleeps: some tens of microseconds
    LINE = 64,    // bytes that cores hand to each other at once
};

// The op's word: its number, whether it is open, how many workers are inside.
#define IS_OPEN (UINT64_C(1) << 31)
#define ONE_INSIDE UINT64_C(1)

static unsigned op_number(uint64_t word)
{
    return (unsigned)(word >> 32);
}

static uint64_t inside(uint64_t word)
{
    return word & (IS_OPEN - 1);
}

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

/* One thread's part of the tasks. Others take from it when theirs are done. */
struct share {
    _Alignas(LINE) atomic_size_t next;
    size_t end;
};

struct pool {
    // On one line, which is all that a worker has to fetch: the op, written while nobody
    // is inside, and its word, which lets workers in.
    _Alignas(LINE) _Atomic uint64_t word;
    void (*run)(void *job, size_t task, int thread);
    void *job;
    struct share *shares; // [threads]
    int threads;

    _Alignas(LINE) pthread_mutex_t lock; // for those who sleep
    pthread_cond_t opened, left;
    atomic_int asleep;      // workers
    int is_over;            // under the lock: the pool ends
    struct worker *workers; // [threads - 1]
    int started;            // how many of them run
};

static void look_away(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* One's own share first, which is the same part of every op: what a thread wrote in the
 * last op is then what it reads in the next, out of its own cache. */
static void take_tasks(struct pool *pool, int thread)
{
    for (int i = 0; i < pool->threads; i++) {
        struct share *share = &pool->shares[(thread + i) % pool->threads];
        size_t end = share->end, task;
        while (atomic_load(&share->next) < end &&
               (task = atomic_fetch_add(&share->next, 1)) < end)
            pool->run(pool->job, task, thread);
    }
}

/* Waits for an op newer than `seen`; returns 0 when the pool ends. */
static int wait_for_op(struct pool *pool, unsigned seen)
{
    for (int look = 0; look < LOOKS; look++) {
        if (op_number(atomic_load(&pool->word)) != seen)
            return 1;
        look_away();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->asleep, 1);
    while (!pool->is_over && op_number(atomic_load(&pool->word)) == seen)
        pthread_cond_wait(&pool->opened, &pool->lock);
    atomic_fetch_sub(&pool->asleep, 1);
    int is_over = pool->is_over;
    pthread_mutex_unlock(&pool->lock);
    return !is_over;
}

/* Counts the worker as inside, unless the op has closed. */
static int enter(struct pool *pool, unsigned *seen)
{
    uint64_t word = atomic_load(&pool->word);
    while (word & IS_OPEN) {
        if (atomic_compare_exchange_weak(&pool->word, &word, word + ONE_INSIDE))
            break;
    }
    *seen = op_number(word);
    return (word & IS_OPEN) != 0;
}

static void leave(struct pool *pool)
{
    uint64_t before = atomic_fetch_sub(&pool->word, ONE_INSIDE);
    if ((before & IS_OPEN) || inside(before) > 1)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->left);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned seen = 0;
    while (wait_for_op(pool, seen)) {
        if (!enter(pool, &seen))
            continue;
        take_tasks(pool, worker->index);
        leave(pool);
    }
    return NULL;
}

static void open_op(struct pool *pool, size_t tasks)
{
    for (int i = 0; i < pool->threads; i++) {
        pool->shares[i].end = pool_share(tasks, pool->threads, i + 1);
        atomic_store(&pool->shares[i].next, pool_share(tasks, pool->threads, i));
    }
    uint64_t number = op_number(atomic_load(&pool->word)) + 1u;
    atomic_store(&pool->word, number << 32 | IS_OPEN);
    if (atomic_load(&pool->asleep) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
}

static void close_op(struct pool *pool)
{
    atomic_fetch_and(&pool->word, ~IS_OPEN);
    for (int look = 0; look < LOOKS; look++) {
        if (inside(atomic_load(&pool->word)) == 0)
            return;
        look_away();
    }
    pthread_mutex_lock(&pool->lock);
    while (inside(atomic_load(&pool->word)) > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void pool_run(struct pool *pool, size_t tasks,
              void (*run)(void *job, size_t task, int thread), void *job)
{
    if (pool->threads == 1 || tasks <= 1) {
        for (size_t task = 0; task < tasks; task++)
            run(job, task, 0);
        return;
    }
    pool->run = run;
    pool->job = job;
    open_op(pool, tasks);
    take_tasks(pool, 0);
    close_op(pool);
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
    struct pool *pool = aligned_alloc(LINE, sizeof *pool);
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    struct share *shares = aligned_alloc(LINE, (size_t)threads * sizeof *shares);
    if (!pool || !workers || !shares) {
        free(pool);
        free(workers);
        free(shares);
        return status_fail(STATUS_FAILED, "cpu: no memory for %d threads", threads);
    }
    memset(pool, 0, sizeof *pool);
    memset(shares, 0, (size_t)threads * sizeof *shares);
    pool->threads = threads;
    pool->workers = workers;
    pool->shares = shares;
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
    free(pool->shares);
    free(pool);
}
