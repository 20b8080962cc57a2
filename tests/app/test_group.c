/* Ranks without devices, forked: plain processes that share, agree, take orders, fail,
 * die. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/app/processes.h"
#include "tests/support/support.h"

static int fork_group(int world, enum status (*body)(struct group *), char *text,
                      size_t bytes)
{
    struct group_start start = {.world = world, .grace_sec = 0.3};
    return finish(begin(&start, body), text, bytes);
}

/* ---- forked: what ranks tell each other ------------------------------------------ */

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
    return i % 7 == 0 ? ORDER_COMPARE : ORDER_STEP;
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
    assert_int_equal(group_leave(group, STATUS_OK), STATUS_OK);
    group_close(group, STATUS_OK);
}

/* ---- forked: ranks that are lost ------------------------------------------------- */

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
    int code = fork_group(4, all_others_hang, text, sizeof text);
    assert_says(text, "told: rank 2\ntwinscale: rank 2 (process ");
    assert_says(text, "ended the run: cuda:2: no such device\n");
    assert_int_equal(strlen(strchr(text, '\n')), strlen(strstr(text, "\ntwinscale")));
    assert_int_equal(code, 3);
}

static enum status hangs_while_closing(struct group *group)
{
    enum status status = status_fail(STATUS_FAILED, "cuda:0: an op failed");
    (void)group_leave(group, status);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
