/* test_history_recall.c - curves that come back from the logs of a run, also of one that
 * went back. */
#include <stdio.h>
#include <stdlib.h>

#include "app/view/history_recall.h"
#include "app/view/layers.h"
#include "app/view/history.h"
#include "app/record/tick.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

static void add_tick_of(FILE *file, int64_t index, int step, int rollbacks, float scale)
{
    struct tick tick = {
        .index = index, .step = step, .kimg = step / 10.0, .rollbacks = rollbacks};
    tick.scale[ROLE_G] = scale;
    tick.scale[ROLE_D] = 1.0f;
    statistic_add(&tick.loss[ROLE_G], (double)index + 0.5);
    char *json = tick_json(&tick, 0.0);
    fprintf(file, "%s\n", json);
    free(json);
}

static void add_tick(FILE *file, int64_t index, float scale)
{
    add_tick_of(file, index, (int)(index + 1) * 10, 0, scale);
}

static void add_change(FILE *file, const char *word, const char *net, int step,
                       double before, double after)
{
    fprintf(file,
            "{\"event\":\"%s\",\"net\":\"%s\",\"scale_before\":%g,\"scale_after\":%g,"
            "\"step\":%d,\"kimg\":%g}\n",
            word, net, before, after, step, step / 10.0);
}

static void add_event(FILE *file, const char *event, int step, int rollbacks)
{
    fprintf(file, "{%s,\"step\":%d,\"kimg\":%g,\"rollbacks\":%d}\n", event, step,
            step / 10.0, rollbacks);
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
        assert_true(points[i].scale[ROLE_G] == g[i]);
        assert_true(points[i].scale[ROLE_D] == 4.0f);
        assert_int_equal(points[i].skipped[ROLE_G], i == 0);
        assert_int_equal(points[i].skipped[ROLE_D], i == 0);
        assert_int_equal(points[i].changed[ROLE_G], i == 1);
        assert_int_equal(points[i].changed[ROLE_D], i == 2);
    }
    assert_true(points[0].loss[ROLE_G] == 0.5f && points[2].loss[ROLE_G] == 1.5f);
    assert_true(points[0].loss[ROLE_D] != points[0].loss[ROLE_D]); // null: NaN
    free(points);
    history_destroy(history);
    remove_folder(folder);
}

/* Numbers that no counter holds, in logs that were edited: casts of them have no
 * value. */
static void test_counters_out_of_range_are_not_taken_from_the_logs(void **state)
{
    (void)state;
    static const char *const steps[] = {"1e300", "9007199254740992", "-1e300", "null",
                                        "\"5\""};
    static const char *const ticks[] = {"1e300", "-3", "null", "\"5\""};
    char stats[600], events[600];
    const char *folder = make_folder("recall");
    snprintf(stats, sizeof stats, "%s/stats.jsonl", folder);
    snprintf(events, sizeof events, "%s/events.jsonl", folder);
    FILE *file = fopen(stats, "w");
    assert_non_null(file);
    add_tick(file, 6, 4.0f); // step 70
    fputs("{\"Progress/step\":{\"mean\":5}}\n", file);
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++)
        fprintf(file,
                "{\"Progress/step\":{\"mean\":80},\"Progress/tick\":{\"mean\":%s}}\n",
                ticks[i]);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        fprintf(file,
                "{\"Progress/step\":{\"mean\":%s},\"Progress/tick\":{\"mean\":9}}\n",
                steps[i]);
    fclose(file);
    file = fopen(events, "w");
    assert_non_null(file);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        fprintf(file,
                "{\"event\":\"skip\",\"net\":\"G\",\"step\":%s,\"kimg\":1,"
                "\"scale_before\":8,\"scale_after\":4}\n",
                steps[i]);
    fputs("{\"event\":\"rollback\",\"step\":3,\"kimg\":1,\"rollbacks\":1e300}\n", file);
    fclose(file);

    struct history *history = history_create();
    assert_int_equal(history_recall(history, stats, events), 7);
    struct history_point *points = NULL;
    size_t room = 0, count = history_copy(history, &points, &room);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(points[i].step, 5, 80);
        assert_int_equal(points[i].skipped[ROLE_G], 0);
    }
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

static void test_what_only_some_runs_have_comes_back_too(void **state)
{
    (void)state;
    char stats[600], events[600];
    const char *folder = make_folder("recall");
    snprintf(stats, sizeof stats, "%s/stats.jsonl", folder);
    snprintf(events, sizeof events, "%s/events.jsonl", folder);
    FILE *file = fopen(stats, "w");
    assert_non_null(file);
    struct tick tick = {.step = 20, .kimg = 2.0, .scale = {4.0f, 16.0f}};
    statistic_add(&tick.fake_scale_over_tick, 200.0);
    statistic_add(&tick.grad_norm[ROLE_D], 6.0);
    statistic_add(&tick.clipped[ROLE_D], 0.25);
    char *json = tick_json(&tick, 0.0);
    fprintf(file, "%s\n", json);
    free(json);
    fclose(file);
    file = fopen(events, "w");
    assert_non_null(file);
#define OF_D(loss, before, after, fake_before, fake_after)       \
    "\"event\":\"skip\",\"net\":\"D\",\"scale_before\":" #before \
    ",\"scale_after\":" #after ",\"loss\":\"" loss               \
    "\",\"fake_scale_before\":" #fake_before ",\"fake_scale_after\":" #fake_after
    add_event(file, OF_D("fakes", 32, 32, 256, 128), 3, 0);
    add_event(file,
              "\"event\":\"held\",\"net\":\"G\",\"scale_before\":4,\"scale_after\":4", 3,
              0);
    add_event(file, OF_D("real", 32, 16, 128, 128), 5, 0);
    add_event(file, OF_D("both", 16, 8, 128, 64), 7, 0);
    add_event(file,
              "\"event\":\"growth\",\"net\":\"D\",\"loss\":\"fakes\","
              "\"fake_scale_before\":64,\"fake_scale_after\":128",
              9, 0);
    fclose(file);
    struct history *history = history_create();
    struct history_point *points = NULL;
    size_t room = 0;
    history_recall(history, stats, events);
    assert_int_equal(history_copy(history, &points, &room), 5);
    static const float d[] = {32, 16, 8, 8, 8}, fake[] = {128, 128, 64, 128, 128};
    static const int d_skips[] = {0, 1, 1, 0, 0}, fake_skips[] = {1, 0, 1, 0, 0};
    for (int i = 0; i < 5; i++) {
        assert_true(points[i].scale[ROLE_G] == 4.0f);
        assert_true(points[i].scale[ROLE_D] == d[i]);
        assert_true(points[i].scale[SCALE_D_FAKE] == fake[i]);
        assert_int_equal(points[i].skipped[ROLE_D], d_skips[i]);
        assert_int_equal(points[i].skipped[SCALE_D_FAKE], fake_skips[i]);
        assert_int_equal(points[i].held[ROLE_G], i == 0);
        assert_int_equal(points[i].held[ROLE_D], 0);
        assert_true(points[i].grad_norm[ROLE_D] == (i == 4 ? 6.0f : 0.0f));
        assert_int_equal(points[i].clipped[ROLE_D], i == 4);
        assert_true(points[i].grad_norm[ROLE_G] == 0.0f);
    }
    free(points);
    history_destroy(history);
    remove_folder(folder);
}

/* ---- rollbacks ------------------------------------------------------------------- */

// From step 30 back to 10, from 22 to 20; `numbers`: as this release writes it.
static void write_logs(const char *stats, const char *events, int numbers)
{
    FILE *file = fopen(stats, "w");
    assert_non_null(file);
    static const int ticks[][2] = {{10, 0}, {20, 0}, {30, 0}, {20, 1}, {30, 2}};
    for (int i = 0; i < 5; i++)
        add_tick_of(file, i, ticks[i][0], numbers ? ticks[i][1] : 0, 1024.0f);
    fclose(file);
    file = fopen(events, "w");
    assert_non_null(file);
#define SKIP "\"event\":\"skip\",\"net\":\"G\",\"scale_before\":64,\"scale_after\":32"
#define BACK(g) "\"event\":\"rollback\",\"net\":\"G\",\"scale_g\":" #g ",\"scale_d\":4"
    add_event(file, SKIP, 5, 0);
    add_event(file, SKIP, 25, 0);
    add_event(file, BACK(16), 10, numbers ? 1 : 0);
    add_event(file, SKIP, 22, numbers ? 1 : 0);
    add_event(file, BACK(8), 20, numbers ? 2 : 0);
    fclose(file);
}

static void test_steps_that_a_rollback_gave_up_are_not_recalled(void **state)
{
    (void)state;
    char stats[600], events[600];
    const char *folder = make_folder("rollback");
    snprintf(stats, sizeof stats, "%s/stats.jsonl", folder);
    snprintf(events, sizeof events, "%s/events.jsonl", folder);
    write_logs(stats, events, 1);
    struct history *history = history_create();
    struct history_point *points = NULL;
    size_t room = 0;
    // The next tick's number is that of the file: no two lines have the same.
    assert_int_equal(history_recall(history, stats, events), 5);
    static const int64_t steps[] = {5, 10, 20, 30};
    static const float g[] = {32, 16, 8, 8};
    assert_int_equal(history_copy(history, &points, &room), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(points[i].step, steps[i]);
        assert_true(points[i].scale[ROLE_G] == g[i]);
        assert_true(i == 0 || points[i].scale[ROLE_D] == 4.0f);
        assert_int_equal(points[i].skipped[ROLE_G], i == 0);
    }
    // The losses are those of the ticks that stayed.
    assert_true(points[2].loss[ROLE_G] == 3.5f && points[3].loss[ROLE_G] == 4.5f);
    free(points);
    history_destroy(history);
    // A log of an earlier release tells no line from another: all are taken.
    write_logs(stats, events, 0);
    history = history_create();
    history_recall(history, stats, events);
    assert_true(history_count(history) > 4);
    history_destroy(history);
    remove_folder(folder);
}

// Both curves of a run folder; `look` is the step of the heat map's last column.
static size_t recall(const char *run, struct history_point **points, int64_t *look)
{
    char stats[1200], events[1200];
    size_t room = 0;
    struct history *history = history_create();
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    snprintf(stats, sizeof stats, "%s/stats.jsonl", run);
    snprintf(events, sizeof events, "%s/events.jsonl", run);
    history_recall(history, stats, events);
    snprintf(stats, sizeof stats, "%s/layers.jsonl", run);
    layers_recall(layers, stats, events);
    *points = NULL;
    size_t count = history_copy(history, points, &room);
    layers_copy(layers, &view);
    for (int i = 1; i < view.column_count; i++)
        assert_true(view.columns[i].step > view.columns[i - 1].step);
    *look = view.columns[view.column_count - 1].step;
    layers_view_release(&view);
    layers_destroy(layers);
    history_destroy(history);
    return count;
}

static void test_a_run_that_went_back_is_told_once(void **state)
{
    (void)state;
    char out[600], run[1024];
    struct history_point *points;
    int64_t look;
    snprintf(out, sizeof out, "%s", make_folder("went_back"));
    twinscale_must("train " SMALL_RUN " --out '%s' --kimg 0.48 --tick 0.064 --snap 0.16 "
                   "--grad-stats 2 --inject d:14:bad-weight --max-skips 6 "
                   "--on-overflow-storm rollback",
                   out);
    snprintf(run, sizeof run, "%s", run_in(out));
    size_t count = recall(run, &points, &look);
    assert_int_equal(look, 30);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || points[i].step > points[i - 1].step);
        assert_int_equal(points[i].skipped[ROLE_D],
                         0); // those of the storm are not its
        assert_true(points[i].scale[ROLE_D] == (points[i].step < 10 ? 1024 : 512));
    }
    assert_int_equal(points[count - 1].step, 30);
    free(points);
    // The storm in steps 14 to 19 is in the logs all the same, with the number before it.
    assert_int_equal(lines_with(run, "events.jsonl", "\"rollbacks\":0"), 13);
    assert_int_equal(lines_with(run, "layers.jsonl", "\"reason\":\"grad-stats\""), 20);

    // From before the rollback, which then does not come: what it said goes aside.
    twinscale_must("train --resume '%s/snapshot-000000.160.safetensors' --kimg 0.48 "
                   "--inject d:25:inf",
                   run);
    assert_int_equal(lines_with(run, "events.jsonl", "\"event\":\"rollback\""), 0);
    assert_int_equal(lines_with(run, "events.jsonl.bak", "\"event\":\"rollback\""), 1);
    count = recall(run, &points, &look);
    assert_int_equal(look, 30);
    assert_int_equal(points[count - 1].step, 30);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(points[i].skipped[ROLE_D], points[i].step == 25);
    free(points);
    remove_folder(out);
}

static void test_every_scale_that_moved_with_a_network_comes_back(void **state)
{
    (void)state;
    char out[600], run[1024];
    struct history_point *points;
    int64_t look;
    snprintf(out, sizeof out, "%s", make_folder("scales"));
    // In step 6 G is in a storm, and the scale that both have begins again.
    twinscale_must("train " SMALL_RUN " --out '%s/shared' --kimg 0.16 --scaler shared "
                   "--grad-stats 2 --inject g:5-6:huge-activation --max-skips 2 "
                   "--on-overflow-storm fp32-layer",
                   out);
    snprintf(run, sizeof run, "%s/shared", out);
    size_t count = recall(run_in(run), &points, &look);
    assert_true(points[count - 1].scale[ROLE_G] == 1024.0f);
    assert_true(points[count - 1].scale[ROLE_D] == 1024.0f);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(points[i].changed[ROLE_D], 0);
    free(points);

    twinscale_must("train " SMALL_RUN " --out '%s/three' --kimg 0.16 --scaler per-loss "
                   "--grad-stats 2 --inject d:8:inf --set-at 0.096:d.scale=64",
                   out);
    snprintf(run, sizeof run, "%s/three", out);
    count = recall(run_in(run), &points, &look);
    assert_true(points[0].step < 6 && points[0].scale[SCALE_D_FAKE] == 1024.0f);
    assert_true(points[count - 1].scale[ROLE_D] == 32.0f);
    assert_true(points[count - 1].scale[SCALE_D_FAKE] ==
                (float)facts_of(run_in(run)).fake_scaler.scale);
    free(points);
    remove_folder(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_curves_of_a_run_come_back_from_its_logs),
        cmocka_unit_test(test_counters_out_of_range_are_not_taken_from_the_logs),
        cmocka_unit_test(test_logs_that_are_not_there_recall_nothing),
        cmocka_unit_test(test_what_only_some_runs_have_comes_back_too),
        cmocka_unit_test(test_steps_that_a_rollback_gave_up_are_not_recalled),
        cmocka_unit_test(test_a_run_that_went_back_is_told_once),
        cmocka_unit_test(test_every_scale_that_moved_with_a_network_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
