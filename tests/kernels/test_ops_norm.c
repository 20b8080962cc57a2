/* Batch norm, activations, casts, sums of tensors and of channels of every backend
 * against ref. */
#include "tests/kernels/backends.h"

enum { CHANNELS_MAX = 304 }; // the largest shape's, padded to a multiple of 8

static const struct shape shapes[] = {
    {1, 1, 1, 1},   {2, 3, 5, 7},    {1, 7, 7, 16},   {4, 4, 4, 17},
    {2, 5, 5, 33},  {3, 8, 8, 64},   {2, 2, 2, 3},    {1, 1, 1, 128},
    {9, 1, 1, 5},   {2, 16, 16, 8},  {1, 3, 1, 15},   {3, 1, 2, 31},
    {2, 3, 3, 300}, {16, 28, 28, 3}, {8, 32, 32, 16}, // large enough to be cut into parts
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const enum activation activations[] = {ACTIVATION_NONE, ACTIVATION_RELU,
                                              ACTIVATION_LEAKY_RELU, ACTIVATION_TANH};
static const enum fill fills[] = {FILL_RANDOM, FILL_EDGE};
#define SLOPE 0.2f

/* ---- one case -------------------------------------------------------------------- */

/* One tensor shape with all that the norm's passes read and write. */
struct norm_case {
    struct tensor x, dy, out, want;
    _Alignas(64) float room[13][CHANNELS_MAX];
    struct norm_vectors v;
    int channels;
    int64_t count;
    uint64_t seed;
};

static struct norm_vectors vectors_in(float room[13][CHANNELS_MAX])
{
    return (struct norm_vectors){room[0],  room[1],  room[2], room[3], room[4],
                                 room[5],  room[6],  room[7], room[8], room[9],
                                 room[10], room[11], room[12]};
}

/* Vectors of a plausible norm; none of them comes from x, so every op is tested by
 * itself. */
static void norm_case_begin(struct norm_case *n, struct shape shape, enum dtype dtype,
                            enum fill fill, uint64_t seed)
{
    *n = (struct norm_case){.x = padded_tensor(dtype, shape),
                            .dy = padded_tensor(dtype, shape),
                            .out = padded_tensor(dtype, shape),
                            .want = padded_tensor(dtype, shape),
                            .channels = shape.c,
                            .count = (int64_t)shape.n * shape.h * shape.w,
                            .seed = seed};
    fill_for(&n->x, fill, seed);
    fill_for(&n->dy, fill, seed + 1);
    for (size_t i = 0; i < 13; i++)
        fill_f32(n->room[i], CHANNELS_MAX, FILL_RANDOM, seed + 10 + i);
    n->v = vectors_in(n->room);
    for (int c = 0; c < n->channels; c++) {
        n->v.inv_std[c] = 1.5f + n->v.inv_std[c];
        n->v.running_var[c] = 1.1f + n->v.running_var[c];
        n->v.sumsq[c] = (float)n->count * (1.2f + n->v.sumsq[c]);
    }
}

static void norm_case_end(struct norm_case *n)
{
    struct tensor *all[] = {&n->x, &n->dy, &n->out, &n->want};
    for (size_t i = 0; i < 4; i++)
        free(all[i]->data);
}

static struct norm_case norm; // of the test that runs

/* Calls `check` for every shape, dtype and fill. */
static void for_norm_cases(void (*check)(void))
{
    for (size_t s = 0; s < SHAPES; s++) {
        for (size_t d = 0; d < 3; d++) {
            for (size_t f = 0; f < 2; f++) {
                norm_case_begin(&norm, shapes[s], dtypes[d], fills[f],
                                100 * s + 10 * d + f);
                check();
                norm_case_end(&norm);
            }
        }
    }
}

static const char *text_of(const struct tensor *t)
{
    static char text[SHAPE_TEXT];
    return shape_text(t->shape, text);
}

/* Sums of |x| and x^2 per channel: what rounding in a sum is measured by. */
static void sizes_of(const struct tensor *x, float *size, float *square)
{
    for (int c = 0; c < x->shape.c; c++)
        size[c] = square[c] = 0.0f;
    for (size_t i = 0; i < tensor_elements(x); i++) {
        float v = fabsf(element_load(x->data, x->dtype, place_of(x, i)));
        if (!is_finite_f32(v))
            continue;
        size[i % (size_t)x->shape.c] += v;
        square[i % (size_t)x->shape.c] += v * v;
    }
}

/* ---- batch norm ------------------------------------------------------------------ */

static void check_stats(void)
{
    float want[2][CHANNELS_MAX], got[2][CHANNELS_MAX], size[2][CHANNELS_MAX];
    size_t channels = (size_t)norm.channels;
    sizes_of(&norm.x, size[0], size[1]);
    ref->ops->norm.stats(ref, &norm.x, want[0], want[1]);
    FOR_BACKENDS(b)
    {
        for (int t = 0; t < THREAD_COUNTS; t++) {
            float again[2][CHANNELS_MAX];
            b->device[t]->ops->norm.stats(b->device[t], &norm.x, got[0], got[1]);
            for (int i = 0; i < 2; i++) {
                struct bounds bounds = {.magnitude = size[i], .of_magnitude = 1e-5};
                assert_vector_within("norm.stats", b->name, got[i], want[i], channels,
                                     &bounds, norm.seed);
            }
            b->device[0]->ops->norm.stats(b->device[0], &norm.x, again[0], again[1]);
            assert_memory_equal(again[0], got[0], channels * sizeof(float));
            assert_memory_equal(again[1], got[1], channels * sizeof(float));
        }
    }
}

static void test_stats_agree(void **state)
{
    (void)state;
    for_norm_cases(check_stats);
}

/* Runs `op` on a copy of the vectors and compares all of them with ref's. */
static void compare_vectors(const char *name,
                            void (*op)(struct device *, const struct norm_vectors *))
{
    static float want[13][CHANNELS_MAX], got[13][CHANNELS_MAX];
    memcpy(want, norm.room, sizeof want);
    struct norm_vectors v = vectors_in(want);
    op(ref, &v);
    FOR_BACKENDS(b)
    {
        memcpy(got, norm.room, sizeof got);
        v = vectors_in(got);
        op(b->device[1], &v);
        struct bounds bounds = {.of_magnitude = 1e-6, .relative = 1e-6};
        for (size_t i = 0; i < 13; i++)
            assert_vector_within(name, b->name, got[i], want[i], CHANNELS_MAX, &bounds,
                                 norm.seed);
    }
}

static void finalize(struct device *device, const struct norm_vectors *v)
{
    device->ops->norm.finalize(device, v, norm.channels, norm.count, 1e-5f);
}

static void finalize_running(struct device *device, const struct norm_vectors *v)
{
    device->ops->norm.finalize_running(device, v, norm.channels, 1e-5f);
}

static void commit(struct device *device, const struct norm_vectors *v)
{
    device->ops->norm.commit(device, v, norm.channels, 0.1f);
}

static void check_vector_ops(void)
{
    compare_vectors("norm.finalize", finalize);
    compare_vectors("norm.finalize_running", finalize_running);
    compare_vectors("norm.commit", commit);
    norm.v.sumsq[0] = NAN;
    norm.v.sum[norm.channels - 1] = INFINITY;
    compare_vectors("norm.finalize", finalize);
}

static void test_finalize_and_commit_agree(void **state)
{
    (void)state;
    for_norm_cases(check_vector_ops);
}

static void test_finalize_is_the_formula(void **state)
{
    (void)state;
    // Values 1, 3 and 5, 5: means 2 and 5, variances 1 and 0.
    norm_case_begin(&norm, (struct shape){2, 1, 1, 2}, DTYPE_F32, FILL_RANDOM, 1);
    float gamma[2] = {3.0f, 1.0f}, beta[2] = {0.5f, -1.0f};
    norm.v.gamma = gamma;
    norm.v.beta = beta;
    norm.v.sum[0] = 4.0f, norm.v.sumsq[0] = 10.0f;
    norm.v.sum[1] = 10.0f, norm.v.sumsq[1] = 50.0f;
    ref->ops->norm.finalize(ref, &norm.v, 2, 2, 0.0009765625f);
    assert_true(norm.v.mean[0] == 2.0f && norm.v.mean[1] == 5.0f);
    assert_true(norm.v.unbiased_var[0] == 2.0f && norm.v.unbiased_var[1] == 0.0f);
    assert_true(norm.v.inv_std[1] == 32.0f);
    assert_true(fabsf(norm.v.scale[0] - 3.0f / sqrtf(1.0009765625f)) < 1e-6f);
    assert_true(norm.v.shift[1] == -1.0f - 5.0f * 32.0f);
    // A count of 1 has no unbiased variance and keeps the biased one; sums whose
    // difference is negative by rounding give 0.
    norm.v.sumsq[0] = 15.9999f;
    ref->ops->norm.finalize(ref, &norm.v, 1, 1, 1e-5f);
    assert_true(norm.v.unbiased_var[0] == 0.0f);
    norm_case_end(&norm);
}

static void
test_commit_keeps_running_statistics_when_any_channel_is_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        const char *name = d < 0 ? "ref" : backends[d].name;
        for (size_t i = 0; i < 3; i++) {
            for (int c = 0; c < 17; c++) {
                for (int which = 0; which < 2; which++) {
                    norm_case_begin(&norm, (struct shape){2, 1, 1, 17}, DTYPE_F32,
                                    FILL_RANDOM, 7);
                    static float before[13][CHANNELS_MAX];
                    (which ? norm.v.mean : norm.v.unbiased_var)[c] = bad[i];
                    memcpy(before, norm.room, sizeof before);
                    commit(device, &norm.v);
                    if (memcmp(before, norm.room, sizeof before))
                        fail_msg("commit on %s changed something at channel %d", name, c);
                    norm_case_end(&norm);
                }
            }
        }
        norm_case_begin(&norm, (struct shape){2, 1, 1, 17}, DTYPE_F32, FILL_RANDOM, 7);
        float mean = norm.v.running_mean[16];
        commit(device, &norm.v);
        assert_true(fabsf(norm.v.running_mean[16] -
                          (0.9f * mean + 0.1f * norm.v.mean[16])) < 1e-6f);
        norm_case_end(&norm);
    }
}

static void forward(struct device *device, enum activation activation, struct tensor *out)
{
    device->ops->norm.act_forward(device, &norm.x, &norm.v, activation, SLOPE, out);
}

static void dgrad(struct device *device, enum activation activation, struct tensor *out)
{
    device->ops->norm.act_dgrad(device, &norm.dy, &norm.x, &norm.v, activation, SLOPE,
                                norm.count, out);
}

/* Compares a pass with ref, its bits among threads, and its bits when `alias` (a tensor
 * it reads) is also where it writes. */
static void compare_pass(const char *name,
                         void (*pass)(struct device *, enum activation, struct tensor *),
                         struct tensor *alias)
{
    enum dtype dtype = norm.out.dtype;
    struct bounds bounds = {.of_magnitude = 2e-5,
                            .absolute = unit_absolute(dtype),
                            .relative = 2e-5 + unit_relative(dtype)};
    size_t bytes = tensor_bytes(&norm.out);
    void *kept = malloc(bytes), *first = malloc(bytes);
    for (size_t a = 0; a < 4; a++) {
        pass(ref, activations[a], &norm.want);
        FOR_BACKENDS(b)
        {
            for (int t = 0; t < THREAD_COUNTS; t++) {
                poison(&norm.out);
                pass(b->device[t], activations[a], &norm.out);
                assert_within(name, b->name, text_of(&norm.out), &norm.out, &norm.want,
                              &bounds, norm.seed);
                if (t == 0)
                    memcpy(first, norm.out.data, bytes);
                assert_memory_equal(first, norm.out.data, bytes);
            }
            memcpy(kept, alias->data, bytes);
            pass(b->device[1], activations[a], alias);
            assert_memory_equal(first, alias->data, bytes);
            memcpy(alias->data, kept, bytes);
        }
    }
    free(kept);
    free(first);
}

static void check_norm_passes(void)
{
    compare_pass("norm.act_forward", forward, &norm.x);
    compare_pass("norm.act_dgrad", dgrad, &norm.dy);
}

static void test_norm_passes_agree(void **state)
{
    (void)state;
    for_norm_cases(check_norm_passes);
}

static void check_reduce(void)
{
    static float want[13][CHANNELS_MAX], got[13][CHANNELS_MAX], first[13][CHANNELS_MAX];
    // |dz| and |dz*xhat| are at most |dy| and |dy|*(|x| + 1)*2.5.
    float size[CHANNELS_MAX], square[CHANNELS_MAX], product[CHANNELS_MAX];
    sizes_of(&norm.dy, size, square);
    sizes_of(&norm.x, product, square);
    for (int c = 0; c < norm.channels; c++)
        product[c] = 2.5f * (size[c] + square[c] + product[c]);
    for (size_t a = 0; a < 4; a++) {
        memcpy(want, norm.room, sizeof want);
        struct norm_vectors v = vectors_in(want);
        ref->ops->norm.act_reduce(ref, &norm.dy, &norm.x, &v, activations[a], SLOPE);
        FOR_BACKENDS(b)
        {
            for (int t = 0; t < THREAD_COUNTS; t++) {
                struct device *device = b->device[t];
                memcpy(got, norm.room, sizeof got);
                v = vectors_in(got);
                device->ops->norm.act_reduce(device, &norm.dy, &norm.x, &v,
                                             activations[a], SLOPE);
                for (int i = 11; i < 13; i++) {
                    struct bounds bounds = {.magnitude = i == 11 ? size : product,
                                            .of_magnitude = 1e-5,
                                            .absolute = 1e-5};
                    assert_vector_within("norm.act_reduce", b->name, got[i], want[i],
                                         (size_t)norm.channels, &bounds, norm.seed);
                }
                if (t == 0)
                    memcpy(first, got, sizeof first);
                assert_memory_equal(first, got, sizeof got);
            }
        }
    }
}

static void test_norm_reductions_agree(void **state)
{
    (void)state;
    for_norm_cases(check_reduce);
}

/* ---- pointwise ------------------------------------------------------------------- */

static void act_forward(struct device *device, enum activation activation,
                        struct tensor *out)
{
    device->ops->pointwise.act_forward(device, &norm.x, activation, SLOPE, out);
}

/* x stands for the output y: any values will do. */
static void act_backward(struct device *device, enum activation activation,
                         struct tensor *out)
{
    device->ops->pointwise.act_backward(device, &norm.dy, &norm.x, activation, SLOPE,
                                        out);
}

static void check_activations(void)
{
    compare_pass("pointwise.act_forward", act_forward, &norm.x);
    compare_pass("pointwise.act_backward", act_backward, &norm.dy);
}

static void test_activations_agree(void **state)
{
    (void)state;
    for_norm_cases(check_activations);
}

static void test_relu_hides_no_nan(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[0];
        for (size_t a = 0; a < 4; a++) {
            struct shape shape = {1, 1, 1, 19};
            struct tensor x = padded_tensor(DTYPE_F32, shape);
            struct tensor y = padded_tensor(DTYPE_F32, shape);
            for (size_t i = 0; i < 19; i++)
                element_store(x.data, DTYPE_F32, i, NAN);
            device->ops->pointwise.act_forward(device, &x, activations[a], SLOPE, &y);
            for (size_t i = 0; i < 19; i++)
                assert_true(isnan(element_load(y.data, DTYPE_F32, i)));
            free(x.data);
            free(y.data);
        }
    }
}

static void test_casts_are_bit_for_bit_refs(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        for (size_t from = 0; from < 3; from++) {
            for (size_t to = 0; to < 3; to++) {
                struct tensor x = padded_tensor(dtypes[from], shapes[s]);
                struct tensor want = padded_tensor(dtypes[to], shapes[s]);
                struct tensor got = padded_tensor(dtypes[to], shapes[s]);
                fill_tensor(&x, FILL_EDGE, s);
                ref->ops->pointwise.cast(ref, &x, &want);
                FOR_BACKENDS(b)
                {
                    poison(&got);
                    b->device[1]->ops->pointwise.cast(b->device[1], &x, &got);
                    assert_tensors_close("pointwise.cast", &got, &want, 0.0, 0.0, s);
                    assert_padding_is_zero("pointwise.cast", b->name, &got);
                }
                free(x.data);
                free(want.data);
                free(got.data);
            }
        }
    }
}

/* Of two `dtypes`, added into a third one, which may be where one of the two lies. */
static void check_add_tensors(struct shape shape, enum fill fill,
                              const enum dtype dtype[3], uint64_t seed)
{
    struct tensor a = padded_tensor(dtype[0], shape), b = padded_tensor(dtype[1], shape);
    struct tensor want = padded_tensor(dtype[2], shape);
    struct tensor got = padded_tensor(dtype[2], shape);
    fill_for(&a, fill, seed);
    fill_for(&b, fill, seed + 1);
    ref->ops->pointwise.add_tensors(ref, &a, &b, &want);
    FOR_BACKENDS(backend)
    {
        for (int t = 0; t < THREAD_COUNTS; t++) {
            struct device *device = backend->device[t];
            poison(&got);
            device->ops->pointwise.add_tensors(device, &a, &b, &got);
            assert_tensors_close("pointwise.add_tensors", &got, &want, 0.0, 0.0, seed);
            assert_padding_is_zero("pointwise.add_tensors", backend->name, &got);
            for (int of_b = 0; t == 0 && of_b < 2; of_b++) {
                const struct tensor *alias = of_b ? &b : &a;
                if (alias->dtype != got.dtype)
                    continue;
                memcpy(got.data, alias->data, tensor_bytes(&got));
                device->ops->pointwise.add_tensors(device, of_b ? &a : &got,
                                                   of_b ? &got : &b, &got);
                assert_tensors_close("pointwise.add_tensors in place", &got, &want, 0.0,
                                     0.0, seed);
            }
        }
    }
    struct tensor *all[] = {&a, &b, &want, &got};
    for (size_t i = 0; i < 4; i++)
        free(all[i]->data);
}

static void test_sums_of_tensors_are_bit_for_bit_refs(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t d = 0; d < 27; d++)
            check_add_tensors(
                shapes[s], fills[(s + d) % 2],
                (enum dtype[]){dtypes[d / 9], dtypes[d / 3 % 3], dtypes[d % 3]}, s);
}

static void test_a_sum_of_tensors_is_rounded_once(void **state)
{
    (void)state;
    // What f16 holds has 11 bits; a sum to nearest, ties to even, beyond 65519 to inf. b
    // rounded to f16 first, 1, would make 2048 and 2052 of the last two.
    static const struct {
        float a, b, want;
    } cases[] = {{2048.0f, 1.0f, 2048.0f},       {2050.0f, 1.0f, 2052.0f},
                 {65504.0f, 15.0f, 65504.0f},    {65504.0f, 16.0f, INFINITY},
                 {0x1p-24f, 0x1p-24f, 0x1p-23f}, {1.0f, -1.0f, 0.0f},
                 {2048.0f, 1.001f, 2050.0f},     {2050.0f, 0.999f, 2050.0f}};
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[0];
        struct shape shape = {1, 1, 1, 8};
        struct tensor a = padded_tensor(DTYPE_F16, shape);
        struct tensor b = padded_tensor(DTYPE_F32, shape);
        for (size_t i = 0; i < 8; i++) {
            element_store(a.data, DTYPE_F16, i, cases[i].a);
            element_store(b.data, DTYPE_F32, i, cases[i].b);
        }
        device->ops->pointwise.add_tensors(device, &a, &b, &a);
        for (size_t i = 0; i < 8; i++)
            assert_true(element_load(a.data, DTYPE_F16, i) == cases[i].want);
        free(a.data);
        free(b.data);
    }
}

static void check_bias_grad(void)
{
    float before[CHANNELS_MAX], want[CHANNELS_MAX], got[CHANNELS_MAX],
        first[CHANNELS_MAX];
    float size[CHANNELS_MAX], square[CHANNELS_MAX];
    size_t channels = (size_t)norm.channels;
    sizes_of(&norm.dy, size, square);
    fill_f32(before, CHANNELS_MAX, FILL_RANDOM, 5);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        memcpy(want, before, sizeof want);
        ref->ops->pointwise.bias_grad(ref, &norm.dy, want, accumulate);
        FOR_BACKENDS(b)
        {
            for (int t = 0; t < THREAD_COUNTS; t++) {
                memcpy(got, before, sizeof got);
                got[0] = accumulate ? got[0] : NAN;
                b->device[t]->ops->pointwise.bias_grad(b->device[t], &norm.dy, got,
                                                       accumulate);
                struct bounds bounds = {
                    .magnitude = size, .of_magnitude = 1e-5, .absolute = 1e-6};
                assert_vector_within("pointwise.bias_grad", b->name, got, want, channels,
                                     &bounds, norm.seed);
                if (t == 0)
                    memcpy(first, got, sizeof first);
                assert_memory_equal(first, got, channels * sizeof(float));
            }
        }
    }
}

static void test_bias_gradients_agree(void **state)
{
    (void)state;
    for_norm_cases(check_bias_grad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats_agree),
        cmocka_unit_test(test_finalize_and_commit_agree),
        cmocka_unit_test(test_finalize_is_the_formula),
        cmocka_unit_test(
            test_commit_keeps_running_statistics_when_any_channel_is_not_finite),
        cmocka_unit_test(test_norm_passes_agree),
        cmocka_unit_test(test_norm_reductions_agree),
        cmocka_unit_test(test_activations_agree),
        cmocka_unit_test(test_relu_hides_no_nan),
        cmocka_unit_test(test_casts_are_bit_for_bit_refs),
        cmocka_unit_test(test_sums_of_tensors_are_bit_for_bit_refs),
        cmocka_unit_test(test_a_sum_of_tensors_is_rounded_once),
        cmocka_unit_test(test_bias_gradients_agree),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
