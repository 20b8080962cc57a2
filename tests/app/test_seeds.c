#include <stdlib.h>
#include <string.h>

#include "app/config/seeds.h"
#include "tests/support/support.h"

static void test_lists_and_ranges_keep_their_order(void **state)
{
    (void)state;
    uint64_t *seeds;
    int count;
    assert_int_equal(seeds_parse("7,0,4-6,1000000000000", &seeds, &count), STATUS_OK);
    const uint64_t want[] = {7, 0, 4, 5, 6, 1000000000000};
    assert_int_equal(count, 6);
    assert_memory_equal(seeds, want, sizeof want);
    free(seeds);
}

static void test_what_cannot_be_read_is_told_with_its_place(void **state)
{
    (void)state;
    const char *const wrong[] = {"",    "x",  "1,",   "1-",      "3-1",
                                 "1;2", "-1", "1,2x", "0-70000", "99999999999999999999"};
    uint64_t *seeds;
    int count;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(seeds_parse(wrong[i], &seeds, &count), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "--seeds"));
    }
    seeds_parse("1,2x", &seeds, &count);
    assert_non_null(strstr(status_message(), "\"x\""));
}

static void test_a_seed_above_the_last_one_is_out_of_range(void **state)
{
    (void)state;
    uint64_t *seeds;
    int count;
    assert_int_equal(seeds_parse("8796093022207", &seeds, &count), STATUS_OK);
    free(seeds);
    static const char *const wrong[] = {"8796093022208", "0-8796093022208",
                                        "1,8796093022208,2",
                                        "8796093022208-8796093022209"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(seeds_parse(wrong[i], &seeds, &count), STATUS_USAGE);
        assert_non_null(strstr(status_message(),
                               "the seed 8796093022208 is out of range; "
                               "seeds are at most 8796093022207"));
    }
}

static void test_grids_are_columns_by_rows(void **state)
{
    (void)state;
    int columns, rows;
    assert_int_equal(grid_parse("8x4", &columns, &rows), STATUS_OK);
    assert_int_equal(columns, 8);
    assert_int_equal(rows, 4);
    const char *const wrong[] = {"8", "8x", "x8", "0x4", "8x4x2", "8 x 4", "300x1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(grid_parse(wrong[i], &columns, &rows), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "--grid 300x1: is out of range; expected "
                                             "COLUMNSxROWS with 1 to 256 of each"));
    assert_int_equal(grid_parse("8x99999999999999999999", &columns, &rows), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "is out of range"));
    assert_int_equal(grid_parse("8*8", &columns, &rows), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "is not a grid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_ranges_keep_their_order),
        cmocka_unit_test(test_what_cannot_be_read_is_told_with_its_place),
        cmocka_unit_test(test_a_seed_above_the_last_one_is_out_of_range),
        cmocka_unit_test(test_grids_are_columns_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
