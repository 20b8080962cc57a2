/* test_dashboard.c - the whole picture: any size, any data, in time, and as a file. */
#include "app/view/dashboard.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/view/bench_picture.h"
#include "tests/support/support.h"

#define COLOR_G 0x40b8fau
#define COLOR_D 0xfa8c33u
#define COLOR_D_FAKE 0xe08fc6u
#define COLOR_BAD 0xf2647au
#define CANARY 0xdeadbeefu

// Address and undefined-behaviour checks cost time that is not the drawing's.
#ifdef __SANITIZE_ADDRESS__
#define DRAW_MS_MAX 400.0
#else
#define DRAW_MS_MAX 20.0
#endif

/* Pixels with a spare row below and spare pixels at the end of each row, all canaries. */
struct frame {
    int width, height, stride_pixels;
    uint32_t *pixels;
};

enum { SPARE = 3 };

static struct frame frame_create(int width, int height)
{
    struct frame frame = {width, height, width + SPARE, NULL};
    const size_t count = (size_t)frame.stride_pixels * (size_t)(height + 1);
    frame.pixels = malloc(count * sizeof(*frame.pixels));
    for (size_t i = 0; i < count; i++)
        frame.pixels[i] = CANARY;
    return frame;
}

static void draw(const struct dashboard *dashboard, struct frame *frame)
{
    dashboard_draw(dashboard, frame->pixels, frame->width, frame->height,
                   frame->stride_pixels * 4);
}

static uint32_t at(const struct frame *frame, int x, int y)
{
    return frame->pixels[(size_t)y * (size_t)frame->stride_pixels + (size_t)x] & 0xffffff;
}

static long count_color(const struct frame *frame, uint32_t color)
{
    long count = 0;
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++)
            count += at(frame, x, y) == color;
    return count;
}

static long count_changes(const struct frame *a, const struct frame *b)
{
    long count = 0;
    for (int y = 0; y < a->height; y++)
        for (int x = 0; x < a->width; x++)
            count += at(a, x, y) != at(b, x, y);
    return count;
}

static void expect_canaries(const struct frame *frame)
{
    for (int y = 0; y <= frame->height; y++)
        for (int x = y < frame->height ? frame->width : 0; x < frame->stride_pixels; x++)
            if (frame->pixels[(size_t)y * (size_t)frame->stride_pixels + (size_t)x] !=
                CANARY)
                fail_msg("%dx%d: written outside at (%d, %d)", frame->width,
                         frame->height, x, y);
}

/* A run of `count` steps in which D skips now and then. */
static struct history_point *make_points(size_t count)
{
    struct history_point *points = calloc(count + 1, sizeof(*points));
    uint32_t random = 5;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        const float noise = (float)(random >> 8) / 16777216.0f;
        points[i] = (struct history_point){
            .step = (int64_t)i + 1,
            .kimg = 0.064 * (double)(i + 1),
            .scale = {65536.0f, i * 2 < count ? 32768.0f : 0.5f},
            .loss = {2.0f + noise, 1.0f - 0.5f * noise},
            .skipped = {0, i % 500 == 7},
        };
    }
    return points;
}

static struct dashboard make_dashboard(const struct history_point *points, size_t count)
{
    struct dashboard dashboard = {.step = (int64_t)count,
                                  .kimg = 0.064 * (double)count,
                                  .kimg_total = 400.0,
                                  .images_per_sec = 1234.0,
                                  .eta_sec = 123.0,
                                  .elapsed_sec = 61.0,
                                  .epoch = 1.5,
                                  .scale = {65536.0f, 0.5f},
                                  .growth_tracker = {1204, 87},
                                  .growth_interval = {2000, 2000},
                                  .points = points,
                                  .point_count = count,
                                  .hover_x = -1,
                                  .hover_y = -1};
    strcpy(dashboard.title, "dcgan28 on fashion-mnist");
    strcpy(dashboard.run, "outputs/00003-fashion-mnist-dcgan28-b64");
    strcpy(dashboard.device, "a processor, 2 threads");
    strcpy(dashboard.precision, "fp16");
    strcpy(dashboard.state, "training");
    return dashboard;
}

/* Tiles of one colour each: tile i has channels (value + i). */
static uint8_t *add_tiles(struct dashboard *dashboard, int columns, int rows, int side,
                          int channels)
{
    const size_t bytes =
        (size_t)columns * (size_t)rows * (size_t)side * (size_t)side * (size_t)channels;
    uint8_t *tiles = malloc(bytes);
    memset(tiles, 201, bytes);
    dashboard->grid_columns = columns;
    dashboard->grid_rows = rows;
    dashboard->tile_w = dashboard->tile_h = side;
    dashboard->tile_channels = channels;
    dashboard->tiles = tiles;
    dashboard->tiles_kimg = 48.0;
    return tiles;
}

static long count_color_in_png(const char *path, uint32_t color)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_file(&image, path));
    image.format = PNG_FORMAT_RGB;
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(image));
    assert_true(png_image_finish_read(&image, NULL, rgb, 0, NULL));
    long count = 0;
    for (size_t i = 0; i < PNG_IMAGE_SIZE(image); i += 3)
        count += (uint32_t)(rgb[i] << 16 | rgb[i + 1] << 8 | rgb[i + 2]) == color;
    free(rgb);
    return count;
}

static void test_both_curves_are_drawn_in_their_colours(void **state)
{
    (void)state;
    struct history_point *points = make_points(3000);
    const struct dashboard dashboard = make_dashboard(points, 3000);
    struct frame frame = frame_create(1280, 720);
    draw(&dashboard, &frame);
    assert_true(count_color(&frame, COLOR_G) > 800);
    assert_true(count_color(&frame, COLOR_D) > 500);
    free(frame.pixels);
    free(points);
}

// All that a run can have: three scales, steps that were held back, norms, a read-out.
static void add_everything(struct dashboard *dashboard, struct history_point *points)
{
    for (size_t i = 0; i < dashboard->point_count; i++) {
        points[i].scale[SCALE_D_FAKE] = 4096.0f;
        points[i].skipped[SCALE_D_FAKE] = i % 500 == 9;
        points[i].held[ROLE_G] = i % 500 == 7;
        points[i].grad_norm[ROLE_G] = 2.0f;
        points[i].grad_norm[ROLE_D] = 30.0f + (float)(i % 7);
        points[i].clipped[ROLE_D] = i % 2;
    }
    dashboard->scale[SCALE_D_FAKE] = 4096.0f;
    dashboard->growth_interval[SCALE_D_FAKE] = 2000;
    dashboard->held[ROLE_G] = 1209;
    dashboard->skipped[ROLE_D] = 1026;
    dashboard->clip_norm[ROLE_G] = 5.0f;
    dashboard->clip_norm[ROLE_D] = 32.0f;
}

static void test_norms_and_a_third_scale_are_drawn_where_a_run_has_them(void **state)
{
    (void)state;
    struct history_point *points = make_points(3000);
    struct dashboard dashboard = make_dashboard(points, 3000);
    struct frame without = frame_create(1280, 720), with = frame_create(1280, 720);
    draw(&dashboard, &without);
    add_everything(&dashboard, points);
    draw(&dashboard, &with);
    assert_int_equal(count_color(&without, COLOR_D_FAKE), 0);
    assert_true(count_color(&with, COLOR_D_FAKE) > 200);
    // A gap of the background between three plots, where one plot was before.
    long gaps = 0;
    for (int y = 90; y < 680; y++)
        gaps += at(&with, 1250, y) == 0x0f1115 && at(&with, 1250, y - 1) != 0x0f1115;
    assert_int_equal(gaps, 2);
    // Samples, header and footer are as before.
    long elsewhere = 0;
    for (int y = 0; y < 720; y++)
        for (int x = 0; x < 1280; x++)
            if (x < 600 || y < 75 || y > 690)
                elsewhere += at(&with, x, y) != at(&without, x, y);
    assert_int_equal(elsewhere, 0);
    free(without.pixels);
    free(with.pixels);
    free(points);
}

static void test_every_size_is_filled_and_nothing_lies_outside(void **state)
{
    (void)state;
    const int sizes[][2] = {{1280, 720}, {960, 540},  {320, 180}, {333, 777},
                            {1, 1},      {2, 3},      {3, 200},   {1500, 200},
                            {50, 50},    {1920, 1080}};
    struct history_point *points = make_points(500);
    struct dashboard dashboard = make_dashboard(points, 500);
    uint8_t *tiles = add_tiles(&dashboard, 8, 8, 28, 3);
    dashboard.has_keys = 1;
    const size_t count = sizeof(sizes) / sizeof(sizes[0]);
    for (size_t k = 0; k < 2 * count; k++) {
        const size_t i = k % count;
        if (k == count)
            add_everything(&dashboard, points);
        struct frame frame = frame_create(sizes[i][0], sizes[i][1]);
        dashboard.hover_x = sizes[i][0] * 3 / 4;
        dashboard.hover_y = sizes[i][1] / 3;
        draw(&dashboard, &frame);
        expect_canaries(&frame);
        assert_int_equal(count_color(&frame, CANARY & 0xffffff), 0);
        if (sizes[i][0] >= 320 && sizes[i][1] >= 180)
            assert_true(count_color(&frame, COLOR_G) > 10);
        free(frame.pixels);
    }
    free(tiles);
    free(points);
}

static void test_a_size_of_zero_draws_nothing(void **state)
{
    (void)state;
    const struct dashboard dashboard = make_dashboard(NULL, 0);
    uint32_t pixel = CANARY;
    dashboard_draw(&dashboard, &pixel, 0, 0, 0);
    dashboard_draw(&dashboard, &pixel, 0, 720, 0);
    dashboard_draw(&dashboard, &pixel, 1280, 0, 5120);
    dashboard_draw(&dashboard, &pixel, -1, 5, 4);
    assert_int_equal(pixel, CANARY);
}

static void
test_before_the_first_step_there_are_axes_and_words_but_no_curves(void **state)
{
    (void)state;
    struct dashboard dashboard = make_dashboard(NULL, 0);
    struct history_point *points = make_points(1);
    struct frame empty = frame_create(1280, 720), one = frame_create(1280, 720);
    draw(&dashboard, &empty);
    dashboard.points = points;
    dashboard.point_count = 1;
    draw(&dashboard, &one);
    // The words of waiting are gone from both plots, whose middles are at x = 952.
    long waiting[2] = {0, 0}, begun[2] = {0, 0};
    for (int plot = 0; plot < 2; plot++)
        for (int y = plot ? 540 : 235; y < (plot ? 575 : 275); y++)
            for (int x = 870; x < 1035; x++) {
                waiting[plot] += (at(&empty, x, y) & 255) > 120;
                begun[plot] += (at(&one, x, y) & 255) > 120;
            }
    for (int plot = 0; plot < 2; plot++) {
        assert_true(waiting[plot] > 100);
        assert_int_equal(begun[plot], 0);
    }
    free(empty.pixels);
    free(one.pixels);
    free(points);
}

static void test_losses_that_are_not_numbers_are_told_and_do_no_harm(void **state)
{
    (void)state;
    struct history_point *points = make_points(1000);
    for (int i = 300; i < 1000; i++)
        points[i].loss[ROLE_D] = i % 2 ? NAN : INFINITY;
    points[5].scale[ROLE_G] = NAN;
    points[6].scale[ROLE_G] = 0.0f;
    points[7].kimg = NAN;
    const struct dashboard dashboard = make_dashboard(points, 1000);
    struct frame frame = frame_create(1280, 720);
    draw(&dashboard, &frame);
    assert_true(count_color(&frame, COLOR_BAD) > 5); // "NaN" in the legend
    assert_true(count_color(&frame, COLOR_G) > 500);
    expect_canaries(&frame);
    free(frame.pixels);
    free(points);
}

static void test_facts_that_are_not_numbers_do_no_harm(void **state)
{
    (void)state;
    struct dashboard dashboard = make_dashboard(NULL, 0);
    dashboard.kimg = dashboard.kimg_total = NAN;
    dashboard.images_per_sec = dashboard.eta_sec = INFINITY;
    dashboard.elapsed_sec = dashboard.epoch = -INFINITY;
    dashboard.scale[ROLE_G] = NAN;
    dashboard.scale[ROLE_D] = INFINITY;
    dashboard.growth_interval[ROLE_G] = 0;
    dashboard.growth_tracker[ROLE_D] = -5;
    dashboard.step = INT64_MIN;
    dashboard.skipped[ROLE_G] = INT64_MAX;
    struct frame frame = frame_create(1280, 720);
    draw(&dashboard, &frame);
    expect_canaries(&frame);
    assert_true(count_color(&frame, COLOR_G) > 20); // the legend is there all the same
    free(frame.pixels);
}

static void test_long_and_broken_texts_overlap_nothing(void **state)
{
    (void)state;
    struct history_point *points = make_points(500);
    struct dashboard dashboard = make_dashboard(points, 500);
    memset(dashboard.title, 'W', sizeof(dashboard.title) - 1);
    struct frame wide = frame_create(1280, 720), odd = frame_create(1280, 720);
    draw(&dashboard, &wide);
    // As long, but of other letters and broken bytes: only text at the left may differ.
    memset(dashboard.title, 'M', sizeof(dashboard.title) - 1);
    dashboard.title[3] = (char)0xff;
    memset(dashboard.device, '#', sizeof(dashboard.device) - 1);
    draw(&dashboard, &odd);
    long left = 0, right = 0;
    for (int y = 0; y < 720; y++)
        for (int x = 0; x < 1280; x++)
            if (at(&wide, x, y) != at(&odd, x, y)) {
                left += x < 580 && y < 60;
                right += x >= 700 || y >= 60; // where the numbers of the header begin
            }
    assert_true(left > 500);
    assert_int_equal(right, 0);
    assert_true(count_color(&odd, COLOR_G) >
                500); // broken bytes did not stop the drawing
    free(wide.pixels);
    free(odd.pixels);
    free(points);
}

static void test_two_hundred_thousand_points_are_drawn_in_time(void **state)
{
    (void)state;
    struct history_point *points = make_points(200000);
    struct dashboard dashboard = make_dashboard(points, 200000);
    uint8_t *tiles = add_tiles(&dashboard, 8, 8, 64, 3);
    struct frame frame = frame_create(1280, 720);
    double best_ms = INFINITY;
    for (int i = 0; i < 7; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        draw(&dashboard, &frame);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        best_ms = fmin(best_ms, 1e3 * (double)(end.tv_sec - start.tv_sec) +
                                    1e-6 * (double)(end.tv_nsec - start.tv_nsec));
    }
    if (best_ms >= DRAW_MS_MAX)
        fail_msg("200,000 points take %.1f ms, at most %.0f are allowed", best_ms,
                 DRAW_MS_MAX);
    free(frame.pixels);
    free(tiles);
    free(points);
}

static void test_the_read_out_appears_over_the_plots_only(void **state)
{
    (void)state;
    struct history_point *points = make_points(3000);
    struct dashboard dashboard = make_dashboard(points, 3000);
    struct frame away = frame_create(1280, 720), over = frame_create(1280, 720);
    draw(&dashboard, &away);
    const int inside[][2] = {{960, 250}, {960, 600}, {670, 300}, {1240, 300}};
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        dashboard.hover_x = inside[i][0];
        dashboard.hover_y = inside[i][1];
        draw(&dashboard, &over);
        // A line through both plots, at the pointer, and a box of some size.
        const int x = inside[i][0];
        long above = 0, below = 0;
        for (int y = 130; y < 660; y++)
            for (int near = x - 2; near <= x + 2; near++)
                if (at(&away, near, y) != at(&over, near, y)) {
                    above += y < 375;
                    below += y > 460;
                }
        assert_true(above > 200 && below > 150);
        assert_true(count_changes(&away, &over) > 8000);
    }
    const int outside[][2] = {{300, 300}, {960, 20}, {960, 710}, {-1, 300}, {1279, 300}};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        dashboard.hover_x = outside[i][0];
        dashboard.hover_y = outside[i][1];
        draw(&dashboard, &over);
        assert_int_equal(count_changes(&away, &over), 0);
    }
    free(away.pixels);
    free(over.pixels);
    free(points);
}

static void test_a_rollback_is_a_line_in_curves_and_layers(void **state)
{
    (void)state;
    const uint32_t yellow =
        0xf2c14e; // dashes are not quite opaque: what differs is counted
    struct history_point *points = make_points(1000);
    struct dashboard dashboard = make_dashboard(points, 1000);
    struct history_note note = {
        .step = 500, .kimg = 32.0, .kind = NOTE_ROLLBACK, .network = ROLE_D, .number = 3};
    struct frame without = frame_create(1280, 720), with = frame_create(1280, 720);
    draw(&dashboard, &without);
    assert_int_equal(count_color(&without, yellow), 0);
    dashboard.notes = &note;
    dashboard.note_count = 1;
    draw(&dashboard, &with);
    // Between 0 and 64 kimg, in both plots: the middle of the curves, all the way down.
    int rows = 0, middle = (606 + 52 + 1260 - 14) / 2;
    for (int y = 78; y < 680; y++) {
        int differs = 0;
        for (int x = middle - 3; x <= middle + 3; x++)
            differs |= at(&with, x, y) != at(&without, x, y);
        rows += differs;
    }
    assert_in_range(rows, 150, 500);
    free(points);
    free(without.pixels);
    free(with.pixels);
}

static void test_the_pointer_near_a_mark_reads_its_note(void **state)
{
    (void)state;
    struct history_point *points = make_points(1000);
    struct dashboard dashboard = make_dashboard(points, 1000);
    struct history_note note = {
        .step = 508, .kimg = 508 * 0.064, .kind = NOTE_SKIP, .network = ROLE_D};
    strcpy(note.text, "D skipped: d.conv1, weight gradient\nscale 2 \xe2\x86\x92 1\n"
                      "cause: the scale was too high");
    struct frame bare = frame_create(1280, 720), noted = frame_create(1280, 720);
    const double x = 658.0 + (1246.0 - 658.0) * 508.0 / 1000.0;
    const int distances[] = {0, 5, -5, 12};
    for (int i = 0; i < 4; i++) {
        dashboard.hover_x = (int)x + distances[i];
        dashboard.hover_y = 250;
        dashboard.notes = NULL;
        dashboard.note_count = 0;
        draw(&dashboard, &bare);
        dashboard.notes = &note;
        dashboard.note_count = 1;
        draw(&dashboard, &noted);
        // Three lines of text, or nothing.
        assert_true(distances[i] == 12 ? count_changes(&bare, &noted) == 0
                                       : count_changes(&bare, &noted) > 1000);
    }
    free(points);
    free(bare.pixels);
    free(noted.pixels);
}

static void test_samples_keep_their_colours_at_every_scale_and_channel_count(void **state)
{
    (void)state;
    // 201 grey; with an alpha of 201 over the panel's 0x16: (201*201 + 22*54) / 255 =
    // 163.
    const uint32_t expected[] = {0, 0xc9c9c9, 0xa3a3a3, 0xc9c9c9, 0xa3a3a3};
    for (int channels = 1; channels <= 4; channels++)
        for (int side = 5; side <= 320; side *= 4) {
            struct dashboard dashboard = make_dashboard(NULL, 0);
            uint8_t *tiles = add_tiles(&dashboard, 4, 4, side, channels);
            struct frame frame = frame_create(1280, 720);
            draw(&dashboard, &frame);
            // 16 tiles of nearly 140x140 pixels, or of a whole factor.
            const int least = side < 130 ? 130 / side * side : 130;
            const long count = count_color(&frame, expected[channels]);
            if (count < 16L * least * least)
                fail_msg("%d channels of %d pixels: %ld pixels have the colour", channels,
                         side, count);
            free(frame.pixels);
            free(tiles);
        }
}

static void test_enlarged_samples_have_sharp_pixels(void **state)
{
    (void)state;
    struct dashboard dashboard = make_dashboard(NULL, 0);
    uint8_t *tiles = add_tiles(&dashboard, 1, 1, 2, 3);
    const uint8_t four[12] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0};
    memcpy(tiles, four, sizeof(four));
    struct frame frame = frame_create(1280, 720);
    draw(&dashboard, &frame);
    const long red = count_color(&frame, 0xff0000), green = count_color(&frame, 0x00ff00);
    const long blue = count_color(&frame, 0x0000ff),
               yellow = count_color(&frame, 0xffff00);
    assert_true(red > 270L * 270L);
    assert_true(labs(red - green) < 600 && labs(red - blue) < 600 &&
                labs(red - yellow) < 600);
    assert_int_equal(at(&frame, 160, 220), 0xff0000);
    assert_int_equal(at(&frame, 450, 220), 0x00ff00);
    assert_int_equal(at(&frame, 160, 500), 0x0000ff);
    assert_int_equal(at(&frame, 450, 500), 0xffff00);
    free(frame.pixels);
    free(tiles);
}

static void test_a_grid_that_is_not_square_keeps_its_shape(void **state)
{
    (void)state;
    struct dashboard dashboard = make_dashboard(NULL, 0);
    uint8_t *tiles = add_tiles(&dashboard, 6, 2, 28, 1);
    struct frame frame = frame_create(1280, 720);
    draw(&dashboard, &frame);
    int left = 1280, right = 0, top = 720, bottom = 0;
    for (int y = 0; y < 720; y++)
        for (int x = 0; x < 1280; x++)
            if (at(&frame, x, y) == 0xc9c9c9) {
                left = x < left ? x : left;
                right = x > right ? x : right;
                top = y < top ? y : top;
                bottom = y > bottom ? y : bottom;
            }
    assert_true(abs((right - left) - 3 * (bottom - top)) < 16);
    assert_true(right - left >
                600); // more than half of the width, for there is no height
    free(frame.pixels);
    free(tiles);
}

static void test_a_wide_grid_leaves_its_plots_room(void **state)
{
    (void)state;
    struct history_point *points = make_points(3000);
    struct dashboard dashboard = make_dashboard(points, 3000);
    uint8_t *tiles = add_tiles(&dashboard, 16, 4, 28, 1);
    struct frame frame = frame_create(1280, 720), over = frame_create(1280, 720);
    draw(&dashboard, &frame);
    assert_true(count_color(&frame, 0xc9c9c9) >= 64 * 56 * 56); // each twice as large
    assert_true(count_color(&frame, COLOR_G) > 600);
    assert_true(count_color(&frame, COLOR_D) > 500);
    // The pointer reads either plot; they stand side by side.
    for (int x = 400; x <= 1000; x += 600) {
        dashboard.hover_x = x;
        dashboard.hover_y = 550;
        draw(&dashboard, &over);
        assert_true(count_changes(&frame, &over) > 8000);
    }
    free(frame.pixels);
    free(over.pixels);
    free(tiles);
    free(points);
}

static void test_a_run_that_diverged_stands_out_in_the_bench_picture(void **state)
{
    (void)state;
    struct history_point *points = make_points(500);
    struct dashboard runs[2] = {make_dashboard(points, 500), make_dashboard(points, 500)};
    char folder[512], path[600];
    long red[2];
    snprintf(folder, sizeof(folder), "%s", make_folder("bench_picture"));
    snprintf(path, sizeof(path), "%s/bench.png", folder);
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            strcpy(runs[1].state, "diverged");
        assert_int_equal(bench_picture_write("a title", runs, 2, path), STATUS_OK);
        red[i] = count_color_in_png(path, COLOR_BAD);
    }
    assert_int_equal(red[0], 0);
    assert_true(red[1] > 2 * (480 + 250)); // a frame around its panel
    remove_folder(folder);
    free(points);
}

static void test_keys_and_notices_stand_in_the_footer(void **state)
{
    (void)state;
    struct dashboard dashboard = make_dashboard(NULL, 0);
    struct frame plain = frame_create(1280, 720), changed = frame_create(1280, 720);
    draw(&dashboard, &plain);
    dashboard.has_keys = 1;
    draw(&dashboard, &changed);
    assert_true(count_changes(&plain, &changed) > 2000);
    dashboard.has_keys = 0;
    strcpy(dashboard.notice, "saving a snapshot after this step");
    draw(&dashboard, &changed);
    for (int y = 0; y < 690; y++)
        for (int x = 0; x < 1280; x++)
            assert_int_equal(at(&plain, x, y), at(&changed, x, y));
    assert_true(count_changes(&plain, &changed) > 300);
    free(plain.pixels);
    free(changed.pixels);
}

/* ---- Files ----------------------------------------------------------------------- */

static void read_png_size(const char *path, unsigned *width, unsigned *height)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&image, path))
        fail_msg("%s: %s", path, image.message);
    *width = image.width;
    *height = image.height;
    png_image_free(&image);
}

static void test_files_have_their_sizes(void **state)
{
    (void)state;
    struct history_point *points = make_points(500);
    const struct dashboard dashboard = make_dashboard(points, 500);
    char folder[512], path[600];
    unsigned width, height;
    snprintf(folder, sizeof(folder), "%s", make_folder("dashboard"));
    snprintf(path, sizeof(path), "%s/preview.png", folder);
    for (int i = 0; i < 2; i++) { // the second time over the first
        assert_int_equal(dashboard_write_png(&dashboard, path), STATUS_OK);
        read_png_size(path, &width, &height);
        assert_int_equal(width, 1280);
        assert_int_equal(height, 720);
    }
    snprintf(path, sizeof(path), "%s/scales.png", folder);
    assert_int_equal(dashboard_write_scales(&dashboard, path), STATUS_OK);
    read_png_size(path, &width, &height);
    assert_int_equal(width, 1000);
    assert_int_equal(height, 420);
    remove_folder(folder);
    free(points);
}

static void test_a_file_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    const struct dashboard dashboard = make_dashboard(NULL, 0);
    char folder[512], path[600];
    snprintf(folder, sizeof(folder), "%s", make_folder("dashboard"));
    snprintf(path, sizeof(path), "%s/absent/preview.png", folder);
    assert_int_equal(dashboard_write_png(&dashboard, path), STATUS_FAILED);
    assert_non_null(strstr(status_message(), path));
    assert_int_equal(dashboard_write_scales(&dashboard, path), STATUS_FAILED);
    assert_non_null(strstr(status_message(), path));
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_curves_are_drawn_in_their_colours),
        cmocka_unit_test(test_norms_and_a_third_scale_are_drawn_where_a_run_has_them),
        cmocka_unit_test(test_every_size_is_filled_and_nothing_lies_outside),
        cmocka_unit_test(test_a_size_of_zero_draws_nothing),
        cmocka_unit_test(
            test_before_the_first_step_there_are_axes_and_words_but_no_curves),
        cmocka_unit_test(test_losses_that_are_not_numbers_are_told_and_do_no_harm),
        cmocka_unit_test(test_facts_that_are_not_numbers_do_no_harm),
        cmocka_unit_test(test_long_and_broken_texts_overlap_nothing),
        cmocka_unit_test(test_two_hundred_thousand_points_are_drawn_in_time),
        cmocka_unit_test(test_a_rollback_is_a_line_in_curves_and_layers),
        cmocka_unit_test(test_the_pointer_near_a_mark_reads_its_note),
        cmocka_unit_test(test_the_read_out_appears_over_the_plots_only),
        cmocka_unit_test(test_a_wide_grid_leaves_its_plots_room),
        cmocka_unit_test(test_a_run_that_diverged_stands_out_in_the_bench_picture),
        cmocka_unit_test(
            test_samples_keep_their_colours_at_every_scale_and_channel_count),
        cmocka_unit_test(test_enlarged_samples_have_sharp_pixels),
        cmocka_unit_test(test_a_grid_that_is_not_square_keeps_its_shape),
        cmocka_unit_test(test_keys_and_notices_stand_in_the_footer),
        cmocka_unit_test(test_files_have_their_sizes),
        cmocka_unit_test(test_a_file_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
