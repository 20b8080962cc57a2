/* test_recompute.c - a backward pass that makes outputs again gives the bits of one that
 * kept them. */
#include <stdlib.h>
#include <string.h>

#include "nets/arch/dcgan.h"
#include "nets/init.h"
#include "nets/survey.h"
#include "tests/nets/shared_device.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

enum { BATCH = 3 };

struct passes {
    struct net net;
    struct tensor input;
};

static void begin(struct passes *run, int resolution, int is_generator, enum dtype dtype,
                  const char *held, int options)
{
    const struct dcgan_config sizes = {.resolution = resolution,
                                       .channels = 3,
                                       .latent = 5,
                                       .g_width = 3,
                                       .d_width = 5,
                                       .fp32_layers = held};
    enum status (*build)(struct net *, struct device *, const struct dcgan_config *,
                         enum dtype, int) =
        is_generator ? dcgan_generator : dcgan_discriminator;
    assert_int_equal(build(&run->net, device, &sizes, dtype, BATCH), STATUS_OK);
    assert_int_equal(net_plan(&run->net, NET_INPUT_GRAD | options), STATUS_OK);
    net_initialise(&run->net, 11, 0);
    run->input = heap_tensor(run->net.input.dtype, run->net.input.shape);
}

static void pass(struct passes *run, uint64_t seed, int what)
{
    fill_tensor(&run->input, FILL_RANDOM, seed);
    net_forward(&run->net, &run->input, NET_TRAIN);
    fill_tensor(&run->net.output_grad, FILL_RANDOM, seed + 1);
    run_backward(&run->net, &run->input, what);
}

static void end(struct passes *run)
{
    free(run->input.data);
    net_release(&run->net);
}

static void compare(int resolution, int is_generator, enum dtype dtype, const char *held)
{
    static struct passes kept, remade;
    struct passes *runs[] = {&kept, &remade};
    for (int i = 0; i < 2; i++) {
        begin(runs[i], resolution, is_generator, dtype, held, i ? NET_RECOMPUTE : 0);
        pass(runs[i], 1, WGRAD);
        pass(runs[i], 2, WGRAD | DGRAD | ACCUMULATE);
    }
    float largest = 0.0f;
    for (size_t i = 0; i < kept.net.param_elements; i++)
        largest = kept.net.grads[i] > largest ? kept.net.grads[i] : largest;
    assert_true(largest > 0.0f);
    size_t bytes = kept.net.param_elements * sizeof(float);
    assert_memory_equal(kept.net.grads, remade.net.grads, bytes);
    for (int i = 0; i < 2; i++) // through to the input only, as in G's step
        pass(runs[i], 3, DGRAD);
    assert_memory_equal(kept.net.input_grad.data, remade.net.input_grad.data,
                        tensor_bytes(&kept.net.input_grad));
    assert_memory_equal(kept.net.grads, remade.net.grads, bytes);
    assert_memory_equal(kept.net.buffers, remade.net.buffers,
                        kept.net.buffer_elements * sizeof(float));
    assert_int_equal(kept.net.unkept_bytes, 0);
    assert_true(remade.net.unkept_bytes > 0);
    // The arena rounds each piece up, so it saves at least what the tensors are.
    assert_true(kept.net.activations.bytes - remade.net.activations.bytes >=
                remade.net.unkept_bytes);
    for (int i = 0; i < 2; i++)
        end(runs[i]);
}

static void test_gradients_are_the_same_bits_with_less_memory(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    for (int i = 0; i < 3; i++)
        for (int is_generator = 0; is_generator < 2; is_generator++) {
            compare(28, is_generator, dtypes[i], NULL);
            compare(32, is_generator, dtypes[i], NULL);
        }
}

static void test_it_works_around_layers_of_another_type(void **state)
{
    (void)state;
    compare(32, 0, DTYPE_F16, "d.conv3");
    compare(32, 0, DTYPE_F16, "d.bn2,d.act2");
    compare(32, 0, DTYPE_BF16, "d.act2");
    compare(32, 1, DTYPE_F16, "g.bn2");
    compare(32, 1, DTYPE_F16, "g.conv2,g.conv3");
}

static void test_memory_that_is_used_again_is_not_looked_at(void **state)
{
    (void)state;
    static struct passes run;
    static struct survey survey;
    for (int is_remade = 0; is_remade < 2; is_remade++) {
        begin(&run, 32, 0, DTYPE_F16, NULL, is_remade ? NET_RECOMPUTE : 0);
        survey_begin(&survey, device);
        survey_add_activations(&survey, &run.net);
        // conv1 with act1, conv2, bn2 with act2, conv3, bn3 with act3, conv4
        assert_int_equal(survey.count, is_remade ? 4 : 6);
        survey_release(&survey);
        end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_the_same_bits_with_less_memory),
        cmocka_unit_test(test_it_works_around_layers_of_another_type),
        cmocka_unit_test(test_memory_that_is_used_again_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
