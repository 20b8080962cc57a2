/* test_limits.c - short of memory or of descriptors, a run ends with a sentence and 1, or
 * trains on; it never aborts, and never blames the disk. */
#include <stdio.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static void expect_a_sentence(const char *limit, int value)
{
    char text[8192];
    int code =
        run_command(text, sizeof text,
                    "cd '%s' && rm -rf out && ( ulimit %s %d; exec '%s' train "
                    "--data builtin:shapes --preset dcgan28 --g-width 2 --d-width "
                    "2 --batch 8 --preview off --threads 1 --kimg 0.064 --out out )",
                    test_folder, limit, value, TWINSCALE_PROGRAM);
    // Where not even the program's libraries can be loaded, the system says so.
    int is_sentence =
        (code == 1 && strstr(text, "twinscale: ")) ||
        (code == 127 && strstr(text, "error while loading shared libraries"));
    if ((code != 0 && !is_sentence) || strstr(text, "disk may be failing"))
        fail_msg("ulimit %s %d: exit %d: %s", limit, value, code, text);
}

static void test_a_run_that_is_short_of_memory_ends_with_a_sentence(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip_because("the sanitizer's shadow memory is larger than any limit");
#endif
    // Below 28 MB the system's own loader fails; from about 170 MB on nothing does.
    for (int kib = 34000; kib < 180000; kib += 7000)
        expect_a_sentence("-v", kib);
}

static void test_a_run_that_is_short_of_descriptors_ends_with_a_sentence(void **state)
{
    (void)state;
    for (int count = 4; count < 16; count++)
        expect_a_sentence("-n", count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_is_short_of_memory_ends_with_a_sentence),
        cmocka_unit_test(test_a_run_that_is_short_of_descriptors_ends_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, open_test_folder, close_test_folder);
}
