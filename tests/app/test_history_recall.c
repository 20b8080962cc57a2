#include <stdio.h>
#include <stdlib.h>

#include "app/output/history_recall.h"
#include "app/output/progress.h"
#include "tests/support/support.h"

static void add_line(FILE *file, int64_t index, float scale, int64_t skipped)
{
    struct tick tick = {.index = index, .step = (index + 1) * 10, .kimg = (double)index + 1};
    tick.scale[NETWORK_G] = scale;
    tick.scale[NETWORK_D] = 1.0f;
    tick.skipped[NETWORK_G] = skipped;
    statistic_add(&tick.loss[NETWORK_G], 0.5);
    char *json = tick_json(&tick, 0.0);
    fprintf(file, "%s\n", json);
    free(json);
}

static void test_the_curves_of_a_run_come_back_from_its_log(void **state)
{
    (void)state;
    char path[600];
    const char *folder = make_folder("recall");
    snprintf(path, sizeof path, "%s/stats.jsonl", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    add_line(file, 0, 65536.0f, 1);
    fputs("{\"cut short\n[1]\n", file);
    add_line(file, 1, 32768.0f, 4);
    fclose(file);
    struct history *history = history_create();
    assert_int_equal(history_recall(history, path), 2);
    struct history_point *points = NULL;
    size_t room = 0;
    assert_int_equal(history_copy(history, &points, &room), 2);
    assert_int_equal(points[1].step, 20);
    assert_true(points[1].kimg == 2.0 && points[1].loss[NETWORK_G] == 0.5f);
    assert_true(points[0].scale[NETWORK_G] == 65536.0f);
    assert_true(points[1].scale[NETWORK_G] == 32768.0f);
    assert_int_equal(points[0].skipped[NETWORK_G], 1);
    assert_int_equal(points[1].skipped[NETWORK_G], 3);
    assert_true(points[0].loss[NETWORK_D] != points[0].loss[NETWORK_D]); // null: NaN
    free(points);
    history_destroy(history);
    remove_folder(folder);
}

static void test_a_log_that_is_not_there_recalls_nothing(void **state)
{
    (void)state;
    struct history *history = history_create();
    assert_int_equal(history_recall(history, "/nowhere/stats.jsonl"), 0);
    assert_int_equal(history_count(history), 0);
    history_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_curves_of_a_run_come_back_from_its_log),
        cmocka_unit_test(test_a_log_that_is_not_there_recalls_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
