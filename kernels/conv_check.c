#include "kernels/conv_check.h"

static int is_float(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* Output size along one axis; 0 if the kernel does not fit. */
static int output_size(const struct conv_desc *d, int size)
{
    int span = size + 2 * d->pad - d->kernel;
    return span < 0 ? 0 : span / d->stride + 1;
}

static int sizes_are_positive(const struct conv_desc *d)
{
    return d->x.n > 0 && d->x.h > 0 && d->x.w > 0 && d->x.c > 0 && d->y.c > 0 &&
           d->kernel > 0 && d->stride > 0 && d->pad >= 0;
}

enum status conv_check(const struct conv_desc *d)
{
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    shape_text(d->x, x);
    shape_text(d->y, y);
    if (!sizes_are_positive(d))
        return status_fail(
            STATUS_FAILED,
            "convolution of %s to %s: kernel %d, stride %d, padding %d; every "
            "size must be 1 or more and the padding 0 or more",
            x, y, d->kernel, d->stride, d->pad);
    int p = output_size(d, d->x.h), q = output_size(d, d->x.w);
    if (d->y.n != d->x.n || p != d->y.h || q != d->y.w || p < 1 || q < 1)
        return status_fail(
            STATUS_FAILED,
            "convolution of %s to %s: kernel %d, stride %d, padding %d give "
            "%dx%dx%dx%d; choose sizes that agree",
            x, y, d->kernel, d->stride, d->pad, d->x.n, p, q, d->y.c);
    if (!is_float(d->dtype) || (d->out_dtype != d->dtype && d->out_dtype != DTYPE_F32))
        return status_fail(
            STATUS_FAILED,
            "convolution of %s to %s: reads %s and writes %s; it can read f32, "
            "f16 or bf16 and write the same or f32",
            x, y, dtype_name(d->dtype), dtype_name(d->out_dtype));
    return STATUS_OK;
}

double conv_macs(const struct conv_desc *d)
{
    return (double)d->y.n * d->y.h * d->y.w * d->y.c * d->kernel * d->kernel * d->x.c;
}
