/* bench_layers - how near each pass of each convolution comes to this CPU's arithmetic
 * peak, and what Winograd makes of it.
 *
 *     bench_layers [THREADS [f32|f16|bf16 [SET]]]
 *     bench_layers THREADS peak
 *
 * The second form prints only the peak, one JSON object for each precision.
 * Prints, for forward, dgrad and wgrad of the layers of fmnist-quick, DCGAN-32 and
 * DCGAN-64 at batch 64: the time of the direct way and of Winograd, taken in turns, their
 * ratio, and the GFLOP/s of the better one beside the peak of fused multiply-adds that
 * stay in registers, measured in the same run on the same threads. GFLOP are counted as
 * the definition has them, so that Winograd may exceed the peak; a star marks the passes
 * that a run takes by Winograd of its own accord. Every time is the fastest of the repeats
 * that fit a fifth of a second: on a busy machine the fastest is the one that was not
 * interrupted. */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pool.h"
#include "kernels/device.h"
#include "kernels/half.h"
#include "kernels/ops.h"

struct layer_row {
    const char *set, *name;
    int size, in, out, kernel, stride,
        pad; // of the convolution it is, or is the dgrad of
};

static const struct layer_row layers[] = {
    {"fmnist", "z 64 -> 7x7x48", 7, 48, 64, 7, 1, 0},
    {"fmnist", "24 <-> 48 @14", 14, 24, 48, 4, 2, 1},
    {"fmnist", "1 <-> 24 @28", 28, 1, 24, 4, 2, 1},
    {"fmnist", "7x7x48 -> 1", 7, 48, 1, 7, 1, 0},
    {"dcgan32", "64 <-> 128 @8", 8, 64, 128, 4, 2, 1},
    {"dcgan32", "32 <-> 64 @16", 16, 32, 64, 4, 2, 1},
    {"dcgan28", "64 <-> 128 @14", 14, 64, 128, 4, 2, 1},
    {"dcgan64", "z 100 -> 4x4x512", 4, 512, 100, 4, 1, 0},
    {"dcgan64", "256 <-> 512 @8", 8, 256, 512, 4, 2, 1},
    {"dcgan64", "128 <-> 256 @16", 16, 128, 256, 4, 2, 1},
    {"dcgan64", "64 <-> 128 @32", 32, 64, 128, 4, 2, 1},
    {"dcgan64", "3 <-> 64 @64", 64, 3, 64, 4, 2, 1},
    {"dcgan64", "4x4x512 -> 1", 4, 512, 1, 4, 1, 0},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the register peak ----------------------------------------------------------- */

enum { CHAINS = 12, STEPS = 200000, PIECES_MAX = 512 };

/* CHAINS independent multiply-adds of `lanes` lanes per step; returns something that
 * depends on all of them, so that none is dropped. */
#define PEAK_FUNCTION(name, flags, lanes)                                           \
    __attribute__((target(flags), optimize("fp-contract=fast"))) static float name( \
        float start)                                                                \
    {                                                                               \
        typedef float vector __attribute__((vector_size((lanes)*4)));               \
        vector sum[CHAINS], factor = {0}, total = {0};                              \
        factor += start;                                                            \
        for (int i = 0; i < CHAINS; i++)                                            \
            sum[i] = factor + (float)i;                                             \
        for (int step = 0; step < STEPS; step++) {                                  \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] =      \
                sum[i] * factor + factor;                                           \
        }                                                                           \
        for (int i = 0; i < CHAINS; i++)                                            \
            total += sum[i];                                                        \
        return total[0];                                                            \
    }

#if defined(__x86_64__)
PEAK_FUNCTION(peak_avx512, "avx512f", 16)
PEAK_FUNCTION(peak_avx2, "avx2,fma", 8)
PEAK_FUNCTION(peak_c, "sse2", 4)

/* The same of dot products of two bf16: `+=` of two products in each lane. */
__attribute__((target("avx512f,avx512bf16"))) static float peak_avx512_bf16(float start)
{
    __m512bh one = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    __m512 sum[CHAINS], total = _mm512_setzero_ps();
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_ps(start + (float)i);
    for (int step = 0; step < STEPS; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], one, one);
    }
    for (int i = 0; i < CHAINS; i++)
        total = _mm512_add_ps(total, sum[i]);
    return _mm512_reduce_add_ps(total);
}
#endif

/* One piece of the peak's work; keeps a value so that none of it is dropped. */
struct peak_job {
    float (*run)(float start);
    float sink[PIECES_MAX];
};

static void peak_piece(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    struct peak_job *job = job_pointer;
    job->sink[task] = job->run(1e-9f);
}

/* The function that goes with what the device uses for operands of `dtype`, and the
 * multiply-adds of one step of one of its chains; 0 on a CPU that it is not known for. */
static int peak_function(const struct device *device, enum dtype dtype,
                         float (**run)(float start))
{
#if defined(__x86_64__)
    const char *isa = device->description;
    if (dtype == DTYPE_BF16 && strstr(isa, "avx512-bf16")) {
        *run = peak_avx512_bf16;
        return 32;
    }
    int lanes = strstr(isa, "avx512") ? 16 : strstr(isa, "avx2") ? 8 : 4;
    *run = lanes == 16 ? peak_avx512 : lanes == 8 ? peak_avx2 : peak_c;
    return lanes;
#else
    (void)device;
    (void)dtype;
    (void)run;
    return 0;
#endif
}

static double peak_gflops(const struct device *device, enum dtype dtype)
{
    static struct peak_job job;
    struct pool *pool;
    int each = peak_function(device, dtype, &job.run);
    int pieces = 8 * device->threads < PIECES_MAX ? 8 * device->threads : PIECES_MAX;
    if (each == 0 || pool_create(device->threads, &pool) != STATUS_OK)
        return 0.0;
    double best = 1e30;
    for (int repeat = 0; repeat < 5; repeat++) {
        double start = now();
        pool_run(pool, (size_t)pieces, peak_piece, &job);
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
    }
    pool_destroy(pool);
    return 2e-9 * CHAINS * (double)STEPS * each * pieces / best;
}

static void print_peaks(const struct device *device)
{
    static const char *const precisions[] = {
        [DTYPE_F32] = "fp32", [DTYPE_F16] = "fp16", [DTYPE_BF16] = "bf16"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++)
        printf("{\"precision\": \"%s\", \"threads\": %d, \"gflops\": %.1f}\n",
               precisions[dtype], device->threads,
               peak_gflops(device, (enum dtype)dtype));
}

/* ---- layers ---------------------------------------------------------------------- */

static struct tensor random_tensor(const struct device *device, enum dtype dtype,
                                   struct shape shape)
{
    struct tensor tensor = tensor_of(dtype, shape, NULL);
    tensor.data =
        device->ops->memory.allot((struct device *)device, tensor_bytes(&tensor));
    uint32_t random = 1;
    for (size_t i = 0; tensor.data && i < tensor_elements(&tensor); i++) {
        random = random * 1664525u + 1013904223u;
        element_store(tensor.data, dtype, i, (float)(random >> 8) * 0x1p-23f - 1.0f);
    }
    return tensor;
}

enum way { DIRECT, WINOGRAD, AUTO, WAYS };
static const char *const way_names[WAYS] = {"direct", "winograd", "auto"};

struct layer_run {
    struct device *device[WAYS];
    struct conv_plan *plan[WAYS];
    struct tensor x, y, w, grad;
};

enum pass { FORWARD, DGRAD, WGRAD, PASSES };

static void run_pass(struct layer_run *run, enum pass pass, enum way way)
{
    struct device *device = run->device[way];
    struct conv_plan *plan = run->plan[way];
    const struct conv_ops *conv = &device->ops->conv;
    if (pass == FORWARD)
        conv->forward(device, plan, &run->x, &run->w, NULL, &run->y);
    else if (pass == DGRAD)
        conv->dgrad(device, plan, &run->y, &run->w, NULL, &run->x);
    else
        conv->wgrad(device, plan, &run->x, &run->y, run->grad.data, 0);
}

static void fastest_seconds(struct layer_run *run, enum pass pass, int ways,
                            double best[WAYS])
{
    double begin = now();
    for (int way = 0; way < WAYS; way++)
        best[way] = 1e30;
    for (int repeat = 0; repeat < 3 || now() - begin < 0.2; repeat++) {
        for (int way = 0; way < ways; way++) {
            double start = now();
            run_pass(run, pass, (enum way)way);
            double seconds = now() - start;
            best[way] = seconds < best[way] ? seconds : best[way];
        }
    }
}

static void print_pass(struct layer_run *run, enum pass pass, int has_winograd,
                       double flops, double peak)
{
    double best[WAYS];
    fastest_seconds(run, pass, has_winograd ? 2 : 1, best);
    double seconds = best[WINOGRAD] < best[DIRECT] ? best[WINOGRAD] : best[DIRECT];
    printf("  %7.3f ", best[DIRECT] * 1e3);
    if (has_winograd)
        printf("%7.3f%s x%4.2f", best[WINOGRAD] * 1e3,
               cpu_conv_by_winograd(run->plan[AUTO], (int)pass) ? "*" : " ",
               best[DIRECT] / best[WINOGRAD]);
    else
        printf("%14s", "");
    printf(" %5.0f (%3.0f%%)", flops / seconds * 1e-9,
           peak > 0 ? 100 * flops / seconds * 1e-9 / peak : 0.0);
}

static int bench_layer(struct device **device, const struct layer_row *row,
                       enum dtype dtype, double peak)
{
    enum { BATCH = 64 };
    int out_size = (row->size + 2 * row->pad - row->kernel) / row->stride + 1;
    struct conv_desc desc = {.x = {BATCH, row->size, row->size, row->in},
                             .y = {BATCH, out_size, out_size, row->out},
                             .kernel = row->kernel,
                             .stride = row->stride,
                             .pad = row->pad,
                             .dtype = dtype,
                             .out_dtype = dtype};
    struct shape weights = {row->out, row->kernel, row->kernel, row->in};
    struct layer_run run = {.x = random_tensor(device[0], dtype, desc.x),
                            .y = random_tensor(device[0], dtype, desc.y),
                            .w = random_tensor(device[0], dtype, weights),
                            .grad = random_tensor(device[0], DTYPE_F32, weights)};
    if (!run.x.data || !run.y.data || !run.w.data || !run.grad.data)
        return 1;
    for (int way = 0; way < WAYS; way++) {
        run.device[way] = device[way];
        if (device[way]->ops->conv.prepare(device[way], &desc, &run.plan[way]) !=
            STATUS_OK) {
            fprintf(stderr, "bench_layers: %s\n", status_message());
            return 1;
        }
    }
    double flops =
        2.0 * (double)tensor_elements(&run.y) * row->kernel * row->kernel * row->in;
    printf("%-8s %-18s %-4s", row->set, row->name, dtype_name(dtype));
    for (int pass = 0; pass < PASSES; pass++)
        print_pass(&run, (enum pass)pass, cpu_conv_by_winograd(run.plan[WINOGRAD], pass),
                   flops, peak);
    printf("\n");
    for (int way = 0; way < WAYS; way++)
        device[way]->ops->conv.release(device[way], run.plan[way]);
    void *blocks[] = {run.x.data, run.y.data, run.w.data, run.grad.data};
    for (int i = 0; i < 4; i++)
        device[0]->ops->memory.release(device[0], blocks[i]);
    return 0;
}

/* One device for each way; the caller closes those that opened. */
static int open_devices(int threads, struct device *device[WAYS])
{
    for (int way = 0; way < WAYS; way++) {
        setenv("TWINSCALE_CONV", way_names[way], 1);
        if (device_open("cpu", threads, &device[way]) != STATUS_OK) {
            fprintf(stderr, "bench_layers: %s\n", status_message());
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    const char *only_dtype = argc > 2 ? argv[2] : NULL,
               *only_set = argc > 3 ? argv[3] : NULL;
    struct device *device[WAYS] = {NULL};
    int failed = !open_devices(threads, device);
    int wants_peak = only_dtype && strcmp(only_dtype, "peak") == 0;
    if (!failed && wants_peak)
        print_peaks(device[0]);
    else if (!failed)
        printf("%s\n%-8s %-18s %-4s  %-38s%-38s%s\n", device[0]->description, "set",
               "layer", "", "forward: direct, Winograd ms, GFLOP/s", "dgrad", "wgrad");
    for (size_t i = 0; !failed && i < sizeof layers / sizeof layers[0]; i++) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            if ((only_dtype && strcmp(only_dtype, dtype_name((enum dtype)dtype)) != 0) ||
                (only_set && strcmp(only_set, layers[i].set) != 0))
                continue;
            double peak = peak_gflops(device[0], (enum dtype)dtype);
            failed |= bench_layer(device, &layers[i], (enum dtype)dtype, peak);
        }
    }
    if (!failed && !wants_peak)
        printf("register peak now: %.0f GFLOP/s on %d threads, of bf16 %.0f\n",
               peak_gflops(device[0], DTYPE_F32), device[0]->threads,
               peak_gflops(device[0], DTYPE_BF16));
    for (int way = 0; way < WAYS; way++)
        device_close(device[way]);
    return failed ? status_exit_code(STATUS_ENVIRONMENT) : 0;
}
