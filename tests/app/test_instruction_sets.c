/* test_instruction_sets.c - whole runs under each instruction set that this CPU has: AVX2
 * and AVX-512 give the same bytes, with dot products of bf16 pairs too wherever nothing
 * is bf16, and each on any number of threads. Plain C rounds a multiply-add twice and
 * stands alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

#define LENGTH "--data builtin:shapes --batch 8 --kimg 0.16 --preview off --keep 0 "
#define NARROW LENGTH "--g-width 5 --d-width 7 "
#define NOT_ALL_RAN 77

static char out[512];

/* How the device describes itself: "AMD EPYC, avx512, 2 threads". */
static int is_had(const char *isa)
{
    char text[4096], words[64];
    run_command(text, sizeof text,
                "TWINSCALE_ISA=%s TWINSCALE_THREADS=3 '%s' info --devices", isa,
                TWINSCALE_PROGRAM);
    snprintf(words, sizeof words, ", %s, 3 threads", isa);
    return strstr(text, words) != NULL;
}

/* The digest of the run's end; valid until the next call but three. */
static const char *digest_under(const char *isa, int threads, const char *settings)
{
    static char digests[4][32];
    static int next;
    char *digest = digests[next++ % 4], text[4096], folder[600];
    snprintf(folder, sizeof folder, "%s/%s-%d", out, isa, threads);
    int code =
        run_command(text, sizeof text,
                    "TWINSCALE_ISA=%s TWINSCALE_THREADS=%d '%s' train %s --out '%s'", isa,
                    threads, TWINSCALE_PROGRAM, settings, folder);
    if (code != 0)
        fail_msg("%s, %d threads: exit %d: %s", isa, threads, code, text);
    digest_of(run_in(folder), digest);
    remove_folder(folder);
    return digest;
}

static void assert_same(const char *settings, const char *isa, const char *digest,
                        const char *other, const char *other_digest)
{
    if (strcmp(digest, other_digest) != 0)
        fail_msg("%s: %s ends with %s, %s with %s", settings, isa, digest, other,
                 other_digest);
}

static int enter(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("instruction-sets"));
    return 0;
}

static int leave(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static void need(const char *isa)
{
    if (is_had(isa))
        return;
    skip_because("this CPU has no %s", isa);
}

/* Narrow and odd widths, default ones, and every way of a convolution. */
static const char *const kinds[] = {
    NARROW "--preset dcgan28 --precision fp32",
    NARROW "--preset dcgan28 --g-clip-norm 0.5 --d-clip-norm 0.5 --recompute",
    NARROW "--preset dcgan32",
    NARROW "--preset dcgan64",
    LENGTH "--preset fmnist-quick",
    LENGTH "--preset fmnist-quick --precision fp32 --g-accum 2 --d-accum 2",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void test_avx2_and_avx512_give_the_same_bytes(void **state)
{
    (void)state;
    need("avx512");
    for (int i = 0; i < KINDS; i++)
        assert_same(kinds[i], "avx2", digest_under("avx2", 1, kinds[i]), "avx512",
                    digest_under("avx512", 2, kinds[i]));
}

static void test_avx2_and_avx512_give_the_same_bytes_in_bf16(void **state)
{
    (void)state;
    need("avx512");
    static const char *const settings[] = {NARROW "--preset dcgan64 --precision bf16",
                                           LENGTH
                                           "--preset fmnist-quick --precision bf16"};
    for (int i = 0; i < 2; i++)
        assert_same(settings[i], "avx2", digest_under("avx2", 2, settings[i]), "avx512",
                    digest_under("avx512", 1, settings[i]));
}

static void test_dot_products_of_bf16_change_nothing_where_nothing_is_bf16(void **state)
{
    (void)state;
    need("avx512-bf16");
    for (int i = 0; i < KINDS; i++)
        assert_same(kinds[i], "avx512", digest_under("avx512", 2, kinds[i]),
                    "avx512-bf16", digest_under("avx512-bf16", 1, kinds[i]));
    // Where something is, they are used: else the comparison above says nothing.
    const char *bf16 = NARROW "--preset dcgan64 --precision bf16";
    assert_string_not_equal(digest_under("avx512", 2, bf16),
                            digest_under("avx512-bf16", 2, bf16));
}

static void test_the_number_of_threads_changes_no_byte_under_any(void **state)
{
    (void)state;
    static const char *const isas[] = {"c", "avx2", "avx512", "avx512-bf16"};
    static const char *const settings[] = {NARROW "--preset dcgan32 --precision bf16",
                                           LENGTH "--preset fmnist-quick"};
    for (int i = 0; i < 8; i++) {
        const char *isa = isas[i / 2], *setting = settings[i % 2];
        if (!is_had(isa))
            continue;
        const char *one = digest_under(isa, 1, setting);
        assert_same(setting, isa, one, "2 threads", digest_under(isa, 2, setting));
        assert_same(setting, isa, one, "4 threads", digest_under(isa, 4, setting));
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_avx2_and_avx512_give_the_same_bytes),
        TEST(test_avx2_and_avx512_give_the_same_bytes_in_bf16),
        TEST(test_dot_products_of_bf16_change_nothing_where_nothing_is_bf16),
        TEST(test_the_number_of_threads_changes_no_byte_under_any),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : is_had("avx512-bf16") ? 0 : NOT_ALL_RAN;
}
