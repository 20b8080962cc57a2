/* Memory, images, random numbers, losses and the optimizer of every backend against ref.
 */
#include "tests/kernels/backends.h"

// Sizes with every tail of vectors of 4, 8 and 16, and some that are cut among threads.
static const size_t sizes[] = {0,  1,  2,  3,  4,  5,  7,  8,   9,    15,    16,
                               17, 23, 31, 32, 33, 63, 64, 100, 1000, 40000, 100001};
#define SIZES (sizeof sizes / sizeof sizes[0])
enum { LARGEST = 100001, ROOM = LARGEST + 7 }; // room in multiples of 32 bytes

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* ---- memory ---------------------------------------------------------------------- */

static void test_memory_is_aligned_zeroed_and_copied(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        const struct memory_ops *memory = &device->ops->memory;
        for (size_t i = 1; i < SIZES; i++) {
            size_t bytes = sizes[i];
            uint8_t *a = memory->alloc(device, bytes), *b = memory->alloc(device, bytes);
            uint8_t *host = malloc(bytes), *back = malloc(bytes);
            assert_int_equal((uintptr_t)a % 256, 0);
            for (size_t j = 0; j < bytes; j++)
                host[j] = (uint8_t)(j * 7 + 1);
            memory->download(device, back, a, bytes);
            for (size_t j = 0; j < bytes; j++)
                assert_int_equal(back[j], 0);
            memory->upload(device, a, host, bytes);
            memory->copy(device, b, a, bytes);
            memory->zero(device, a, bytes);
            memory->wait(device);
            memory->download(device, back, b, bytes);
            assert_memory_equal(back, host, bytes);
            memory->download(device, back, a, bytes);
            assert_int_equal(back[bytes - 1] | back[0], 0);
            memory->release(device, a);
            memory->release(device, b);
            free(host);
            free(back);
        }
        assert_null(memory->alloc(device, (size_t)1 << 60));
    }
}

/* ---- images and random numbers --------------------------------------------------- */

static const struct shape pictures[] = {
    {1, 1, 1, 1},  {3, 5, 7, 1},  {5, 4, 4, 3},
    {2, 3, 17, 4}, {40, 8, 8, 3}, {4, 28, 28, 1},
};
#define PICTURES (sizeof pictures / sizeof pictures[0])

static void test_bytes_become_values_and_mirrored_ones_alike(void **state)
{
    (void)state;
    for (size_t p = 0; p < PICTURES; p++) {
        struct tensor pixels = padded_tensor(DTYPE_U8, pictures[p]);
        fill_tensor(&pixels, FILL_RANDOM, p);
        for (size_t t = 0; t < 3; t++) {
            struct tensor want = padded_tensor(dtypes[t], pictures[p]);
            struct tensor got = padded_tensor(dtypes[t], pictures[p]);
            for (int mirror = 0; mirror < 2; mirror++) {
                for (uint64_t step = 0; step < 3; step++) {
                    ref->ops->image.from_u8(ref, &pixels, mirror, 9, step ? &step : NULL,
                                            1000, &want);
                    FOR_BACKENDS(b)
                    {
                        poison(&got);
                        b->device[1]->ops->image.from_u8(b->device[1], &pixels, mirror, 9,
                                                         step ? &step : NULL, 1000, &got);
                        assert_tensors_close("image.from_u8", &got, &want, 0.0, 0.0, p);
                        assert_padding_is_zero("image.from_u8", b->name, &got);
                    }
                }
            }
            free(want.data);
            free(got.data);
        }
        free(pixels.data);
    }
}

static void test_mirroring_follows_seed_step_and_row_alone(void **state)
{
    (void)state;
    struct shape shape = {64, 1, 3, 1};
    uint8_t bytes[64 * 3];
    float values[64 * 3], later[32 * 3];
    for (int i = 0; i < 64 * 3; i++)
        bytes[i] = (uint8_t)(i % 3 * 100);
    struct tensor pixels = tensor_of(DTYPE_U8, shape, bytes);
    struct tensor out = tensor_of(DTYPE_F32, shape, values);
    uint64_t step = 5;
    ref->ops->image.from_u8(ref, &pixels, 1, 3, &step, 0, &out);
    int flipped = 0;
    for (int i = 0; i < 64; i++) {
        int is_flipped = (int)(philox(3, STREAM_FLIP, 5, (uint64_t)i).word[0] & 1);
        assert_true(values[3 * i] == (is_flipped ? 200.0f / 127.5f - 1.0f : -1.0f));
        assert_true(values[3 * i + 1] == 100.0f / 127.5f - 1.0f);
        flipped += is_flipped;
    }
    assert_in_range(flipped, 16, 48);
    // The same rows in another batch are the same pictures.
    pixels = tensor_of(DTYPE_U8, (struct shape){32, 1, 3, 1}, bytes);
    out = tensor_of(DTYPE_F32, (struct shape){32, 1, 3, 1}, later);
    ref->ops->image.from_u8(ref, &pixels, 1, 3, &step, 32, &out);
    assert_memory_equal(later, values + 32 * 3, sizeof later);
}

static void test_every_byte_survives_the_way_to_values_and_back(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        for (size_t t = 0; t < 3; t++) {
            struct shape shape = {1, 16, 16, 1};
            struct tensor pixels = padded_tensor(DTYPE_U8, shape),
                          back = padded_tensor(DTYPE_U8, shape);
            struct tensor values = padded_tensor(dtypes[t], shape);
            for (int i = 0; i < 256; i++)
                ((uint8_t *)pixels.data)[i] = (uint8_t)i;
            device->ops->image.from_u8(device, &pixels, 0, 0, NULL, 0, &values);
            size_t last = place_of(&values, 255);
            assert_true(element_load(values.data, dtypes[t], 0) == -1.0f);
            assert_true(element_load(values.data, dtypes[t], last) == 1.0f);
            device->ops->image.to_u8(device, &values, &back);
            // bf16 has 8 bits of precision: near -1 and 1 a step of 1/127.5 is two units.
            for (int i = 0; i < 256; i++)
                assert_true(abs(((uint8_t *)back.data)[i] - i) <=
                            (dtypes[t] == DTYPE_BF16));
            free(pixels.data);
            free(back.data);
            free(values.data);
        }
    }
}

static void test_values_become_bytes_within_range(void **state)
{
    (void)state;
    static const float values[] = {-1.0f, 0.0f,     1.0f,      -1.5f,    7.0f,
                                   NAN,   INFINITY, -INFINITY, -0.9961f, 0.99607843f,
                                   3e38f, -3e38f,   0.996f};
    static const uint8_t want[] = {0, 128, 255, 0, 255, 0, 255, 0, 0, 255, 255, 0, 254};
    enum { COUNT = sizeof want };
    uint8_t got[COUNT];
    struct shape shape = {1, 1, COUNT, 1};
    struct tensor x = padded_tensor(DTYPE_F32, shape);
    struct tensor pixels = tensor_of(DTYPE_U8, shape, got);
    for (size_t i = 0; i < COUNT; i++)
        element_store(x.data, DTYPE_F32, place_of(&x, i), values[i]);
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        memset(got, 77, sizeof got);
        device->ops->image.to_u8(device, &x, &pixels);
        assert_memory_equal(got, want, sizeof want);
    }
    free(x.data);
    for (size_t p = 0; p < PICTURES; p++) {
        for (size_t t = 0; t < 3; t++) {
            struct tensor in = padded_tensor(dtypes[t], pictures[p]);
            struct tensor a = padded_tensor(DTYPE_U8, pictures[p]);
            struct tensor b = padded_tensor(DTYPE_U8, pictures[p]);
            fill_tensor(&in, FILL_EDGE, p);
            ref->ops->image.to_u8(ref, &in, &a);
            FOR_BACKENDS(back)
            {
                back->device[1]->ops->image.to_u8(back->device[1], &in, &b);
                assert_memory_equal(a.data, b.data, tensor_bytes(&a));
            }
            free(in.data);
            free(a.data);
            free(b.data);
        }
    }
}

static void test_latents_are_the_same_bits_on_every_backend(void **state)
{
    (void)state;
    static const int widths[] = {1, 3, 4, 5, 16, 64, 100, 128};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (size_t t = 0; t < 3; t++) {
            struct shape shape = {9, 1, 1, widths[w]};
            struct tensor want = padded_tensor(dtypes[t], shape),
                          got = padded_tensor(dtypes[t], shape);
            uint64_t step = 1234567890123ull;
            ref->ops->image.normal(ref, 3, STREAM_LATENT, &step, 77, &want);
            FOR_BACKENDS(b)
            {
                for (int threads = 0; threads < THREAD_COUNTS; threads++) {
                    poison(&got);
                    b->device[threads]->ops->image.normal(b->device[threads], 3,
                                                          STREAM_LATENT, &step, 77, &got);
                    assert_memory_equal(got.data, want.data, tensor_bytes(&want));
                }
            }
            free(want.data);
            free(got.data);
        }
    }
}

static void test_a_latent_depends_on_row_and_column_alone(void **state)
{
    (void)state;
    float all[8 * 10], some[3 * 6], four[4];
    struct tensor z = tensor_of(DTYPE_F32, (struct shape){8, 1, 1, 10}, all);
    struct tensor part = tensor_of(DTYPE_F32, (struct shape){3, 1, 1, 6}, some);
    ref->ops->image.normal(ref, 3, STREAM_SAMPLE, NULL, 100, &z);
    ref->ops->image.normal(ref, 3, STREAM_SAMPLE, NULL, 104, &part);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(some + 6 * i, all + 10 * (4 + i), 6 * sizeof(float));
    philox_normal4(3, STREAM_SAMPLE, 0, (102ull << 20) + 2, four);
    assert_true(all[10 * 2 + 8] == four[0] && all[10 * 2 + 9] == four[1]);
}

static void test_counters_advance_by_one(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        uint64_t counter = 0xffffffffull;
        device->ops->image.advance(device, &counter);
        assert_true(counter == 0x100000000ull);
    }
}

/* ---- resampling ------------------------------------------------------------------ */

static const struct {
    struct shape small;
    int k;
} grids[] = {{{1, 1, 1, 1}, 4}, {{2, 3, 2, 5}, 2},  {{3, 4, 4, 16}, 2},
             {{2, 2, 5, 8}, 3}, {{1, 1, 3, 37}, 1}, {{40, 4, 4, 24}, 2}};
#define GRIDS (sizeof grids / sizeof grids[0])

// Of each mean, that of the sizes of what is added up: what rounding is relative to.
static struct tensor sizes_of(const struct tensor *x, float factor, struct shape small)
{
    struct tensor magnitude = heap_tensor(DTYPE_F32, small);
    struct tensor absolute = heap_tensor(DTYPE_F32, x->shape);
    for (size_t i = 0; i < tensor_elements(x); i++)
        ((float *)absolute.data)[i] =
            fabsf(element_load(x->data, x->dtype, place_of(x, i)));
    ref->ops->resample.down(ref, &absolute, factor, &magnitude);
    free(absolute.data);
    return magnitude;
}

// With x and y of these types; `is_down`: from the larger grid.
static void check_resample(size_t g, int is_down, enum dtype x_dtype, enum dtype y_dtype,
                           enum fill fill)
{
    struct shape small = grids[g].small, large = small;
    large.h *= grids[g].k;
    large.w *= grids[g].k;
    float factor = is_down ? 1.0f / (float)(grids[g].k * grids[g].k) : 0.3f;
    struct tensor x = padded_tensor(x_dtype, is_down ? large : small);
    struct tensor want = padded_tensor(y_dtype, is_down ? small : large);
    struct tensor got = padded_tensor(y_dtype, want.shape);
    fill_for(&x, fill, g);
    struct tensor magnitude = sizes_of(&x, factor, is_down ? small : x.shape);
    const char *name = is_down ? "resample.down" : "resample.up";
    (is_down ? ref->ops->resample.down : ref->ops->resample.up)(ref, &x, factor, &want);
    FOR_BACKENDS(b)
    {
        for (int t = 0; t < THREAD_COUNTS; t++) {
            struct device *device = b->device[t];
            const struct resample_ops *ops = &device->ops->resample;
            poison(&got);
            (is_down ? ops->down : ops->up)(device, &x, factor, &got);
            // One product is ref's to the bit; a sum is added up in f64 there.
            struct bounds bounds = {.magnitude = magnitude.data,
                                    .of_magnitude = 16 * 0x1p-24,
                                    .absolute = unit_absolute(y_dtype),
                                    .relative = unit_relative(y_dtype)};
            if (is_down)
                assert_within(name, b->name, "y", &got, &want, &bounds, 0);
            else
                assert_tensors_close(name, &got, &want, 0.0, 0.0, g);
            assert_padding_is_zero(name, b->name, &got);
        }
    }
    free(magnitude.data);
    free(x.data);
    free(want.data);
    free(got.data);
}

static void test_grids_are_pooled_and_enlarged_as_by_ref(void **state)
{
    (void)state;
    for (size_t g = 0; g < GRIDS; g++)
        for (int i = 0; i < 2 * 2 * 9; i++)
            check_resample(g, i % 2, dtypes[i / 4 / 3], dtypes[i / 4 % 3],
                           i / 2 % 2 ? FILL_EDGE : FILL_RANDOM);
}

static void test_pools_are_means_and_enlarging_repeats(void **state)
{
    (void)state;
    float x[16] = {1, 2, 30, 40, 3, 4, 50, 60, -1, 0, INFINITY, 1, 0, 1, 1, 1}, y[4];
    struct tensor large = tensor_of(DTYPE_F32, (struct shape){1, 4, 4, 1}, x);
    struct tensor small = tensor_of(DTYPE_F32, (struct shape){1, 2, 2, 1}, y);
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        device->ops->resample.down(device, &large, 0.25f, &small);
        assert_true(y[0] == 2.5f && y[1] == 45.0f && y[2] == 0.0f && isinf(y[3]));
        float back[16];
        struct tensor enlarged = tensor_of(DTYPE_F32, (struct shape){1, 4, 4, 1}, back);
        device->ops->resample.up(device, &small, 2.0f, &enlarged);
        for (int i = 0; i < 16; i++)
            assert_true(back[i] == 2.0f * y[i / 8 * 2 + i % 4 / 2]);
    }
}

/* ---- loss ------------------------------------------------------------------------ */

static void compare_loss(enum loss_kind kind, const struct tensor *logits,
                         enum dtype dtype, float target,
                         const struct scaler_state *scaler)
{
    struct tensor want = padded_tensor(dtype, logits->shape),
                  got = padded_tensor(dtype, logits->shape);
    struct loss_sums want_sums, sums;
    ref->ops->loss.on_logits(ref, kind, logits, target, 0.7f, scaler, &want, &want_sums);
    FOR_BACKENDS(b)
    {
        struct device *device = b->device[1];
        memset(&sums, 0xff, sizeof sums);
        poison(&got);
        device->ops->loss.on_logits(device, kind, logits, target, 0.7f, scaler, &got,
                                    &sums);
        struct bounds bounds = {.absolute = unit_absolute(dtype) + 1e-6,
                                .relative = unit_relative(dtype) + 1e-5};
        assert_within("loss.on_logits", b->name, "seed", &got, &want, &bounds, 0);
        assert_true(sums.count == want_sums.count);
        assert_true(sums.nonfinite == want_sums.nonfinite);
        assert_true(sums.sign == want_sums.sign);
        const double pairs[4][2] = {{sums.loss, want_sums.loss},
                                    {sums.loss_sq, want_sums.loss_sq},
                                    {sums.score, want_sums.score},
                                    {sums.score_sq, want_sums.score_sq}};
        for (int i = 0; i < 4; i++)
            assert_true(isfinite(pairs[i][1]) ? fabs(pairs[i][0] - pairs[i][1]) <=
                                                    1e-5 * (1 + fabs(pairs[i][1]))
                                              : !isfinite(pairs[i][0]));
    }
    free(want.data);
    free(got.data);
}

static void test_losses_and_seeds_agree(void **state)
{
    (void)state;
    static const float targets[] = {0.0f, 0.9f, 1.0f};
    static const int batches[] = {1,  2,   7,  16,
                                  33, 128, 600}; // more than a block's threads
    struct scaler_state scaler = {.scale = 3000.0f, .enabled = 1};
    for (size_t n = 0; n < sizeof batches / sizeof batches[0]; n++) {
        for (int fill = FILL_RANDOM; fill <= FILL_EDGE; fill++) {
            struct tensor logits =
                padded_tensor(DTYPE_F32, (struct shape){batches[n], 1, 1, 1});
            fill_for(&logits, (enum fill)fill, n);
            for (size_t i = 0; i < tensor_elements(&logits); i++)
                ((float *)logits.data)[place_of(&logits, i)] *= 8.0f;
            for (size_t t = 0; t < 3; t++)
                for (size_t d = 0; d < 3; d++)
                    for (int kind = 0; kind < LOSS_KINDS; kind++)
                        compare_loss((enum loss_kind)kind, &logits, dtypes[d], targets[t],
                                     &scaler);
            free(logits.data);
        }
    }
}

/* ---- the finite check ------------------------------------------------------------ */

static _Alignas(64) float grads[ROOM], values[4][ROOM], wanted[4][ROOM];

/* The gradients behind the n are NaN, and nobody's business. */
static void assert_found(struct device *device, const char *name, size_t n, float scale,
                         float found, float found_unscaled, size_t place)
{
    struct scaler_state scaler = {.scale = scale, .enabled = 1};
    memset(grads + n, 0xff, 7 * sizeof(float));
    device->ops->optimizer.grads_check(device, grads, n, &scaler);
    if (scaler.found_inf != found || scaler.found_inf_unscaled != found_unscaled)
        fail_msg(
            "grads_check on %s: %zu gradients, one planted at %zu: found %g and %g, want "
            "%g and %g",
            name, n, place, (double)scaler.found_inf, (double)scaler.found_inf_unscaled,
            (double)found, (double)found_unscaled);
}

static void test_one_bad_gradient_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[2];
        const char *name = d < 0 ? "ref" : backends[d].name;
        for (size_t s = 0; s < SIZES; s++) {
            size_t n = sizes[s];
            fill_f32(grads, n, FILL_RANDOM, s);
            assert_found(device, name, n, 1.0f, 0.0f, 0.0f, 0);
            // Every place of a short one, some of a long one, always the last.
            size_t step = n > 200 ? n / 13 : 1;
            for (size_t i = 0; i < n; i = i + step < n || i == n - 1 ? i + step : n - 1) {
                float right = grads[i];
                for (size_t k = 0; k < 3; k++) {
                    grads[i] = bad[k];
                    assert_found(device, name, n, 65536.0f, 1.0f, 0.0f, i);
                }
                grads[i] = 3.4e38f;
                assert_found(device, name, n, 65536.0f, 0.0f, 0.0f, i);
                assert_found(device, name, n, 0.5f, 0.0f, 1.0f, i);
                grads[i] = right;
            }
        }
    }
}

static void test_a_found_inf_stays_found_over_clean_gradients(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        struct scaler_state scaler = {.scale = 1.0f, .enabled = 1, .found_inf = 1.0f};
        fill_f32(grads, 100, FILL_RANDOM, 1);
        device->ops->optimizer.grads_check(device, grads, 100, &scaler);
        assert_true(scaler.found_inf == 1.0f && scaler.found_inf_unscaled == 0.0f);
    }
}

static void test_unscaling_is_bit_for_bit_refs(void **state)
{
    (void)state;
    struct scaler_state scaler = {.scale = 3000.0f, .enabled = 1};
    for (size_t s = 0; s < SIZES; s++) {
        fill_f32(wanted[0], sizes[s], FILL_EDGE, s);
        fill_f32(grads, sizes[s], FILL_EDGE, s);
        ref->ops->optimizer.grads_unscale(ref, wanted[0], sizes[s], &scaler);
        FOR_BACKENDS(b)
        {
            memcpy(values[0], grads, sizes[s] * sizeof(float));
            b->device[1]->ops->optimizer.grads_unscale(b->device[1], values[0], sizes[s],
                                                       &scaler);
            assert_f32_close("grads_unscale", values[0], wanted[0], sizes[s], 0.0, 0.0,
                             s);
        }
    }
}

/* ---- Adam, the average, copies --------------------------------------------------- */

static struct adam_args adam_of(float state[4][ROOM], size_t n, enum dtype half_dtype,
                                uint64_t seed)
{
    fill_f32(state[0], n, FILL_RANDOM, seed);
    memset(state[1], 0, n * sizeof(float));
    memset(state[2], 0, n * sizeof(float));
    memset(state[3], 0xff, n * sizeof(float));
    return (struct adam_args){.params = state[0],
                              .half = half_dtype == DTYPE_F32 ? NULL : state[3],
                              .half_dtype = half_dtype,
                              .grads = grads,
                              .m = state[1],
                              .v = state[2],
                              .n = n,
                              .lr = 2e-4f,
                              .beta1 = 0.5f,
                              .beta2 = 0.999f,
                              .eps = 1e-8f};
}

static void adam_steps(struct device *device, const struct adam_args *args,
                       struct scaler_state *scaler)
{
    for (uint64_t step = 0; step < 3; step++) {
        fill_f32(grads, args->n, FILL_RANDOM, 50 + step);
        device->ops->optimizer.adam_step(device, args, step == 2, scaler);
    }
}

static void test_adam_agrees_over_three_steps(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t d = 0; d < 3; d++) {
            size_t n = sizes[s];
            struct scaler_state want = {.scale = 1024.0f, .enabled = 1};
            struct adam_args args = adam_of(wanted, n, dtypes[d], s);
            adam_steps(ref, &args, &want);
            assert_int_equal(want.adam_t, 3);
            FOR_BACKENDS(b)
            {
                struct scaler_state scaler = {.scale = 1024.0f, .enabled = 1};
                args = adam_of(values, n, dtypes[d], s);
                adam_steps(b->device[1], &args, &scaler);
                assert_int_equal(scaler.adam_t, 3);
                for (int i = 0; i < 3; i++)
                    assert_f32_close("adam", values[i], wanted[i], n, 1e-12, 1e-6, s);
                for (size_t i = 0; d && i < n; i++)
                    assert_true(element_load(values[3], dtypes[d], i) ==
                                round_to_dtype(values[0][i], dtypes[d]));
            }
        }
    }
}

static void test_adams_first_step_is_the_learning_rate(void **state)
{
    (void)state;
    struct scaler_state scaler = {.scale = 65536.0f, .enabled = 1};
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        struct adam_args args = adam_of(values, 20, DTYPE_F16, 1);
        for (int i = 0; i < 20; i++) {
            args.params[i] = 0.0f;
            grads[i] = (i % 2 ? 1.0f : -1.0f) * 65536.0f * (float)(i + 1);
        }
        scaler.adam_t = 0;
        device->ops->optimizer.adam_step(device, &args, 0, &scaler);
        // m/(1-b1) = g and sqrt(v/(1-b2)) = |g|: the step is lr against the sign of g.
        for (int i = 0; i < 20; i++)
            assert_true(fabsf(args.params[i] - (i % 2 ? -2e-4f : 2e-4f)) < 1e-9f);
    }
}

static void test_a_skipped_step_changes_nothing(void **state)
{
    (void)state;
    for (int d = -1; d < backend_count; d++) {
        struct device *device = d < 0 ? ref : backends[d].device[1];
        for (int which = 0; which < 2; which++) {
            struct scaler_state scaler = {.scale = 1.0f, .enabled = 1, .adam_t = 6};
            *(which ? &scaler.found_inf : &scaler.found_inf_unscaled) = 1.0f;
            struct adam_args args = adam_of(values, 1000, DTYPE_F16, 1);
            fill_f32(grads, 1000, FILL_EDGE, 1);
            memcpy(wanted, values, sizeof wanted);
            device->ops->optimizer.adam_step(device, &args, 0, &scaler);
            assert_memory_equal(wanted, values, sizeof wanted);
            assert_int_equal(scaler.adam_t, 6);
        }
    }
}

static void test_the_rule_runs_the_same_everywhere(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    {
        struct scaler_state want = {.growth_factor = 1.7,
                                    .backoff_factor = 0.3,
                                    .growth_interval = 3,
                                    .scale = 1000.0f,
                                    .enabled = 1};
        struct scaler_state got = want;
        for (uint64_t step = 0; step < 200; step++) {
            struct step_record want_record = {0}, record = {0};
            want.found_inf = got.found_inf =
                philox(4, 99, 0, step).word[0] % 5 ? 0.0f : 1.0f;
            ref->ops->optimizer.scaler_update(ref, &want, &want_record);
            b->device[1]->ops->optimizer.scaler_update(b->device[1], &got, &record);
            assert_memory_equal(&got, &want, sizeof got);
            assert_memory_equal(&record, &want_record, sizeof record);
        }
    }
}

static void test_averages_and_sums_agree(void **state)
{
    (void)state;
    float decay = 0.97f;
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        fill_f32(grads, n, FILL_RANDOM, 3);
        fill_f32(wanted[0], n, FILL_RANDOM, 4);
        fill_f32(wanted[1], n, FILL_RANDOM, 4);
        // A step that is skipped: of Adam's sweep only the average moves.
        struct scaler_state skips = {.scale = 1.0f, .enabled = 1, .found_inf = 1.0f};
        struct adam_args args = {
            .params = grads, .grads = grads, .n = n, .ema_decay = &decay};
        args.ema = wanted[0];
        ref->ops->optimizer.adam_step(ref, &args, 0, &skips);
        ref->ops->pointwise.add(ref, wanted[1], grads, n);
        FOR_BACKENDS(b)
        {
            struct device *device = b->device[2];
            fill_f32(values[0], n, FILL_RANDOM, 4);
            fill_f32(values[1], n, FILL_RANDOM, 4);
            args.ema = values[0];
            device->ops->optimizer.adam_step(device, &args, 0, &skips);
            device->ops->pointwise.add(device, values[1], grads, n);
            assert_int_equal(skips.adam_t, 0);
            assert_f32_close("average", values[0], wanted[0], n, 1e-7, 1e-6, s);
            assert_f32_close("pointwise.add", values[1], wanted[1], n, 0.0, 0.0, s);
        }
    }
}

/* Adam, the finite check and add() over n floats that begin `offset` floats beyond an
 * aligned place, against ref's of an aligned one. */
static void check_offset(struct device *device, const char *name, size_t n, size_t offset)
{
    struct scaler_state want = {.scale = 1024.0f, .enabled = 1}, scaler = want;
    struct adam_args args = adam_of(wanted, n, DTYPE_F32, 1);
    fill_f32(grads, n, FILL_RANDOM, 2);
    ref->ops->optimizer.adam_step(ref, &args, 0, &want);
    ref->ops->pointwise.add(ref, wanted[0], grads, n);

    memset(values, 0xff, sizeof values);
    args = adam_of(values, n, DTYPE_F32, 1);
    float *arrays[] = {args.params, args.m, args.v, grads};
    for (size_t i = 0; i < 4; i++)
        memmove(arrays[i] + offset, arrays[i], n * sizeof(float));
    args.params += offset, args.m += offset, args.v += offset, args.grads += offset;
    device->ops->optimizer.adam_step(device, &args, 0, &scaler);
    device->ops->pointwise.add(device, args.params, args.grads, n);
    assert_f32_close(name, args.params, wanted[0], n, 1e-12, 1e-6, offset);
    assert_f32_close(name, args.v, wanted[2], n, 1e-12, 1e-6, offset);
    assert_true(isnan(args.params[n]) && isnan(args.m[n]) && isnan(args.v[n]));

    grads[offset + n - 1] = INFINITY;
    grads[offset + n] = 0.0f;
    device->ops->optimizer.grads_check(device, args.grads, n, &scaler);
    assert_true(scaler.found_inf == 1.0f);
}

static void test_flat_arrays_may_begin_at_any_float(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    for (size_t s = 1; s < SIZES && sizes[s] <= 1000; s++)
        for (size_t offset = 0; offset < 5; offset++)
            check_offset(b->device[1], b->name, sizes[s], offset);
}

/* One array aligned, the other not: neither may be taken for both. */
static void test_two_arrays_may_be_aligned_differently(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    {
        for (size_t offset = 0; offset < 4; offset++) {
            float *from = grads + offset, *to = values[0] + (offset ? 0 : 1);
            fill_f32(wanted[0], 100, FILL_RANDOM, 1);
            fill_f32(to, 100, FILL_RANDOM, 1);
            fill_f32(from, 100, FILL_RANDOM, 2);
            ref->ops->pointwise.add(ref, wanted[0], from, 100);
            b->device[1]->ops->pointwise.add(b->device[1], to, from, 100);
            assert_f32_close("pointwise.add", to, wanted[0], 100, 0.0, 0.0, offset);
            uint16_t *half = (uint16_t *)(void *)values[1] + offset;
            uint16_t *want = (uint16_t *)(void *)wanted[1];
            ref->ops->optimizer.half_copy(ref, grads, want, DTYPE_F16, 100);
            b->device[1]->ops->optimizer.half_copy(b->device[1], grads, half, DTYPE_F16,
                                                   100);
            assert_memory_equal(half, want, 200);
        }
    }
}

/* Fails unless two half arrays have the same bits, or any NaN at the same places. */
static void assert_same_halves(const char *backend, const uint16_t *got,
                               const uint16_t *want, enum dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int are_nan =
            isnan(element_load(got, dtype, i)) && isnan(element_load(want, dtype, i));
        if (got[i] != want[i] && !are_nan)
            fail_msg("half_copy on %s: element %zu of %zu %s: got 0x%04x, want 0x%04x",
                     backend, i, n, dtype_name(dtype), got[i], want[i]);
    }
}

static void test_half_copies_are_bit_for_bit_refs(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t d = 1; d < 3; d++) {
            size_t n = sizes[s];
            fill_f32(grads, n, FILL_EDGE, s);
            ref->ops->optimizer.half_copy(ref, grads, wanted[0], dtypes[d], n);
            FOR_BACKENDS(b)
            {
                memset(values[0], 0, n * 2 + 4);
                b->device[1]->ops->optimizer.half_copy(b->device[1], grads, values[0],
                                                       dtypes[d], n);
                assert_same_halves(b->name, (uint16_t *)values[0], (uint16_t *)wanted[0],
                                   dtypes[d], n);
                assert_int_equal(((uint16_t *)values[0])[n], 0); // and not one beyond
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_aligned_zeroed_and_copied),
        cmocka_unit_test(test_bytes_become_values_and_mirrored_ones_alike),
        cmocka_unit_test(test_mirroring_follows_seed_step_and_row_alone),
        cmocka_unit_test(test_every_byte_survives_the_way_to_values_and_back),
        cmocka_unit_test(test_values_become_bytes_within_range),
        cmocka_unit_test(test_latents_are_the_same_bits_on_every_backend),
        cmocka_unit_test(test_a_latent_depends_on_row_and_column_alone),
        cmocka_unit_test(test_counters_advance_by_one),
        cmocka_unit_test(test_grids_are_pooled_and_enlarged_as_by_ref),
        cmocka_unit_test(test_pools_are_means_and_enlarging_repeats),
        cmocka_unit_test(test_losses_and_seeds_agree),
        cmocka_unit_test(test_one_bad_gradient_is_found_wherever_it_stands),
        cmocka_unit_test(test_a_found_inf_stays_found_over_clean_gradients),
        cmocka_unit_test(test_unscaling_is_bit_for_bit_refs),
        cmocka_unit_test(test_adam_agrees_over_three_steps),
        cmocka_unit_test(test_adams_first_step_is_the_learning_rate),
        cmocka_unit_test(test_a_skipped_step_changes_nothing),
        cmocka_unit_test(test_the_rule_runs_the_same_everywhere),
        cmocka_unit_test(test_averages_and_sums_agree),
        cmocka_unit_test(test_flat_arrays_may_begin_at_any_float),
        cmocka_unit_test(test_two_arrays_may_be_aligned_differently),
        cmocka_unit_test(test_half_copies_are_bit_for_bit_refs),
    };
    return cmocka_run_group_tests(tests, backends_open, backends_close);
}
