/* test_plot.c - axes, marks on their curves, text that stays within its room. */
#include "app/view/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/view/axes.h"
#include "tests/support/support.h"

enum { WIDTH = 700, HEIGHT = 320 };

#define COLOR_G 0x40b8fau
#define COLOR_D 0xfa8c33u
#define COLOR_D_FAKE 0xe08fc6u

/* A black canvas in memory, scale 1. */
struct paper {
    struct canvas canvas;
    cairo_surface_t *surface;
    const uint32_t *pixels;
};

static int setup(void **state)
{
    struct paper *paper = calloc(1, sizeof(*paper));
    paper->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    paper->canvas.cairo = cairo_create(paper->surface);
    paper->canvas.scale = 1.0;
    paper->canvas.width = WIDTH;
    paper->canvas.height = HEIGHT;
    *state = paper;
    return 0;
}

static int teardown(void **state)
{
    struct paper *paper = *state;
    cairo_destroy(paper->canvas.cairo);
    cairo_surface_destroy(paper->surface);
    free(paper);
    return 0;
}

static uint32_t pixel(struct paper *paper, double x, double y)
{
    cairo_surface_flush(paper->surface);
    paper->pixels =
        (const uint32_t *)(const void *)cairo_image_surface_get_data(paper->surface);
    return paper->pixels[(int)y * WIDTH + (int)x] & 0xffffff;
}

/* A line two pixels wide covers at least one pixel row whole, whatever its place. */
static int has_line(struct paper *paper, double x, double y, uint32_t color)
{
    return pixel(paper, x, y - 1.0) == color || pixel(paper, x, y) == color ||
           pixel(paper, x, y + 1.0) == color;
}

static int is_dark(uint32_t color)
{
    return (color >> 16 & 255) < 90 && (color >> 8 & 255) < 90 && (color & 255) < 90;
}

static void test_a_log2_axis_reaches_beyond_its_curve_and_below_one(void **state)
{
    (void)state;
    const double cases[][2] = {{16, 16}, {-3, 16}, {-140, 120}, {0, 1}, {5.5, 5.5}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct axis axis = axis_of_scales(cases[i][0], cases[i][1], NAN);
        assert_true(axis.low < cases[i][0] && axis.high > cases[i][1]);
        assert_true(axis.high - axis.low >= 4.0);
        assert_true(axis.step >= 1.0 && axis.step == floor(axis.step));
        assert_true((axis.high - axis.low) / axis.step <= 10.0);
    }
    char text[32];
    const struct axis axis = axis_of_scales(-3, 16, NAN);
    assert_string_equal(axis_label(&axis, -4.0, text, sizeof(text)), "2^-4");
    const struct axis none = axis_of_scales(NAN, NAN, 10.0);
    assert_true(none.low < 10.0 && none.high > 10.0);
}

static void test_value_axes_have_few_round_ticks_and_never_a_step_of_zero(void **state)
{
    (void)state;
    const double cases[][2] = {{0, 0},       {1, 1},         {0.9, 1.1},  {-3, 5},
                               {1e-7, 2e-7}, {1e30, 1e30},   {1e6, 1e12}, {-1e-30, 0},
                               {3e4, 3e4},   {-700.5, -700}, {0, 1e-30}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct axis axis = axis_of_values(cases[i][0], cases[i][1], 6);
        assert_true(axis.low <= cases[i][0] && axis.high >= cases[i][1]);
        assert_true(axis.high > axis.low);
        assert_true(axis.step > 0.0);
        const double count = (axis.high - axis.low) / axis.step;
        assert_true(count >= 2.0 && count <= 6.5);
        const double digit = axis.step / pow(10.0, floor(log10(axis.step) + 1e-9));
        assert_true(fabs(digit - 1.0) < 1e-6 || fabs(digit - 2.0) < 1e-6 ||
                    fabs(digit - 5.0) < 1e-6);
    }
}

static void test_labels_tell_their_numbers(void **state)
{
    (void)state;
    char text[48];
    const struct axis tenths = axis_exact(0.0, 1.0, 6),
                      thousands = axis_exact(0, 50000, 6);
    assert_string_equal(axis_label(&tenths, 0.2, text, sizeof(text)), "0.2");
    assert_string_equal(axis_label(&tenths, 1e-17, text, sizeof(text)), "0");
    assert_string_equal(axis_label(&thousands, 20000, text, sizeof(text)), "20,000");
    assert_string_equal(grouped_number(-1234567.0, 0, text, sizeof(text)), "\xe2\x88\x92"
                                                                           "1,234,567");
    assert_string_equal(grouped_number(999.0, 0, text, sizeof(text)), "999");
    assert_string_equal(grouped_number(NAN, 0, text, sizeof(text)), "?");
    assert_string_equal(kimg_text(0.064, text, sizeof(text)), "0.06");
    assert_string_equal(kimg_text(48.0, text, sizeof(text)), "48.0");
    assert_string_equal(kimg_text(1204.4, text, sizeof(text)), "1,204");
}

/* G holds 2^16 and falls to 2^15 at half time; D holds 2^10 and falls to 2^9 at a
 * quarter. */
static void make_points(struct history_point *points, int count)
{
    for (int i = 0; i < count; i++) {
        points[i] = (struct history_point){.step = i + 1, .kimg = i + 1, .loss = {2, 1}};
        points[i].scale[ROLE_G] = 2 * (i + 1) >= count ? 32768.0f : 65536.0f;
        points[i].scale[ROLE_D] = 4 * (i + 1) >= count ? 512.0f : 1024.0f;
        points[i].skipped[ROLE_G] = 2 * (i + 1) == count;
        points[i].skipped[ROLE_D] = 4 * (i + 1) == count;
        points[i].changed[ROLE_D] = 8 * (i + 1) == 7 * count;
    }
}

static void test_each_curve_and_each_skip_stands_where_its_numbers_are(void **state)
{
    struct paper *paper = *state;
    enum { N = 400 };
    static struct history_point points[N];
    make_points(points, N);
    const struct dashboard dashboard = {.points = points, .point_count = N};
    const struct area panel = {0, 0, WIDTH, HEIGHT}, inner = plot_inner(panel, 1);
    struct series series;
    assert_int_equal(
        series_create(&series, points, N, plot_columns(&paper->canvas, inner.w), 7.0), 1);
    plot_scales(&paper->canvas, &dashboard, &series, panel, 1);
    const struct axis y = axis_of_scales(series.scale_low, series.scale_high, NAN);
    const struct axis x = axis_exact(series.kimg_low, series.kimg_high, 7);

    assert_true(
        has_line(paper, axis_x(&x, inner, 100.0), axis_y(&y, inner, 16.0), COLOR_G));
    assert_true(
        has_line(paper, axis_x(&x, inner, 300.0), axis_y(&y, inner, 15.0), COLOR_G));
    // D is dashed: its colour and gaps alternate along the line.
    int dashes = 0, gaps = 0;
    for (double kimg = 150.0; kimg < 350.0; kimg += 0.5) {
        const double px = axis_x(&x, inner, kimg), py = axis_y(&y, inner, 9.0);
        dashes += has_line(paper, px, py, COLOR_D);
        gaps += is_dark(pixel(paper, px, py));
    }
    assert_true(dashes > 50 && gaps > 20);
    // The middle of a triangle lies above its tip; beside the vertical line it is mark
    // only.
    assert_int_equal(
        pixel(paper, axis_x(&x, inner, 200.0) - 2.0, axis_y(&y, inner, 15.0) - 6.0),
        COLOR_G);
    assert_int_equal(
        pixel(paper, axis_x(&x, inner, 100.0) - 2.0, axis_y(&y, inner, 9.0) - 4.5),
        COLOR_D);
    // A change of D's settings: a line through the panel, a square at its foot.
    const double change_x = axis_x(&x, inner, 350.0), foot = inner.y + inner.h;
    assert_int_equal(pixel(paper, change_x - 2.0, foot - 11.0), COLOR_D);
    assert_true(is_dark(pixel(paper, change_x - 2.0, foot - 4.0))); // G's place
    assert_true(!is_dark(pixel(paper, change_x, inner.y + 20.0)));
    assert_true(is_dark(pixel(paper, change_x - 20.0, inner.y + 20.0)));
    // Nothing there without a skip.
    assert_true(is_dark(
        pixel(paper, axis_x(&x, inner, 300.0) - 2.0, axis_y(&y, inner, 15.0) - 6.0)));
    series_release(&series);
}

static void test_a_third_scale_and_held_steps_stand_where_their_numbers_are(void **state)
{
    struct paper *paper = *state;
    enum { N = 400 };
    static struct history_point points[N];
    make_points(points, N);
    for (int i = 0; i < N; i++)
        points[i].scale[SCALE_D_FAKE] = i < 199 ? 4096.0f : 2048.0f;
    points[199].skipped[SCALE_D_FAKE] = 1;
    points[299].held[ROLE_G] = 1;
    const struct dashboard dashboard = {.points = points,
                                        .point_count = N,
                                        .scale = {32768.0f, 512.0f, 2048.0f},
                                        .held = {1, 0}};
    const struct area panel = {0, 0, WIDTH, HEIGHT};
    const struct area inner = plot_inner_of_scales(&dashboard, panel, 1);
    assert_true(inner.y > plot_inner(panel, 1).y); // a third row in the legend
    struct series series;
    assert_int_equal(
        series_create(&series, points, N, plot_columns(&paper->canvas, inner.w), 7.0), 1);
    plot_scales(&paper->canvas, &dashboard, &series, panel, 1);
    const struct axis y = axis_of_scales(series.scale_low, series.scale_high, NAN);
    const struct axis x = axis_exact(series.kimg_low, series.kimg_high, 7);
    int dots = 0, gaps = 0;
    for (double kimg = 230.0; kimg < 380.0; kimg += 0.5) {
        const double px = axis_x(&x, inner, kimg), py = axis_y(&y, inner, 11.0);
        dots += has_line(paper, px, py, COLOR_D_FAKE);
        gaps += is_dark(pixel(paper, px, py));
    }
    assert_true(dots > 30 && gaps > 30);
    assert_int_equal(
        pixel(paper, axis_x(&x, inner, 200.0) - 2.0, axis_y(&y, inner, 11.0) - 4.5),
        COLOR_D_FAKE);
    // A ring on G's curve: hollow, and higher than the curve is thick.
    const double ring_x = axis_x(&x, inner, 300.0), ring_y = axis_y(&y, inner, 15.0);
    assert_true(is_dark(pixel(paper, ring_x, ring_y)));
    assert_true(has_line(paper, ring_x, ring_y - 3.4, COLOR_G));
    assert_true(has_line(paper, ring_x + 20.0, ring_y, COLOR_G));
    assert_true(is_dark(pixel(paper, ring_x + 20.0, ring_y - 3.4)));
    series_release(&series);
}

static void test_norms_have_their_limit_and_a_mark_where_they_were_clipped(void **state)
{
    struct paper *paper = *state;
    enum { N = 400 };
    static struct history_point points[N];
    make_points(points, N);
    for (int i = 0; i < N; i++) {
        points[i].grad_norm[ROLE_G] = i < 200 ? 2.0f : 16.0f;
        points[i].clipped[ROLE_G] = i >= 200;
    }
    const struct dashboard dashboard = {
        .points = points, .point_count = N, .clip_norm = {4.0f, 0.0f}};
    assert_true(plot_has_norms(&dashboard));
    const struct area panel = {0, 0, WIDTH, HEIGHT}, inner = plot_inner(panel, 1);
    struct series series;
    assert_int_equal(
        series_create(&series, points, N, plot_columns(&paper->canvas, inner.w), 7.0), 1);
    plot_norms(&paper->canvas, &dashboard, &series, panel, 1);
    const struct axis x = axis_exact(series.kimg_low, series.kimg_high, 7);
    const double early = axis_x(&x, inner, 100.0), late = axis_x(&x, inner, 300.0);
    // From the top: the norms of the second half, the limit, those of the first half.
    int rows[3] = {0}, found = 0;
    for (int row = (int)inner.y; row < (int)(inner.y + inner.h) - 6 && found < 3; row++) {
        const double at = found == 0 ? late : early;
        if (!is_dark(pixel(paper, at, row))) {
            rows[found++] = row;
            row += 4;
        }
    }
    assert_int_equal(found, 3);
    // 16, 4 and 2 on a log2 axis: two steps to the limit, one beyond.
    assert_true(abs((rows[1] - rows[0]) - 2 * (rows[2] - rows[1])) <= 4);
    const double foot = inner.y + inner.h - 2.0;
    int marks[2] = {0};
    for (int i = -10; i <= 10; i++) {
        marks[0] += pixel(paper, early + i, foot) == COLOR_G;
        marks[1] += pixel(paper, late + i, foot) == COLOR_G;
    }
    assert_int_equal(marks[0], 0);
    assert_true(marks[1] > 10);
    series_release(&series);
}

static void test_losses_break_off_where_they_are_not_numbers(void **state)
{
    struct paper *paper = *state;
    enum { N = 400 };
    static struct history_point points[N];
    make_points(points, N);
    for (int i = 159; i < 240; i++)
        points[i].loss[ROLE_G] = NAN;
    const struct dashboard dashboard = {.points = points, .point_count = N};
    const struct area panel = {0, 0, WIDTH, HEIGHT}, inner = plot_inner(panel, 1);
    struct series series;
    assert_int_equal(
        series_create(&series, points, N, plot_columns(&paper->canvas, inner.w), 7.0), 1);
    plot_losses(&paper->canvas, &dashboard, &series, panel, 1);
    const struct axis y =
        axis_of_values(series.loss_low, series.loss_high, inner.h > 150.0 ? 6 : 4);
    const struct axis x = axis_exact(series.kimg_low, series.kimg_high, 7);
    const double row = axis_y(&y, inner, 2.0);
    assert_true(has_line(paper, axis_x(&x, inner, 90.0), row, COLOR_G));
    assert_true(has_line(paper, axis_x(&x, inner, 330.0), row, COLOR_G));
    assert_true(is_dark(pixel(paper, axis_x(&x, inner, 190.0), row)));
    series_release(&series);
}

/* The right end of what is drawn in the rows of a line of text; -1 when nothing is. */
static int right_end(struct paper *paper)
{
    for (int x = WIDTH - 1; x >= 0; x--)
        for (int y = 0; y < HEIGHT; y++)
            if (pixel(paper, x, y) != 0)
                return x;
    return -1;
}

static double luminance(uint32_t color)
{
    static const double weights[] = {0.2126, 0.7152, 0.0722}; // WCAG 2
    double sum = 0.0;
    for (int i = 0; i < 3; i++) {
        const double part = (color >> (16 - 8 * i) & 255) / 255.0;
        sum += weights[i] *
               (part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static void test_words_can_be_read_on_every_ground(void **state)
{
    (void)state;
    static const enum ink words[] = {INK_TEXT,   INK_MUTED, INK_FAINT, INK_G,  INK_D,
                                     INK_D_FAKE, INK_GOOD,  INK_WAIT,  INK_BAD};
    static const enum ink grounds[] = {INK_BACKGROUND, INK_PANEL, INK_RAISED};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t g = 0; g < sizeof grounds / sizeof *grounds; g++) {
            const double ratio = (luminance(ink_color(words[w])) + 0.05) /
                                 (luminance(ink_color(grounds[g])) + 0.05);
            if (ratio < 4.5)
                fail_msg("ink %d on %d: %.2f:1, at least 4.5:1 is wanted", words[w],
                         grounds[g], ratio);
        }
}

// What is drawn for `path` in `room` units is `shown`, or nothing for NULL.
static void expect_path(struct paper *paper, const char *path, double room,
                        const char *shown)
{
    const struct text_style style = {14.0, 0, INK_TEXT};
    static uint32_t drawn[WIDTH * HEIGHT];
    for (int i = 0; i < 2; i++) {
        cairo_set_source_rgb(paper->canvas.cairo, 0, 0, 0);
        cairo_paint(paper->canvas.cairo);
        if (i == 0)
            canvas_path_fit(&paper->canvas, 5.0, 30.0, room, style, path);
        else if (shown)
            canvas_text(&paper->canvas, 5.0, 30.0, ALIGN_LEFT, style, shown);
        pixel(paper, 0, 0);
        if (i == 0)
            memcpy(drawn, paper->pixels, sizeof(drawn));
    }
    if (memcmp(drawn, paper->pixels, sizeof(drawn)) != 0)
        fail_msg("%s in %.1f units is not shown as %s", path, room, shown);
}

static void test_a_path_loses_its_folders_then_its_middle(void **state)
{
    struct paper *paper = *state;
    const struct text_style style = {14.0, 0, INK_TEXT};
    static const char path[] = "runs/00003-fashion-b64";
    static const char *const shown[] = {path, "\xe2\x80\xa6/00003-fashion-b64",
                                        "00003-fashion-b64", "00003\xe2\x80\xa6-b64"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        expect_path(paper, path,
                    canvas_text_width(&paper->canvas, style, shown[i]) + 0.01, shown[i]);
    expect_path(paper, path, 40.0, NULL); // a few letters are no name
}

static void test_text_stays_within_its_room(void **state)
{
    struct paper *paper = *state;
    const struct text_style style = {14.0, 1, INK_TEXT};
    const char *const texts[] = {
        "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
        "caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9",
        "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "short", ""};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (double room = 0.0; room < 120.0; room += 7.0) {
            cairo_set_source_rgb(paper->canvas.cairo, 0, 0, 0);
            cairo_paint(paper->canvas.cairo);
            const double from_start =
                canvas_text_fit(&paper->canvas, 10.0, 30.0, room, style, texts[i]);
            const double from_end =
                canvas_path_fit(&paper->canvas, 10.0, 70.0, room, style, texts[i]);
            assert_true(from_start <= room && from_end <= room);
            assert_true(right_end(paper) <= 10.0 + room + 1.0);
        }
    const double whole = canvas_text_width(&paper->canvas, style, "short");
    assert_true(fabs(canvas_text_fit(&paper->canvas, 0, 20, whole + 1.0, style, "short") -
                     whole) < 1e-6);
}

static void test_bytes_that_are_not_utf8_do_not_stop_the_drawing(void **state)
{
    struct paper *paper = *state;
    const struct text_style style = {14.0, 0, INK_TEXT};
    const char *const cases[][2] = {
        {"a\xff\x62", "a?b"},    {"caf\xc3", "caf?"}, {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\xed\xa0\x80", "???"}, {"\xc0\xaf", "??"},  {"\xf4\x90\x80\x80", "????"},
        {"tab\tend", "tab?end"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[32];
        text_to_utf8(cases[i][0], text, sizeof(text));
        assert_string_equal(text, cases[i][1]);
        canvas_text(&paper->canvas, 10.0, 30.0, ALIGN_LEFT, style, cases[i][0]);
        assert_int_equal(cairo_status(paper->canvas.cairo), CAIRO_STATUS_SUCCESS);
    }
    char small[5]; // no room for the second half of a character
    text_to_utf8("abc\xc3\xa9", small, sizeof(small));
    assert_string_equal(small, "abc");
}

static void test_an_exponent_is_raised_and_plain_text_is_not(void **state)
{
    struct paper *paper = *state;
    const struct text_style style = {14.0, 0, INK_TEXT};
    const double power =
        canvas_power(&paper->canvas, 10.0, 30.0, ALIGN_LEFT, style, "2^16");
    assert_true(power < canvas_text_width(&paper->canvas, style, "2^16"));
    assert_true(
        fabs(canvas_power(&paper->canvas, 10.0, 60.0, ALIGN_LEFT, style, "1e-06") -
             canvas_text_width(&paper->canvas, style, "1e-06")) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_log2_axis_reaches_beyond_its_curve_and_below_one),
        cmocka_unit_test(test_value_axes_have_few_round_ticks_and_never_a_step_of_zero),
        cmocka_unit_test(test_labels_tell_their_numbers),
        cmocka_unit_test_setup_teardown(
            test_each_curve_and_each_skip_stands_where_its_numbers_are, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_third_scale_and_held_steps_stand_where_their_numbers_are, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            test_norms_have_their_limit_and_a_mark_where_they_were_clipped, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_losses_break_off_where_they_are_not_numbers,
                                        setup, teardown),
        cmocka_unit_test(test_words_can_be_read_on_every_ground),
        cmocka_unit_test_setup_teardown(test_a_path_loses_its_folders_then_its_middle,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_stays_within_its_room, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_bytes_that_are_not_utf8_do_not_stop_the_drawing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_exponent_is_raised_and_plain_text_is_not,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
