/* test_group.c - two ranks of the CUDA backend, each a process of its own, on a stand-in
 * for NCCL: sums over both, queued and replayed, and what the one says when the other is
 * gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "tests/support/support.h"

#define ENDS_WELL 0
#define ENDS_WRONG 3

/* Fails the rank, in its own process: cmocka is the parent's. */
#define EXPECT(claim)                                                                 \
    do {                                                                              \
        if (!(claim)) {                                                               \
            fprintf(stderr, "rank %d: not true: %s (%s)\n", rank, #claim, said(gpu)); \
            return ENDS_WRONG;                                                        \
        }                                                                             \
    } while (0)

static const char *said(struct device *gpu)
{
    return gpu && gpu->fault[0] ? gpu->fault : status_message();
}

/* The group's id goes from rank 0 to rank 1 through `pipes`. */
static struct device *join(int rank, const int pipes[2])
{
    struct device_options options = {.rank = rank, .world = 2};
    struct device *gpu = NULL;
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", rank);
    if (rank == 0 && (device_group_id(name, options.group_id) != STATUS_OK ||
                      write(pipes[1], options.group_id, DEVICE_GROUP_ID) < 1))
        return NULL;
    if (rank == 1 && read(pipes[0], options.group_id, DEVICE_GROUP_ID) < 1)
        return NULL;
    return device_open_with(name, &options, &gpu) == STATUS_OK ? gpu : NULL;
}

/* Runs rank_main(0) and rank_main(1) in two processes; their exit codes. */
static void run_ranks(int (*rank_main)(int rank, struct device *gpu), int codes[2])
{
    int pipes[2];
    pid_t processes[2];
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    for (int rank = 0; rank < 2; rank++) {
        processes[rank] = fork();
        if (processes[rank] == 0) {
            struct device *gpu = join(rank, pipes);
            if (!gpu)
                fprintf(stderr, "rank %d: %s\n", rank, status_message());
            exit(gpu ? rank_main(rank, gpu) : ENDS_WRONG);
        }
    }
    for (int rank = 0; rank < 2; rank++) {
        int state;
        assert_int_equal(waitpid(processes[rank], &state, 0), processes[rank]);
        codes[rank] = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- sums ------------------------------------------------------------------------ */

enum { COUNT = 1000 };

static int sum_once(int rank, struct device *gpu)
{
    const struct ops *ops = gpu->ops;
    float single[COUNT];
    double wide[3] = {rank + 0.25, 1e-9, -1.0};
    for (int i = 0; i < COUNT; i++)
        single[i] = (float)(i * (rank + 1));
    float *singles = ops->memory.alloc(gpu, sizeof single);
    double *doubles = ops->memory.alloc(gpu, sizeof wide);
    EXPECT(gpu->rank == rank && gpu->world == 2);
    ops->memory.upload(gpu, singles, single, sizeof single);
    ops->memory.upload(gpu, doubles, wide, sizeof wide);
    ops->group.sum_f32(gpu, singles, COUNT);
    ops->group.sum_f64(gpu, doubles, 3);
    ops->memory.download(gpu, single, singles, sizeof single);
    ops->memory.download(gpu, wide, doubles, sizeof wide);
    for (int i = 0; i < COUNT; i++)
        EXPECT(single[i] == (float)(3 * i));
    EXPECT(wide[0] == 1.5 && wide[1] == 2e-9 && wide[2] == -2.0);

    single[0] = rank ? -1.0f : 4.0f;
    ops->memory.upload(gpu, singles, single, sizeof(float));
    ops->group.max_f32(gpu, singles, 1);
    ops->memory.download(gpu, single, singles, sizeof(float));
    EXPECT(single[0] == 4.0f);
    EXPECT(device_fault(gpu) == STATUS_OK);
    ops->memory.release(gpu, singles);
    ops->memory.release(gpu, doubles);
    device_close(gpu);
    return ENDS_WELL;
}

static void test_sums_and_maxima_are_over_both_ranks(void **state)
{
    (void)state;
    int codes[2];
    run_ranks(sum_once, codes);
    assert_int_equal(codes[0], ENDS_WELL);
    assert_int_equal(codes[1], ENDS_WELL);
}

struct work {
    struct device *gpu;
    float *value;
};

static void sum_up(void *argument)
{
    struct work *work = argument;
    work->gpu->ops->group.sum_f32(work->gpu, work->value, 1);
}

static int sum_again_and_again(int rank, struct device *gpu)
{
    const struct ops *ops = gpu->ops;
    struct work work = {gpu, ops->memory.alloc(gpu, sizeof(float))};
    struct repeat *repeat = NULL;
    float value = rank ? 2.0f : 1.0f;
    ops->memory.upload(gpu, work.value, &value, sizeof value);
    for (int i = 0; i < 5; i++) {
        ops->queue.repeat(gpu, &repeat, sum_up, &work);
        ops->queue.mark(gpu, 0);
        ops->queue.wait_mark(gpu, 0);
    }
    ops->memory.download(gpu, &value, work.value, sizeof value);
    EXPECT(value == 48.0f); // 3, and four times doubled
    EXPECT(device_fault(gpu) == STATUS_OK);
    ops->queue.forget(gpu, &repeat);
    ops->memory.release(gpu, work.value);
    device_close(gpu);
    return ENDS_WELL;
}

static void test_sums_are_replayed_with_the_rest(void **state)
{
    (void)state;
    int codes[2];
    run_ranks(sum_again_and_again, codes);
    assert_int_equal(codes[0], ENDS_WELL);
    assert_int_equal(codes[1], ENDS_WELL);
}

static int work_on_a_lane(int rank, struct device *gpu)
{
    struct device *lane = NULL;
    EXPECT(gpu->ops->queue.open_stream(gpu, &lane) == STATUS_OK);
    EXPECT(lane->world == 1); // pictures are one rank's own
    gpu->ops->queue.close_stream(gpu, lane);
    device_close(gpu);
    return ENDS_WELL;
}

static void test_a_lane_belongs_to_its_rank_alone(void **state)
{
    (void)state;
    int codes[2];
    run_ranks(work_on_a_lane, codes);
    assert_int_equal(codes[0], ENDS_WELL);
    assert_int_equal(codes[1], ENDS_WELL);
}

/* ---- a rank that is lost --------------------------------------------------------- */

static int lose_the_other(int rank, struct device *gpu)
{
    const struct ops *ops = gpu->ops;
    float value, *sum = ops->memory.alloc(gpu, sizeof(float));
    struct work work = {gpu, sum};
    struct repeat *repeat = NULL;
    for (int i = 0; i < 3; i++)
        ops->queue.repeat(gpu, &repeat, sum_up, &work);
    ops->memory.wait(gpu);
    if (rank == 1)
        _exit(ENDS_WELL); // without a word
    ops->queue.repeat(gpu, &repeat, sum_up, &work);
    ops->memory.download(gpu, &value, sum, sizeof value);
    EXPECT(strstr(gpu->fault, "rank 0 of 2 has lost the others: "));
    EXPECT(device_fault(gpu) == STATUS_FAILED);
    ops->group.sum_f32(gpu, sum, 1); // nobody is asked any more
    ops->queue.repeat(gpu, &repeat, sum_up, &work);
    ops->memory.wait(gpu);
    ops->queue.forget(gpu, &repeat);
    ops->memory.release(gpu, sum);
    device_close(gpu);
    return ENDS_WELL;
}

static void test_a_rank_that_is_lost_is_a_fault_and_no_endless_wait(void **state)
{
    (void)state;
    int codes[2];
    alarm(600);
    run_ranks(lose_the_other, codes);
    alarm(0);
    assert_int_equal(codes[0], ENDS_WELL);
    assert_int_equal(codes[1], ENDS_WELL);
}

static int just_leave(int rank, struct device *gpu)
{
    (void)rank;
    device_close(gpu);
    return ENDS_WELL;
}

static void test_two_ranks_join_and_leave_in_peace(void **state)
{
    (void)state;
    int codes[2];
    run_ranks(just_leave, codes);
    assert_int_equal(codes[0], ENDS_WELL);
    assert_int_equal(codes[1], ENDS_WELL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_join_and_leave_in_peace),
        cmocka_unit_test(test_sums_and_maxima_are_over_both_ranks),
        cmocka_unit_test(test_sums_are_replayed_with_the_rest),
        cmocka_unit_test(test_a_lane_belongs_to_its_rank_alone),
        cmocka_unit_test(test_a_rank_that_is_lost_is_a_fault_and_no_endless_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
