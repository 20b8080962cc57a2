#include "tests/app/data_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include "app/input/builtin_shapes.h"

static void test_builtin_fashion_has_2000_garments_of_all_levels(void **state)
{
    (void)state;
    struct dataset *dataset = opened("builtin:fashion", options_of(28, 0));
    assert_int_equal(dataset->count, 2000);
    assert_int_equal(dataset->channels, 1);
    assert_string_equal(dataset->name, "fashion2000");
    size_t levels[256] = {0};
    for (size_t i = 0; i < 2000 * 28 * 28; i++)
        levels[dataset->pixels[i]]++;
    assert_in_range(levels[0], 2000 * 28 * 28 / 3, 2000 * 28 * 28 * 2 / 3);
    for (int value = 1; value < 256; value++) // 1..8 round to black
        assert_true(value <= 8 ? levels[value] == 0 : levels[value] > 100);
    // Trousers (class 1) are dark at both sides, bags (class 8) are not.
    double sides[10] = {0};
    for (size_t i = 0; i < 2000; i++)
        for (size_t y = 8; y < 20; y++)
            sides[i / 200] += dataset->pixels[i * 784 + y * 28 + 3];
    assert_true(sides[1] * 20 < sides[8]);
    dataset_close(dataset);
}

static void test_builtin_fashion_is_close_to_the_original(void **state)
{
    (void)state;
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) !=
        0) {
        skip_because("dataset-fashion-mnist is not installed");
    }
    struct dataset *whole =
        opened("/usr/share/datasets/fashion-mnist", options_of(28, 0));
    struct dataset *part = opened("builtin:fashion", options_of(28, 0));
    assert_int_equal(whole->count, 60000);
    assert_string_equal(whole->name, "fashion-mnist");
    // The first training image is an ankle boot, the first one of class 9.
    for (int i = 0; i < 784; i++)
        assert_in_range(abs(whole->pixels[i] - part->pixels[9 * 200 * 784 + i]), 0, 16);
    dataset_close(whole);
    dataset_close(part);
}

static void test_builtin_sets_are_the_same_on_every_machine(void **state)
{
    (void)state;
    struct dataset_options options = options_of(28, 0);
    for (options.threads = 1; options.threads <= 2; options.threads++) {
        struct dataset *fashion = opened("builtin:fashion", options);
        assert_int_equal(fashion->digest, UINT64_C(0x44e7a5ff985a7476));
        dataset_close(fashion);
        struct dataset *shapes = opened("builtin:shapes", options);
        assert_int_equal(shapes->digest, UINT64_C(0x89d5550c1b1346cf));
        dataset_close(shapes);
    }
}

static void test_builtin_shapes_show_their_factors(void **state)
{
    (void)state;
    struct dataset *dataset = opened("builtin:shapes", options_of(64, 0));
    assert_int_equal(dataset->count, SHAPES_COUNT);
    assert_int_equal(dataset->channels, 3);
    size_t kinds[3] = {0};
    for (size_t i = 0; i < dataset->count; i++) {
        struct shape_factors shape = shape_factors(i);
        kinds[shape.kind]++;
        const uint8_t *image = dataset->pixels + i * 64 * 64 * 3;
        // Its area, from how far the image departs from the background.
        static const double areas[] = {3.14159, 2.0, 1.29904};
        double want = areas[shape.kind] * shape.radius * shape.radius * 64 * 64;
        const uint8_t *middle =
            image + ((int)(shape.y * 64) * 64 + (int)(shape.x * 64)) * 3;
        int bright = middle[0] >= middle[1] ? 0 : 1;
        bright = middle[2] > middle[bright] ? 2 : bright;
        int dark = image[bright]; // the corner
        double got = 0;
        for (size_t p = 0; p < 64 * 64; p++)
            got +=
                (double)(image[3 * p + (size_t)bright] - dark) / (middle[bright] - dark);
        if (got < want * 0.97 || got > want * 1.03)
            fail_msg("shape %zu (kind %d): area %g, want %g", i, shape.kind, got, want);
    }
    for (int kind = 0; kind < 3; kind++)
        assert_in_range(kinds[kind], 1250, 1480);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_builtin_fashion_has_2000_garments_of_all_levels),
        DATA_TEST(test_builtin_fashion_is_close_to_the_original),
        DATA_TEST(test_builtin_sets_are_the_same_on_every_machine),
        DATA_TEST(test_builtin_shapes_show_their_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
