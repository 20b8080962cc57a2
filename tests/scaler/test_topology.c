/* test_topology.c - one, two or three scales for a GAN, as PyTorch moves them; and steps
 * that the other network's overflow holds back.
 * tests/golden/topology_traces.bin holds what PyTorch's scalers did; its README, how. */
#include "scaler/topology.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/scaler/toy.h"
#include "tests/support/support.h"

#define SEQUENCES 15
#define STEPS 160
#define PARAMS 5

/* ---- a GAN of two toys ----------------------------------------------------------- */

struct gan {
    struct toy toy[ROLES];
    struct topology topology;
};

static void gan_open(struct gan *gan, struct device *device, enum topology_kind kind,
                     enum skip_rule skip, const struct grad_scaler_config *config)
{
    struct scaled network[ROLES];
    for (int i = 0; i < ROLES; i++) {
        toy_open(&gan->toy[i], device, PARAMS, config);
        network[i] = (struct scaled){.scaler = &gan->toy[i].scaler,
                                     .optimizer = &gan->toy[i].adam.optimizer};
    }
    assert_int_equal(
        topology_create(&gan->topology, kind, skip, network, toy_passes, GAN_PASSES),
        STATUS_OK);
}

static void gan_close(struct gan *gan)
{
    topology_release(&gan->topology);
    for (int i = 0; i < ROLES; i++)
        toy_close(&gan->toy[i]);
}

static float scale_of(struct gan *gan, enum gan_pass loss)
{
    float scale;
    struct device *device = gan->topology.device;
    struct scaler_state *state = topology_scale(&gan->topology, loss);
    device->ops->memory.download(device, &scale, &state->scale, sizeof scale);
    return scale;
}

/* A backward pass: gradients of factor*2^-12, times the loss's scale, in f32, into (or
 * onto) that loss's block; with `planted` in one of them unless it is 0. */
static void backward(struct gan *gan, enum gan_pass loss, float factor, float planted)
{
    float values[PARAMS], *block = topology_grads(&gan->topology, loss);
    struct device *device = gan->topology.device;
    for (int i = 0; i < PARAMS; i++)
        values[i] = scale_of(gan, loss) * factor * 0x1p-12f;
    if (planted != 0.0f)
        values[PARAMS - 1] = planted;
    device->ops->memory.upload(device, block, values, sizeof values);
}

// Where D has one block, its loss on fakes is left out: the sum would be the same.
static void iterate_d(struct gan *gan, float planted_real, float planted_fake)
{
    backward(gan, PASS_D_REAL, 4.0f, planted_real);
    if (topology_has_own_grads(&gan->topology, PASS_D_FAKE))
        backward(gan, PASS_D_FAKE, 3.0f, planted_fake);
    topology_step(&gan->topology, ROLE_D);
    topology_update(&gan->topology, ROLE_D);
}

static void iterate_g(struct gan *gan, float planted)
{
    backward(gan, PASS_G_MAIN, 5.0f, planted);
    topology_step(&gan->topology, ROLE_G);
    topology_update(&gan->topology, ROLE_G);
}

static void iterate(struct gan *gan, float d, float g)
{
    iterate_d(gan, d, 0.0f);
    iterate_g(gan, g);
}

static int64_t steps_taken(const struct gan *gan, enum role network)
{
    return grad_scaler_read(&gan->toy[network].scaler).adam_t;
}

static struct step_record record_of(const struct gan *gan, enum role network)
{
    return grad_scaler_record(&gan->toy[network].scaler);
}

/* ---- PyTorch's traces ------------------------------------------------------------ */

struct reading {
    float scale;
    uint16_t tracker;
};

struct reader {
    const uint8_t *at, *end;
};

static void take(struct reader *reader, void *to, size_t bytes)
{
    assert_true((size_t)(reader->end - reader->at) >= bytes);
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
}

static struct reading take_reading(struct reader *reader)
{
    struct reading reading;
    take(reader, &reading.scale, sizeof reading.scale);
    take(reader, &reading.tracker, sizeof reading.tracker);
    return reading;
}

static void assert_reading(const struct grad_scaler *scaler, struct reading want,
                           const char *what, uint32_t kind, int step)
{
    struct scaler_state state = grad_scaler_read(scaler);
    if (float_bits(state.scale) != float_bits(want.scale) ||
        state.growth_tracker != want.tracker)
        fail_msg("topology %u, step %d, %s: scale %a tracker %d, PyTorch has %a and %d",
                 kind, step, what, (double)state.scale, state.growth_tracker,
                 (double)want.scale, want.tracker);
}

static float planted(int is_planted, int step)
{
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u};
    return is_planted ? float_of_bits(bad[step % 3]) : 0.0f;
}

static void replay_step(struct gan *gan, struct reader *reader, int step)
{
    uint8_t bits;
    struct reading want[3];
    float added, values[TOY_MAX];
    uint32_t kind = gan->topology.kind;
    const struct grad_scaler *d = &gan->toy[ROLE_D].scaler;
    const struct grad_scaler *g = &gan->toy[ROLE_G].scaler;
    int64_t d_taken = steps_taken(gan, ROLE_D), g_taken = steps_taken(gan, ROLE_G);
    take(reader, &bits, sizeof bits);
    for (int i = 0; i < 3; i++)
        want[i] = take_reading(reader);
    take(reader, &added, sizeof added);

    iterate_d(gan, planted(bits & 1, step), planted(bits >> 1 & 1, step));
    assert_reading(d, want[0], "D", kind, step);
    if (kind == TOPOLOGY_PER_LOSS)
        assert_reading(&gan->topology.fake, want[1], "D on fakes", kind, step);
    if (added != 0.0f) {
        toy_get_grads(&gan->toy[ROLE_D], values);
        assert_int_equal(float_bits(values[0]), float_bits(added));
    }
    iterate_g(gan, planted(bits >> 2 & 1, step));
    assert_reading(g, want[kind == TOPOLOGY_PER_LOSS ? 2 : 1], "G", kind, step);
    if (kind != TOPOLOGY_PER_LOSS)
        assert_reading(d, want[1], "D at the end", kind, step);
    assert_int_equal(steps_taken(gan, ROLE_D) - d_taken, bits >> 3 & 1);
    assert_int_equal(steps_taken(gan, ROLE_G) - g_taken, bits >> 4 & 1);
}

static void replay(struct reader *reader, struct device *device)
{
    struct grad_scaler_config config = grad_scaler_default_config();
    uint32_t kind;
    take(reader, &kind, sizeof kind);
    take(reader, &config.init_scale, sizeof config.init_scale);
    take(reader, &config.growth_factor, sizeof config.growth_factor);
    take(reader, &config.backoff_factor, sizeof config.backoff_factor);
    take(reader, &config.growth_interval, sizeof config.growth_interval);
    assert_in_range(kind, TOPOLOGY_SHARED, TOPOLOGY_PER_LOSS);
    struct gan gan;
    gan_open(&gan, device, (enum topology_kind)kind, SKIP_OWN, &config);
    for (int step = 0; step < STEPS; step++)
        replay_step(&gan, reader, step);
    gan_close(&gan);
}

static void replay_all(const char *device_name)
{
    static uint8_t data[65536];
    FILE *file = fopen(TESTS_DIR "/golden/topology_traces.bin", "rb");
    assert_non_null(file);
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    struct reader reader = {.at = data, .end = data + bytes};
    char magic[8];
    uint32_t sequences, steps;
    take(&reader, magic, sizeof magic);
    take(&reader, &sequences, sizeof sequences);
    take(&reader, &steps, sizeof steps);
    assert_memory_equal(magic, "TWINTOP1", sizeof magic);
    assert_int_equal(sequences, SEQUENCES);
    assert_int_equal(steps, STEPS);
    struct device *device;
    assert_int_equal(device_open(device_name, 1, &device), STATUS_OK);
    for (int k = 0; k < SEQUENCES; k++)
        replay(&reader, device);
    assert_ptr_equal(reader.at, reader.end);
    assert_int_equal(device_fault(device), STATUS_OK);
    device_close(device);
}

static void every_scale_tracker_and_step_is_pytorchs_on_ref(void **state)
{
    (void)state;
    replay_all("ref");
}

static void every_scale_tracker_and_step_is_pytorchs_on_cpu(void **state)
{
    (void)state;
    replay_all("cpu");
}

/* ---- one overflow, several scales ------------------------------------------------ */

static void open_at_1024(struct gan *gan, enum topology_kind kind, enum skip_rule skip)
{
    struct grad_scaler_config config = toy_config(1024.0, 2.0, 4);
    gan_open(gan, toy_device, kind, skip, &config);
}

static void assert_scales(struct gan *gan, float d, float g)
{
    assert_true(scale_of(gan, PASS_D_REAL) == d);
    assert_true(scale_of(gan, PASS_G_MAIN) == g);
}

static void a_shared_scale_halves_once_where_both_networks_overflow(void **state)
{
    (void)state;
    struct gan once, twice;
    open_at_1024(&once, TOPOLOGY_SHARED, SKIP_OWN);
    open_at_1024(&twice, TOPOLOGY_SHARED_PER_STEP, SKIP_OWN);
    iterate(&once, INFINITY, NAN);
    iterate(&twice, INFINITY, NAN);
    assert_scales(&once, 512.0f, 512.0f);
    assert_scales(&twice, 256.0f, 256.0f);
    // Both records tell the one move.
    assert_true(record_of(&once, ROLE_D).was_skipped);
    assert_true(record_of(&once, ROLE_G).was_skipped);
    assert_true(record_of(&once, ROLE_D).scale_after == 512.0f);
    assert_true(record_of(&once, ROLE_G).scale_used == 1024.0f);
    gan_close(&once);
    gan_close(&twice);
}

static void a_shared_scale_backs_off_and_the_sound_network_still_steps(void **state)
{
    (void)state;
    struct gan gan;
    open_at_1024(&gan, TOPOLOGY_SHARED, SKIP_OWN);
    iterate(&gan, 0.0f, INFINITY);
    struct step_record d = record_of(&gan, ROLE_D);
    assert_scales(&gan, 512.0f, 512.0f);
    assert_true(!d.was_skipped && d.skipped_in_a_row == 0 && d.backoffs == 1);
    assert_int_equal(steps_taken(&gan, ROLE_D), 1);
    assert_int_equal(steps_taken(&gan, ROLE_G), 0);
    gan_close(&gan);
}

static void either_loss_of_d_skips_its_step_and_only_its_own_scale_backs_off(void **state)
{
    (void)state;
    struct gan gan;
    open_at_1024(&gan, TOPOLOGY_PER_LOSS, SKIP_OWN);
    struct toy_weights before = toy_weights(&gan.toy[ROLE_D]);
    iterate_d(&gan, 0.0f, INFINITY);
    struct toy_weights after = toy_weights(&gan.toy[ROLE_D]);
    assert_same_weights(&after, &before);
    assert_true(record_of(&gan, ROLE_D).was_skipped);
    assert_true(record_of(&gan, ROLE_D).growth_tracker == 1); // its loss was good
    assert_true(scale_of(&gan, PASS_D_REAL) == 1024.0f);
    assert_true(scale_of(&gan, PASS_D_FAKE) == 512.0f);
    iterate_d(&gan, NAN, 0.0f);
    assert_true(scale_of(&gan, PASS_D_REAL) == 512.0f);
    assert_true(scale_of(&gan, PASS_D_FAKE) == 512.0f);
    assert_int_equal(record_of(&gan, ROLE_D).skipped_in_a_row, 2);
    // Both scalers of D count the steps that D did not take.
    struct step_record fake = grad_scaler_record(&gan.topology.fake);
    assert_true(fake.was_skipped && fake.skipped == 2 && fake.found_inf == 0.0f);
    assert_true(fake.backoffs == 1 && fake.growth_tracker == 1);
    iterate_d(&gan, 0.0f, 0.0f);
    after = toy_weights(&gan.toy[ROLE_D]);
    assert_other_params(&after, &before);
    gan_close(&gan);
}

static void finite_gradients_that_add_up_to_inf_skip_and_blame_no_scale(void **state)
{
    (void)state;
    struct gan gan;
    struct grad_scaler_config config = toy_config(1.0, 2.0, 2000);
    gan_open(&gan, toy_device, TOPOLOGY_PER_LOSS, SKIP_OWN, &config);
    struct toy_weights before = toy_weights(&gan.toy[ROLE_D]);
    iterate_d(&gan, 3e38f, 3e38f);
    struct toy_weights after = toy_weights(&gan.toy[ROLE_D]);
    assert_same_weights(&after, &before);
    assert_true(record_of(&gan, ROLE_D).was_skipped);
    assert_scales(&gan, 1.0f, 1.0f);
    assert_true(scale_of(&gan, PASS_D_FAKE) == 1.0f);
    gan_close(&gan);
}

/* ---- steps that are held back ---------------------------------------------------- */

static const enum topology_kind kinds[] = {TOPOLOGY_PER_NETWORK, TOPOLOGY_SHARED,
                                           TOPOLOGY_SHARED_PER_STEP, TOPOLOGY_PER_LOSS};

static void an_overflow_of_d_holds_back_gs_step_of_the_same_iteration(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct gan gan;
        open_at_1024(&gan, kinds[k], SKIP_BOTH);
        struct toy_weights before = toy_weights(&gan.toy[ROLE_G]);
        iterate(&gan, INFINITY, 0.0f);
        struct toy_weights after = toy_weights(&gan.toy[ROLE_G]);
        assert_same_weights(&after, &before);
        struct step_record g = record_of(&gan, ROLE_G);
        assert_true(g.was_held && !g.was_skipped && g.held == 1 && g.skipped == 0);
        assert_true(record_of(&gan, ROLE_D).was_skipped);
        iterate(&gan, 0.0f, 0.0f);
        assert_int_equal(steps_taken(&gan, ROLE_G), 1);
        assert_int_equal(steps_taken(&gan, ROLE_D), 1);
        gan_close(&gan);
    }
}

static void an_overflow_of_g_holds_back_ds_next_step(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct gan gan;
        open_at_1024(&gan, kinds[k], SKIP_BOTH);
        iterate(&gan, 0.0f, NAN);
        assert_int_equal(steps_taken(&gan, ROLE_D), 1);
        assert_false(record_of(&gan, ROLE_D).was_held);
        iterate(&gan, 0.0f, 0.0f);
        struct step_record d = record_of(&gan, ROLE_D);
        assert_true(d.was_held && !d.was_skipped && d.held == 1 && d.skipped == 0);
        if (kinds[k] == TOPOLOGY_PER_LOSS) { // both of D's scalers are held back
            struct step_record fake = grad_scaler_record(&gan.topology.fake);
            assert_true(fake.was_held && fake.held == 1 && fake.growth_tracker == 1);
        }
        assert_int_equal(steps_taken(&gan, ROLE_D), 1);
        assert_int_equal(steps_taken(&gan, ROLE_G), 1); // who was held holds nobody
        iterate(&gan, 0.0f, 0.0f);
        assert_int_equal(steps_taken(&gan, ROLE_D), 2);
        gan_close(&gan);
    }
}

static void a_held_step_moves_no_scale_of_its_own_and_counts_for_no_growth(void **state)
{
    (void)state;
    struct gan gan;
    open_at_1024(&gan, TOPOLOGY_PER_NETWORK, SKIP_BOTH);
    iterate(&gan, 0.0f, 0.0f);
    assert_int_equal(toy_tracker(&gan.toy[ROLE_G]), 1);
    iterate(&gan, INFINITY, 0.0f);
    assert_toy_scale(&gan.toy[ROLE_G], 1024.0f, 1);
    assert_toy_scale(&gan.toy[ROLE_D], 512.0f, 0);
    gan_close(&gan);
}

static void a_network_that_overflows_while_it_is_held_skips_and_backs_off(void **state)
{
    (void)state;
    struct gan gan;
    open_at_1024(&gan, TOPOLOGY_PER_NETWORK, SKIP_BOTH);
    iterate(&gan, INFINITY, INFINITY);
    assert_scales(&gan, 512.0f, 512.0f);
    assert_true(record_of(&gan, ROLE_G).was_skipped);
    assert_int_equal(record_of(&gan, ROLE_G).held, 0);
    gan_close(&gan);
}

static void with_skip_own_nobody_is_held(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct gan gan;
        open_at_1024(&gan, kinds[k], SKIP_OWN);
        iterate(&gan, INFINITY, 0.0f);
        iterate(&gan, 0.0f, INFINITY);
        iterate(&gan, 0.0f, 0.0f);
        assert_int_equal(steps_taken(&gan, ROLE_G), 2);
        assert_int_equal(steps_taken(&gan, ROLE_D), 2);
        assert_int_equal(record_of(&gan, ROLE_G).held, 0);
        assert_int_equal(record_of(&gan, ROLE_D).held, 0);
        gan_close(&gan);
    }
}

static void a_step_that_is_to_be_held_is_held_after_a_resume(void **state)
{
    (void)state;
    struct gan gan, resumed;
    open_at_1024(&gan, TOPOLOGY_PER_NETWORK, SKIP_BOTH);
    open_at_1024(&resumed, TOPOLOGY_PER_NETWORK, SKIP_BOTH);
    iterate(&gan, 0.0f, INFINITY);
    for (int i = 0; i < ROLES; i++) {
        struct grad_scaler_saved saved = grad_scaler_save(&gan.toy[i].scaler);
        assert_int_equal(saved.is_held, i == ROLE_D);
        assert_int_equal(grad_scaler_load(&resumed.toy[i].scaler, &saved), STATUS_OK);
    }
    // Setting a scale by hand does not set it free.
    assert_int_equal(grad_scaler_set(&resumed.toy[ROLE_D].scaler, 2048.0), STATUS_OK);
    iterate_d(&resumed, 0.0f, 0.0f);
    assert_true(record_of(&resumed, ROLE_D).was_held);
    assert_int_equal(steps_taken(&resumed, ROLE_D), 1);
    gan_close(&gan);
    gan_close(&resumed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scale_tracker_and_step_is_pytorchs_on_ref),
        cmocka_unit_test(every_scale_tracker_and_step_is_pytorchs_on_cpu),
        cmocka_unit_test(a_shared_scale_halves_once_where_both_networks_overflow),
        cmocka_unit_test(a_shared_scale_backs_off_and_the_sound_network_still_steps),
        cmocka_unit_test(
            either_loss_of_d_skips_its_step_and_only_its_own_scale_backs_off),
        cmocka_unit_test(finite_gradients_that_add_up_to_inf_skip_and_blame_no_scale),
        cmocka_unit_test(an_overflow_of_d_holds_back_gs_step_of_the_same_iteration),
        cmocka_unit_test(an_overflow_of_g_holds_back_ds_next_step),
        cmocka_unit_test(a_held_step_moves_no_scale_of_its_own_and_counts_for_no_growth),
        cmocka_unit_test(a_network_that_overflows_while_it_is_held_skips_and_backs_off),
        cmocka_unit_test(with_skip_own_nobody_is_held),
        cmocka_unit_test(a_step_that_is_to_be_held_is_held_after_a_resume),
    };
    return cmocka_run_group_tests(tests, toy_open_device, toy_close_device);
}
