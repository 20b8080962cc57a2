/* The thread pool of the CPU backend: every task once, whatever the threads. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu/pool.h"
#include "tests/support/support.h"

enum { TASKS_MAX = 1000 };

struct tally {
    atomic_int runs[TASKS_MAX];
    int threads;
    atomic_int wrong_threads;
    int plain[TASKS_MAX]; // written without atomics: pool_run() must order them
};

static void count_task(void *job, size_t task, int thread)
{
    struct tally *tally = job;
    atomic_fetch_add(&tally->runs[task], 1);
    if (thread < 0 || thread >= tally->threads)
        atomic_fetch_add(&tally->wrong_threads, 1);
    tally->plain[task] += (int)task + 1;
}

static void check_op(struct pool *pool, int threads, size_t tasks)
{
    static struct tally tally;
    memset(&tally, 0, sizeof tally);
    tally.threads = threads;
    pool_run(pool, tasks, count_task, &tally);
    for (size_t i = 0; i < TASKS_MAX; i++) {
        assert_int_equal(atomic_load(&tally.runs[i]), i < tasks ? 1 : 0);
        assert_int_equal(tally.plain[i], i < tasks ? (int)i + 1 : 0);
    }
    assert_int_equal(atomic_load(&tally.wrong_threads), 0);
}

static void test_every_task_runs_exactly_once_on_any_number_of_threads(void **state)
{
    (void)state;
    const int threads[] = {1, 2, 7};
    const size_t tasks[] = {0, 1, 2, 5, TASKS_MAX};
    for (size_t t = 0; t < 3; t++) {
        struct pool *pool;
        assert_int_equal(pool_create(threads[t], &pool), STATUS_OK);
        for (int op = 0; op < 200; op++)
            check_op(pool, threads[t], tasks[op % 5]);
        pool_destroy(pool);
    }
}

static void test_threads_that_slept_wake_for_the_next_op(void **state)
{
    (void)state;
    struct pool *pool;
    assert_int_equal(pool_create(3, &pool), STATUS_OK);
    for (int op = 0; op < 5; op++) {
        usleep(2000); // longer than a thread looks out for work
        check_op(pool, 3, TASKS_MAX);
    }
    pool_destroy(pool);
}

/* Slow on every thread but the caller's, so that the caller is done first. */
static void slow_task(void *job, size_t task, int thread)
{
    usleep(thread == 0 ? 200 : 5000);
    count_task(job, task, thread);
}

static void test_an_op_ends_only_when_the_last_task_that_began_is_done(void **state)
{
    (void)state;
    static struct tally tally;
    struct pool *pool;
    assert_int_equal(pool_create(4, &pool), STATUS_OK);
    for (int op = 0; op < 5; op++) {
        memset(&tally, 0, sizeof tally);
        tally.threads = 4;
        pool_run(pool, 40, slow_task, &tally);
        for (int i = 0; i < 40; i++)
            assert_int_equal(tally.plain[i], i + 1);
    }
    pool_destroy(pool);
}

struct order {
    int tasks, threads;
    int taken[4][TASKS_MAX], count[4]; // by each thread, in its order
};

static void note_task(void *job, size_t task, int thread)
{
    struct order *order = job;
    order->taken[thread][order->count[thread]++] = (int)task;
    usleep(50);
}

/* Tasks of a thread's own share come before those that it takes from others, and in
 * order. */
static void check_order(const struct order *order, int thread)
{
    int first = order->tasks * thread / order->threads;
    int end = order->tasks * (thread + 1) / order->threads, is_own = 1;
    for (int i = 0; i < order->count[thread]; i++) {
        int task = order->taken[thread][i];
        int in_share = task >= first && task < end;
        assert_true(is_own || !in_share);
        assert_true(!in_share || i == 0 || task > order->taken[thread][i - 1]);
        is_own = in_share;
    }
}

static void test_a_thread_begins_with_the_same_share_of_every_op(void **state)
{
    (void)state;
    static struct order order;
    struct pool *pool;
    assert_int_equal(pool_create(4, &pool), STATUS_OK);
    for (int op = 0; op < 20; op++) {
        order = (struct order){.tasks = 30 + op, .threads = 4};
        pool_run(pool, (size_t)order.tasks, note_task, &order);
        int all = 0;
        for (int thread = 0; thread < 4; thread++) {
            check_order(&order, thread);
            all += order.count[thread];
        }
        assert_int_equal(all, order.tasks);
    }
    pool_destroy(pool);
}

static void test_a_pool_that_never_ran_can_be_destroyed(void **state)
{
    (void)state;
    struct pool *pool;
    assert_int_equal(pool_create(4, &pool), STATUS_OK);
    pool_destroy(pool);
    pool_destroy(NULL);
}

/* In a process of its own, whose address space has no room for so many stacks. */
static int create_without_memory(void)
{
    struct rlimit limit = {256u << 20, 256u << 20};
    struct pool *pool;
    setrlimit(RLIMIT_AS, &limit);
    int failed = pool_create(512, &pool) == STATUS_FAILED;
    return failed && strstr(status_message(), "of 512 could not be started") ? 0 : 1;
}

static void test_a_thread_that_cannot_start_is_named(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip_because("the sanitizer needs more address space than the limit");
#endif
    pid_t child = fork();
    if (child == 0)
        _exit(create_without_memory());
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_runs_exactly_once_on_any_number_of_threads),
        cmocka_unit_test(test_threads_that_slept_wake_for_the_next_op),
        cmocka_unit_test(test_an_op_ends_only_when_the_last_task_that_began_is_done),
        cmocka_unit_test(test_a_thread_begins_with_the_same_share_of_every_op),
        cmocka_unit_test(test_a_pool_that_never_ran_can_be_destroyed),
        cmocka_unit_test(test_a_thread_that_cannot_start_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
