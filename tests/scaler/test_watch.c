/* test_watch.c - what is reported of how loss scales move, and what never is. */
#include "scaler/watch.h"

#include <math.h>
#include <string.h>

#include "tests/support/support.h"

/* ---- a scale under PyTorch's rule ------------------------------------------------ */

struct run {
    struct watch watch;
    struct scaler_state state[ROLES];
    int64_t step;
    int found;
};

static struct scaler_state state_of(double scale, int64_t interval)
{
    return (struct scaler_state){.growth_factor = 2,
                                 .backoff_factor = 0.5,
                                 .growth_interval = interval,
                                 .scale = (float)scale,
                                 .enabled = 1};
}

static struct run begin(double g_scale, double d_scale, int64_t interval)
{
    struct run run = {.step = 0};
    run.state[ROLE_G] = state_of(g_scale, interval);
    run.state[ROLE_D] = state_of(d_scale, interval);
    watch_begin(&run.watch, interval, interval);
    return run;
}

static int one(struct run *run, int network, int overflows)
{
    struct step_record record;
    run->state[network].found_inf = overflows ? 1.0f : 0.0f;
    scaler_finish_step(&run->state[network], &record);
    int found = watch_step(&run->watch, network, run->step, &record,
                           overflows ? network == ROLE_G ? "g.conv1: weight gradient"
                                                         : "d.conv3: activation gradient"
                                     : "");
    run->found |= found;
    return found;
}

// One training step: D, then G. An overflow is a scale above the network's limit.
static void step(struct run *run, double g_limit, double d_limit)
{
    run->step += 1;
    one(run, ROLE_D, (double)run->state[ROLE_D].scale > d_limit);
    one(run, ROLE_G, (double)run->state[ROLE_G].scale > g_limit);
}

/* ---- oscillation ----------------------------------------------------------------- */

static void test_the_normal_saw_tooth_never_warns(void **state)
{
    (void)state;
    const int64_t intervals[] = {1, 2, 7, 50, 2000};
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        struct run run = begin(65536, 65536, intervals[i]);
        for (int n = 0; n < 30000; n++)
            step(&run, 65536, 262144);
        assert_int_equal(run.found, 0);
        assert_true(run.state[ROLE_G].backoffs > 7);
    }
}

static void test_a_storm_at_the_start_is_no_oscillation(void **state)
{
    (void)state;
    struct run run = begin(0x1p60, 0x1p60, 10);
    for (int n = 0; n < 2000; n++)
        step(&run, 1024, 2048);
    assert_true(run.state[ROLE_G].backoffs >= 50);
    assert_int_equal(run.found, 0);
}

// Gradients that vary by a factor of two from step to step.
static void test_a_plateau_between_two_scales_never_warns(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    uint32_t random = 9;
    for (int n = 0; n < 20000; n++) {
        random = random * 1664525u + 1013904223u;
        int is_wild = random >> 8 < (1u << 24) / 40;
        step(&run, is_wild ? 40000 : 100000, 100000);
    }
    assert_true(run.state[ROLE_G].skipped > 300);
    assert_int_equal(run.found & WATCH_OSCILLATES_G, 0);
}

static void test_slow_drift_of_the_gradients_never_warns(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    for (int n = 0; n < 20000; n++)
        step(&run, 65536 * exp2(-8.0 * n / 20000), 65536 * exp2(8.0 * n / 20000));
    assert_int_equal(run.found & (WATCH_OSCILLATES_G | WATCH_OSCILLATES_D), 0);
}

// Every 200 steps D's gradients are 2^6 times as large for five steps.
static double burst(int n)
{
    return n % 200 < 5 ? 1024 : 65536;
}

static void test_a_scale_that_keeps_falling_and_rising_is_reported_once(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    int reports = 0, first = 0;
    for (int n = 1; n < 5000; n++) {
        run.step = n;
        int found = one(&run, ROLE_D, (double)run.state[ROLE_D].scale > burst(n));
        found |= one(&run, ROLE_G, (double)run.state[ROLE_G].scale > 65536);
        reports += !!(found & WATCH_OSCILLATES_D);
        if (found & WATCH_OSCILLATES_D)
            first = n;
    }
    assert_int_equal(reports, 1);
    assert_int_equal(run.found & WATCH_OSCILLATES_G, 0);
    assert_in_range(first, 400, 900);
}

static void test_each_swing_tells_where_it_overflowed_and_at_which_scale(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    for (int n = 1; n < 5000 && !run.found; n++) {
        run.step = n;
        one(&run, ROLE_D, (double)run.state[ROLE_D].scale > burst(n));
    }
    assert_int_equal(run.found, WATCH_OSCILLATES_D);
    const struct watched *d = &run.watch.of[ROLE_D];
    assert_true(d->swings >= WATCH_SWINGS);
    for (int i = 0; i < WATCH_SWINGS; i++) {
        assert_string_equal(d->swing[i].place, "d.conv3: activation gradient");
        assert_true(d->swing[i].scale > 1024 && d->swing[i].scale <= 65536);
        assert_in_range(d->swing[i].step % 200, 0, 4);
    }
}

static void test_swings_that_are_far_apart_are_not_reported(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    for (int n = 1; n < 20000; n++) {
        run.step = 1000000 + n; // of the run, which was resumed; updates count from 0
        double limit = n % 2000 < 5 ? 1024 : 65536;
        one(&run, ROLE_D, (double)run.state[ROLE_D].scale > limit);
    }
    assert_true(run.watch.of[ROLE_D].swings >= 9);
    assert_int_equal(run.found, 0);
}

// A shared scale: the other network's overflow lowered it, which proves nothing of this
// one.
static void test_a_scale_that_another_network_moved_is_no_swing(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 20);
    for (int n = 1; n < 5000; n++) {
        run.step = n;
        if (n % 50 == 0)
            run.state[ROLE_D].scale /= 4;
        one(&run, ROLE_D, n % 50 == 1);
    }
    assert_int_equal(run.watch.of[ROLE_D].swings, 0);
}

/* ---- two networks ---------------------------------------------------------------- */

static void test_scales_that_come_together_again_begin_a_new_count(void **state)
{
    (void)state;
    struct run run = begin(1024, 0x1p30, 10);
    for (int n = 0; n < 60; n++) {
        run.step += 1;
        run.state[ROLE_D].scale = n % 7 == 6 ? 1024.0f : 0x1p30f;
        run.state[ROLE_D].growth_tracker = run.state[ROLE_G].growth_tracker = 0;
        one(&run, ROLE_D, 0);
        one(&run, ROLE_G, 0);
    }
    assert_int_equal(run.found & WATCH_SCALES_APART, 0);
}

static void test_a_network_that_always_skips_is_reported_once(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 2000);
    int reports = 0, at = 0;
    for (int n = 1; n <= 100; n++) {
        run.step = n;
        int found = one(&run, ROLE_D, n > 10) | one(&run, ROLE_G, 0);
        reports += !!(found & WATCH_STUCK_D);
        if (found & WATCH_STUCK_D)
            at = n;
    }
    assert_int_equal(reports, 1);
    assert_int_equal(at, 10 + WATCH_STUCK);
    assert_int_equal(run.found & WATCH_STUCK_G, 0);
}

static void test_two_networks_that_both_skip_are_not_apart(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 2000);
    for (int n = 1; n <= 60; n++) {
        run.step = n;
        one(&run, ROLE_D, 1);
        one(&run, ROLE_G, 1);
    }
    assert_int_equal(run.found, 0);
}

static void test_skip_rates_that_differ_are_reported_once(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 1000000);
    int reports = 0;
    for (int n = 1; n <= 4 * WATCH_RATE_STEPS; n++) {
        run.step = n;
        reports += !!(one(&run, ROLE_D, n % 5 == 0) & WATCH_SKIPS_APART);
        reports += !!(one(&run, ROLE_G, 0) & WATCH_SKIPS_APART);
    }
    assert_int_equal(reports, 1);
    assert_true(fabs(run.watch.of[ROLE_D].skip_rate - 0.2) < 1e-12);
    assert_true(run.watch.of[ROLE_G].skip_rate == 0.0);
}

static void test_skip_rates_that_are_alike_are_not_reported(void **state)
{
    (void)state;
    struct run run = begin(0x1p100, 0x1p100, 1000000);
    for (int n = 1; n <= 4 * WATCH_RATE_STEPS; n++) {
        run.step = n;
        one(&run, ROLE_D, n % 5 == 0);
        one(&run, ROLE_G, n % 40 == 0);
    }
    assert_int_equal(run.found & WATCH_SKIPS_APART, 0);
}

static void test_scales_that_stay_far_apart_are_reported_once(void **state)
{
    (void)state;
    struct run run = begin(65536, 65536, 10);
    int reports = 0;
    for (int n = 1; n <= 1000; n++) {
        run.step = n;
        int found = one(&run, ROLE_D, (double)run.state[ROLE_D].scale > 65536);
        found |= one(&run, ROLE_G, (double)run.state[ROLE_G].scale > 0x1p40);
        reports += !!(found & WATCH_SCALES_APART);
        if (found & WATCH_SCALES_APART)
            assert_true((double)run.state[ROLE_G].scale > 65536 * exp2(WATCH_APART));
    }
    assert_int_equal(reports, 1);
}

static void test_a_static_scale_is_not_watched(void **state)
{
    (void)state;
    struct run run = begin(0x1p30, 1, 0);
    run.state[ROLE_G].is_static = run.state[ROLE_D].is_static = 1;
    for (int n = 1; n <= 1000; n++) {
        run.step = n;
        one(&run, ROLE_D, 0);
        one(&run, ROLE_G, n % 20 == 0);
    }
    assert_int_equal(run.found, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_normal_saw_tooth_never_warns),
        cmocka_unit_test(test_a_storm_at_the_start_is_no_oscillation),
        cmocka_unit_test(test_a_plateau_between_two_scales_never_warns),
        cmocka_unit_test(test_slow_drift_of_the_gradients_never_warns),
        cmocka_unit_test(test_a_scale_that_keeps_falling_and_rising_is_reported_once),
        cmocka_unit_test(test_each_swing_tells_where_it_overflowed_and_at_which_scale),
        cmocka_unit_test(test_swings_that_are_far_apart_are_not_reported),
        cmocka_unit_test(test_a_scale_that_another_network_moved_is_no_swing),
        cmocka_unit_test(test_scales_that_come_together_again_begin_a_new_count),
        cmocka_unit_test(test_a_network_that_always_skips_is_reported_once),
        cmocka_unit_test(test_two_networks_that_both_skip_are_not_apart),
        cmocka_unit_test(test_skip_rates_that_differ_are_reported_once),
        cmocka_unit_test(test_skip_rates_that_are_alike_are_not_reported),
        cmocka_unit_test(test_scales_that_stay_far_apart_are_reported_once),
        cmocka_unit_test(test_a_static_scale_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
