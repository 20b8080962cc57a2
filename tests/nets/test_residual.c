/* test_residual.c - residual rows in half precision: between casts, made again, and
 * looked at. Their gradients are compared with central differences in test_net.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/layers/layers.h"
#include "nets/init.h"
#include "nets/survey.h"
#include "tests/nets/shared_device.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

enum { BATCH = 3, ROWS = 24, PARTS = 3, STATS = 128 };

struct passes {
    struct net net;
    struct tensor input;
};

/* Blocks that skip from a convolution, from a sum, from a batch norm's activation, and
 * from a convolution's. */
static void add_rows(struct net *net)
{
    net_add_conv(net, "stem", NET_PREVIOUS, 4, 1, 1, 0, 0); // 0
    net_add_activation(net, "a1", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    net_add_conv(net, "a2", NET_PREVIOUS, 6, 3, 1, 1, 1);
    net_add_activation(net, "a3", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    net_add_conv(net, "a4", NET_PREVIOUS, 4, 1, 1, 0, 0);
    net_add_residual(net, "sum1", NET_PREVIOUS, 0); // 5
    net_add_batch_norm(net, "b1", NET_PREVIOUS);
    net_add_activation(net, "b2", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    net_add_conv(net, "b3", NET_PREVIOUS, 4, 3, 1, 1, 0);
    net_add_residual(net, "sum2", NET_PREVIOUS, 5); // 9
    net_add_conv(net, "down", NET_PREVIOUS, 5, 4, 2, 1, 0);
    net_add_batch_norm(net, "dn", NET_PREVIOUS);
    net_add_activation(net, "c0", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f); // 12
    net_add_conv(net, "c1", NET_PREVIOUS, 7, 1, 1, 0, 1);
    net_add_activation(net, "c2", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
    net_add_conv(net, "c3", NET_PREVIOUS, 5, 1, 1, 0, 0);
    net_add_residual(net, "sum3", NET_PREVIOUS, 12); // 16
    net_add_conv(net, "e", NET_PREVIOUS, 5, 3, 1, 1, 1);
    net_add_activation(net, "e0", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f); // 18
    net_add_conv(net, "e1", NET_PREVIOUS, 5, 3, 1, 1, 0);
    net_add_batch_norm(net, "e2", NET_PREVIOUS);
    net_add_activation(net, "e3", NET_PREVIOUS, ACTIVATION_TANH, 0.0f);
    net_add_residual(net, "sum4", NET_PREVIOUS, 18); // 22
    net_add_linear(net, "head", NET_PREVIOUS, (struct shape){BATCH, 1, 1, 2}, 1);
}

// Weights of a size that keeps that of what goes through them, the same for the same
// name.
static void fill_weights(struct net *net)
{
    net_initialise(net, 3, 0);
    for (int i = 0; i < net->param_count; i++) {
        const struct node *node = &net->node[net->param[i].node];
        const struct conv_desc *conv = node_conv(node);
        struct tensor param = net_param_tensor(net, i, net->params);
        uint64_t seed = (uint64_t)node->name[0] * 131 + (uint64_t)node->name[1];
        if (conv) {
            float size = 2.4f / sqrtf((float)(conv->kernel * conv->kernel * conv->x.c));
            fill_tensor(&param, FILL_RANDOM, seed + (uint64_t)net->param[i].role);
            for (size_t k = 0; k < tensor_elements(&param); k++)
                ((float *)param.data)[k] *= size;
        }
    }
    net_params_changed(net);
}

static void begin(struct passes *run, enum dtype dtype, const int *held, int held_count,
                  int options)
{
    assert_int_equal(
        net_begin(&run->net, device, "t", dtype, (struct shape){BATCH, 8, 8, 3}),
        STATUS_OK);
    add_rows(&run->net);
    assert_int_equal(run->net.node_count, ROWS);
    for (int i = 0; i < held_count; i++)
        net_hold_f32(&run->net, held[i]);
    assert_int_equal(net_plan(&run->net, NET_INPUT_GRAD | options), STATUS_OK);
    fill_weights(&run->net);
    run->input = heap_tensor(run->net.input.dtype, run->net.input.shape);
}

static void pass(struct passes *run, enum fill fill, uint64_t seed, int what)
{
    fill_tensor(&run->input, fill, seed);
    net_forward(&run->net, &run->input, NET_TRAIN);
    fill_tensor(&run->net.output_grad, fill, seed + 1);
    run_backward(&run->net, &run->input, what);
}

static void end(struct passes *run)
{
    free(run->input.data);
    net_release(&run->net);
}

/* ---- close to f32 ---------------------------------------------------------------- */

static double squares(const float *values, const float *less, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double value = (double)values[i] - (less ? (double)less[i] : 0.0);
        sum += value * value;
    }
    return sum;
}

static void test_any_row_of_a_half_network_can_be_held_in_f32(void **state)
{
    (void)state;
    static struct passes half, want;
    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16};
    // Most of it is leaky ReLUs that rounding carries across their bend: the root of a
    // share that grows with the unit in the last place.
    static const double bounds[] = {0.08, 0.12};
    for (int d = 0; d < 2; d++)
        for (int held = -1; held < ROWS; held++) {
            begin(&want, DTYPE_F32, &held, held >= 0, 0);
            begin(&half, dtypes[d], &held, held >= 0, 0);
            // Small whole numbers: the same inputs in every type.
            pass(&want, FILL_SMALL_INTEGERS, 5, WGRAD);
            pass(&half, FILL_SMALL_INTEGERS, 5, WGRAD);
            size_t n = want.net.param_elements;
            double error = sqrt(squares(half.net.grads, want.net.grads, n) /
                                squares(want.net.grads, NULL, n));
            if (!(error < bounds[d]))
                fail_msg("%s, row %d held: gradients are off by %g of their norm",
                         dtype_name(dtypes[d]), held, error);
            end(&half);
            end(&want);
        }
}

/* ---- a residual network is its parts with the sums written out ------------------- */

// The branch between a stem and a head; `part` < 0 adds all three and the sum.
static void add_part(struct net *net, int part)
{
    if (part < 0 || part == 0)
        net_add_conv(net, "stem", NET_PREVIOUS, 4, 3, 1, 1, 1);
    if (part < 0 || part == 1) {
        net_add_conv(net, "b1", NET_PREVIOUS, 6, 1, 1, 0, 1);
        net_add_activation(net, "b2", NET_PREVIOUS, ACTIVATION_LEAKY_RELU, 0.2f);
        net_add_conv(net, "b3", NET_PREVIOUS, 4, 3, 1, 1, 0);
    }
    if (part < 0)
        net_add_residual(net, "sum", NET_PREVIOUS, 0); // row 4
    if (part < 0 || part == 2)
        net_add_conv(net, "head", NET_PREVIOUS, 3, 4, 2, 1, 1);
}

/* Bit i of `held`: stem, branch, head, and the sum are f32. */
static void hold(struct net *net, unsigned held)
{
    static const int rows[][3] = {{0, 0, 0}, {1, 2, 3}, {5, 5, 5}, {4, 4, 4}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; held >> i & 1 && k < 3; k++)
            net_hold_f32(net, rows[i][k]);
}

static struct tensor new_like(enum dtype dtype, const struct tensor *tensor)
{
    return heap_tensor(dtype, tensor->shape);
}

static void assert_same_bytes(const char *what, unsigned held, const struct tensor *got,
                              const struct tensor *want)
{
    assert_int_equal(got->dtype, want->dtype);
    if (memcmp(got->data, want->data, tensor_bytes(want)) != 0)
        fail_msg("%s differs from that of the parts where 0x%x are held", what, held);
}

static void compare_with_parts(unsigned held)
{
    static struct net whole, part[PARTS];
    const struct pointwise_ops *op = &device->ops->pointwise;
    struct shape shape = {BATCH, 6, 6, 3};
    assert_int_equal(net_begin(&whole, device, "t", DTYPE_F16, shape), STATUS_OK);
    add_part(&whole, -1);
    hold(&whole, held);
    assert_int_equal(net_plan(&whole, NET_INPUT_GRAD), STATUS_OK);
    fill_weights(&whole);
    enum dtype sum_dtype = held >> 3 & 1 ? DTYPE_F32 : DTYPE_F16;
    struct tensor in[PARTS];
    for (int i = 0; i < PARTS; i++) {
        assert_int_equal(net_begin(&part[i], device, "t",
                                   held >> i & 1 ? DTYPE_F32 : DTYPE_F16,
                                   i ? whole.node[0].y.shape : shape),
                         STATUS_OK);
        add_part(&part[i], i);
        assert_int_equal(net_plan(&part[i], NET_INPUT_GRAD), STATUS_OK);
        fill_weights(&part[i]);
        in[i] = new_like(part[i].dtype, &part[i].input);
    }
    fill_tensor(&in[0], FILL_RANDOM, 21);
    struct tensor sum = new_like(sum_dtype, net_output(&part[1]));
    struct tensor dsum = new_like(sum_dtype, &sum);

    net_forward(&whole, &in[0], NET_TRAIN);
    net_forward(&part[0], &in[0], NET_TRAIN);
    op->cast(device, net_output(&part[0]), &in[1]);
    net_forward(&part[1], &in[1], NET_TRAIN);
    op->add_tensors(device, net_output(&part[1]), net_output(&part[0]), &sum);
    op->cast(device, &sum, &in[2]);
    net_forward(&part[2], &in[2], NET_TRAIN);
    assert_same_bytes("the output", held, net_output(&whole), net_output(&part[2]));

    fill_tensor(&whole.output_grad, FILL_RANDOM, 22);
    fill_tensor(&part[2].output_grad, FILL_RANDOM, 22);
    run_backward(&whole, &in[0], WGRAD | DGRAD);
    run_backward(&part[2], &in[2], WGRAD | DGRAD);
    op->cast(device, &part[2].input_grad, &dsum);
    op->cast(device, &dsum, &part[1].output_grad);
    run_backward(&part[1], &in[1], WGRAD | DGRAD);
    op->cast(device, &dsum, &part[0].output_grad);
    op->add_tensors(device, &part[0].output_grad, &part[1].input_grad,
                    &part[0].output_grad);
    run_backward(&part[0], &in[0], WGRAD | DGRAD);
    assert_same_bytes("the input's gradient", held, &whole.input_grad,
                      &part[0].input_grad);
    for (int i = 0, param = 0; i < PARTS; i++)
        for (int k = 0; k < part[i].param_count; k++, param++) {
            struct tensor got = net_param_tensor(&whole, param, whole.grads);
            struct tensor want = net_param_tensor(&part[i], k, part[i].grads);
            assert_string_equal(whole.param[param].name, part[i].param[k].name);
            assert_same_bytes(whole.param[param].name, held, &got, &want);
        }
    for (int i = 0; i < PARTS; i++) {
        free(in[i].data);
        net_release(&part[i]);
    }
    free(sum.data);
    free(dsum.data);
    net_release(&whole);
}

static void test_a_residual_network_is_its_parts_whichever_are_f32(void **state)
{
    (void)state;
    for (unsigned held = 0; held < 16; held++)
        compare_with_parts(held);
}

/* ---- recomputation --------------------------------------------------------------- */

static void compare_with_recomputed(enum dtype dtype, int held)
{
    static struct passes kept, remade;
    struct passes *runs[] = {&kept, &remade};
    for (int i = 0; i < 2; i++) {
        begin(runs[i], dtype, &held, held >= 0, i ? NET_RECOMPUTE : 0);
        pass(runs[i], FILL_RANDOM, 1, WGRAD);
        pass(runs[i], FILL_RANDOM, 2, WGRAD | DGRAD | ACCUMULATE);
    }
    assert_true(squares(kept.net.grads, NULL, kept.net.param_elements) > 0.0);
    assert_memory_equal(kept.net.grads, remade.net.grads,
                        kept.net.param_elements * sizeof(float));
    assert_memory_equal(kept.net.input_grad.data, remade.net.input_grad.data,
                        tensor_bytes(&kept.net.input_grad));
    // Only what batch norm b1 puts out: row c0 is read again by sum3.
    assert_true(remade.net.node[7].is_remade && !remade.net.node[12].is_remade);
    assert_int_equal(remade.net.unkept_bytes, tensor_bytes(&kept.net.node[6].y));
    for (int i = 0; i < 2; i++)
        end(runs[i]);
}

static void test_recomputation_gives_the_same_bits(void **state)
{
    (void)state;
    static const int held[] = {-1, 0, 4, 5, 9, 12, 16, 22};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        compare_with_recomputed(DTYPE_F16, held[i]);
        compare_with_recomputed(DTYPE_F32, held[i]);
    }
}

/* ---- looking --------------------------------------------------------------------- */

static int entry_of(const struct survey *survey, int row, enum survey_kind kind)
{
    for (int i = 0; i < survey->count; i++)
        if (survey->entry[i].node == row && survey->entry[i].kind == kind)
            return i;
    return -1;
}

static double sumsq_of(const struct tensor *tensor)
{
    double sum = 0.0;
    for (size_t i = 0; i < tensor_elements(tensor); i++) {
        double value = (double)element_load(tensor->data, tensor->dtype, i);
        sum += value * value;
    }
    return sum;
}

static void test_a_look_sees_sums_and_both_gradients_of_a_skipped_row(void **state)
{
    (void)state;
    static struct passes run;
    static struct survey activations, backward;
    static struct survey_stats stats[STATS];
    static const int skipped[] = {0, 5, 12, 18}, sums[] = {5, 9, 16, 22};
    begin(&run, DTYPE_F16, NULL, 0, 0);
    struct net *net = &run.net;
    pass(&run, FILL_RANDOM, 1, WGRAD);
    size_t bytes = net->param_elements * sizeof(float);
    float *plain = malloc(bytes);
    memcpy(plain, net->grads, bytes);
    survey_begin(&activations, device);
    survey_add_activations(&activations, net);
    survey_begin(&backward, device);
    struct backward wgrad = backward_of(net, &run.input, WGRAD);
    survey_add_backward(&backward, net, &wgrad);
    assert_int_equal(survey_commit(&backward), STATUS_OK);
    fill_tensor(&net->output_grad, FILL_RANDOM, 2);
    survey_backward(&backward, net, &wgrad, stats);
    assert_memory_equal(plain, net->grads, bytes);
    free(plain);
    for (int i = 0; i < 4; i++) {
        // The row of the skipped tensor, or that of the norm or convolution which makes
        // it.
        int place = entry_of(&backward, skipped[i], SURVEY_ACTIVATION_GRADIENT);
        if (place < 0) // undone by its batch norm, from the whole gradient
            place = entry_of(&backward, net->node[skipped[i]].fused_into,
                             SURVEY_ACTIVATION_GRADIENT);
        assert_true(place >= 0);
        assert_true(entry_of(&activations, sums[i], SURVEY_ACTIVATION) >= 0);
        assert_true(entry_of(&backward, sums[i], SURVEY_ACTIVATION_GRADIENT) >= 0);
        fill_tensor(&net->output_grad, FILL_RANDOM, 2);
        for (int row = net->node_count - 1; row > skipped[i]; row--)
            net_backward_node(net, &wgrad, row);
        double want = sumsq_of(&net->node[skipped[i]].dy);
        assert_true(fabs(stats[place].sumsq - want) < 1e-6 * want);
    }
    survey_release(&activations);
    survey_release(&backward);
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_row_of_a_half_network_can_be_held_in_f32),
        cmocka_unit_test(test_a_residual_network_is_its_parts_whichever_are_f32),
        cmocka_unit_test(test_recomputation_gives_the_same_bits),
        cmocka_unit_test(test_a_look_sees_sums_and_both_gradients_of_a_skipped_row),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
