/* cudnn_math.c - convolution, pointwise operations and statistics of cuDNN's plans, on
 * the CPU, in f32 and with the innermost loop over what lies side by side. */
#include "tests/cuda/standins/cudnn_plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LANES 16

/* ---- convolution ---------------------------------------------------------------- */

static float dot(const float *a, const float *b, long count)
{
    float lanes[LANES] = {0}, sum = 0;
    long i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum += a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

static void add_multiple(float *restrict to, float factor, const float *restrict from,
                         long count)
{
    for (long i = 0; i < count; i++)
        to[i] += factor * from[i];
}

// One output place (n, p, q) with one tap (r, s): x and y are their C and K values.
static void conv_tap(enum conv_pass pass, float *x, const struct values *w, long tap,
                     float *y)
{
    long taps = w->h * w->w;
    for (long k = 0; k < w->n; k++) {
        float *weights = w->data + (k * taps + tap) * w->c;
        if (pass == CONV_FORWARD)
            y[k] += dot(x, weights, w->c);
        else if (pass == CONV_DGRAD)
            add_multiple(x, y[k], weights, w->c);
        else
            add_multiple(weights, y[k], x, w->c);
    }
}

struct geometry {
    long pad[2], stride[2], dilation[2];
};

static void conv_place(enum conv_pass pass, const struct values *x,
                       const struct values *w, const struct values *y,
                       const struct geometry *geometry, long row)
{
    long n = row / y->h, p = row % y->h;
    for (long q = 0; q < y->w; q++)
        for (long r = 0; r < w->h; r++) {
            long h =
                p * geometry->stride[0] - geometry->pad[0] + r * geometry->dilation[0];
            if (h < 0 || h >= x->h)
                continue;
            for (long s = 0; s < w->w; s++) {
                long v = q * geometry->stride[1] - geometry->pad[1] +
                         s * geometry->dilation[1];
                if (v < 0 || v >= x->w)
                    continue;
                conv_tap(pass, x->data + ((n * x->h + h) * x->w + v) * x->c, w,
                         r * w->w + s, y->data + ((n * y->h + p) * y->w + q) * y->c);
            }
        }
}

void conv_run(enum conv_pass pass, struct values x, struct values w, struct values y,
              const json_t *node)
{
    struct geometry geometry;
    struct values *out = pass == CONV_FORWARD ? &y : pass == CONV_DGRAD ? &x : &w;
    long count = out->n * out->c * out->h * out->w;
    float alpha = (float)node_number(node, "alpha", 1);
    float beta = (float)node_number(node, "beta", 0), *result = out->data;
    float *sums = calloc((size_t)count, sizeof *sums);
    node_pair(node, "pad", geometry.pad);
    node_pair(node, "stride", geometry.stride);
    node_pair(node, "dilation", geometry.dilation);
    out->data = sums;
    for (long row = 0; row < y.n * y.h; row++)
        conv_place(pass, &x, &w, &y, &geometry, row);
    for (long i = 0; i < count; i++)
        result[i] = beta != 0 ? alpha * sums[i] + beta * result[i] : alpha * sums[i];
    free(sums);
}

/* ---- pointwise ------------------------------------------------------------------ */

enum mode {
    MODE_ADD,
    MODE_SUB,
    MODE_MUL,
    MODE_DIV,
    MODE_MAX,
    MODE_MIN,
    MODE_IDENTITY,
    MODE_NEG,
    MODE_ABS,
    MODE_EXP,
    MODE_SQRT,
    MODE_RSQRT,
    MODE_RELU_FWD,
    MODE_TANH_FWD,
    MODE_SIGMOID_FWD,
    MODE_RELU_BWD,
    MODE_TANH_BWD,
    MODE_SIGMOID_BWD,
    MODES
};

static const char *const mode_names[MODES] = {
    "ADD",      "SUB",      "MUL",         "DIV",      "MAX",      "MIN",
    "IDENTITY", "NEG",      "ABS",         "EXP",      "SQRT",     "RSQRT",
    "RELU_FWD", "TANH_FWD", "SIGMOID_FWD", "RELU_BWD", "TANH_BWD", "SIGMOID_BWD"};

struct pointwise {
    enum mode mode;
    float slope, lower, upper, alpha1, alpha2;
};

// The slope holds below the lower bound; a NaN stays one.
static float relu(const struct pointwise *op, float a)
{
    if (a > op->upper)
        return op->upper;
    if (a < op->lower)
        return op->slope == 0 ? op->lower : op->lower + op->slope * (a - op->lower);
    return a;
}

static float relu_gradient(const struct pointwise *op, float a, float dy)
{
    if (a > op->lower)
        return a >= op->upper ? 0 : dy;
    return op->slope == 0 ? 0 : op->slope * dy;
}

static float apply(const struct pointwise *op, float a, float b)
{
    float s;
    a *= op->alpha1;
    b *= op->alpha2;
    switch (op->mode) {
    case MODE_ADD: return a + b;
    case MODE_SUB: return a - b;
    case MODE_MUL: return a * b;
    case MODE_DIV: return a / b;
    case MODE_MAX: return a > b || a != a ? a : b;
    case MODE_MIN: return a < b || a != a ? a : b;
    case MODE_NEG: return -a;
    case MODE_ABS: return fabsf(a);
    case MODE_EXP: return expf(a);
    case MODE_SQRT: return sqrtf(a);
    case MODE_RSQRT: return 1 / sqrtf(a);
    case MODE_RELU_FWD: return relu(op, a);
    case MODE_TANH_FWD: return tanhf(a);
    case MODE_SIGMOID_FWD: return 1 / (1 + expf(-a));
    case MODE_RELU_BWD: return relu_gradient(op, a, b);
    case MODE_TANH_BWD: return b * (1 - tanhf(a) * tanhf(a));
    case MODE_SIGMOID_BWD: s = 1 / (1 + expf(-a)); return b * s * (1 - s);
    default: return a;
    }
}

static int find_mode(const char *name, enum mode *mode)
{
    name += strlen("CUDNN_POINTWISE_");
    for (int i = 0; i < MODES; i++)
        if (strcmp(name, mode_names[i]) == 0) {
            *mode = (enum mode)i;
            return 1;
        }
    return 0;
}

static const float *row_of(const struct values *values, long n, long h, long w)
{
    long row = values->n > 1 ? n : 0;
    row = row * values->h + (values->h > 1 ? h : 0);
    return values->data + (row * values->w + (values->w > 1 ? w : 0)) * values->c;
}

int pointwise_run(struct values a, struct values b, struct values out, const json_t *node)
{
    struct pointwise op = {.slope = (float)node_number(node, "lowerClipSlope", 0),
                           .lower = (float)node_number(node, "lowerClip", 0),
                           .upper = INFINITY,
                           .alpha1 = (float)node_number(node, "alpha1", 1),
                           .alpha2 = (float)node_number(node, "alpha2", 1)};
    double upper = node_number(node, "upperClip", DBL_MAX);
    if (!find_mode(node_text(node, "pointwiseMode"), &op.mode))
        return 0;
    if (upper < FLT_MAX)
        op.upper = (float)upper;
    float *to = out.data;
    for (long n = 0; n < out.n; n++)
        for (long h = 0; h < out.h; h++)
            for (long w = 0; w < out.w; w++) {
                const float *left = row_of(&a, n, h, w);
                const float *right = b.data ? row_of(&b, n, h, w) : NULL;
                for (long c = 0; c < out.c; c++)
                    *to++ = apply(&op, left[a.c > 1 ? c : 0],
                                  right ? right[b.c > 1 ? c : 0] : 0);
            }
    return 1;
}

/* ---- statistics ----------------------------------------------------------------- */

// In f64: no order of sums on a GPU is closer.
void genstats_run(struct values x, struct values sum, struct values square_sum)
{
    for (long c = 0; c < x.c; c++) {
        double total = 0, square_total = 0;
        for (long row = 0; row < x.n * x.h * x.w; row++) {
            float value = x.data[row * x.c + c];
            total += value;
            square_total += (double)value * value;
        }
        sum.data[c] = (float)total;
        square_sum.data[c] = (float)square_total;
    }
}
