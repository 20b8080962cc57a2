#include "tests/app/processes.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/support.h"

#define PATIENCE_MS 600000 // ends only what hangs

double now(void)
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
    status = group_leave(group, group_blame(group, status));
    group_close(group, status);
    if (status != STATUS_OK)
        fprintf(stderr, "twinscale: %s\n", status_message());
    _exit(status_exit_code(status));
}

struct process begin(const struct group_start *start, enum status (*body)(struct group *))
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
        alarm(600); // a test that hangs ends, too
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

int finish(struct process process, char *text, size_t bytes)
{
    int state;
    read_all(process.output, text, bytes);
    assert_int_equal(waitpid(process.pid, &state, 0), process.pid);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

void assert_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    if (!end || end[1])
        fail_msg("not one line: \"%s\"", text);
}

/* ---- what they do ---------------------------------------------------------------- */

enum status shares(struct group *group)
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

// Rank 0 goes on until it hears of a loss, as a run does.
enum status order_for_ever(struct group *group)
{
    for (;; usleep(1000))
        TRY(group_order(group, ORDER_STEP));
}

enum status take_for_ever(struct group *group)
{
    enum group_order order;
    for (;;)
        TRY(group_take_order(group, &order));
}

enum status one_has_bad_data(struct group *group)
{
    if (group_rank(group) == 0)
        return order_for_ever(group);
    if (group_rank(group) == 2)
        return status_fail(STATUS_DATA, "photos: has no images");
    return take_for_ever(group);
}

enum status one_dies_at_once(struct group *group)
{
    if (group_rank(group) == 1)
        raise(SIGKILL);
    return group_rank(group) == 0 ? order_for_ever(group) : take_for_ever(group);
}
