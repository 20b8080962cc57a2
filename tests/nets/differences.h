/* differences.h - the gradients of a net against central differences of a loss w.y. */
#ifndef TESTS_NETS_DIFFERENCES_H
#define TESTS_NETS_DIFFERENCES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets/init.h"
#include "tests/nets/passes.h"
#include "tests/support/support.h"

// Weights large enough that every path through the net carries a visible gradient.
static inline void fill_net(struct net *net, struct tensor *input, uint64_t seed)
{
    net_initialise(net, seed, 0);
    for (int i = 0; i < net->param_count; i++) {
        struct tensor param = net_param_tensor(net, i, net->params);
        fill_tensor(&param, FILL_RANDOM, seed + (uint64_t)i);
        if (net->param[i].role == PARAM_GAMMA)
            for (int c = 0; c < param.shape.c; c++)
                ((float *)param.data)[c] += 1.5f;
    }
    *input = heap_tensor(DTYPE_F32, net->input.shape);
    fill_tensor(input, FILL_RANDOM, seed + 100);
}

static inline double loss_of(struct net *net, const struct tensor *x,
                             const struct tensor *direction)
{
    net_forward(net, x, NET_TRAIN);
    const float *y = net_output(net)->data, *w = direction->data;
    double sum = 0;
    for (size_t i = 0; i < tensor_elements(direction); i++)
        sum += (double)y[i] * (double)w[i];
    return sum;
}

#define DIFFERENCE_STEP 4e-3f

// What rounding the outputs to f32, a few times each on their way, can do to a
// difference.
static inline double difference_noise(struct net *net, const struct tensor *direction)
{
    const float *y = net_output(net)->data, *w = direction->data;
    double size = 0;
    for (size_t i = 0; i < tensor_elements(direction); i++)
        size += fabs((double)y[i] * (double)w[i]);
    return 4.0 * 0x1p-24 * size / (double)DIFFERENCE_STEP;
}

static inline double central_difference(struct net *net, const struct tensor *x,
                                        const struct tensor *direction, float *element)
{
    const float step = DIFFERENCE_STEP;
    float kept = *element;
    *element = kept + step;
    double high = loss_of(net, x, direction);
    *element = kept - step;
    double low = loss_of(net, x, direction);
    *element = kept;
    return (high - low) / (2.0 * (double)step);
}

static inline void check_element(struct net *net, const struct tensor *x,
                                 const struct tensor *direction, float *element,
                                 float got, const char *what, size_t index)
{
    double want = central_difference(net, x, direction, element);
    double allowed = 2e-2 * (fabs(want) + 0.05) + difference_noise(net, direction);
    if (fabs((double)got - want) > allowed)
        fail_msg("%s[%zu]: gradient %g, central difference %g", what, index, (double)got,
                 want);
}

/* All of them, of a random loss: each twelfth of a parameter and of the input. Releases
 * the net. */
static inline void check_gradients(struct net *net, uint64_t seed)
{
    struct tensor input;
    fill_net(net, &input, seed);
    struct tensor direction = heap_tensor(DTYPE_F32, net_output(net)->shape);
    fill_tensor(&direction, FILL_RANDOM, seed + 7);
    loss_of(net, &input, &direction);
    memcpy(net->output_grad.data, direction.data, tensor_bytes(&direction));
    run_backward(net, &input, WGRAD | DGRAD);
    float *grads = malloc(net->param_elements * sizeof *grads);
    memcpy(grads, net->grads, net->param_elements * sizeof *grads);
    float *input_grad = malloc(tensor_bytes(&input));
    memcpy(input_grad, net->input_grad.data, tensor_bytes(&input));
    for (int i = 0; i < net->param_count; i++) {
        size_t n = tensor_elements(&net->param[i].shape), stride = n / 12 + 1;
        for (size_t k = 0; k < n; k += stride)
            check_element(net, &input, &direction, net->params + net->param[i].offset + k,
                          grads[net->param[i].offset + k], net->param[i].name, k);
    }
    for (size_t k = 0; k < tensor_elements(&input); k += tensor_elements(&input) / 12 + 1)
        check_element(net, &input, &direction, (float *)input.data + k, input_grad[k],
                      "input", k);
    free(grads);
    free(input_grad);
    free(input.data);
    free(direction.data);
    net_release(net);
}

#endif
