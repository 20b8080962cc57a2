/* ref_pointwise.c - activations by themselves, casts, and sums over rows. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

static void ref_pointwise_act_forward(struct device *device, const struct tensor *x,
                                      enum activation activation, float slope,
                                      struct tensor *y)
{
    (void)device;
    ref_check_shapes("pointwise.act_forward", x, y);
    for (size_t row = 0; row < ref_rows(x); row++) {
        for (int c = 0; c < x->shape.c; c++) {
            float value = element_load(x->data, x->dtype, ref_place(x, row, c));
            element_store(y->data, y->dtype, ref_place(y, row, c),
                          ref_activate(value, activation, slope));
        }
    }
    ref_clear_padding(y);
}

static void ref_pointwise_act_backward(struct device *device, const struct tensor *dy,
                                       const struct tensor *y, enum activation activation,
                                       float slope, struct tensor *dx)
{
    (void)device;
    ref_check_shapes("pointwise.act_backward", dy, y);
    ref_check_shapes("pointwise.act_backward", dy, dx);
    for (size_t row = 0; row < ref_rows(dy); row++) {
        for (int c = 0; c < dy->shape.c; c++) {
            float delta = element_load(dy->data, dy->dtype, ref_place(dy, row, c));
            float out = element_load(y->data, y->dtype, ref_place(y, row, c));
            element_store(dx->data, dx->dtype, ref_place(dx, row, c),
                          delta * ref_activation_slope(out, out, activation, slope));
        }
    }
    ref_clear_padding(dx);
}

static void ref_pointwise_cast(struct device *device, const struct tensor *from,
                               struct tensor *to)
{
    ref_pointwise_act_forward(device, from, ACTIVATION_NONE, 0.0f, to);
}

static void ref_pointwise_add_tensors(struct device *device, const struct tensor *a,
                                      const struct tensor *b, struct tensor *y)
{
    (void)device;
    ref_check_shapes("pointwise.add_tensors", a, b);
    ref_check_shapes("pointwise.add_tensors", a, y);
    for (size_t row = 0; row < ref_rows(a); row++) {
        for (int c = 0; c < a->shape.c; c++) {
            float sum = element_load(a->data, a->dtype, ref_place(a, row, c)) +
                        element_load(b->data, b->dtype, ref_place(b, row, c));
            element_store(y->data, y->dtype, ref_place(y, row, c), sum);
        }
    }
    ref_clear_padding(y);
}

static void ref_pointwise_bias_grad(struct device *device, const struct tensor *dy,
                                    float *grad, int accumulate)
{
    (void)device;
    for (int c = 0; c < dy->shape.c; c++) {
        double sum = 0.0;
        for (size_t row = 0; row < ref_rows(dy); row++)
            sum += (double)element_load(dy->data, dy->dtype, ref_place(dy, row, c));
        grad[c] = accumulate ? grad[c] + (float)sum : (float)sum;
    }
}

static void ref_pointwise_add(struct device *device, float *to, const float *from,
                              size_t n)
{
    (void)device;
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

void ref_fill_pointwise(struct pointwise_ops *ops)
{
    *ops = (struct pointwise_ops){
        .act_forward = ref_pointwise_act_forward,
        .act_backward = ref_pointwise_act_backward,
        .cast = ref_pointwise_cast,
        .bias_grad = ref_pointwise_bias_grad,
        .add_tensors = ref_pointwise_add_tensors,
        .add = ref_pointwise_add,
    };
}
