/* rows.cuh - how a grid walks a tensor: rows (n, h, w) of channels, eight a thread.
 * Flow:  an op makes views and a cover of its tensors -> its kernel asks place_of() where
 *        a thread stands, then loads and stores groups of eight channels.
 * Owns:  nothing.
 *
 * A block is a tile: 2^lane_bits lanes side by side over groups of eight channels, the
 * other bits of the thread's number over rows. So a thread keeps its channels, and what
 * it knows of them, while it walks down the rows, and a warp reads whole lines of memory.
 */
#ifndef KERNELS_CUDA_ROWS_CUH
#define KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

/* ---- a tensor, as a kernel takes it ---------------------------------------------- */

struct rows {
    void *data;
    enum dtype dtype;
    int c, c_stored;
    unsigned n, n_stored; // rows that the shape names, and that are stored
    int is_wide;          // groups may be read and written 16 bytes at a time
};

static inline struct rows rows_of(const struct tensor *t)
{
    size_t pixels = (size_t)t->shape.h * (size_t)t->shape.w;
    size_t stored = (size_t)t->n_stored * pixels;
    CHECK(stored < (size_t)1 << 31, "%zu rows", stored);
    struct rows rows;
    rows.data = t->data;
    rows.dtype = t->dtype;
    rows.c = t->shape.c;
    rows.c_stored = t->c_stored;
    rows.n = (unsigned)((size_t)t->shape.n * pixels);
    rows.n_stored = (unsigned)stored;
    rows.is_wide = t->c_stored % 8 == 0 && cuda_is_aligned(t->data);
    return rows;
}

/* Aborts unless the two have the same shape. */
static inline void check_shapes(const char *op, const struct tensor *a,
                                const struct tensor *b)
{
    char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
    CHECK(shape_equal(a->shape, b->shape), "%s: %s and %s", op,
          shape_text(a->shape, a_text), shape_text(b->shape, b_text));
}

/* Channels c..c+7 of a row; what is not stored reads as zero. */
CUDA_INLINE struct eight load_group(const struct rows &t, unsigned row, int c)
{
    return load_eight(t.data, t.dtype, (size_t)row * t.c_stored + c, t.c_stored - c,
                      t.is_wide);
}

/* Stores them, and zeros beyond the shape's channels. */
CUDA_INLINE void store_group(const struct rows &t, unsigned row, int c,
                             struct eight value)
{
    for (int j = 0; j < 8; j++)
        if (c + j >= t.c)
            value.v[j] = 0.0f;
    store_eight(t.data, t.dtype, (size_t)row * t.c_stored + c, t.c_stored - c, t.is_wide,
                value);
}

/* Entries c..c+7 of a vector over the channels; zeros beyond. */
CUDA_INLINE struct eight load_channels(const float *vector, int c, int channels)
{
    int is_wide = (reinterpret_cast<uintptr_t>(vector) & 15u) == 0;
    return load_eight(vector, DTYPE_F32, c, channels - c, is_wide);
}

/* ---- where a thread stands ------------------------------------------------------- */

struct place {
    unsigned row, row_step;
    int c; // the first of its eight channels
};

CUDA_INLINE struct place place_of(int lane_bits)
{
    unsigned lanes = 1u << lane_bits, height = CUDA_THREADS >> lane_bits;
    struct place place;
    place.c = (int)(blockIdx.y * lanes + (threadIdx.x & (lanes - 1))) * 8;
    place.row = blockIdx.x * height + (threadIdx.x >> lane_bits);
    place.row_step = gridDim.x * height;
    return place;
}

/* Zeros in the rows beyond the shape, which padded weights have. */
CUDA_INLINE void clear_rows(const struct rows &t, struct place at)
{
    struct eight zeros = {};
    for (unsigned row = t.n + at.row; row < t.n_stored; row += at.row_step)
        store_group(t, row, at.c, zeros);
}

/* A grid of tiles over `rows` rows of `channels` stored channels. */
struct cover {
    dim3 grid;
    int lane_bits;
};

static inline struct cover tiles_over(int channels)
{
    unsigned groups = (unsigned)(channels + 7) / 8;
    struct cover cover;
    cover.lane_bits = 0;
    while (cover.lane_bits < 5 && 1u << cover.lane_bits < groups)
        cover.lane_bits++;
    cover.grid = dim3(1, (groups + (1u << cover.lane_bits) - 1) >> cover.lane_bits);
    return cover;
}

/* For kernels in which no thread needs another: as many blocks as fill the device. */
static inline struct cover cover_rows(const struct device *device, unsigned rows,
                                      int channels)
{
    struct cover cover = tiles_over(channels);
    unsigned height = CUDA_THREADS >> cover.lane_bits;
    unsigned blocks = (rows + height - 1) / height;
    unsigned most = (unsigned)cuda_backend(device)->multiprocessors * 8 / cover.grid.y;
    cover.grid.x = blocks < most ? blocks : most;
    if (cover.grid.x < 1)
        cover.grid.x = 1;
    return cover;
}

/* ---- sums over rows -------------------------------------------------------------- */

/* A sum over the rows is made in two kernels, in an order that the sizes alone decide:
 * each block leaves its sums in backend->partial, in f32, then cuda_finish_sums() adds
 * them in f64.
 *   partial [blocks][kinds][c_padded]   kinds: how many sums per channel, 1 or 2 */

/* For kernels that end in leave_sums(): a grid that does not depend on the device. */
struct cover cuda_cover_sums(unsigned rows, int channels, int kinds);

/* first[c] and second[c] = (accumulate ? what is there : 0) + the sum, c < channels. With
 * `second` NULL there is one kind. */
void cuda_finish_sums(struct device *device, const char *op, struct cover cover,
                      int channels, float *first, float *second, int accumulate);

/* Every thread of the block gives its sums of eight channels. The first lanes get the
 * block's. */
CUDA_INLINE struct eight sum_tile(struct eight sum, int lane_bits)
{
    __shared__ float held[8][CUDA_THREADS];
    unsigned t = threadIdx.x;
    __syncthreads(); // the use before this one has ended
    for (int j = 0; j < 8; j++)
        held[j][t] = sum.v[j];
    for (unsigned half = CUDA_THREADS / 2; half >> lane_bits; half >>= 1) {
        __syncthreads();
        if (t < half)
            for (int j = 0; j < 8; j++)
                held[j][t] += held[j][t + half];
    }
    for (int j = 0; j < 8; j++)
        sum.v[j] = held[j][t];
    return sum;
}

/* Leaves the block's sums of one kind. */
CUDA_INLINE void leave_sums(float *partial, struct eight sum, int kind, int kinds,
                            int lane_bits)
{
    sum = sum_tile(sum, lane_bits);
    if (threadIdx.x >> lane_bits)
        return;
    int c_padded = (int)(gridDim.y << lane_bits) * 8;
    size_t place = ((size_t)blockIdx.x * kinds + kind) * c_padded;
    store_eight(partial, DTYPE_F32, place + place_of(lane_bits).c, 8, 1, sum);
}

#endif
