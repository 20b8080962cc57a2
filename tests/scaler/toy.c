#include "tests/scaler/toy.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "tests/support/support.h"

uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct grad_scaler_config toy_config(double init_scale, double growth_factor,
                                     int64_t growth_interval)
{
    struct grad_scaler_config config = grad_scaler_default_config();
    config.init_scale = init_scale;
    config.growth_factor = growth_factor;
    config.growth_interval = growth_interval;
    return config;
}

static void upload(const struct toy *toy, float *to, const float *from, size_t n)
{
    toy->device->ops->memory.upload(toy->device, to, from, n * sizeof *from);
}

static void download(const struct toy *toy, float *to, const float *from, size_t n)
{
    toy->device->ops->memory.download(toy->device, to, from, n * sizeof *from);
}

void toy_open(struct toy *toy, struct device *device, size_t n,
              const struct grad_scaler_config *config)
{
    assert_true(n <= TOY_MAX);
    *toy = (struct toy){.device = device};
    toy->net = (struct net){.device = device, .name = "toy", .dtype = DTYPE_F32};
    struct net *net = &toy->net;
    arena_begin(&net->parameters, device, "toy parameters");
    arena_reserve(&net->parameters, (void **)&net->params, TOY_MAX * sizeof(float));
    arena_reserve(&net->parameters, (void **)&net->grads, TOY_MAX * sizeof(float));
    assert_int_equal(arena_commit(&net->parameters), STATUS_OK);

    // The moments have room for TOY_MAX, so that weights can be read whole.
    net->param_elements = TOY_MAX;
    struct adam_config adam = {.lr = 0.01f, .beta1 = 0.5f, .beta2 = 0.999f, .eps = 1e-8f};
    assert_int_equal(adam_create(&toy->adam, net, &adam), STATUS_OK);
    net->param_elements = n;
    toy->adam.optimizer.gradients.block[0].n = n;

    float start[TOY_MAX];
    for (int i = 0; i < TOY_MAX; i++)
        start[i] = 0.37f * (float)i - 5.0f;
    upload(toy, net->params, start, TOY_MAX);
    assert_int_equal(grad_scaler_create(&toy->scaler, device, "g", config), STATUS_OK);
}

const struct topology_pass toy_passes[GAN_PASSES] = {
    [PASS_D_REAL] = {ROLE_D, ROLE_D},
    [PASS_D_FAKE] = {ROLE_D, SCALER_D_FAKE},
    [PASS_G_MAIN] = {ROLE_G, ROLE_G}};

struct device *toy_device;

int toy_open_device(void **state)
{
    (void)state;
    return device_open("ref", 1, &toy_device) == STATUS_OK ? 0 : -1;
}

int toy_close_device(void **state)
{
    (void)state;
    int is_faulty = device_fault(toy_device) != STATUS_OK;
    device_close(toy_device);
    return is_faulty;
}

void toy_open_default(struct toy *toy)
{
    struct grad_scaler_config config = grad_scaler_default_config();
    toy_open(toy, toy_device, 5, &config);
}

void toy_open_with(struct toy *toy, double init_scale, double growth_factor,
                   int64_t growth_interval)
{
    struct grad_scaler_config config =
        toy_config(init_scale, growth_factor, growth_interval);
    toy_open(toy, toy_device, 5, &config);
}

void toy_close(struct toy *toy)
{
    grad_scaler_release(&toy->scaler);
    adam_release(&toy->adam);
    arena_release(&toy->net.parameters);
}

void toy_get_grads(const struct toy *toy, float values[TOY_MAX])
{
    download(toy, values, toy->net.grads, TOY_MAX);
}

void toy_set_grads(struct toy *toy, const float values[TOY_MAX])
{
    upload(toy, toy->net.grads, values, TOY_MAX);
}

void toy_fill_grads(struct toy *toy, float value)
{
    float values[TOY_MAX];
    for (int i = 0; i < TOY_MAX; i++)
        values[i] = value;
    toy_set_grads(toy, values);
}

void toy_set_grad(struct toy *toy, size_t index, float value)
{
    upload(toy, toy->net.grads + index, &value, 1);
}

struct toy_weights toy_weights(const struct toy *toy)
{
    struct toy_weights weights;
    download(toy, weights.params, toy->net.params, TOY_MAX);
    download(toy, weights.m, toy->adam.m, TOY_MAX);
    download(toy, weights.v, toy->adam.v, TOY_MAX);
    weights.adam_t = grad_scaler_read(&toy->scaler).adam_t;
    return weights;
}

void assert_same_weights(const struct toy_weights *got, const struct toy_weights *want)
{
    assert_memory_equal(got->params, want->params, sizeof got->params);
    assert_memory_equal(got->m, want->m, sizeof got->m);
    assert_memory_equal(got->v, want->v, sizeof got->v);
    assert_int_equal(got->adam_t, want->adam_t);
}

void assert_other_params(const struct toy_weights *got,
                         const struct toy_weights *not_these)
{
    assert_memory_not_equal(got->params, not_these->params, sizeof got->params);
}

void toy_iterate(struct toy *toy, float planted)
{
    (void)grad_scaler_scale(&toy->scaler);
    toy_fill_grads(toy, toy_scale(toy) / 1024.0f);
    if (planted != 0.0f)
        toy_set_grad(toy, toy->net.param_elements - 1, planted);
    assert_int_equal(grad_scaler_step(&toy->scaler, &toy->adam.optimizer), CALL_OK);
    assert_int_equal(grad_scaler_update(&toy->scaler), CALL_OK);
}

void toy_good_steps(struct toy *toy, int count)
{
    for (int i = 0; i < count; i++)
        toy_iterate(toy, 0.0f);
}

void toy_bad_steps(struct toy *toy, int count)
{
    for (int i = 0; i < count; i++)
        toy_iterate(toy, INFINITY);
}

int toy_aborts(struct toy *toy, void (*call)(struct toy *toy))
{
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(9);
        call(toy);
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT;
}

float toy_scale(const struct toy *toy)
{
    struct scaler_state state = grad_scaler_read(&toy->scaler);
    return scaler_scale(&state);
}

int toy_tracker(const struct toy *toy)
{
    return grad_scaler_read(&toy->scaler).growth_tracker;
}

void assert_toy_scale(const struct toy *toy, float scale, int tracker)
{
    assert_int_equal(float_bits(toy_scale(toy)), float_bits(scale));
    assert_int_equal(toy_tracker(toy), tracker);
}
