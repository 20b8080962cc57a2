/* conv_passes.h - one pass of a convolution in a test: operands, the call, what bounds
 * it.
 * Owns:  nothing; tensors are on the heap, the caller frees them.
 * Usage: operands_of() -> fill -> run_pass() on ref and on a backend -> assert_within()
 * with
 *        the bounds of magnitude_of(). */
#ifndef TESTS_KERNELS_CONV_PASSES_H
#define TESTS_KERNELS_CONV_PASSES_H

#include "tests/kernels/backends.h"

enum pass { FORWARD, DGRAD, WGRAD };

/* a and b are x and w, dy and w, or x and dy. */
struct operands {
    struct tensor a, b;
};

static inline struct shape weight_shape(const struct conv_desc *d)
{
    return (struct shape){d->y.c, d->kernel, d->kernel, d->x.c};
}

static inline struct operands operands_of(const struct conv_desc *d, enum pass pass,
                                          enum dtype dtype)
{
    return (struct operands){heap_tensor(dtype, pass == DGRAD ? d->y : d->x),
                             heap_tensor(dtype, pass == WGRAD ? d->y : weight_shape(d))};
}

static inline void release_operands(struct operands *in)
{
    free(in->a.data);
    free(in->b.data);
}

static inline struct tensor out_of(const struct conv_desc *d, enum pass pass)
{
    if (pass == WGRAD)
        return heap_tensor(DTYPE_F32, weight_shape(d));
    return heap_tensor(d->out_dtype, pass == FORWARD ? d->y : d->x);
}

static inline void run_pass(struct device *device, const struct conv_desc *d,
                            enum pass pass, const struct operands *in,
                            const struct conv_epilogue *epilogue, struct tensor *out)
{
    const struct conv_ops *conv = &device->ops->conv;
    struct conv_plan *plan;
    if (conv->prepare(device, d, &plan) != STATUS_OK)
        fail_msg("%s", status_message());
    poison(out);
    if (pass == FORWARD)
        conv->forward(device, plan, &in->a, &in->b, epilogue, out);
    else if (pass == DGRAD)
        conv->dgrad(device, plan, &in->a, &in->b, epilogue, out);
    else
        conv->wgrad(device, plan, &in->a, &in->b, out->data, 0);
    conv->release(device, plan);
    assert_int_equal(device_fault(device), STATUS_OK);
}

/* The sizes that are summed for each output: the same pass over |a| and |b|. */
static inline struct tensor magnitude_of(const struct conv_desc *d, enum pass pass,
                                         const struct operands *in)
{
    struct conv_desc plain = *d;
    plain.dtype = plain.out_dtype = DTYPE_F32;
    struct operands sizes = operands_of(d, pass, DTYPE_F32);
    struct tensor *to[] = {&sizes.a, &sizes.b};
    const struct tensor *from[] = {&in->a, &in->b};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < tensor_elements(from[t]); i++)
            ((float *)to[t]->data)[i] =
                fabsf(element_load(from[t]->data, from[t]->dtype, i));
    struct tensor out = out_of(&plain, pass);
    run_pass(ref, &plain, pass, &sizes, NULL, &out);
    release_operands(&sizes);
    return out;
}

/* Fails unless an epilogue's sums, where it has any, are those of the values that were
 * stored. */
static inline void check_sums(const char *backend, const char *geometry,
                              const struct tensor *out, const struct conv_epilogue *e)
{
    size_t channels = (size_t)out->shape.c;
    for (size_t c = 0; e->sum && c < channels; c++) {
        double sum = 0.0, size = 0.0, sumsq = 0.0;
        for (size_t i = c; i < tensor_elements(out); i += channels) {
            double value = (double)element_load(out->data, out->dtype, i);
            sum += value;
            size += fabs(value);
            sumsq += value * value;
        }
        int is_right = isfinite(size)
                           ? fabs((double)e->sum[c] - sum) <= 1e-5 * size &&
                                 fabs((double)e->sumsq[c] - sumsq) <= 1e-5 * sumsq
                           : !isfinite(e->sum[c]) && !isfinite(e->sumsq[c]);
        if (!is_right)
            fail_msg("epilogue sums on %s, %s: channel %zu: got %.9g and %.9g, want %.9g "
                     "and %.9g",
                     backend, geometry, c, (double)e->sum[c], (double)e->sumsq[c], sum,
                     sumsq);
    }
}

#endif
