/* Every backward pass of ref against central differences of its forward pass.
 * The probe is L = sum over i of y[i]*direction[i], so that dL/dy is `direction`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/support/support.h"

#define STEP 0.01f
#define TOLERANCE 2e-3

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

static double dot(const struct tensor *a, const struct tensor *b)
{
    double sum = 0.0;
    for (size_t i = 0; i < tensor_elements(a); i++)
        sum += (double)((float *)a->data)[i] * (double)((float *)b->data)[i];
    return sum;
}

/* dL/d(*value), from two evaluations of the probe. */
static double central_difference(float *value, double (*probe)(void *), void *job)
{
    float before = *value;
    *value = before + STEP;
    double above = probe(job), x_above = (double)*value;
    *value = before - STEP;
    double below = probe(job), x_below = (double)*value;
    *value = before;
    return (above - below) / (x_above - x_below);
}

static void assert_gradient(const char *what, float *values, size_t n,
                            const float *gradient, double (*probe)(void *), void *job)
{
    for (size_t i = 0; i < n; i++) {
        double want = central_difference(&values[i], probe, job);
        if (!(fabs((double)gradient[i] - want) <= TOLERANCE * (1.0 + fabs(want))))
            fail_msg("%s: element %zu of %zu: got %g, differences give %g", what, i, n,
                     (double)gradient[i], want);
    }
}

/* ---- convolution ----------------------------------------------------------------- */

struct conv_job {
    struct conv_desc desc;
    struct conv_plan *plan;
    struct tensor x, w, y, direction;
    struct tensor dx, dw;
};

static double conv_probe(void *pointer)
{
    struct conv_job *job = pointer;
    device->ops->conv.forward(device, job->plan, &job->x, &job->w, NULL, &job->y);
    return dot(&job->y, &job->direction);
}

/* The transposed convolution: y in, x out. */
static double transposed_probe(void *pointer)
{
    struct conv_job *job = pointer;
    device->ops->conv.dgrad(device, job->plan, &job->y, &job->w, NULL, &job->dx);
    return dot(&job->dx, &job->x);
}

static struct conv_desc desc_of(int n, int size, int c, int k, int kernel, int stride,
                                int pad)
{
    int out = (size + 2 * pad - kernel) / stride + 1;
    return (struct conv_desc){.x = {n, size, size, c},
                              .y = {n, out, out, k},
                              .kernel = kernel,
                              .stride = stride,
                              .pad = pad,
                              .dtype = DTYPE_F32,
                              .out_dtype = DTYPE_F32};
}

static struct conv_job conv_job(struct conv_desc desc)
{
    struct shape w = {desc.y.c, desc.kernel, desc.kernel, desc.x.c};
    struct conv_job job = {.desc = desc,
                           .x = heap_tensor(DTYPE_F32, desc.x),
                           .w = heap_tensor(DTYPE_F32, w),
                           .y = heap_tensor(DTYPE_F32, desc.y),
                           .direction = heap_tensor(DTYPE_F32, desc.y),
                           .dx = heap_tensor(DTYPE_F32, desc.x),
                           .dw = heap_tensor(DTYPE_F32, w)};
    fill_tensor(&job.x, FILL_RANDOM, 1);
    fill_tensor(&job.w, FILL_RANDOM, 2);
    fill_tensor(&job.direction, FILL_RANDOM, 3);
    assert_int_equal(device->ops->conv.prepare(device, &desc, &job.plan), STATUS_OK);
    return job;
}

static void conv_job_free(struct conv_job *job)
{
    device->ops->conv.release(device, job->plan);
    struct tensor *all[] = {&job->x,         &job->w,  &job->y,
                            &job->direction, &job->dx, &job->dw};
    for (size_t i = 0; i < 6; i++)
        free(all[i]->data);
}

static const int geometries[][7] = {
    // n, size, c, k, kernel, stride, pad
    {2, 6, 3, 2, 4, 2, 1}, {2, 4, 2, 3, 4, 1, 0}, {1, 5, 2, 2, 3, 1, 1},
    {1, 5, 3, 2, 3, 2, 1}, {2, 3, 3, 4, 1, 1, 0}, {1, 7, 1, 2, 7, 1, 0},
    {1, 6, 2, 1, 2, 3, 0}, {1, 3, 1, 1, 3, 2, 2},
};

static struct conv_desc geometry(size_t i)
{
    const int *g = geometries[i];
    return desc_of(g[0], g[1], g[2], g[3], g[4], g[5], g[6]);
}

#define GEOMETRIES (sizeof geometries / sizeof geometries[0])

static void test_conv_dgrad_and_wgrad_are_the_gradients_of_forward(void **state)
{
    (void)state;
    for (size_t i = 0; i < GEOMETRIES; i++) {
        struct conv_job job = conv_job(geometry(i));
        const struct conv_ops *conv = &device->ops->conv;
        conv->dgrad(device, job.plan, &job.direction, &job.w, NULL, &job.dx);
        conv->wgrad(device, job.plan, &job.x, &job.direction, job.dw.data, 0);
        assert_gradient("conv dgrad", job.x.data, tensor_elements(&job.x), job.dx.data,
                        conv_probe, &job);
        assert_gradient("conv wgrad", job.w.data, tensor_elements(&job.w), job.dw.data,
                        conv_probe, &job);
        conv_job_free(&job);
    }
}

static void test_the_passes_of_a_transposed_convolution_are_gradients_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < GEOMETRIES; i++) {
        struct conv_job job = conv_job(geometry(i));
        const struct conv_ops *conv = &device->ops->conv;
        // Input y, output dx, direction x: the input's gradient is the plain convolution.
        fill_tensor(&job.y, FILL_RANDOM, 4);
        conv->forward(device, job.plan, &job.x, &job.w, NULL, &job.direction);
        conv->wgrad(device, job.plan, &job.x, &job.y, job.dw.data, 0);
        assert_gradient("transposed input", job.y.data, tensor_elements(&job.y),
                        job.direction.data, transposed_probe, &job);
        assert_gradient("transposed weight", job.w.data, tensor_elements(&job.w),
                        job.dw.data, transposed_probe, &job);
        conv_job_free(&job);
    }
}

static void test_wgrad_adds_to_what_is_there_when_asked(void **state)
{
    (void)state;
    struct conv_job job = conv_job(geometry(0));
    const struct conv_ops *conv = &device->ops->conv;
    size_t n = tensor_elements(&job.dw);
    float *twice = calloc(n, sizeof *twice);
    conv->wgrad(device, job.plan, &job.x, &job.direction, job.dw.data, 0);
    for (size_t i = 0; i < n; i++)
        twice[i] = NAN; // not accumulating must not read it
    conv->wgrad(device, job.plan, &job.x, &job.direction, twice, 0);
    conv->wgrad(device, job.plan, &job.x, &job.direction, twice, 1);
    for (size_t i = 0; i < n; i++)
        assert_true(twice[i] == 2.0f * ((float *)job.dw.data)[i]);
    free(twice);
    conv_job_free(&job);
}

static void test_shapes_that_do_not_agree_are_refused_by_name(void **state)
{
    (void)state;
    struct conv_desc good = geometry(0), bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].y.h += 1;
    bad[1].y.n = 1;
    bad[2].kernel = 9; // larger than the padded picture
    bad[3].stride = 0;
    bad[4].pad = -1;
    bad[5].x.c = 0;
    bad[6].dtype = DTYPE_U8;
    bad[7].out_dtype = DTYPE_F16; // while reading f32
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t d = 0; d < 2; d++) {
        struct device *opened;
        assert_int_equal(device_open(devices[d], 1, &opened), STATUS_OK);
        // The dtypes are checked by ref alone.
        for (size_t i = 0; i < (d == 0 ? 8 : 6); i++) {
            struct conv_plan *plan;
            assert_int_equal(opened->ops->conv.prepare(opened, &bad[i], &plan),
                             STATUS_FAILED);
            char shape[SHAPE_TEXT];
            assert_non_null(strstr(status_message(), shape_text(bad[i].x, shape)));
            assert_non_null(strstr(status_message(), shape_text(bad[i].y, shape)));
        }
        device_close(opened);
    }
}

/* ---- batch norm ------------------------------------------------------------------ */

enum { CHANNELS = 3, ROWS = 18 };

struct norm_job {
    struct tensor x, y, direction, dx;
    float gamma[CHANNELS], beta[CHANNELS];
    float room[12][CHANNELS];
    struct norm_vectors v;
    enum activation activation;
    float slope;
};

static double norm_probe(void *pointer)
{
    struct norm_job *job = pointer;
    const struct norm_ops *norm = &device->ops->norm;
    norm->stats(device, &job->x, job->v.sum, job->v.sumsq);
    norm->finalize(device, &job->v, CHANNELS, ROWS, 1e-5f);
    norm->act_forward(device, &job->x, &job->v, job->activation, job->slope, &job->y);
    return dot(&job->y, &job->direction);
}

static void norm_job_begin(struct norm_job *job, enum activation activation, float slope)
{
    struct shape shape = {2, 3, 3, CHANNELS};
    *job = (struct norm_job){.x = heap_tensor(DTYPE_F32, shape),
                             .y = heap_tensor(DTYPE_F32, shape),
                             .direction = heap_tensor(DTYPE_F32, shape),
                             .dx = heap_tensor(DTYPE_F32, shape),
                             .gamma = {1.0f, 0.5f, -1.5f},
                             .beta = {0.3f, -0.2f, 0.1f},
                             .activation = activation,
                             .slope = slope};
    job->v = (struct norm_vectors){job->gamma,   job->beta,    job->room[0], job->room[1],
                                   job->room[2], job->room[3], job->room[4], job->room[5],
                                   job->room[6], job->room[7], job->room[8], job->room[9],
                                   job->room[10]};
    fill_tensor(&job->direction, FILL_RANDOM, 8);
}

/* The smallest |z|: differences across the bend of a ReLU mean nothing. */
static float distance_from_bend(struct norm_job *job)
{
    enum activation kept = job->activation;
    job->activation = ACTIVATION_NONE;
    norm_probe(job);
    job->activation = kept;
    float least = INFINITY;
    for (size_t i = 0; i < tensor_elements(&job->y); i++)
        least = fminf(least, fabsf(((float *)job->y.data)[i]));
    return least;
}

static void test_norm_passes_are_gradients_for_x_gamma_and_beta(void **state)
{
    (void)state;
    static const enum activation kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU,
                                            ACTIVATION_LEAKY_RELU, ACTIVATION_TANH};
    for (size_t k = 0; k < 4; k++) {
        struct norm_job job;
        norm_job_begin(&job, kinds[k], 0.2f);
        uint64_t seed = 0;
        do
            fill_tensor(&job.x, FILL_RANDOM, seed++);
        while (distance_from_bend(&job) < 0.05f);
        norm_probe(&job);
        const struct norm_ops *norm = &device->ops->norm;
        norm->act_reduce(device, &job.direction, &job.x, &job.v, job.activation,
                         job.slope);
        norm->act_dgrad(device, &job.direction, &job.x, &job.v, job.activation, job.slope,
                        ROWS, &job.dx);
        float gamma_grad[CHANNELS], beta_grad[CHANNELS];
        memcpy(gamma_grad, job.v.sum_dz_xhat, sizeof gamma_grad);
        memcpy(beta_grad, job.v.sum_dz, sizeof beta_grad);
        assert_gradient("norm x", job.x.data, tensor_elements(&job.x), job.dx.data,
                        norm_probe, &job);
        assert_gradient("norm gamma", job.gamma, CHANNELS, gamma_grad, norm_probe, &job);
        assert_gradient("norm beta", job.beta, CHANNELS, beta_grad, norm_probe, &job);
        struct tensor *all[] = {&job.x, &job.y, &job.direction, &job.dx};
        for (size_t i = 0; i < 4; i++)
            free(all[i]->data);
    }
}

/* ---- activations and the loss ---------------------------------------------------- */

static void test_activations_backward_is_their_derivative(void **state)
{
    (void)state;
    static const enum activation kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU,
                                            ACTIVATION_LEAKY_RELU, ACTIVATION_TANH};
    const struct pointwise_ops *op = &device->ops->pointwise;
    for (size_t k = 0; k < 4; k++) {
        for (int i = -40; i <= 40; i++) {
            if (i == 0)
                continue; // the bend itself
            float x = (float)i / 10.0f, x_above = x + STEP, x_below = x - STEP;
            float y, y_above, y_below, delta = 1.5f, dx;
            struct shape one = {1, 1, 1, 1};
            struct tensor in = tensor_of(DTYPE_F32, one, &x);
            struct tensor out = tensor_of(DTYPE_F32, one, &y);
            struct tensor in_above = tensor_of(DTYPE_F32, one, &x_above);
            struct tensor out_above = tensor_of(DTYPE_F32, one, &y_above);
            struct tensor in_below = tensor_of(DTYPE_F32, one, &x_below);
            struct tensor out_below = tensor_of(DTYPE_F32, one, &y_below);
            struct tensor dy = tensor_of(DTYPE_F32, one, &delta);
            struct tensor back = tensor_of(DTYPE_F32, one, &dx);
            op->act_forward(device, &in, kinds[k], 0.2f, &out);
            op->act_forward(device, &in_above, kinds[k], 0.2f, &out_above);
            op->act_forward(device, &in_below, kinds[k], 0.2f, &out_below);
            op->act_backward(device, &dy, &out, kinds[k], 0.2f, &back);
            double want = 1.5 * ((double)y_above - (double)y_below) /
                          ((double)x_above - (double)x_below);
            assert_true(fabs((double)dx - want) < 2e-3);
        }
    }
}

struct loss_job {
    enum loss_kind kind;
    struct tensor logits, seed;
    float target, weight;
    struct scaler_state scaler;
    struct loss_sums sums;
};

static double loss_probe(void *pointer)
{
    struct loss_job *job = pointer;
    device->ops->loss.on_logits(device, job->kind, &job->logits, job->target, job->weight,
                                &job->scaler, &job->seed, &job->sums);
    return job->sums.loss * (double)job->weight / job->sums.count *
           (double)scaler_scale(&job->scaler);
}

static void test_the_seed_is_the_gradient_of_the_scaled_loss(void **state)
{
    (void)state;
    static const float targets[] = {0.0f, 0.9f, 1.0f};
    for (int job_index = 0; job_index < 3 * LOSS_KINDS; job_index++) {
        struct shape shape = {9, 1, 1, 1};
        struct loss_job job = {.kind = (enum loss_kind)(job_index / 3),
                               .logits = heap_tensor(DTYPE_F32, shape),
                               .seed = heap_tensor(DTYPE_F32, shape),
                               .target = targets[job_index % 3],
                               .weight = 0.5f,
                               .scaler = {.scale = 16.0f, .enabled = 1}};
        for (int i = 0; i < 9; i++)
            ((float *)job.logits.data)[i] = (float)(i - 4) * 1.7f;
        loss_probe(&job);
        float seed[9];
        memcpy(seed, job.seed.data, sizeof seed);
        assert_gradient("seed", job.logits.data, 9, seed, loss_probe, &job);
        free(job.logits.data);
        free(job.seed.data);
    }
}

static void test_the_loss_is_right_at_extreme_logits(void **state)
{
    (void)state;
    struct shape shape = {4, 1, 1, 1};
    float logits[4] = {200.0f, -200.0f, 0.0f, 3.0f}, seed[4];
    struct loss_job job = {.logits = tensor_of(DTYPE_F32, shape, logits),
                           .seed = tensor_of(DTYPE_F32, shape, seed),
                           .target = 1.0f,
                           .weight = 4.0f,
                           .scaler = {.scale = 65536.0f, .enabled = 0}};
    double loss = loss_probe(&job);
    assert_true(fabs(loss - (0.0 + 200.0 + log(2.0) + log1p(exp(-3.0)))) < 1e-5);
    assert_true(seed[0] == 0.0f && seed[1] == -1.0f && seed[2] == -0.5f);
    assert_true(job.sums.sign == 1.0 && job.sums.score == 3.0);
    assert_true(job.sums.score_sq == 80009.0 && job.sums.count == 4);
    double loss_sq = 40000.0 + log(2.0) * log(2.0) + pow(log1p(exp(-3.0)), 2.0);
    assert_true(fabs(job.sums.loss_sq - loss_sq) < 1e-2);
    assert_true(job.sums.nonfinite == 0.0);
    logits[2] = NAN;
    loss_probe(&job);
    assert_true(job.sums.nonfinite > 0.0);
    assert_true(isnan(seed[2]) && job.sums.sign == 1.0);
}

static void test_a_seed_overflows_in_half_only_after_scaling_in_f32(void **state)
{
    (void)state;
    // Batch 64: the seed of a wholly wrong D is scale/64; 2^21 fits a half, 2^22 does
    // not.
    struct shape shape = {64, 1, 1, 1};
    struct loss_job job = {.logits = heap_tensor(DTYPE_F32, shape),
                           .seed = heap_tensor(DTYPE_F16, shape),
                           .target = 0.0f,
                           .weight = 1.0f,
                           .scaler = {.scale = 0x1p21f, .enabled = 1}};
    for (int i = 0; i < 64; i++)
        ((float *)job.logits.data)[i] = 100.0f;
    loss_probe(&job);
    assert_true(element_load(job.seed.data, DTYPE_F16, 63) == 32768.0f);
    job.scaler.scale = 0x1p22f;
    loss_probe(&job);
    assert_true(isinf(element_load(job.seed.data, DTYPE_F16, 63)));
    free(job.logits.data);
    free(job.seed.data);
}

/* ---- padding --------------------------------------------------------------------- */

static struct tensor padded_tensor(enum dtype dtype, struct shape shape, int is_weight)
{
    struct device eight = {.channel_multiple = 8};
    struct tensor t = device_tensor(&eight, dtype, shape, is_weight);
    t.data = aligned_alloc(256, (tensor_bytes(&t) + 255) / 256 * 256);
    memset(t.data, 0x7f, tensor_bytes(&t)); // NaN in every float dtype
    return t;
}

/* Sum of all that is stored minus sum of what the shape names. */
static void assert_padding_is_zero(const struct tensor *t)
{
    size_t rows = (size_t)t->shape.n * (size_t)t->shape.h * (size_t)t->shape.w;
    size_t stored = (size_t)t->c_stored;
    for (size_t i = 0; i < tensor_stored(t); i++) {
        int is_padding = i / stored >= rows || i % stored >= (size_t)t->shape.c;
        assert_true(!is_padding || element_load(t->data, t->dtype, i) == 0.0f);
    }
}

static void test_padded_channels_stay_out_of_sums_and_are_left_zero(void **state)
{
    (void)state;
    struct conv_desc desc = geometry(0);
    desc.dtype = desc.out_dtype = DTYPE_F16;
    struct conv_job plain = conv_job(geometry(0));
    struct shape w_shape = plain.w.shape;
    struct tensor x[2] = {heap_tensor(DTYPE_F16, desc.x),
                          padded_tensor(DTYPE_F16, desc.x, 0)};
    struct tensor w[2] = {heap_tensor(DTYPE_F16, w_shape),
                          padded_tensor(DTYPE_F16, w_shape, 1)};
    struct tensor y[2] = {heap_tensor(DTYPE_F16, desc.y),
                          padded_tensor(DTYPE_F16, desc.y, 0)};
    struct tensor dx[2] = {heap_tensor(DTYPE_F16, desc.x),
                           padded_tensor(DTYPE_F16, desc.x, 0)};
    struct tensor dw[2] = {heap_tensor(DTYPE_F32, w_shape),
                           padded_tensor(DTYPE_F32, w_shape, 1)};
    for (int i = 0; i < 2; i++) {
        struct conv_plan *plan;
        assert_int_equal(device->ops->conv.prepare(device, &desc, &plan), STATUS_OK);
        fill_tensor(&x[i], FILL_RANDOM, 1);
        fill_tensor(&w[i], FILL_RANDOM, 2);
        device->ops->conv.forward(device, plan, &x[i], &w[i], NULL, &y[i]);
        device->ops->conv.dgrad(device, plan, &y[i], &w[i], NULL, &dx[i]);
        device->ops->conv.wgrad(device, plan, &x[i], &y[i], dw[i].data, 0);
        device->ops->conv.release(device, plan);
    }
    struct tensor *padded[] = {&y[1], &dx[1], &dw[1]}, *want[] = {&y[0], &dx[0], &dw[0]};
    for (int i = 0; i < 3; i++) {
        assert_padding_is_zero(padded[i]);
        assert_tensors_close("padded", padded[i], want[i], 0.0, 0.0, 1);
    }
    for (int i = 0; i < 2; i++) {
        struct tensor *all[] = {&x[i], &w[i], &y[i], &dx[i], &dw[i]};
        for (size_t j = 0; j < 5; j++)
            free(all[j]->data);
    }
    conv_job_free(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_dgrad_and_wgrad_are_the_gradients_of_forward),
        cmocka_unit_test(test_the_passes_of_a_transposed_convolution_are_gradients_too),
        cmocka_unit_test(test_wgrad_adds_to_what_is_there_when_asked),
        cmocka_unit_test(test_shapes_that_do_not_agree_are_refused_by_name),
        cmocka_unit_test(test_norm_passes_are_gradients_for_x_gamma_and_beta),
        cmocka_unit_test(test_activations_backward_is_their_derivative),
        cmocka_unit_test(test_the_seed_is_the_gradient_of_the_scaled_loss),
        cmocka_unit_test(test_the_loss_is_right_at_extreme_logits),
        cmocka_unit_test(test_a_seed_overflows_in_half_only_after_scaling_in_f32),
        cmocka_unit_test(test_padded_channels_stay_out_of_sums_and_are_left_zero),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
