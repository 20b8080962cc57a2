#include "app/config/nearest.h"

#include <limits.h>
#include <string.h>

#include "tests/support/support.h"

static void test_distance_counts_edits_and_swaps(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int distance;
    } rows[] = {
        {"", "", 0},           {"", "abc", 3},      {"kimg", "kimg", 0},
        {"kimgs", "kimg", 1},  {"kmig", "kimg", 1}, {"kitten", "sitting", 3},
        {"Batch", "batch", 0}, {"g-lr", "g_lr", 0}, {"ca", "abc", 3},
        {"seed", "sede", 1},   {"tick", "snap", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(edit_distance(rows[i].a, rows[i].b), rows[i].distance);
        assert_int_equal(edit_distance(rows[i].b, rows[i].a), rows[i].distance);
    }
}

static void test_a_very_long_word_is_far_from_everything(void **state)
{
    (void)state;
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_int_equal(edit_distance(word, "batch"), INT_MAX);
    const char *const words[] = {"batch"};
    assert_null(nearest_word(word, words, 1));
}

static void test_the_nearest_word_is_found_or_none(void **state)
{
    (void)state;
    const char *const words[] = {"fmnist-quick", "dcgan28", "dcgan32", "dcgan64"};
    assert_string_equal(nearest_word("fmnist-quik", words, 4), "fmnist-quick");
    assert_string_equal(nearest_word("mnist-quick", words, 4), "fmnist-quick");
    assert_string_equal(nearest_word("fmnist", words, 4), "fmnist-quick");
    assert_string_equal(nearest_word("dcgan-64", words, 4), "dcgan64");
    assert_string_equal(nearest_word("dcgan", words, 4), "dcgan28"); // a tie: the earlier
    assert_null(nearest_word("stylegan3", words, 4));
    assert_null(nearest_word("", words, 4));
    // Two letters are the beginning of too much.
    const char *const settings[] = {"resolution", "batch"};
    assert_string_equal(nearest_word("res", settings, 2), "resolution");
    assert_null(nearest_word("re", settings, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance_counts_edits_and_swaps),
        cmocka_unit_test(test_a_very_long_word_is_far_from_everything),
        cmocka_unit_test(test_the_nearest_word_is_found_or_none),
    };
    return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
