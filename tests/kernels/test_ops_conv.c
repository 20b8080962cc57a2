/* Convolutions of every backend against ref: shapes, dtypes, fills, epilogues, threads.
 */
#include "tests/kernels/conv_passes.h"

static const char *const pass_names[] = {"conv.forward", "conv.dgrad", "conv.wgrad"};

/* ---- the table ------------------------------------------------------------------- */

struct geometry {
    int n, h, w, c, k, kernel, stride, pad;
};

static const struct geometry geometries[] = {
    // DCGAN: kernel 4, stride 2, padding 1, at small widths; RGB and grey ends.
    {4, 16, 16, 3, 16, 4, 2, 1},
    {3, 14, 14, 1, 8, 4, 2, 1},
    {2, 8, 8, 16, 33, 4, 2, 1},
    {2, 8, 8, 33, 17, 4, 2, 1},
    {5, 4, 4, 64, 64, 4, 2, 1},
    {1, 28, 28, 1, 17, 4, 2, 1},
    {5, 32, 33, 2, 3, 3, 1, 1}, // pixels enough for several chunks in each part of wgrad
    {3, 7, 9, 5, 8, 4, 2, 1},   // odd sizes: the last row and column have fewer taps
    // The ends: 4x4 to a logit, a latent to 4x4, 7x7 covering all.
    {7, 4, 4, 64, 1, 4, 1, 0},
    {3, 4, 4, 17, 100, 4, 1, 0},
    {6, 7, 7, 16, 1, 7, 1, 0},
    {1, 7, 7, 5, 33, 7, 1, 0},
    {4, 5, 5, 8, 3, 4, 1, 0}, // nearly covering
    // 3x3, 1x1 and others.
    {2, 9, 7, 8, 16, 3, 1, 1},
    {1, 5, 5, 17, 3, 3, 1, 1},
    {2, 6, 5, 3, 5, 3, 2, 1},
    {3, 5, 6, 16, 17, 1, 1, 0},
    {2, 7, 7, 64, 8, 1, 2, 0},
    {9, 1, 1, 33, 64, 1, 1, 0}, // a dense layer
    {1, 1, 1, 1, 1, 1, 1, 0},
    {2, 8, 8, 3, 8, 5, 2, 2},
    {1, 6, 7, 5, 3, 2, 3, 0}, // gaps: some pixels of x meet no tap
    {1, 3, 3, 8, 5, 3, 2, 2}, // more padding than picture
    {2, 5, 5, 3, 1, 3, 4, 1},
    {1, 12, 11, 65, 9, 4, 2, 1},
    // Rows of taps of 4, 8, 12 and 16 elements, that fill the panels of an instruction
    // set or not; the widest line of windows that are copied together, and one beyond it.
    {2, 9, 8, 2, 5, 4, 2, 1},
    {2, 9, 8, 4, 6, 4, 2, 1},
    {2, 7, 6, 4, 5, 3, 1, 1},
    {2, 6, 5, 4, 7, 1, 1, 0},
    {2, 6, 5, 8, 5, 1, 2, 0},
    {1, 6, 9, 2, 5, 2, 3, 0},
    {1, 4, 1022, 1, 3, 4, 2, 1},
    {1, 4, 1024, 1, 3, 4, 2, 1},
    {2, 5, 4, 5, 4, 1, 1, 1}, // dgrad's windows begin within the picture
    // A picture's gradient where lines of taps overlap several times, or reach only some
    // of its pixels.
    {2, 9, 7, 3, 8, 3, 1, 1},
    {2, 13, 11, 1, 4, 7, 1, 0},
    {2, 11, 12, 3, 6, 2, 5, 0},
    {2, 7, 6, 4, 6, 1, 2, 0},
    {1, 64, 62, 3, 5, 4, 2, 1}, // bands of rows where tiles are widest
    {1, 61, 64, 3, 4, 3, 1, 1}, // and at any width
    // Single pixels deeper than a block, of pairs too.
    {1, 2, 3, 530, 5, 1, 1, 0},
    {1, 4, 6, 3, 530, 4, 2, 1},
};
#define GEOMETRIES (sizeof geometries / sizeof geometries[0])

static struct conv_desc desc_of(const struct geometry *g, enum dtype dtype,
                                enum dtype out_dtype)
{
    int p = (g->h + 2 * g->pad - g->kernel) / g->stride + 1;
    int q = (g->w + 2 * g->pad - g->kernel) / g->stride + 1;
    return (struct conv_desc){.x = {g->n, g->h, g->w, g->c},
                              .y = {g->n, p, q, g->k},
                              .kernel = g->kernel,
                              .stride = g->stride,
                              .pad = g->pad,
                              .dtype = dtype,
                              .out_dtype = out_dtype};
}

static void geometry_text(const struct conv_desc *d, char text[160])
{
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    snprintf(text, 160, "%s to %s kernel %d stride %d pad %d", shape_text(d->x, x),
             shape_text(d->y, y), d->kernel, d->stride, d->pad);
}

/* ---- epilogues ------------------------------------------------------------------- */

enum { EPILOGUES = 5, CHANNELS_MAX = 544 };

struct epilogue_case {
    struct conv_epilogue epilogue;
    float bias[CHANNELS_MAX], sum[CHANNELS_MAX], sumsq[CHANNELS_MAX];
    int is_null;
};

static void make_epilogue(struct epilogue_case *e, int index, enum fill fill)
{
    static const struct {
        int has_bias, has_sums;
        enum activation activation;
    } cases[EPILOGUES] = {{0, 0, ACTIVATION_NONE},
                          {1, 0, ACTIVATION_RELU},
                          {0, 1, ACTIVATION_LEAKY_RELU},
                          {1, 0, ACTIVATION_TANH},
                          {1, 1, ACTIVATION_NONE}};
    fill_f32(e->bias, CHANNELS_MAX, fill == FILL_EDGE ? FILL_RANDOM : fill, 77);
    for (int c = 0; c < CHANNELS_MAX; c++)
        e->sum[c] = e->sumsq[c] = NAN; // overwritten, or seen
    e->is_null = index == 0;
    e->epilogue =
        (struct conv_epilogue){.bias = cases[index].has_bias ? e->bias : NULL,
                               .activation = cases[index].activation,
                               .slope = 0.25f,
                               .sum = cases[index].has_sums ? e->sum : NULL,
                               .sumsq = cases[index].has_sums ? e->sumsq : NULL};
}

/* ---- compared with ref ----------------------------------------------------------- */

static struct bounds bounds_of(const struct conv_desc *d, enum pass pass, enum fill fill,
                               enum activation activation, const struct tensor *magnitude)
{
    enum dtype stored = pass == WGRAD ? d->dtype : d->out_dtype;
    struct bounds bounds = {.magnitude = magnitude->data,
                            .of_magnitude = 1e-5,
                            .absolute = 2e-6 + unit_absolute(stored),
                            .relative = unit_relative(stored)};
    // Sums of small integers are exact in any order, and so is what is stored of them.
    if (fill == FILL_SMALL_INTEGERS && activation != ACTIVATION_TANH)
        bounds.of_magnitude = bounds.absolute = bounds.relative = 0.0;
    return bounds;
}

static void compare_pass(const struct conv_desc *d, enum pass pass, enum fill fill,
                         int epilogue, const struct operands *in,
                         const struct tensor *magnitude, uint64_t seed, int may_spread)
{
    static struct epilogue_case e;
    char geometry[160];
    geometry_text(d, geometry);
    make_epilogue(&e, epilogue, fill);
    struct tensor want = out_of(d, pass), got = out_of(d, pass);
    run_pass(ref, d, pass, in, e.is_null ? NULL : &e.epilogue, &want);
    check_sums("ref", geometry, &want, &e.epilogue);
    struct bounds bounds = bounds_of(d, pass, fill, e.epilogue.activation, magnitude);
    bounds.may_spread = may_spread;
    FOR_BACKENDS(b)
    {
        make_epilogue(&e, epilogue, fill);
        run_pass(b->device[1], d, pass, in, e.is_null ? NULL : &e.epilogue, &got);
        assert_within(pass_names[pass], b->name, geometry, &got, &want, &bounds, seed);
        check_sums(b->name, geometry, &got, &e.epilogue);
    }
    free(want.data);
    free(got.data);
}

/* All epilogues of a pass over one set of operands. With edges, they stand in `a`, or in
 * `b` of a wgrad where `edges_in_b`. */
static void compare_case(const struct conv_desc *d, enum pass pass, enum fill fill,
                         int edges_in_b, uint64_t seed)
{
    struct operands in = operands_of(d, pass, d->dtype);
    enum fill plain = fill == FILL_EDGE ? FILL_RANDOM : fill;
    fill_for(&in.a, edges_in_b ? plain : fill, seed);
    fill_for(&in.b, edges_in_b ? fill : plain, seed + 1);
    struct tensor magnitude = magnitude_of(d, pass, &in);
    for (int epilogue = 0; epilogue < (pass == WGRAD ? 1 : EPILOGUES); epilogue++)
        compare_pass(d, pass, fill, epilogue, &in, &magnitude, seed, edges_in_b);
    release_operands(&in);
    free(magnitude.data);
}

static void compare_fill(enum fill fill)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t g = 0; g < GEOMETRIES; g++) {
        for (size_t t = 0; t < 3; t++) {
            struct conv_desc d = desc_of(&geometries[g], dtypes[t], dtypes[t]);
            uint64_t seed = 1000 * g + 10 * t;
            compare_case(&d, FORWARD, fill, 0, seed);
            compare_case(&d, DGRAD, fill, 0, seed + 2);
            compare_case(&d, WGRAD, fill, 0, seed + 4);
            // The products of dy with the zeros around x may be NaN here and absent
            // there.
            if (fill == FILL_EDGE)
                compare_case(&d, WGRAD, fill, 1, seed + 6);
        }
    }
}

static void test_random_operands_agree_with_ref(void **state)
{
    (void)state;
    compare_fill(FILL_RANDOM);
}

static void test_small_integers_agree_exactly(void **state)
{
    (void)state;
    compare_fill(FILL_SMALL_INTEGERS);
}

static void test_inf_and_nan_come_out_where_ref_has_them(void **state)
{
    (void)state;
    compare_fill(FILL_EDGE);
}

static void test_halves_are_read_and_floats_written_for_a_logit_head(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16};
    for (size_t g = 0; g < GEOMETRIES; g++) {
        for (size_t t = 0; t < 2; t++) {
            struct conv_desc d = desc_of(&geometries[g], dtypes[t], DTYPE_F32);
            compare_case(&d, FORWARD, FILL_RANDOM, 0, 5000 + g);
            compare_case(&d, DGRAD, FILL_RANDOM, 0, 6000 + g);
        }
    }
}

/* The plan of a logit head writes f32 forward; its dgrad writes halves again. */
static void test_the_plan_of_a_logit_head_also_writes_its_operand_dtype(void **state)
{
    (void)state;
    const struct geometry head = {7, 4, 4, 64, 1, 4, 1, 0};
    struct conv_desc d = desc_of(&head, DTYPE_F16, DTYPE_F32);
    struct operands in = operands_of(&d, DGRAD, DTYPE_F16);
    fill_tensor(&in.a, FILL_RANDOM, 1);
    fill_tensor(&in.b, FILL_RANDOM, 2);
    struct tensor want = heap_tensor(DTYPE_F16, d.x), got = heap_tensor(DTYPE_F16, d.x);
    run_pass(ref, &d, DGRAD, &in, NULL, &want);
    FOR_BACKENDS(b)
    {
        run_pass(b->device[1], &d, DGRAD, &in, NULL, &got);
        struct bounds bounds = {.relative = unit_relative(DTYPE_F16), .absolute = 1e-6};
        assert_within("conv.dgrad", b->name, "logit head", &got, &want, &bounds, 1);
    }
    release_operands(&in);
    free(want.data);
    free(got.data);
}

static void test_wgrad_adds_exactly_what_it_would_have_written(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t g = 0; g < GEOMETRIES; g++) {
        struct conv_desc d = desc_of(&geometries[g], dtypes[g % 3], dtypes[g % 3]);
        struct operands in = operands_of(&d, WGRAD, d.dtype);
        fill_tensor(&in.a, FILL_RANDOM, 20 + g);
        fill_tensor(&in.b, FILL_RANDOM, 40 + g);
        struct tensor once = out_of(&d, WGRAD), added = out_of(&d, WGRAD);
        struct tensor before = out_of(&d, WGRAD);
        fill_tensor(&before, FILL_RANDOM, 60 + g);
        FOR_BACKENDS(b)
        {
            struct device *device = b->device[1];
            struct conv_plan *plan;
            run_pass(device, &d, WGRAD, &in, NULL, &once);
            memcpy(added.data, before.data, tensor_bytes(&before));
            assert_int_equal(device->ops->conv.prepare(device, &d, &plan), STATUS_OK);
            device->ops->conv.wgrad(device, plan, &in.a, &in.b, added.data, 1);
            device->ops->conv.release(device, plan);
            for (size_t i = 0; i < tensor_elements(&once); i++) {
                float dw = ((float *)once.data)[i];
                assert_true(dw == round_to_dtype(dw, d.dtype));
                if (((float *)added.data)[i] != ((float *)before.data)[i] + dw)
                    fail_msg(
                        "conv.wgrad accumulating on cpu %s, geometry %zu, element %zu",
                        b->name, g, i);
            }
        }
        struct tensor *all[] = {&in.a, &in.b, &once, &added, &before};
        for (size_t i = 0; i < 5; i++)
            free(all[i]->data);
    }
}

/* ---- threads --------------------------------------------------------------------- */

static void assert_same_bits(const struct conv_desc *d, enum pass pass, uint64_t seed)
{
    static struct epilogue_case e[THREAD_COUNTS];
    char geometry[160];
    geometry_text(d, geometry);
    struct operands in = operands_of(d, pass, d->dtype);
    fill_tensor(&in.a, FILL_RANDOM, seed);
    fill_tensor(&in.b, FILL_RANDOM, seed + 1);
    struct tensor out[THREAD_COUNTS];
    for (int t = 0; t < THREAD_COUNTS; t++)
        out[t] = out_of(d, pass);
    FOR_BACKENDS(b)
    {
        for (int t = 0; t < THREAD_COUNTS; t++) {
            make_epilogue(&e[t], 2, FILL_RANDOM);
            run_pass(b->device[t], d, pass, &in, &e[t].epilogue, &out[t]);
            int differ = memcmp(out[t].data, out[0].data, tensor_bytes(&out[0])) ||
                         memcmp(e[t].sum, e[0].sum, sizeof e[0].sum) ||
                         memcmp(e[t].sumsq, e[0].sumsq, sizeof e[0].sumsq);
            if (differ)
                fail_msg(
                    "%s on cpu %s, %s %s: 1 and %d threads give other bits (seed %llu)",
                    pass_names[pass], b->name, geometry, dtype_name(d->dtype), t + 1,
                    (unsigned long long)seed);
        }
    }
    for (int t = 0; t < THREAD_COUNTS; t++)
        free(out[t].data);
    release_operands(&in);
}

static void test_the_bits_are_the_same_for_one_two_and_three_threads(void **state)
{
    (void)state;
    static const struct geometry large[] = {
        {16, 28, 28, 1, 32, 4, 2, 1}, {16, 14, 14, 32, 64, 4, 2, 1},
        {32, 7, 7, 64, 1, 7, 1, 0},   {64, 4, 4, 64, 100, 4, 1, 0},
        {8, 16, 16, 33, 65, 3, 1, 1}, {16, 32, 32, 3, 17, 4, 2, 1},
    };
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t g = 0; g < sizeof large / sizeof large[0]; g++) {
        for (size_t t = 0; t < 3; t++) {
            struct conv_desc d = desc_of(&large[g], dtypes[t], dtypes[t]);
            for (int pass = FORWARD; pass <= WGRAD; pass++)
                assert_same_bits(&d, (enum pass)pass, 900 + g);
        }
    }
    for (size_t g = 0; g < GEOMETRIES; g++) {
        struct conv_desc d = desc_of(&geometries[g], dtypes[g % 3], dtypes[g % 3]);
        for (int pass = FORWARD; pass <= WGRAD; pass++)
            assert_same_bits(&d, (enum pass)pass, 950 + g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operands_agree_with_ref),
        cmocka_unit_test(test_small_integers_agree_exactly),
        cmocka_unit_test(test_inf_and_nan_come_out_where_ref_has_them),
        cmocka_unit_test(test_halves_are_read_and_floats_written_for_a_logit_head),
        cmocka_unit_test(test_the_plan_of_a_logit_head_also_writes_its_operand_dtype),
        cmocka_unit_test(test_wgrad_adds_exactly_what_it_would_have_written),
        cmocka_unit_test(test_the_bits_are_the_same_for_one_two_and_three_threads),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
