/* test_monitor.c - facts to the screen, requests to the training. */
#include "app/view/monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/support.h"

static struct dashboard facts_with_tiles(double kimg, int columns)
{
    struct dashboard facts = {.kimg = kimg, .tiles_kimg = kimg};
    facts.grid_columns = columns;
    facts.grid_rows = 1;
    facts.tile_w = facts.tile_h = 2;
    facts.tile_channels = 1;
    strcpy(facts.title, "a run");
    return facts;
}

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void test_what_is_published_is_read_with_tiles_and_points(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    struct monitor_view view = {.tiles = NULL};
    uint8_t tiles[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct dashboard facts = facts_with_tiles(48.0, 2);
    const struct history_point point = {.step = 750, .kimg = 48.0};
    const uint64_t version = monitor_version(monitor);
    history_add(monitor_history(monitor), &point);
    monitor_publish(monitor, &facts, tiles);
    assert_true(monitor_version(monitor) > version);
    memset(tiles, 0, sizeof(tiles)); // the monitor has its own copy

    monitor_read(monitor, &view);
    assert_string_equal(view.dashboard.title, "a run");
    assert_true(view.dashboard.kimg == 48.0);
    assert_int_equal(view.dashboard.hover_x, -1);
    assert_non_null(view.dashboard.tiles);
    for (int i = 0; i < 8; i++)
        assert_int_equal(view.dashboard.tiles[i], i + 1);
    assert_int_equal(view.dashboard.point_count, 1);
    assert_int_equal(view.dashboard.points[0].step, 750);
    monitor_view_release(&view);
    monitor_destroy(monitor);
}

static void test_news_without_tiles_keeps_the_older_tiles_and_their_age(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    struct monitor_view view = {.tiles = NULL};
    const uint8_t tiles[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    struct dashboard facts = facts_with_tiles(48.0, 2);
    monitor_publish(monitor, &facts, tiles);
    facts = facts_with_tiles(49.0, 7);
    monitor_publish(monitor, &facts, NULL);
    monitor_read(monitor, &view);
    assert_true(view.dashboard.kimg == 49.0);
    assert_true(view.dashboard.tiles_kimg == 48.0);
    assert_int_equal(view.dashboard.grid_columns, 2);
    assert_int_equal(view.dashboard.tiles[7], 9);
    monitor_view_release(&view);
    monitor_destroy(monitor);
}

static void test_a_larger_grid_replaces_a_smaller_one(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    struct monitor_view view = {.tiles = NULL};
    uint8_t tiles[4 * 64];
    for (int columns = 1; columns <= 64; columns *= 4) {
        const struct dashboard facts = facts_with_tiles(1.0, columns);
        memset(tiles, columns, sizeof(tiles));
        monitor_publish(monitor, &facts, tiles);
        monitor_read(monitor, &view);
        assert_int_equal(view.dashboard.grid_columns, columns);
        assert_int_equal(view.dashboard.tiles[4 * columns - 1], columns);
    }
    monitor_view_release(&view);
    monitor_destroy(monitor);
}

static void test_before_the_first_publish_there_is_nothing_to_draw(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    struct monitor_view view = {.tiles = NULL};
    monitor_read(monitor, &view);
    assert_null(view.dashboard.tiles);
    assert_int_equal(view.dashboard.point_count, 0);
    monitor_view_release(&view);
    monitor_destroy(monitor);
}

static void test_requests_are_taken_once_and_pause_stays(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    assert_int_equal(monitor_take_requests(monitor), 0);
    monitor_request(monitor, REQUEST_SNAPSHOT);
    monitor_request(monitor, REQUEST_EXPORT | REQUEST_PAUSE);
    assert_int_equal(monitor_take_requests(monitor),
                     REQUEST_SNAPSHOT | REQUEST_EXPORT | REQUEST_PAUSE);
    assert_int_equal(monitor_take_requests(monitor), REQUEST_PAUSE);
    assert_true(monitor_is_paused(monitor));
    monitor_request(monitor, REQUEST_PAUSE);
    assert_int_equal(monitor_take_requests(monitor), 0);
    monitor_destroy(monitor);
}

/* A worker that is paused, and whether its wait has ended. */
struct paused {
    struct monitor *monitor;
    atomic_int has_returned;
};

static void *wait_paused(void *argument)
{
    struct paused *paused = argument;
    monitor_wait_while_paused(paused->monitor);
    atomic_store(&paused->has_returned, 1);
    return NULL;
}

/* Starts a paused worker, sees it wait, does `wake`, sees it return. */
static int wake_ends_the_wait(void (*wake)(struct monitor *))
{
    struct paused paused = {.monitor = monitor_create()};
    pthread_t thread;
    monitor_request(paused.monitor, REQUEST_PAUSE);
    assert_int_equal(pthread_create(&thread, NULL, wait_paused, &paused), 0);
    pause_ms(150);
    assert_int_equal(atomic_load(&paused.has_returned), 0);
    wake(paused.monitor);
    pthread_join(thread, NULL);
    const int requests = monitor_take_requests(paused.monitor);
    monitor_destroy(paused.monitor);
    return requests;
}

static void wake_by_space(struct monitor *monitor)
{
    monitor_request(monitor, REQUEST_PAUSE);
}

static void wake_by_snapshot(struct monitor *monitor)
{
    monitor_request(monitor, REQUEST_SNAPSHOT);
}

static void wake_by_finish(struct monitor *monitor)
{
    monitor_finish(monitor);
}

static void test_a_paused_worker_wakes_for_all_that_concerns_it(void **state)
{
    (void)state;
    assert_int_equal(wake_ends_the_wait(wake_by_space), 0);
    assert_int_equal(wake_ends_the_wait(wake_by_snapshot),
                     REQUEST_SNAPSHOT | REQUEST_PAUSE);
    assert_int_equal(wake_ends_the_wait(wake_by_finish), REQUEST_PAUSE);
}

static void test_without_a_pause_the_worker_does_not_wait(void **state)
{
    (void)state;
    struct monitor *monitor = monitor_create();
    monitor_wait_while_paused(monitor); // would hang
    assert_false(monitor_is_finished(monitor));
    monitor_finish(monitor);
    assert_true(monitor_is_finished(monitor));
    monitor_destroy(monitor);
}

struct publisher {
    struct monitor *monitor;
    atomic_int is_done;
};

static void *publish_many(void *argument)
{
    struct publisher *publisher = argument;
    uint8_t tiles[4 * 4];
    for (int i = 0; i < 20000; i++) {
        const struct dashboard facts = facts_with_tiles(i % 200, 1 + i % 4);
        memset(tiles, i % 200, sizeof(tiles));
        monitor_publish(publisher->monitor, &facts, tiles);
    }
    atomic_store(&publisher->is_done, 1);
    return NULL;
}

static void test_a_view_never_mixes_two_publishes(void **state)
{
    (void)state;
    struct publisher publisher = {.monitor = monitor_create()};
    struct monitor_view view = {.tiles = NULL};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, publish_many, &publisher), 0);
    while (!atomic_load(&publisher.is_done)) {
        monitor_read(publisher.monitor, &view);
        for (int i = 0; i < 4 * view.dashboard.grid_columns; i++)
            assert_int_equal(view.dashboard.tiles[i], (int)view.dashboard.kimg);
    }
    pthread_join(thread, NULL);
    monitor_view_release(&view);
    monitor_destroy(publisher.monitor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_published_is_read_with_tiles_and_points),
        cmocka_unit_test(test_news_without_tiles_keeps_the_older_tiles_and_their_age),
        cmocka_unit_test(test_a_larger_grid_replaces_a_smaller_one),
        cmocka_unit_test(test_before_the_first_publish_there_is_nothing_to_draw),
        cmocka_unit_test(test_requests_are_taken_once_and_pause_stays),
        cmocka_unit_test(test_a_paused_worker_wakes_for_all_that_concerns_it),
        cmocka_unit_test(test_without_a_pause_the_worker_does_not_wait),
        cmocka_unit_test(test_a_view_never_mixes_two_publishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
