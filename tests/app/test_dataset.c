#include "tests/app/data_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/app/make_png.h"

static void test_a_folder_is_read_in_the_order_of_its_paths(void **state)
{
    (void)state;
    fill_folder();
    struct dataset *dataset = opened(folder, options_of(28, 0));
    static const char *const files[] = {"b.no_extension", "b/deep/two.Png", "b/one.png",
                                        "c.PNG"};
    assert_int_equal(dataset->count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(dataset->files[i], in(files[i]));
    assert_int_equal(dataset->channels, 1); // those of the first image
    assert_int_equal(dataset->pixels[0], 40);
    assert_int_equal(dataset->pixels[3 * 28 * 28], 80);
    assert_int_equal(dataset->passed_over, 2); // labels.txt, z-link.txt
    assert_int_equal(dataset->with_channels[1], 2);
    assert_int_equal(dataset->with_channels[3], 1);
    assert_int_equal(dataset->with_channels[4], 1);
    assert_int_equal(dataset->size_count, 2);
    assert_int_equal(dataset->sizes[0].count, 3);
    assert_int_equal(dataset->sizes[1].height, 40);
    dataset_close(dataset);
}

static void test_every_unusable_file_is_named_with_its_reason(void **state)
{
    (void)state;
    fill_folder();
    static const char *const rejects[][2] = {
        {"a.jpg", "JPEG is not read by this version; convert it to PNG"},
        {"b/page.png", "not a picture: it begins with the bytes 3c 68 74 6d"},
        {"b/photo", "WebP is not read by this version; convert it to PNG"},
        {"empty.png", "the file is empty"},
        {"z-link.png", "cannot be opened: No such file or directory"},
    };
    struct dataset *dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->reject_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(dataset->rejects[i].path, in(rejects[i][0]));
        assert_string_equal(dataset->rejects[i].reason, rejects[i][1]);
    }
    dataset_close(dataset);
}

static void test_a_png_cut_short_is_named_and_the_rest_is_used(void **state)
{
    (void)state;
    write_png(in("a.png"), 28, 28, 0, grey_40);
    write_png(in("b.png"), 28, 28, 0, grey_80);
    assert_int_equal(truncate(in("a.png"), 500), 0);
    struct dataset *dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->count, 1);
    assert_int_equal(dataset->pixels[0], 80);
    assert_int_equal(dataset->reject_count, 1);
    assert_string_equal(dataset->rejects[0].reason, "damaged PNG (the file ends early)");
    dataset_close(dataset);
}

static void test_other_content_under_an_image_name_is_told_apart(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(1, 2, 2, &size);
    write_file(in("a.png"), idx, size);
    free(idx);
    write_file(in("b.png"), "\x1f\x8b\x08\0", 4);
    write_file(in("c.png"), "PK\3\4", 4);
    write_file(in("d.png"), "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(truncate(in("d.png"), INT64_C(2) << 30), 0); // a hole, not 2 GB
    write_png(in("e.png"), 28, 28, 0, grey_40);
    static const char *const reasons[] = {
        "an IDX file, not a picture; name it alone to use it",
        "gzip data, not a picture; unpack it",
        "zip data, not a picture; unpack it",
        "has 2048 MB, more than 1024 MB",
    };
    struct dataset *dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->count, 1);
    assert_int_equal(dataset->reject_count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(dataset->rejects[i].reason, reasons[i]);
    dataset_close(dataset);
}

static void test_a_folder_that_may_not_be_read_is_named(void **state)
{
    (void)state;
    write_png(in("z.png"), 28, 28, 0, grey_40);
    assert_int_equal(mkdir(in("secret"), 0700), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    // Root may read everything: be nobody meanwhile.
    int is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    else
        assert_int_equal(chmod(in("secret"), 0), 0);
    struct dataset *dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->count, 1);
    assert_int_equal(dataset->reject_count, 1);
    assert_string_equal(dataset->rejects[0].path, in("secret"));
    assert_string_equal(dataset->rejects[0].reason,
                        "the folder cannot be read: Permission denied");
    dataset_close(dataset);
    expect_data_error(in("secret"), "the folder cannot be read: Permission denied");
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

/* A PNG that takes long to be read and then turns out to be cut short. */
static void write_slow_reject(const char *path)
{
    write_png(path, 1500, 1500, 2, colours);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 1), 0);
}

static void test_strict_stops_at_the_first_path_whatever_the_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "%03d.png", i);
        write_png(in(name), 28, 28, 0, grey_40);
    }
    struct dataset_options options = options_of(28, 0);
    options.strict = 1;
    // The later file is found out first, then last, then before the earlier one is begun.
    for (int order = 0; order <= 2; order++) {
        write_file(in("038.png"), "text", 4);
        write_file(in("041.png"), "text", 4);
        if (order == 2)
            write_png(in("037.png"), 1500, 1500, 2, colours);
        else
            write_slow_reject(in(order == 0 ? "038.png" : "041.png"));
        for (options.threads = 1; options.threads <= 8; options.threads++) {
            struct dataset *dataset;
            assert_int_equal(dataset_open(folder, &options, &dataset), STATUS_DATA);
            assert_null(dataset);
            assert_non_null(strstr(status_message(), "038.png: "));
            assert_non_null(strstr(status_message(), "without --strict"));
        }
    }
    struct dataset *dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->count, 98);
    dataset_close(dataset);
}

static unsigned white(int x, int y, int c)
{
    (void)x;
    (void)y;
    (void)c;
    return 255;
}

// 28 x 28 with 4 channels are as many bytes as 56 x 56 with one, all of them 255.
static void test_the_same_bytes_in_another_shape_are_other_data(void **state)
{
    (void)state;
    write_png(in("white.png"), 56, 56, 6, white);
    struct dataset *small = opened(folder, options_of(28, 4));
    struct dataset *large = opened(folder, options_of(56, 1));
    assert_memory_equal(small->pixels, large->pixels, 56 * 56);
    assert_int_not_equal(small->digest, large->digest);
    dataset_close(small);
    dataset_close(large);
}

static void test_a_folder_without_a_usable_image_is_an_error_that_lists_some(void **state)
{
    (void)state;
    expect_data_error(folder, "holds no images");
    write_file(in("notes.txt"), "text", 4);
    expect_data_error(folder, "holds no images");
    write_file(in("a.jpg"), "\xff\xd8\xff\xe0", 4);
    expect_data_error(in("a.jpg"), "JPEG is not read by this version");
    write_file(in("b.gif"), "GIF89a", 6);
    write_file(in("c.bmp"), "BMxxxx\0\0\0\0", 10);
    write_file(in("d.png"), "text", 4);
    expect_data_error(folder, "none of its 4 image files can be used (");
    assert_non_null(strstr(status_message(), "a.jpg: JPEG"));
    assert_non_null(strstr(status_message(), "c.bmp: BMP"));
    assert_non_null(strstr(status_message(), "; and so on)"));
    assert_null(strstr(status_message(), "d.png")); // three are told
}

static void test_paths_that_are_no_data_get_a_sentence(void **state)
{
    (void)state;
    expect_data_error(in("missing"), "no such file, folder or known data set");
    expect_data_error("no-such-name", "no such file, folder or known data set");
    expect_data_error("builtin:faces", "there are builtin:fashion and builtin:shapes");
    expect_data_error("/dev/null", "is not a regular file");
    write_file(in("data.zip"), "PK\3\4xxxx", 8);
    expect_data_error(in("data.zip"), "a zip archive; unpack it");
    write_file(in("notes.txt"), "some text", 9);
    expect_data_error(in("notes.txt"), "text, such as CSV, and not images");
    expect_data_error(in("notes.txt/below"), "Not a directory");
    write_png(in("cut.png"), 28, 28, 0, grey_40);
    assert_int_equal(truncate(in("cut.png"), 100), 0);
    expect_data_error(in("cut.png"), "damaged PNG (the file ends early)");
    expect_error_of("", options_of(-1, 0), STATUS_USAGE, "--resolution -1");
    expect_error_of("", options_of(5000, 0), STATUS_USAGE, "--resolution 5000");
    expect_error_of("", options_of(28, 5), STATUS_USAGE, "--channels 5");
}

static void test_one_png_is_a_data_set_of_one(void **state)
{
    (void)state;
    write_png(in("My cat (2).png"), 50, 28, 2, colours);
    struct dataset *dataset = opened(in("My cat (2).png"), options_of(28, 0));
    assert_int_equal(dataset->count, 1);
    assert_int_equal(dataset->channels, 3);
    assert_string_equal(dataset->name, "My-cat-2");
    dataset_close(dataset);
}

static void test_pictures_of_all_formats_lie_in_one_folder(void **state)
{
    (void)state;
    write_png(in("a.png"), 2, 2, 0, grey_40);
    write_file(in("b.pgm"), "P5 2 2 255\n\x0a\x14\x1e\x28", 15);
    write_file(in("c"), "P5 2 2 255\n\0\0\0\0", 15); // told by its bytes
    write_file(in("d.ppm"), "P6 2 2 255\n\0", 12);
    struct dataset *dataset = opened(folder, options_of(2, 0));
    assert_int_equal(dataset->count, 3);
    assert_memory_equal(dataset->pixels + 4, "\x0a\x14\x1e\x28\0\0\0\0", 8);
    assert_int_equal(dataset->reject_count, 1);
    assert_string_equal(dataset->rejects[0].reason, "damaged PNM (the file ends early)");
    dataset_close(dataset);
    dataset = opened(in("b.pgm"), options_of(2, 0));
    assert_int_equal(dataset->count, 1);
    dataset_close(dataset);
}

static void test_channels_follow_the_first_image_without_its_alpha(void **state)
{
    (void)state;
    static const uint8_t palette[6] = {10, 20, 30, 40, 50, 60};
    static const struct {
        int colour_type, channels;
    } cases[] = {{0, 1}, {2, 3}, {3, 3}, {4, 1}, {6, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int is_palette = cases[i].colour_type == 3;
        struct png_plan plan = {.width = 28,
                                .height = 28,
                                .colour_type = cases[i].colour_type,
                                .bit_depth = 8,
                                .sample = grey_40,
                                .palette = is_palette ? palette : NULL,
                                .palette_count = is_palette ? 2 : 0};
        size_t size;
        if (is_palette) // an index beyond the palette would be damage
            plan.sample = index_1;
        uint8_t *png = make_png(&plan, &size);
        write_file(in("one.png"), png, size);
        free(png);
        struct dataset *dataset = opened(folder, options_of(28, 0));
        assert_int_equal(dataset->channels, cases[i].channels);
        dataset_close(dataset);
    }
}

static void test_alpha_is_kept_when_asked_for_and_else_composed_over_black(void **state)
{
    (void)state;
    write_png(in("one.png"), 28, 28, 6, half_clear);
    struct dataset *kept = opened(folder, options_of(28, 4));
    struct dataset *composed = opened(folder, options_of(28, 3));
    struct dataset *grey = opened(folder, options_of(28, 2));
    for (size_t i = 0; i < 28 * 28; i++) {
        unsigned x = (unsigned)(i % 28), y = (unsigned)(i / 28);
        for (unsigned c = 0; c < 3; c++) {
            unsigned colour = x + y + 50 * c;
            assert_int_equal(kept->pixels[4 * i + c], colour);
            assert_int_equal(composed->pixels[3 * i + c], (colour * 128 + 127) / 255);
        }
        assert_int_equal(kept->pixels[4 * i + 3], 128);
        assert_int_equal(grey->pixels[2 * i + 1], 128);
    }
    dataset_close(kept);
    dataset_close(composed);
    dataset_close(grey);
}

struct calls {
    size_t count, last_done, last_total;
};

static void note_call(void *context, size_t done, size_t total)
{
    struct calls *calls = context;
    assert_true(done >= calls->last_done);
    calls->count++;
    calls->last_done = done;
    calls->last_total = total;
}

static void test_the_result_does_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        if (i % 7 == 3)
            write_file(in(name), "text", 4);
        else
            write_png(in(name), 20 + i, 50 - i / 2, i % 2 ? 2 : 6, colours);
    }
    struct dataset_options options = options_of(32, 0);
    options.threads = 1;
    struct dataset *one = opened(folder, options);
    for (options.threads = 2; options.threads <= 5; options.threads++) {
        struct calls calls = {0};
        options.progress = note_call;
        options.progress_context = &calls;
        struct dataset *many = opened(folder, options);
        assert_int_equal(many->count, one->count);
        assert_int_equal(many->digest, one->digest);
        assert_int_equal(many->reject_count, 9);
        assert_memory_equal(many->pixels, one->pixels, one->count * 32 * 32 * 3);
        for (size_t i = 0; i < many->count; i++)
            assert_string_equal(many->files[i], one->files[i]);
        assert_true(calls.count >= 1);
        assert_int_equal(calls.last_done, 60);
        assert_int_equal(calls.last_total, 60);
        dataset_close(many);
    }
    dataset_close(one);
}

static void test_the_digest_tells_pixels_order_and_shape_apart(void **state)
{
    (void)state;
    write_png(in("a.png"), 28, 28, 0, grey_40);
    write_png(in("b.png"), 28, 28, 0, grey_80);
    struct dataset *dataset = opened(folder, options_of(28, 0));
    uint64_t digest = dataset->digest;
    dataset_close(dataset);
    dataset = opened(folder, options_of(28, 3));
    assert_int_not_equal(dataset->digest, digest);
    dataset_close(dataset);
    assert_int_equal(rename(in("a.png"), in("c.png")), 0);
    dataset = opened(folder, options_of(28, 0));
    assert_int_not_equal(dataset->digest, digest);
    dataset_close(dataset);
    assert_int_equal(rename(in("c.png"), in("a.png")), 0);
    dataset = opened(folder, options_of(28, 0));
    assert_int_equal(dataset->digest, digest);
    dataset_close(dataset);
}

static void test_fashion_mnist_is_looked_up_and_else_built_in(void **state)
{
    (void)state;
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(folder), 0);
    setenv("TWINSCALE_DATA", in("own"), 1);
    setenv("XDG_DATA_HOME", in("home"), 1);
    setenv("HOME", in("person"), 1);
    setenv("XDG_DATA_DIRS", in("shared"), 1);
    struct dataset *dataset = opened("fashion-mnist", options_of(28, 0));
    assert_string_equal(dataset->source, "builtin:fashion");
    dataset_close(dataset);

    // From the last place to the first; each comes before the ones made earlier.
    static const char *const places[] = {
        "data/FashionMNIST/raw",
        "shared/datasets/fashion-mnist",
        "person/.local/share/twinscale/datasets/fashion-mnist",
        "home/twinscale/datasets/fashion-mnist",
        "own/fashion-mnist",
        "fashion-mnist"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t size;
        uint8_t *idx = make_idx((uint32_t)i + 1, 28, 28, &size);
        shell("mkdir -p \"$1\"", in(places[i]));
        char file[PATH_MAX];
        snprintf(file, sizeof file, "%s/train-images-idx3-ubyte", in(places[i]));
        write_file(file, idx, size);
        free(idx);
        dataset = opened("fashion-mnist", options_of(28, 0));
        assert_int_equal(dataset->count, i + 1);
        assert_non_null(strstr(dataset->source, places[i]));
        assert_string_equal(dataset->name, "fashion-mnist");
        dataset_close(dataset);
    }
    unsetenv("TWINSCALE_DATA");
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void test_what_is_no_data_set_is_named_with_what_to_do(void **state)
{
    (void)state;
    char tar[512] = "a.png", npz[64] = "PK\3\4";
    memcpy(tar + 257, "ustar", 5);
    npz[26] = 5;
    memcpy(npz + 30, "x.npy", 5);
    write_file(in("a.tar"), tar, sizeof tar);
    write_file(in("a.npz"), npz, sizeof npz);
    write_file(in("a.npy"), "\x93NUMPY\1\0v", 9);
    write_file(in("a.csv"), "label,pixel\n3,0\n", 16);
    write_file(in("a.zip"), "PK\3\4", 4);
    shell("cd \"$2\" && gzip -k a.tar a.csv a.npy", "");
    expect_data_error(in("a.tar"), "a tar archive; unpack it and give the folder");
    expect_data_error(in("a.tar.gz"), "a tar archive in gzip; unpack it and give");
    expect_data_error(in("a.npz"),
                      "NumPy arrays, which are not read; save each image as a "
                      "PNG file and give the folder");
    expect_data_error(in("a.npy"), "NumPy arrays, which are not read");
    expect_data_error(in("a.npy.gz"), "NumPy arrays in gzip, which are not read");
    expect_data_error(in("a.csv"), "text, such as CSV, and not images; save each image");
    expect_data_error(in("a.csv.gz"), "text in gzip, such as CSV, and not images");
    expect_data_error(in("a.zip"), "a zip archive; unpack it and give the folder");
}

static void test_names_are_fit_for_a_run_folder(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"cats", "cats"},
        {"My Cats & Dogs!/", "My-Cats-Dogs"},
        {"..odd..", "odd.."},
        {"-- !!", "data"},
        {"\303\274n\303\257 c\303\266d\303\251", "\303\274n\303\257-c\303\266d\303\251"},
        {"a/./../cats", "cats"},
        {"v1.2_final", "v1.2_final"},
    };
    shell("mkdir -p \"$1\"", in("a"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell("mkdir -p \"$1\"", in(cases[i][0]));
        char image[PATH_MAX];
        snprintf(image, sizeof image, "%s/x.png", in(cases[i][0]));
        write_png(image, 28, 28, 0, grey_40);
        struct dataset *dataset = opened(in(cases[i][0]), options_of(28, 0));
        assert_string_equal(dataset->name, cases[i][1]);
        dataset_close(dataset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_a_folder_is_read_in_the_order_of_its_paths),
        DATA_TEST(test_every_unusable_file_is_named_with_its_reason),
        DATA_TEST(test_a_png_cut_short_is_named_and_the_rest_is_used),
        DATA_TEST(test_other_content_under_an_image_name_is_told_apart),
        DATA_TEST(test_a_folder_that_may_not_be_read_is_named),
        DATA_TEST(test_strict_stops_at_the_first_path_whatever_the_threads),
        DATA_TEST(test_the_same_bytes_in_another_shape_are_other_data),
        DATA_TEST(test_a_folder_without_a_usable_image_is_an_error_that_lists_some),
        DATA_TEST(test_paths_that_are_no_data_get_a_sentence),
        DATA_TEST(test_one_png_is_a_data_set_of_one),
        DATA_TEST(test_pictures_of_all_formats_lie_in_one_folder),
        DATA_TEST(test_channels_follow_the_first_image_without_its_alpha),
        DATA_TEST(test_alpha_is_kept_when_asked_for_and_else_composed_over_black),
        DATA_TEST(test_the_result_does_not_depend_on_the_number_of_threads),
        DATA_TEST(test_the_digest_tells_pixels_order_and_shape_apart),
        DATA_TEST(test_fashion_mnist_is_looked_up_and_else_built_in),
        DATA_TEST(test_what_is_no_data_set_is_named_with_what_to_do),
        DATA_TEST(test_names_are_fit_for_a_run_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
