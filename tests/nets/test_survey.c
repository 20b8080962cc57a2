/* test_survey.c - the layer where inf or NaN came first is found by name. */
#include "nets/layers/layers.h"
#include "nets/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/init.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

enum { STATS = 64 }; // room for those of a scene

struct scene {
    struct device *device;
    struct net net;
    struct tensor input;
    struct survey activations, gradients;
};

// conv1 -> bn1 -> act1 -> conv2 in f16, inputs 1.
static void open_scene(struct scene *scene, const char *device)
{
    assert_int_equal(device_open(device, 1, &scene->device), STATUS_OK);
    struct net *net = &scene->net;
    assert_int_equal(
        net_begin(net, scene->device, "d", DTYPE_F16, (struct shape){2, 4, 4, 3}),
        STATUS_OK);
    net_add_conv(net, "conv1", NET_PREVIOUS, 5, 3, 1, 1, 0);
    net_add_batch_norm(net, "bn1", NET_PREVIOUS);
    net_add_activation(net, "act1", NET_PREVIOUS, ACTIVATION_RELU, 0);
    net_add_conv(net, "conv2", NET_PREVIOUS, 2, 4, 1, 0, 0);
    assert_int_equal(net_plan(net, 0), STATUS_OK);
    net_initialise(net, 1, 0);
    scene->input = heap_tensor(DTYPE_F16, net->input.shape);
    fill_tensor(&scene->input, FILL_RANDOM, 1);
    net_forward(net, &scene->input, NET_TRAIN);
    struct tensor *dy = &net->output_grad;
    fill_tensor(dy, FILL_ONES, 0);
    run_backward(net, &scene->input, WGRAD);
    survey_begin(&scene->activations, scene->device);
    survey_add_activations(&scene->activations, net);
    assert_int_equal(survey_commit(&scene->activations), STATUS_OK);
    survey_begin(&scene->gradients, scene->device);
    survey_add_gradients(&scene->gradients, net, net->grads);
    assert_int_equal(survey_commit(&scene->gradients), STATUS_OK);
}

// Looks at once and searches; the results lie on the device.
static int first_nonfinite(struct scene *scene, struct survey *survey,
                           struct nonfinite_place *place)
{
    const struct memory_ops *memory = &scene->device->ops->memory;
    struct survey_stats host[STATS];
    size_t bytes = (size_t)survey->count * sizeof *host;
    struct survey_stats *stats = memory->alloc(scene->device, bytes);
    survey_look(survey, NULL, stats);
    memory->download(scene->device, host, stats, bytes);
    memory->release(scene->device, stats);
    return survey_first_nonfinite(survey, host, place);
}

static void close_scene(struct scene *scene)
{
    free(scene->input.data);
    survey_release(&scene->activations);
    survey_release(&scene->gradients);
    net_release(&scene->net);
    device_close(scene->device);
}

static void test_the_last_element_of_a_padded_tensor_is_looked_at(void **state)
{
    (void)state;
    static struct scene scene;
    assert_int_equal(device_open("ref", 1, &scene.device), STATUS_OK);
    scene.device->channel_multiple = 8;
    assert_int_equal(
        net_begin(&scene.net, scene.device, "d", DTYPE_F16, (struct shape){2, 4, 4, 3}),
        STATUS_OK);
    net_add_conv(&scene.net, "conv1", NET_PREVIOUS, 5, 3, 1, 1, 0);
    assert_int_equal(net_plan(&scene.net, 0), STATUS_OK);
    survey_begin(&scene.activations, scene.device);
    survey_add_activations(&scene.activations, &scene.net);
    assert_int_equal(survey_commit(&scene.activations), STATUS_OK);
    struct nonfinite_place place;
    struct tensor *y = net_output(&scene.net);
    assert_int_equal(y->c_stored, 8);
    assert_false(first_nonfinite(&scene, &scene.activations, &place));
    element_store(y->data, y->dtype, tensor_stored(y) - 8 + 4,
                  INFINITY); // channel 5 of 5
    assert_true(first_nonfinite(&scene, &scene.activations, &place));
    assert_string_equal(place.layer, "d.conv1");
    survey_release(&scene.activations);
    net_release(&scene.net);
    device_close(scene.device);
}

static void set_weights(struct net *net, int param, float value)
{
    for (size_t i = 0; i < tensor_elements(&net->param[param].shape); i++)
        net->params[net->param[param].offset + i] = value;
    net_params_changed(net);
}

static void assert_place(const struct nonfinite_place *place, const char *layer,
                         const char *tensor)
{
    assert_string_equal(place->layer, layer);
    assert_string_equal(place->tensor, tensor);
}

static const char *const devices[] = {"ref", "cpu"};

static void test_a_finite_network_has_no_such_place(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct nonfinite_place place = {.layer = "untouched"};
        open_scene(&scene, devices[d]);
        assert_int_equal(first_nonfinite(&scene, &scene.activations, &place), 0);
        assert_int_equal(first_nonfinite(&scene, &scene.gradients, &place), 0);
        assert_string_equal(place.layer, "untouched");
        close_scene(&scene);
    }
}

static void test_the_first_activation_out_of_range_is_named(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct nonfinite_place place;
        open_scene(&scene, devices[d]);
        // 16 taps of about 1e4 times what ReLU lets through: beyond 65504 in conv2 alone.
        set_weights(&scene.net, 3, 6e4f);
        net_forward(&scene.net, &scene.input, NET_TRAIN);
        assert_int_equal(first_nonfinite(&scene, &scene.activations, &place), 1);
        assert_place(&place, "d.conv2", "activation");
        // With conv1 out of range too, conv1 comes first.
        fill_tensor(&scene.input, FILL_ONES, 0);
        set_weights(&scene.net, 0, 6e4f);
        net_forward(&scene.net, &scene.input, NET_TRAIN);
        assert_int_equal(first_nonfinite(&scene, &scene.activations, &place), 1);
        assert_place(&place, "d.conv1", "activation");
        close_scene(&scene);
    }
}

static void test_the_first_gradient_in_backward_order_is_named(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct nonfinite_place place;
        open_scene(&scene, devices[d]);
        struct net *net = &scene.net;
        net->grads[net->param[0].offset + 7] = INFINITY;
        assert_int_equal(first_nonfinite(&scene, &scene.gradients, &place), 1);
        assert_place(&place, "d.conv1", "weight gradient");
        net->grads[net->param[2].offset + 4] = NAN; // bn1's beta
        assert_int_equal(first_nonfinite(&scene, &scene.gradients, &place), 1);
        assert_place(&place, "d.bn1", "weight gradient");
        close_scene(&scene);
    }
}

static void test_a_gate_that_lets_the_step_pass_looks_at_nothing(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        open_scene(&scene, devices[d]);
        struct survey_stats stats[STATS] = {{.inf = 77}};
        struct scaler_state gate = {.scale = 1.0f, .enabled = 1};
        survey_look(&scene.activations, &gate, stats);
        assert_int_equal(stats[0].inf, 77);
        gate.found_inf = 1.0f;
        survey_look(&scene.activations, &gate, stats);
        assert_int_equal(stats[0].inf, 0);
        assert_true(stats[0].max_abs > 0.0f);
        close_scene(&scene);
    }
}

/* ---- on the way through the backward pass ---------------------------------------- */

// Of the net's backward pass, which starts from ones times `seed`; in host memory, which
// on these devices is the device's.
static void look_backward(struct scene *scene, struct survey *survey, float seed,
                          struct survey_stats *stats)
{
    struct tensor *dy = &scene->net.output_grad;
    for (size_t i = 0; i < tensor_elements(dy); i++)
        ((uint16_t *)dy->data)[i] = f16_from_f32(seed);
    survey_begin(survey, scene->device);
    struct backward pass = backward_of(&scene->net, &scene->input, WGRAD);
    survey_add_backward(survey, &scene->net, &pass);
    assert_int_equal(survey_commit(survey), STATUS_OK);
    survey_backward(survey, &scene->net, &pass, stats);
}

static void test_looking_on_the_way_changes_no_gradient(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct survey survey;
        struct survey_stats stats[STATS];
        open_scene(&scene, devices[d]);
        size_t bytes = scene.net.param_elements * sizeof(float);
        float *plain = malloc(bytes);
        memcpy(plain, scene.net.grads, bytes); // open_scene() went back from ones
        memset(scene.net.grads, 0, bytes);
        look_backward(&scene, &survey, 1.0f, stats);
        assert_memory_equal(plain, scene.net.grads, bytes);
        free(plain);
        survey_release(&survey);
        close_scene(&scene);
    }
}

// conv2, its weight, bn1 (whose activation it undoes itself), its parameters, conv1, its
// weight: act1 has no gradient of its own in memory.
static void test_each_gradient_is_seen_before_it_is_overwritten(void **state)
{
    (void)state;
    static const char *const layers[] = {"d.conv2", "d.conv2", "d.bn1",  "d.bn1",
                                         "d.bn1",   "d.conv1", "d.conv1"};
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct survey survey;
        struct survey_stats stats[STATS];
        char name[NET_NAME_MAX + 8];
        open_scene(&scene, devices[d]);
        look_backward(&scene, &survey, 0.5f, stats);
        assert_int_equal(survey.count, 7);
        for (int i = 0; i < survey.count; i++) {
            assert_string_equal(survey_layer(&survey.entry[i], name), layers[i]);
            assert_int_equal(survey.entry[i].kind, i == 0 || i == 2 || i == 5
                                                       ? SURVEY_ACTIVATION_GRADIENT
                                                       : SURVEY_WEIGHT_GRADIENT);
        }
        assert_true(stats[0].max_abs == 0.5f);
        assert_true(stats[0].sum == 0.5 * (double)survey.entry[0].elements);
        // Afterwards bn1's memory holds conv1's.
        struct survey_stats last[STATS];
        survey_look(&survey, NULL, last);
        assert_true(last[5].sumsq == stats[5].sumsq);
        assert_true(last[2].sumsq == stats[5].sumsq);
        assert_true(last[2].sumsq != stats[2].sumsq);
        survey_release(&survey);
        close_scene(&scene);
    }
}

static void test_an_activation_gradient_out_of_range_is_named(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct scene scene;
        struct survey survey;
        struct survey_stats stats[STATS];
        struct nonfinite_place place;
        open_scene(&scene, devices[d]);
        look_backward(&scene, &survey, 1.0f, stats);
        assert_int_equal(survey_first_nonfinite(&survey, stats, &place), 0);
        survey_release(&survey);
        // conv2's gradient is finite and so are its sums; times its weights it is not.
        set_weights(&scene.net, 3, 3e4f);
        look_backward(&scene, &survey, 2.0f, stats);
        assert_int_equal(survey_first_nonfinite(&survey, stats, &place), 1);
        assert_place(&place, "d.bn1", "activation gradient");
        assert_int_equal(stats[place.entry].nan, 0);
        assert_true(stats[place.entry].inf > 0);
        survey_release(&survey);
        close_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_element_of_a_padded_tensor_is_looked_at),
        cmocka_unit_test(test_a_finite_network_has_no_such_place),
        cmocka_unit_test(test_the_first_activation_out_of_range_is_named),
        cmocka_unit_test(test_the_first_gradient_in_backward_order_is_named),
        cmocka_unit_test(test_a_gate_that_lets_the_step_pass_looks_at_nothing),
        cmocka_unit_test(test_looking_on_the_way_changes_no_gradient),
        cmocka_unit_test(test_each_gradient_is_seen_before_it_is_overwritten),
        cmocka_unit_test(test_an_activation_gradient_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
