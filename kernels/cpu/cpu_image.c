/* cpu_image.c - pixels in, pixels out, and latents, one sample or row to a task. */
#include "kernels/cpu/backend.h"
#include "kernels/half.h"

struct image_job {
    const struct tensor *from;
    struct tensor *to;
    // What each pixel value becomes, in f32 and as a half of to's dtype.
    float values[256];
    uint16_t halves[256];
    int mirror;
    uint64_t seed, step, first_row;
    uint32_t stream;
};

/* `count` channels, one after the other. */
static void copy_run(const struct image_job *job, size_t from, size_t to, size_t count)
{
    const unsigned char *pixels = (const unsigned char *)job->from->data + from;
    if (job->to->dtype == DTYPE_F32) {
        float *out = (float *)job->to->data + to;
        for (size_t i = 0; i < count; i++)
            out[i] = job->values[pixels[i]];
    } else {
        uint16_t *out = (uint16_t *)job->to->data + to;
        for (size_t i = 0; i < count; i++)
            out[i] = job->halves[pixels[i]];
    }
}

static void from_u8_task(void *job_pointer, size_t sample, int thread)
{
    (void)thread;
    const struct image_job *job = job_pointer;
    struct shape s = job->from->shape;
    size_t from_step = (size_t)job->from->c_stored, to_step = (size_t)job->to->c_stored;
    size_t w = (size_t)s.w, c = (size_t)s.c, lines = (size_t)s.h;
    size_t first = sample * lines * w;
    uint64_t row = job->first_row + sample;
    int flip =
        job->mirror && (philox(job->seed, STREAM_FLIP, job->step, row).word[0] & 1u);
    if (!flip && from_step == c && to_step == c) {
        copy_run(job, first * c, first * c, lines * w * c);
        return;
    }
    for (size_t line = first; line < first + lines * w; line += w)
        for (size_t x = 0; x < w; x++)
            copy_run(job, (line + (flip ? w - 1 - x : x)) * from_step,
                     (line + x) * to_step, c);
}

static void cpu_image_from_u8(struct device *device, const struct tensor *pixels,
                              int mirror, uint64_t seed, const uint64_t *step,
                              uint64_t first_row, struct tensor *y)
{
    CHECK(pixels->dtype == DTYPE_U8 && shape_equal(pixels->shape, y->shape),
          "pixels are %s", dtype_name(pixels->dtype));
    struct image_job job = {.from = pixels,
                            .to = y,
                            .mirror = mirror,
                            .seed = seed,
                            .step = step ? *step : 0,
                            .first_row = first_row};
    for (int value = 0; value < 256; value++) {
        job.values[value] = (float)value / 127.5f - 1.0f;
        if (y->dtype != DTYPE_F32)
            element_store(job.halves, y->dtype, (size_t)value, job.values[value]);
    }
    cpu_parallel(device, (size_t)pixels->shape.n, from_u8_task, &job);
}

static unsigned char pixel_of(float x)
{
    float scaled = (x + 1.0f) * 127.5f;
    if (!(scaled > 0.0f)) // NaN too
        return 0;
    return (unsigned char)((scaled < 255.0f ? scaled : 255.0f) + 0.5f);
}

static void to_u8_task(void *job_pointer, size_t sample, int thread)
{
    (void)thread;
    const struct image_job *job = job_pointer;
    struct shape s = job->from->shape;
    size_t pixels = (size_t)s.h * (size_t)s.w;
    unsigned char *to = job->to->data;
    for (size_t i = sample * pixels; i < (sample + 1) * pixels; i++) {
        for (size_t c = 0; c < (size_t)s.c; c++) {
            float x = element_load(job->from->data, job->from->dtype,
                                   i * (size_t)job->from->c_stored + c);
            to[i * (size_t)job->to->c_stored + c] = pixel_of(x);
        }
    }
}

static void cpu_image_to_u8(struct device *device, const struct tensor *x,
                            struct tensor *pixels)
{
    CHECK(pixels->dtype == DTYPE_U8 && shape_equal(pixels->shape, x->shape),
          "pixels are %s", dtype_name(pixels->dtype));
    struct image_job job = {.from = x, .to = pixels};
    cpu_parallel(device, (size_t)x->shape.n, to_u8_task, &job);
}

static void normal_task(void *job_pointer, size_t row, int thread)
{
    (void)thread;
    const struct image_job *job = job_pointer;
    size_t columns = (size_t)job->to->shape.c;
    for (size_t c = 0; c < columns; c += 4) {
        float normal[4];
        philox_normal4(job->seed, job->stream, job->step,
                       ((job->first_row + row) << 20) + c / 4, normal);
        for (size_t i = 0; i < 4 && c + i < columns; i++)
            element_store(job->to->data, job->to->dtype,
                          row * (size_t)job->to->c_stored + c + i, normal[i]);
    }
}

static void cpu_image_normal(struct device *device, uint64_t seed, uint32_t stream,
                             const uint64_t *step, uint64_t first_row, struct tensor *z)
{
    CHECK(z->shape.h == 1 && z->shape.w == 1, "z is %d x %d pixels", z->shape.h,
          z->shape.w);
    struct image_job job = {.to = z,
                            .seed = seed,
                            .stream = stream,
                            .step = step ? *step : 0,
                            .first_row = first_row};
    cpu_parallel(device, (size_t)z->shape.n, normal_task, &job);
}

void cpu_fill_image(struct image_ops *ops)
{
    ops->from_u8 = cpu_image_from_u8;
    ops->to_u8 = cpu_image_to_u8;
    ops->normal = cpu_image_normal;
}
