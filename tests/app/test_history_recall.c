#include <stdio.h>
#include <stdlib.h>

#include "app/output/history_recall.h"
#include "app/output/progress.h"
#include "tests/support/support.h"

static void add_tick(FILE *file, int64_t index, float scale)
{
    struct tick tick = {
        .index = index, .step = (index + 1) * 10, .kimg = (double)index + 1};
    tick.scale[NETWORK_G] = scale;
    tick.scale[NETWORK_D] = 1.0f;
    statistic_add(&tick.loss[NETWORK_G], (double)index + 0.5);
    char *json = tick_json(&tick, 0.0);
    fprintf(file, "%s\n", json);
    free(json);
}

static void add_change(FILE *file, const char *word, const char *net, int step,
                       double before, double after)
{
    fprintf(file,
            "{\"event\":\"%s\",\"net\":\"%s\",\"scale_before\":%g,\"scale_after\":%g,"
            "\"step\":%d,\"kimg\":%g}\n",
            word, net, before, after, step, step / 10.0);
}

static void test_the_curves_of_a_run_come_back_from_its_logs(void **state)
{
    (void)state;
    char stats[600], events[600];
    const char *folder = make_folder("recall");
    snprintf(stats, sizeof stats, "%s/stats.jsonl", folder);
    snprintf(events, sizeof events, "%s/events.jsonl", folder);
    FILE *file = fopen(stats, "w");
    assert_non_null(file);
    add_tick(file, 0,
             50000.0f); // a mean over the tick: not what the scale was at any step
    fputs("{\"cut short\n[1]\n", file);
    add_tick(file, 1, 40000.0f);
    fclose(file);
    file = fopen(events, "w");
    assert_non_null(file);
    add_change(file, "skip", "G", 4, 65536, 32768);
    add_change(file, "skip", "D", 4, 8, 4);
    add_change(file, "fp32_layer", "G", 10, 32768, 32768);
    add_change(file, "change", "D", 20, 4, 4);
    fputs("{\"event\":\"resume\",\"step\":4}\nnoise\n", file);
    add_change(file, "growth", "G", 20, 32768, 65536);
    fclose(file);

    struct history *history = history_create();
    assert_int_equal(history_recall(history, stats, events), 2);
    struct history_point *points = NULL;
    size_t room = 0;
    assert_int_equal(history_copy(history, &points, &room), 3);
    const int64_t steps[] = {4, 10, 20};
    const float g[] = {32768, 32768, 65536};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(points[i].step, steps[i]);
        assert_true(points[i].scale[NETWORK_G] == g[i]);
        assert_true(points[i].scale[NETWORK_D] == 4.0f);
        assert_int_equal(points[i].skipped[NETWORK_G], i == 0);
        assert_int_equal(points[i].skipped[NETWORK_D], i == 0);
        assert_int_equal(points[i].changed[NETWORK_G], i == 1);
        assert_int_equal(points[i].changed[NETWORK_D], i == 2);
    }
    assert_true(points[0].loss[NETWORK_G] == 0.5f && points[2].loss[NETWORK_G] == 1.5f);
    assert_true(points[0].loss[NETWORK_D] != points[0].loss[NETWORK_D]); // null: NaN
    free(points);
    history_destroy(history);
    remove_folder(folder);
}

static void test_logs_that_are_not_there_recall_nothing(void **state)
{
    (void)state;
    struct history *history = history_create();
    assert_int_equal(history_recall(history, "/nowhere/a.jsonl", "/nowhere/b.jsonl"), 0);
    assert_int_equal(history_count(history), 0);
    history_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_curves_of_a_run_come_back_from_its_logs),
        cmocka_unit_test(test_logs_that_are_not_there_recall_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
