/* test_layers.c - the columns of the heat map, and the map. */
#include "app/view/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/view/dashboard.h"
#include "tests/support/support.h"

static struct layer_column column_of(int64_t step, float headroom, float small)
{
    struct layer_column column;
    layer_column_begin(&column, step, 0.064 * (double)step);
    layer_column_join(&column, 0, LAYER_ACTIVATION_GRADIENTS,
                      &(struct layer_cell){headroom, small, 0});
    return column;
}

static void test_a_layer_has_one_row_in_the_order_of_first_sight(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    assert_int_equal(layers_row(layers, "g.conv1"), 0);
    assert_int_equal(layers_row(layers, "d.conv1"), 1);
    assert_int_equal(layers_row(layers, "g.conv1"), 0);
    for (int i = 2; i < 500; i++) { // those of two deep networks
        char name[16];
        snprintf(name, sizeof name, "d.bn%d", i);
        assert_int_equal(layers_row(layers, name), i);
    }
    layers_destroy(layers);
}

static void test_two_looks_at_one_step_are_one_column_of_the_worse_values(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    struct layer_column column = column_of(7, 9.0f, 0.1f);
    layers_row(layers, "d.conv1");
    layers_add(layers, &column);
    column = column_of(7, 2.0f, 0.05f);
    layer_column_join(&column, 0, LAYER_ACTIVATION_GRADIENTS,
                      &(struct layer_cell){NAN, NAN, 1});
    layers_add(layers, &column);
    layers_copy(layers, &view);
    assert_int_equal(view.column_count, 1);
    struct layer_cell cell =
        layer_column_cell(&view.columns[0], 0, LAYER_ACTIVATION_GRADIENTS);
    assert_true(cell.headroom == 2.0f && cell.small == 0.1f);
    assert_int_equal(cell.has_overflowed, 1);
    assert_true(
        isnan(layer_column_cell(&view.columns[0], 0, LAYER_ACTIVATIONS).headroom));
    // A row that was not looked at then.
    assert_true(isnan(layer_column_cell(&view.columns[0], 7, LAYER_ACTIVATIONS).small));
    layers_view_release(&view);
    layers_destroy(layers);
}

static void test_a_long_run_keeps_its_worst_moments(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    layers_row(layers, "d.conv1");
    const int looks = 20 * LAYERS_LOOKS + 3;
    for (int i = 1; i <= looks; i++) {
        struct layer_column column = column_of(i, i == 100 ? -1.0f : 8.0f, 0.0f);
        layers_add(layers, &column);
    }
    layers_copy(layers, &view);
    assert_true(view.column_count > LAYERS_LOOKS / 2 - 2);
    assert_true(view.column_count <= LAYERS_LOOKS);
    int worst = 0;
    for (int i = 0; i < view.column_count; i++) {
        worst +=
            layer_column_cell(&view.columns[i], 0, LAYER_ACTIVATION_GRADIENTS).headroom ==
            -1.0f;
        assert_true(i == 0 || view.columns[i].step > view.columns[i - 1].step);
    }
    assert_int_equal(worst, 1);
    assert_int_equal(view.columns[view.column_count - 1].step, looks);
    layers_view_release(&view);
    layers_destroy(layers);
}

static void test_looks_after_a_step_are_forgotten(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    struct layer_column column;
    for (int64_t step = 2; step <= 20; step += 2) {
        layer_column_begin(&column, step, (double)step);
        layers_add(layers, &column);
    }
    layers_rewind(layers, 12);
    layers_copy(layers, &view);
    assert_int_equal(view.column_count, 6);
    assert_int_equal(view.columns[5].step, 12);
    layers_rewind(layers, 1);
    layers_copy(layers, &view);
    assert_int_equal(view.column_count, 0);
    layers_view_release(&view);
    layers_destroy(layers);
}

static void test_a_resumed_run_recalls_its_looks(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/stats.jsonl", make_folder("layers"));
    FILE *file = fopen(path, "w");
    fprintf(file, "{\"Progress/step\":{\"num\":1,\"mean\":3.0}}\n"
                  "{\"reason\":\"grad-stats\",\"layers\":[{\"layer\":\"d.fc\",\"tensor\":"
                  "\"weight gradient\",\"finite\":1.0,\"lost\":0.25,\"subnormal\":0.5,"
                  "\"headroom\":3.5},{\"layer\":\"d.fc\",\"tensor\":\"activation\","
                  "\"finite\":0.9,\"lost\":null,\"subnormal\":0.125,\"headroom\":null}],"
                  "\"step\":4,\"kimg\":0.256}\n"
                  "not JSON\n");
    fclose(file);
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    layers_recall(layers, path, "/nowhere/events.jsonl");
    layers_recall(layers, "/nowhere/stats.jsonl", "/nowhere/events.jsonl"); // no more
    layers_copy(layers, &view);
    assert_int_equal(view.row_count, 1);
    assert_string_equal(view.name[0], "d.fc");
    assert_int_equal(view.column_count, 1);
    assert_int_equal(view.columns[0].step, 4);
    struct layer_cell cell =
        layer_column_cell(&view.columns[0], 0, LAYER_WEIGHT_GRADIENTS);
    assert_true(cell.headroom == 3.5f && cell.small == 0.75f);
    cell = layer_column_cell(&view.columns[0], 0, LAYER_ACTIVATIONS);
    assert_true(isnan(cell.headroom) && cell.small == 0.125f);
    assert_int_equal(cell.has_overflowed, 1);
    layers_view_release(&view);
    layers_destroy(layers);
    *strrchr(path, '/') = '\0';
    remove_folder(path);
}

/* ---- the map --------------------------------------------------------------------- */

enum { WIDTH = 1280, HEIGHT = 720 };

static long count_color(const uint32_t *pixels, uint32_t color)
{
    long count = 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        count += (pixels[i] & 0xffffff) == color;
    return count;
}

// The dashboard's own example: two layers, two looks; an overflow where asked for.
static uint32_t *draw(int has_columns, int has_overflow)
{
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    layers_row(layers, "g.conv1");
    layers_row(layers, "d.conv1");
    for (int i = 1; has_columns && i <= 2; i++) {
        struct layer_column column = column_of(i, 8.0f, 0.01f);
        layer_column_join(&column, 0, LAYER_ACTIVATION_GRADIENTS,
                          &(struct layer_cell){NAN, NAN, has_overflow && i == 2});
        layers_add(layers, &column);
    }
    layers_copy(layers, &view);
    struct dashboard dashboard = {
        .kimg = 0.256, .layers = &view, .shows_layers = 1, .hover_x = -1, .hover_y = -1};
    uint32_t *pixels = calloc(WIDTH * HEIGHT, sizeof *pixels);
    dashboard_draw(&dashboard, pixels, WIDTH, HEIGHT, WIDTH * 4);
    layers_view_release(&view);
    layers_destroy(layers);
    return pixels;
}

static void test_an_overflow_stands_out_in_the_map(void **state)
{
    (void)state;
    uint32_t *quiet = draw(1, 0), *loud = draw(1, 1);
    // The legend has a patch of that colour; a cell is many times as large.
    long legend = count_color(quiet, 0xf2647a), both = count_color(loud, 0xf2647a);
    assert_in_range(legend, 50, 400);
    assert_true(both > legend + 800);
    free(quiet);
    free(loud);
}

/* A run of 100 kimg without --grad-stats: D's skip at `kimg`, if that is not negative. */
static uint32_t *draw_skip(double kimg)
{
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    layers_row(layers, "g.conv1");
    layers_row(layers, "d.conv1");
    struct layer_column column;
    layer_column_begin(&column, 1, 1.0);
    column.is_skip = 1; // the first step, of G
    layer_column_join(&column, 0, LAYER_WEIGHT_GRADIENTS,
                      &(struct layer_cell){8.0f, 0.0f, 0});
    layers_add(layers, &column);
    layer_column_begin(&column, 2, kimg);
    column.is_skip = 1;
    layer_column_join(&column, 1, LAYER_WEIGHT_GRADIENTS,
                      &(struct layer_cell){0.0f, 0.0f, 1});
    if (kimg >= 0.0)
        layers_add(layers, &column);
    else
        free(column.cells);
    layers_copy(layers, &view);
    assert_int_equal(view.column_count, 0);
    struct dashboard dashboard = {
        .kimg = 100.0, .layers = &view, .shows_layers = 1, .hover_x = -1, .hover_y = -1};
    uint32_t *pixels = calloc(WIDTH * HEIGHT, sizeof *pixels);
    dashboard_draw(&dashboard, pixels, WIDTH, HEIGHT, WIDTH * 4);
    layers_view_release(&view);
    layers_destroy(layers);
    return pixels;
}

// Left and right end of what differs between two pictures; false where nothing does.
static int find_difference(const uint32_t *a, const uint32_t *b, int *left, int *right)
{
    *left = WIDTH;
    *right = -1;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        if (a[i] != b[i]) {
            *left = i % WIDTH < *left ? i % WIDTH : *left;
            *right = i % WIDTH > *right ? i % WIDTH : *right;
        }
    return *right >= 0;
}

static void test_a_skipped_step_is_a_thin_line_at_its_kimg(void **state)
{
    (void)state;
    uint32_t *without = draw_skip(-1.0), *early = draw_skip(25.0),
             *late = draw_skip(75.0);
    int left[2], right[2];
    assert_true(find_difference(without, early, &left[0], &right[0]));
    assert_true(find_difference(without, late, &left[1], &right[1]));
    // A hair: the other network's column is not drawn on to it.
    assert_in_range(right[0] - left[0], 1, 5);
    assert_in_range(right[1] - left[1], 1, 5);
    // Half the width of a block apart, which is less than a third of the right half.
    assert_in_range(left[1] - left[0], 50, WIDTH / 10);
    free(without);
    free(early);
    free(late);
}

static void test_skips_far_apart_are_never_joined(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    struct layer_column column;
    layers_row(layers, "d.conv1");
    for (int i = 0; i < 5 * LAYERS_LOOKS; i++) {
        // Most in the first tenth of the run; two by themselves.
        double kimg = i == 400 ? 500.0 : i > 400 ? 1000.0 + 1e-4 * i : 0.25 * i;
        layer_column_begin(&column, i + 1, kimg);
        column.is_skip = 1;
        layer_column_join(&column, 0, LAYER_ACTIVATIONS,
                          &(struct layer_cell){NAN, NAN, i == 400});
        layers_add(layers, &column);
    }
    layers_copy(layers, &view);
    assert_in_range(view.skip_count, 3, LAYERS_LOOKS);
    int seen = 0;
    for (int i = 0; i < view.skip_count; i++)
        if (layer_column_cell(&view.skips[i], 0, LAYER_ACTIVATIONS).has_overflowed) {
            assert_true(view.skips[i].kimg == 500.0);
            seen++;
        }
    assert_int_equal(seen, 1);
    layers_view_release(&view);
    layers_destroy(layers);
}

static void test_the_window_has_room_for_the_map_at_any_size(void **state)
{
    (void)state;
    struct layers *layers = layers_create();
    struct layers_view view = {0};
    for (int i = 0; i < 130; i++) {
        char name[LAYERS_NAME];
        snprintf(name, sizeof name, "%c.convolution%d", i < 60 ? 'g' : 'd', i);
        layers_row(layers, name);
    }
    for (int i = 0; i < LAYERS_LOOKS; i++) {
        struct layer_column column = column_of(i, (float)i / 8.0f, 0.5f);
        layers_add(layers, &column);
    }
    layers_copy(layers, &view);
    struct dashboard dashboard = {.layers = &view, .shows_layers = 1};
    static const int sizes[][2] = {{1, 1}, {320, 180}, {480, 900}, {3840, 2160}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int width = sizes[i][0], height = sizes[i][1];
        size_t count = (size_t)width * (size_t)(height + 1);
        uint32_t *pixels = malloc(count * sizeof *pixels);
        for (size_t p = 0; p < count; p++)
            pixels[p] = 0xdeadbeef;
        dashboard_draw(&dashboard, pixels, width, height, width * 4);
        for (size_t p = count - (size_t)width; p < count; p++)
            assert_int_equal(pixels[p], 0xdeadbeef);
        free(pixels);
    }
    layers_view_release(&view);
    layers_destroy(layers);
}

static void test_without_a_look_the_map_says_how_to_get_one(void **state)
{
    (void)state;
    uint32_t *nothing = draw(0, 0), *something = draw(1, 0);
    assert_int_equal(count_color(nothing, 0xf2647a), 0);
    assert_true(count_color(nothing, 0xe9ebef) > 50); // words
    assert_true(memcmp(nothing, something, WIDTH * HEIGHT * sizeof *nothing) != 0);
    free(nothing);
    free(something);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_layer_has_one_row_in_the_order_of_first_sight),
        cmocka_unit_test(test_two_looks_at_one_step_are_one_column_of_the_worse_values),
        cmocka_unit_test(test_a_long_run_keeps_its_worst_moments),
        cmocka_unit_test(test_looks_after_a_step_are_forgotten),
        cmocka_unit_test(test_a_resumed_run_recalls_its_looks),
        cmocka_unit_test(test_an_overflow_stands_out_in_the_map),
        cmocka_unit_test(test_a_skipped_step_is_a_thin_line_at_its_kimg),
        cmocka_unit_test(test_skips_far_apart_are_never_joined),
        cmocka_unit_test(test_the_window_has_room_for_the_map_at_any_size),
        cmocka_unit_test(test_without_a_look_the_map_says_how_to_get_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
