/* ref_norm.c - batch norm with the activation that follows it. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

static float load(const struct tensor *t, size_t row, int c)
{
    return element_load(t->data, t->dtype, ref_place(t, row, c));
}

static void store(struct tensor *t, size_t row, int c, float value)
{
    element_store(t->data, t->dtype, ref_place(t, row, c), value);
}

/* ---- statistics ------------------------------------------------------------------ */

static void ref_norm_stats(struct device *device, const struct tensor *x, float *sum,
                           float *sumsq)
{
    (void)device;
    for (int c = 0; c < x->shape.c; c++) {
        double first = 0.0, second = 0.0;
        for (size_t row = 0; row < ref_rows(x); row++) {
            double value = (double)load(x, row, c);
            first += value;
            second += value * value;
        }
        sum[c] = (float)first;
        sumsq[c] = (float)second;
    }
}

static void set_scale_and_shift(const struct norm_vectors *v, int c, float mean,
                                float inv_std)
{
    v->scale[c] = v->gamma[c] * inv_std;
    v->shift[c] = v->beta[c] - mean * v->scale[c];
}

static void ref_norm_finalize(struct device *device, const struct norm_vectors *v,
                              int channels, int64_t count, float eps)
{
    (void)device;
    CHECK(count > 0, "count %lld", (long long)count);
    for (int c = 0; c < channels; c++) {
        double mean = (double)v->sum[c] / (double)count;
        double var = (double)v->sumsq[c] / (double)count - mean * mean;
        // Rounding may leave a little below 0. NaN is not below 0 and stays.
        if (var < 0.0)
            var = 0.0;
        double unbias = count > 1 ? (double)count / (double)(count - 1) : 1.0;
        v->mean[c] = (float)mean;
        v->inv_std[c] = (float)(1.0 / sqrt(var + (double)eps));
        v->unbiased_var[c] = (float)(var * unbias);
        set_scale_and_shift(v, c, v->mean[c], v->inv_std[c]);
    }
}

static void ref_norm_finalize_running(struct device *device, const struct norm_vectors *v,
                                      int channels, float eps)
{
    (void)device;
    for (int c = 0; c < channels; c++) {
        double inv_std = 1.0 / sqrt((double)v->running_var[c] + (double)eps);
        set_scale_and_shift(v, c, v->running_mean[c], (float)inv_std);
    }
}

static void ref_norm_commit(struct device *device, const struct norm_vectors *v,
                            int channels, float momentum)
{
    (void)device;
    for (int c = 0; c < channels; c++)
        if (!is_finite_f32(v->mean[c]) || !is_finite_f32(v->unbiased_var[c]))
            return;
    float keep = 1.0f - momentum;
    for (int c = 0; c < channels; c++) {
        v->running_mean[c] = keep * v->running_mean[c] + momentum * v->mean[c];
        v->running_var[c] = keep * v->running_var[c] + momentum * v->unbiased_var[c];
    }
}

/* ---- the passes ------------------------------------------------------------------ */

static void ref_norm_act_forward(struct device *device, const struct tensor *x,
                                 const struct norm_vectors *v, enum activation activation,
                                 float slope, struct tensor *y)
{
    (void)device;
    ref_check_shapes("norm.act_forward", x, y);
    for (size_t row = 0; row < ref_rows(x); row++) {
        for (int c = 0; c < x->shape.c; c++) {
            float z = load(x, row, c) * v->scale[c] + v->shift[c];
            store(y, row, c, ref_activate(z, activation, slope));
        }
    }
    ref_clear_padding(y);
}

/* What both backward passes need of one element: dz and xhat. z is computed as in the
 * forward pass, so that both see the same side of the bend. */
struct element {
    float dz, xhat;
};

static struct element backward_element(const struct tensor *dy, const struct tensor *x,
                                       const struct norm_vectors *v,
                                       enum activation activation, float slope,
                                       size_t row, int c)
{
    float value = load(x, row, c);
    float z = value * v->scale[c] + v->shift[c];
    float y = ref_activate(z, activation, slope);
    float dz = load(dy, row, c) * ref_activation_slope(z, y, activation, slope);
    return (struct element){dz, (value - v->mean[c]) * v->inv_std[c]};
}

static void ref_norm_act_reduce(struct device *device, const struct tensor *dy,
                                const struct tensor *x, const struct norm_vectors *v,
                                enum activation activation, float slope)
{
    (void)device;
    ref_check_shapes("norm.act_reduce", dy, x);
    for (int c = 0; c < x->shape.c; c++) {
        double sum_dz = 0.0, sum_dz_xhat = 0.0;
        for (size_t row = 0; row < ref_rows(x); row++) {
            struct element e = backward_element(dy, x, v, activation, slope, row, c);
            sum_dz += (double)e.dz;
            sum_dz_xhat += (double)e.dz * (double)e.xhat;
        }
        v->sum_dz[c] = (float)sum_dz;
        v->sum_dz_xhat[c] = (float)sum_dz_xhat;
    }
}

static void ref_norm_act_dgrad(struct device *device, const struct tensor *dy,
                               const struct tensor *x, const struct norm_vectors *v,
                               enum activation activation, float slope, int64_t count,
                               struct tensor *dx)
{
    (void)device;
    ref_check_shapes("norm.act_dgrad", dy, x);
    ref_check_shapes("norm.act_dgrad", dy, dx);
    float inv_count = (float)(1.0 / (double)count);
    for (size_t row = 0; row < ref_rows(x); row++) {
        for (int c = 0; c < x->shape.c; c++) {
            struct element e = backward_element(dy, x, v, activation, slope, row, c);
            float mean_dz = v->sum_dz[c] * inv_count;
            float mean_dz_xhat = v->sum_dz_xhat[c] * inv_count;
            store(dx, row, c, v->scale[c] * (e.dz - mean_dz - e.xhat * mean_dz_xhat));
        }
    }
    ref_clear_padding(dx);
}

void ref_fill_norm(struct norm_ops *ops)
{
    *ops = (struct norm_ops){
        .stats = ref_norm_stats,
        .finalize = ref_norm_finalize,
        .finalize_running = ref_norm_finalize_running,
        .commit = ref_norm_commit,
        .act_forward = ref_norm_act_forward,
        .act_reduce = ref_norm_act_reduce,
        .act_dgrad = ref_norm_act_dgrad,
    };
}
