/* tensor.h - a typed view of memory in NHWC order.
 * Flow:  every op of ops.h takes tensors; the nets plan them, the arena holds their
 *        bytes.
 * Owns:  nothing.  Borrows: `data`, from an arena or a test's array.
 *
 * Activations are [N, H, W, C]; weights are [out, kernel_h, kernel_w, in] in the same
 * four fields. A device may store more than the shape says (tensor cores want channels in
 * multiples of 8): `n_stored` rows and `c_stored` channels. What is stored beyond the
 * shape is zero and stays zero. Element (n, y, x, c) lies at ((n*h + y)*w + x)*c_stored +
 * c. */
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

// One row per element type: name, bytes, word.
#define DTYPE_TABLE(X) \
    X(F32, 4, "f32")   \
    X(F16, 2, "f16")   \
    X(BF16, 2, "bf16") \
    X(U8, 1, "u8")

enum dtype {
#define X(name, bytes, word) DTYPE_##name,
    DTYPE_TABLE(X)
#undef X
};

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype);

struct shape {
    int n, h, w, c;
};

struct tensor {
    enum dtype dtype;
    struct shape shape;
    int n_stored; // >= shape.n; more only for weights on devices that pad
    int c_stored; // >= shape.c
    void *data;   // on the device that made the tensor
};

/* A tensor without padding over `data` (which may be NULL until an arena places it). */
struct tensor tensor_of(enum dtype dtype, struct shape shape, void *data);

/* Elements that the shape names, elements that are stored, and bytes that are stored. */
size_t tensor_elements(const struct tensor *tensor);
size_t tensor_stored(const struct tensor *tensor);
size_t tensor_bytes(const struct tensor *tensor);

int shape_equal(struct shape a, struct shape b);

/* How many times `large` is as high and as wide as `small`. Aborts, naming `op`, where
 * that is no whole number, or N and C differ. */
int shape_ratio(const char *op, struct shape large, struct shape small);

/* "64x32x32x128", for messages; written into `text`, which is returned. */
#define SHAPE_TEXT 48
const char *shape_text(struct shape shape, char text[SHAPE_TEXT]);

#endif
