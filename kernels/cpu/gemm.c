#include "kernels/cpu/gemm.h"

#include <string.h>

/* What the tasks of one run share. */
struct gemm_job {
    const struct product *product;
    const struct isa *isa;
    struct scratch *scratch;
    const struct tensor *left, *weights;
    struct tensor *out;
    float *right;      // packed panels
    float *thin;       // [cols][padded depth] per phase, when columns are few
    const float *bias; // [cols] or NULL
    float *sums;       // [row_blocks][2][cols] or NULL
    struct conv_epilogue epilogue;
};

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t round_up(size_t a, size_t b)
{
    return ceil_div(a, b) * b;
}

static int is_thin(const struct product *product)
{
    return product->cols <= THIN_COLS;
}

/* Depth of one thin column in the workspace. */
static size_t thin_depth(const struct phase *phase)
{
    return round_up((size_t)phase->depth, DOT_LANES);
}

/* Blocks of rows as even as they can be, of at most GEMM_ROWS; smaller where there would
 * be too few tasks to share among threads. */
static void plan_blocks(struct product *product)
{
    enum { TASKS_WANTED = 16, ROWS_MIN = 24 };
    product->col_block = product->cols < GEMM_COLS ? product->cols : GEMM_COLS;
    product->col_blocks = ceil_div((size_t)product->cols, (size_t)product->col_block);
    for (int limit = GEMM_ROWS;; limit /= 2) {
        product->row_block = limit;
        product->row_blocks = 0;
        for (int i = 0; i < product->phase_count; i++) {
            struct phase *phase = &product->phases[i];
            phase->first_block = product->row_blocks;
            phase->blocks = ceil_div(phase->rows, (size_t)limit);
            product->row_blocks += phase->blocks;
        }
        if (product->row_blocks * product->col_blocks >= TASKS_WANTED ||
            limit <= ROWS_MIN)
            break;
    }
}

void gemm_plan(struct product *product, const struct isa *isa)
{
    size_t panels = ceil_div((size_t)product->cols, (size_t)isa->tile_cols);
    size_t right = 0, thin = 0;
    for (int i = 0; i < product->phase_count; i++) {
        struct phase *phase = &product->phases[i];
        phase->right_offset = right;
        right += panels * (size_t)isa->tile_cols * (size_t)phase->depth;
        thin += THIN_COLS * thin_depth(phase);
    }
    plan_blocks(product);
    product->right_floats = right;
    product->workspace_floats = right + (is_thin(product) ? thin : 0) +
                                (size_t)product->cols * (1 + 2 * product->row_blocks) +
                                64;
}

/* ---- packing the weights --------------------------------------------------------- */

/* One panel of a phase: rows (tap, k) of the weights, tap by tap. */
static void pack_panel(const struct gemm_job *job, const struct phase *phase,
                       size_t panel)
{
    const struct product *product = job->product;
    const struct isa *isa = job->isa;
    const struct tensor *w = job->weights;
    int col = (int)panel * isa->tile_cols;
    int cols =
        product->cols - col < isa->tile_cols ? product->cols - col : isa->tile_cols;
    float *to = job->right + phase->right_offset +
                panel * (size_t)isa->tile_cols * (size_t)isa_floats(isa, phase->depth);
    if (product->is_turned) {
        size_t step = (size_t)phase->depth;
        isa->pack_right_turned(w->data, w->dtype, (size_t)col * step, step, phase->depth,
                               cols, to);
        return;
    }
    const struct window *window = &phase->window;
    size_t step = (size_t)product->kernel * (size_t)product->kernel *
                  (size_t)product->weight_channels;
    for (int r = 0; r < window->taps_h; r++) {
        for (int s = 0; s < window->taps_w; s++) {
            int tap = (phase->tap_h - r * product->weight_step) * product->kernel +
                      phase->tap_w - s * product->weight_step;
            size_t offset = (size_t)tap * (size_t)product->weight_channels + (size_t)col;
            isa->pack_right(w->data, w->dtype, offset, step, window->channels, cols, to);
            to += (size_t)(isa_floats(isa, window->channels) * isa->tile_cols);
        }
    }
}

/* Columns of the only panel, as rows: [cols][thin_depth], padded with zeros. */
static void turn_thin(const struct gemm_job *job, const struct phase *phase, float *to)
{
    const float *panel = job->right + phase->right_offset;
    size_t depth = (size_t)phase->depth, step = thin_depth(phase);
    for (int n = 0; n < job->product->cols; n++, to += step) {
        for (size_t k = 0; k < step; k++)
            to[k] = k < depth ? panel[k * (size_t)job->isa->tile_cols + (size_t)n] : 0.0f;
    }
}

/* The same from weights that have each column in one row. */
static void widen_thin(const struct gemm_job *job, const struct phase *phase, float *to)
{
    const struct tensor *w = job->weights;
    size_t depth = (size_t)phase->depth, step = thin_depth(phase);
    for (int n = 0; n < job->product->cols; n++, to += step) {
        struct sweep row = {.a = (const char *)w->data +
                                 (size_t)n * depth * dtype_bytes(w->dtype),
                            .a_dtype = w->dtype,
                            .out = to,
                            .out_dtype = DTYPE_F32,
                            .count = depth};
        job->isa->cast(&row);
        for (size_t k = depth; k < step; k++)
            to[k] = 0.0f;
    }
}

static float *thin_of(const struct gemm_job *job, const struct phase *phase)
{
    float *to = job->thin;
    for (const struct phase *p = job->product->phases; p < phase; p++)
        to += THIN_COLS * thin_depth(p);
    return to;
}

static void pack_task(void *job_pointer, size_t task, int thread)
{
    (void)thread;
    const struct gemm_job *job = job_pointer;
    size_t panels = ceil_div((size_t)job->product->cols, (size_t)job->isa->tile_cols);
    const struct phase *phase = &job->product->phases[task / panels];
    if (is_thin(job->product) && job->product->is_turned) {
        widen_thin(job, phase, thin_of(job, phase));
        return;
    }
    pack_panel(job, phase, task % panels);
    if (is_thin(job->product))
        turn_thin(job, phase, thin_of(job, phase));
}

/* ---- multiplying ----------------------------------------------------------------- */

/* The part of the output that one task makes. */
struct part {
    const struct phase *phase;
    struct window window;
    size_t row; // first, within the phase
    int rows, col, cols;
    size_t sums_slot;
};

static struct part part_of(const struct gemm_job *job, size_t task)
{
    const struct product *product = job->product;
    size_t block = task / product->col_blocks, col_index = task % product->col_blocks;
    const struct phase *phase = product->phases;
    while (block >= phase->first_block + phase->blocks)
        phase++;
    struct part part = {.phase = phase, .window = phase->window, .sums_slot = block};
    part.window.data = job->left->data;
    part.window.dtype = job->left->dtype;
    part.row = (block - phase->first_block) * (size_t)product->row_block;
    size_t rows = phase->rows - part.row;
    part.rows = rows < (size_t)product->row_block ? (int)rows : product->row_block;
    part.col = (int)col_index * product->col_block;
    int cols = product->cols - part.col;
    part.cols = cols < product->col_block ? cols : product->col_block;
    return part;
}

static void multiply_part(const struct gemm_job *job, const struct part *part,
                          struct scratch *scratch)
{
    const struct isa *isa = job->isa;
    int depth = part->phase->depth, thin = is_thin(job->product);
    size_t tile_cols = (size_t)isa->tile_cols;
    struct block block = {.left = scratch->left,
                          .result = scratch->result,
                          .result_step = thin ? (size_t)part->cols : GEMM_RESULT_STEP,
                          .rows = part->rows,
                          .cols = part->cols};
    if (depth == 0) // no tap reaches these pixels
        memset(scratch->result, 0,
               (size_t)part->rows * block.result_step * sizeof(float));
    for (int k = 0; k < depth; k += isa_depth(isa)) {
        int elements = depth - k < isa_depth(isa) ? depth - k : isa_depth(isa);
        block.depth = isa_floats(isa, elements);
        block.accumulate = k > 0;
        isa->pack_window(&part->window, part->row, part->rows, k, elements, scratch->left,
                         GEMM_LEFT_STEP);
        if (thin) {
            block.right = thin_of(job, part->phase) + k;
            block.right_panel_step = thin_depth(part->phase);
            isa->multiply_thin(&block);
        } else {
            block.right_panel_step = (size_t)isa_floats(isa, depth) * tile_cols;
            block.right = job->right + part->phase->right_offset +
                          (size_t)part->col / tile_cols * block.right_panel_step +
                          (size_t)isa_floats(isa, k) * tile_cols;
            isa->multiply_rows(&block);
        }
    }
}

/* Output element of the first column of each row of a part, row after row. */
struct place {
    size_t sample;
    int a, b;
};

static size_t place_index(const struct product *product, const struct phase *phase,
                          const struct place *place)
{
    size_t y = (size_t)(phase->out_top + place->a * product->out_step);
    size_t x = (size_t)(phase->out_left + place->b * product->out_step);
    return ((place->sample * (size_t)product->out_h + y) * (size_t)product->out_w + x) *
           (size_t)product->cols;
}

static void place_next(const struct window *window, struct place *place)
{
    if (++place->b < window->grid_w)
        return;
    place->b = 0;
    if (++place->a < window->grid_h)
        return;
    place->a = 0;
    place->sample++;
}

static struct place place_of(const struct window *window, size_t row)
{
    size_t line = row / (size_t)window->grid_w;
    return (struct place){line / (size_t)window->grid_h,
                          (int)(line % (size_t)window->grid_h),
                          (int)(row % (size_t)window->grid_w)};
}

static void finish_wide(const struct gemm_job *job, const struct part *part,
                        const float *result)
{
    const struct product *product = job->product;
    struct finish_rows rows = {
        .finish = {.bias = job->bias ? job->bias + part->col : NULL,
                   .activation = job->epilogue.activation,
                   .slope = job->epilogue.slope,
                   .dtype = job->out->dtype},
        .sums = result,
        .sums_step = GEMM_RESULT_STEP,
        .cols = part->cols,
        .out = job->out->data,
        .out_step = (size_t)product->out_step * (size_t)product->cols};
    if (job->sums) {
        rows.sum = job->sums + 2 * part->sums_slot * (size_t)product->cols + part->col;
        rows.sumsq = rows.sum + product->cols;
        memset(rows.sum, 0, (size_t)part->cols * sizeof *rows.sum);
        memset(rows.sumsq, 0, (size_t)part->cols * sizeof *rows.sumsq);
    }
    struct place place = place_of(&part->window, part->row);
    for (int done = 0; done < part->rows; done += rows.rows) {
        int of_line = part->window.grid_w - place.b, left = part->rows - done;
        // Without gaps between them the rows of all lines follow each other.
        rows.rows = product->out_step == 1 || left < of_line ? left : of_line;
        rows.index = place_index(product, part->phase, &place) + (size_t)part->col;
        job->isa->finish_rows(&rows);
        rows.sums += (size_t)rows.rows * GEMM_RESULT_STEP;
        place.b += rows.rows - 1;
        place_next(&part->window, &place);
    }
}

/* Few columns: bias, activation and rounding run over the block as one flat array, and
 * only the store is pixel by pixel. */
static void finish_thin(const struct gemm_job *job, const struct part *part,
                        float *result)
{
    const struct product *product = job->product;
    struct finish finish = {.activation = job->epilogue.activation,
                            .slope = job->epilogue.slope,
                            .dtype = job->out->dtype};
    unsigned char stored[GEMM_ROWS * THIN_COLS * sizeof(float)];
    int count = part->rows * part->cols;
    for (int i = 0; job->bias && i < count; i++)
        result[i] += job->bias[i % part->cols];
    job->isa->finish_flat(result, (size_t)count, &finish, stored);

    size_t bytes = dtype_bytes(job->out->dtype), row_bytes = bytes * (size_t)part->cols;
    struct place place = place_of(&part->window, part->row);
    for (int i = 0; i < part->rows; i++, place_next(&part->window, &place)) {
        unsigned char *to = (unsigned char *)job->out->data;
        memcpy(to + place_index(product, part->phase, &place) * bytes,
               stored + (size_t)i * row_bytes, row_bytes);
    }
    if (!job->sums)
        return;
    float *sum = job->sums + 2 * part->sums_slot * (size_t)product->cols;
    memset(sum, 0, 2 * (size_t)part->cols * sizeof *sum);
    for (int i = 0; i < count; i++) {
        sum[i % part->cols] += result[i];
        sum[part->cols + i % part->cols] += result[i] * result[i];
    }
}

static void multiply_task(void *job_pointer, size_t task, int thread)
{
    const struct gemm_job *job = job_pointer;
    struct part part = part_of(job, task);
    struct scratch *scratch = &job->scratch[thread];
    multiply_part(job, &part, scratch);
    if (is_thin(job->product))
        finish_thin(job, &part, scratch->result);
    else
        finish_wide(job, &part, scratch->result);
}

/* sum[c], sumsq[c] over all blocks of rows and over the columns of channel c, in order.
 */
static void combine_sums(const struct gemm_job *job)
{
    const struct product *product = job->product;
    for (int c = 0; c < product->channels; c++) {
        double sum = 0, sumsq = 0;
        for (size_t block = 0; block < product->row_blocks; block++) {
            const float *from = job->sums + 2 * block * (size_t)product->cols;
            for (int col = c; col < product->cols; col += product->channels) {
                sum += (double)from[col];
                sumsq += (double)from[product->cols + col];
            }
        }
        job->epilogue.sum[c] = (float)sum;
        job->epilogue.sumsq[c] = (float)sumsq;
    }
}

/* What must be even for pairs: the depth, or that of a tap where they are packed one by
 * one. */
static int pair_depth(const struct product *product)
{
    const struct phase *phase = product->phases;
    return product->is_turned ? phase->depth : phase->window.channels;
}

const struct isa *gemm_isa(const struct product *product, const struct isa *isa,
                           enum dtype left, enum dtype weights)
{
    if (is_thin(product) || product->phases->depth < PAIRS_LEAST)
        return isa;
    return isa_for(isa, left, weights, pair_depth(product));
}

double gemm_multiplications(const struct product *product)
{
    double multiplications = 0;
    for (int i = 0; i < product->phase_count; i++)
        multiplications +=
            (double)product->phases[i].rows * product->phases[i].depth * product->cols;
    return multiplications;
}

void gemm_run(const struct product *product, struct device *device,
              const struct tensor *left, const struct tensor *weights,
              const struct conv_epilogue *epilogue, struct tensor *out)
{
    struct cpu_backend *backend = cpu_backend(device);
    struct gemm_job job = {
        .product = product,
        .isa = gemm_isa(product, backend->isa, left->dtype, weights->dtype),
        .scratch = backend->scratch,
        .left = left,
        .weights = weights,
        .out = out,
        .right = backend->workspace};
    if (epilogue)
        job.epilogue = *epilogue;
    float *free_space = job.right + product->right_floats;
    if (is_thin(product)) {
        job.thin = free_space;
        for (int i = 0; i < product->phase_count; i++)
            free_space += THIN_COLS * thin_depth(&product->phases[i]);
    }
    if (job.epilogue.bias) {
        for (int i = 0; i < product->cols; i++)
            free_space[i] = job.epilogue.bias[i % product->channels];
        job.bias = free_space;
        free_space += product->cols;
    }
    if (job.epilogue.sum)
        job.sums = free_space;

    size_t panels = ceil_div((size_t)product->cols, (size_t)backend->isa->tile_cols);
    cpu_parallel(device, (size_t)product->phase_count * panels, pack_task, &job);
    cpu_parallel(device, product->row_blocks * product->col_blocks, multiply_task, &job);
    if (job.sums)
        combine_sums(&job);
}
