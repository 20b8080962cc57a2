#include "tests/support/support.h"

#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "kernels/base/status.h"

/* ---- fills ----------------------------------------------------------------------- */

#define STREAM_FILL 0x7e57u // of the tests alone; no run uses it

static float edge_value(uint32_t word, enum dtype dtype)
{
    static const float largest[] = {[DTYPE_F32] = 3.40282347e38f,
                                    [DTYPE_F16] = F16_MAX,
                                    [DTYPE_BF16] = 3.38953139e38f};
    static const float smallest[] = {
        [DTYPE_F32] = 1.4e-45f, [DTYPE_F16] = 5.9604645e-8f, [DTYPE_BF16] = 9.2e-41f};
    switch (word % 10) {
    case 0: return 0.0f;
    case 1: return -0.0f;
    case 2: return largest[dtype];
    case 3: return -largest[dtype];
    case 4: return smallest[dtype];
    case 5: return -smallest[dtype] * 3.0f;
    case 6: return (word >> 8 & 1) ? INFINITY : -INFINITY;
    case 7: return NAN;
    case 8: return 1.0f;
    default: return -1.0f;
    }
}

static float fill_value(enum fill fill, uint64_t seed, size_t element, enum dtype dtype)
{
    struct philox_words words = philox(seed, STREAM_FILL, 0, element);
    float uniform = (float)(words.word[0] >> 8) * (1.0f / 8388608.0f) - 1.0f;
    switch (fill) {
    case FILL_SMALL_INTEGERS: return (float)(int)(words.word[0] % 5) - 2.0f;
    case FILL_ONES: return 1.0f;
    case FILL_EDGE: return words.word[1] % 8 ? uniform : edge_value(words.word[2], dtype);
    default: return uniform;
    }
}

void fill_tensor(struct tensor *tensor, enum fill fill, uint64_t seed)
{
    size_t pixels =
        (size_t)tensor->shape.n * (size_t)tensor->shape.h * (size_t)tensor->shape.w;
    size_t channels = (size_t)tensor->shape.c, stored = (size_t)tensor->c_stored;
    memset(tensor->data, 0, tensor_bytes(tensor));
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        for (size_t c = 0; c < channels; c++) {
            size_t element = pixel * channels + c, place = pixel * stored + c;
            if (tensor->dtype == DTYPE_U8)
                ((uint8_t *)tensor->data)[place] =
                    (uint8_t)philox(seed, STREAM_FILL, 0, element).word[0];
            else
                element_store(tensor->data, tensor->dtype, place,
                              fill_value(fill, seed, element, tensor->dtype));
        }
    }
}

void fill_f32(float *values, size_t n, enum fill fill, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        values[i] = fill_value(fill, seed, i, DTYPE_F32);
}

struct tensor heap_tensor(enum dtype dtype, struct shape shape)
{
    struct tensor tensor = tensor_of(dtype, shape, NULL);
    size_t bytes = tensor_bytes(&tensor);
    size_t room = (bytes + 255) / 256 * 256;
    tensor.data = aligned_alloc(256, room ? room : 256);
    CHECK(tensor.data, "no memory for %zu bytes", bytes);
    memset(tensor.data, 0, room);
    return tensor;
}

/* ---- comparison ------------------------------------------------------------------ */

static int is_close(double got, double want, double absolute, double relative)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= absolute + relative * fabs(want);
}

static double element_value(const struct tensor *tensor, size_t place)
{
    if (tensor->dtype == DTYPE_U8)
        return ((const uint8_t *)tensor->data)[place];
    return (double)element_load(tensor->data, tensor->dtype, place);
}

/* The first element, in the order of the shape, where the two disagree; or the count of
 * elements. The two may be padded differently and may differ in dtype. */
static size_t first_difference(const struct tensor *got, const struct tensor *want,
                               double absolute, double relative)
{
    size_t count = tensor_elements(want), channels = (size_t)want->shape.c;
    for (size_t i = 0; i < count; i++) {
        size_t pixel = i / channels, c = i % channels;
        if (!is_close(element_value(got, pixel * (size_t)got->c_stored + c),
                      element_value(want, pixel * (size_t)want->c_stored + c), absolute,
                      relative))
            return i;
    }
    return count;
}

int compare_tensors_quietly(const struct tensor *got, const struct tensor *want,
                            double absolute, double relative)
{
    return shape_equal(got->shape, want->shape) &&
           first_difference(got, want, absolute, relative) == tensor_elements(want);
}

void assert_tensors_close(const char *op, const struct tensor *got,
                          const struct tensor *want, double absolute, double relative,
                          uint64_t seed)
{
    char got_shape[SHAPE_TEXT], want_shape[SHAPE_TEXT];
    shape_text(got->shape, got_shape);
    shape_text(want->shape, want_shape);
    if (!shape_equal(got->shape, want->shape))
        fail_msg("%s: shape %s, want %s (seed %llu)", op, got_shape, want_shape,
                 (unsigned long long)seed);
    size_t i = first_difference(got, want, absolute, relative);
    if (i == tensor_elements(want))
        return;
    size_t channels = (size_t)want->shape.c, pixel = i / channels, c = i % channels;
    size_t width = (size_t)want->shape.w, height = (size_t)want->shape.h;
    fail_msg("%s: %s %s at [%zu,%zu,%zu,%zu]: got %.9g, want %.9g (seed %llu)", op,
             want_shape, dtype_name(got->dtype), pixel / width / height,
             pixel / width % height, pixel % width, c,
             element_value(got, pixel * (size_t)got->c_stored + c),
             element_value(want, pixel * (size_t)want->c_stored + c),
             (unsigned long long)seed);
}

void assert_f32_close(const char *what, const float *got, const float *want, size_t n,
                      double absolute, double relative, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (!is_close((double)got[i], (double)want[i], absolute, relative))
            fail_msg("%s: element %zu of %zu: got %.9g, want %.9g (seed %llu)", what, i,
                     n, (double)got[i], (double)want[i], (unsigned long long)seed);
}

/* ---- folders and commands -------------------------------------------------------- */

#define FOLDER_PREFIX "twinscale-test-"

const char *make_folder(const char *name)
{
    static char path[PATH_MAX];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/" FOLDER_PREFIX "%s-XXXXXX",
             base && *base ? base : "/tmp", name);
    CHECK(mkdtemp(path), "cannot make the folder %s", path);
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int kind,
                        struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

void remove_folder(const char *path)
{
    CHECK(strstr(path, "/" FOLDER_PREFIX), "%s was not made by make_folder()", path);
    CHECK(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0, "cannot remove %s",
          path);
}

char test_folder[PATH_MAX];

int open_test_folder(void **state)
{
    (void)state;
    snprintf(test_folder, sizeof test_folder, "%s", make_folder("tests"));
    return 0;
}

int close_test_folder(void **state)
{
    (void)state;
    remove_folder(test_folder);
    return 0;
}

int run_command(char *text, size_t bytes, const char *format, ...)
{
    char command[8192];
    int length = snprintf(command, sizeof command, "exec 2>&1\n");
    va_list arguments;
    va_start(arguments, format);
    length +=
        vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    CHECK((size_t)length < sizeof command, "the command line is %d bytes", length);

    fflush(NULL);
    FILE *pipe = popen(command, "r");
    CHECK(pipe, "cannot start: %s", command);
    size_t used = 0;
    char chunk[4096];
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, pipe)) > 0;) {
        size_t kept = bytes && got < bytes - 1 - used ? got
                      : bytes                         ? bytes - 1 - used
                                                      : 0;
        memcpy(text + used, chunk, kept);
        used += kept;
    }
    if (bytes)
        text[used] = '\0';
    int status = pclose(pipe);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
