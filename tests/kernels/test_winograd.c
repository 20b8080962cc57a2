/* Winograd, forced wherever the shape allows it, against ref and against the direct way,
 * at every instruction set: values, error, inf and NaN, threads, and what is chosen
 * unforced. */
#include "kernels/cpu/cpu.h"
#include "tests/kernels/conv_passes.h"

static const char *const pass_names[] = {"Winograd forward", "Winograd dgrad",
                                         "Winograd wgrad"};

struct geometry {
    int n, h, w, c, k;
};

static const struct geometry geometries[] = {
    {1, 8, 8, 16, 32},   // one whole tile
    {3, 16, 16, 16, 32}, // inner borders between tiles
    {2, 10, 14, 5, 9}, // 5x7 outputs: the last tiles are cut; channels that fill nothing
    {1, 7, 9, 17, 33}, // odd sizes of x
    {7, 4, 4, 33, 7},  // 2x2 outputs: most of a tile is beyond the end
    {13, 8, 8, 3, 65}, // more tiles than a register tile has rows
    {2, 14, 14, 40, 70}, // more than one step of depth in both directions
    {3, 14, 14, 27, 50}, // a last step of channels more than half full
    {2, 10, 8, 24, 5},   // half full, all of that half
    {5, 8, 6, 9, 50},    // one channel more than half
    {1, 6, 6, 31, 49},   // one less than full
    {1, 2, 2, 1, 1},     // one output
    {1, 28, 40, 8, 4},
};
#define GEOMETRIES (sizeof geometries / sizeof geometries[0])

// More tiles than one chunk has, in forward, dgrad and wgrad; once with a last step of
// channels half full; and few weights, whose gradients are added from two parts.
static const struct {
    struct geometry geometry;
    enum pass pass;
} large[] = {{{17, 32, 32, 64, 8}, FORWARD},
             {{17, 32, 32, 8, 200}, DGRAD},
             {{66, 32, 32, 48, 8}, WGRAD},
             {{80, 28, 28, 56, 8}, WGRAD},
             {{40, 14, 14, 24, 48}, WGRAD}};

static struct conv_desc desc_of(const struct geometry *g, enum dtype dtype)
{
    return (struct conv_desc){.x = {g->n, g->h, g->w, g->c},
                              .y = {g->n, g->h / 2, g->w / 2, g->k},
                              .kernel = 4,
                              .stride = 2,
                              .pad = 1,
                              .dtype = dtype,
                              .out_dtype = dtype};
}

static void geometry_text(const struct conv_desc *d, char text[160])
{
    char x[SHAPE_TEXT], y[SHAPE_TEXT];
    snprintf(text, 160, "%s to %s", shape_text(d->x, x), shape_text(d->y, y));
}

/* ---- compared with ref ----------------------------------------------------------- */

enum { CHANNELS_MAX = 256, EPILOGUES = 4 };

struct epilogue_case {
    struct conv_epilogue epilogue;
    float bias[CHANNELS_MAX], sum[CHANNELS_MAX], sumsq[CHANNELS_MAX];
};

static void make_epilogue(struct epilogue_case *e, int index)
{
    static const enum activation activations[EPILOGUES] = {
        ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_LEAKY_RELU, ACTIVATION_TANH};
    fill_f32(e->bias, CHANNELS_MAX, FILL_RANDOM, 77);
    for (int c = 0; c < CHANNELS_MAX; c++)
        e->sum[c] = e->sumsq[c] = NAN; // overwritten, or seen
    e->epilogue = (struct conv_epilogue){.bias = index ? e->bias : NULL,
                                         .activation = activations[index],
                                         .slope = 0.25f,
                                         .sum = index < 3 ? e->sum : NULL,
                                         .sumsq = index < 3 ? e->sumsq : NULL};
}

static void compare_pass(const struct conv_desc *d, enum pass pass, enum fill fill,
                         int edges_in_b, int epilogue, uint64_t seed)
{
    static struct epilogue_case e;
    char geometry[160];
    geometry_text(d, geometry);
    struct operands in = operands_of(d, pass, d->dtype);
    fill_for(&in.a, edges_in_b ? FILL_RANDOM : fill, seed);
    fill_for(&in.b, edges_in_b ? fill : FILL_RANDOM, seed + 1);
    struct tensor magnitude = magnitude_of(d, pass, &in);
    struct tensor want = out_of(d, pass), got = out_of(d, pass);
    make_epilogue(&e, epilogue);
    run_pass(ref, d, pass, &in, pass == WGRAD ? NULL : &e.epilogue, &want);
    // With edges, a tile's largest operands bound the error of all its outputs.
    struct bounds bounds = {.magnitude = magnitude.data,
                            .of_magnitude = 1e-5,
                            .absolute = (fill == FILL_EDGE ? 4.0 : 1e-5) +
                                        unit_absolute(d->dtype),
                            .relative = unit_relative(d->dtype),
                            .may_spread = fill == FILL_EDGE};
    FOR_BACKENDS(b)
    {
        make_epilogue(&e, epilogue);
        run_pass(b->device[1], d, pass, &in, pass == WGRAD ? NULL : &e.epilogue, &got);
        assert_within(pass_names[pass], b->name, geometry, &got, &want, &bounds, seed);
        if (pass != WGRAD)
            check_sums(b->name, geometry, &got, &e.epilogue);
    }
    release_operands(&in);
    free(magnitude.data);
    free(want.data);
    free(got.data);
}

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

static void test_random_operands_agree_with_ref_at_every_size(void **state)
{
    (void)state;
    for (size_t g = 0; g < GEOMETRIES; g++)
        for (size_t t = 0; t < 3; t++)
            for (int pass = FORWARD; pass <= WGRAD; pass++)
                for (int e = 0; e < (pass == WGRAD ? 1 : EPILOGUES); e++) {
                    struct conv_desc d = desc_of(&geometries[g], dtypes[t]);
                    compare_pass(&d, (enum pass)pass, FILL_RANDOM, 0, e, 10 * g + t);
                }
}

static void test_several_chunks_agree_with_ref(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        struct conv_desc d = desc_of(&large[i].geometry, dtypes[i % 3]);
        compare_pass(&d, large[i].pass, FILL_RANDOM, 0, 0, 300);
    }
}

/* ---- inf and NaN ----------------------------------------------------------------- */

static void test_inf_and_nan_come_out_wherever_ref_has_them(void **state)
{
    (void)state;
    for (size_t g = 0; g < GEOMETRIES; g++)
        for (size_t t = 0; t < 3; t++)
            for (int pass = FORWARD; pass <= WGRAD; pass++)
                for (int b = 0; b < 2; b++)
                    for (int e = 0; e < (pass == WGRAD ? 1 : EPILOGUES); e++) {
                        struct conv_desc d = desc_of(&geometries[g], dtypes[t]);
                        compare_pass(&d, (enum pass)pass, FILL_EDGE, b, e, 50 * g + t);
                    }
}

/* One NaN or inf at every place in turn, so that none hides behind another's. */
static void check_single(const struct conv_desc *d, enum pass pass, int in_b,
                         float planted)
{
    char geometry[160];
    geometry_text(d, geometry);
    struct operands in = operands_of(d, pass, d->dtype);
    fill_tensor(&in.a, FILL_RANDOM, 5);
    fill_tensor(&in.b, FILL_RANDOM, 6);
    struct tensor want = out_of(d, pass), got = out_of(d, pass);
    struct tensor *host = in_b ? &in.b : &in.a;
    for (size_t at = 0; at < tensor_elements(host); at++) {
        float before = element_load(host->data, host->dtype, at);
        element_store(host->data, host->dtype, at, planted);
        run_pass(ref, d, pass, &in, NULL, &want);
        FOR_BACKENDS(b)
        {
            run_pass(b->device[0], d, pass, &in, NULL, &got);
            struct bounds bounds = {.absolute = 1e-2, .relative = 1e-2, .may_spread = 1};
            assert_within(pass_names[pass], b->name, geometry, &got, &want, &bounds, at);
        }
        element_store(host->data, host->dtype, at, before);
    }
    release_operands(&in);
    free(want.data);
    free(got.data);
}

static void test_a_single_inf_or_nan_is_never_lost(void **state)
{
    (void)state;
    static const struct geometry small = {1, 18, 10, 1, 2};
    struct conv_desc d = desc_of(&small, DTYPE_F16);
    for (int pass = FORWARD; pass <= WGRAD; pass++)
        for (int in_b = 0; in_b < 2; in_b++) {
            check_single(&d, (enum pass)pass, in_b, NAN);
            check_single(&d, (enum pass)pass, in_b, -INFINITY);
        }
}

/* Values of the size of the largest f32: whatever overflows on the way, ReLU must not
 * make a zero of it where ref has an infinity. */
static void test_overflow_is_not_hidden_by_relu(void **state)
{
    (void)state;
    static const struct geometry geometry = {2, 16, 16, 3, 4};
    struct conv_desc d = desc_of(&geometry, DTYPE_F32);
    struct conv_epilogue relu = {.activation = ACTIVATION_RELU};
    for (int pass = FORWARD; pass <= DGRAD; pass++) {
        struct operands in = operands_of(&d, (enum pass)pass, DTYPE_F32);
        struct tensor want = out_of(&d, (enum pass)pass);
        struct tensor got = out_of(&d, (enum pass)pass);
        size_t infinite = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            fill_tensor(&in.a, FILL_RANDOM, seed);
            fill_tensor(&in.b, FILL_RANDOM, seed + 100);
            for (size_t i = 0; i < tensor_elements(&in.a); i++)
                ((float *)in.a.data)[i] *= 1e38f;
            run_pass(ref, &d, (enum pass)pass, &in, &relu, &want);
            FOR_BACKENDS(b)
            {
                run_pass(b->device[0], &d, (enum pass)pass, &in, &relu, &got);
                for (size_t i = 0; i < tensor_elements(&want); i++) {
                    int is_out = !isfinite(((float *)want.data)[i]);
                    infinite += (size_t)is_out;
                    if (is_out && isfinite(((float *)got.data)[i]))
                        fail_msg(
                            "%s on %s: element %zu is %g, ref has %g (seed %llu)",
                            pass_names[pass], b->name, i, (double)((float *)got.data)[i],
                            (double)((float *)want.data)[i], (unsigned long long)seed);
                }
            }
        }
        assert_true(infinite > 100); // there was something to hide
        release_operands(&in);
        free(want.data);
        free(got.data);
    }
}

static void test_a_nan_spreads_no_further_than_its_tile(void **state)
{
    (void)state;
    static const struct geometry geometry = {2, 24, 24, 16, 17};
    struct conv_desc d = desc_of(&geometry, DTYPE_F16);
    struct operands in = operands_of(&d, FORWARD, DTYPE_F16);
    fill_tensor(&in.a, FILL_RANDOM, 1);
    fill_tensor(&in.b, FILL_RANDOM, 2);
    struct tensor clean = out_of(&d, FORWARD), got = out_of(&d, FORWARD);
    FOR_BACKENDS(b)
    {
        run_pass(b->device[0], &d, FORWARD, &in, NULL, &clean);
        size_t middle = (size_t)((11 * 24 + 11) * 16); // row 11: tile 1 of 3, both ways
        float before = element_load(in.a.data, DTYPE_F16, middle);
        element_store(in.a.data, DTYPE_F16, middle, NAN);
        run_pass(b->device[0], &d, FORWARD, &in, NULL, &got);
        element_store(in.a.data, DTYPE_F16, middle, before);
        for (size_t i = 0; i < tensor_elements(&got); i++) {
            size_t pixel = i / 17, p = pixel / 12 % 12, q = pixel % 12;
            int is_near = pixel < 144 && p / 4 == 1 && q / 4 == 1;
            float now = element_load(got.data, DTYPE_F16, i);
            if (is_near ? isfinite(now) : now != element_load(clean.data, DTYPE_F16, i))
                fail_msg("%s: output (%zu, %zu) is %g", b->name, p, q, (double)now);
        }
    }
    release_operands(&in);
    free(clean.data);
    free(got.data);
}

/* ---- error ----------------------------------------------------------------------- */

/* Sums in f64, by the definition. */
static double *exact_of(const struct conv_desc *d, enum pass pass,
                        const struct operands *in)
{
    struct tensor shape = out_of(d, pass);
    double *out = calloc(tensor_elements(&shape), sizeof *out);
    free(shape.data);
    const float *a = in->a.data, *b = in->b.data;
    assert_non_null(out);
    for (int n = 0; n < d->y.n; n++)
        for (int p = 0; p < d->y.h; p++)
            for (int q = 0; q < d->y.w; q++)
                for (int tap = 0; tap < 16; tap++) {
                    int h = 2 * p - 1 + tap / 4, w = 2 * q - 1 + tap % 4;
                    if (h < 0 || w < 0 || h >= d->x.h || w >= d->x.w)
                        continue;
                    size_t x = (size_t)(((n * d->x.h + h) * d->x.w + w) * d->x.c);
                    size_t y = (size_t)(((n * d->y.h + p) * d->y.w + q) * d->y.c);
                    for (int k = 0; k < d->y.c; k++) {
                        size_t g = (size_t)((k * 16 + tap) * d->x.c);
                        for (size_t c = 0; c < (size_t)d->x.c; c++) {
                            if (pass == FORWARD)
                                out[y + (size_t)k] += (double)a[x + c] * (double)b[g + c];
                            else if (pass == DGRAD)
                                out[x + c] += (double)a[y + (size_t)k] * (double)b[g + c];
                            else
                                out[g + c] += (double)a[x + c] * (double)b[y + (size_t)k];
                        }
                    }
                }
    return out;
}

static double rms_error(const struct tensor *got, const double *exact)
{
    double sum = 0;
    size_t n = tensor_elements(got);
    for (size_t i = 0; i < n; i++) {
        double error = (double)((float *)got->data)[i] - exact[i];
        sum += error * error;
    }
    return sqrt(sum / (double)n);
}

/* The direct way at the same instruction set. */
static struct device *open_direct(const struct backend *backend)
{
    struct device *device;
    setenv("TWINSCALE_ISA", backend->name + strlen("cpu "), 1);
    setenv("TWINSCALE_CONV", "direct", 1);
    assert_int_equal(device_open("cpu", 2, &device), STATUS_OK);
    unsetenv("TWINSCALE_ISA");
    setenv("TWINSCALE_CONV", "winograd", 1);
    return device;
}

static void test_the_error_is_within_twice_the_direct_ways(void **state)
{
    (void)state;
    // The inner layers of DCGAN at a smaller batch; where all samples count, 7x7 outputs.
    static const struct geometry layers[] = {
        {2, 32, 32, 64, 128}, {4, 16, 16, 128, 256}, {8, 8, 8, 256, 192},
        {8, 14, 14, 64, 128}, {4, 16, 16, 32, 64},   {64, 16, 16, 24, 48},
    };
    for (size_t g = 0; g < sizeof layers / sizeof layers[0]; g++)
        for (int pass = FORWARD; pass <= WGRAD; pass++) {
            struct conv_desc d = desc_of(&layers[g], DTYPE_F32);
            struct operands in = operands_of(&d, (enum pass)pass, DTYPE_F32);
            fill_tensor(&in.a, FILL_RANDOM, 40 + g);
            fill_tensor(&in.b, FILL_RANDOM, 50 + g);
            double *exact = exact_of(&d, (enum pass)pass, &in);
            struct tensor out = out_of(&d, (enum pass)pass);
            char geometry[160];
            geometry_text(&d, geometry);
            FOR_BACKENDS(b)
            {
                struct device *direct = open_direct(b);
                run_pass(direct, &d, (enum pass)pass, &in, NULL, &out);
                double direct_error = rms_error(&out, exact);
                device_close(direct);
                run_pass(b->device[1], &d, (enum pass)pass, &in, NULL, &out);
                double error = rms_error(&out, exact);
                if (getenv("TWINSCALE_PRINT_ERRORS"))
                    print_message("%s %s %s: %.3g, direct %.3g, ratio %.2f\n",
                                  pass_names[pass], b->name, geometry, error,
                                  direct_error, error / direct_error);
                if (!(error <= 2 * direct_error))
                    fail_msg("%s on %s, %s: error %.3g, the direct way's is %.3g",
                             pass_names[pass], b->name, geometry, error, direct_error);
            }
            free(exact);
            free(out.data);
            release_operands(&in);
        }
}

/* ---- threads, accumulation, choice ----------------------------------------------- */

static void test_the_bits_are_the_same_for_one_two_and_three_threads(void **state)
{
    (void)state;
    static const struct geometry several[] = {{16, 16, 16, 40, 70},
                                              {5, 14, 14, 17, 33},
                                              {66, 32, 32, 16, 8},
                                              {40, 14, 14, 24, 48}};
    static struct epilogue_case e[THREAD_COUNTS];
    for (size_t g = 0; g < sizeof several / sizeof *several; g++)
        for (int pass = FORWARD; pass <= WGRAD; pass++) {
            struct conv_desc d = desc_of(&several[g], dtypes[g % 3]);
            struct operands in = operands_of(&d, (enum pass)pass, d.dtype);
            fill_tensor(&in.a, FILL_RANDOM, 8);
            fill_tensor(&in.b, FILL_RANDOM, 9);
            FOR_BACKENDS(b)
            {
                struct tensor out[THREAD_COUNTS];
                for (int t = 0; t < THREAD_COUNTS; t++) {
                    out[t] = out_of(&d, (enum pass)pass);
                    make_epilogue(&e[t], 2);
                    run_pass(b->device[t], &d, (enum pass)pass, &in, &e[t].epilogue,
                             &out[t]);
                    assert_memory_equal(out[t].data, out[0].data, tensor_bytes(&out[0]));
                    assert_memory_equal(e[t].sum, e[0].sum, sizeof e[0].sum);
                    assert_memory_equal(e[t].sumsq, e[0].sumsq, sizeof e[0].sumsq);
                }
                for (int t = 0; t < THREAD_COUNTS; t++)
                    free(out[t].data);
            }
            release_operands(&in);
        }
}

static void test_wgrad_adds_exactly_what_it_would_have_written(void **state)
{
    (void)state;
    for (size_t g = 0; g < GEOMETRIES; g++) {
        struct conv_desc d = desc_of(&geometries[g], dtypes[g % 3]);
        struct operands in = operands_of(&d, WGRAD, d.dtype);
        fill_tensor(&in.a, FILL_RANDOM, 20 + g);
        fill_tensor(&in.b, FILL_RANDOM, 40 + g);
        struct tensor once = out_of(&d, WGRAD), added = out_of(&d, WGRAD);
        FOR_BACKENDS(b)
        {
            struct device *device = b->device[1];
            struct conv_plan *plan;
            run_pass(device, &d, WGRAD, &in, NULL, &once);
            for (size_t i = 0; i < tensor_elements(&added); i++)
                ((float *)added.data)[i] = 0.5f;
            assert_int_equal(device->ops->conv.prepare(device, &d, &plan), STATUS_OK);
            device->ops->conv.wgrad(device, plan, &in.a, &in.b, added.data, 1);
            device->ops->conv.release(device, plan);
            for (size_t i = 0; i < tensor_elements(&once); i++) {
                float dw = ((float *)once.data)[i];
                assert_true(dw == round_to_dtype(dw, d.dtype));
                assert_true(((float *)added.data)[i] == 0.5f + dw);
            }
        }
        release_operands(&in);
        free(once.data);
        free(added.data);
    }
}

static int is_by_winograd(struct device *device, const struct conv_desc *d, int pass)
{
    struct conv_plan *plan;
    assert_int_equal(device->ops->conv.prepare(device, d, &plan), STATUS_OK);
    struct conv_way way;
    device->ops->conv.describe(device, plan, (enum pass_kind)pass, &way);
    device->ops->conv.release(device, plan);
    return strcmp(way.algorithm, "winograd") == 0;
}

static void test_the_forced_way_is_the_one_taken(void **state)
{
    (void)state;
    struct conv_desc d = desc_of(&geometries[0], DTYPE_F16);
    struct device *direct = open_direct(&backends[0]);
    for (int pass = FORWARD; pass <= WGRAD; pass++) {
        assert_true(is_by_winograd(backends[0].device[0], &d, pass));
        assert_false(is_by_winograd(direct, &d, pass));
    }
    device_close(direct);
}

static void
test_unforced_the_inner_layers_go_by_winograd_and_thin_or_tiny_do_not(void **state)
{
    (void)state;
    static const struct geometry inner[] = {
        {64, 32, 32, 64, 128}, {64, 16, 16, 128, 256}, {64, 8, 8, 256, 512}};
    static const struct geometry others[] = {
        {64, 64, 64, 3, 64}, {64, 28, 28, 1, 24}, {1, 2, 2, 64, 64}, {3, 4, 4, 256, 512}};
    struct conv_desc three = desc_of(&inner[0], DTYPE_F16);
    three.kernel = 3;
    three.y.h = three.y.w = 16;
    struct device *device;
    setenv("TWINSCALE_CONV", "auto", 1);
    assert_int_equal(device_open("cpu", 2, &device), STATUS_OK);
    setenv("TWINSCALE_CONV", "winograd", 1);
    for (int pass = FORWARD; pass <= WGRAD; pass++) {
        for (size_t i = 0; i < 3; i++) {
            struct conv_desc d = desc_of(&inner[i], DTYPE_F16);
            assert_true(is_by_winograd(device, &d, pass));
        }
        for (size_t i = 0; i < 4; i++) {
            struct conv_desc d = desc_of(&others[i], DTYPE_F16);
            assert_false(is_by_winograd(device, &d, pass));
        }
        assert_false(is_by_winograd(device, &three, pass));
    }
    device_close(device);
}

static void test_an_unknown_way_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    struct device *device;
    setenv("TWINSCALE_CONV", "fft", 1);
    assert_int_equal(device_open("cpu", 1, &device), STATUS_USAGE);
    setenv("TWINSCALE_CONV", "winograd", 1);
    assert_non_null(
        strstr(status_message(), "\"fft\": expected auto, direct or winograd"));
}

static int open_forced(void **state)
{
    setenv("TWINSCALE_CONV", "winograd", 1);
    return backends_open(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operands_agree_with_ref_at_every_size),
        cmocka_unit_test(test_several_chunks_agree_with_ref),
        cmocka_unit_test(test_inf_and_nan_come_out_wherever_ref_has_them),
        cmocka_unit_test(test_a_single_inf_or_nan_is_never_lost),
        cmocka_unit_test(test_overflow_is_not_hidden_by_relu),
        cmocka_unit_test(test_a_nan_spreads_no_further_than_its_tile),
        cmocka_unit_test(test_the_error_is_within_twice_the_direct_ways),
        cmocka_unit_test(test_the_bits_are_the_same_for_one_two_and_three_threads),
        cmocka_unit_test(test_wgrad_adds_exactly_what_it_would_have_written),
        cmocka_unit_test(test_the_forced_way_is_the_one_taken),
        cmocka_unit_test(
            test_unforced_the_inner_layers_go_by_winograd_and_thin_or_tiny_do_not),
        cmocka_unit_test(test_an_unknown_way_is_refused_with_the_known_ones),
    };
    return cmocka_run_group_tests(tests, open_forced, backends_close);
}
