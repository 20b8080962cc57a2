#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets/arch/dcgan.h"
#include "nets/optim/ema.h"
#include "nets/init.h"
#include "nets/sampler.h"
#include "tests/nets/shared_device.h"
#include "tests/support/support.h"

static size_t parameters(const struct net *net)
{
    size_t count = 0;
    for (int i = 0; i < net->param_count; i++)
        count += tensor_elements(&net->param[i].shape);
    return count;
}

static void test_sizes_are_those_of_the_published_example(void **state)
{
    (void)state;
    static struct net g, d;
    const struct dcgan_config config = {
        .resolution = 64, .channels = 3, .latent = 100, .g_width = 64, .d_width = 64};
    assert_int_equal(dcgan_generator(&g, device, &config, DTYPE_F16, 64), STATUS_OK);
    assert_int_equal(dcgan_discriminator(&d, device, &config, DTYPE_F16, 64), STATUS_OK);
    // PyTorch's DCGAN example: 3,576,704 and 2,765,568 parameters.
    assert_int_equal(parameters(&g), 3576704);
    assert_int_equal(parameters(&d), 2765568);
    assert_true(fabs(net_macs(&g) / 1e6 - 104.6) < 0.3);
    assert_true(fabs(net_macs(&d) / 1e6 - 103.8) < 0.3);
    // Row numbers are those of nn.Sequential: main.3.weight is the second convolution's.
    assert_string_equal(g.node[3].name, "conv2");
    assert_int_equal(g.node[13].activation, ACTIVATION_TANH);
    assert_int_equal(g.node_count, 14);
    assert_string_equal(d.node[2].name, "conv2");
    assert_int_equal(d.node_count, 12);
    net_release(&g);
    net_release(&d);
}

static void
test_every_resolution_and_channel_count_makes_images_and_one_logit(void **state)
{
    (void)state;
    const int resolutions[] = {28, 32, 64, 128};
    static struct net g, d;
    for (int r = 0; r < 4; r++) {
        for (int channels = 1; channels <= 4; channels++) {
            const struct dcgan_config config = {.resolution = resolutions[r],
                                                .channels = channels,
                                                .latent = 9,
                                                .g_width = 2,
                                                .d_width = 3};
            assert_int_equal(dcgan_generator(&g, device, &config, DTYPE_F32, 2),
                             STATUS_OK);
            assert_int_equal(dcgan_discriminator(&d, device, &config, DTYPE_F32, 2),
                             STATUS_OK);
            assert_true(shape_equal(g.node[g.node_count - 1].y.shape, d.input.shape));
            assert_true(shape_equal(d.node[d.node_count - 1].y.shape,
                                    (struct shape){2, 1, 1, 1}));
            assert_true(dcgan_has_resolution(resolutions[r]));
            net_release(&g);
            net_release(&d);
        }
    }
    assert_false(dcgan_has_resolution(48));
}

static void test_initial_weights_have_the_published_spread(void **state)
{
    (void)state;
    static struct net g;
    const struct dcgan_config config = {
        .resolution = 32, .channels = 1, .latent = 100, .g_width = 32, .d_width = 32};
    assert_int_equal(dcgan_generator(&g, device, &config, DTYPE_F16, 2), STATUS_OK);
    assert_int_equal(net_plan(&g, 0), STATUS_OK);
    net_initialise(&g, 5, 0);
    const struct tensor weight = net_param_tensor(&g, 0, g.params);
    double sum = 0, square = 0, n = (double)tensor_elements(&weight);
    for (size_t i = 0; i < tensor_elements(&weight); i++) {
        double value = (double)((float *)weight.data)[i];
        sum += value;
        square += value * value;
    }
    assert_true(fabs(sum / n) < 3 * 0.02 / sqrt(n));
    assert_true(fabs(sqrt(square / n) - 0.02) < 3 * 0.02 / sqrt(2 * n));
    const float *gamma = net_param_tensor(&g, 1, g.params).data;
    const float *beta = net_param_tensor(&g, 2, g.params).data;
    assert_true(gamma[0] != 1.0f && fabsf(gamma[0] - 1.0f) < 0.1f && beta[0] == 0.0f);
    net_release(&g);
}

static void test_the_moving_average_follows_its_half_life(void **state)
{
    (void)state;
    // 10 kimg half-life, 1,000 images a step: ten steps halve the distance.
    assert_true(fabs(pow(ema_decay(10, 0, 1000, 1000000), 10) - 0.5) < 1e-12);
    // The ramp-up shortens it early: after 2,000 images at 0.05 it is 100 images.
    assert_true(fabs(ema_decay(10, 0.05, 100, 2000) - 0.5) < 1e-12);
    assert_true(ema_decay(0, 0.05, 64, 1000) == 0.0);
    assert_true(fabs(ema_decay(0.0005, 0, 1, 1000) - 0.25) < 1e-12); // half an image
}

static const struct dcgan_config small = {
    .resolution = 28, .channels = 1, .latent = 8, .g_width = 4, .d_width = 4};

static void make_weights(struct net *g, uint64_t seed)
{
    assert_int_equal(dcgan_generator(g, device, &small, DTYPE_F16, 4), STATUS_OK);
    assert_int_equal(net_plan(g, NET_INFERENCE), STATUS_OK);
    net_initialise(g, seed, 0);
}

static void test_a_seed_gives_one_image_whatever_is_drawn_with_it(void **state)
{
    (void)state;
    static struct net g;
    static struct sampler sampler;
    make_weights(&g, 3);
    assert_int_equal(
        dcgan_generator(&sampler.net, device, &small, DTYPE_F16, SAMPLER_BATCH),
        STATUS_OK);
    assert_int_equal(sampler_plan(&sampler, 150), STATUS_OK);
    sampler_load(&sampler, device, g.params);
    enum { COUNT = 150, IMAGE = 28 * 28 };
    static uint8_t many[COUNT * IMAGE], few[3 * IMAGE];
    uint64_t seeds[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        seeds[i] = i;
    sampler_start(&sampler, seeds, COUNT);
    assert_int_equal(sampler_finish(&sampler, many), STATUS_OK);
    const uint64_t some[3] = {149, 7, 8};
    sampler_load(&sampler, device,
                 g.params); // the statistics do not depend on what was drawn
    sampler_start(&sampler, some, 3);
    assert_int_equal(sampler_finish(&sampler, few), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(few + i * IMAGE, many + some[i] * IMAGE, IMAGE);
    assert_memory_not_equal(many, many + IMAGE, IMAGE);
    sampler_release(&sampler);
    net_release(&g);
}

// Runs one of the calibration's batches by itself, and adds its statistics.
static void add_statistics_of_batch(struct sampler *sampler, int batch, double *sum)
{
    struct net *net = &sampler->net;
    device->ops->image.normal(device, 0, STREAM_CALIBRATE, NULL,
                              (uint64_t)batch * SAMPLER_BATCH, &sampler->z);
    net->norm_momentum = 1.0f;
    net_forward(net, &sampler->z, NET_TRAIN);
    for (size_t i = 0; i < net->buffer_elements; i++)
        sum[i] += (double)net->buffers[i];
}

static void
test_samples_are_normalised_by_the_mean_of_all_calibration_batches(void **state)
{
    (void)state;
    static struct net g;
    static struct sampler sampler;
    make_weights(&g, 5);
    assert_int_equal(
        dcgan_generator(&sampler.net, device, &small, DTYPE_F32, SAMPLER_BATCH),
        STATUS_OK);
    assert_int_equal(sampler_plan(&sampler, 1), STATUS_OK);
    sampler_load(&sampler, device, g.params);
    size_t n = sampler.net.buffer_elements;
    double *sum = calloc(n, sizeof *sum);
    float *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want);
    assert_true(n > 0 && sum && got && want);
    memcpy(got, sampler.net.buffers, n * sizeof *got);
    for (int batch = 0; batch < SAMPLER_CALIBRATION_BATCHES; batch++)
        add_statistics_of_batch(&sampler, batch, sum);
    for (size_t i = 0; i < n; i++)
        want[i] = (float)(sum[i] / SAMPLER_CALIBRATION_BATCHES);
    assert_f32_close("running statistics", got, want, n, 1e-6, 1e-5, 5);
    free(sum);
    free(got);
    free(want);
    sampler_release(&sampler);
    net_release(&g);
}

static void test_the_average_of_constant_weights_is_those_weights(void **state)
{
    (void)state;
    static struct net g;
    struct ema ema;
    make_weights(&g, 4);
    assert_int_equal(ema_create(&ema, &g, 1.0, 0.0), STATUS_OK);
    ema_reset(&ema);
    struct adam adam;
    const struct adam_config config = {.lr = 0.1f, .beta1 = 0.5f, .beta2 = 0.9f};
    assert_int_equal(adam_create(&adam, &g, &config), STATUS_OK);
    ema_attach(&ema, &adam);
    struct scaler_state skips = {.scale = 1.0f, .enabled = 1, .found_inf = 1.0f};
    for (int i = 0; i < 5; i++) {
        ema_prepare_step(&ema, 64, 64 * i);
        adam_step(&adam.optimizer, 0, &skips);
    }
    assert_f32_close("ema", ema.average, g.params, g.param_elements, 0, 1e-6, 4);
    adam_release(&adam);
    ema_release(&ema);
    net_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_those_of_the_published_example),
        cmocka_unit_test(
            test_every_resolution_and_channel_count_makes_images_and_one_logit),
        cmocka_unit_test(test_initial_weights_have_the_published_spread),
        cmocka_unit_test(test_the_moving_average_follows_its_half_life),
        cmocka_unit_test(test_a_seed_gives_one_image_whatever_is_drawn_with_it),
        cmocka_unit_test(
            test_samples_are_normalised_by_the_mean_of_all_calibration_batches),
        cmocka_unit_test(test_the_average_of_constant_weights_is_those_weights),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
