#include "kernels/cpu/winograd.h"

enum {
    TASKS_WANTED = 16,
    TASKS_OF_THREAD = 4, // of a chunk
    TILE_SLACK = 16,     // rows that the last register tile may read too many
    PLANE_MOST = GEMM_ROWS * GEMM_LEFT_STEP, // room of scratch.left
    // Of a chunk's points: 2 MB and 8 MB. Smaller than a second- and a third-level cache
    // they were the fastest; wgrad's results are read and written once for each chunk.
    CHUNK_FLOATS = 1 << 19,
    GRAD_CHUNK_FLOATS = 2 << 20,
    // Blocks of weights up to which wgrad's tiles are cut into parts: each thread then
    // keeps to its own, and the parts of so few weights are soon added.
    WEIGHTS_FEW = 3,
};
_Static_assert(WEIGHTS_FEW < TASKS_OF_THREAD, "where there are parts, points are tasks");

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t round_up(size_t a, size_t b)
{
    return ceil_div(a, b) * b;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- cutting --------------------------------------------------------------------- */

/* Cuts tiles into blocks and chunks, both of whole `unit`s: the tiles that a task must
 * have together. Blocks decide in which order sums are added, and follow from the shape
 * alone; chunks do not, and give each thread some tasks. */
static void cut_tiles(struct wino_pass *pass, size_t tiles, size_t unit, int threads)
{
    size_t tile_floats = (size_t)pass->depth_steps * WINO_POINTS * WINO_LEFT_STEP;
    size_t cols = (size_t)pass->col_blocks, most = WINO_TILES / unit * unit;
    while (cols * ceil_div(tiles, most) < TASKS_WANTED && most / 2 / unit * unit >= 48)
        most = most / 2 / unit * unit;
    most = least(most, tiles);
    size_t by_size = CHUNK_FLOATS / (most * tile_floats);
    size_t by_tasks = ceil_div(TASKS_OF_THREAD * (size_t)threads, cols);
    pass->point_tasks = 1;
    pass->block = most;
    pass->blocks = ceil_div(tiles, most);
    pass->chunk = least(most * (by_size > by_tasks ? by_size : by_tasks), tiles);
    pass->left_point = (pass->block + TILE_SLACK) * WINO_LEFT_STEP + WINO_PAD;
    pass->points_floats = (size_t)pass->depth_steps * WINO_POINTS * pass->left_point;
    pass->block_floats = pass->points_floats;
    // Each thread keeps the weights' points where they are few and it has several blocks.
    size_t rights = (size_t)pass->depth_steps * cols;
    if (rights <= WINO_RIGHTS && pass->blocks >= 2 * (size_t)threads)
        pass->right_floats = rights * WINO_POINTS * WINO_RIGHT_POINT;
}

static void plan_forward(struct winograd *winograd, const struct cpu_backend *backend)
{
    const struct conv_desc *d = &winograd->desc;
    struct wino_pass *pass = &winograd->forward;
    pass->depth_steps = (d->x.c + WINO_CHANNELS - 1) / WINO_CHANNELS;
    pass->col_blocks = (d->y.c + WINO_COLS - 1) / WINO_COLS;
    cut_tiles(pass, winograd->tiles, 1, backend->threads);
    size_t packed = round_up((size_t)d->y.c, (size_t)backend->isa->tile_cols) * 16;
    pass->workspace_floats = packed * (size_t)d->x.c + pass->blocks * 2 * (size_t)d->y.c;
}

static int plan_dgrad(struct winograd *winograd, int threads)
{
    const struct conv_desc *d = &winograd->desc;
    struct wino_pass *pass = &winograd->dgrad;
    size_t per_sample = (size_t)winograd->tiling.h * (size_t)winograd->tiling.w;
    size_t plane =
        (size_t)(4 * winograd->tiling.h + 1) * (size_t)(4 * winograd->tiling.w + 1);
    if (per_sample > WINO_TILES || plane * WINO_CHANNELS > PLANE_MOST)
        return 0;
    pass->depth_steps = (d->y.c + WINO_DEPTH - 1) / WINO_DEPTH;
    pass->col_blocks = 4 * ((d->x.c + WINO_COLS - 1) / WINO_COLS);
    cut_tiles(pass, winograd->tiles, per_sample, threads);
    pass->workspace_floats = pass->blocks * 4 * 2 * (size_t)d->x.c;
    return 1;
}

int winograd_keeps_results(const struct winograd *winograd)
{
    const struct wino_pass *pass = &winograd->wgrad;
    return pass->block < winograd->tiles || pass->point_tasks > 1;
}

static void plan_wgrad(struct winograd *winograd, int threads)
{
    const struct conv_desc *d = &winograd->desc;
    struct wino_pass *pass = &winograd->wgrad;
    pass->depth_steps = (d->y.c + WINO_ROWS - 1) / WINO_ROWS;
    pass->col_blocks = (d->x.c + WINO_CHANNELS - 1) / WINO_CHANNELS;
    size_t rows = (size_t)pass->depth_steps, cols = (size_t)pass->col_blocks;
    pass->point_tasks = rows * cols < TASKS_OF_THREAD * (size_t)threads ? 5 : 1;
    size_t tile_floats = WINO_POINTS * (rows * WINO_ROWS + cols * WINO_DEPTH);
    size_t chunks = ceil_div(winograd->tiles * tile_floats, GRAD_CHUNK_FLOATS);
    pass->chunk = round_up(ceil_div(winograd->tiles, chunks), WINO_DEPTH);
    pass->chunk = least(pass->chunk, winograd->tiles);
    // By the shape alone, since blocks decide in which order sums are added.
    int parts = rows * cols <= WEIGHTS_FEW && chunks == 1 ? WINO_GRAD_PARTS : 1;
    pass->block = round_up(ceil_div(pass->chunk, (size_t)parts), WINO_DEPTH);
    pass->block = least(pass->block, pass->chunk);
    pass->blocks = ceil_div(winograd->tiles, pass->block);
    pass->left_point = pass->block * WINO_ROWS + WINO_PAD;
    pass->right_point = pass->block * WINO_DEPTH + WINO_PAD;
    pass->points_floats =
        WINO_POINTS * (rows * pass->left_point + cols * pass->right_point) + TILE_SLACK;
    pass->block_floats = pass->points_floats;
    if (winograd_keeps_results(winograd))
        pass->block_floats += rows * cols * WINO_POINTS * WINO_GRAD_POINT;
}

size_t winograd_slab_floats(const struct winograd *winograd, const struct wino_pass *pass,
                            int threads, int thread)
{
    size_t most = 0, all = ceil_div(least(pass->chunk, winograd->tiles), pass->block);
    for (size_t blocks = 1; blocks <= all; blocks++) { // the last chunk has fewer
        size_t share =
            pool_share(blocks, threads, thread + 1) - pool_share(blocks, threads, thread);
        most = share > most ? share : most;
    }
    return pass->right_floats + most * pass->block_floats;
}

struct wino_fits winograd_plan(struct winograd *winograd, const struct conv_desc *desc,
                               const struct cpu_backend *backend)
{
    *winograd = (struct winograd){.desc = *desc};
    if (desc->kernel != 4 || desc->stride != 2 || desc->pad != 1)
        return (struct wino_fits){0};
    winograd->tiling = (struct wino_tiling){(desc->y.h + 3) / 4, (desc->y.w + 3) / 4,
                                            desc->y.h / 4, desc->y.w / 4};
    winograd->tiles =
        (size_t)desc->y.n * (size_t)winograd->tiling.h * (size_t)winograd->tiling.w;
    plan_forward(winograd, backend);
    plan_wgrad(winograd, backend->threads);
    return (struct wino_fits){1, plan_dgrad(winograd, backend->threads), 1};
}

/* The rows of all 25 products together. */
static double product_rows(const struct winograd *winograd)
{
    double rows = 0;
    for (int e = 0; e < WINO_POINTS; e++)
        rows += (double)wino_row(&winograd->tiling, WINO_CLASS(e), winograd->tiles);
    return rows;
}

double winograd_multiplications(const struct winograd *winograd)
{
    const struct conv_desc *d = &winograd->desc;
    return product_rows(winograd) * 4 * d->x.c * d->y.c;
}

/* ---- estimating ------------------------------------------------------------------ */

// What one number costs that a transform makes or takes, in multiply-adds of the
// products: measured with AVX-512 on an AMD Zen 5 core, from a profile of the layers of
// DCGAN-64 at batch 64. Both scale with the width of a vector.
#define COST_X_POINT 20.0      // of x or dx
#define COST_Y_POINT 16.0      // of y or dy
#define COST_PACKED_WEIGHT 5.0 // forward, whose weights were packed before
#define COST_PLAIN_WEIGHT 12.0 // dgrad, once for each block of tiles
#define COST_WEIGHT_GRAD 16.0
// What the direct passes take for a multiply-add, with packing, in the same measurement.
// By dot products of bf16 pairs, which Winograd cannot use since its transformed operands
// rounded to bf16 have four times the error of a result's rounding, they take about half
// of it: as long as Winograd or up to a third longer, on an AMD Zen 4 core, in turns, for
// the layers of DCGAN-28 to DCGAN-64. So bf16 makes no difference to the choice.
static const double direct_cost[PASS_KINDS] = {
    [PASS_FORWARD] = 1.15, [PASS_DGRAD] = 1.15, [PASS_WGRAD] = 1.25};

// Fewer would exceed twice the direct way's error, whose sums are then short themselves.
enum { CHANNELS_LEAST = 24, OUTPUTS_LEAST = 48, TILES_LEAST = 16 };

struct wino_estimate winograd_estimate(const struct winograd *winograd,
                                       enum pass_kind pass)
{
    const struct conv_desc *d = &winograd->desc;
    double rows = product_rows(winograd);
    double c = d->x.c, c_padded = (double)round_up((size_t)d->x.c, WINO_CHANNELS / 2);
    double k = d->y.c, c_cols = (double)round_up((size_t)d->x.c, 8);
    double k_cols = (double)round_up((size_t)d->y.c, 8);
    double weights = 4 * WINO_POINTS * c * k;
    double x_cost = COST_X_POINT * 4 * rows;
    double y_cost = COST_Y_POINT * rows * k;
    double direct = 16.0 * d->y.n * d->y.h * d->y.w * c * k;
    const struct wino_pass *f = &winograd->forward, *g = &winograd->dgrad;

    double forward = rows * 4 * c_padded * k_cols + x_cost * c_padded + y_cost +
                     COST_PACKED_WEIGHT * weights * (double)f->blocks;
    double dgrad = rows * k * 4 * c_cols + x_cost * c_cols + y_cost +
                   COST_PLAIN_WEIGHT * weights * (double)g->blocks;
    double wgrad = rows * k_cols * 4 * c_padded + x_cost * c_padded + y_cost +
                   COST_WEIGHT_GRAD * weights;
    const struct wino_estimate of_pass[] = {
        [PASS_FORWARD] = {forward, direct_cost[PASS_FORWARD] * direct,
                          d->x.c >= CHANNELS_LEAST},
        [PASS_DGRAD] = {dgrad, direct_cost[PASS_DGRAD] * direct, d->y.c >= OUTPUTS_LEAST},
        [PASS_WGRAD] = {wgrad, direct_cost[PASS_WGRAD] * direct,
                        winograd->tiles >= TILES_LEAST},
    };
    return of_pass[pass];
}
