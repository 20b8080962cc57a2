/* Ranks that others have started: they meet by TCP on 127.0.0.1, or say why not. */
#include <arpa/inet.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/app/processes.h"
#include "tests/support/support.h"

#define LONG_SEC 600.0 // ends only a rank that hangs

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
        process[i] = launch(&place, LONG_SEC, shares);
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
        process[rank] = launch(&place, LONG_SEC, one_dies_at_once);
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

static void test_a_launched_rank_that_fails_says_so_as_rank_0_does(void **state)
{
    (void)state;
    struct process process[3];
    struct group_place first = free_place(0, 3);
    for (int rank = 0; rank < 3; rank++) {
        struct group_place place = place_at(first.port, rank, 3);
        process[rank] = launch(&place, LONG_SEC, one_has_bad_data);
    }
    for (int rank = 0; rank < 3; rank++) {
        char text[1024];
        assert_int_equal(finish(process[rank], text, sizeof text), 4);
        assert_one_line(text);
        assert_says(text, "photos: has no images");
    }
}

static enum status rank_0_dies(struct group *group)
{
    if (group_rank(group) == 0) {
        usleep(100000);
        raise(SIGKILL);
    }
    return STATUS_OK;
}

static void test_a_launched_rank_that_is_done_fails_when_rank_0_dies(void **state)
{
    (void)state;
    struct group_place place[2] = {free_place(0, 2)};
    place[1] = place_at(place[0].port, 1, 2);
    struct process first = launch(&place[0], LONG_SEC, rank_0_dies);
    struct process second = launch(&place[1], LONG_SEC, rank_0_dies);
    char text[1024];
    assert_int_equal(finish(first, text, sizeof text), 128 + SIGKILL);
    assert_int_equal(finish(second, text, sizeof text), 1);
    assert_says(text, "twinscale: rank 0 (127.0.0.1) is gone and gave no reason");
}

static void test_who_is_not_a_rank_is_let_go(void **state)
{
    (void)state;
    struct group_place place[2] = {free_place(0, 2)};
    place[1] = place_at(place[0].port, 1, 2);
    struct process first = launch(&place[0], LONG_SEC, shares);
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)place[0].port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), tries = 0;
    while (connect(stranger, (struct sockaddr *)&where, sizeof where) != 0 &&
           tries++ < 60000)
        usleep(10000);
    assert_int_equal(write(stranger, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    struct process second = launch(&place[1], LONG_SEC, shares);
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
    struct process first = launch(&place, LONG_SEC, shares);
    struct process second = launch(other, LONG_SEC, shares);
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
    struct process first = launch(&place, LONG_SEC, shares);
    struct process one = launch(&twice, LONG_SEC, shares),
                   two = launch(&twice, LONG_SEC, shares);
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
                   one = launch(&other, LONG_SEC, shares);
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
    assert_int_equal(launch_alone(&place, LONG_SEC, text, sizeof text), 3);
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
    assert_int_equal(launch_alone(&place, LONG_SEC, text, sizeof text), 2);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launched_ranks_meet_in_any_order),
        cmocka_unit_test(test_a_launched_rank_that_dies_ends_all_others),
        cmocka_unit_test(test_a_launched_rank_that_fails_says_so_as_rank_0_does),
        cmocka_unit_test(test_a_launched_rank_that_is_done_fails_when_rank_0_dies),
        cmocka_unit_test(test_who_is_not_a_rank_is_let_go),
        cmocka_unit_test(test_ranks_that_do_not_fit_together_are_told),
        cmocka_unit_test(test_a_rank_that_comes_twice_is_told),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_a_rank_that_finds_no_rank_0_says_where_it_looked),
        cmocka_unit_test(test_a_port_in_use_is_told),
        cmocka_unit_test(test_an_address_that_is_none_is_told),
        cmocka_unit_test(test_waiting_for_other_ranks_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
