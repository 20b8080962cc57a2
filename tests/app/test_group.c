/* Ranks without devices: plain processes that share, agree, take orders, fail and die. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/config.h"
#include "app/group.h"
#include "app/group_wire.h"
#include "tests/support/support.h"

#define PATIENCE_MS 5000 // far more than any of these needs

/* ---- processes ------------------------------------------------------------------- */

/* One process that begins, as `twinscale train` does. What all of them print, and the life of
 * all of them, hang on one pipe: its end is the end of the last one. */
struct process {
    pid_t pid;
    int output;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void live(const struct group_start *start, enum status (*body)(struct group *))
{
    struct group *group;
    enum status status = group_join(start, &group);
    if (status == STATUS_OK)
        status = body(group);
    status = group_blame(group, status);
    group_leave(group, status);
    group_close(group, status);
    if (status != STATUS_OK)
        fprintf(stderr, "twinscale: %s\n", status_message());
    _exit(status_exit_code(status));
}

static struct process begin(const struct group_start *start,
                            enum status (*body)(struct group *))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    struct process process = {.pid = fork(), .output = ends[0]};
    assert_true(process.pid >= 0);
    if (process.pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(30); // a test that hangs ends, too
        live(start, body);
    }
    close(ends[1]);
    return process;
}

/* Reads until nobody holds the pipe any more; fails the test when somebody stays. */
static void read_all(int output, char *text, size_t bytes)
{
    size_t used = 0;
    for (;;) {
        struct pollfd polled = {.fd = output, .events = POLLIN};
        if (poll(&polled, 1, PATIENCE_MS) == 0)
            fail_msg("a process is left behind after: %.*s", (int)used, text);
        ssize_t got = read(output, text + used, bytes - used - 1);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    close(output);
}

/* The exit code of the process that began, when all are gone. */
static int finish(struct process process, char *text, size_t bytes)
{
    int state;
    read_all(process.output, text, bytes);
    assert_int_equal(waitpid(process.pid, &state, 0), process.pid);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

static int fork_group(int world, enum status (*body)(struct group *), char *text,
                      size_t bytes)
{
    struct group_start start = {.world = world, .grace_sec = 0.3};
    return finish(begin(&start, body), text, bytes);
}

static void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

// One sentence, once, whatever the number of ranks.
static void assert_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    if (!end || end[1])
        fail_msg("not one line: \"%s\"", text);
}

/* ---- forked: what ranks tell each other ------------------------------------------ */

static enum status shares(struct group *group)
{
    unsigned char bytes[128] = {0};
    for (int i = 0; i < 128 && group_rank(group) == 0; i++)
        bytes[i] = (unsigned char)(255 - i);
    TRY(group_share(group, bytes, sizeof bytes));
    for (int i = 0; i < 128; i++)
        if (bytes[i] != 255 - i)
            return status_fail(STATUS_FAILED, "byte %d is %d", i, bytes[i]);
    return group_agree(group, "the bytes", "alike", "");
}

static void test_every_rank_gets_what_rank_0_shares(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(4, shares, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(code, 0);
}

static void test_sixty_four_ranks_are_started_and_end(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(GROUP_WORLD_MAX, shares, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(code, 0);
}

#define ORDERS 500 // many more than fit into a queue

static enum group_order order_number(int i)
{
    return i % 7 == 0 ? ORDER_COLLECT : ORDER_STEP;
}

static enum status orders(struct group *group)
{
    char wrong[32];
    int count = 0;
    for (int i = 0; i < ORDERS; i++) {
        enum group_order order = order_number(i);
        if (group_rank(group) == 0)
            TRY(group_order(group, order));
        else
            TRY(group_take_order(group, &order));
        count += order != order_number(i);
        if (group_rank(group) == 1 && i == 0)
            usleep(200000); // rank 0 has to wait for a slow one
    }
    snprintf(wrong, sizeof wrong, "%d wrong", count);
    return group_agree(group, "the orders", wrong, "");
}

static void test_orders_arrive_in_their_order_also_when_a_rank_is_slow(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(3, orders, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(code, 0);
}

static enum status returns_early(struct group *group)
{
    if (group_rank(group) == 0)
        usleep(300000); // saves, draws
    return STATUS_OK;
}

static void test_a_rank_that_is_done_waits_for_rank_0(void **state)
{
    (void)state;
    char text[1024];
    double started = now();
    int code = fork_group(3, returns_early, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(code, 0);
    assert_true(now() - started >= 0.3);
}

static enum status differs(struct group *group)
{
    const char *text = group_rank(group) == 2 ? "{\"scale\":512.0,\"skipped\":1}"
                                              : "{\"scale\":1024.0,\"skipped\":1}";
    TRY(group_agree(group, "the steps", "the same", ""));
    return group_agree(group, "scaler_d", text, "resume");
}

static void test_a_difference_is_told_with_rank_and_both_values(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(4, differs, text, sizeof text);
    assert_one_line(text);
    assert_says(text, "twinscale: scaler_d of rank 2 (process ");
    assert_says(text, "and of rank 0 are not the same: \"scale\":512.0 there, "
                      "\"scale\":1024.0 here; resume");
    assert_int_equal(code, 1);
}

static void test_alone_nothing_is_started_and_all_calls_succeed(void **state)
{
    (void)state;
    struct group_start start = {.world = 1};
    struct group *group;
    assert_int_equal(group_join(&start, &group), STATUS_OK);
    assert_null(group);
    assert_int_equal(group_rank(group), 0);
    assert_int_equal(group_world(group), 1);
    assert_int_equal(group_check(group), STATUS_OK);
    assert_int_equal(group_order(group, ORDER_STEP), STATUS_OK);
    assert_int_equal(group_agree(group, "a", "b", "c"), STATUS_OK);
    assert_int_equal(group_blame(group, STATUS_FAILED), STATUS_FAILED);
    group_leave(group, STATUS_OK);
    group_close(group, STATUS_OK);
}

/* ---- forked: ranks that are lost ------------------------------------------------- */

// Rank 0 goes on until it hears of a loss, as a run does.
static enum status order_for_ever(struct group *group)
{
    for (;; usleep(1000))
        TRY(group_order(group, ORDER_STEP));
}

static enum status take_for_ever(struct group *group)
{
    enum group_order order;
    for (;;)
        TRY(group_take_order(group, &order));
}

static enum status one_has_bad_data(struct group *group)
{
    if (group_rank(group) == 0)
        return order_for_ever(group);
    if (group_rank(group) == 2)
        return status_fail(STATUS_DATA, "photos: has no images");
    return take_for_ever(group);
}

static void test_a_rank_that_fails_gives_its_reason_and_its_exit_code(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(4, one_has_bad_data, text, sizeof text);
    assert_one_line(text);
    assert_says(text, "twinscale: rank 2 (process ");
    assert_says(text, ") ended the run: photos: has no images");
    assert_int_equal(code, 4);
}

static enum status first_fails(struct group *group)
{
    if (group_rank(group) == 0)
        return status_fail(STATUS_DIVERGED, "D skipped 25 steps in a row");
    return take_for_ever(group);
}

static void test_when_rank_0_fails_it_alone_says_so(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(3, first_fails, text, sizeof text);
    assert_string_equal(text, "twinscale: D skipped 25 steps in a row\n");
    assert_int_equal(code, 5);
}

static enum status one_dies_at_once(struct group *group)
{
    if (group_rank(group) == 1)
        raise(SIGKILL);
    return group_rank(group) == 0 ? order_for_ever(group) : take_for_ever(group);
}

static enum status one_dies_late(struct group *group)
{
    enum group_order order;
    for (int i = 0; i < 50 && group_rank(group) == 2; i++)
        TRY(group_take_order(group, &order));
    if (group_rank(group) == 2)
        _exit(7);
    return group_rank(group) == 0 ? order_for_ever(group) : take_for_ever(group);
}

static void test_a_rank_that_dies_is_named_with_its_death(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(3, one_dies_at_once, text, sizeof text);
    assert_one_line(text);
    assert_says(text, "twinscale: rank 1 (process ");
    assert_says(text, ") was killed by signal 9 (Killed)");
    assert_int_equal(code, 1);

    code = fork_group(3, one_dies_late, text, sizeof text);
    assert_one_line(text);
    assert_says(text, "twinscale: rank 2 (process ");
    assert_says(text, ") ended with exit code 7 and gave no reason");
    assert_int_equal(code, 1);
}

// As a call that waits for a lost rank's device does.
static enum status wait_for_ever(void)
{
    while (pause() == -1)
        ;
    return STATUS_OK;
}

static void tell(void *context, const char *reason)
{
    fprintf(stderr, "%s: %.6s\n", (const char *)context, reason);
}

static enum status all_others_hang(struct group *group)
{
    if (group_rank(group) == 0)
        group_on_loss(group, tell, "told");
    if (group_rank(group) == 2)
        return status_fail(STATUS_ENVIRONMENT, "cuda:2: no such device");
    return wait_for_ever();
}

static void test_ranks_that_hang_are_ended_with_the_reason_of_the_lost_one(void **state)
{
    (void)state;
    char text[1024];
    double started = now();
    int code = fork_group(4, all_others_hang, text, sizeof text);
    assert_true(now() - started < 3.0);
    assert_says(text, "told: rank 2\ntwinscale: rank 2 (process ");
    assert_says(text, "ended the run: cuda:2: no such device\n");
    assert_int_equal(strlen(strchr(text, '\n')), strlen(strstr(text, "\ntwinscale")));
    assert_int_equal(code, 3);
}

static enum status hangs_while_closing(struct group *group)
{
    enum status status = status_fail(STATUS_FAILED, "cuda:0: an op failed");
    group_leave(group, status);
    return wait_for_ever();
}

static void test_a_rank_that_hangs_after_its_own_failure_is_ended_too(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(2, hangs_while_closing, text, sizeof text);
    assert_says(text, "twinscale: ");
    assert_says(text, "cuda:0: an op failed");
    assert_int_equal(code, 1);
}

static enum status echo(struct group *group)
{
    if (group_rank(group) == 1) {
        usleep(100000);
        raise(SIGABRT);
    }
    return status_fail(STATUS_FAILED, "cuda:0: NCCL: a remote process has ended");
}

static void test_a_fault_that_is_the_echo_of_another_ranks_end_names_that(void **state)
{
    (void)state;
    char text[1024];
    int code = fork_group(2, echo, text, sizeof text);
    assert_one_line(text);
    assert_says(text, "rank 1 (process ");
    assert_says(text, "was killed by signal 6");
    assert_int_equal(code, 1);
}

static enum status says_ready(struct group *group)
{
    TRY(group_agree(group, "a", "a", ""));
    if (group_rank(group) == 0)
        fprintf(stderr, "ready\n");
    return group_rank(group) == 0 ? order_for_ever(group) : wait_for_ever();
}

static void test_no_process_is_left_when_the_first_is_killed(void **state)
{
    (void)state;
    char text[1024] = "";
    struct group_start start = {.world = 4};
    struct process process = begin(&start, says_ready);
    assert_int_equal(read(process.output, text, 6), 6);
    kill(process.pid, SIGKILL);
    assert_int_equal(finish(process, text, sizeof text), 128 + SIGKILL);
    assert_string_equal(text, "");
}

/* ---- launched: the environment --------------------------------------------------- */

static const char *const variables[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_NUM_NODES",
                                        "CUDA_VISIBLE_DEVICES",
                                        "TORCHELASTIC_USE_AGENT_STORE"};

/* The environment is "A=1 B=2" and nothing else of those above. */
static enum status read_place(const char *environment, struct group_place *place)
{
    char copy[512], *rest = copy;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    snprintf(copy, sizeof copy, "%s", environment);
    for (char *one; (one = strsep(&rest, " "));) {
        char *value = strchr(one, '=');
        if (!value)
            continue;
        *value = '\0';
        setenv(one, value + 1, 1);
    }
    enum status status = group_read_environment(place);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return status;
}

#define TORCHRUN "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "

static void test_each_launchers_variables_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *launcher, *address;
        int rank, world, device, port;
    } cases[] = {
        {TORCHRUN "MASTER_ADDR=node1 MASTER_PORT=1234", "torchrun", "node1", 5, 8, 1,
         1234},
        {TORCHRUN "MASTER_ADDR=node1 MASTER_PORT=1234 TORCHELASTIC_USE_AGENT_STORE=True",
         "torchrun", "node1", 5, 8, 1, 1235},
        {TORCHRUN "MASTER_ADDR=node1 CUDA_VISIBLE_DEVICES=3", "torchrun", "node1", 5, 8,
         0, 29500},
        {TORCHRUN "MASTER_ADDR=node1 CUDA_VISIBLE_DEVICES=2,3", "torchrun", "node1", 5, 8,
         1, 29500},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2",
         "Open MPI", "127.0.0.1", 1, 2, 1, 29500},
        // MPICH's proxies are started by Slurm, which counts them, not the ranks.
        {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 SLURM_PROCID=1 "
         "SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 MASTER_ADDR=a",
         "MPICH", "a", 3, 4, 1, 29500},
        {"PMI_RANK=2 PMI_SIZE=4 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=2 "
         "SLURM_STEP_NUM_NODES=1",
         "Slurm", "127.0.0.1", 2, 4, 2, 29500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct group_place place;
        if (read_place(cases[i].environment, &place) != STATUS_OK)
            fail_msg("%s: %s", cases[i].environment, status_message());
        assert_true(place.is_launched);
        assert_string_equal(place.launcher, cases[i].launcher);
        assert_string_equal(place.address, cases[i].address);
        assert_int_equal(place.rank, cases[i].rank);
        assert_int_equal(place.world, cases[i].world);
        assert_int_equal(group_device_index(&place, place.rank), cases[i].device);
        assert_int_equal(place.port, cases[i].port);
    }
}

static void test_without_a_launcher_a_process_is_alone(void **state)
{
    (void)state;
    static const char *const environments[] = {
        "", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0",
        // The script of a Slurm job, which has called no srun.
        "SLURM_PROCID=0 SLURM_LOCALID=0", "CUDA_VISIBLE_DEVICES=0,1 MASTER_ADDR=a"};
    for (size_t i = 0; i < sizeof environments / sizeof *environments; i++) {
        struct group_place place;
        assert_int_equal(read_place(environments[i], &place), STATUS_OK);
        assert_false(place.is_launched);
        assert_int_equal(group_device_index(&place, 3), 3);
    }
}

static void test_each_wrong_variable_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *words;
    } cases[] = {
        {"RANK=1", "RANK is set (\"1\") but WORLD_SIZE is not"},
        {"WORLD_SIZE=2", "WORLD_SIZE is set (\"2\") but RANK is not"},
        {"RANK=1 WORLD_SIZE=2", "RANK is set (\"1\") but LOCAL_RANK is not"},
        {"RANK=1 WORLD_SIZE=two LOCAL_RANK=0",
         "WORLD_SIZE: \"two\" is not a number of processes from 1; expected a whole "
         "number "
         "up to 64"},
        {"RANK=1 WORLD_SIZE=65 LOCAL_RANK=0", "WORLD_SIZE: \"65\""},
        {"RANK=1 WORLD_SIZE=0 LOCAL_RANK=0", "WORLD_SIZE: \"0\""},
        {"RANK=2 WORLD_SIZE=2 LOCAL_RANK=0",
         "RANK: \"2\" is not a rank from 0; expected a whole number up to 1"},
        {"RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK: \"-1\""},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=x", "LOCAL_RANK: \"x\" is not a rank on this"},
        {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=2", "LOCAL_RANK: \"2\""},
        {TORCHRUN, "MASTER_ADDR is not set: rank 5 of 8 (torchrun)"},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT: \"0\" is not a port"},
        {TORCHRUN "MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT: \"70000\""},
        {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK is set (\"0\") but "
                                   "OMPI_COMM_WORLD_SIZE is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct group_place place;
        if (read_place(cases[i].environment, &place) != STATUS_USAGE)
            fail_msg("%s is taken", cases[i].environment);
        assert_says(status_message(), cases[i].words);
    }
}

/* ---- launched: meeting by TCP ---------------------------------------------------- */

static int listen_somewhere(int *port)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof where;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&where, &bytes), 0);
    *port = ntohs(where.sin_port);
    return fd;
}

static struct group_place place_at(int port, int rank, int world)
{
    struct group_place place = {.is_launched = 1,
                                .launcher = "torchrun",
                                .rank = rank,
                                .world = world,
                                .local_rank = rank,
                                .port = port};
    strcpy(place.address, "127.0.0.1");
    return place;
}

static struct group_place free_place(int rank, int world)
{
    int port;
    close(listen_somewhere(&port));
    return place_at(port, rank, world);
}

static struct process launch(const struct group_place *place, double meet_sec,
                             enum status (*body)(struct group *))
{
    struct group_start start = {
        .world = place->world, .place = place, .meet_sec = meet_sec, .grace_sec = 0.3};
    return begin(&start, body);
}

static int launch_alone(const struct group_place *place, double meet_sec, char *text,
                        size_t bytes)
{
    return finish(launch(place, meet_sec, shares), text, bytes);
}

static void test_launched_ranks_meet_in_any_order(void **state)
{
    (void)state;
    static const int order[] = {2, 0, 3, 1};
    struct process process[4];
    struct group_place first = free_place(0, 4);
    for (int i = 0; i < 4; i++) {
        struct group_place place = place_at(first.port, order[i], 4);
        process[i] = launch(&place, 20.0, shares);
        usleep(50000);
    }
    for (int i = 0; i < 4; i++) {
        char text[1024];
        int code = finish(process[i], text, sizeof text);
        assert_string_equal(text, "");
        assert_int_equal(code, 0);
    }
}

static void test_a_launched_rank_that_dies_ends_all_others(void **state)
{
    (void)state;
    struct process process[3];
    struct group_place first = free_place(0, 3);
    for (int rank = 0; rank < 3; rank++) {
        struct group_place place = place_at(first.port, rank, 3);
        process[rank] = launch(&place, 20.0, one_dies_at_once);
    }
    char text[1024];
    assert_int_equal(finish(process[1], text, sizeof text), 128 + SIGKILL);
    assert_int_equal(finish(process[0], text, sizeof text), 1);
    assert_one_line(text);
    assert_says(text, "twinscale: rank 1 (");
    assert_says(text, " is gone and gave no reason");
    assert_int_equal(finish(process[2], text, sizeof text), 1);
    assert_one_line(text);
    assert_says(text, "twinscale: rank 0 (127.0.0.1) ended the run: rank 1 (");
}

static void
test_a_launched_rank_that_fails_says_so_itself_and_through_rank_0(void **state)
{
    (void)state;
    struct process process[3];
    struct group_place first = free_place(0, 3);
    for (int rank = 0; rank < 3; rank++) {
        struct group_place place = place_at(first.port, rank, 3);
        process[rank] = launch(&place, 20.0, one_has_bad_data);
    }
    for (int rank = 0; rank < 3; rank++) {
        char text[1024];
        assert_int_equal(finish(process[rank], text, sizeof text), 4);
        assert_one_line(text);
        assert_says(text, "photos: has no images");
    }
}

static void test_who_is_not_a_rank_is_let_go(void **state)
{
    (void)state;
    struct group_place place[2] = {free_place(0, 2)};
    place[1] = place_at(place[0].port, 1, 2);
    struct process first = launch(&place[0], 20.0, shares);
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)place[0].port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), tries = 0;
    while (connect(stranger, (struct sockaddr *)&where, sizeof where) != 0 &&
           tries++ < 500)
        usleep(10000);
    assert_int_equal(write(stranger, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    struct process second = launch(&place[1], 20.0, shares);
    char text[1024];
    assert_int_equal(finish(first, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(finish(second, text, sizeof text), 0);
    close(stranger);
}

/* Rank 0 and one other, which do not fit together: both say why. */
static void assert_misfit(const struct group_place *other, int world, const char *words)
{
    struct group_place place = place_at(other->port, 0, world);
    struct process first = launch(&place, 20.0, shares);
    struct process second = launch(other, 20.0, shares);
    char text[1024];
    assert_int_equal(finish(first, text, sizeof text), 2);
    assert_one_line(text);
    assert_says(text, words);
    assert_int_equal(finish(second, text, sizeof text), 2);
    assert_one_line(text);
    assert_says(text, "rank 0 refuses: ");
    assert_says(text, words);
}

static void test_ranks_that_do_not_fit_together_are_told(void **state)
{
    (void)state;
    struct group_place other = free_place(1, 4);
    assert_misfit(&other, 3, "is one of 4 ranks and rank 0 one of 3");
}

static void test_a_rank_that_comes_twice_is_told(void **state)
{
    (void)state;
    struct group_place place = free_place(0, 3), twice = place_at(place.port, 1, 3);
    struct process first = launch(&place, 20.0, shares);
    struct process one = launch(&twice, 20.0, shares), two = launch(&twice, 20.0, shares);
    char text[1024];
    assert_int_equal(finish(first, text, sizeof text), 2);
    assert_one_line(text);
    assert_says(text, "rank 1 came twice, the second time from ");
    assert_int_equal(finish(one, text, sizeof text), 2);
    assert_says(text, "rank 1 came twice");
    assert_int_equal(finish(two, text, sizeof text), 2);
    assert_says(text, "rank 1 came twice");
}

static void test_a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    char text[1024];
    struct group_place place = free_place(0, 3), other = place_at(place.port, 1, 3);
    struct process first = launch(&place, 1.0, shares),
                   one = launch(&other, 20.0, shares);
    assert_int_equal(finish(first, text, sizeof text), 1);
    assert_one_line(text);
    assert_says(text, "2 of 3 ranks came to 127.0.0.1, port ");
    assert_says(text, "rank 2 is the first that is missing");
    assert_int_equal(finish(one, text, sizeof text), 1);
    assert_says(text, "rank 2 is the first that is missing");
}

static void test_a_rank_that_finds_no_rank_0_says_where_it_looked(void **state)
{
    (void)state;
    char text[1024];
    struct group_place place = free_place(1, 2);
    assert_int_equal(launch_alone(&place, 0.5, text, sizeof text), 1);
    assert_one_line(text);
    assert_says(text, "rank 1 of 2 did not find rank 0 at 127.0.0.1, port ");
    assert_says(text, "Connection refused");
}

static void test_a_port_in_use_is_told(void **state)
{
    (void)state;
    char text[1024];
    int port, fd = listen_somewhere(&port);
    struct group_place place = place_at(port, 0, 2);
    assert_int_equal(launch_alone(&place, 5.0, text, sizeof text), 3);
    close(fd);
    assert_one_line(text);
    assert_says(text, "rank 0 cannot listen at 127.0.0.1, port ");
    assert_says(text, "Address already in use; give all ranks another MASTER_PORT");
}

static void test_an_address_that_is_none_is_told(void **state)
{
    (void)state;
    char text[1024];
    struct group_place place = free_place(0, 2);
    strcpy(place.address, "no/such/host");
    assert_int_equal(launch_alone(&place, 5.0, text, sizeof text), 2);
    assert_says(text, "MASTER_ADDR: \"no/such/host\": ");
    place.rank = 1;
    assert_int_equal(launch_alone(&place, 0.3, text, sizeof text), 1);
    assert_says(text, "did not find rank 0 at no/such/host, port ");
}

static int always(void *context)
{
    (void)context;
    return 1;
}

static void test_waiting_for_other_ranks_can_be_stopped(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        char text[1024];
        struct group_place place = free_place(rank, 2);
        struct group_start start = {.world = 2, .place = &place, .is_stopped = always};
        assert_int_equal(finish(begin(&start, shares), text, sizeof text), 130);
        assert_says(text, "stopped while the 2 ranks were waiting for each other");
    }
}

/* ---- the program ----------------------------------------------------------------- */

static void assert_program(const char *environment, const char *flags, int code,
                           const char *words)
{
    char text[4096];
    int found = run_command(text, sizeof text,
                            "env %s '%s' train --data builtin:shapes --dry-run %s",
                            environment, TWINSCALE_PROGRAM, flags);
    if (found != code)
        fail_msg("%s %s: exit %d: %s", environment, flags, found, text);
    assert_one_line(text);
    assert_says(text, words);
}

static void test_settings_that_gpus_do_not_go_with_are_told(void **state)
{
    (void)state;
    assert_program("", "--gpus 2 --device cpu", 2,
                   "--gpus: 2 of them cannot be device \"cpu\"; give --device auto");
    assert_program("", "--gpus 2 --device cuda:", 2, "cannot be device \"cuda:\"");
    assert_program(
        "", "--gpus 3 --batch 64", 2,
        "--batch: 64 images cannot be shared evenly by 3 GPUs; give a multiple "
        "of 3, such as 66");
    assert_program(
        "", "--gpus 4 --batch 4", 2,
        "--batch: 4 images on 4 GPUs are one for each, which batch norm cannot "
        "normalise; give at least 8, or --sync-bn");
    assert_program("", "--gpus 0", 2, "--gpus");
    assert_program("", "--gpus 65", 2, "--gpus");
    assert_program("RANK=1", "", 2, "RANK is set (\"1\") but WORLD_SIZE is not");
    assert_program(
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1", "--gpus 4", 2,
        "--gpus: 4, but this is rank 0 of 2 processes that torchrun has started");
}

static void test_the_rules_hold_for_good_settings_too(void **state)
{
    (void)state;
    struct config config;
    config_default(&config);
    assert_int_equal(config.gpus, 1);
    assert_int_equal(config_set(&config, "data", "builtin:shapes", ""), STATUS_OK);
    assert_int_equal(config_set(&config, "gpus", "8", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_int_equal(config_set(&config, "device", "cuda:2", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
    assert_int_equal(config_set(&config, "batch", "8", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_USAGE);
    assert_int_equal(config_set(&config, "sync_bn", "1", ""), STATUS_OK);
    assert_int_equal(config_check(&config), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_gets_what_rank_0_shares),
        cmocka_unit_test(test_sixty_four_ranks_are_started_and_end),
        cmocka_unit_test(test_orders_arrive_in_their_order_also_when_a_rank_is_slow),
        cmocka_unit_test(test_a_rank_that_is_done_waits_for_rank_0),
        cmocka_unit_test(test_a_difference_is_told_with_rank_and_both_values),
        cmocka_unit_test(test_alone_nothing_is_started_and_all_calls_succeed),
        cmocka_unit_test(test_a_rank_that_fails_gives_its_reason_and_its_exit_code),
        cmocka_unit_test(test_when_rank_0_fails_it_alone_says_so),
        cmocka_unit_test(test_a_rank_that_dies_is_named_with_its_death),
        cmocka_unit_test(test_ranks_that_hang_are_ended_with_the_reason_of_the_lost_one),
        cmocka_unit_test(test_a_rank_that_hangs_after_its_own_failure_is_ended_too),
        cmocka_unit_test(test_a_fault_that_is_the_echo_of_another_ranks_end_names_that),
        cmocka_unit_test(test_no_process_is_left_when_the_first_is_killed),
        cmocka_unit_test(test_each_launchers_variables_are_understood),
        cmocka_unit_test(test_without_a_launcher_a_process_is_alone),
        cmocka_unit_test(test_each_wrong_variable_is_named),
        cmocka_unit_test(test_launched_ranks_meet_in_any_order),
        cmocka_unit_test(test_a_launched_rank_that_dies_ends_all_others),
        cmocka_unit_test(
            test_a_launched_rank_that_fails_says_so_itself_and_through_rank_0),
        cmocka_unit_test(test_who_is_not_a_rank_is_let_go),
        cmocka_unit_test(test_ranks_that_do_not_fit_together_are_told),
        cmocka_unit_test(test_a_rank_that_comes_twice_is_told),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_a_rank_that_finds_no_rank_0_says_where_it_looked),
        cmocka_unit_test(test_a_port_in_use_is_told),
        cmocka_unit_test(test_an_address_that_is_none_is_told),
        cmocka_unit_test(test_waiting_for_other_ranks_can_be_stopped),
        cmocka_unit_test(test_settings_that_gpus_do_not_go_with_are_told),
        cmocka_unit_test(test_the_rules_hold_for_good_settings_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
