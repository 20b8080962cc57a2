/* What is said of a data set before the training: sizes, channels, how few there are. */
#include "app/input/data_notes.h"

#include <stdio.h>
#include <string.h>

#include "tests/app/data_folder.h"
#include "tests/app/make_png.h"

/* The notes on a data set, a line each; the text is valid until the next call. */
static const char *notes_on(const char *path, struct dataset_options options,
                            struct data_asked asked)
{
    static char text[DATA_NOTES_MAX * 192 + 1];
    struct data_notes notes;
    struct dataset *dataset = opened(path, options);
    asked.channels = options.channels;
    data_notes(dataset, &asked, &notes);
    text[0] = '\0';
    for (int i = 0; i < notes.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", notes.line[i]);
    dataset_close(dataset);
    return text;
}

static const char few[] =
    "2 images are few: a GAN learns so small a set by heart; more "
    "images help, and --mirror where left and right do not matter\n";

static void assert_notes(const char *got, const char *notes)
{
    char want[DATA_NOTES_MAX * 192 + 1];
    snprintf(want, sizeof want, "%s%s", notes, few);
    assert_string_equal(got, want);
}

static void test_images_that_are_resized_are_said_to_be(void **state)
{
    (void)state;
    write_png(in("a.png"), 40, 50, 2, colours);
    write_png(in("b.png"), 40, 50, 2, colours);
    struct data_asked asked = {0};
    assert_notes(notes_on(folder, options_of(32, 0), asked),
                 "their own size is 40 x 50; reduced to 32 x 32\n");
    assert_notes(notes_on(folder, options_of(64, 0), asked),
                 "their own size is 40 x 50; enlarged to 64 x 64\n");
    write_png(in("b.png"), 64, 64, 2, colours);
    assert_notes(notes_on(folder, options_of(64, 0), asked),
                 "of 2 sizes, most often 40 x 50; resized to 64 x 64\n");
    write_png(in("a.png"), 64, 64, 2, colours);
    assert_notes(notes_on(folder, options_of(64, 0), asked), "");
}

static void test_colour_that_is_lost_or_made_up_is_said_to_be(void **state)
{
    (void)state;
    write_png(in("a.png"), 28, 28, 0, grey_40);
    write_png(in("b.png"), 28, 28, 6, half_clear);
    struct data_asked asked = {0};
    assert_notes(notes_on(folder, options_of(28, 0), asked),
                 "1 of 2 is in colour and made grey, as the first one is; --channels 3 "
                 "keeps the colour\n");
    assert_notes(notes_on(folder, options_of(28, 1), asked),
                 "1 of 2 is in colour and made grey; --channels 3 keeps the colour\n");
    assert_notes(notes_on(folder, options_of(28, 3), asked), "");
    write_png(in("b.png"), 28, 28, 0, grey_80);
    assert_notes(notes_on(folder, options_of(28, 3), asked),
                 "all are grey and trained as RGB; --channels 1 takes less time\n");
}

static void test_a_presets_channels_that_do_not_count_are_said(void **state)
{
    (void)state;
    write_png(in("a.png"), 28, 28, 2, colours);
    write_png(in("b.png"), 28, 28, 2, colours);
    struct data_asked asked = {.preset_channels = 1};
    assert_notes(notes_on(folder, options_of(28, 0), asked),
                 "3 channels, as the data has; the preset's 1 is for other data "
                 "(--channels 1 takes it)\n");
    asked.preset_channels = 3;
    assert_notes(notes_on(folder, options_of(28, 0), asked), "");
}

static void test_few_images_are_said_to_be_few(void **state)
{
    (void)state;
    write_png(in("a.png"), 28, 28, 2, colours);
    struct data_asked asked = {.mirror = 1};
    assert_string_equal(
        notes_on(folder, options_of(28, 0), asked),
        "1 image is few: a GAN learns so small a set by heart; more images "
        "help\n");
    assert_string_equal(notes_on("builtin:fashion", options_of(28, 0), asked), "");
}

static void test_small_images_of_one_size_keep_it_unless_told_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int resolution;
    } rows[] = {{"builtin:fashion", 28}, {"builtin:shapes", 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dataset *dataset = opened(rows[i].path, options_of(0, 0));
        assert_int_equal(dataset->resolution, rows[i].resolution);
        dataset_close(dataset);
    }
    static const int sides[][3] = {
        {32, 32, 32}, {28, 28, 28}, {32, 28, 64}, {33, 33, 64}, {128, 128, 64}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        write_png(in("a.png"), sides[i][0], sides[i][0], 2, colours);
        write_png(in("b.png"), sides[i][1], sides[i][1], 2, colours);
        struct dataset *dataset = opened(folder, options_of(0, 0));
        assert_int_equal(dataset->resolution, sides[i][2]);
        assert_int_equal(dataset->count, 2);
        dataset_close(dataset);
    }
    // The same pixels as where the size is given.
    struct dataset *one = opened("builtin:fashion", options_of(0, 0));
    struct dataset *other = opened("builtin:fashion", options_of(28, 0));
    assert_true(one->digest == other->digest);
    dataset_close(one);
    dataset_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_images_that_are_resized_are_said_to_be),
        DATA_TEST(test_colour_that_is_lost_or_made_up_is_said_to_be),
        DATA_TEST(test_a_presets_channels_that_do_not_count_are_said),
        DATA_TEST(test_few_images_are_said_to_be_few),
        DATA_TEST(test_small_images_of_one_size_keep_it_unless_told_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
