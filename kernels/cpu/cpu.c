#include "kernels/cpu/cpu.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/backend.h"
#include "kernels/ref/ref.h"

/* ---- choosing the instruction set ------------------------------------------------ */

// From the best to the plainest.
static const struct isa *const isas[] = {
#if defined(__x86_64__) || defined(__i386__)
    &isa_avx512_bf16,
    &isa_avx512,
    &isa_avx2,
#endif
    &isa_c,
};
enum { ISAS = sizeof isas / sizeof isas[0] };

#if defined(__x86_64__) || defined(__i386__)
// By CPUID's own bit: clang 14 does not know the name in __builtin_cpu_supports().
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static int has_avx512bf16(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 5));
}
#endif

static int cpu_has(const struct isa *isa)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    int avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (isa == &isa_avx2)
        return avx2;
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (isa == &isa_avx512)
        return avx512;
    if (isa == &isa_avx512_bf16)
        return avx512 && has_avx512bf16();
#endif
    return isa == &isa_c;
}

/* The best that this CPU has, but none better than TWINSCALE_ISA names. */
static enum status choose_isa(const struct isa **result)
{
    const char *wanted = getenv("TWINSCALE_ISA");
    int first = 0;
    if (wanted && *wanted) {
        static const char *const names[] = {"avx512-bf16", "avx512", "avx2", "c"};
        enum { NAMES = sizeof names / sizeof names[0] };
        int rank = 0;
        while (rank < NAMES && strcmp(wanted, names[rank]) != 0)
            rank++;
        if (rank == NAMES)
            return status_fail(
                STATUS_USAGE,
                "TWINSCALE_ISA is \"%s\": expected avx512-bf16, avx512, avx2 or c, "
                "or unset it to use the best this CPU has",
                wanted);
        first = rank - (NAMES - ISAS);
    }
    int index = first < 0 ? 0 : first;
    while (!cpu_has(isas[index]))
        index++;
    *result = isas[index];
    return STATUS_OK;
}

/* What TWINSCALE_CONV asks for. */
static enum status choose_conv(enum conv_choice *choice)
{
    static const char *const names[] = {
        [CONV_AUTO] = "auto", [CONV_DIRECT] = "direct", [CONV_WINOGRAD] = "winograd"};
    const char *wanted = getenv("TWINSCALE_CONV");
    *choice = CONV_AUTO;
    if (!wanted || !*wanted)
        return STATUS_OK;
    for (int i = CONV_AUTO; i <= CONV_WINOGRAD; i++) {
        if (strcmp(wanted, names[i]) == 0) {
            *choice = (enum conv_choice)i;
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE,
                       "TWINSCALE_CONV is \"%s\": expected auto, direct or winograd, or "
                       "unset it to let each layer take the faster way",
                       wanted);
}

/* The CPU's own name, without trailing blanks; "CPU" where it is not told. */
static void cpu_model(char *text, size_t bytes)
{
    snprintf(text, bytes, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *name = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !name)
            continue;
        name += 1 + strspn(name + 1, " ");
        name[strcspn(name, "\n")] = '\0';
        snprintf(text, bytes, "%.*s", (int)bytes - 1, name);
        break;
    }
    if (file)
        fclose(file);
}

/* ---- threads and memory ---------------------------------------------------------- */

void cpu_parallel(const struct device *device, size_t tasks,
                  void (*run)(void *job, size_t task, int thread), void *job)
{
    pool_run(cpu_backend(device)->pool, tasks, run, job);
}

static enum status reserve(float **block, size_t *floats, size_t wanted)
{
    if (wanted <= *floats)
        return STATUS_OK;
    free(*block);
    *floats = 0;
    *block = host_alloc(wanted * sizeof(float));
    if (!*block)
        return status_fail(
            STATUS_FAILED,
            "convolution workspace: %zu bytes were wanted and not to be had; "
            "lower the batch or the width",
            wanted * sizeof(float));
    *floats = wanted;
    return STATUS_OK;
}

enum status cpu_reserve_workspace(struct device *device, size_t floats)
{
    struct cpu_backend *backend = cpu_backend(device);
    return reserve(&backend->workspace, &backend->workspace_floats, floats);
}

enum status cpu_reserve_slab(struct device *device, int thread, size_t floats)
{
    struct scratch *scratch = &cpu_backend(device)->scratch[thread];
    return reserve(&scratch->slab, &scratch->slab_floats, floats);
}

struct reduce_parts cpu_reduce_parts(size_t rows, size_t channels)
{
    size_t most = REDUCE_FLOATS / (2 * channels);
    size_t count = (rows * channels + 8191) / 8192; // parts worth a thread's while
    if (count > REDUCE_PARTS)
        count = REDUCE_PARTS;
    if (count > most)
        count = most;
    if (count < 1)
        count = 1;
    size_t part_rows = (rows + count - 1) / count;
    return (struct reduce_parts){(rows + part_rows - 1) / part_rows, part_rows};
}

void cpu_combine(const float *parts, size_t count, size_t stride, size_t channels,
                 float *to)
{
    for (size_t c = 0; c < channels; c++) {
        double sum = 0;
        for (size_t part = 0; part < count; part++)
            sum += (double)parts[part * stride + c];
        to[c] = (float)sum;
    }
}

static enum status alloc_scratch(struct cpu_backend *backend)
{
    const size_t by_rows = GEMM_ROWS * GEMM_LEFT_STEP;
    const size_t by_panels = GEMM_PANEL_ROWS * GEMM_DEPTH;
    const size_t left = (by_rows > by_panels ? by_rows : by_panels) + 64;
    const size_t right = GEMM_DEPTH * GEMM_COLS, line = GEMM_COLS + 64;
    const size_t result = GEMM_PANEL_ROWS * GEMM_RESULT_STEP;
    const size_t each = left + right + result + line + WINO_RESULT;
    size_t threads = (size_t)backend->threads;
    backend->scratch = host_alloc(threads * sizeof *backend->scratch);
    backend->scratch_block = host_alloc(each * threads * sizeof(float));
    backend->reduce = host_alloc(REDUCE_FLOATS * sizeof(float));
    if (!backend->scratch || !backend->scratch_block || !backend->reduce)
        return status_fail(
            STATUS_FAILED,
            "cpu: %zu bytes of scratch for %zu threads were wanted and not to "
            "be had; use fewer threads",
            each * threads * sizeof(float), threads);
    for (size_t i = 0; i < threads; i++) {
        float *block = backend->scratch_block + i * each;
        struct scratch *scratch = &backend->scratch[i];
        *scratch = (struct scratch){.left = block, .right = block + left};
        scratch->result = scratch->right + right;
        scratch->line = scratch->result + result;
        scratch->points = scratch->line + line;
    }
    return STATUS_OK;
}

/* ---- opening --------------------------------------------------------------------- */

enum status cpu_open(struct device *device)
{
    const struct isa *isa = NULL;
    enum conv_choice conv_choice;
    TRY(choose_isa(&isa));
    TRY(choose_conv(&conv_choice));
    struct cpu_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return status_fail(STATUS_FAILED, "cpu: no memory for the backend");
    backend->isa = isa;
    backend->conv_choice = conv_choice;
    backend->threads = device->threads;
    ref_fill_ops(&backend->ref);
    backend->ops = backend->ref;
    cpu_fill_conv(&backend->ops.conv);
    cpu_fill_norm(&backend->ops.norm);
    cpu_fill_pointwise(&backend->ops.pointwise);
    cpu_fill_resample(&backend->ops.resample);
    cpu_fill_image(&backend->ops.image);
    cpu_fill_optimizer(&backend->ops.optimizer);
    cpu_fill_survey(&backend->ops.survey);
    device->backend = backend;
    device->ops = &backend->ops;
    device->channel_multiple = 1;

    enum status status = pool_create(backend->threads, &backend->pool);
    if (status == STATUS_OK)
        status = alloc_scratch(backend);
    if (status != STATUS_OK) {
        cpu_close(device);
        return status;
    }
    char model[80];
    cpu_model(model, sizeof model);
    snprintf(device->description, sizeof device->description, "%s, %s, %d thread%s",
             model, isa->name, device->threads, device->threads == 1 ? "" : "s");
    return STATUS_OK;
}

void cpu_close(struct device *device)
{
    struct cpu_backend *backend = cpu_backend(device);
    if (!backend)
        return;
    pool_destroy(backend->pool);
    for (int i = 0; backend->scratch && i < backend->threads; i++)
        free(backend->scratch[i].slab);
    free(backend->scratch);
    free(backend->scratch_block);
    free(backend->workspace);
    free(backend->reduce);
    free(backend);
    device->backend = NULL;
    device->ops = NULL;
}
