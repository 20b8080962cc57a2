/* ref_resample.c - between grids of pixels of which one is a multiple of the other. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

// Element (n, i, j, c).
static size_t place(const struct tensor *t, int n, int i, int j, int c)
{
    size_t row = ((size_t)n * (size_t)t->shape.h + (size_t)i) * (size_t)t->shape.w;
    return ref_place(t, row + (size_t)j, c);
}

static float block_sum(const struct tensor *x, int k, int n, int i, int j, int c)
{
    double sum = 0.0;
    for (int r = 0; r < k; r++)
        for (int s = 0; s < k; s++)
            sum += (double)element_load(x->data, x->dtype,
                                        place(x, n, i * k + r, j * k + s, c));
    return (float)sum;
}

#define FOR_ELEMENTS(t, n, i, j, c)                \
    for (int n = 0; n < (t)->shape.n; n++)         \
        for (int i = 0; i < (t)->shape.h; i++)     \
            for (int j = 0; j < (t)->shape.w; j++) \
                for (int c = 0; c < (t)->shape.c; c++)

static void ref_resample_down(struct device *device, const struct tensor *x, float factor,
                              struct tensor *y)
{
    (void)device;
    int k = shape_ratio("resample.down", x->shape, y->shape);
    FOR_ELEMENTS(y, n, i, j, c)
    element_store(y->data, y->dtype, place(y, n, i, j, c),
                  factor * block_sum(x, k, n, i, j, c));
    ref_clear_padding(y);
}

static void ref_resample_up(struct device *device, const struct tensor *x, float factor,
                            struct tensor *y)
{
    (void)device;
    int k = shape_ratio("resample.up", y->shape, x->shape);
    FOR_ELEMENTS(y, n, i, j, c)
    element_store(y->data, y->dtype, place(y, n, i, j, c),
                  factor * element_load(x->data, x->dtype, place(x, n, i / k, j / k, c)));
    ref_clear_padding(y);
}

void ref_fill_resample(struct resample_ops *ops)
{
    *ops = (struct resample_ops){.down = ref_resample_down, .up = ref_resample_up};
}
