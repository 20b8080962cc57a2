/* test_settings.c - every setting that a trainer is built from arrives where it acts, for
 * each network by itself. The linker puts device_open_with() of this file before the
 * product's, so that what only a GPU heeds can be seen too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/train/train.h"
#include "kernels/device.h"
#include "nets/layers/layers.h"
#include "tests/app/data_folder.h"
#include "tests/app/make_png.h"
#include "tests/app/runs.h"
#include "tests/support/support.h"

enum status __wrap_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device);
enum status __real_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device);

static struct device_options asked;
static char asked_name[32];

enum status __wrap_device_open_with(const char *name,
                                    const struct device_options *options,
                                    struct device **device)
{
    asked = *options;
    snprintf(asked_name, sizeof asked_name, "%s", name);
    return __real_device_open_with("cpu", options, device);
}

static int open_folder(void **state)
{
    int status = data_folder_begin(state);
    write_png(in("a.png"), 61, 40, 2, colours);
    write_png(in("b.png"), 61, 40, 2, grey_40);
    return status;
}

// Two pictures make a trainer in milliseconds.
static struct config two_pictures(void)
{
    struct config config = small_config();
    snprintf(config.data, sizeof config.data, "%s", folder);
    config.batch = 2;
    return config;
}

static void set(struct config *config, const char *name, const char *value)
{
    if (config_set(config, name, value, "test") != STATUS_OK)
        fail_msg("%s", status_message());
}

static void create(struct trainer *trainer, const struct config *config)
{
    if (trainer_create(trainer, config) != STATUS_OK)
        fail_msg("%s", status_message());
}

static void create_with(struct trainer *trainer, const char *name, const char *value)
{
    struct config config = two_pictures();
    set(&config, name, value);
    create(trainer, &config);
}

/* ---- the device ------------------------------------------------------------------ */

static void test_what_is_asked_of_a_device_reaches_it(void **state)
{
    (void)state;
    struct trainer trainer;
    create_with(&trainer, "device", "cuda:0");
    trainer_release(&trainer);
    assert_string_equal(asked_name, "cuda:0");
    assert_int_equal(asked.threads, 1);
    assert_true(!asked.allows_tf32 && !asked.is_deterministic && !asked.is_plain &&
                !asked.tunes_plans);
    create_with(&trainer, "threads", "2");
    trainer_release(&trainer);
    assert_int_equal(asked.threads, 2);
    create_with(&trainer, "tf32", "1");
    trainer_release(&trainer);
    assert_true(asked.allows_tf32 && !asked.is_deterministic);
    create_with(&trainer, "deterministic", "1");
    trainer_release(&trainer);
    assert_true(asked.is_deterministic && !asked.allows_tf32);
    create_with(&trainer, "graph", "0");
    trainer_release(&trainer);
    assert_true(asked.is_plain && !asked.tunes_plans);
    create_with(&trainer, "tune_plans", "1");
    trainer_release(&trainer);
    assert_true(asked.tunes_plans && !asked.is_plain);
}

/* ---- the networks ---------------------------------------------------------------- */

// What a network's part of the trainer holds.
struct held {
    double lr, beta1, beta2, eps, clip_norm;
    double growth_factor, backoff_factor, overflow_tolerance;
    double init_scale, min_scale, max_scale;
    int64_t growth_interval;
    int hysteresis, hysteresis_refill, growth_delay, width;
    enum dtype dtype;
};

static struct held held_by(const struct trainer *trainer, int network)
{
    const struct scaler_state *scale = trainer->scaler[network].state;
    const struct adam_config *adam = &trainer->adam[network].config;
    const struct net *net = &trainer->gan.net[network];
    // The largest map is what G's last convolution reads and D's first one makes.
    const struct node *conv = &net->node[0];
    for (int i = 0; network == ROLE_G && i < net->node_count; i++)
        if (node_conv(&net->node[i]))
            conv = &net->node[i];
    return (struct held){.lr = (double)adam->lr,
                         .beta1 = (double)adam->beta1,
                         .beta2 = (double)adam->beta2,
                         .eps = (double)adam->eps,
                         .clip_norm =
                             (double)trainer->topology.network[network].clip_norm,
                         .growth_factor = scale->growth_factor,
                         .backoff_factor = scale->backoff_factor,
                         .overflow_tolerance = scale->overflow_tolerance,
                         .init_scale = (double)scale->scale,
                         .min_scale = (double)scale->min_scale,
                         .max_scale = (double)scale->max_scale,
                         .growth_interval = scale->growth_interval,
                         .hysteresis = scale->hysteresis,
                         .hysteresis_refill = scale->hysteresis_refill,
                         .growth_delay = scale->growth_delay,
                         .width = node_conv(conv)->y.c,
                         .dtype = net->dtype};
}

static int is_near(double got, double want)
{
    return fabs(got - want) <= 1e-6 * fabs(want);
}

static void assert_defaults(const struct held *held)
{
    assert_true(is_near(held->lr, 2e-4) && is_near(held->beta1, 0.5));
    assert_true(is_near(held->beta2, 0.999) && is_near(held->eps, 1e-8));
    assert_true(held->clip_norm == 0.0 && held->growth_factor == 2.0);
    assert_true(held->backoff_factor == 0.5 && held->overflow_tolerance == 0.0);
    assert_true(held->init_scale == 65536.0 && held->max_scale == 0.0);
    assert_true(held->min_scale <= 1.2e-38); // the smallest that can be divided by
    assert_int_equal(held->growth_interval, 2000);
    assert_int_equal(held->hysteresis, 1);
    assert_int_equal(held->hysteresis_refill, REFILL_ON_GROWTH);
    assert_int_equal(held->growth_delay, 0);
    assert_int_equal(held->width, 8);
    assert_int_equal(held->dtype, DTYPE_F16);
}

static void test_g_has_its_own_settings_and_d_the_defaults(void **state)
{
    (void)state;
    struct trainer trainer;
    struct config config = two_pictures();
    set(&config, "g_lr", "0.01");
    set(&config, "g_beta1", "0.25");
    set(&config, "g_beta2", "0.75");
    set(&config, "g_eps", "0.001");
    set(&config, "g_clip_norm", "3");
    set(&config, "g_growth_factor", "4");
    set(&config, "g_backoff_factor", "0.25");
    set(&config, "g_init_scale", "512");
    set(&config, "g_min_scale", "16");
    set(&config, "g_max_scale", "4096");
    set(&config, "g_growth_interval", "7");
    set(&config, "g_hysteresis", "3");
    set(&config, "g_hysteresis_refill", "step");
    set(&config, "g_growth_delay", "5");
    set(&config, "g_width", "12");
    set(&config, "g_precision", "fp32");
    create(&trainer, &config);
    struct held g = held_by(&trainer, ROLE_G), d = held_by(&trainer, ROLE_D);
    assert_true(is_near(g.lr, 0.01) && is_near(g.beta1, 0.25));
    assert_true(is_near(g.beta2, 0.75) && is_near(g.eps, 0.001));
    assert_true(g.clip_norm == 3.0 && g.growth_factor == 4.0);
    assert_true(g.backoff_factor == 0.25 && g.init_scale == 512.0);
    assert_true(g.min_scale == 16.0 && g.max_scale == 4096.0);
    assert_int_equal(g.growth_interval, 7);
    assert_int_equal(g.hysteresis, 3);
    assert_int_equal(g.hysteresis_refill, REFILL_ON_STEP);
    assert_int_equal(g.growth_delay, 5);
    assert_int_equal(g.width, 12);
    assert_int_equal(g.dtype, DTYPE_F32);
    assert_defaults(&d);
    trainer_release(&trainer);
    create_with(&trainer, "g_overflow_tolerance", "0.25");
    g = held_by(&trainer, ROLE_G);
    d = held_by(&trainer, ROLE_D);
    assert_true(g.overflow_tolerance == 0.25);
    assert_defaults(&d);
    trainer_release(&trainer);
}

static void test_d_has_its_own_settings_and_g_the_defaults(void **state)
{
    (void)state;
    struct trainer trainer;
    struct config config = two_pictures();
    set(&config, "d_lr", "0.01");
    set(&config, "d_beta1", "0.25");
    set(&config, "d_beta2", "0.75");
    set(&config, "d_eps", "0.001");
    set(&config, "d_clip_norm", "3");
    set(&config, "d_growth_factor", "4");
    set(&config, "d_backoff_factor", "0.25");
    set(&config, "d_init_scale", "512");
    set(&config, "d_min_scale", "16");
    set(&config, "d_max_scale", "4096");
    set(&config, "d_growth_interval", "7");
    set(&config, "d_hysteresis", "3");
    set(&config, "d_hysteresis_refill", "step");
    set(&config, "d_growth_delay", "5");
    set(&config, "d_width", "12");
    set(&config, "d_precision", "bf16");
    set(&config, "scaler", "per-network"); // bf16 alone has none
    create(&trainer, &config);
    struct held g = held_by(&trainer, ROLE_G), d = held_by(&trainer, ROLE_D);
    assert_true(is_near(d.lr, 0.01) && is_near(d.beta1, 0.25));
    assert_true(is_near(d.beta2, 0.75) && is_near(d.eps, 0.001));
    assert_true(d.clip_norm == 3.0 && d.growth_factor == 4.0);
    assert_true(d.backoff_factor == 0.25 && d.init_scale == 512.0);
    assert_true(d.min_scale == 16.0 && d.max_scale == 4096.0);
    assert_int_equal(d.growth_interval, 7);
    assert_int_equal(d.hysteresis, 3);
    assert_int_equal(d.hysteresis_refill, REFILL_ON_STEP);
    assert_int_equal(d.growth_delay, 5);
    assert_int_equal(d.width, 12);
    assert_int_equal(d.dtype, DTYPE_BF16);
    assert_defaults(&g);
    trainer_release(&trainer);
    create_with(&trainer, "d_overflow_tolerance", "0.25");
    g = held_by(&trainer, ROLE_G);
    d = held_by(&trainer, ROLE_D);
    assert_true(d.overflow_tolerance == 0.25);
    assert_defaults(&g);
    trainer_release(&trainer);
}

static void test_both_networks_have_the_precision_of_the_run(void **state)
{
    (void)state;
    struct trainer trainer;
    create_with(&trainer, "precision", "fp32");
    for (int network = 0; network < ROLES; network++) {
        assert_int_equal(trainer.gan.net[network].dtype, DTYPE_F32);
        assert_int_equal(trainer.scaler[network].state->enabled, 0);
    }
    trainer_release(&trainer);
    create_with(&trainer, "fp32_layers", "d.conv1");
    assert_int_equal(trainer.gan.net[ROLE_D].node[0].dtype, DTYPE_F32);
    assert_int_equal(trainer.gan.net[ROLE_G].node[0].dtype, DTYPE_F16);
    trainer_release(&trainer);
}

static void test_a_network_that_recomputes_plans_to(void **state)
{
    (void)state;
    struct trainer trainer;
    create_with(&trainer, "recompute", "1");
    for (int network = 0; network < ROLES; network++)
        assert_true(trainer.gan.net[network].options & NET_RECOMPUTE);
    trainer_release(&trainer);
    create_with(&trainer, "recompute", "0");
    for (int network = 0; network < ROLES; network++)
        assert_false(trainer.gan.net[network].options & NET_RECOMPUTE);
    trainer_release(&trainer);
}

/* ---- the scalers together -------------------------------------------------------- */

static void test_scaler_and_skip_choose_the_topology(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum topology_kind kind;
        int is_enabled, is_static;
    } cases[] = {{"auto", TOPOLOGY_PER_NETWORK, 1, 0},
                 {"per-network", TOPOLOGY_PER_NETWORK, 1, 0},
                 {"shared", TOPOLOGY_SHARED, 1, 0},
                 {"shared-per-step", TOPOLOGY_SHARED_PER_STEP, 1, 0},
                 {"per-loss", TOPOLOGY_PER_LOSS, 1, 0},
                 {"static", TOPOLOGY_PER_NETWORK, 1, 1},
                 {"off", TOPOLOGY_PER_NETWORK, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trainer trainer;
        create_with(&trainer, "scaler", cases[i].word);
        assert_int_equal(trainer.topology.kind, cases[i].kind);
        assert_int_equal(trainer.topology.skip, SKIP_OWN);
        for (int network = 0; network < ROLES; network++) {
            const struct scaler_state *scale = trainer.scaler[network].state;
            assert_int_equal(scale->enabled, cases[i].is_enabled);
            assert_int_equal(scale->is_static, cases[i].is_static);
        }
        trainer_release(&trainer);
    }
    struct trainer trainer;
    create_with(&trainer, "skip", "both");
    assert_int_equal(trainer.topology.skip, SKIP_BOTH);
    trainer_release(&trainer);
}

/* ---- the run --------------------------------------------------------------------- */

static void test_the_sizes_of_a_step_are_as_they_are_set(void **state)
{
    (void)state;
    struct trainer trainer;
    struct config config = two_pictures();
    set(&config, "batch", "6");
    set(&config, "latent", "24");
    set(&config, "n_dis", "3");
    set(&config, "d_accum", "2");
    set(&config, "g_accum", "4");
    set(&config, "grid", "3x5");
    create(&trainer, &config);
    assert_int_equal(trainer.gan.net[ROLE_D].input.shape.n, 6);
    assert_int_equal(trainer.gan.net[ROLE_G].input.shape.n, 6);
    assert_int_equal(trainer.gan.net[ROLE_G].input.shape.c, 24);
    assert_int_equal(trainer.results.record_count, 4); // three of D, one of G
    assert_int_equal(trainer.feed.turns, 6);           // batches that a step takes
    assert_int_equal(trainer.results.sums_count, 2 * 6 + 4);
    assert_int_equal(trainer.sampler.room, 15);
    trainer_release(&trainer);
}

static void test_a_seed_chooses_weights_latents_and_order(void **state)
{
    (void)state;
    struct trainer one, other;
    create_with(&one, "seed", "1");
    create_with(&other, "seed", "2");
    for (int network = 0; network < ROLES; network++) {
        const struct net *a = &one.gan.net[network], *b = &other.gan.net[network];
        assert_memory_not_equal(a->params, b->params, 64 * sizeof(float));
    }
    assert_int_equal(one.feed.seed, 1);
    assert_int_equal(other.feed.seed, 2);
    assert_int_equal(trainer_stream_seed(&other), 2);
    trainer_release(&one);
    trainer_release(&other);
}

static float decay_after_a_step(const char *name, const char *value)
{
    struct trainer trainer;
    create_with(&trainer, name, value);
    assert_int_equal(trainer_start_data(&trainer), STATUS_OK);
    train_step(&trainer);
    float decay = *trainer.ema.decay;
    assert_int_equal(train_collect_all(&trainer), STATUS_OK);
    trainer_release(&trainer);
    return decay;
}

// The first step of 2 images, of which the half-life may be the share `ema_rampup`.
static void test_the_average_has_the_half_life_and_the_rampup_that_are_set(void **state)
{
    (void)state;
    assert_true(
        is_near((double)decay_after_a_step("ema_rampup", "0.05"), pow(0.5, 2.0 / 0.1)));
    assert_true(
        is_near((double)decay_after_a_step("ema_rampup", "0.5"), pow(0.5, 2.0 / 1.0)));
    assert_true(
        is_near((double)decay_after_a_step("ema_rampup", "0"), pow(0.5, 2.0 / 10000.0)));
    assert_true(
        is_near((double)decay_after_a_step("ema_kimg", "0.00005"), pow(0.5, 2.0 / 0.05)));
    assert_true(decay_after_a_step("ema_kimg", "0") == 0.0f);
}

/* ---- the data -------------------------------------------------------------------- */

static uint64_t pixels_with(const char *name, const char *value)
{
    struct trainer trainer;
    struct config config = two_pictures();
    set(&config, name, value);
    create(&trainer, &config);
    uint64_t digest = trainer.dataset->digest;
    trainer_release(&trainer);
    return digest;
}

static void test_pictures_are_fitted_and_resized_as_they_are_set(void **state)
{
    (void)state;
    uint64_t crop = pixels_with("fit", "crop"), pad = pixels_with("fit", "pad");
    uint64_t stretch = pixels_with("fit", "stretch");
    assert_true(crop != pad && pad != stretch && crop != stretch);
    assert_true(pixels_with("resize_filter", "lanczos") == crop);
    assert_true(pixels_with("resize_filter", "area") != crop);
    assert_true(pixels_with("channels", "3") == crop);
    assert_true(pixels_with("channels", "1") != crop);
    assert_true(pixels_with("resolution", "64") != crop);
}

static void test_a_file_that_cannot_be_used_ends_a_strict_run(void **state)
{
    (void)state;
    struct trainer trainer;
    struct config config = two_pictures();
    shell("printf broken >\"$1\"", in("c.png"));
    create(&trainer, &config);
    assert_int_equal(trainer.dataset->count, 2);
    trainer_release(&trainer);
    set(&config, "strict", "1");
    assert_int_equal(trainer_create(&trainer, &config), STATUS_DATA);
    assert_non_null(strstr(status_message(), "c.png"));
    trainer_release(&trainer);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_folder, data_folder_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_asked_of_a_device_reaches_it),
        TEST(test_g_has_its_own_settings_and_d_the_defaults),
        TEST(test_d_has_its_own_settings_and_g_the_defaults),
        TEST(test_both_networks_have_the_precision_of_the_run),
        TEST(test_a_network_that_recomputes_plans_to),
        TEST(test_scaler_and_skip_choose_the_topology),
        TEST(test_the_sizes_of_a_step_are_as_they_are_set),
        TEST(test_a_seed_chooses_weights_latents_and_order),
        TEST(test_the_average_has_the_half_life_and_the_rampup_that_are_set),
        TEST(test_pictures_are_fitted_and_resized_as_they_are_set),
        TEST(test_a_file_that_cannot_be_used_ends_a_strict_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
