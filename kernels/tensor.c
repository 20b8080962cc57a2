#include "kernels/tensor.h"

#include <stdio.h>

#include "kernels/base/status.h"

size_t dtype_bytes(enum dtype dtype)
{
    static const size_t bytes[] = {
#define X(name, size, word) size,
        DTYPE_TABLE(X)
#undef X
    };
    return bytes[dtype];
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {
#define X(name, size, word) word,
        DTYPE_TABLE(X)
#undef X
    };
    return names[dtype];
}

struct tensor tensor_of(enum dtype dtype, struct shape shape, void *data)
{
    return (struct tensor){.dtype = dtype,
                           .shape = shape,
                           .n_stored = shape.n,
                           .c_stored = shape.c,
                           .data = data};
}

size_t tensor_elements(const struct tensor *tensor)
{
    struct shape s = tensor->shape;
    return (size_t)s.n * (size_t)s.h * (size_t)s.w * (size_t)s.c;
}

size_t tensor_stored(const struct tensor *tensor)
{
    struct shape s = tensor->shape;
    return (size_t)tensor->n_stored * (size_t)s.h * (size_t)s.w *
           (size_t)tensor->c_stored;
}

size_t tensor_bytes(const struct tensor *tensor)
{
    return tensor_stored(tensor) * dtype_bytes(tensor->dtype);
}

int shape_equal(struct shape a, struct shape b)
{
    return a.n == b.n && a.h == b.h && a.w == b.w && a.c == b.c;
}

const char *shape_text(struct shape shape, char text[SHAPE_TEXT])
{
    snprintf(text, SHAPE_TEXT, "%dx%dx%dx%d", shape.n, shape.h, shape.w, shape.c);
    return text;
}

int shape_ratio(const char *op, struct shape large, struct shape small)
{
    char text[SHAPE_TEXT], small_text[SHAPE_TEXT];
    int k = small.h > 0 ? large.h / small.h : 0;
    CHECK(k >= 1 && large.h == k * small.h && large.w == k * small.w &&
              large.n == small.n && large.c == small.c,
          "%s: %s is no multiple of %s", op, shape_text(large, text),
          shape_text(small, small_text));
    return k;
}
