/* test_series.c - a history reduced to pixel columns. */
#include "app/view/series.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/support.h"

static struct history_point point_at(int64_t step, float scale, float loss)
{
    return (struct history_point){.step = step,
                                  .kimg = (double)step,
                                  .scale = {scale, 2.0f * scale},
                                  .loss = {loss, loss / 2.0f}};
}

static void test_columns_keep_extremes_first_last_and_skips(void **state)
{
    (void)state;
    // Ten steps in one column of ten, kimg 0..100.
    struct history_point points[100];
    for (int i = 0; i < 100; i++)
        points[i] = point_at(i + 1, 16.0f, 1.0f);
    points[44].scale[ROLE_G] = 64.0f;
    points[45].scale[ROLE_G] = 4.0f;
    points[45].skipped[ROLE_G] = 3;
    points[45].changed[ROLE_D] = 1;
    points[46].loss[ROLE_D] = -7.0f;
    points[47].loss[ROLE_D] = 9.0f;
    struct series series;
    assert_int_equal(series_create(&series, points, 100, 10, 2.0), 1);
    assert_true(series.kimg_low == 0.0 && series.kimg_high == 100.0);
    const struct column *column = &series.columns[series_column(&series, 45.0)];
    assert_int_equal(column->count, 10);
    const struct column_of_network *g = &column->of[ROLE_G], *d = &column->of[ROLE_D];
    assert_true(g->scale_first == 16.0f && g->scale_last == 16.0f);
    assert_true(g->scale_min == 4.0f && g->scale_max == 64.0f && g->skip_scale == 4.0f);
    assert_int_equal(g->skips, 3);
    assert_int_equal(d->skips, 0);
    assert_int_equal(g->changes, 0);
    assert_int_equal(d->changes, 1);
    assert_true(isnan(d->skip_scale));
    assert_true(d->loss_min == -7.0f && d->loss_max == 9.0f);
    assert_true(series.scale_low == 2.0 && series.scale_high == 6.0);
    series_release(&series);
}

static void test_columns_keep_norms_clips_held_steps_and_a_third_scale(void **state)
{
    (void)state;
    struct history_point points[100];
    for (int i = 0; i < 100; i++) {
        points[i] = point_at(i + 1, 16.0f, 1.0f);
        points[i].scale[SCALE_D_FAKE] = 256.0f;
        points[i].grad_norm[ROLE_G] = i == 44 ? 8.0f : i == 45 ? 0.5f : 2.0f;
    }
    points[44].clipped[ROLE_G] = 3;
    points[45].held[ROLE_D] = 1;
    points[46].scale[SCALE_D_FAKE] = 128.0f;
    points[46].skipped[SCALE_D_FAKE] = 1;
    points[47].grad_norm[ROLE_G] = NAN;
    struct series series;
    assert_int_equal(series_create(&series, points, 100, 10, 2.0), 1);
    const struct column *column = &series.columns[series_column(&series, 45.0)];
    const struct column_of_network *g = &column->of[ROLE_G];
    assert_true(g->norm_min == 0.5f && g->norm_max == 8.0f);
    assert_int_equal(g->norm_count, 9);
    assert_true(g->norm_sum == 7.0 + 3.0 - 1.0);
    assert_int_equal(g->clips, 1);
    assert_true(isnan(g->held_scale));
    const struct column_of_network *d = &column->of[ROLE_D];
    assert_true(d->held_scale == 32.0f && isnan(d->norm_min) && isnan(d->skip_scale));
    const struct column_of_network *fake = &column->of[SCALE_D_FAKE];
    assert_true(fake->scale_min == 128.0f && fake->scale_last == 256.0f);
    assert_true(fake->skip_scale == 128.0f && fake->loss_count == 0);
    assert_true(series.norm_low == -1.0 && series.norm_high == 3.0);
    assert_true(series.scale_low == 4.0 && series.scale_high == 8.0);
    series_release(&series);
}

static void test_values_that_are_not_finite_have_no_place(void **state)
{
    (void)state;
    struct history_point points[3] = {point_at(1, NAN, NAN), point_at(2, 0.0f, INFINITY),
                                      point_at(3, INFINITY, -INFINITY)};
    struct series series;
    assert_int_equal(series_create(&series, points, 3, 50, 2.0), 1);
    assert_true(isnan(series.scale_low) && isnan(series.scale_high));
    assert_true(isnan(series.loss_low) && isnan(series.loss_high));
    for (int c = 0; c < 50; c++) {
        assert_int_equal(series.columns[c].of[ROLE_G].loss_count, 0);
        assert_true(isnan(series.columns[c].of[ROLE_G].loss_smooth));
    }
    series_release(&series);
}

/* The smoothed loss against its definition: weights exp(-distance / window). */
static void test_smoothing_is_the_weighted_mean_to_both_sides(void **state)
{
    (void)state;
    enum { N = 40 };
    const double window = 3.0;
    struct history_point points[N];
    for (int i = 0; i < N; i++)
        points[i] = point_at(i + 1, 1.0f, (float)((i * 7) % 11));
    points[17].loss[ROLE_G] = NAN;
    struct series series;
    assert_int_equal(series_create(&series, points, N, N, window), 1);
    for (int c = 0; c < N; c++) {
        double sum = 0.0, weight = 0.0;
        for (int other = 0; other < N; other++) {
            const struct column_of_network *column = &series.columns[other].of[ROLE_G];
            const double w = exp(-abs(c - other) / window);
            sum += w * column->loss_sum;
            weight += w * column->loss_count;
        }
        const struct column_of_network *column = &series.columns[c].of[ROLE_G];
        if (column->loss_count == 0)
            assert_true(isnan(column->loss_smooth));
        else
            assert_true(fabs(column->loss_smooth - sum / weight) < 1e-9);
    }
    series_release(&series);
}

static void test_a_spike_does_not_flatten_the_losses_but_a_run_away_is_seen(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct history_point points[N];
    struct series series;
    for (int i = 0; i < N; i++)
        points[i] = point_at(i + 1, 1.0f, 1.0f + 0.1f * (float)(i % 3));
    points[1].loss[ROLE_G] = 500.0f;
    assert_int_equal(series_create(&series, points, N, N, 7.0), 1);
    assert_true(series.loss_high < 100.0);
    assert_true(series.loss_most == 500.0);
    series_release(&series);
    assert_int_equal(series_create(&series, points, N, 2 * N, 7.0), 1);
    assert_int_equal(series.has_loss_band, 0); // no two steps in a column
    series_release(&series);
    assert_int_equal(series_create(&series, points, N, N / 10, 7.0), 1);
    assert_int_equal(series.has_loss_band, 1);
    series_release(&series);
    points[1].loss[ROLE_G] = 1.5f; // no spike: the axis holds the whole band
    assert_int_equal(series_create(&series, points, N, N, 7.0), 1);
    assert_true(series.loss_high == 1.5);
    series_release(&series);

    points[1].loss[ROLE_G] = 1.0f;
    for (int i = N - 10; i < N; i++)
        points[i].loss[ROLE_G] = 500.0f;
    assert_int_equal(series_create(&series, points, N, N, 7.0), 1);
    assert_true(series.loss_high > 250.0);
    series_release(&series);
}

static void test_a_resumed_history_starts_where_it_is_known(void **state)
{
    (void)state;
    struct history_point points[100];
    struct series series;
    for (int i = 0; i < 100; i++)
        points[i] = point_at(1001 + i, 1.0f, 1.0f);
    assert_int_equal(series_create(&series, points, 100, 10, 2.0), 1);
    assert_true(series.kimg_low == 1001.0 && series.kimg_high == 1100.0);
    series_release(&series);
}

static void test_no_points_and_one_point_give_a_usable_range(void **state)
{
    (void)state;
    struct series series;
    assert_int_equal(series_create(&series, NULL, 0, 10, 2.0), 1);
    assert_true(series.kimg_high > series.kimg_low);
    series_release(&series);

    struct history_point point = point_at(5000, 8.0f, 1.0f);
    for (int is_at_zero = 0; is_at_zero < 2; is_at_zero++) {
        point.kimg = is_at_zero ? 0.0 : 5000.0;
        assert_int_equal(series_create(&series, &point, 1, 10, 2.0), 1);
        assert_true(series.kimg_high > series.kimg_low);
        const int column = series_column(&series, point.kimg);
        assert_int_equal(series.columns[column].count, 1);
        series_release(&series);
    }
}

static void test_the_nearest_point_is_found(void **state)
{
    (void)state;
    const struct history_point points[] = {{.kimg = 1.0}, {.kimg = 2.0}, {.kimg = 10.0}};
    assert_int_equal(series_nearest(points, 3, -5.0), 0);
    assert_int_equal(series_nearest(points, 3, 1.4), 0);
    assert_int_equal(series_nearest(points, 3, 1.6), 1);
    assert_int_equal(series_nearest(points, 3, 5.9), 1);
    assert_int_equal(series_nearest(points, 3, 6.1), 2);
    assert_int_equal(series_nearest(points, 3, 99.0), 2);
    assert_int_equal(series_nearest(points, 1, 99.0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_keep_extremes_first_last_and_skips),
        cmocka_unit_test(test_columns_keep_norms_clips_held_steps_and_a_third_scale),
        cmocka_unit_test(test_values_that_are_not_finite_have_no_place),
        cmocka_unit_test(test_smoothing_is_the_weighted_mean_to_both_sides),
        cmocka_unit_test(test_a_spike_does_not_flatten_the_losses_but_a_run_away_is_seen),
        cmocka_unit_test(test_a_resumed_history_starts_where_it_is_known),
        cmocka_unit_test(test_no_points_and_one_point_give_a_usable_range),
        cmocka_unit_test(test_the_nearest_point_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
