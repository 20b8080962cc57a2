#include "kernels/cpu/fold.h"

#include <string.h>

struct fold_job {
    const struct fold *fold;
    const struct isa *isa;
    struct scratch *scratch;
    const struct tensor *dy, *weights;
    struct tensor *dx;
    float *right; // packed panels [depth][tile_cols]
    float *sums;  // [tasks][2][channels] or NULL
    struct conv_epilogue epilogue;
};

/* Rows [first, end) of dy. */
struct span {
    int first, end;
};

static int floor_div(int a, int b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* The rows of dy whose taps reach rows [first, end) of dx. */
static struct span rows_reaching(const struct conv_desc *d, int first, int end)
{
    int low = floor_div(first + d->pad - d->kernel, d->stride) + 1;
    int high = floor_div(end - 1 + d->pad, d->stride) + 1;
    low = low < 0 ? 0 : low;
    high = high > d->y.h ? d->y.h : high;
    return (struct span){low, high < low ? low : high};
}

int fold_plan(struct fold *fold, const struct conv_desc *desc, const struct isa *isa)
{
    enum { ROOM = GEMM_DEPTH * GEMM_COLS - GEMM_ROWS * GEMM_COLS / 4 };
    int cols = desc->kernel * desc->kernel * desc->x.c;
    int reach = (desc->y.w - 1) * desc->stride + desc->kernel;
    int width = reach > desc->pad + desc->x.w ? reach : desc->pad + desc->x.w;
    int classes = (desc->kernel + desc->stride - 1) / desc->stride;
    if (desc->x.c > THIN_COLS || cols > GEMM_COLS / 4 ||
        classes * width * desc->x.c > GEMM_PANEL_ROWS * GEMM_RESULT_STEP)
        return 0;
    size_t panels = (size_t)(cols + isa->tile_cols - 1) / (size_t)isa->tile_cols;
    *fold = (struct fold){.desc = *desc,
                          .cols = cols,
                          .classes = classes,
                          .row_step = (size_t)(width * desc->x.c)};
    fold->tap_step = panels * (size_t)isa->tile_cols;
    fold->right_floats = fold->tap_step * (size_t)desc->y.c;

    // The rows of dy that a band of b rows needs are at most (b + kernel - 2)/stride + 1.
    int rows_max = (int)(ROOM / (fold->tap_step * (size_t)desc->y.w));
    int band = (rows_max - 1) * desc->stride + 2 - desc->kernel;
    if (band < 2 * desc->kernel && band < desc->x.h)
        return 0;
    fold->band = band < desc->x.h ? band : desc->x.h;
    fold->bands = (desc->x.h + fold->band - 1) / fold->band;
    fold->workspace_floats =
        fold->right_floats + 2 * (size_t)(desc->x.n * fold->bands * desc->x.c);
    return 1;
}

static int band_end(const struct fold *fold, int first)
{
    int end = first + fold->band;
    return end < fold->desc.x.h ? end : fold->desc.x.h;
}

double fold_multiplications(const struct fold *fold)
{
    const struct conv_desc *d = &fold->desc;
    int rows = 0;
    for (int first = 0; first < d->x.h; first += fold->band) {
        struct span span = rows_reaching(d, first, band_end(fold, first));
        rows += span.end - span.first;
    }
    return (double)d->y.n * rows * d->y.w * fold->cols * d->y.c;
}

static void pack_task(void *job_pointer, size_t panel, int thread)
{
    (void)thread;
    const struct fold_job *job = job_pointer;
    const struct fold *fold = job->fold;
    int tile_cols = job->isa->tile_cols, depth = fold->desc.y.c;
    int col = (int)panel * tile_cols;
    int cols = fold->cols - col < tile_cols ? fold->cols - col : tile_cols;
    job->isa->pack_right(job->weights->data, job->weights->dtype, (size_t)col,
                         (size_t)fold->cols, depth, cols,
                         job->right + panel * (size_t)tile_cols *
                                          (size_t)isa_floats(job->isa, depth));
}

/* taps[pixel][r, s, c] for the pixels of a span of dy rows. */
static void multiply_span(const struct fold_job *job, size_t sample, struct span span,
                          float *left, float *taps)
{
    const struct fold *fold = job->fold;
    const struct isa *isa = job->isa;
    const struct conv_desc *d = &fold->desc;
    struct window pixels = {.data = job->dy->data,
                            .dtype = job->dy->dtype,
                            .height = d->y.h,
                            .width = d->y.w,
                            .channels = d->y.c,
                            .grid_h = d->y.h,
                            .grid_w = d->y.w,
                            .step = 1,
                            .taps_h = 1,
                            .taps_w = 1};
    struct block block = {.left = left,
                          .right_panel_step =
                              (size_t)(isa_floats(isa, d->y.c) * isa->tile_cols),
                          .result_step = fold->tap_step,
                          .cols = fold->cols};
    size_t first = (sample * (size_t)d->y.h + (size_t)span.first) * (size_t)d->y.w;
    int count = (span.end - span.first) * d->y.w;
    for (int m = 0; m < count; m += GEMM_ROWS) {
        block.rows = count - m < GEMM_ROWS ? count - m : GEMM_ROWS;
        block.result = taps + (size_t)m * fold->tap_step;
        for (int k = 0; k < d->y.c; k += isa_depth(isa)) {
            int elements = d->y.c - k < isa_depth(isa) ? d->y.c - k : isa_depth(isa);
            block.depth = isa_floats(isa, elements);
            block.right = job->right + (size_t)(isa_floats(isa, k) * isa->tile_cols);
            block.accumulate = k > 0;
            isa->pack_window(&pixels, first + (size_t)m, block.rows, k, elements, left,
                             GEMM_LEFT_STEP);
            isa->multiply_rows(&block);
        }
    }
}

typedef float four
    __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float))));

static void add_patch(float *to, const float *from, int count)
{
    int i = 0;
    for (; i + 4 <= count; i += 4)
        *(four *)(to + i) += *(const four *)(from + i);
    for (; i < count; i++)
        to[i] += from[i];
}

/* rows[class][pad + w][c] += kernel row r of the taps of one row of dy. */
static void fold_taps(const struct fold *fold, const float *taps, int r, float *rows)
{
    const struct conv_desc *d = &fold->desc;
    int run = d->kernel * d->x.c, step = d->stride * d->x.c, classes = fold->classes;
    for (int class = 0; class < classes; class ++, rows += fold->row_step) {
        const float *from = taps + (size_t) class * fold->tap_step + (size_t)(r * run);
        float *to = rows + class * step;
        for (int q = class; q < d->y.w; q += classes) {
            add_patch(to, from, run);
            from += (size_t)classes * fold->tap_step;
            to += classes * step;
        }
    }
}

/* The sum of all classes, in the first one's row. Returns where its pixels begin. */
static float *add_classes(const struct fold *fold, float *rows)
{
    int margin = fold->desc.pad * fold->desc.x.c, count = (int)fold->row_step - margin;
    for (int class = 1; class < fold->classes; class ++)
        add_patch(rows + margin, rows + (size_t) class * fold->row_step + margin, count);
    return rows + margin;
}

static void add_sums(const float *row, int count, int channels, float *sums)
{
    for (int i = 0; i < count; i++) {
        sums[i % channels] += row[i];
        sums[channels + i % channels] += row[i] * row[i];
    }
}

static void fold_task(void *job_pointer, size_t task, int thread)
{
    const struct fold_job *job = job_pointer;
    const struct fold *fold = job->fold;
    const struct conv_desc *d = &fold->desc;
    float *taps = job->scratch[thread].right, *rows = job->scratch[thread].result;
    size_t sample = task / (size_t)fold->bands;
    int first = (int)(task % (size_t)fold->bands) * fold->band;
    int end = band_end(fold, first);
    struct span span = rows_reaching(d, first, end);
    multiply_span(job, sample, span, job->scratch[thread].left, taps);

    struct finish finish = {.activation = job->epilogue.activation,
                            .slope = job->epilogue.slope,
                            .dtype = job->dx->dtype};
    int count = d->x.w * d->x.c;
    float *sums = job->sums ? job->sums + task * 2 * (size_t)d->x.c : NULL;
    if (sums)
        memset(sums, 0, 2 * (size_t)d->x.c * sizeof *sums);
    for (int h = first; h < end; h++) {
        memset(rows, 0, (size_t)fold->classes * fold->row_step * sizeof *rows);
        for (int r = (h + d->pad) % d->stride; r < d->kernel; r += d->stride) {
            int p = floor_div(h + d->pad - r, d->stride);
            if (p >= span.first && p < span.end)
                fold_taps(fold,
                          taps + (size_t)((p - span.first) * d->y.w) * fold->tap_step, r,
                          rows);
        }
        float *row = add_classes(fold, rows);
        for (int i = 0; job->epilogue.bias && i < count; i++)
            row[i] += job->epilogue.bias[i % d->x.c];
        size_t line = (sample * (size_t)d->x.h + (size_t)h) * (size_t)count;
        unsigned char *out = (unsigned char *)job->dx->data;
        job->isa->finish_flat(row, (size_t)count, &finish,
                              out + line * dtype_bytes(finish.dtype));
        if (sums)
            add_sums(row, count, d->x.c, sums);
    }
}

void fold_run(const struct fold *fold, struct device *device, const struct tensor *dy,
              const struct tensor *weights, const struct conv_epilogue *epilogue,
              struct tensor *dx)
{
    struct cpu_backend *backend = cpu_backend(device);
    struct fold_job job = {
        .fold = fold,
        .isa = isa_for(backend->isa, dy->dtype, weights->dtype, fold->desc.y.c),
        .scratch = backend->scratch,
        .dy = dy,
        .weights = weights,
        .dx = dx,
        .right = backend->workspace};
    if (epilogue)
        job.epilogue = *epilogue;
    if (job.epilogue.sum)
        job.sums = backend->workspace + fold->right_floats;
    size_t channels = (size_t)fold->desc.x.c;
    size_t tasks = (size_t)fold->desc.x.n * (size_t)fold->bands;
    cpu_parallel(device, fold->tap_step / (size_t)backend->isa->tile_cols, pack_task,
                 &job);
    cpu_parallel(device, tasks, fold_task, &job);
    if (!job.sums)
        return;
    cpu_combine(job.sums, tasks, 2 * channels, channels, job.epilogue.sum);
    cpu_combine(job.sums + channels, tasks, 2 * channels, channels, job.epilogue.sumsq);
}
