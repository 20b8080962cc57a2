/* test_group_wire.c - messages between processes, over sockets that take and give a few
 * bytes at a time, are interrupted, speak another language, or end. */
#include "app/ranks/group_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/support.h"

/* ---- a slow socket: the linker puts these before the C library's
 * -------------------- */

enum { MOST = 5 };
static int is_slow, calls;

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);

static int is_interrupted(void)
{
    return is_slow && calls++ % 3 == 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    if (is_interrupted()) {
        errno = EINTR;
        return -1;
    }
    return __real_send(fd, data, is_slow && bytes > MOST ? MOST : bytes, flags);
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    if (is_interrupted()) {
        errno = EINTR;
        return -1;
    }
    return __real_recv(fd, data, is_slow && bytes > MOST ? MOST : bytes, flags);
}

/* ---- tests ------------------------------------------------------------------------- */

static int ends[2];
static struct wire_message message;

static int open_pair(void **state)
{
    (void)state;
    is_slow = calls = 0;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
}

static int close_pair(void **state)
{
    (void)state;
    if (ends[0] >= 0)
        close(ends[0]);
    close(ends[1]);
    return 0;
}

static void assert_arrives(size_t bytes)
{
    char data[WIRE_BYTES] = {0};
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 7 + i / 251);
    assert_true(wire_send(ends[0], WIRE_SHARED, data, bytes));
    assert_true(wire_receive(ends[1], &message));
    assert_int_equal(message.kind, WIRE_SHARED);
    assert_int_equal(message.bytes, bytes);
    assert_memory_equal(message.data, data, bytes);
    for (size_t i = bytes; i < WIRE_BYTES; i++)
        assert_int_equal(message.data[i], 0); // nothing of an earlier message
}

static void test_messages_of_every_size_arrive_whole(void **state)
{
    (void)state;
    assert_arrives(WIRE_BYTES);
    assert_arrives(1);
    assert_arrives(0);
}

static void test_a_socket_that_takes_a_few_bytes_at_a_time_loses_none(void **state)
{
    (void)state;
    is_slow = 1;
    assert_arrives(WIRE_BYTES);
    assert_arrives(13);
}

static void test_another_language_is_not_taken_for_a_message(void **state)
{
    (void)state;
    assert_true(wire_send(ends[0], WIRE_TEXT, "abc", 4));
    assert_true(wire_receive(ends[1], &message));
    struct wire_message changed = message;
    changed.magic ^= 1u;
    size_t bytes = offsetof(struct wire_message, data) + 4;
    assert_int_equal(__real_send(ends[0], &changed, bytes, 0), bytes);
    assert_false(wire_receive(ends[1], &message));
}

static void test_a_message_larger_than_any_is_refused(void **state)
{
    (void)state;
    assert_true(wire_send(ends[0], WIRE_TEXT, "abc", 4));
    assert_true(wire_receive(ends[1], &message));
    struct wire_message large = message;
    large.bytes = WIRE_BYTES + 1;
    assert_int_equal(__real_send(ends[0], &large, sizeof large, 0), sizeof large);
    assert_false(wire_receive(ends[1], &message));
}

static void test_an_end_that_is_gone_is_seen_from_both_sides(void **state)
{
    (void)state;
    assert_true(wire_send(ends[0], WIRE_TEXT, "abc", 4));
    close(ends[0]);
    ends[0] = -1;
    assert_true(wire_receive(ends[1], &message)); // what was sent before is still there
    assert_false(wire_receive(ends[1], &message));
    assert_false(wire_send(ends[1], WIRE_TEXT, "abc", 4)); // and no SIGPIPE
}

static void test_half_a_message_is_none(void **state)
{
    (void)state;
    assert_true(wire_send(ends[0], WIRE_TEXT, "abc", 4));
    assert_true(wire_receive(ends[1], &message));
    assert_int_equal(
        __real_send(ends[0], &message, offsetof(struct wire_message, data) + 2, 0),
        offsetof(struct wire_message, data) + 2);
    close(ends[0]);
    ends[0] = -1;
    assert_false(wire_receive(ends[1], &message));
}

static void test_last_words_are_cut_to_what_fits(void **state)
{
    (void)state;
    char reason[2 * WIRE_BYTES];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    assert_true(wire_send_failure(ends[0], 4, reason));
    assert_true(wire_receive(ends[1], &message));
    assert_int_equal(message.kind, WIRE_FAILED);
    const struct wire_failure *failure = (const void *)message.data;
    assert_int_equal(failure->status, 4);
    assert_int_equal(strlen(failure->reason), sizeof failure->reason - 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_messages_of_every_size_arrive_whole),
        TEST(test_a_socket_that_takes_a_few_bytes_at_a_time_loses_none),
        TEST(test_another_language_is_not_taken_for_a_message),
        TEST(test_a_message_larger_than_any_is_refused),
        TEST(test_an_end_that_is_gone_is_seen_from_both_sides),
        TEST(test_half_a_message_is_none),
        TEST(test_last_words_are_cut_to_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
