#include "tests/app/data_folder.h"

#include <stdio.h>
#include <string.h>

#include "app/input/data_check.h"
#include "tests/app/make_png.h"

static enum status checked(const char *path, char *text, size_t bytes)
{
    struct dataset_options options = options_of(28, 0);
    options.strict = 1;
    struct data_asked asked = {.mirror = 1};
    FILE *file = tmpfile();
    assert_non_null(file);
    enum status status = data_check(path, &options, &asked, file);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = 0;
    fclose(file);
    return status;
}

static void test_data_check_tells_everything_training_would_see(void **state)
{
    (void)state;
    fill_folder();
    char text[4096], want[4096];
    assert_int_equal(checked(folder, text, sizeof text), STATUS_OK);
    snprintf(
        want, sizeof want,
        "source: %1$s\n"
        "images: 4\n"
        "sizes:\n"
        "         3 of 28 x 28\n"
        "         1 of 20 x 40\n"
        "channels:\n"
        "         2 grey\n"
        "         1 colour\n"
        "         1 colour with alpha\n"
        "unusable:\n"
        "  %1$s/a.jpg: JPEG is not read by this version; convert it to PNG\n"
        "  %1$s/b/page.png: not a picture: it begins with the bytes 3c 68 74 6d\n"
        "  %1$s/b/photo: WebP is not read by this version; convert it to PNG\n"
        "  %1$s/empty.png: the file is empty\n"
        "  %1$s/z-link.png: cannot be opened: No such file or directory\n"
        "passed over: 2 files that are not images\n"
        "4 images usable, 5 files not; training would see them as 28 x 28 x 1\n"
        "  of 2 sizes, most often 28 x 28; resized to 28 x 28\n"
        "  2 of 4 are in colour and made grey, as the first one is; --channels 3 "
        "keeps the colour\n"
        "  4 images are few: a GAN learns so small a set by heart; more images help\n",
        folder);
    assert_string_equal(text, want);
}

static void test_data_check_of_nothing_usable_still_names_every_file(void **state)
{
    (void)state;
    for (char name[] = "a.jpg"; name[0] <= 'f'; name[0]++)
        write_file(in(name), "\xff\xd8\xff\xe0", 4);
    char text[4096];
    assert_int_equal(checked(folder, text, sizeof text), STATUS_DATA);
    for (char name[] = "a.jpg"; name[0] <= 'f'; name[0]++)
        assert_non_null(strstr(text, in(name)));
    assert_non_null(strstr(text, "nothing here can be trained on\n"));
    assert_non_null(strstr(status_message(), "none of its 6 image files can be used"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_data_check_tells_everything_training_would_see),
        DATA_TEST(test_data_check_of_nothing_usable_still_names_every_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
