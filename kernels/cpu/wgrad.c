#include "kernels/cpu/wgrad.h"

#include <string.h>

struct wgrad_job {
    const struct wgrad *wgrad;
    const struct isa *isa;
    struct scratch *scratch;
    const struct tensor *dy;
    struct window window;
    float *partial; // [parts][rows][cols]
    enum dtype dtype;
    float *grad;
    int accumulate;
};

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* `size` cut into as few even blocks as fit `most`, each a multiple of the tile. */
static int even_block(int size, int most, int tile)
{
    int blocks = (size + most - 1) / most;
    int block = (size + blocks - 1) / blocks;
    return (block + tile - 1) / tile * tile;
}

void wgrad_plan(struct wgrad *wgrad, const struct isa *isa)
{
    enum { TASKS_WANTED = 16 };
    wgrad->row_block = even_block(wgrad->rows, GEMM_PANEL_ROWS, isa->tile_rows);
    wgrad->col_block = even_block(wgrad->cols, GEMM_COLS, isa->tile_cols);
    wgrad->row_blocks = ceil_div((size_t)wgrad->rows, (size_t)wgrad->row_block);
    wgrad->col_blocks = ceil_div((size_t)wgrad->cols, (size_t)wgrad->col_block);
    size_t blocks = wgrad->row_blocks * wgrad->col_blocks;
    size_t wanted = ceil_div(TASKS_WANTED, blocks);
    size_t most = ceil_div(wgrad->depth, GEMM_DEPTH);
    size_t parts = blocks >= TASKS_WANTED / 2 ? 1 : wanted < most ? wanted : most;
    wgrad->part_depth = ceil_div(wgrad->depth, parts);
    wgrad->parts = ceil_div(wgrad->depth, wgrad->part_depth);
    wgrad->workspace_floats =
        wgrad->parts > 1 ? wgrad->parts * (size_t)wgrad->rows * (size_t)wgrad->cols : 0;
}

/* Where a task lies in the result. */
struct corner {
    int row, rows, col, cols;
};

/* Multiplies pixels [first, end) for one corner into the thread's result. */
static void multiply_pixels(const struct wgrad_job *job, struct corner at, size_t first,
                            size_t end, struct scratch *scratch)
{
    const struct isa *isa = job->isa;
    struct block block = {.left = scratch->left,
                          .right = scratch->right,
                          .result = scratch->result,
                          .result_step = GEMM_RESULT_STEP,
                          .rows = at.rows,
                          .cols = at.cols};
    size_t channels = (size_t)job->wgrad->rows;
    size_t most = (size_t)isa_depth(isa);
    for (size_t pixel = first; pixel < end; pixel += most) {
        int pixels = end - pixel < most ? (int)(end - pixel) : (int)most;
        block.depth = isa_floats(isa, pixels);
        block.accumulate = pixel > first;
        block.right_panel_step = (size_t)block.depth * (size_t)isa->tile_cols;
        isa->pack_left_panels(job->dy->data, job->dy->dtype,
                              pixel * channels + (size_t)at.row, channels, pixels,
                              at.rows, scratch->left);
        isa->pack_right_window(&job->window, pixel, pixels, at.col, at.cols,
                               scratch->line, scratch->right);
        isa->multiply_panels(&block);
    }
}

static void wgrad_task(void *job_pointer, size_t task, int thread)
{
    const struct wgrad_job *job = job_pointer;
    const struct wgrad *wgrad = job->wgrad;
    struct scratch *scratch = &job->scratch[thread];
    size_t part = task / (wgrad->row_blocks * wgrad->col_blocks);
    size_t row_index = task / wgrad->col_blocks % wgrad->row_blocks;
    struct corner at = {.row = (int)row_index * wgrad->row_block,
                        .col = (int)(task % wgrad->col_blocks) * wgrad->col_block};
    at.rows =
        wgrad->rows - at.row < wgrad->row_block ? wgrad->rows - at.row : wgrad->row_block;
    at.cols =
        wgrad->cols - at.col < wgrad->col_block ? wgrad->cols - at.col : wgrad->col_block;
    size_t first = part * wgrad->part_depth, end = first + wgrad->part_depth;
    multiply_pixels(job, at, first, end < wgrad->depth ? end : wgrad->depth, scratch);

    size_t cols = (size_t)wgrad->cols;
    for (int i = 0; i < at.rows; i++) {
        const float *result = scratch->result + (size_t)i * GEMM_RESULT_STEP;
        size_t offset = (size_t)(at.row + i) * cols + (size_t)at.col;
        if (wgrad->parts == 1)
            job->isa->finish_grad(result, 0, 1, at.cols, job->dtype, job->grad + offset,
                                  job->accumulate);
        else
            memcpy(job->partial + part * (size_t)wgrad->rows * cols + offset, result,
                   (size_t)at.cols * sizeof(float));
    }
}

/* Adds the parts of one row of the result. */
static void combine_task(void *job_pointer, size_t row, int thread)
{
    (void)thread;
    const struct wgrad_job *job = job_pointer;
    size_t cols = (size_t)job->wgrad->cols, step = (size_t)job->wgrad->rows * cols;
    job->isa->finish_grad(job->partial + row * cols, step, (int)job->wgrad->parts,
                          job->wgrad->cols, job->dtype, job->grad + row * cols,
                          job->accumulate);
}

const struct isa *wgrad_isa(const struct wgrad *wgrad, const struct isa *isa,
                            enum dtype x, enum dtype dy)
{
    return wgrad->cols < PAIRS_LEAST ? isa : isa_for(isa, x, dy, 0);
}

void wgrad_run(const struct wgrad *wgrad, struct device *device, const struct tensor *x,
               const struct tensor *dy, enum dtype dtype, float *grad, int accumulate)
{
    struct cpu_backend *backend = cpu_backend(device);
    struct wgrad_job job = {.wgrad = wgrad,
                            .isa = wgrad_isa(wgrad, backend->isa, x->dtype, dy->dtype),
                            .scratch = backend->scratch,
                            .dy = dy,
                            .window = wgrad->window,
                            .partial = backend->workspace,
                            .dtype = dtype,
                            .grad = grad,
                            .accumulate = accumulate};
    job.window.data = x->data;
    job.window.dtype = x->dtype;
    cpu_parallel(device, wgrad->parts * wgrad->row_blocks * wgrad->col_blocks, wgrad_task,
                 &job);
    if (wgrad->parts > 1)
        cpu_parallel(device, (size_t)wgrad->rows, combine_task, &job);
}
