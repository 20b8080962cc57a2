/* test_precision.c - the op policy, and networks whose layers differ in type. */
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"
#include "nets/precision.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/arch/dcgan.h"
#include "nets/init.h"
#include "nets/sampler.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

enum { BATCH = 3, PARTS = 3 };

static const struct dcgan_config sizes = {
    .resolution = 28, .channels = 3, .latent = 5, .g_width = 3, .d_width = 5};

static struct device *open_padded(int multiple)
{
    struct device *device;
    assert_int_equal(device_open(multiple > 1 ? "ref" : "cpu", 1, &device), STATUS_OK);
    device->channel_multiple = multiple;
    return device;
}

/* ---- the table ------------------------------------------------------------------- */

static void test_every_tensor_of_a_network_has_the_type_of_the_policy(void **state)
{
    (void)state;
    struct device *device = open_padded(1);
    struct net net;
    assert_int_equal(dcgan_discriminator(&net, device, &sizes, DTYPE_F16, BATCH),
                     STATUS_OK);
    assert_int_equal(net_plan(&net, NET_INPUT_GRAD), STATUS_OK);
    for (int row = 0; row < net.node_count; row++) {
        const struct node *layer = &net.node[row];
        int is_last = row + 1 == net.node_count;
        assert_int_equal(layer->y.dtype, is_last ? DTYPE_F32 : DTYPE_F16);
        assert_int_equal(layer->dy.dtype, DTYPE_F16);
        if (layer->weight >= 0)
            assert_int_equal(net.param[layer->weight].shape.dtype, DTYPE_F32);
    }
    net_release(&net);
    device_close(device);
}

// One channel of 2048 and fifteen of 1, through weights of 1: 2063, which no half sum
// reaches, since 2048 + 1 is 2048 there.
static void check_sums(struct device *device, enum dtype dtype)
{
    enum { CHANNELS = 16 };
    struct net net;
    assert_int_equal(
        net_begin(&net, device, "d", dtype, (struct shape){1, 1, 1, CHANNELS}),
        STATUS_OK);
    net_add_linear(&net, "fc", NET_INPUT, (struct shape){1, 1, 1, 1}, 0);
    net_make_head_f32(&net);
    assert_int_equal(net_plan(&net, 0), STATUS_OK);
    struct tensor x = heap_tensor(dtype, net.input.shape);
    for (size_t c = 0; c < CHANNELS; c++) {
        element_store(x.data, dtype, c, c ? 1.0f : 2048.0f);
        net.params[c] = 1.0f;
    }
    net_params_changed(&net);
    const struct tensor *y = net_forward(&net, &x, NET_TRAIN);
    assert_true(element_load(y->data, y->dtype, 0) == 2063.0f);
    free(x.data);
    net_release(&net);
}

// dW = 2048 + 1 over two samples: in a half layer rounded to 2048 before it is collected.
// 256 and 1 do the same in bf16.
static void check_wgrad(struct device *device, enum dtype dtype)
{
    struct net net;
    float large = dtype == DTYPE_BF16 ? 256.0f : 2048.0f;
    assert_int_equal(net_begin(&net, device, "d", dtype, (struct shape){2, 1, 1, 1}),
                     STATUS_OK);
    net_add_linear(&net, "fc", NET_INPUT, (struct shape){2, 1, 1, 1}, 0);
    assert_int_equal(net_plan(&net, 0), STATUS_OK);
    struct tensor x = heap_tensor(dtype, net.input.shape);
    element_store(x.data, dtype, 0, large);
    element_store(x.data, dtype, 1, 1.0f);
    net_forward(&net, &x, NET_TRAIN);
    fill_tensor(&net.output_grad, FILL_ONES, 0);
    run_backward(&net, &x, WGRAD);
    enum dtype made = precision_of(&linear_kind.policy, USE_WGRAD, dtype);
    assert_true(net.grads[0] == (made == DTYPE_F32 ? large + 1.0f : large));
    free(x.data);
    net_release(&net);
}

static void test_sums_are_f32_and_dw_is_rounded_where_the_policy_says(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct device *device;
        assert_int_equal(device_open(devices[d], 1, &device), STATUS_OK);
        for (int i = 0; i < 3; i++)
            check_wgrad(device, dtypes[i]);
        check_sums(device, DTYPE_F16);
        device_close(device);
    }
    assert_int_equal(precision_of(&precision_loss, USE_OUTPUT, DTYPE_F16), DTYPE_F32);
}

/* ---- a mixed network is its parts with casts between them ------------------------ */

/* The mixed network, cut where types change; `part` < 0 adds all three. */
static void add_part(struct net *net, int part)
{
    if (part < 0 || part == 0) {
        net_add_conv(net, "a", NET_PREVIOUS, 5, 4, 2, 1, 1);
        net_add_activation(net, "la", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    }
    if (part < 0 || part == 1) {
        net_add_conv(net, "b", NET_PREVIOUS, 6, 3, 1, 1, 0);
        net_add_batch_norm(net, "nb", NET_PREVIOUS);
        net_add_activation(net, "lb", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    }
    if (part < 0 || part == 2) {
        net_add_conv_transpose(net, "c", NET_PREVIOUS, 3, 4, 2, 1, 0);
        net_add_batch_norm(net, "nc", NET_PREVIOUS);
        net_add_activation(net, "tc", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    }
}

struct chain {
    struct net part[PARTS];
    struct tensor joint[PARTS]; // the input of each part
};

static void fill_weights(struct net *net)
{
    net_initialise(net, 5, 0);
    for (int i = 0; i < net->param_count; i++) {
        struct tensor param = net_param_tensor(net, i, net->params);
        struct shape shape = param.shape;
        // By name, so that the parts and the whole agree; the padding stays zero.
        uint64_t seed = (uint64_t)net->param[i].name[0] * 7 +
                        (uint64_t)net->param[i].name[1] + (uint64_t)net->param[i].role;
        float *values = malloc(tensor_elements(&param) * sizeof *values);
        fill_f32(values, tensor_elements(&param), FILL_RANDOM, seed);
        for (size_t k = 0; k < tensor_elements(&param); k++)
            ((float *)param.data)[k / (size_t)shape.c * (size_t)param.c_stored +
                                  k % (size_t)shape.c] = values[k];
        free(values);
    }
    net_params_changed(net);
}

static void build_chain(struct chain *chain, struct device *device,
                        const enum dtype dtype[PARTS], struct shape input)
{
    for (int i = 0; i < PARTS; i++) {
        struct net *net = &chain->part[i];
        assert_int_equal(net_begin(net, device, "t", dtype[i],
                                   i ? net_output(&chain->part[i - 1])->shape : input),
                         STATUS_OK);
        add_part(net, i);
        assert_int_equal(net_plan(net, NET_INPUT_GRAD), STATUS_OK);
        fill_weights(net);
        chain->joint[i] = net->input;
        chain->joint[i].data = calloc(1, tensor_bytes(&net->input));
    }
}

// Every cast is written out here.
static void run_chain(struct chain *chain, const struct tensor *x,
                      const struct tensor *dy)
{
    struct device *device = chain->part[0].device;
    const struct pointwise_ops *op = &device->ops->pointwise;
    for (int i = 0; i < PARTS; i++) {
        op->cast(device, i ? net_output(&chain->part[i - 1]) : x, &chain->joint[i]);
        net_forward(&chain->part[i], &chain->joint[i], NET_TRAIN);
    }
    for (int i = PARTS - 1; i >= 0; i--) {
        op->cast(device, i + 1 < PARTS ? &chain->part[i + 1].input_grad : dy,
                 &chain->part[i].output_grad);
        run_backward(&chain->part[i], &chain->joint[i], WGRAD | DGRAD);
    }
}

static void assert_same_bytes(const char *what, const struct tensor *one,
                              const struct tensor *other)
{
    assert_int_equal(one->dtype, other->dtype);
    assert_int_equal(tensor_bytes(one), tensor_bytes(other));
    if (memcmp(one->data, other->data, tensor_bytes(one)) != 0)
        fail_msg("%s differs between the mixed network and its parts", what);
}

static void compare_with_parts(const enum dtype dtype[PARTS], enum dtype half,
                               const char *held, int multiple)
{
    static struct chain chain;
    static struct net mixed;
    struct device *device = open_padded(multiple);
    struct shape input = {BATCH, 8, 8, 3};
    build_chain(&chain, device, dtype, input);
    assert_int_equal(net_begin(&mixed, device, "t", half, input), STATUS_OK);
    add_part(&mixed, -1);
    precision_hold_f32(&mixed, held);
    assert_int_equal(net_plan(&mixed, NET_INPUT_GRAD), STATUS_OK);
    fill_weights(&mixed);
    struct tensor x = mixed.input, dy = mixed.output_grad;
    x.data = calloc(1, tensor_bytes(&x));
    dy.data = calloc(1, tensor_bytes(&dy));
    if (multiple == 1) {
        fill_tensor(&x, FILL_RANDOM, 21);
        fill_tensor(&dy, FILL_RANDOM, 22);
    } else { // whole numbers where the shape names an element
        for (size_t i = 0; i < tensor_stored(&x); i++)
            if (i % (size_t)x.c_stored < (size_t)x.shape.c)
                ((uint16_t *)x.data)[i] = 0x3800; // 0.5
        for (size_t i = 0; i < tensor_stored(&dy); i++)
            if (i % (size_t)dy.c_stored < (size_t)dy.shape.c)
                ((uint16_t *)dy.data)[i] = (uint16_t)(0x3400 + i % 99);
    }
    net_forward(&mixed, &x, NET_TRAIN);
    memcpy(mixed.output_grad.data, dy.data, tensor_bytes(&dy));
    run_backward(&mixed, &x, WGRAD | DGRAD);
    run_chain(&chain, &x, &dy);
    assert_same_bytes("the output", net_output(&mixed), net_output(&chain.part[2]));
    assert_same_bytes("the input's gradient", &mixed.input_grad,
                      &chain.part[0].input_grad);
    for (int part = 0, param = 0; part < PARTS; part++)
        for (int i = 0; i < chain.part[part].param_count; i++, param++) {
            struct tensor want =
                net_param_tensor(&chain.part[part], i, chain.part[part].grads);
            struct tensor got = net_param_tensor(&mixed, param, mixed.grads);
            assert_string_equal(mixed.param[param].name, chain.part[part].param[i].name);
            assert_same_bytes(mixed.param[param].name, &got, &want);
        }
    free(x.data);
    free(dy.data);
    for (int i = 0; i < PARTS; i++) {
        free(chain.joint[i].data);
        net_release(&chain.part[i]);
    }
    net_release(&mixed);
    device_close(device);
}

static void
test_held_layers_in_the_middle_are_a_f32_network_between_two_casts(void **state)
{
    (void)state;
    const enum dtype f16[] = {DTYPE_F16, DTYPE_F32, DTYPE_F16};
    const enum dtype bf16[] = {DTYPE_BF16, DTYPE_F32, DTYPE_BF16};
    compare_with_parts(f16, DTYPE_F16, "t.b,t.nb,t.lb", 1);
    compare_with_parts(bf16, DTYPE_BF16, "t.*b", 1);
    compare_with_parts(f16, DTYPE_F16, "t.*b", 8);
}

static void test_held_layers_at_both_ends_make_the_borders_f32(void **state)
{
    (void)state;
    const enum dtype ends[] = {DTYPE_F32, DTYPE_F16, DTYPE_F32};
    const enum dtype first[] = {DTYPE_F32, DTYPE_F16, DTYPE_F16};
    compare_with_parts(ends, DTYPE_F16, "t.*a,*c", 1);
    compare_with_parts(first, DTYPE_F16, "*a", 1);
}

static void test_any_single_layer_can_be_held(void **state)
{
    (void)state;
    // Borders between what is fused otherwise; f32 throughout is what to come close to.
    struct device *device = open_padded(1);
    static struct net net, want;
    enum { ROWS = 8 }; // of add_part()
    for (int held = -1; held < ROWS; held++) {
        for (int is_want = 1; is_want >= 0; is_want--) {
            struct net *one = is_want ? &want : &net;
            assert_int_equal(net_begin(one, device, "t", is_want ? DTYPE_F32 : DTYPE_F16,
                                       (struct shape){BATCH, 8, 8, 3}),
                             STATUS_OK);
            add_part(one, -1);
            if (!is_want && held >= 0)
                net_hold_f32(one, held);
            assert_int_equal(net_plan(one, NET_INPUT_GRAD), STATUS_OK);
            fill_weights(one);
            struct tensor x = heap_tensor(one->input.dtype, one->input.shape);
            fill_tensor(&x, FILL_SMALL_INTEGERS, 3);
            net_forward(one, &x, NET_TRAIN);
            fill_tensor(&one->output_grad, FILL_ONES, 4);
            run_backward(one, &x, WGRAD | DGRAD);
            free(x.data);
        }
        assert_tensors_close("output", net_output(&net), net_output(&want), 0.02, 0.02,
                             (uint64_t)held);
        double worst = 0, largest = 0;
        for (size_t i = 0; i < net.param_elements; i++) {
            double error = (double)net.grads[i] - (double)want.grads[i];
            double size = (double)want.grads[i];
            worst = error * error > worst ? error * error : worst;
            largest = size * size > largest ? size * size : largest;
        }
        if (!(worst < 1e-3 * largest))
            fail_msg("row %d held: a gradient is off by %g of %g (squares)", held, worst,
                     largest);
        assert_int_equal(net.node_count, ROWS);
        net_release(&net);
        net_release(&want);
    }
    device_close(device);
}

static void test_a_held_sampler_draws_what_its_training_net_draws(void **state)
{
    (void)state;
    struct device *device = open_padded(1);
    struct dcgan_config mixed = sizes;
    mixed.fp32_layers = "g.act1,g.conv3,g.bn2";
    static struct net train, draw;
    assert_int_equal(dcgan_generator(&train, device, &mixed, DTYPE_F16, BATCH),
                     STATUS_OK);
    assert_int_equal(dcgan_generator(&draw, device, &mixed, DTYPE_F16, BATCH), STATUS_OK);
    assert_int_equal(net_plan(&train, 0), STATUS_OK);
    assert_int_equal(net_plan(&draw, NET_INFERENCE), STATUS_OK);
    net_initialise(&train, 9, 0);
    net_initialise(&draw, 9, 0);
    struct tensor z = heap_tensor(train.input.dtype, train.input.shape);
    fill_tensor(&z, FILL_RANDOM, 2);
    net_forward(&train, &z, NET_TRAIN);
    net_forward(&draw, &z, NET_TRAIN);
    assert_same_bytes("the image", net_output(&train), net_output(&draw));
    free(z.data);
    net_release(&train);
    net_release(&draw);
    device_close(device);
}

/* ---- names ----------------------------------------------------------------------- */

static int held_rows(const char *patterns)
{
    struct device *device = open_padded(1);
    struct net net;
    struct dcgan_config config = sizes;
    config.fp32_layers = patterns;
    assert_int_equal(dcgan_discriminator(&net, device, &config, DTYPE_F16, BATCH),
                     STATUS_OK);
    int count = 0;
    for (int row = 0; row < net.node_count; row++)
        count += net.node[row].holds_f32;
    net_release(&net);
    device_close(device);
    return count;
}

static void test_patterns_name_layers_with_stars(void **state)
{
    (void)state;
    // conv1 act1 conv2 bn2 act2 fc
    assert_int_equal(held_rows(NULL), 0);
    assert_int_equal(held_rows(""), 0);
    assert_int_equal(held_rows("d.conv2"), 1);
    assert_int_equal(held_rows("d.conv*"), 2);
    assert_int_equal(held_rows("d.*2,d.fc"), 4);
    assert_int_equal(held_rows("*"), 6);
    assert_int_equal(held_rows("d.*"), 6);
    assert_int_equal(held_rows("g.*"), 0);
    assert_int_equal(held_rows("d.c*v1"), 1);
    assert_int_equal(held_rows("d.con"), 0);
    assert_int_equal(held_rows("d.conv22"), 0);
}

static void test_a_pattern_that_names_nothing_is_refused_with_the_names(void **state)
{
    (void)state;
    struct device *device = open_padded(1);
    struct net net;
    assert_int_equal(dcgan_discriminator(&net, device, &sizes, DTYPE_F16, BATCH),
                     STATUS_OK);
    const struct net *nets[] = {&net};
    assert_int_equal(precision_check_patterns("", nets, 1), STATUS_OK);
    assert_int_equal(precision_check_patterns("d.conv*,d.fc", nets, 1), STATUS_OK);
    assert_int_equal(precision_check_patterns("d.conv*,d.conv9", nets, 1), STATUS_USAGE);
    assert_string_equal(status_message(),
                        "--fp32-layers: \"d.conv9\" names no layer; the layers are "
                        "d.conv1, d.act1, d.conv2, d.bn2, d.act2, d.fc (* stands for any "
                        "characters)");
    assert_int_equal(precision_check_patterns("d.fc,", nets, 1), STATUS_USAGE);
    assert_int_equal(precision_check_patterns(",", nets, 1), STATUS_USAGE);
    net_release(&net);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tensor_of_a_network_has_the_type_of_the_policy),
        cmocka_unit_test(test_sums_are_f32_and_dw_is_rounded_where_the_policy_says),
        cmocka_unit_test(
            test_held_layers_in_the_middle_are_a_f32_network_between_two_casts),
        cmocka_unit_test(test_held_layers_at_both_ends_make_the_borders_f32),
        cmocka_unit_test(test_any_single_layer_can_be_held),
        cmocka_unit_test(test_a_held_sampler_draws_what_its_training_net_draws),
        cmocka_unit_test(test_patterns_name_layers_with_stars),
        cmocka_unit_test(test_a_pattern_that_names_nothing_is_refused_with_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
