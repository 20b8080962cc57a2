/* test_graph.c - nets that are no chains: planned, run and differentiated. Each of 500
 * random graphs must give the bits of the same graph whose tensors share no memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "nets/layers/layers.h"
#include "nets/liveness.h"
#include "tests/nets/differences.h"
#include "tests/nets/passes.h"
#include "tests/nets/shared_device.h"

enum { BATCH = 2, SIZE = 4, CHANNELS = 3, GRAPHS = 500 };

/* ---- random graphs --------------------------------------------------------------- */

struct dice {
    uint64_t seed, count;
};

static int roll(struct dice *dice, int sides)
{
    return (int)(philox(dice->seed, STREAM_INIT, 0, dice->count++).word[0] %
                 (uint32_t)sides);
}

struct graph {
    uint64_t seed;
    int nodes;     // about
    int is_smooth; // no kinks: for central differences
    int has_norms;
    enum dtype dtype;
    int held; // one in so many nodes is f32; 0: none
};

static int has_reader(const struct net *net, int node)
{
    for (int i = node + 1; i < net->node_count; i++)
        for (int k = 0; k < net->node[i].edge_count; k++)
            if (net->node[i].edge[k].from == node)
                return 1;
    return 0;
}

// A node of the full size: any two of them add up.
static int any_map(const struct net *net, struct dice *dice)
{
    int node;
    do
        node = roll(dice, net->node_count);
    while (net->node[node].y.shape.h != SIZE);
    return node;
}

// One more layer that reads any such nodes so far.
static void add_random(struct net *net, struct dice *dice, const struct graph *graph)
{
    char name[NET_NAME_MAX];
    int count = net->node_count, from = any_map(net, dice);
    snprintf(name, sizeof name, "n%d", count);
    switch (roll(dice, graph->has_norms ? 7 : 6)) {
    case 0: net_add_conv(net, name, from, CHANNELS, 3, 1, 1, roll(dice, 2)); break;
    case 1: net_add_conv_transpose(net, name, from, CHANNELS, 3, 1, 1, 0); break;
    case 2: net_add_residual(net, name, from, any_map(net, dice)); break;
    case 3: net_add_residual(net, name, from, count - 1); break;
    case 4: {
        int is_tanh = graph->is_smooth || roll(dice, 2);
        net_add_activation(net, name, from,
                           is_tanh ? ACTIVATION_TANH : ACTIVATION_LEAKY_RELU, 0.2f);
        break;
    }
    case 5: // to half the size, and back
        from = net_add_average_pool(net, name, from, 2);
        snprintf(name, sizeof name, "n%dup", count);
        net_add_conv_transpose(net, name, from, CHANNELS, 2, 2, 0, 1);
        break;
    default: net_add_batch_norm(net, name, from); break;
    }
}

// What no node reads yet is added up, so that the last node depends on all.
static void add_up(struct net *net)
{
    int sum = net->node_count - 1;
    for (int i = sum - 1; i >= 0; i--)
        if (!has_reader(net, i)) {
            char name[NET_NAME_MAX];
            snprintf(name, sizeof name, "sum%d", i);
            sum = net_add_residual(net, name, i, sum);
        }
}

static void build(struct net *net, const struct graph *graph, int options)
{
    struct dice dice = {.seed = graph->seed};
    assert_int_equal(net_begin(net, device, "t", graph->dtype,
                               (struct shape){BATCH, SIZE, SIZE, CHANNELS}),
                     STATUS_OK);
    net_add_conv(net, "stem", NET_INPUT, CHANNELS, 3, 1, 1, 1);
    if (roll(&dice, 3) == 0) // the input itself is read twice
        net_add_conv(net, "second", NET_INPUT, CHANNELS, 1, 1, 0, 0);
    while (net->node_count < graph->nodes)
        add_random(net, &dice, graph);
    add_up(net);
    int has_head = roll(&dice, 2);
    if (has_head)
        net_add_conv(net, "head", NET_PREVIOUS, 2, SIZE, 1, 0, 1);
    for (int i = 0; i < net->node_count; i++)
        if (graph->held && roll(&dice, graph->held) == 0)
            net_hold_f32(net, i);
    assert_int_equal(net_plan(net, options), STATUS_OK);
}

static void fill(struct net *net, uint64_t seed)
{
    net_initialise(net, seed, 0);
    for (int i = 0; i < net->param_count; i++) {
        struct tensor param = net_param_tensor(net, i, net->params);
        fill_tensor(&param, FILL_RANDOM, seed + (uint64_t)i);
        for (size_t k = 0;
             net->param[i].role == PARAM_WEIGHT && k < tensor_elements(&param); k++)
            ((float *)param.data)[k] *= 0.3f;
    }
    net_params_changed(net);
}

/* ---- with and without shared memory ---------------------------------------------- */

static void run_all(struct net *net, struct tensor *x, uint64_t seed)
{
    fill(net, seed);
    *x = heap_tensor(net->input.dtype, net->input.shape);
    for (int turn = 0; turn < 2; turn++) { // what the first one left must not matter
        fill_tensor(x, FILL_RANDOM, seed + 9 + (uint64_t)turn);
        net_forward(net, x, NET_TRAIN);
        fill_tensor(&net->output_grad, FILL_RANDOM, seed + 11);
        run_backward(net, x, WGRAD | DGRAD | (turn ? ACCUMULATE : 0));
    }
}

static void assert_same(const char *what, const struct graph *graph,
                        const struct tensor *got, const struct tensor *want)
{
    assert_int_equal(tensor_bytes(got), tensor_bytes(want));
    if (memcmp(got->data, want->data, tensor_bytes(want)) != 0)
        fail_msg("graph %llu of %d nodes: %s differs where memory is shared",
                 (unsigned long long)graph->seed, graph->nodes, what);
}

static void compare_with_unshared(const struct graph *graph, int options)
{
    struct net shared, unshared;
    struct tensor x, other;
    build(&shared, graph, NET_INPUT_GRAD | options);
    build(&unshared, graph, NET_INPUT_GRAD | NET_UNSHARED);
    run_all(&shared, &x, graph->seed);
    run_all(&unshared, &other, graph->seed);
    assert_same("the output", graph, net_output(&shared), net_output(&unshared));
    assert_same("the input's gradient", graph, &shared.input_grad, &unshared.input_grad);
    for (int i = 0; i < shared.param_count; i++) {
        struct tensor got = net_param_tensor(&shared, i, shared.grads);
        struct tensor want = net_param_tensor(&unshared, i, unshared.grads);
        assert_same(shared.param[i].name, graph, &got, &want);
    }
    assert_true(shared.activations.bytes <= unshared.activations.bytes);
    struct net sampler;
    build(&sampler, graph, NET_INFERENCE);
    memcpy(sampler.params, shared.params, shared.param_elements * sizeof(float));
    if (shared.buffer_elements)
        memcpy(sampler.buffers, shared.buffers, shared.buffer_elements * sizeof(float));
    net_params_changed(&sampler);
    net_forward(&sampler, &x, NET_EVAL);
    assert_same("the sampled output", graph, net_output(&sampler),
                net_forward(&unshared, &x, NET_EVAL));
    net_release(&sampler);
    net_release(&shared);
    net_release(&unshared);
    free(x.data);
    free(other.data);
}

static void test_memory_that_is_shared_changes_no_bit_of_500_random_graphs(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int i = 0; i < GRAPHS; i++) {
        struct graph graph = {.seed = (uint64_t)i,
                              .nodes = 3 + i % 40,
                              .has_norms = i % 4 != 0,
                              .dtype = dtypes[i % 3],
                              .held = i % 5 == 0 ? 4 : 0};
        compare_with_unshared(&graph, i % 2 ? NET_RECOMPUTE : 0);
    }
}

static void test_a_graph_of_200_nodes_is_planned_and_run(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct graph graph = {
            .seed = 1000 + seed, .nodes = 200, .has_norms = 1, .dtype = DTYPE_F32};
        compare_with_unshared(&graph, NET_RECOMPUTE);
    }
}

/* ---- gradients ------------------------------------------------------------------- */

static void test_gradients_of_random_graphs_match_central_differences(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct graph graph = {.seed = 2000 + seed,
                              .nodes = 4 + (int)seed % 9,
                              .is_smooth = 1,
                              .has_norms = seed % 2 == 0,
                              .dtype = DTYPE_F32};
        struct net net;
        build(&net, &graph, NET_INPUT_GRAD);
        check_gradients(&net, graph.seed);
    }
}

// a is read by three nodes, b and c are added, and a block stands within a block.
static void test_blocks_within_blocks_match_central_differences(void **state)
{
    (void)state;
    struct net net;
    assert_int_equal(net_begin(&net, device, "t", DTYPE_F32,
                               (struct shape){BATCH, SIZE, SIZE, CHANNELS}),
                     STATUS_OK);
    int a = net_add_conv(&net, "a", NET_INPUT, 4, 3, 1, 1, 1);
    int b = net_add_conv(&net, "b", a, 4, 1, 1, 0, 1);
    int inner = net_add_activation(&net, "b_act", b, ACTIVATION_TANH, 0.0f);
    inner = net_add_conv(&net, "b_conv", inner, 4, 3, 1, 1, 0);
    inner = net_add_residual(&net, "inner", inner, b);
    int c = net_add_conv_transpose(&net, "c", a, 4, 3, 1, 1, 0);
    c = net_add_batch_norm(&net, "c_norm", c);
    int outer = net_add_residual(&net, "joined", inner, c);
    outer = net_add_residual(&net, "outer", outer, a);
    outer = net_add_residual(&net, "doubled", outer, outer);
    net_add_activation(&net, "act", outer, ACTIVATION_TANH, 0.0f);
    assert_int_equal(net_plan(&net, NET_INPUT_GRAD), STATUS_OK);
    check_gradients(&net, 5);
}

static void test_an_average_pool_is_the_mean_of_its_blocks(void **state)
{
    (void)state;
    struct net net;
    assert_int_equal(
        net_begin(&net, device, "t", DTYPE_F32, (struct shape){1, 2, 4, 1}), STATUS_OK);
    net_add_average_pool(&net, "pool", NET_INPUT, 2);
    assert_int_equal(net_plan(&net, NET_INPUT_GRAD), STATUS_OK);
    float pixels[8] = {1, 2, 10, 30, 3, 6, 50, 70};
    struct tensor x = tensor_of(DTYPE_F32, net.input.shape, pixels);
    net_forward(&net, &x, NET_TRAIN);
    const float *y = net_output(&net)->data;
    assert_true(y[0] == 3.0f && y[1] == 40.0f);
    ((float *)net.output_grad.data)[0] = 4.0f;
    ((float *)net.output_grad.data)[1] = -8.0f;
    run_backward(&net, &x, DGRAD);
    for (int i = 0; i < 8; i++)
        assert_true(((float *)net.input_grad.data)[i] == (i % 4 < 2 ? 1.0f : -2.0f));
    net_release(&net);
}

static double dot(const struct tensor *a, const struct tensor *b)
{
    double sum = 0;
    for (size_t i = 0; i < tensor_elements(a); i++)
        sum += (double)((const float *)a->data)[i] * (double)((const float *)b->data)[i];
    return sum;
}

// w . (J v), down the graph, equals (J' w) . v, up it.
static void
test_tangents_of_random_graphs_are_the_adjoints_of_backward_passes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct graph graph = {
            .seed = 3000 + seed, .nodes = 3 + (int)seed % 20, .dtype = DTYPE_F32};
        struct net net;
        build(&net, &graph, NET_INPUT_GRAD | NET_TANGENT);
        fill(&net, seed);
        struct tensor x = heap_tensor(DTYPE_F32, net.input.shape);
        struct tensor v = heap_tensor(DTYPE_F32, net.input.shape);
        fill_tensor(&x, FILL_RANDOM, seed + 1);
        fill_tensor(&v, FILL_RANDOM, seed + 2);
        net_forward(&net, &x, NET_TRAIN);
        assert_int_equal(net_forward_tangent(&net, &v), STATUS_OK);
        fill_tensor(&net.output_grad, FILL_RANDOM, seed + 3);
        double down = dot(&net.output_grad, &net.node[net.node_count - 1].tangent);
        run_backward(&net, &x, DGRAD);
        double up = dot(&v, &net.input_grad);
        if (fabs(down - up) > 1e-4 * (fabs(down) + 0.1))
            fail_msg("graph %llu: w.Jv %.9g, J'w.v %.9g", (unsigned long long)graph.seed,
                     down, up);
        free(x.data);
        free(v.data);
        net_release(&net);
    }
}

/* ---- packing --------------------------------------------------------------------- */

static void test_buffers_that_live_together_never_share_memory(void **state)
{
    (void)state;
    enum { LIVES = 40 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct dice dice = {.seed = seed};
        struct life lives[LIVES];
        int order[LIVES];
        size_t sum = 0;
        for (int i = 0; i < LIVES; i++) {
            int first = roll(&dice, 60);
            lives[i] = (struct life){.bytes = (size_t)roll(&dice, 5000),
                                     .first = first,
                                     .last = first + roll(&dice, 9)};
            sum += (lives[i].bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        }
        size_t bytes = liveness_pack(lives, LIVES, order);
        assert_true(bytes <= sum);
        for (int i = 0; i < LIVES; i++) {
            assert_true(lives[i].offset % ARENA_ALIGN == 0 &&
                        lives[i].offset + lives[i].bytes <= bytes);
            for (int k = 0; k < i; k++)
                assert_true(!lives_overlap(&lives[i], &lives[k]) ||
                            lives[i].offset >= lives[k].offset + lives[k].bytes ||
                            lives[k].offset >= lives[i].offset + lives[i].bytes);
        }
    }
}

static void test_a_chain_takes_the_largest_two_neighbours(void **state)
{
    (void)state;
    struct life lives[] = {{.bytes = 512, .first = 0, .last = 1},
                           {.bytes = 2048, .first = 1, .last = 2},
                           {.bytes = 1024, .first = 2, .last = 3},
                           {.bytes = 256, .first = 3, .last = 4}};
    int order[4];
    assert_int_equal(liveness_pack(lives, 4, order), 2048 + 1024);
    lives[3].bytes = SIZE_MAX - 3; // no sum wraps around
    assert_true(liveness_pack(lives, 4, order) > SIZE_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_is_shared_changes_no_bit_of_500_random_graphs),
        cmocka_unit_test(test_a_graph_of_200_nodes_is_planned_and_run),
        cmocka_unit_test(test_gradients_of_random_graphs_match_central_differences),
        cmocka_unit_test(test_blocks_within_blocks_match_central_differences),
        cmocka_unit_test(test_an_average_pool_is_the_mean_of_its_blocks),
        cmocka_unit_test(
            test_tangents_of_random_graphs_are_the_adjoints_of_backward_passes),
        cmocka_unit_test(test_buffers_that_live_together_never_share_memory),
        cmocka_unit_test(test_a_chain_takes_the_largest_two_neighbours),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
