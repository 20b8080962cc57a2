/* backends.h - every backend that this machine can run, beside ref.
 * Owns:  the devices, from backends_open() to backends_close().
 *
 * The CPU backend counts once per instruction set. Its results are compared with ref's,
 * and must be the same bits for 1, 2 and 3 threads.
 *
 * A test that is compiled with OPEN_DEVICE=function compares another backend: every call
 * of `struct device *function(void)` opens one more of its devices; NULL is a failure. */
#ifndef TESTS_KERNELS_BACKENDS_H
#define TESTS_KERNELS_BACKENDS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/support/support.h"

#define BACKENDS_MAX 4
#define THREAD_COUNTS 3

struct backend {
    const char *name;
    struct device *device[THREAD_COUNTS]; // with 1, 2 and 3 threads
};

static struct device *ref;
static struct backend backends[BACKENDS_MAX];
static int backend_count;
static int channel_multiple = 1; // what the backends pad channels to

#define FOR_BACKENDS(b) \
    for (struct backend *b = backends; b < backends + backend_count; b++)

#ifdef OPEN_DEVICE

struct device *OPEN_DEVICE(void);

static int open_backends(void)
{
    for (int t = 0; t < THREAD_COUNTS; t++)
        if (!(backends[0].device[t] = OPEN_DEVICE()))
            return 0;
    backends[0].name = backends[0].device[0]->name;
    return 1;
}

#else

/* Opens the CPU backend with one instruction set; 0 if this machine has not got it. */
static int open_cpu_backend(const char *isa, struct backend *backend)
{
    static char names[BACKENDS_MAX][16];
    char *name = names[backend - backends], mark[16];
    snprintf(name, sizeof names[0], "cpu %s", isa);
    backend->name = name;
    setenv("TWINSCALE_ISA", isa, 1);
    for (int t = 0; t < THREAD_COUNTS; t++)
        if (device_open("cpu", t + 1, &backend->device[t]) != STATUS_OK)
            return -1;
    unsetenv("TWINSCALE_ISA");
    snprintf(mark, sizeof mark, ", %s,", isa);
    if (strstr(backend->device[0]->description, mark))
        return 1;
    print_message("SKIPPED: %s, which this machine does not have\n", name);
    for (int t = 0; t < THREAD_COUNTS; t++)
        device_close(backend->device[t]);
    return 0;
}

/* How many there are; 0 is a failure. */
static int open_backends(void)
{
    static const char *const isas[BACKENDS_MAX] = {"c", "avx2", "avx512", "avx512-bf16"};
    int count = 0;
    for (size_t i = 0; i < BACKENDS_MAX; i++) {
        int opened = open_cpu_backend(isas[i], &backends[count]);
        if (opened < 0)
            return 0;
        count += opened;
    }
    return count;
}

#endif

static int backends_open(void **state)
{
    (void)state;
    if (device_open("ref", 1, &ref) != STATUS_OK)
        return 1;
    backend_count = open_backends();
    if (!backend_count)
        return 1;
    channel_multiple = backends[0].device[0]->channel_multiple;
    return 0;
}

static int backends_close(void **state)
{
    (void)state;
    FOR_BACKENDS(b)
    for (int t = 0; t < THREAD_COUNTS; t++)
        device_close(b->device[t]);
    device_close(ref);
    return 0;
}

/* A heap_tensor() with the padding that the backends want; ref honours any. */
static inline struct tensor padded_tensor(enum dtype dtype, struct shape shape)
{
    struct shape stored = shape;
    if (dtype != DTYPE_U8)
        stored.c = (shape.c + channel_multiple - 1) / channel_multiple * channel_multiple;
    struct tensor tensor = heap_tensor(dtype, stored);
    tensor.shape = shape;
    return tensor;
}

/* Where element `i` of the shape lies among those stored. */
static inline size_t place_of(const struct tensor *tensor, size_t i)
{
    size_t channels = (size_t)tensor->shape.c;
    return i / channels * (size_t)tensor->c_stored + i % channels;
}

/* Fails unless all that is stored beyond the shape is zero. */
static inline void assert_padding_is_zero(const char *op, const char *backend,
                                          const struct tensor *tensor)
{
    size_t stored = (size_t)tensor->c_stored, bytes = dtype_bytes(tensor->dtype);
    const unsigned char *data = (const unsigned char *)tensor->data;
    for (size_t i = 0; i < tensor_stored(tensor) * bytes; i++)
        if (i / bytes % stored >= (size_t)tensor->shape.c && data[i])
            fail_msg(
                "%s on %s: channel %zu of row %zu, beyond the %d of the shape, is not "
                "zero",
                op, backend, i / bytes % stored, i / bytes / stored, tensor->shape.c);
}

/* What rounding to a dtype may cost when two sums differ in their last bits: one unit in
 * the last place, relative and, for subnormals, absolute. */
static inline double unit_relative(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 1.01 / 1024 : dtype == DTYPE_BF16 ? 1.01 / 128 : 0.0;
}

static inline double unit_absolute(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x1p-24 : 0.0;
}

/* How far apart two finite values may be.
 *   magnitude    per element, the sum of the sizes of what was added; NULL: 1
 *   of_magnitude, absolute, relative
 *   may_spread   a backend may find a non-finite value where ref finds none */
struct bounds {
    const float *magnitude;
    double of_magnitude, absolute, relative;
    int may_spread;
};

static inline int is_within(double got, double want, const struct bounds *bounds,
                            size_t i)
{
    if (!isfinite(want))
        return !isfinite(got);
    if (!isfinite(got))
        return bounds->may_spread;
    double magnitude = bounds->magnitude ? (double)bounds->magnitude[i] : 1.0;
    return fabs(got - want) <= bounds->of_magnitude * magnitude + bounds->absolute +
                                   bounds->relative * fabs(want);
}

static inline void assert_within(const char *op, const char *backend,
                                 const char *geometry, const struct tensor *got,
                                 const struct tensor *want, const struct bounds *bounds,
                                 uint64_t seed)
{
    assert_padding_is_zero(op, backend, got);
    for (size_t i = 0; i < tensor_elements(want); i++) {
        double g = (double)element_load(got->data, got->dtype, place_of(got, i));
        double w = (double)element_load(want->data, want->dtype, place_of(want, i));
        if (!is_within(g, w, bounds, i))
            fail_msg("%s on %s, %s %s: element %zu of %zu: got %.9g, want %.9g (seed "
                     "%llu)",
                     op, backend, geometry, dtype_name(want->dtype), i,
                     tensor_elements(want), g, w, (unsigned long long)seed);
    }
}

static inline void assert_vector_within(const char *op, const char *backend,
                                        const float *got, const float *want, size_t n,
                                        const struct bounds *bounds, uint64_t seed)
{
    struct shape shape = {1, 1, 1, (int)n};
    struct tensor g = tensor_of(DTYPE_F32, shape, (void *)(uintptr_t)got);
    struct tensor w = tensor_of(DTYPE_F32, shape, (void *)(uintptr_t)want);
    assert_within(op, backend, "vector", &g, &w, bounds, seed);
}

/* FILL_EDGE for operands of a sum: random, with inf, NaN, zeros, a subnormal and values
 * of the size of the largest half strewn in, one element in 32. Sums of the finite ones
 * fit a f32, so that the order of adding decides nothing. */
static inline void fill_strewn(struct tensor *tensor, uint64_t seed)
{
    static const float edges[] = {INFINITY, -INFINITY, NAN,      0.0f,
                                  -0.0f,    6e-8f,     65504.0f, -65504.0f};
    fill_tensor(tensor, FILL_RANDOM, seed);
    for (size_t i = 0; i < tensor_elements(tensor); i++) {
        struct philox_words words = philox(seed, 0x57e3, 0, i);
        if (words.word[0] % 32 == 0)
            element_store(tensor->data, tensor->dtype, place_of(tensor, i),
                          edges[words.word[1] % 8]);
    }
}

static inline void fill_for(struct tensor *tensor, enum fill fill, uint64_t seed)
{
    if (fill == FILL_EDGE)
        fill_strewn(tensor, seed);
    else
        fill_tensor(tensor, fill, seed);
}

/* Bytes that are NaN in every float dtype, so that what is not written is seen. */
static inline void poison(struct tensor *tensor)
{
    memset(tensor->data, 0xff, tensor_bytes(tensor));
}

#endif
