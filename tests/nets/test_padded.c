/* test_padded.c - a device that stores channels in multiples of 8 computes the same. */
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/arch/dcgan.h"
#include "nets/init.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

// No size is a multiple of 8.
static const struct dcgan_config sizes = {
    .resolution = 28, .channels = 3, .latent = 5, .g_width = 3, .d_width = 5};

enum { BATCH = 3 };

/* One network on a reference device that pads to `multiple`, after one pass down and
 * up. */
struct run {
    struct device *device;
    struct net net;
    struct tensor input;
};

// Element numbers count what the shape names, so both layouts hold the same values.
static void fill_named(struct tensor *tensor)
{
    size_t pixels =
        (size_t)tensor->shape.n * (size_t)tensor->shape.h * (size_t)tensor->shape.w;
    for (size_t pixel = 0, number = 0; pixel < pixels; pixel++)
        for (int c = 0; c < tensor->shape.c; c++, number++)
            element_store(tensor->data, tensor->dtype,
                          pixel * (size_t)tensor->c_stored + (size_t)c,
                          (float)((number * 37) % 101) / 101.0f - 0.5f);
}

static void run_network(struct run *run, int multiple, int is_generator, enum dtype dtype,
                        const char *held, int options)
{
    struct dcgan_config config = sizes;
    config.fp32_layers = held;
    assert_int_equal(device_open("ref", 1, &run->device), STATUS_OK);
    run->device->channel_multiple = multiple;
    if (is_generator)
        assert_int_equal(dcgan_generator(&run->net, run->device, &config, dtype, BATCH),
                         STATUS_OK);
    else
        assert_int_equal(
            dcgan_discriminator(&run->net, run->device, &config, dtype, BATCH),
            STATUS_OK);
    assert_int_equal(net_plan(&run->net, NET_INPUT_GRAD | options), STATUS_OK);
    net_initialise(&run->net, 11, 0);
    run->input = run->net.input;
    run->input.data = calloc(1, tensor_bytes(&run->input));
    assert_non_null(run->input.data);
    fill_named(&run->input);
    net_forward(&run->net, &run->input, NET_TRAIN);
    fill_named(&run->net.output_grad);
    run_backward(&run->net, &run->input, WGRAD | DGRAD);
}

static void close_run(struct run *run)
{
    free(run->input.data);
    net_release(&run->net);
    device_close(run->device);
}

// Equal where the shape names an element, zero where only the padding does.
static void assert_same_values(const char *what, const struct tensor *plain,
                               const struct tensor *padded)
{
    assert_true(shape_equal(plain->shape, padded->shape));
    size_t pixels =
        (size_t)plain->shape.n * (size_t)plain->shape.h * (size_t)plain->shape.w;
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        for (int c = 0; c < padded->c_stored; c++) {
            size_t place = pixel * (size_t)padded->c_stored + (size_t)c;
            float got = element_load(padded->data, padded->dtype, place);
            float want = c < plain->shape.c
                             ? element_load(plain->data, plain->dtype,
                                            pixel * (size_t)plain->c_stored + (size_t)c)
                             : 0.0f;
            if (got != want)
                fail_msg("%s, pixel %zu, channel %d: padded %g, plain %g", what, pixel, c,
                         (double)got, (double)want);
        }
    }
}

static void compare_with(int is_generator, enum dtype dtype, const char *held,
                         int options)
{
    static struct run plain, padded;
    run_network(&plain, 1, is_generator, dtype, held, 0);
    run_network(&padded, 8, is_generator, dtype, held, options);
    assert_same_values("output", net_output(&plain.net), net_output(&padded.net));
    assert_same_values("input gradient", &plain.net.input_grad, &padded.net.input_grad);
    for (int i = 0; i < plain.net.param_count; i++) {
        struct tensor one = net_param_tensor(&plain.net, i, plain.net.grads);
        struct tensor other = net_param_tensor(&padded.net, i, padded.net.grads);
        assert_same_values(plain.net.param[i].name, &one, &other);
    }
    assert_memory_equal(plain.net.buffers, padded.net.buffers,
                        plain.net.buffer_elements * sizeof(float));
    close_run(&plain);
    close_run(&padded);
}

static void compare(int is_generator, enum dtype dtype)
{
    compare_with(is_generator, dtype, NULL, 0);
}

static void test_a_padded_generator_computes_the_same_bits(void **state)
{
    (void)state;
    compare(1, DTYPE_F16);
    compare(1, DTYPE_F32);
}

static void test_a_padded_discriminator_computes_the_same_bits(void **state)
{
    (void)state;
    compare(0, DTYPE_F16);
    compare(0, DTYPE_F32);
}

static void
test_padding_stays_zero_through_casts_and_outputs_that_are_made_again(void **state)
{
    (void)state;
    compare_with(1, DTYPE_F16, "g.conv2,g.act2", 0);
    compare_with(0, DTYPE_F16, "d.conv1,d.bn2", 0);
    compare_with(1, DTYPE_F16, "g.conv2", NET_RECOMPUTE);
    compare_with(0, DTYPE_BF16, NULL, NET_RECOMPUTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_padded_generator_computes_the_same_bits),
        cmocka_unit_test(test_a_padded_discriminator_computes_the_same_bits),
        cmocka_unit_test(
            test_padding_stays_zero_through_casts_and_outputs_that_are_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
