/* Norms, clipping and what scalers tell each other, on every backend against ref. */
#include "tests/kernels/backends.h"

// With every tail of vectors of 4 and 8, some that are cut among threads, and some of
// more parts than the CPU backend has partial sums.
static const size_t sizes[] = {0,  1,  3,   4,    5,     8,     15,     16,     17,
                               31, 33, 100, 1000, 32769, 40000, 100001, 9000001};
#define SIZES (sizeof sizes / sizeof sizes[0])
enum { LARGEST = 9000001 + 8 };

static float grads[LARGEST], values[LARGEST], wanted[LARGEST];

/* A norm must not depend on the order of adding by more than its own rounding. */
static void assert_norm(const char *name, float got, float want, size_t n)
{
    if (!(fabsf(got - want) <= 1.2e-7f * want))
        fail_msg("grads_norm on %s of %zu: got %.9g, want %.9g", name, n, (double)got,
                 (double)want);
}

static void test_norms_agree_and_do_not_know_the_number_of_threads(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        float want = -1.0f;
        fill_f32(grads, n, FILL_RANDOM, s + 1);
        ref->ops->optimizer.grads_norm(ref, grads, n, &want);
        FOR_BACKENDS(b)
        {
            float got[THREAD_COUNTS];
            for (int t = 0; t < THREAD_COUNTS; t++)
                b->device[t]->ops->optimizer.grads_norm(b->device[t], grads, n, &got[t]);
            assert_norm(b->name, got[0], want, n);
            assert_true(got[1] == got[0] && got[2] == got[0]);
        }
    }
}

static void test_refs_norm_is_the_root_of_the_sum_of_squares(void **state)
{
    (void)state;
    const float sides[] = {3.0f, -4.0f, 12.0f, -84.0f};
    float norm = -1.0f;
    ref->ops->optimizer.grads_norm(ref, sides, 4, &norm);
    assert_true(norm == 85.0f);
    ref->ops->optimizer.grads_norm(ref, sides, 0, &norm);
    assert_true(norm == 0.0f);
}

static void test_a_norm_is_finite_exactly_when_all_gradients_are(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        for (size_t s = 1; s < SIZES && sizes[s] <= 1000; s++) {
            size_t n = sizes[s];
            float norm = 0.0f;
            for (size_t i = 0; i < n; i++)
                grads[i] = i % 2 ? 3.4e38f : 1e-44f;
            device->ops->optimizer.grads_norm(device, grads, n, &norm);
            assert_true(isfinite(norm));
            for (size_t k = 0; k < 3; k++) {
                grads[(n * (k + 1) - 1) / 3] = bad[k];
                device->ops->optimizer.grads_norm(device, grads, n, &norm);
                assert_true(!isfinite(norm));
                grads[(n * (k + 1) - 1) / 3] = 1.0f;
            }
        }
    }
}

static void test_clipping_is_bit_for_bit_refs_from_any_float_on(void **state)
{
    (void)state;
    static const float norms[] = {0.0f, 0.5f, 2.0f, 1e30f, INFINITY, NAN};
    for (size_t s = 0; s < SIZES && sizes[s] <= 100001; s++) {
        for (size_t k = 0; k < sizeof norms / sizeof norms[0]; k++) {
            size_t n = sizes[s], offset = k % 4;
            fill_f32(grads, n, FILL_EDGE, s);
            memcpy(wanted, grads, n * sizeof *grads);
            ref->ops->optimizer.grads_clip(ref, wanted, n, 1.5f, &norms[k]);
            if (k < 2 || k > 3) // nothing to clip
                assert_memory_equal(wanted, grads, n * sizeof *grads);
            FOR_BACKENDS(b)
            {
                memcpy(values + offset, grads, n * sizeof *grads);
                values[offset + n] = 7.0f;
                b->device[1]->ops->optimizer.grads_clip(b->device[1], values + offset, n,
                                                        1.5f, &norms[k]);
                assert_f32_close("grads_clip", values + offset, wanted, n, 0.0, 0.0, s);
                assert_true(values[offset + n] == 7.0f);
            }
        }
    }
}

/* ---- two scalers ----------------------------------------------------------------- */

static struct scaler_state state_of(uint64_t seed, uint64_t step)
{
    struct scaler_state state;
    memset(&state, 0, sizeof state);
    state.growth_factor = 1.7;
    state.backoff_factor = 0.3;
    state.growth_interval = 3;
    state.scale = 1000.0f + (float)(seed + step);
    state.enabled = 1;
    state.growth_tracker = (int32_t)(step % 3);
    state.found_inf = philox(seed, 99, 0, step).word[0] % 3 ? 0.0f : 1.0f;
    state.found_inf_elsewhere = philox(seed, 99, 0, step).word[1] % 3 ? 0.0f : 1.0f;
    state.is_held = philox(seed, 99, 0, step).word[2] % 3 == 0;
    return state;
}

static void test_two_scalers_move_the_same_everywhere(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    {
        struct device *device = b->device[1];
        const struct optimizer_ops *want_ops = &ref->ops->optimizer;
        const struct optimizer_ops *ops = &device->ops->optimizer;
        for (uint64_t step = 0; step < 200; step++) {
            struct scaler_state want[2] = {state_of(1, step), state_of(2, step)}, got[2];
            struct step_record want_record[2], record[2];
            memset(want_record, 0, sizeof want_record);
            memset(record, 0, sizeof record);
            memcpy(got, want, sizeof got);
            enum overflow_reach reach = step % 2 ? OVERFLOW_SKIPS : OVERFLOW_HOLDS;
            want_ops->scaler_share_overflow(ref, &want[0], &want[1], reach);
            ops->scaler_share_overflow(device, &got[0], &got[1], reach);
            assert_memory_equal(got, want, sizeof got);
            want_ops->scaler_both(ref, &want[0], &want_record[0], &want[1],
                                  &want_record[1], step % 3 == 0);
            ops->scaler_both(device, &got[0], &record[0], &got[1], &record[1],
                             step % 3 == 0);
            assert_memory_equal(got, want, sizeof got);
            assert_memory_equal(record, want_record, sizeof record);
            assert_true(want[0].scale == want[1].scale);
            want[0].scale += 1.0f;
            got[0].scale += 1.0f;
            want_ops->scaler_share(ref, &want[0], &want[1]);
            ops->scaler_share(device, &got[0], &got[1]);
            assert_memory_equal(got, want, sizeof got);
            assert_true(got[1].scale == got[0].scale);
        }
    }
}

static void test_a_held_step_and_another_losss_overflow_keep_adam_away(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        for (int which = 0; which < 3; which++) {
            struct scaler_state scaler = {.scale = 1.0f, .enabled = 1, .adam_t = 6};
            scaler.is_held = which == 1;
            scaler.found_inf_elsewhere = which == 2 ? 1.0f : 0.0f;
            float params[9] = {0}, m[9] = {0}, v[9] = {0}, ones[9];
            for (int i = 0; i < 9; i++)
                ones[i] = 1.0f;
            struct adam_args args = {.params = params,
                                     .grads = ones,
                                     .m = m,
                                     .v = v,
                                     .n = 9,
                                     .lr = 0.1f,
                                     .beta1 = 0.5f,
                                     .beta2 = 0.5f,
                                     .eps = 1e-8f};
            device->ops->optimizer.adam_step(device, &args, 0, &scaler);
            assert_int_equal(scaler.adam_t, which ? 6 : 7);
            assert_true((params[8] == 0.0f && m[0] == 0.0f) == (which != 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_agree_and_do_not_know_the_number_of_threads),
        cmocka_unit_test(test_refs_norm_is_the_root_of_the_sum_of_squares),
        cmocka_unit_test(test_a_norm_is_finite_exactly_when_all_gradients_are),
        cmocka_unit_test(test_clipping_is_bit_for_bit_refs_from_any_float_on),
        cmocka_unit_test(test_two_scalers_move_the_same_everywhere),
        cmocka_unit_test(test_a_held_step_and_another_losss_overflow_keep_adam_away),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
