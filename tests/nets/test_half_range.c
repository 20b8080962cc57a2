/* test_half_range.c - what leaves half precision's range must not stay in a network. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/layers/layers.h"
#include "nets/init.h"
#include "nets/net.h"
#include "tests/support/support.h"

static const char *const devices[] = {"ref", "cpu"};

// conv -> batch norm -> ReLU in f16, all weights `weight`, all inputs 1.
static void make_net(struct net *net, struct device *device, struct tensor *input,
                     float weight)
{
    assert_int_equal(net_begin(net, device, "t", DTYPE_F16, (struct shape){2, 4, 4, 3}),
                     STATUS_OK);
    net_add_conv(net, "conv", NET_PREVIOUS, 5, 3, 1, 1, 0);
    net_add_batch_norm(net, "bn", NET_PREVIOUS);
    net_add_activation(net, "act", NET_PREVIOUS, ACTIVATION_RELU, 0);
    assert_int_equal(net_plan(net, 0), STATUS_OK);
    net_initialise(net, 1, 0);
    for (size_t i = 0; i < tensor_elements(&net->param[0].shape); i++)
        net->params[net->param[0].offset + i] = weight;
    net_params_changed(net);
    *input = heap_tensor(DTYPE_F16, net->input.shape);
    fill_tensor(input, FILL_ONES, 0);
}

static void assert_output_is_finite(struct net *net)
{
    const struct tensor *y = net_output(net);
    for (size_t i = 0; i < tensor_elements(y); i++)
        assert_true(is_finite_f32(element_load(y->data, y->dtype, i)));
}

static void
test_an_activation_beyond_f16_leaves_the_running_statistics_alone(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct device *device;
        struct net net;
        struct tensor input;
        assert_int_equal(device_open(devices[d], 1, &device), STATUS_OK);
        // 27 taps of 1 * 6e4: the sums are finite in f32, and inf when stored as f16.
        make_net(&net, device, &input, 6e4f);
        float before[10];
        memcpy(before, net.buffers, sizeof before);
        net_forward(&net, &input, NET_TRAIN);
        const struct tensor *conv = &net.node[0].y;
        assert_true(isinf(element_load(conv->data, conv->dtype, 30)));
        assert_memory_equal(before, net.buffers, sizeof before);
        // With sane weights again the network samples as if nothing had happened.
        for (size_t i = 0; i < tensor_elements(&net.param[0].shape); i++)
            net.params[net.param[0].offset + i] = 0.01f;
        net_params_changed(&net);
        net_forward(&net, &input, NET_EVAL);
        assert_output_is_finite(&net);
        free(input.data);
        net_release(&net);
        device_close(device);
    }
}

static void test_a_running_variance_beyond_f16_still_normalises(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct device *device;
        struct net net;
        struct tensor input;
        assert_int_equal(device_open(devices[d], 1, &device), STATUS_OK);
        make_net(&net, device, &input, 100.0f);
        for (int c = 0; c < 5; c++)
            net.buffers[5 + c] = 1e6f; // f16 ends at 65504
        net_forward(&net, &input, NET_EVAL);
        // Inside, 27 taps of 100 give 2700; gamma*2700/1000 + beta is left.
        const struct tensor *y = net_output(&net);
        size_t inside = (size_t)((1 * 4 + 1) * 5);
        float gamma = net.params[net.param[1].offset];
        double got = (double)element_load(y->data, y->dtype, inside);
        assert_true(fabs(got - 2.7 * (double)gamma) < 2e-3 * 2.7);
        free(input.data);
        net_release(&net);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_an_activation_beyond_f16_leaves_the_running_statistics_alone),
        cmocka_unit_test(test_a_running_variance_beyond_f16_still_normalises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
