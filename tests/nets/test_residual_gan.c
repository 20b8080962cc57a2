/* test_residual_gan.c - a residual GAN in fp16: what its branches lose without a loss
 * scale, and that a scaler for each network keeps it where f32 is.
 *
 * G and D are toys of R3GAN's kind: no batch norm; blocks of a 1x1 convolution to twice
 * the width, a 3x3 one and a 1x1 one back, whose weights begin as zeros ("fixup"), added
 * to what the block began with. After the first step of Adam those weights are +-lr, and
 * all that reaches the inside of a branch is that many times smaller than the stream
 * beside it: below the smallest number of fp16, while the stream is well within its
 * range. R3GAN's authors found that fp16 "cripples the training" and train in bf16; they
 * use no loss scale.
 *
 * Three networks with the same weights look at the same batch: f32, fp16 at a scale of 1,
 * and fp16 at its scaler's. The survey counts the zeros of each, as --grad-stats does.
 * Nothing else shows what is lost: no gradient overflows, and the losses of so short a
 * run hardly differ, since Adam moves a weight by as much whatever the size of the
 * gradient that is left.
 *
 * Sources: Huang et al. 2024, arXiv:2501.05441 (blocks, initial values, Adam's beta1 of
 * 0); Zhang et al. 2019, arXiv:1901.09321 (fixup). Strided convolutions stand for their
 * resampling, full 3x3 ones for grouped ones, and the losses are those of DCGAN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "nets/layers/kinds.h"
#include "nets/layers/layers.h"
#include "nets/init.h"
#include "nets/optim/adam.h"
#include "nets/survey.h"
#include "scaler/topology.h"
#include "tests/nets/shared_device.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

enum {
    BATCH = 64,
    SIZE = 16,
    CHANNELS = 3,
    LATENT = 16,
    WIDE = 24,   // channels at 4 x 4 and 8 x 8
    NARROW = 16, // at 16 x 16
    BLOCKS = 3,
    BATCHES = 32, // of the data set
    STEPS = 40,
    SMOOTHED = 16, // the last steps, whose losses are averaged
    STATS = 128    // room for those of a backward pass
};

#define SLOPE 0.2f
#define INIT_STD 0.02f // net_initialise()'s
/* Below PyTorch's 2^16, at which a few steps are skipped: then a run would be compared
 * with one that has taken more steps. */
#define INIT_SCALE 0x1p14
/* Losses that are a mean over 512 images, R3GAN's batch, as on one of eight devices or in
 * one of eight accumulated batches: of each step only this eighth is taken. */
#define LARGE_BATCH 0.125f

/* A run; `scale` 0: a scaler of each network that begins at INIT_SCALE, else that one. */
struct run {
    const char *name;
    enum dtype dtype;
    double scale;
    float weight; // of every loss: 1 or LARGE_BATCH
};

struct gan {
    struct run run;
    struct net net[ROLES];
    struct adam adam[ROLES];
    struct grad_scaler scaler[ROLES];
    struct topology topology;
    struct tensor real, latents;
    double loss[ROLES]; // smoothed
};

/* ---- the networks ---------------------------------------------------------------- */

static const char *row_name(char text[NET_NAME_MAX], int block, const char *row)
{
    snprintf(text, NET_NAME_MAX, "block%d.%s", block, row);
    return text;
}

static void add_block(struct net *net, int block, int width)
{
    char name[NET_NAME_MAX];
    int begin = net->node_count - 1;
    net_add_conv(net, row_name(name, block, "widen"), NET_PREVIOUS, 2 * width, 1, 1, 0,
                 1);
    net_add_activation(net, row_name(name, block, "act1"), NET_PREVIOUS,
                       ACTIVATION_LEAKY_RELU, SLOPE);
    net_add_conv(net, row_name(name, block, "conv"), NET_PREVIOUS, 2 * width, 3, 1, 1, 1);
    net_add_activation(net, row_name(name, block, "act2"), NET_PREVIOUS,
                       ACTIVATION_LEAKY_RELU, SLOPE);
    net_add_conv(net, row_name(name, block, "zero"), NET_PREVIOUS, width, 1, 1, 0, 0);
    net_add_residual(net, row_name(name, block, "sum"), NET_PREVIOUS, begin);
}

/* Rows whose gradients have come through a branch's zeros, and whose weights learn by
 * them. */
static int is_inside_branch(const struct net *net, int row)
{
    const char *name = net->node[row].name;
    return strstr(name, ".widen") || strstr(name, ".conv");
}

/* std = gain / sqrt(fan in), in branches sqrt(2/(1 + slope^2)) L^(-1/4) of it, their last
 * convolution zero. */
static float initial_std(const struct net *net, int row)
{
    const struct node *node = &net->node[row];
    const struct conv_desc *conv = node_conv(node);
    int is_transposed = node_conv_is_transposed(node);
    double taps = (double)conv->kernel * conv->kernel;
    double fan_in = is_transposed ? taps / (conv->stride * conv->stride) * conv->y.c
                                  : taps * conv->x.c;
    if (node->kind == &linear_kind && is_transposed)
        fan_in = conv->y.c;
    if (strstr(node->name, ".zero"))
        return 0.0f;
    double slope = (double)SLOPE, gain = 1.0;
    if (is_inside_branch(net, row))
        gain = sqrt(2.0 / (1.0 + slope * slope)) * pow(BLOCKS, -0.25);
    return (float)(gain / sqrt(fan_in));
}

static void initialise(struct net *net, uint64_t salt)
{
    net_initialise(net, 1, salt);
    for (int i = 0; i < net->param_count; i++) {
        struct tensor param = net_param_tensor(net, i, net->params);
        if (net->param[i].role != PARAM_WEIGHT)
            continue;
        float factor = initial_std(net, net->param[i].node) / INIT_STD;
        for (size_t k = 0; k < tensor_stored(&param); k++)
            ((float *)param.data)[k] *= factor;
    }
    net_params_changed(net);
}

static void make_discriminator(struct net *net, enum dtype dtype)
{
    assert_int_equal(
        net_begin(net, device, "d", dtype, (struct shape){BATCH, SIZE, SIZE, CHANNELS}),
        STATUS_OK);
    net_add_conv(net, "from_rgb", NET_PREVIOUS, NARROW, 1, 1, 0, 0);
    add_block(net, 1, NARROW);
    net_add_conv(net, "down1", NET_PREVIOUS, WIDE, 2, 2, 0, 0);
    add_block(net, 2, WIDE);
    net_add_conv(net, "down2", NET_PREVIOUS, WIDE, 2, 2, 0, 0);
    add_block(net, 3, WIDE);
    net_add_linear(net, "fc", NET_PREVIOUS, (struct shape){BATCH, 1, 1, 1}, 0);
    net_make_head_f32(net);
    assert_int_equal(net_plan(net, NET_INPUT_GRAD), STATUS_OK);
    initialise(net, 0);
}

static void make_generator(struct net *net, enum dtype dtype)
{
    assert_int_equal(
        net_begin(net, device, "g", dtype, (struct shape){BATCH, 1, 1, LATENT}),
        STATUS_OK);
    net_add_linear(net, "fc", NET_PREVIOUS,
                   (struct shape){BATCH, SIZE / 4, SIZE / 4, WIDE}, 0);
    add_block(net, 1, WIDE);
    net_add_conv_transpose(net, "up1", NET_PREVIOUS, WIDE, 2, 2, 0, 0);
    add_block(net, 2, WIDE);
    net_add_conv_transpose(net, "up2", NET_PREVIOUS, NARROW, 2, 2, 0, 0);
    add_block(net, 3, NARROW);
    net_add_conv(net, "to_rgb", NET_PREVIOUS, CHANNELS, 1, 1, 0, 0);
    assert_int_equal(net_plan(net, 0), STATUS_OK);
    initialise(net, 1);
}

static void gan_open(struct gan *gan, const struct run *run)
{
    *gan = (struct gan){.run = *run};
    make_generator(&gan->net[ROLE_G], run->dtype);
    make_discriminator(&gan->net[ROLE_D], run->dtype);
    struct scaled network[ROLES];
    const struct adam_config adam = {
        .lr = 5e-5f, .beta1 = 0.0f, .beta2 = 0.99f, .eps = 1e-8f};
    for (int i = 0; i < ROLES; i++) {
        struct net *net = &gan->net[i];
        struct grad_scaler_config config = grad_scaler_default_config();
        config.is_static = run->scale > 0.0;
        config.init_scale = config.is_static ? run->scale : INIT_SCALE;
        assert_int_equal(adam_create(&gan->adam[i], net, &adam), STATUS_OK);
        assert_int_equal(grad_scaler_create(&gan->scaler[i], device, net->name, &config),
                         STATUS_OK);
        network[i] = (struct scaled){.scaler = &gan->scaler[i],
                                     .optimizer = &gan->adam[i].optimizer};
    }
    assert_int_equal(
        topology_create(&gan->topology, TOPOLOGY_PER_NETWORK, SKIP_OWN, network,
                        (const struct topology_pass[]){
                            {ROLE_D, ROLE_D}, {ROLE_D, ROLE_D}, {ROLE_G, ROLE_G}},
                        GAN_PASSES),
        STATUS_OK);
    gan->real = heap_tensor(run->dtype, gan->net[ROLE_D].input.shape);
    gan->latents = heap_tensor(run->dtype, gan->net[ROLE_G].input.shape);
}

static void gan_close(struct gan *gan)
{
    topology_release(&gan->topology);
    for (int i = 0; i < ROLES; i++) {
        grad_scaler_release(&gan->scaler[i]);
        adam_release(&gan->adam[i]);
        net_release(&gan->net[i]);
    }
    free(gan->real.data);
    free(gan->latents.data);
}

/* ---- training -------------------------------------------------------------------- */

/* Seven numbers of image `image`, 0..1: where its blot lies, how large it is, its
 * colour. */
static void draw_blot(uint64_t image, double blot[8])
{
    for (uint64_t half = 0; half < 2; half++) {
        struct philox_words words = philox(5, STREAM_SHAPES, half, image);
        for (int i = 0; i < 4; i++)
            blot[4 * half + (uint64_t)i] = (double)words.word[i] * 0x1p-32;
    }
}

/* Batch `number` of the data set: soft coloured blots on black. */
static void draw_real(struct gan *gan, uint64_t number)
{
    for (uint64_t n = 0; n < BATCH; n++) {
        double blot[8];
        draw_blot(number % BATCHES * BATCH + n, blot);
        double radius = (double)SIZE * (0.1 + 0.15 * blot[2]);
        for (int i = 0; i < SIZE * SIZE; i++) {
            double y = (i / SIZE - (double)SIZE * (0.25 + 0.5 * blot[0])) / radius;
            double x = (i % SIZE - (double)SIZE * (0.25 + 0.5 * blot[1])) / radius;
            double light = 2.0 * exp(-y * y - x * x);
            for (int c = 0; c < CHANNELS; c++)
                element_store(gan->real.data, gan->real.dtype,
                              (n * SIZE * SIZE + (uint64_t)i) * CHANNELS + (uint64_t)c,
                              (float)(light * blot[3 + c] - 1.0));
        }
    }
}

/* D on `x`, up to the seed of its backward pass; the mean loss. */
static double forward_and_loss(struct gan *gan, const struct tensor *x, float target,
                               enum gan_pass loss)
{
    struct loss_sums sums;
    struct net *d = &gan->net[ROLE_D];
    net_forward(d, x, NET_TRAIN);
    device->ops->loss.on_logits(device, LOSS_ns, net_output(d), target, gan->run.weight,
                                topology_scale(&gan->topology, loss), &d->output_grad,
                                &sums);
    return sums.loss / sums.count;
}

static void train_step(struct gan *gan, uint64_t number, double loss[ROLES])
{
    struct net *g = &gan->net[ROLE_G], *d = &gan->net[ROLE_D];
    draw_real(gan, number);
    device->ops->image.normal(device, 9, STREAM_LATENT, &number, 0, &gan->latents);
    loss[ROLE_D] = forward_and_loss(gan, &gan->real, 1.0f, PASS_D_REAL);
    run_backward(d, &gan->real, WGRAD);
    net_forward(g, &gan->latents, NET_TRAIN);
    loss[ROLE_D] += forward_and_loss(gan, net_output(g), 0.0f, PASS_D_FAKE);
    run_backward(d, net_output(g), WGRAD | ACCUMULATE);
    topology_step(&gan->topology, ROLE_D);
    topology_update(&gan->topology, ROLE_D);
    loss[ROLE_G] = forward_and_loss(gan, net_output(g), 1.0f, PASS_G_MAIN);
    run_backward(d, net_output(g), DGRAD);
    memcpy(g->output_grad.data, d->input_grad.data, tensor_bytes(&d->input_grad));
    run_backward(g, &gan->latents, WGRAD);
    topology_step(&gan->topology, ROLE_G);
    topology_update(&gan->topology, ROLE_G);
}

static void train(struct gan *gan)
{
    for (int i = 0; i < STEPS; i++) {
        double loss[ROLES];
        train_step(gan, (uint64_t)i, loss);
        for (int k = 0; i >= STEPS - SMOOTHED && k < ROLES; k++)
            gan->loss[k] += loss[k] / (double)SMOOTHED;
    }
    struct scaler_state g = grad_scaler_read(&gan->scaler[ROLE_G]);
    struct scaler_state d = grad_scaler_read(&gan->scaler[ROLE_D]);
    assert_int_equal(g.skipped + d.skipped, 0);
    print_message("%-16s loss G %.4f  D %.4f\n", gan->run.name, gan->loss[ROLE_G],
                  gan->loss[ROLE_D]);
}

/* ---- what the statistics say ----------------------------------------------------- */

/* Of D's activation gradients inside the branches, or of the rest: shares of all, and the
 * least headroom. `wrong`: the share of weights inside branches that Adam would move the
 * wrong way or not at all. */
struct findings {
    double lost, subnormal, headroom, wrong;
};

static void look(struct gan *gan, struct survey *survey, struct survey_stats *stats)
{
    struct net *d = &gan->net[ROLE_D];
    survey_begin(survey, device);
    struct backward pass = backward_of(d, &gan->real, WGRAD);
    survey_add_backward(survey, d, &pass);
    assert_int_equal(survey_commit(survey), STATUS_OK);
    draw_real(gan, 3);
    forward_and_loss(gan, &gan->real, 1.0f, PASS_D_REAL);
    survey_backward(survey, d, &pass, stats);
}

static double share_of_wrong_ways(struct gan *gan, struct gan *reference)
{
    struct net *d = &gan->net[ROLE_D], *want = &reference->net[ROLE_D];
    double wrong = 0.0, all = 0.0;
    for (int i = 0; i < d->param_count; i++)
        for (size_t k = 0; is_inside_branch(d, d->param[i].node) &&
                           k < tensor_elements(&d->param[i].shape);
             k++, all++)
            wrong +=
                !(d->grads[d->param[i].offset + k] * want->grads[d->param[i].offset + k] >
                  0.0f);
    return wrong / all;
}

static struct findings find(struct gan *gan, struct gan *reference, int inside)
{
    static struct survey survey, reference_survey;
    static struct survey_stats stats[STATS], reference_stats[STATS];
    struct net *d = &gan->net[ROLE_D];
    look(gan, &survey, stats);
    look(reference, &reference_survey, reference_stats);
    struct findings found = {.headroom = INFINITY};
    double all = 0.0;
    assert_int_equal(survey.count, reference_survey.count);
    for (int i = 0; i < survey.count; i++) {
        const struct survey_entry *entry = &survey.entry[i];
        if (entry->kind != SURVEY_ACTIVATION_GRADIENT ||
            !is_inside_branch(d, entry->node) != !inside)
            continue;
        assert_int_equal(reference_survey.entry[i].node, entry->node);
        all += (double)entry->elements;
        found.lost += (double)stats[i].zero - (double)reference_stats[i].zero;
        found.subnormal += (double)stats[i].subnormal;
        found.headroom = fmin(found.headroom, log2(65504.0 / (double)stats[i].max_abs));
    }
    survey_release(&survey);
    survey_release(&reference_survey);
    found.lost /= all;
    found.subnormal /= all;
    found.wrong = share_of_wrong_ways(gan, reference);
    print_message("%-16s %-8s lost %5.2f %%  subnormal %5.2f %%  headroom 2^%.1f",
                  gan->run.name, inside ? "branches" : "stream", 100.0 * found.lost,
                  100.0 * found.subnormal, found.headroom);
    if (inside)
        print_message("  moved wrongly or not %.2f %%", 100.0 * found.wrong);
    print_message("\n");
    return found;
}

static void copy_weights(struct net *to, const struct net *from)
{
    memcpy(to->params, from->params, from->param_elements * sizeof(float));
    net_params_changed(to);
}

/* After the first step of the f32 run, in networks that have its weights. */
static void find_after_first_step(float weight, struct findings inside[2],
                                  struct findings stream[2])
{
    static struct gan f32, half;
    const struct run runs[] = {{"fp16, unscaled", DTYPE_F16, 1.0, weight},
                               {"fp16, scaled", DTYPE_F16, 0.0, weight}};
    double loss[ROLES];
    gan_open(&f32, &(struct run){"f32", DTYPE_F32, 1.0, weight});
    train_step(&f32, 0, loss);
    for (int i = 0; i < 2; i++) {
        gan_open(&half, &runs[i]);
        copy_weights(&half.net[ROLE_D], &f32.net[ROLE_D]);
        inside[i] = find(&half, &f32, 1);
        stream[i] = find(&half, &f32, 0);
        gan_close(&half);
    }
    gan_close(&f32);
}

static void test_unscaled_branches_lose_what_scaled_ones_keep(void **state)
{
    (void)state;
    struct findings inside[2], stream[2];
    find_after_first_step(1.0f, inside, stream);
    assert_true(inside[0].lost > 0.8);
    assert_true(inside[0].lost + inside[0].subnormal > 0.999);
    assert_true(inside[0].wrong > 0.05);
    // The stream beside them is where a look at the largest gradients ends.
    assert_true(stream[0].lost < 0.01);
    assert_true(inside[1].lost < 0.01 && stream[1].lost < 0.01);
    assert_true(inside[1].wrong < 0.005);
    assert_true(inside[1].headroom > 1.0 && stream[1].headroom > 1.0);
    // A scale moves the range and nothing else.
    assert_true(fabs(inside[0].headroom - inside[1].headroom - 14.0) < 0.5);
}

static void test_a_mean_over_a_larger_batch_leaves_branches_nothing(void **state)
{
    (void)state;
    struct findings inside[2], stream[2];
    find_after_first_step(LARGE_BATCH, inside, stream);
    assert_true(inside[0].lost > 0.98);
    assert_true(inside[0].wrong > 0.5);
    assert_true(stream[0].lost < 0.05);
    assert_true(inside[1].lost < 0.02);
    assert_true(inside[1].wrong < 0.005);
}

/* ---- what training comes to ------------------------------------------------------ */

/* How far the weights inside D's branches are from those of `want`, by how far those
 * came. */
static double astray(const struct gan *gan, const struct gan *want,
                     const struct gan *start)
{
    const struct net *d = &gan->net[ROLE_D];
    double off = 0.0, way = 0.0;
    for (int i = 0; i < d->param_count; i++)
        for (size_t k = 0; is_inside_branch(d, d->param[i].node) &&
                           k < tensor_elements(&d->param[i].shape);
             k++) {
            size_t place = d->param[i].offset + k;
            double here = (double)want->net[ROLE_D].params[place];
            off += pow((double)d->params[place] - here, 2.0);
            way += pow(here - (double)start->net[ROLE_D].params[place], 2.0);
        }
    return sqrt(off / way);
}

/* The larger of G's and D's. */
static double loss_error(const struct gan *gan, const struct gan *want)
{
    double error = 0.0;
    for (int i = 0; i < ROLES; i++)
        error = fmax(error, fabs(gan->loss[i] / want->loss[i] - 1.0));
    return error;
}

/* Adam divides by the size of the gradients, so one f32 run is the measure of both
 * batches: what is divided by eight moves the weights as before. What the unscaled runs
 * lack is seen in the weights of their branches. */
static void test_a_scaled_residual_gan_trains_as_in_f32(void **state)
{
    (void)state;
    static struct gan start, f32, gan;
    const struct run in_f32 = {"f32", DTYPE_F32, 1.0, 1.0f};
    gan_open(&start, &in_f32);
    gan_open(&f32, &in_f32);
    train(&f32);
    assert_true(f32.loss[ROLE_D] < 1.2); // 1.386 is where D tells nothing apart
    for (int is_large = 0; is_large < 2; is_large++) {
        const struct run runs[] = {
            {"fp16, unscaled", DTYPE_F16, 1.0, is_large ? LARGE_BATCH : 1.0f},
            {"fp16, scaled", DTYPE_F16, 0.0, is_large ? LARGE_BATCH : 1.0f}};
        double error[2], off[2];
        for (int i = 0; i < 2; i++) {
            gan_open(&gan, &runs[i]);
            train(&gan);
            error[i] = loss_error(&gan, &f32);
            off[i] = astray(&gan, &f32, &start);
            print_message("%-16s off by %.3f %%  branches astray %.2f %%\n", runs[i].name,
                          100.0 * error[i], 100.0 * off[i]);
            gan_close(&gan);
        }
        assert_true(error[1] < 0.02);
        assert_true(off[1] < 0.02);
        assert_true(off[0] > (is_large ? 0.1 : 0.01));
        assert_true(off[0] > 4.0 * off[1]);
    }
    gan_close(&f32);
    gan_close(&start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unscaled_branches_lose_what_scaled_ones_keep),
        cmocka_unit_test(test_a_mean_over_a_larger_batch_leaves_branches_nothing),
        cmocka_unit_test(test_a_scaled_residual_gan_trains_as_in_f32),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
