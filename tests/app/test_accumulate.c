/* test_accumulate.c - several batches that make one optimizer step are one large batch.
 *
 * The linker puts the networks of this file in the place of the DCGANs: they have no
 * batch norm, whose statistics are those of each batch. The random numbers are in their
 * place too: here a latent depends on its number within the run alone, so that two
 * batches of 8 are the same as one of 16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/config/config.h"
#include "app/train/train.h"
#include "nets/layers/layers.h"
#include "tests/support/support.h"

/* ---- networks without batch norm ------------------------------------------------- */

enum status __wrap_dcgan_generator(struct net *net, struct device *device,
                                   const struct dcgan_config *config, enum dtype dtype,
                                   int batch);
enum status __wrap_dcgan_discriminator(struct net *net, struct device *device,
                                       const struct dcgan_config *config,
                                       enum dtype dtype, int batch);

enum status __wrap_dcgan_generator(struct net *net, struct device *device,
                                   const struct dcgan_config *config, enum dtype dtype,
                                   int batch)
{
    TRY(net_begin(net, device, "g", dtype, (struct shape){batch, 1, 1, config->latent}));
    net_add_conv_transpose(net, "conv1", NET_PREVIOUS, 8, 4, 1, 0, 1);
    net_add_activation(net, "act1", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    net_add_conv_transpose(net, "conv2", NET_PREVIOUS, 8, 4, 4, 0, 1);
    net_add_activation(net, "act2", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    net_add_conv_transpose(net, "conv3", NET_PREVIOUS, config->channels, 4, 2, 1, 0);
    net_add_activation(net, "tanh", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    return STATUS_OK;
}

enum status __wrap_dcgan_discriminator(struct net *net, struct device *device,
                                       const struct dcgan_config *config,
                                       enum dtype dtype, int batch)
{
    TRY(net_begin(
        net, device, "d", dtype,
        (struct shape){batch, config->resolution, config->resolution, config->channels}));
    net_add_conv(net, "conv1", NET_PREVIOUS, 8, 4, 2, 1, 1);
    net_add_activation(net, "act1", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    net_add_conv(net, "conv2", NET_PREVIOUS, 8, 4, 4, 0, 0);
    net_add_activation(net, "act2", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    net_add_conv(net, "conv3", NET_PREVIOUS, 1, 4, 1, 0, 0);
    net_make_head_f32(net);
    return STATUS_OK;
}

/* ---- a device that is watched ---------------------------------------------------- */

#define DRAWS_MAX 64

static struct {
    struct ops ops;
    const struct ops *own;
    uint64_t draws[DRAWS_MAX]; // whose latents were made, in turn
    int draw_count, losses, spoilt_loss;
    float weight[DRAWS_MAX]; // of each loss, in turn
} watched;

static void watched_normal(struct device *device, uint64_t seed, uint32_t stream,
                           const uint64_t *step, uint64_t first_row, struct tensor *z)
{
    uint64_t draw = step ? *step : 0;
    if (stream == STREAM_LATENT && watched.draw_count < DRAWS_MAX)
        watched.draws[watched.draw_count++] = draw;
    watched.own->image.normal(device, seed, stream, NULL,
                              first_row + draw * (uint64_t)z->shape.n, z);
}

static void watched_loss(struct device *device, enum loss_kind kind,
                         const struct tensor *logits, float target, float weight,
                         const struct scaler_state *state, struct tensor *seed,
                         struct loss_sums *sums)
{
    watched.own->loss.on_logits(device, kind, logits, target, weight, state, seed, sums);
    if (watched.losses < DRAWS_MAX)
        watched.weight[watched.losses] = weight;
    if (watched.losses++ == watched.spoilt_loss)
        ((float *)seed->data)[0] = INFINITY;
}

static void open_trainer(struct trainer *trainer, int batch, int d_accum, int g_accum,
                         int n_dis)
{
    struct config config;
    config_default(&config);
    snprintf(config.data, sizeof config.data, "builtin:shapes");
    config.resolution = 32;
    config.latent = 16;
    config.batch = batch;
    config.n_dis = n_dis;
    config.threads = 1;
    config.precision = PRECISION_FP32;
    config.scaler = SCALER_PER_NETWORK;
    config.g.init_scale = config.d.init_scale = 1024.0;
    // Both networks stay where they are, so that gradients can be compared.
    config.g.lr = config.d.lr = 1e-12;
    config.d.accum = d_accum;
    config.g.accum = g_accum;
    snprintf(config.device, sizeof config.device, "cpu");
    assert_int_equal(trainer_create(trainer, &config), STATUS_OK);
    assert_int_equal(trainer_start_data(trainer), STATUS_OK);
    watched.own = trainer->device->ops;
    watched.ops = *watched.own;
    watched.ops.image.normal = watched_normal;
    watched.ops.loss.on_logits = watched_loss;
    watched.draw_count = watched.losses = 0;
    watched.spoilt_loss = -1;
    trainer->device->ops = &watched.ops;
}

static void step(struct trainer *trainer)
{
    train_step(trainer);
    enum status status = train_collect_all(trainer);
    if (status != STATUS_OK)
        fail_msg("%s", status_message());
}

/* ---- the same as one large batch ------------------------------------------------- */

// The largest difference of two networks' gradients, as a share of the largest gradient.
static double difference(const struct trainer *a, const struct trainer *b, int network)
{
    const struct net *x = &a->gan.net[network], *y = &b->gan.net[network];
    double largest = 0.0, apart = 0.0;
    for (size_t i = 0; i < x->param_elements; i++) {
        largest = fmax(largest, fabs((double)x->grads[i]));
        apart = fmax(apart, fabs((double)x->grads[i] - (double)y->grads[i]));
    }
    assert_true(largest > 0.0);
    return apart / largest;
}

static void assert_same_loss(const struct loss_sums *a, const struct loss_sums *b)
{
    assert_true(a->count == b->count);
    assert_true(fabs(a->loss - b->loss) <= 1e-5 * fabs(b->loss));
}

static void test_batches_of_a_step_are_one_large_batch(void **state)
{
    (void)state;
    static const int accums[] = {2, 3, 4};
    for (int k = 0; k < 3; k++) {
        struct trainer parts, whole;
        open_trainer(&whole, 8 * accums[k], 1, 1, 1);
        step(&whole);
        open_trainer(&parts, 8, accums[k], accums[k], 1);
        step(&parts);
        for (int network = 0; network < ROLES; network++) {
            double apart = difference(&parts, &whole, network);
            print_message("%d batches, %s: %.2g apart\n", accums[k],
                          network == ROLE_G ? "G" : "D", apart);
            assert_true(apart < 5e-6);
        }
        struct step_losses a = train_losses(&parts), b = train_losses(&whole);
        assert_same_loss(&a.of[PASS_D_REAL], &b.of[PASS_D_REAL]);
        assert_same_loss(&a.of[PASS_D_FAKE], &b.of[PASS_D_FAKE]);
        assert_same_loss(&a.of[PASS_G_MAIN], &b.of[PASS_G_MAIN]);
        assert_int_equal(parts.progress.images, whole.progress.images);
        trainer_release(&parts);
        trainer_release(&whole);
    }
}

static void test_each_network_divides_its_losses_by_its_own_batches(void **state)
{
    (void)state;
    struct trainer trainer;
    open_trainer(&trainer, 4, 2, 4, 1);
    step(&trainer);
    assert_int_equal(watched.losses, 2 * 2 + 4); // D on real and on fakes, then G
    for (int loss = 0; loss < watched.losses; loss++)
        assert_true(watched.weight[loss] == (loss < 4 ? 0.5f : 0.25f));
    trainer_release(&trainer);
}

static void test_another_batch_would_be_seen(void **state)
{
    (void)state;
    struct trainer parts, other;
    open_trainer(&other, 8, 1, 1, 1);
    step(&other);
    open_trainer(&parts, 8, 2, 2, 1);
    step(&parts);
    assert_true(difference(&parts, &other, ROLE_D) > 1e-3);
    assert_true(difference(&parts, &other, ROLE_G) > 1e-3);
    trainer_release(&parts);
    trainer_release(&other);
}

/* ---- draws ----------------------------------------------------------------------- */

static void assert_draws(int d_accum, int g_accum, int n_dis, const uint64_t *want,
                         int count)
{
    struct trainer trainer;
    open_trainer(&trainer, 4, d_accum, g_accum, n_dis);
    step(&trainer);
    assert_int_equal(watched.draw_count, count);
    assert_memory_equal(watched.draws, want, (size_t)count * sizeof *want);
    assert_int_equal(trainer.progress.images, (int64_t)4 * d_accum * n_dis);
    // The next step begins with the draw that its images tell, as after a resume.
    watched.draw_count = 0;
    step(&trainer);
    assert_int_equal(watched.draws[0], d_accum * n_dis);
    trainer_release(&trainer);
}

static void test_g_trains_on_the_fakes_that_d_saw_last(void **state)
{
    (void)state;
    static const uint64_t alone[] = {0};
    static const uint64_t same[] = {0, 1, 0};              // G: 1, which is there, and 0
    static const uint64_t fewer[] = {0, 1, 2, 3, 4, 5, 4}; // G: 5 and 4
    static const uint64_t more[] = {0, 1, 0, 2, 3};        // G: 1, 0, and two to come
    static const uint64_t only_g[] = {0, 1, 2, 3, 4}; // G: 2, which is there, 3 and 4
    assert_draws(1, 1, 1, alone, 1);
    assert_draws(2, 2, 1, same, 3);
    assert_draws(3, 2, 2, fewer, 7);
    assert_draws(2, 4, 1, more, 5);
    assert_draws(1, 3, 3, only_g, 5);
}

/* ---- one check for all ----------------------------------------------------------- */

static void test_an_inf_in_any_batch_spoils_the_whole_step(void **state)
{
    (void)state;
    // Of two batches: D real, D fake, twice; then G's two.
    for (int loss = -1; loss < 6; loss++) {
        struct trainer trainer;
        open_trainer(&trainer, 4, 2, 2, 1);
        watched.spoilt_loss = loss;
        step(&trainer);
        for (int network = 0; network < ROLES; network++) {
            const struct step_record *record = &trainer.last.record[network];
            int is_spoilt = loss >= 0 && (network == ROLE_G) == (loss >= 4);
            assert_int_equal(record->updates, 1);
            assert_int_equal(record->skipped, is_spoilt);
            assert_int_equal(record->adam_t, !is_spoilt);
            assert_true(record->scale_after == (is_spoilt ? 512.0f : 1024.0f));
        }
        trainer_release(&trainer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_of_a_step_are_one_large_batch),
        cmocka_unit_test(test_each_network_divides_its_losses_by_its_own_batches),
        cmocka_unit_test(test_another_batch_would_be_seen),
        cmocka_unit_test(test_g_trains_on_the_fakes_that_d_saw_last),
        cmocka_unit_test(test_an_inf_in_any_batch_spoils_the_whole_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
