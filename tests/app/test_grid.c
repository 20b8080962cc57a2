/* test_grid.c - tiles in their places, words in the file, and no half a file ever. */
#include "app/view/grid.h"

#include <dirent.h>
#include <png.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/support.h"

/* A PNG as it is read back. */
struct loaded {
    int width, height, channels;
    uint8_t *pixels;
    int text_count;
    char keys[4][80], texts[4][256];
    int is_utf8[4]; // an iTXt chunk; tEXt is Latin-1
};

static void load(const char *path, struct loaded *loaded)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_read_png(png, info, PNG_TRANSFORM_IDENTITY, NULL);
    loaded->width = (int)png_get_image_width(png, info);
    loaded->height = (int)png_get_image_height(png, info);
    loaded->channels = png_get_channels(png, info);
    const size_t row_bytes = png_get_rowbytes(png, info);
    loaded->pixels = malloc(row_bytes * (size_t)loaded->height);
    png_bytepp rows = png_get_rows(png, info);
    for (int y = 0; y < loaded->height; y++)
        memcpy(loaded->pixels + (size_t)y * row_bytes, rows[y], row_bytes);
    png_textp texts;
    png_get_text(png, info, &texts, &loaded->text_count);
    assert_true(loaded->text_count <= 4);
    for (int i = 0; i < loaded->text_count; i++) {
        snprintf(loaded->keys[i], sizeof(loaded->keys[i]), "%s", texts[i].key);
        snprintf(loaded->texts[i], sizeof(loaded->texts[i]), "%s", texts[i].text);
        loaded->is_utf8[i] = texts[i].compression >= PNG_ITXT_COMPRESSION_NONE;
    }
    png_destroy_read_struct(&png, &info, NULL);
    fclose(file);
}

/* A value that tells tile, place and channel; never 0, the background. */
static uint8_t value_of(int tile, int y, int x, int c)
{
    return (uint8_t)(1 + (tile * 37 + y * 11 + x * 5 + c * 3) % 255);
}

static uint8_t *make_tiles(int count, int h, int w, int channels)
{
    uint8_t *tiles = malloc((size_t)count * (size_t)h * (size_t)w * (size_t)channels);
    uint8_t *p = tiles;
    for (int i = 0; i < count; i++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int c = 0; c < channels; c++)
                    *p++ = value_of(i, y, x, c);
    return tiles;
}

static int entries_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

struct fixture {
    char folder[512], path[600];
    struct grid grid;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    snprintf(fixture->folder, sizeof(fixture->folder), "%s", make_folder("grid"));
    snprintf(fixture->path, sizeof(fixture->path), "%s/grid.png", fixture->folder);
    fixture->grid = (struct grid){.pixels = make_tiles(9, 5, 4, 3),
                                  .count = 9,
                                  .h = 5,
                                  .w = 4,
                                  .channels = 3,
                                  .columns = 4};
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    remove_folder(fixture->folder);
    free((void *)fixture->grid.pixels);
    free(fixture);
    return 0;
}

/* What must be at (x, y) of a grid of w x h tiles, two pixels apart. */
static uint8_t expected_at(int count, int columns, int w, int h, int x, int y, int c)
{
    const int column = x / (w + 2), row = y / (h + 2);
    const int inside_x = x % (w + 2), inside_y = y % (h + 2);
    const int tile = row * columns + column;
    if (inside_x >= w || inside_y >= h || tile >= count)
        return 0;
    return value_of(tile, inside_y, inside_x, c);
}

static void check_layout(const struct fixture *fixture, int count, int channels)
{
    const int w = 4, h = 3, columns = count < 8 ? count : 8;
    const int rows = (count + columns - 1) / columns;
    uint8_t *tiles = make_tiles(count, h, w, channels);
    const struct grid grid = {.pixels = tiles,
                              .count = count,
                              .h = h,
                              .w = w,
                              .channels = channels,
                              .columns = 8};
    struct loaded loaded = {0};
    assert_int_equal(grid_write(&grid, fixture->path, 1), STATUS_OK);
    load(fixture->path, &loaded);
    assert_int_equal(loaded.channels, channels);
    assert_int_equal(loaded.width, columns * w + (columns - 1) * 2);
    assert_int_equal(loaded.height, rows * h + (rows - 1) * 2);
    const uint8_t *p = loaded.pixels;
    for (int y = 0; y < loaded.height; y++)
        for (int x = 0; x < loaded.width; x++)
            for (int c = 0; c < channels; c++, p++)
                if (*p != expected_at(count, columns, w, h, x, y, c))
                    fail_msg("%d tiles of %d channels: pixel (%d, %d) channel %d is %d, "
                             "expected %d",
                             count, channels, x, y, c, *p,
                             expected_at(count, columns, w, h, x, y, c));
    free(loaded.pixels);
    free(tiles);
}

static void test_every_count_fills_rows_from_the_top_left(void **state)
{
    const int counts[] = {1, 5, 7, 8, 32, 33};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (int channels = 1; channels <= 4; channels++)
            check_layout(*state, counts[i], channels);
}

static void test_texts_are_read_back_as_they_were_given(void **state)
{
    struct fixture *fixture = *state;
    const struct png_text texts[] = {{"seeds", "0-8"},
                                     {"kimg", "48.0"},
                                     {"data", "photos/caf\xc3\xa9 \xe2\x80\x93 4"}};
    fixture->grid.texts = texts;
    fixture->grid.text_count = 3;
    struct loaded loaded = {0};
    assert_int_equal(grid_write(&fixture->grid, fixture->path, 0), STATUS_OK);
    load(fixture->path, &loaded);
    assert_int_equal(loaded.text_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(loaded.keys[i], texts[i].keyword);
        assert_string_equal(loaded.texts[i], texts[i].text);
        assert_int_equal(loaded.is_utf8[i], i == 2);
    }
    free(loaded.pixels);
}

static void test_an_existing_file_is_kept_unless_overwriting_is_asked_for(void **state)
{
    struct fixture *fixture = *state;
    FILE *file = fopen(fixture->path, "w");
    fputs("precious", file);
    fclose(file);

    assert_int_equal(grid_write(&fixture->grid, fixture->path, 0), STATUS_USAGE);
    assert_non_null(strstr(status_message(), fixture->path));
    assert_non_null(strstr(status_message(), "exists already"));
    char kept[16] = "";
    file = fopen(fixture->path, "r");
    assert_non_null(fgets(kept, sizeof(kept), file));
    fclose(file);
    assert_string_equal(kept, "precious");

    assert_int_equal(grid_write(&fixture->grid, fixture->path, 1), STATUS_OK);
    struct loaded loaded = {0};
    load(fixture->path, &loaded);
    assert_int_equal(loaded.width, 4 * 4 + 3 * 2);
    free(loaded.pixels);
    assert_int_equal(entries_in(fixture->folder), 1);
}

static void expect_failure(const struct grid *grid, const char *path, const char *reason)
{
    assert_int_equal(grid_write(grid, path, 1), STATUS_FAILED);
    if (!strstr(status_message(), path) || !strstr(status_message(), reason))
        fail_msg("the sentence should name '%s' and '%s': %s", path, reason,
                 status_message());
}

static void test_a_missing_folder_is_named_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    char path[700];
    snprintf(path, sizeof(path), "%s/absent/grid.png", fixture->folder);
    expect_failure(&fixture->grid, path, "No such file or directory");
}

static void test_a_folder_without_permission_is_named_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    const int is_root = geteuid() == 0; // root may write anywhere: be somebody else
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    const enum status status = grid_write(&fixture->grid, fixture->path, 1);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(fixture->folder, 0755), 0);
    assert_int_equal(status, STATUS_FAILED);
    assert_non_null(strstr(status_message(), fixture->path));
    assert_non_null(strstr(status_message(), "Permission denied"));
    assert_int_equal(entries_in(fixture->folder), 0);
}

static void test_a_device_is_never_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct stat found;
    expect_failure(&fixture->grid, "/dev/full", "/dev/full");
    assert_int_equal(stat("/dev/full", &found), 0);
    assert_true(S_ISCHR(found.st_mode));
}

/* A limit on file sizes stands in for a disk that is full: write() fails in the same
 * place. */
static void
test_a_disk_that_is_full_leaves_the_older_picture_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(grid_write(&fixture->grid, fixture->path, 0), STATUS_OK);
    const int side = 400;
    uint8_t *noise = malloc((size_t)side * (size_t)side);
    uint32_t random = 1;
    for (int i = 0; i < side * side; i++) {
        random = random * 1664525u + 1013904223u;
        noise[i] = (uint8_t)(random >> 24);
    }
    const struct grid large = {
        .pixels = noise, .count = 1, .h = side, .w = side, .channels = 1, .columns = 1};
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    const struct rlimit tight = {20000, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const enum status status = grid_write(&large, fixture->path, 1);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    free(noise);

    assert_int_equal(status, STATUS_FAILED);
    assert_non_null(strstr(status_message(), fixture->path));
    assert_non_null(strstr(status_message(), "File too large"));
    assert_int_equal(entries_in(fixture->folder), 1);
    struct loaded loaded = {0};
    load(fixture->path, &loaded);
    assert_int_equal(loaded.width, 4 * 4 + 3 * 2);
    free(loaded.pixels);
}

static void test_a_picture_too_wide_for_png_is_refused_and_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    const int width = 1000001; // libpng stops at a million
    uint8_t *row = calloc((size_t)width, 1);
    assert_int_equal(png_write(fixture->path, row, width, 1, 1, NULL, 0), STATUS_FAILED);
    free(row);
    assert_non_null(strstr(status_message(), fixture->path));
    assert_non_null(strstr(status_message(), "1000001x1"));
    assert_int_equal(entries_in(fixture->folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_count_fills_rows_from_the_top_left,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_texts_are_read_back_as_they_were_given,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_an_existing_file_is_kept_unless_overwriting_is_asked_for, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_a_missing_folder_is_named_with_the_reason,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_folder_without_permission_is_named_with_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_device_is_never_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_disk_that_is_full_leaves_the_older_picture_and_nothing_else, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            test_a_picture_too_wide_for_png_is_refused_and_leaves_nothing, setup,
            teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
