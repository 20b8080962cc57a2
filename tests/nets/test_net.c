/* test_net.c - the table: planning, fusion, and every layer's passes against central
 * differences (through a smooth chain, so that no probe crosses a kink). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets/layers/layers.h"
#include "nets/optim/adam.h"
#include "nets/init.h"
#include "nets/net.h"
#include "tests/nets/differences.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

#define BATCH 3

static struct device *device;

static int open_device(void **state)
{
    (void)state;
    return device_open("ref", 1, &device) != STATUS_OK;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

static void begin(struct net *net, int size, int channels)
{
    assert_int_equal(net_begin(net, device, "t", DTYPE_F32,
                               (struct shape){BATCH, size, size, channels}),
                     STATUS_OK);
}

static void plan(struct net *net)
{
    assert_int_equal(net_plan(net, NET_INPUT_GRAD), STATUS_OK);
}

static void test_convolution_gradients_match_central_differences(void **state)
{
    (void)state;
    struct net net;
    begin(&net, 6, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 4, 2, 1, 1);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_conv(&net, "b", NET_PREVIOUS, 2, 3, 1, 1, 0);
    plan(&net);
    check_gradients(&net, 1);
}

static void test_transposed_convolution_gradients_match_central_differences(void **state)
{
    (void)state;
    struct net net;
    begin(&net, 3, 4);
    net_add_conv_transpose(&net, "a", NET_PREVIOUS, 3, 4, 2, 1, 1);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_conv_transpose(&net, "b", NET_PREVIOUS, 2, 4, 2, 1, 0);
    plan(&net);
    check_gradients(&net, 2);
}

static void test_dense_gradients_match_central_differences(void **state)
{
    (void)state;
    struct net net;
    begin(&net, 1, 5);
    net_add_linear(&net, "up", NET_PREVIOUS, (struct shape){BATCH, 3, 3, 2}, 1);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_linear(&net, "down", NET_PREVIOUS, (struct shape){BATCH, 1, 1, 4}, 1);
    plan(&net);
    check_gradients(&net, 3);
}

static void test_batch_norm_gradients_match_central_differences(void **state)
{
    (void)state;
    struct net net;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 3, 1, 1, 0);
    net_add_batch_norm(&net, "n", NET_PREVIOUS);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_conv(&net, "b", NET_PREVIOUS, 2, 3, 1, 1, 0);
    net_add_batch_norm(&net, "m", NET_PREVIOUS);
    plan(&net);
    check_gradients(&net, 4);
}

static void test_leaky_relu_gradients_match_central_differences(void **state)
{
    (void)state;
    // A standalone activation after an activation is not fused: both ways are walked.
    struct net net;
    begin(&net, 4, 3);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 1, 1, 0, 1);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_activation(&net, "l", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    plan(&net);
    assert_int_equal(net.node[1].fused_into, 0);
    assert_int_equal(net.node[2].fused_into, -1);
    check_gradients(&net, 5);
}

/* ---- residual rows --------------------------------------------------------------- */

/* What a residual row skips from decides what may be fused around it: every kind of
 * it. */
static void add_skipped_row(struct net *net, int kind)
{
    switch (kind) {
    case 0: // a convolution whose activation comes after
        net_add_conv(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 1);
        break;
    case 1: // an activation that its convolution makes, and another one reads
        net_add_conv(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 1);
        net_add_activation(net, "st", NET_PREVIOUS, ACTIVATION_TANH, 0);
        break;
    case 2: // an activation that batch norm makes
        net_add_conv(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 0);
        net_add_batch_norm(net, "sn", NET_PREVIOUS);
        net_add_activation(net, "st", NET_PREVIOUS, ACTIVATION_TANH, 0);
        break;
    case 3: // batch norm whose activation comes after
        net_add_conv(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 0);
        net_add_batch_norm(net, "sn", NET_PREVIOUS);
        break;
    case 4: // an activation by itself, that a convolution would undo
        net_add_conv(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 1);
        net_add_activation(net, "st", NET_PREVIOUS, ACTIVATION_TANH, 0);
        net_add_activation(net, "su", NET_PREVIOUS, ACTIVATION_TANH, 0);
        break;
    case 5: // a transposed convolution that batch norm reads
        net_add_conv_transpose(net, "s", NET_PREVIOUS, 3, 3, 1, 1, 1);
        break;
    default: CHECK(0, "kind %d", kind);
    }
}

enum { SKIPPED_KINDS = 6 };

/* The skipped row, a branch that begins in every way there is, and what may read the
 * sum. */
static void add_residual_block(struct net *net, int kind, int begin, int is_narrow)
{
    int row = net->node_count - 1;
    if (begin == 1)
        net_add_activation(net, "ba", NET_PREVIOUS, ACTIVATION_TANH, 0);
    if (begin == 2 || kind == 5)
        net_add_batch_norm(net, "bn", NET_PREVIOUS);
    net_add_conv(net, "b", NET_PREVIOUS, 4, 1, 1, 0, 1);
    net_add_activation(net, "bt", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_conv(net, "c", NET_PREVIOUS, 3, 3, 1, 1, 0);
    if (!is_narrow)
        net_add_batch_norm(net, "cn", NET_PREVIOUS);
    net_add_residual(net, "r", NET_PREVIOUS, row);
}

enum { BEGINNINGS = 3 };

static void begin_residual_net(struct net *net, int kind, int begin_of_branch,
                               int options)
{
    begin(net, 4, 2);
    add_skipped_row(net, kind);
    add_residual_block(net, kind, begin_of_branch, kind % 2);
    // A second block skips from the first one's sum, and an activation follows.
    add_residual_block(net, 0, begin_of_branch, 1);
    net_add_activation(net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    net_add_conv(net, "e", NET_PREVIOUS, 2, 4, 2, 1, 1);
    assert_int_equal(net_plan(net, options), STATUS_OK);
}

static void test_residual_gradients_match_central_differences(void **state)
{
    (void)state;
    for (int kind = 0; kind < SKIPPED_KINDS; kind++)
        for (int begins = 0; begins < BEGINNINGS; begins++)
            for (int is_remade = 0; is_remade < 2; is_remade++) {
                struct net net;
                begin_residual_net(&net, kind, begins,
                                   NET_INPUT_GRAD | (is_remade ? NET_RECOMPUTE : 0));
                check_gradients(&net, 20 + (uint64_t)kind);
            }
}

static void test_a_residual_sampler_draws_what_its_training_net_draws(void **state)
{
    (void)state;
    static const int options[] = {0, NET_INFERENCE};
    for (int kind = 0; kind < SKIPPED_KINDS; kind++)
        for (int begins = 0; begins < BEGINNINGS; begins++) {
            struct net net[2];
            struct tensor input[2];
            for (int i = 0; i < 2; i++) {
                begin_residual_net(&net[i], kind, begins, options[i]);
                fill_net(&net[i], &input[i], 30);
                net_forward(&net[i], &input[i], NET_TRAIN);
            }
            assert_memory_equal(net_output(&net[0])->data, net_output(&net[1])->data,
                                tensor_bytes(net_output(&net[0])));
            for (int i = 0; i < 2; i++) {
                free(input[i].data);
                net_release(&net[i]);
            }
        }
}

static void test_accumulate_adds_to_the_gradients(void **state)
{
    (void)state;
    struct net net;
    struct tensor input;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 3, 1, 1, 1);
    net_add_batch_norm(&net, "n", NET_PREVIOUS);
    plan(&net);
    fill_net(&net, &input, 6);
    net_forward(&net, &input, NET_TRAIN);
    struct tensor *dy = &net.output_grad;
    fill_tensor(dy, FILL_SMALL_INTEGERS, 6);
    run_backward(&net, &input, WGRAD);
    float *once = malloc(net.param_elements * sizeof *once);
    memcpy(once, net.grads, net.param_elements * sizeof *once);
    net_forward(&net, &input, NET_TRAIN);
    fill_tensor(dy, FILL_SMALL_INTEGERS, 6);
    run_backward(&net, &input, WGRAD | ACCUMULATE);
    for (size_t i = 0; i < net.param_elements; i++)
        assert_true(net.grads[i] == 2.0f * once[i]);
    free(once);
    free(input.data);
    net_release(&net);
}

static void test_a_backward_pass_without_wgrad_leaves_the_gradients_alone(void **state)
{
    (void)state;
    struct net net;
    struct tensor input;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 3, 1, 1, 1);
    net_add_batch_norm(&net, "n", NET_PREVIOUS);
    net_add_activation(&net, "l", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    plan(&net);
    fill_net(&net, &input, 8);
    for (size_t i = 0; i < net.param_elements; i++)
        net.grads[i] = 3.0f;
    net_forward(&net, &input, NET_TRAIN);
    fill_tensor(&net.output_grad, FILL_RANDOM, 8);
    run_backward(&net, &input, DGRAD);
    for (size_t i = 0; i < net.param_elements; i++)
        assert_true(net.grads[i] == 3.0f);
    free(input.data);
    net_release(&net);
}

static void begin_tangent_net(struct net *net, struct tensor *input,
                              enum activation second, int has_residual)
{
    begin(net, 6, 2);
    net_add_conv(net, "a", NET_PREVIOUS, 3, 4, 2, 1, 1);
    net_add_activation(net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    if (has_residual) {
        net_add_conv(net, "r1", NET_PREVIOUS, 5, 3, 1, 1, 1);
        net_add_activation(net, "rt", NET_PREVIOUS, second, 0.2f);
        net_add_conv(net, "r2", NET_PREVIOUS, 3, 1, 1, 0, 0);
        net_add_residual(net, "r", NET_PREVIOUS, 1);
    }
    net_add_conv_transpose(net, "b", NET_PREVIOUS, 4, 4, 2, 1, 1);
    net_add_activation(net, "l", NET_PREVIOUS, second, 0.2f);
    net_add_linear(net, "c", NET_PREVIOUS, (struct shape){BATCH, 1, 1, 2}, 1);
    assert_int_equal(net_plan(net, NET_TANGENT | NET_INPUT_GRAD), STATUS_OK);
    fill_net(net, input, 9);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

// w . (J v) computed down the table equals (J' w) . v computed up it.
static void test_the_tangent_is_the_adjoint_of_the_backward_pass(void **state)
{
    (void)state;
    const enum activation seconds[] = {ACTIVATION_RELU, ACTIVATION_LEAKY_RELU,
                                       ACTIVATION_TANH};
    for (int k = 0; k < 6; k++) {
        struct net net;
        struct tensor input;
        begin_tangent_net(&net, &input, seconds[k % 3], k >= 3);
        struct tensor v = heap_tensor(DTYPE_F32, net.input.shape);
        fill_tensor(&v, FILL_RANDOM, 10);
        net_forward(&net, &input, NET_TRAIN);
        assert_int_equal(net_forward_tangent(&net, &v), STATUS_OK);
        struct tensor w = heap_tensor(DTYPE_F32, net_output(&net)->shape);
        fill_tensor(&w, FILL_RANDOM, 11);
        memcpy(net.output_grad.data, w.data, tensor_bytes(&w));
        run_backward(&net, &input, DGRAD);
        double down =
            dot(w.data, net.node[net.node_count - 1].tangent.data, tensor_elements(&w));
        double up = dot(v.data, net.input_grad.data, tensor_elements(&v));
        if (fabs(down - up) > 1e-5 * (fabs(down) + 0.1))
            fail_msg("w.Jv %.9g, J'w.v %.9g", down, up);
        free(v.data);
        free(w.data);
        free(input.data);
        net_release(&net);
    }
}

static void move(struct tensor *x, const struct tensor *direction, float step)
{
    for (size_t i = 0; i < tensor_elements(x); i++)
        ((float *)x->data)[i] += step * ((const float *)direction->data)[i];
}

static void check_directional_derivative(int has_residual)
{
    struct net net;
    struct tensor input;
    begin_tangent_net(&net, &input, ACTIVATION_TANH, has_residual);
    struct tensor v = heap_tensor(DTYPE_F32, net.input.shape);
    fill_tensor(&v, FILL_RANDOM, 10);
    net_forward(&net, &input, NET_TRAIN);
    assert_int_equal(net_forward_tangent(&net, &v), STATUS_OK);
    float high[2 * BATCH];
    const float step = 1e-3f, *low = net_output(&net)->data;
    move(&input, &v, step);
    net_forward(&net, &input, NET_TRAIN);
    memcpy(high, low, sizeof high);
    move(&input, &v, -2.0f * step);
    net_forward(&net, &input, NET_TRAIN);
    for (size_t i = 0; i < 2 * BATCH; i++) {
        double want = ((double)high[i] - (double)low[i]) / (2.0 * (double)step);
        double got = (double)((float *)net.node[net.node_count - 1].tangent.data)[i];
        if (fabs(got - want) > 1e-2 * (fabs(want) + 0.1))
            fail_msg("tangent[%zu]: %g, difference %g", i, got, want);
    }
    free(input.data);
    free(v.data);
    net_release(&net);
}

static void test_the_tangent_is_the_directional_derivative(void **state)
{
    (void)state;
    check_directional_derivative(0);
    check_directional_derivative(1);
}

static void test_batch_norm_says_that_it_has_no_tangent(void **state)
{
    (void)state;
    struct net net;
    struct tensor input;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 3, 1, 1, 0);
    net_add_batch_norm(&net, "bn7", NET_PREVIOUS);
    assert_int_equal(net_plan(&net, NET_TANGENT), STATUS_OK);
    fill_net(&net, &input, 11);
    net_forward(&net, &input, NET_TRAIN);
    assert_int_equal(net_forward_tangent(&net, &input), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "t.bn7"));
    free(input.data);
    net_release(&net);
}

static void run_inference(int options, struct tensor *output)
{
    struct net net;
    struct tensor input;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 5, 3, 1, 1, 0);
    net_add_batch_norm(&net, "n", NET_PREVIOUS);
    net_add_activation(&net, "r", NET_PREVIOUS, ACTIVATION_RELU, 0);
    net_add_conv_transpose(&net, "b", NET_PREVIOUS, 3, 4, 2, 1, 0);
    net_add_batch_norm(&net, "m", NET_PREVIOUS);
    net_add_activation(&net, "t", NET_PREVIOUS, ACTIVATION_TANH, 0);
    assert_int_equal(net_plan(&net, options), STATUS_OK);
    fill_net(&net, &input, 12);
    net_forward(&net, &input, NET_TRAIN);
    net_forward(&net, &input, NET_EVAL);
    *output = heap_tensor(DTYPE_F32, net_output(&net)->shape);
    memcpy(output->data, net_output(&net)->data, tensor_bytes(output));
    free(input.data);
    net_release(&net);
}

static void test_shared_inference_memory_gives_the_same_output(void **state)
{
    (void)state;
    struct tensor whole, shared;
    run_inference(0, &whole);
    run_inference(NET_INFERENCE, &shared);
    assert_memory_equal(whole.data, shared.data, tensor_bytes(&whole));
    free(whole.data);
    free(shared.data);
}

static void test_running_statistics_advance_only_when_finite(void **state)
{
    (void)state;
    struct net net;
    struct tensor input;
    begin(&net, 4, 2);
    net_add_conv(&net, "a", NET_PREVIOUS, 3, 3, 1, 1, 0);
    net_add_batch_norm(&net, "n", NET_PREVIOUS);
    plan(&net);
    fill_net(&net, &input, 13);
    net_forward(&net, &input, NET_TRAIN);
    float kept[6];
    memcpy(kept, net.buffers, sizeof kept);
    assert_true(kept[0] != 0.0f && kept[3] != 1.0f);
    ((float *)input.data)[5] = INFINITY;
    net_forward(&net, &input, NET_TRAIN);
    assert_memory_equal(kept, net.buffers, sizeof kept);
    ((float *)input.data)[5] = 0.5f;
    net_forward(&net, &input, NET_TRAIN);
    assert_memory_not_equal(kept, net.buffers, sizeof kept);
    free(input.data);
    net_release(&net);
}

/* ---- initial weights and the optimizer ------------------------------------------- */

struct moments {
    double mean, deviation;
    int count;
};

static struct moments moments_of(const struct net *net, enum param_role role)
{
    double sum = 0.0, sum_sq = 0.0;
    int count = 0;
    for (int i = 0; i < net->param_count; i++) {
        if (net->param[i].role != role)
            continue;
        struct tensor param = net_param_tensor(net, i, net->params);
        for (size_t k = 0; k < tensor_elements(&param); k++, count++) {
            double x = (double)((float *)param.data)[k];
            sum += x;
            sum_sq += x * x;
        }
    }
    double mean = sum / count;
    return (struct moments){mean, sqrt(sum_sq / count - mean * mean), count};
}

// Channels are multiples of 8, so that no tensor is padded.
static void begin_wide(struct net *net)
{
    begin(net, 4, 8);
    net_add_conv(net, "a", NET_PREVIOUS, 512, 1, 1, 0, 1);
    net_add_batch_norm(net, "n", NET_PREVIOUS);
    net_add_conv(net, "b", NET_PREVIOUS, 64, 1, 1, 0, 1);
    plan(net);
}

static void test_every_role_begins_with_dcgans_distribution(void **state)
{
    (void)state;
    struct net net;
    begin_wide(&net);
    net_initialise(&net, 5, 0);
    // The spread of n draws is known to 1/sqrt(2n) of itself, the mean to 1/sqrt(n).
    struct moments weight = moments_of(&net, PARAM_WEIGHT);
    assert_int_equal(weight.count, 8 * 512 + 512 * 64);
    assert_true(fabs(weight.mean) < 5e-4 && fabs(weight.deviation - 0.02) < 5e-4);
    struct moments gamma = moments_of(&net, PARAM_GAMMA);
    assert_int_equal(gamma.count, 512);
    assert_true(fabs(gamma.mean - 1.0) < 4e-3 && fabs(gamma.deviation - 0.02) < 3e-3);
    struct moments beta = moments_of(&net, PARAM_BETA);
    struct moments bias = moments_of(&net, PARAM_BIAS);
    assert_true(beta.count == 512 && beta.mean == 0.0 && beta.deviation == 0.0);
    assert_true(bias.count > 0 && bias.mean == 0.0 && bias.deviation == 0.0);
    for (int i = 1; i < weight.count - 512 * 64; i++) // each a draw of its own
        assert_true(net.params[net.param[0].offset + (size_t)i] !=
                    net.params[net.param[0].offset + (size_t)i - 1]);
    for (size_t c = 0; c < 512; c++) // running mean and variance
        assert_true(net.buffers[c] == 0.0f && net.buffers[512 + c] == 1.0f);
    net_release(&net);
}

static void test_another_seed_or_another_network_begins_elsewhere(void **state)
{
    (void)state;
    static const uint64_t starts[3][2] = {{5, 0}, {6, 0}, {5, 1}};
    float first[3][8];
    struct net net;
    begin_wide(&net);
    for (int i = 0; i < 3; i++) {
        net_initialise(&net, starts[i][0], starts[i][1]);
        memcpy(first[i], net.params + net.param[0].offset, sizeof first[i]);
    }
    assert_memory_not_equal(first[0], first[1], sizeof first[0]);
    assert_memory_not_equal(first[0], first[2], sizeof first[0]);
    net_release(&net);
}

// One step of Adam from moments of 0, on a weight and its average, both of which are 1.
static void assert_adam_takes(const struct adam_config *config)
{
    struct net net;
    struct adam adam;
    const float g = 0.25f, average_of = 0.75f;
    begin_wide(&net);
    assert_int_equal(adam_create(&adam, &net, config), STATUS_OK);
    float *average = calloc(net.param_elements, sizeof *average), decay = average_of;
    assert_non_null(average);
    adam.ema = average;
    adam.ema_decay = &decay;
    for (size_t i = 0; i < net.param_elements; i++) {
        net.params[i] = average[i] = 1.0f;
        net.grads[i] = g;
    }
    struct scaler_state scaler = {.enabled = 0};
    adam_step(&adam.optimizer, 0, &scaler);
    double m = (1.0 - (double)config->beta1) * (double)g;
    double v = (1.0 - (double)config->beta2) * (double)g * (double)g;
    double stepped =
        1.0 - (double)config->lr * (double)g / ((double)g + (double)config->eps);
    assert_true(fabs((double)adam.m[0] - m) < 1e-6 * m);
    assert_true(fabs((double)adam.v[0] - v) < 1e-4 * v);
    assert_true(fabs((double)net.params[0] - stepped) < 1e-6);
    assert_true(fabs((double)average[0] - (0.75 + 0.25 * stepped)) < 1e-6);
    assert_int_equal(scaler.adam_t, 1);
    free(average);
    adam_release(&adam);
    net_release(&net);
}

static void test_every_setting_of_adam_reaches_its_step(void **state)
{
    (void)state;
    const struct adam_config usual = {
        .lr = 0.01f, .beta1 = 0.5f, .beta2 = 0.999f, .eps = 1e-8f};
    struct adam_config config = usual;
    assert_adam_takes(&config);
    config.lr = 0.1f;
    assert_adam_takes(&config);
    config = usual;
    config.beta1 = 0.9f;
    assert_adam_takes(&config);
    config = usual;
    config.beta2 = 0.75f;
    assert_adam_takes(&config);
    config = usual;
    config.eps = 0.25f; // as large as the gradient: half the step
    assert_adam_takes(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution_gradients_match_central_differences),
        cmocka_unit_test(test_transposed_convolution_gradients_match_central_differences),
        cmocka_unit_test(test_dense_gradients_match_central_differences),
        cmocka_unit_test(test_batch_norm_gradients_match_central_differences),
        cmocka_unit_test(test_leaky_relu_gradients_match_central_differences),
        cmocka_unit_test(test_residual_gradients_match_central_differences),
        cmocka_unit_test(test_a_residual_sampler_draws_what_its_training_net_draws),
        cmocka_unit_test(test_accumulate_adds_to_the_gradients),
        cmocka_unit_test(test_a_backward_pass_without_wgrad_leaves_the_gradients_alone),
        cmocka_unit_test(test_the_tangent_is_the_adjoint_of_the_backward_pass),
        cmocka_unit_test(test_the_tangent_is_the_directional_derivative),
        cmocka_unit_test(test_batch_norm_says_that_it_has_no_tangent),
        cmocka_unit_test(test_shared_inference_memory_gives_the_same_output),
        cmocka_unit_test(test_running_statistics_advance_only_when_finite),
        cmocka_unit_test(test_every_role_begins_with_dcgans_distribution),
        cmocka_unit_test(test_another_seed_or_another_network_begins_elsewhere),
        cmocka_unit_test(test_every_setting_of_adam_reaches_its_step),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
