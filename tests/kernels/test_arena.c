#include <string.h>

#include "kernels/arena.h"
#include "tests/support/support.h"

static struct device *device;

static int open_device(void **state)
{
    (void)state;
    return device_open("ref", 1, &device) != STATUS_OK;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

static void test_reserved_pieces_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    enum { PIECES = 100 }; // more than the first room for slots
    struct arena arena;
    unsigned char *piece[PIECES];
    arena_begin(&arena, device, "test");
    for (size_t i = 0; i < PIECES; i++)
        arena_reserve(&arena, (void **)&piece[i], i * 7);
    assert_int_equal(arena_commit(&arena), STATUS_OK);
    for (size_t i = 0; i < PIECES; i++) {
        assert_int_equal((uintptr_t)piece[i] % ARENA_ALIGN, 0);
        for (size_t byte = 0; byte < i * 7; byte++)
            assert_int_equal(piece[i][byte], 0);
    }
    for (size_t i = 0; i < PIECES; i++)
        memset(piece[i], (int)i, i * 7);
    for (size_t i = 0; i < PIECES; i++)
        for (size_t byte = 0; byte < i * 7; byte++)
            assert_int_equal(piece[i][byte], i);
    arena_release(&arena);
}

static void test_a_region_can_be_shared(void **state)
{
    (void)state;
    struct arena arena;
    char *first, *second, *later;
    arena_begin(&arena, device, "test");
    size_t region = arena_region(&arena, 1000);
    arena_reserve_at(&arena, (void **)&first, region);
    arena_reserve_at(&arena, (void **)&second, region + ARENA_ALIGN);
    size_t before = arena.bytes;
    arena_reserve_at(&arena, (void **)&later, region);
    assert_int_equal(arena.bytes, before);
    assert_int_equal(arena_commit(&arena), STATUS_OK);
    assert_ptr_equal(first, later);
    assert_ptr_equal(first + ARENA_ALIGN, second);
    arena_release(&arena);
}

static void test_an_arena_of_nothing_commits_and_releases(void **state)
{
    (void)state;
    struct arena arena;
    void *nothing = NULL;
    arena_begin(&arena, device, "test");
    arena_reserve(&arena, &nothing, 0);
    assert_int_equal(arena_commit(&arena), STATUS_OK);
    assert_non_null(nothing);
    arena_release(&arena);
    arena_release(&arena); // twice is fine
}

static void test_more_than_the_machine_has_fails_with_role_and_size(void **state)
{
    (void)state;
    struct arena arena;
    void *pointer = NULL;
    arena_begin(&arena, device, "d activations");
    arena_reserve(&arena, &pointer, (size_t)1 << 60);
    assert_int_equal(arena_commit(&arena), STATUS_FAILED);
    assert_null(pointer);
    assert_non_null(strstr(status_message(), "d activations"));
    assert_non_null(strstr(status_message(), "1099511627776.0 MiB"));
    assert_non_null(strstr(status_message(), "ref"));
    arena_release(&arena);
}

static void test_sizes_whose_sum_overflows_fail_too(void **state)
{
    (void)state;
    struct arena arena;
    void *a, *b;
    arena_begin(&arena, device, "test");
    arena_reserve(&arena, &a, SIZE_MAX / 2 + 1000);
    arena_reserve(&arena, &b, SIZE_MAX / 2 + 1000);
    assert_int_equal(arena_commit(&arena), STATUS_FAILED);
    arena_release(&arena);
    arena_begin(&arena, device, "test");
    arena_reserve(&arena, &a, SIZE_MAX - 3);
    assert_int_equal(arena_commit(&arena), STATUS_FAILED);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserved_pieces_are_aligned_zeroed_and_apart),
        cmocka_unit_test(test_a_region_can_be_shared),
        cmocka_unit_test(test_an_arena_of_nothing_commits_and_releases),
        cmocka_unit_test(test_more_than_the_machine_has_fails_with_role_and_size),
        cmocka_unit_test(test_sizes_whose_sum_overflows_fail_too),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
