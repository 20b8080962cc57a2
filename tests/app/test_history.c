/* test_history.c - the list of steps: order, thinning, many readers. */
#include "app/view/history.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/support.h"

static struct history_point plain_point(int64_t step)
{
    return (struct history_point){.step = step,
                                  .kimg = 0.064 * (double)step,
                                  .scale = {65536.0f, 32768.0f},
                                  .loss = {1.0f, 0.5f}};
}

static void test_points_come_back_in_order(void **state)
{
    (void)state;
    struct history *history = history_create();
    struct history_point *points = NULL;
    size_t room = 0;
    assert_int_equal(history_copy(history, &points, &room), 0);
    for (int64_t step = 1; step <= 5000; step++) {
        const struct history_point point = plain_point(step);
        history_add(history, &point);
    }
    assert_int_equal(history_count(history), 5000);
    assert_int_equal(history_copy(history, &points, &room), 5000);
    assert_true(room >= 5000);
    for (int64_t i = 0; i < 5000; i++)
        assert_int_equal(points[i].step, i + 1);
    free(points);
    history_destroy(history);
}

enum { LONG_RUN = 260000 };

/* Rare extremes and skips at steps that nobody would guess, some of them NaN beside. */
static struct history_point eventful_point(int64_t step)
{
    struct history_point point = plain_point(step);
    point.loss[ROLE_G] = 1.0f + 0.001f * (float)(step % 97);
    point.loss[ROLE_D] = step % 331 == 5 ? NAN : 0.5f + 0.001f * (float)(step % 89);
    if (step % 10007 == 13)
        point.scale[ROLE_G] = 4194304.0f;
    if (step % 20011 == 17)
        point.scale[ROLE_D] = 0.25f;
    if (step % 15013 == 19)
        point.loss[ROLE_G] = 50.0f + (float)(step / 15013);
    if (step % 9001 == 23)
        point.loss[ROLE_D] = -3.0f - (float)(step / 9001);
    point.skipped[ROLE_G] = step % 7919 == 29;
    point.skipped[ROLE_D] = step % 1009 == 31 ? 2 : 0;
    point.skipped[SCALE_D_FAKE] = step % 5003 == 37;
    point.held[ROLE_G] = step % 4001 == 41;
    if (step % 12007 == 43)
        point.scale[SCALE_D_FAKE] = 1024.0f;
    if (step % 14009 == 47)
        point.grad_norm[ROLE_D] = 900.0f;
    return point;
}

static int is_extreme(int64_t step)
{
    return step % 10007 == 13 || step % 20011 == 17 || step % 15013 == 19 ||
           step % 9001 == 23 || step % 12007 == 43 || step % 14009 == 47;
}

static void test_thinning_keeps_extremes_and_every_skip(void **state)
{
    (void)state;
    struct history *history = history_create();
    int64_t events = 0, skips[SCALE_COUNT] = {0}, held = 0;
    for (int64_t step = 1; step <= LONG_RUN; step++) {
        const struct history_point point = eventful_point(step);
        history_add(history, &point);
        events += is_extreme(step);
        for (int scale = 0; scale < SCALE_COUNT; scale++)
            skips[scale] += point.skipped[scale];
        held += point.held[ROLE_G];
    }
    struct history_point *points = NULL;
    size_t room = 0;
    const size_t count = history_copy(history, &points, &room);
    assert_true(count <= HISTORY_MAX);
    assert_true(count < LONG_RUN); // something was thinned
    for (size_t i = 0; i < count; i++) {
        const int64_t step = points[i].step;
        assert_true(i == 0 || points[i - 1].step < step);
        events -= is_extreme(step);
        for (int scale = 0; scale < SCALE_COUNT; scale++)
            skips[scale] -= points[i].skipped[scale];
        held -= points[i].held[ROLE_G];
    }
    assert_int_equal(events, 0);
    assert_int_equal(skips[ROLE_G], 0);
    assert_int_equal(skips[ROLE_D], 0);
    assert_int_equal(skips[SCALE_D_FAKE], 0);
    assert_int_equal(held, 0);
    assert_int_equal(points[0].step, 1);
    // The newest half is whole.
    for (size_t i = count - HISTORY_MAX / 4; i < count; i++)
        assert_int_equal(points[i].step, LONG_RUN - (int64_t)(count - 1 - i));
    free(points);
    history_destroy(history);
}

static void test_a_history_in_which_every_step_skips_loses_none(void **state)
{
    (void)state;
    struct history *history = history_create();
    for (int64_t step = 1; step <= HISTORY_MAX + 1000; step++) {
        struct history_point point = plain_point(step);
        point.skipped[ROLE_D] = 1;
        history_add(history, &point);
    }
    assert_int_equal(history_count(history), HISTORY_MAX + 1000);
    history_destroy(history);
}

static void test_a_mark_stays_on_the_newest_step_through_thinning(void **state)
{
    (void)state;
    struct history *history = history_create();
    history_mark(history, ROLE_D); // before the first step there is nothing to mark
    for (int64_t step = 1; step <= LONG_RUN; step++) {
        const struct history_point point = {.step = step, .scale = {1.0f, 1.0f}};
        history_add(history, &point);
        if (step == 77)
            history_mark(history, ROLE_D);
    }
    struct history_point *points = NULL;
    size_t room = 0, marks = 0;
    const size_t count = history_copy(history, &points, &room);
    assert_true(count < LONG_RUN);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(points[i].changed[ROLE_G], 0);
        assert_int_equal(points[i].changed[ROLE_D], points[i].step == 77);
        marks += points[i].changed[ROLE_D];
    }
    assert_int_equal(marks, 1);
    free(points);
    history_destroy(history);
}

static void test_a_run_of_a_million_steps_stays_within_its_bound(void **state)
{
    (void)state;
    struct history *history = history_create();
    for (int64_t step = 1; step <= 1000000; step++) {
        const struct history_point point = plain_point(step);
        history_add(history, &point);
    }
    assert_true(history_count(history) <= HISTORY_MAX);
    assert_true(history_count(history) >= HISTORY_MAX / 2);
    history_destroy(history);
}

struct writer {
    struct history *history;
    atomic_int is_done;
};

static void *write_steps(void *argument)
{
    struct writer *writer = argument;
    for (int64_t step = 1; step <= 100000; step++) {
        struct history_point point = plain_point(step);
        point.scale[ROLE_G] = point.loss[ROLE_D] = (float)step;
        history_add(writer->history, &point);
    }
    atomic_store(&writer->is_done, 1);
    return NULL;
}

static void test_a_reader_sees_whole_points_while_a_writer_adds(void **state)
{
    (void)state;
    struct writer writer = {.history = history_create()};
    struct history_point *points = NULL;
    size_t room = 0, before = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_steps, &writer), 0);
    int is_done;
    do {
        is_done = atomic_load(&writer.is_done);
        const size_t count = history_copy(writer.history, &points, &room);
        assert_true(count >= before);
        before = count;
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(points[i].step, (int64_t)i + 1);
            assert_true(points[i].scale[ROLE_G] == (float)points[i].step);
            assert_true(points[i].loss[ROLE_D] == (float)points[i].step);
        }
    } while (!is_done);
    pthread_join(thread, NULL);
    assert_int_equal(before, 100000);
    free(points);
    history_destroy(writer.history);
}

static void test_a_history_that_is_rewound_goes_on_from_there(void **state)
{
    (void)state;
    struct history *history = history_create();
    struct history_point *points = NULL;
    size_t room = 0;
    for (int64_t step = 1; step <= 100; step++)
        history_add(history, &(struct history_point){.step = step});
    history_rewind(history, 40);
    assert_int_equal(history_count(history), 40);
    history_add(history, &(struct history_point){.step = 41});
    assert_int_equal(history_copy(history, &points, &room), 41);
    assert_int_equal(points[39].step, 40);
    assert_int_equal(points[40].step, 41);
    history_rewind(history, 0);
    assert_int_equal(history_count(history), 0);
    free(points);
    history_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_history_that_is_rewound_goes_on_from_there),
        cmocka_unit_test(test_points_come_back_in_order),
        cmocka_unit_test(test_thinning_keeps_extremes_and_every_skip),
        cmocka_unit_test(test_a_history_in_which_every_step_skips_loses_none),
        cmocka_unit_test(test_a_mark_stays_on_the_newest_step_through_thinning),
        cmocka_unit_test(test_a_run_of_a_million_steps_stays_within_its_bound),
        cmocka_unit_test(test_a_reader_sees_whole_points_while_a_writer_adds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
