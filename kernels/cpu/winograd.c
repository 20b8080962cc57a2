#include "kernels/cpu/winograd.h"

enum {
    SPREAD_TILES = 8, // of a task that transforms
    GATHER_TASKS = 4, // of a block of weights, where its points are tasks of their own
};

// Floats from one point to the next in scratch.points.
enum { RESULT_POINT = WINO_TILES * WINO_COLS + WINO_PAD };
_Static_assert(WINO_POINTS *WINO_RIGHT_POINT <= GEMM_DEPTH * GEMM_COLS,
               "fits scratch.right");
_Static_assert(WINO_POINTS *RESULT_POINT <= WINO_RESULT &&
                   WINO_POINTS * WINO_GRAD_POINT <= WINO_RESULT,
               "fits scratch.points");

/* What the tasks of one run share. */
struct wino_job {
    const struct winograd *winograd;
    const struct wino_pass *pass;
    const struct isa *isa;
    struct scratch *scratch;
    int threads;
    uint64_t op; // the number of this run, but of wgrad's
    const struct tensor *weights;
    struct wino_image x, y;
    float *packed;       // forward: panels of the weights
    size_t first, tiles; // of this chunk; in the end, of the last
    struct tensor *out;  // y or dx
    float *sums;         // [block][phase][2][channels of a phase] or NULL
    struct conv_epilogue epilogue;
    enum dtype dtype; // of wgrad's rounding
    float *grad;
    int accumulate;
};

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- what the passes share ------------------------------------------------------- */

static struct wino_image image_of(const struct winograd *winograd,
                                  const struct tensor *tensor)
{
    return (struct wino_image){.data = tensor->data,
                               .dtype = tensor->dtype,
                               .height = tensor->shape.h,
                               .width = tensor->shape.w,
                               .channels = tensor->shape.c,
                               .tiling = winograd->tiling};
}

/* Some tiles of a block of the chunk, from `first` of all tiles on. */
struct tile_span {
    size_t block, first;
    int count;
};

static size_t blocks_of_chunk(const struct wino_job *job)
{
    return ceil_div(job->tiles, job->pass->block);
}

/* `most` tiles of a block from `begin` on, or what is left of them, which may be none. */
static struct tile_span span_of(const struct wino_job *job, size_t block, size_t begin,
                                size_t most)
{
    size_t before = block * job->pass->block;
    size_t end = least(job->pass->block, job->tiles - before);
    return (struct tile_span){block, job->first + before + begin,
                              begin < end ? (int)least(most, end - begin) : 0};
}

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

/* The rows of each class that tiles of a block have among the block's. */
static void rows_of_span(const struct wino_job *job, struct tile_span span,
                         struct wino_rows *rows)
{
    const struct wino_tiling *tiling = &job->winograd->tiling;
    size_t base = job->first + span.block * job->pass->block;
    for (int kind = 0; kind < WINO_CLASSES; kind++) {
        size_t row = wino_row(tiling, kind, span.first);
        rows[kind] = (struct wino_rows){
            row - wino_row(tiling, kind, base),
            (int)(wino_row(tiling, kind, span.first + (size_t)span.count) - row)};
    }
}

/* The first of a span's rows in each class. */
static void first_rows(const struct wino_job *job, struct tile_span span, size_t *first)
{
    struct wino_rows rows[WINO_CLASSES];
    rows_of_span(job, span, rows);
    for (int kind = 0; kind < WINO_CLASSES; kind++)
        first[kind] = rows[kind].first;
}

static size_t spans_of_block(const struct wino_job *job)
{
    return ceil_div(job->pass->block, SPREAD_TILES);
}

/* The span of a task that transforms, one of `columns` tasks for each. */
static struct tile_span spread_span(const struct wino_job *job, size_t task,
                                    size_t columns)
{
    size_t spans = spans_of_block(job), index = task / columns;
    return span_of(job, index / spans, index % spans * SPREAD_TILES, SPREAD_TILES);
}

/* What a block of the chunk has in the slab of the thread in whose share it is. */
static float *block_slab(const struct wino_job *job, size_t block)
{
    size_t blocks = blocks_of_chunk(job);
    int owner = pool_owner(blocks, job->threads, block);
    size_t before = block - pool_share(blocks, job->threads, owner);
    return job->scratch[owner].slab + job->pass->right_floats +
           before * job->pass->block_floats;
}

/* Runs spread, then multiply, for each chunk: so many tasks for each span, and for each
 * block. */
static void run_chunks(struct device *device, struct wino_job *job, size_t spread_columns,
                       void (*spread)(void *job, size_t task, int thread),
                       size_t multiply_columns,
                       void (*multiply)(void *job, size_t task, int thread))
{
    size_t tiles = job->winograd->tiles;
    for (size_t first = 0; first < tiles; first += job->pass->chunk) {
        job->first = first;
        job->tiles = least(job->pass->chunk, tiles - first);
        size_t blocks = blocks_of_chunk(job);
        cpu_parallel(device, blocks * spans_of_block(job) * spread_columns, spread, job);
        cpu_parallel(device, blocks * multiply_columns, multiply, job);
    }
}

/* Points of a block's tiles for one step of depth: the left side of forward and dgrad. */
static float *left_points(const struct wino_job *job, size_t step, size_t block)
{
    return block_slab(job, block) + step * WINO_POINTS * job->pass->left_point;
}

/* Points of the weights for one step of depth and one block of columns, the right side of
 * forward and dgrad, as make() makes them: for this task, or for all of the thread's. */
static const float *
right_side(const struct wino_job *job, struct scratch *scratch, int step, size_t block,
           void (*make)(const struct wino_job *job, int step, size_t block, float *right))
{
    size_t index = (size_t)(step * job->pass->col_blocks) + block;
    if (!job->pass->right_floats) {
        make(job, step, block, scratch->right);
        return scratch->right;
    }
    float *right = scratch->slab + index * WINO_POINTS * WINO_RIGHT_POINT;
    if (scratch->right_made[index] != job->op) {
        make(job, step, block, right);
        scratch->right_made[index] = job->op;
    }
    return right;
}

/* The product of a task of forward or dgrad, but for what each step of depth has its
 * own. */
static struct wino_product product_for(const struct wino_job *job,
                                       const struct scratch *scratch,
                                       struct tile_span span, int cols)
{
    struct wino_product product = {.left_point = job->pass->left_point,
                                   .right_point = WINO_RIGHT_POINT,
                                   .right_panel =
                                       (size_t)(WINO_DEPTH * job->isa->tile_cols),
                                   .result = scratch->points,
                                   .result_point = RESULT_POINT,
                                   .points = WINO_POINTS,
                                   .cols = cols};
    rows_of_span(job, span, product.tiles);
    return product;
}

/* Where a task of forward or dgrad puts its results. */
static struct wino_gather gather_for(const struct wino_job *job,
                                     const struct scratch *scratch, struct tile_span span,
                                     int channel, int channels, int phase, int phases)
{
    struct wino_gather gather = {
        .from = scratch->points,
        .point_step = RESULT_POINT,
        .first = span.first,
        .tiles = span.count,
        .channel = channel,
        .cols = at_most(channels - channel, WINO_COLS),
        .finish = {.bias = job->epilogue.bias ? job->epilogue.bias + channel : NULL,
                   .activation = job->epilogue.activation,
                   .slope = job->epilogue.slope,
                   .dtype = job->out->dtype},
        .out = job->out->data,
        .undo = job->epilogue.undo,
        .phase = phase,
        .plane = scratch->left};
    if (job->sums) {
        size_t block = span.first / job->pass->block;
        size_t slot = block * (size_t)phases + (size_t)phase;
        gather.sum = job->sums + slot * 2 * (size_t)channels + channel;
        gather.sumsq = gather.sum + channels;
    }
    return gather;
}

static void combine_sums(const struct wino_job *job, size_t phases, size_t channels)
{
    if (!job->sums)
        return;
    size_t slots = job->pass->blocks * phases;
    cpu_combine(job->sums, slots, 2 * channels, channels, job->epilogue.sum);
    cpu_combine(job->sums + channels, slots, 2 * channels, channels, job->epilogue.sumsq);
}

/* ---- forward --------------------------------------------------------------------- */

static void pack_task(void *job_pointer, size_t panel, int thread)
{
    (void)thread;
    const struct wino_job *job = job_pointer;
    const struct tensor *w = job->weights;
    int tile_cols = job->isa->tile_cols, depth = 16 * w->shape.c;
    int col = (int)panel * tile_cols;
    job->isa->pack_right_turned(w->data, w->dtype, (size_t)col * (size_t)depth,
                                (size_t)depth, depth,
                                at_most(w->shape.n - col, tile_cols),
                                job->packed + panel * (size_t)tile_cols * (size_t)depth);
}

static void spread_x_rows_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct wino_job *job = job_pointer;
    size_t steps = (size_t)job->pass->depth_steps, step = task % steps;
    struct tile_span span = spread_span(job, task, steps);
    int channel = (int)step * WINO_CHANNELS;
    struct wino_spread spread = {
        .image = job->x,
        .first = span.first,
        .tiles = span.count,
        .channel = channel,
        .channels = at_most(job->x.channels - channel, WINO_CHANNELS),
        .to = left_points(job, step, span.block),
        .point_step = job->pass->left_point,
        .tile_step = WINO_LEFT_STEP,
        .pair_step = (size_t)job->isa->tile_cols,
    };
    first_rows(job, span, spread.row);
    job->isa->wino_transform_x(&spread);
}

/* [WINO_DEPTH] x WINO_COLS. */
static void forward_weights(const struct wino_job *job, int step, size_t block,
                            float *right)
{
    int tile_cols = job->isa->tile_cols, channels = job->x.channels;
    int col = (int)block * WINO_COLS, cols = at_most(job->y.channels - col, WINO_COLS);
    size_t tap_step = (size_t)(channels * tile_cols);
    int channel = step * WINO_CHANNELS;
    for (int j = 0; j < cols; j += tile_cols) {
        const float *panel = job->packed +
                             (size_t)((col + j) / tile_cols) * 16 * tap_step +
                             (size_t)(channel * tile_cols);
        job->isa->wino_weights_forward(panel, tap_step,
                                       at_most(channels - channel, WINO_CHANNELS),
                                       right + j * WINO_DEPTH, WINO_RIGHT_POINT);
    }
}

static void forward_task(void *job_pointer, size_t task, int thread)
{
    const struct wino_job *job = job_pointer;
    const struct wino_pass *pass = job->pass;
    struct scratch *scratch = &job->scratch[thread];
    struct tile_span span = span_of(job, task / (size_t)pass->col_blocks, 0, pass->block);
    size_t block = task % (size_t)pass->col_blocks;
    int col = (int)block * WINO_COLS, cols = at_most(job->y.channels - col, WINO_COLS);
    struct wino_product product = product_for(job, scratch, span, cols);
    for (int step = 0; step < pass->depth_steps; step++) {
        product.channels = 4 * WINO_PHASE(job->x.channels - step * WINO_CHANNELS);
        product.right = right_side(job, scratch, step, block, forward_weights);
        product.left = left_points(job, (size_t)step, span.block);
        product.accumulate = step > 0;
        job->isa->wino_multiply_rows(&product);
    }
    struct wino_gather gather =
        gather_for(job, scratch, span, col, job->y.channels, 0, 1);
    gather.image = job->y;
    job->isa->wino_output_transform_y(&gather);
}

void winograd_forward(const struct winograd *winograd, struct device *device,
                      const struct tensor *x, const struct tensor *weights,
                      const struct conv_epilogue *epilogue, struct tensor *y)
{
    struct cpu_backend *backend = cpu_backend(device);
    const struct wino_pass *pass = &winograd->forward;
    size_t panels = ceil_div((size_t)y->shape.c, (size_t)backend->isa->tile_cols);
    size_t packed = panels * (size_t)backend->isa->tile_cols * 16 * (size_t)x->shape.c;
    struct wino_job job = {.winograd = winograd,
                           .pass = pass,
                           .isa = backend->isa,
                           .scratch = backend->scratch,
                           .threads = backend->threads,
                           .op = ++backend->wino_ops,
                           .weights = weights,
                           .x = image_of(winograd, x),
                           .y = image_of(winograd, y),
                           .packed = backend->workspace,
                           .out = y};
    if (epilogue)
        job.epilogue = *epilogue;
    if (job.epilogue.sum)
        job.sums = backend->workspace + packed;
    cpu_parallel(device, panels, pack_task, &job);
    run_chunks(device, &job, (size_t)pass->depth_steps, spread_x_rows_task,
               (size_t)pass->col_blocks, forward_task);
    combine_sums(&job, 1, (size_t)y->shape.c);
}

/* ---- dgrad ----------------------------------------------------------------------- */

static void spread_dy_rows_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct wino_job *job = job_pointer;
    size_t steps = (size_t)job->pass->depth_steps, step = task % steps;
    struct tile_span span = spread_span(job, task, steps);
    int channel = (int)step * WINO_DEPTH;
    struct wino_spread spread = {
        .image = job->y,
        .first = span.first,
        .tiles = span.count,
        .channel = channel,
        .channels = at_most(job->y.channels - channel, WINO_DEPTH),
        .to = left_points(job, step, span.block),
        .point_step = job->pass->left_point,
        .tile_step = WINO_LEFT_STEP,
    };
    first_rows(job, span, spread.row);
    job->isa->wino_transform_dy(&spread);
}

/* [WINO_DEPTH] x WINO_COLS, of a phase. */
static void dgrad_weights(const struct wino_job *job, int step, size_t block,
                          float *right)
{
    const struct tensor *w = job->weights;
    int phase = (int)(block % 4), channel = (int)(block / 4) * WINO_COLS;
    int channels = job->x.channels, first = step * WINO_DEPTH;
    size_t row_step = 16 * (size_t)channels;
    size_t first_tap = (size_t)((phase / 2 * 4 + phase % 2) * channels + channel);
    job->isa->wino_weights_dgrad(
        w->data, w->dtype, (size_t)first * row_step + first_tap, row_step,
        (size_t)channels, at_most(job->y.channels - first, WINO_DEPTH),
        at_most(channels - channel, WINO_COLS), right, WINO_RIGHT_POINT);
}

static void dgrad_task(void *job_pointer, size_t task, int thread)
{
    const struct wino_job *job = job_pointer;
    const struct wino_pass *pass = job->pass;
    struct scratch *scratch = &job->scratch[thread];
    struct tile_span span = span_of(job, task / (size_t)pass->col_blocks, 0, pass->block);
    size_t block = task % (size_t)pass->col_blocks;
    int phase = (int)(block % 4), channel = (int)(block / 4) * WINO_COLS;
    int channels = job->x.channels;
    struct wino_product product =
        product_for(job, scratch, span, at_most(channels - channel, WINO_COLS));
    for (int step = 0; step < pass->depth_steps; step++) {
        product.channels = at_most(job->y.channels - step * WINO_DEPTH, WINO_DEPTH);
        product.right = right_side(job, scratch, step, block, dgrad_weights);
        product.left = left_points(job, (size_t)step, span.block);
        product.accumulate = step > 0;
        job->isa->wino_multiply_rows(&product);
    }
    struct wino_gather gather =
        gather_for(job, scratch, span, channel, channels, phase, 4);
    gather.image = job->x;
    job->isa->wino_output_transform_dx(&gather);
}

void winograd_dgrad(const struct winograd *winograd, struct device *device,
                    const struct tensor *dy, const struct tensor *weights,
                    const struct conv_epilogue *epilogue, struct tensor *dx)
{
    struct cpu_backend *backend = cpu_backend(device);
    const struct wino_pass *pass = &winograd->dgrad;
    struct wino_job job = {.winograd = winograd,
                           .pass = pass,
                           .isa = backend->isa,
                           .scratch = backend->scratch,
                           .threads = backend->threads,
                           .op = ++backend->wino_ops,
                           .weights = weights,
                           .x = image_of(winograd, dx),
                           .y = image_of(winograd, dy),
                           .out = dx};
    if (epilogue)
        job.epilogue = *epilogue;
    if (job.epilogue.sum)
        job.sums = backend->workspace;
    run_chunks(device, &job, (size_t)pass->depth_steps, spread_dy_rows_task,
               (size_t)pass->col_blocks, dgrad_task);
    combine_sums(&job, 4, (size_t)dx->shape.c);
}

/* ---- wgrad ----------------------------------------------------------------------- */

/* Points of a block's tiles: of x, [block of columns][point], then of dy, [block of
 * rows][point]. */
static float *x_points(const struct wino_job *job, size_t block, size_t col_block)
{
    return block_slab(job, block) + col_block * WINO_POINTS * job->pass->right_point;
}

static float *y_points(const struct wino_job *job, size_t block, size_t row_block)
{
    return x_points(job, block, (size_t)job->pass->col_blocks) +
           row_block * WINO_POINTS * job->pass->left_point;
}

/* Columns of a span of tiles: first those of dy, then those of x. */
static void spread_both_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct wino_job *job = job_pointer;
    const struct wino_pass *pass = job->pass;
    size_t columns = (size_t)(pass->depth_steps + pass->col_blocks);
    size_t column = task % columns, rows = (size_t)pass->depth_steps;
    struct tile_span span = spread_span(job, task, columns);
    struct wino_spread spread = {.first = span.first, .tiles = span.count};
    first_rows(job, span, spread.row);
    if (column < rows) {
        spread.image = job->y;
        spread.channel = (int)column * WINO_ROWS;
        spread.channels = at_most(job->y.channels - spread.channel, WINO_ROWS);
        spread.point_step = pass->left_point;
        spread.tile_step = WINO_ROWS;
        spread.to = y_points(job, span.block, column);
        job->isa->wino_transform_dy(&spread);
        return;
    }
    size_t tile_cols = (size_t)job->isa->tile_cols;
    spread.image = job->x;
    spread.channel = (int)(column - rows) * WINO_CHANNELS;
    spread.channels = at_most(job->x.channels - spread.channel, WINO_CHANNELS);
    spread.point_step = pass->right_point;
    spread.tile_step = tile_cols;
    spread.pair_step = pass->block * tile_cols;
    spread.to = x_points(job, span.block, column - rows);
    job->isa->wino_transform_x(&spread);
}

/* A block of the weights: WINO_ROWS channels of y, WINO_CHANNELS of x. */
struct grad_block {
    size_t index, row_block, col_block;
    int row, rows, channel, channels;
};

static struct grad_block grad_block(const struct wino_job *job, size_t index)
{
    size_t cols = (size_t)job->pass->col_blocks;
    struct grad_block grad = {
        .index = index, .row_block = index / cols, .col_block = index % cols};
    grad.row = (int)grad.row_block * WINO_ROWS;
    grad.rows = at_most(job->y.channels - grad.row, WINO_ROWS);
    grad.channel = (int)grad.col_block * WINO_CHANNELS;
    grad.channels = at_most(job->x.channels - grad.channel, WINO_CHANNELS);
    return grad;
}

/* Its products over the tiles of one block: in scratch, or kept in that block's slab. */
static float *grad_result(const struct wino_job *job, size_t block,
                          const struct grad_block *grad, int thread)
{
    if (!winograd_keeps_results(job->winograd))
        return job->scratch[thread].points;
    return block_slab(job, block) + job->pass->points_floats +
           grad->index * WINO_POINTS * WINO_GRAD_POINT;
}

/* Rows [first, last) of a block of the weights. */
static void gather_grad(const struct wino_job *job, const struct grad_block *grad,
                        int first, int last, int thread)
{
    size_t tap_step = (size_t)job->x.channels, blocks = blocks_of_chunk(job);
    size_t step = WINO_STEP_OF(4 * WINO_PHASE(grad->channels));
    const float *parts[WINO_GRAD_PARTS];
    for (int i = first; i < last; i++) {
        for (size_t block = 0; block < blocks; block++)
            parts[block] = grad_result(job, block, grad, thread) + (size_t)i * step;
        job->isa->wino_output_transform_dw(
            parts, (int)blocks, WINO_GRAD_POINT, grad->channels, job->dtype,
            job->grad + (size_t)(grad->row + i) * 16 * tap_step + (size_t)grad->channel,
            tap_step, job->accumulate);
    }
}

static void wgrad_task(void *job_pointer, size_t task, int thread)
{
    const struct wino_job *job = job_pointer;
    const struct wino_pass *pass = job->pass;
    size_t grads = (size_t)(pass->depth_steps * pass->col_blocks);
    size_t index = task / (size_t)pass->point_tasks, block = index / grads;
    struct grad_block grad = grad_block(job, index % grads);
    struct wino_product product = {.left = y_points(job, block, grad.row_block),
                                   .right = x_points(job, block, grad.col_block),
                                   .left_point = pass->left_point,
                                   .right_point = pass->right_point,
                                   .right_panel =
                                       pass->block * (size_t)job->isa->tile_cols,
                                   .result = grad_result(job, block, &grad, thread),
                                   .result_point = WINO_GRAD_POINT,
                                   .points = WINO_POINTS / pass->point_tasks,
                                   .channels = grad.rows,
                                   .cols = 4 * WINO_PHASE(grad.channels),
                                   .accumulate = job->first > 0};
    product.first_point = (int)(task % (size_t)pass->point_tasks) * product.points;
    rows_of_span(job, span_of(job, block, 0, pass->block), product.tiles);
    job->isa->wino_multiply_columns(&product);
    int is_last = job->first + job->tiles == job->winograd->tiles;
    if (is_last && pass->point_tasks == 1)
        gather_grad(job, &grad, 0, grad.rows, thread);
}

/* Some rows of a block of the weights, once all of its points are there. */
static void gather_grad_task(void *job_pointer, size_t task, int thread)
{
    enum { ROWS = WINO_ROWS / GATHER_TASKS };
    const struct wino_job *job = job_pointer;
    struct grad_block grad = grad_block(job, task / GATHER_TASKS);
    int first = (int)(task % GATHER_TASKS) * ROWS;
    gather_grad(job, &grad, first, at_most(grad.rows, first + ROWS), thread);
}

void winograd_wgrad(const struct winograd *winograd, struct device *device,
                    const struct tensor *x, const struct tensor *dy, enum dtype dtype,
                    float *grad, int accumulate)
{
    struct cpu_backend *backend = cpu_backend(device);
    const struct wino_pass *pass = &winograd->wgrad;
    size_t rows = (size_t)pass->depth_steps, cols = (size_t)pass->col_blocks;
    struct wino_job job = {.winograd = winograd,
                           .pass = pass,
                           .isa = backend->isa,
                           .scratch = backend->scratch,
                           .threads = backend->threads,
                           .x = image_of(winograd, x),
                           .y = image_of(winograd, dy),
                           .dtype = dtype,
                           .grad = grad,
                           .accumulate = accumulate};
    run_chunks(device, &job, rows + cols, spread_both_task,
               rows * cols * (size_t)pass->point_tasks, wgrad_task);
    if (pass->point_tasks == 1)
        return;
    cpu_parallel(device, rows * cols * GATHER_TASKS, gather_grad_task, &job);
}
