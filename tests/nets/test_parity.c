/* test_parity.c - twenty float32 steps of DCGAN give PyTorch's losses, gradients, weights
 * and running statistics; and a loss scale that is a power of two changes no bit of them.
 * The golden files and their layouts: tests/golden/README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/files/safetensors.h"
#include "nets/arch/dcgan.h"
#include "nets/init.h"
#include "nets/optim/adam.h"
#include "scaler/grad_scaler.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

#define STEPS 20
#define BATCH 8
#define LATENT 16

struct parity_case {
    const char *name;
    int resolution, channels, width;
};

static const struct parity_case cases[] = {{"dcgan32", 32, 1, 8}, {"dcgan64", 64, 3, 4}};
#define CASES 2

/* ---- golden files ---------------------------------------------------------------- */

static struct safetensors_file *golden_open(const struct parity_case *what,
                                            const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, TESTS_DIR "/golden/%s_%s.safetensors", what->name,
             ending);
    struct safetensors_file *file;
    if (safetensors_open(path, &file) != STATUS_OK)
        fail_msg("%s", status_message());
    return file;
}

static const float *golden_find(const struct safetensors_file *file, const char *name,
                                size_t elements)
{
    const struct safetensor *tensor = safetensors_find(file, name);
    if (tensor == NULL)
        fail_msg("no golden tensor %s", name);
    assert_string_equal(tensor->dtype, "F32");
    assert_int_equal(tensor->bytes, elements * sizeof(float));
    return tensor->data;
}

/* "g.3.weight": the net, the node (PyTorch's index in nn.Sequential), PyTorch's word. */
static const float *golden_param(const struct safetensors_file *file,
                                 const struct net *net, int index, size_t elements)
{
    const struct param *param = &net->param[index];
    int is_weight = param->role == PARAM_WEIGHT || param->role == PARAM_GAMMA;
    char name[64];
    snprintf(name, sizeof name, "%s.%d.%s", net->name, param->node,
             is_weight ? "weight" : "bias");
    return golden_find(file, name, elements);
}

/* ---- one GAN --------------------------------------------------------------------- */

struct gan {
    struct device *device;
    struct net g, d;
    struct adam adam_g, adam_d;
    struct grad_scaler scaler_g, scaler_d;
    struct tensor latents, pixels, reals;
    struct loss_sums *sums;
    struct arena arena;
    const float *all_latents; // [STEPS, BATCH, LATENT], of the golden file
    double losses[STEPS][3];  // D real, D fake, G
};

static void open_optimizer(struct net *net, struct adam *adam, struct grad_scaler *scaler,
                           const struct grad_scaler_config *config)
{
    struct adam_config settings = {
        .lr = 2e-4f, .beta1 = 0.5f, .beta2 = 0.999f, .eps = 1e-8f};
    assert_int_equal(adam_create(adam, net, &settings), STATUS_OK);
    assert_int_equal(grad_scaler_create(scaler, net->device, net->name, config),
                     STATUS_OK);
}

/* net_initialise() for the running statistics, then PyTorch's weights. Nothing here pads:
 * the devices of this test store exactly the shape. */
static void load_weights(struct net *net, const struct safetensors_file *start)
{
    net_initialise(net, 1, 0);
    for (int i = 0; i < net->param_count; i++) {
        struct tensor tensor = net_param_tensor(net, i, net->params);
        size_t elements = tensor_elements(&tensor);
        assert_int_equal(elements, tensor_stored(&tensor));
        net->device->ops->memory.upload(net->device, tensor.data,
                                        golden_param(start, net, i, elements),
                                        elements * sizeof(float));
    }
    net_params_changed(net);
}

static void gan_open(struct gan *gan, struct device *device,
                     const struct parity_case *what, const struct safetensors_file *start,
                     const struct grad_scaler_config *config)
{
    *gan = (struct gan){.device = device};
    struct dcgan_config dcgan = {.resolution = what->resolution,
                                 .channels = what->channels,
                                 .latent = LATENT,
                                 .g_width = what->width,
                                 .d_width = what->width};
    assert_int_equal(dcgan_generator(&gan->g, device, &dcgan, DTYPE_F32, BATCH),
                     STATUS_OK);
    assert_int_equal(dcgan_discriminator(&gan->d, device, &dcgan, DTYPE_F32, BATCH),
                     STATUS_OK);
    assert_int_equal(net_plan(&gan->g, 0), STATUS_OK);
    assert_int_equal(net_plan(&gan->d, NET_INPUT_GRAD), STATUS_OK);
    load_weights(&gan->g, start);
    load_weights(&gan->d, start);
    open_optimizer(&gan->g, &gan->adam_g, &gan->scaler_g, config);
    open_optimizer(&gan->d, &gan->adam_d, &gan->scaler_d, config);

    struct shape image = {BATCH, what->resolution, what->resolution, what->channels};
    gan->latents = tensor_of(DTYPE_F32, (struct shape){BATCH, 1, 1, LATENT}, NULL);
    gan->pixels = tensor_of(DTYPE_U8, image, NULL);
    gan->reals = tensor_of(DTYPE_F32, image, NULL);
    arena_begin(&gan->arena, device, "parity inputs");
    arena_reserve(&gan->arena, &gan->latents.data, tensor_bytes(&gan->latents));
    arena_reserve(&gan->arena, &gan->pixels.data, tensor_bytes(&gan->pixels));
    arena_reserve(&gan->arena, &gan->reals.data, tensor_bytes(&gan->reals));
    arena_reserve(&gan->arena, (void **)&gan->sums, sizeof *gan->sums);
    assert_int_equal(arena_commit(&gan->arena), STATUS_OK);
    gan->all_latents =
        golden_find(start, "latents", (size_t)STEPS * tensor_elements(&gan->latents));
}

static void gan_close(struct gan *gan)
{
    grad_scaler_release(&gan->scaler_g);
    grad_scaler_release(&gan->scaler_d);
    adam_release(&gan->adam_g);
    adam_release(&gan->adam_d);
    arena_release(&gan->arena);
    net_release(&gan->g);
    net_release(&gan->d);
}

/* The same picture in make_dcgan_parity.py: the top byte of a hash of the index. */
static uint8_t real_pixel(uint32_t index)
{
    uint32_t mixed = index * 2654435761u;
    mixed = (mixed ^ mixed >> 15) * 2246822519u;
    return (uint8_t)((mixed ^ mixed >> 13) >> 24);
}

static void fill_inputs(struct gan *gan, int step)
{
    const struct ops *ops = gan->device->ops;
    size_t count = tensor_elements(&gan->pixels), row = tensor_elements(&gan->latents);
    uint8_t *pixels = malloc(count);
    assert_non_null(pixels);
    for (size_t i = 0; i < count; i++)
        pixels[i] = real_pixel((uint32_t)((size_t)step * count + i));
    ops->memory.upload(gan->device, gan->pixels.data, pixels, count);
    free(pixels);
    ops->image.from_u8(gan->device, &gan->pixels, 0, 0, NULL, 0, &gan->reals);
    ops->memory.upload(gan->device, gan->latents.data,
                       gan->all_latents + (size_t)step * row, row * sizeof(float));
}

/* D on `images` with `target`; returns the mean loss, leaves the seed in D's output
 * gradient. */
static double forward_and_loss(struct gan *gan, const struct tensor *images, float target,
                               struct grad_scaler *scaler)
{
    net_forward(&gan->d, images, NET_TRAIN);
    gan->device->ops->loss.on_logits(gan->device, LOSS_ns, net_output(&gan->d), target,
                                     1.0f, grad_scaler_scale(scaler), &gan->d.output_grad,
                                     gan->sums);
    struct loss_sums sums;
    gan->device->ops->memory.download(gan->device, &sums, gan->sums, sizeof sums);
    assert_true(sums.count == BATCH);
    return sums.loss / sums.count;
}

static void finish_step(struct grad_scaler *scaler, struct adam *adam)
{
    assert_int_equal(grad_scaler_step(scaler, &adam->optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(scaler), CALL_OK);
}

static void discriminator_backward(struct gan *gan, int step)
{
    const struct tensor *fakes = net_output(&gan->g);
    gan->losses[step][0] = forward_and_loss(gan, &gan->reals, 1.0f, &gan->scaler_d);
    run_backward(&gan->d, &gan->reals, WGRAD);
    net_forward(&gan->g, &gan->latents, NET_TRAIN);
    gan->losses[step][1] = forward_and_loss(gan, fakes, 0.0f, &gan->scaler_d);
    run_backward(&gan->d, fakes, WGRAD | ACCUMULATE);
}

static void generator_backward(struct gan *gan, int step)
{
    const struct tensor *fakes = net_output(&gan->g);
    gan->losses[step][2] = forward_and_loss(gan, fakes, 1.0f, &gan->scaler_g);
    run_backward(&gan->d, fakes, DGRAD);
    struct tensor *seed = &gan->g.output_grad;
    assert_true(shape_equal(seed->shape, gan->d.input_grad.shape));
    gan->device->ops->memory.copy(gan->device, seed->data, gan->d.input_grad.data,
                                  tensor_bytes(seed));
    run_backward(&gan->g, &gan->latents, WGRAD);
}

/* ---- comparison ------------------------------------------------------------------ */

struct worst {
    double error;
    char name[64];
};

/* ||got - want|| / ||want||, kept in `worst` if it is the largest so far. */
static void compare(const struct net *net, const float *data, const float *want,
                    size_t elements, const char *name, struct worst *worst)
{
    float *got = malloc(elements * sizeof *got);
    assert_non_null(got);
    net->device->ops->memory.download(net->device, got, data, elements * sizeof *got);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < elements; i++) {
        difference += pow((double)got[i] - (double)want[i], 2);
        norm += pow((double)want[i], 2);
    }
    free(got);
    assert_true(norm > 0);
    double error = sqrt(difference / norm);
    if (!(error <= worst->error)) { // NaN too
        worst->error = error;
        snprintf(worst->name, sizeof worst->name, "%s.%s", net->name, name);
    }
}

static void compare_params(const struct net *net, float *block,
                           const struct safetensors_file *golden, struct worst *worst)
{
    for (int i = 0; i < net->param_count; i++) {
        struct tensor tensor = net_param_tensor(net, i, block);
        size_t elements = tensor_elements(&tensor);
        compare(net, tensor.data, golden_param(golden, net, i, elements), elements,
                net->param[i].name, worst);
    }
}

static void compare_running(const struct net *net, const struct safetensors_file *golden,
                            struct worst *worst)
{
    for (int i = 0; i < net->buffer_count; i++) {
        const struct net_buffer *buffer = &net->buffer[i];
        char name[64];
        const char *word = strchr(buffer->name, '.');
        int node = 0;
        while (strncmp(net->node[node].name, buffer->name,
                       (size_t)(word - buffer->name)) != 0)
            node++;
        snprintf(name, sizeof name, "%s.%d%s", net->name, node, word);
        size_t elements = (size_t)buffer->elements;
        compare(net, net->buffers + buffer->offset, golden_find(golden, name, elements),
                elements, word, worst);
    }
}

static void assert_within(const char *what, const struct gan *gan,
                          const struct worst *worst, double limit)
{
    print_message("  %s %s: worst relative error %.2g (%s), limit %g\n",
                  gan->device->name, what, worst->error, worst->name, limit);
    if (!(worst->error < limit))
        fail_msg("%s on %s: %s is off by %g, limit %g", what, gan->device->name,
                 worst->name, worst->error, limit);
}

static void assert_gradients(struct gan *gan, struct net *net,
                             const struct parity_case *what)
{
    struct safetensors_file *golden = golden_open(what, "gradients");
    struct worst worst = {.error = 0};
    compare_params(net, net->grads, golden, &worst);
    assert_within("gradients at step 1", gan, &worst, 1e-5);
    safetensors_close(golden);
}

static void assert_weights(struct gan *gan, const struct parity_case *what,
                           const char *ending, double limit)
{
    struct safetensors_file *golden = golden_open(what, ending);
    struct worst worst = {.error = 0};
    compare_params(&gan->g, gan->g.params, golden, &worst);
    compare_params(&gan->d, gan->d.params, golden, &worst);
    compare_running(&gan->g, golden, &worst);
    compare_running(&gan->d, golden, &worst);
    assert_within(ending, gan, &worst, limit);
    safetensors_close(golden);
}

static void assert_losses(const struct gan *gan, const struct safetensors_file *start,
                          int steps)
{
    static const char *const names[] = {"D real", "D fake", "G"};
    const float *want = golden_find(start, "losses", STEPS * 3);
    struct worst worst = {.error = 0};
    for (int i = 0; i < steps * 3; i++) {
        double golden = (double)want[i];
        double error = fabs(gan->losses[i / 3][i % 3] - golden) / golden;
        if (!(error <= worst.error)) {
            worst.error = error;
            snprintf(worst.name, sizeof worst.name, "%s at step %d", names[i % 3],
                     i / 3 + 1);
        }
    }
    assert_within("losses", gan, &worst, 1e-4);
}

/* ---- tests ----------------------------------------------------------------------- */

static struct device *open_named(const char *name)
{
    struct device *device;
    if (device_open(name, 0, &device) != STATUS_OK)
        fail_msg("%s: %s", name, status_message());
    return device;
}

static void take_step(struct gan *gan, int step, const struct parity_case *check)
{
    fill_inputs(gan, step);
    discriminator_backward(gan, step);
    if (check)
        assert_gradients(gan, &gan->d, check);
    finish_step(&gan->scaler_d, &gan->adam_d);
    generator_backward(gan, step);
    if (check)
        assert_gradients(gan, &gan->g, check);
    finish_step(&gan->scaler_g, &gan->adam_g);
}

static void assert_parity(const char *device_name, int steps)
{
    struct device *device = open_named(device_name);
    struct grad_scaler_config config = grad_scaler_default_config();
    config.enabled = 0;
    for (int k = 0; k < CASES; k++) {
        struct safetensors_file *start = golden_open(&cases[k], "start");
        struct gan gan;
        print_message("  %s\n", cases[k].name);
        gan_open(&gan, device, &cases[k], start, &config);
        for (int step = 0; step < steps; step++) {
            take_step(&gan, step, step == 0 ? &cases[k] : NULL);
            if (step == 0)
                assert_weights(&gan, &cases[k], "step01", 1e-5);
        }
        if (steps == STEPS)
            assert_weights(&gan, &cases[k], "step20", 1e-4);
        assert_losses(&gan, start, steps);
        gan_close(&gan);
        safetensors_close(start);
    }
    assert_int_equal(device_fault(device), STATUS_OK);
    device_close(device);
}

static void the_first_steps_on_ref_are_those_of_pytorch(void **state)
{
    (void)state;
    assert_parity("ref", 2);
}

static void twenty_steps_on_cpu_are_those_of_pytorch(void **state)
{
    (void)state;
    assert_parity("cpu", STEPS);
}

static void assert_same_block(const struct net *net, const float *a, const float *b,
                              size_t elements)
{
    size_t bytes = elements * sizeof *a;
    float *got = malloc(bytes), *want = malloc(bytes);
    assert_true(got != NULL && want != NULL);
    net->device->ops->memory.download(net->device, got, a, bytes);
    net->device->ops->memory.download(net->device, want, b, bytes);
    assert_memory_equal(got, want, bytes);
    free(got);
    free(want);
}

static void assert_same_net(const struct net *a, const struct adam *adam_a,
                            const struct net *b, const struct adam *adam_b)
{
    assert_same_block(a, a->params, b->params, a->param_elements);
    assert_same_block(a, adam_a->m, adam_b->m, a->param_elements);
    assert_same_block(a, adam_a->v, adam_b->v, a->param_elements);
    assert_same_block(a, a->buffers, b->buffers, a->buffer_elements);
}

/* A scale of 65536 that grows every third step, against no scale at all. */
static void assert_scaling_changes_no_bit(const char *device_name, int steps)
{
    struct device *device = open_named(device_name);
    struct grad_scaler_config off = grad_scaler_default_config(), on = off;
    off.enabled = 0;
    on.growth_interval = 3;
    for (int k = 0; k < CASES; k++) {
        struct safetensors_file *start = golden_open(&cases[k], "start");
        struct gan plain, scaled;
        gan_open(&plain, device, &cases[k], start, &off);
        gan_open(&scaled, device, &cases[k], start, &on);
        for (int step = 0; step < steps; step++) {
            take_step(&plain, step, NULL);
            take_step(&scaled, step, NULL);
        }
        assert_true(grad_scaler_read(&scaled.scaler_d).scale ==
                    ldexpf(65536.0f, steps / 3));
        assert_int_equal(grad_scaler_read(&scaled.scaler_g).adam_t, steps);
        assert_memory_equal(plain.losses, scaled.losses, sizeof plain.losses);
        assert_same_net(&scaled.g, &scaled.adam_g, &plain.g, &plain.adam_g);
        assert_same_net(&scaled.d, &scaled.adam_d, &plain.d, &plain.adam_d);
        gan_close(&plain);
        gan_close(&scaled);
        safetensors_close(start);
    }
    device_close(device);
}

static void a_scale_that_is_a_power_of_two_changes_no_bit_on_ref(void **state)
{
    (void)state;
    assert_scaling_changes_no_bit("ref", 2);
}

static void a_scale_that_is_a_power_of_two_changes_no_bit_on_cpu(void **state)
{
    (void)state;
    assert_scaling_changes_no_bit("cpu", STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_steps_on_ref_are_those_of_pytorch),
        cmocka_unit_test(twenty_steps_on_cpu_are_those_of_pytorch),
        cmocka_unit_test(a_scale_that_is_a_power_of_two_changes_no_bit_on_ref),
        cmocka_unit_test(a_scale_that_is_a_power_of_two_changes_no_bit_on_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
