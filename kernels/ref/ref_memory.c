/* ref_memory.c - host memory as device memory, and what the other ref files share. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/arena.h"
#include "kernels/ref/ref.h"

/* ---- memory ---------------------------------------------------------------------- */

// Convolutions walk over many arrays at once, which takes more small pages than a core
// keeps track of: with large ones a step of DCGAN takes about 1 % less.
enum { LARGE_PAGE = 2 << 20 };

void *host_alloc(size_t bytes)
{
    size_t align = bytes < LARGE_PAGE ? ARENA_ALIGN : LARGE_PAGE;
    size_t room = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (room == 0)
        room = ARENA_ALIGN;
    void *block = NULL;
    if (posix_memalign(&block, align, room) != 0)
        return NULL;
    if (align == LARGE_PAGE)
        (void)madvise(block, room, MADV_HUGEPAGE); // a wish: small ones do as well
    memset(block, 0, room);
    return block;
}

static void *ref_memory_alloc(struct device *device, size_t bytes)
{
    (void)device;
    // Linux lends more memory than there is and kills whoever touches it: asked here
    // instead.
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > machine)
        return NULL;
    return host_alloc(bytes);
}

static void ref_memory_release(struct device *device, void *block)
{
    (void)device;
    free(block);
}

static void ref_memory_zero(struct device *device, void *data, size_t bytes)
{
    (void)device;
    if (bytes)
        memset(data, 0, bytes);
}

static void ref_memory_copy(struct device *device, void *to, const void *from,
                            size_t bytes)
{
    (void)device;
    if (bytes)
        memmove(to, from, bytes);
}

static void ref_memory_wait(struct device *device)
{
    (void)device; // every op has ended when it returns
}

static size_t ref_memory_available(struct device *device)
{
    (void)device;
    return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

void ref_fill_memory(struct memory_ops *ops)
{
    *ops = (struct memory_ops){
        .alloc = ref_memory_alloc,
        .release = ref_memory_release,
        .zero = ref_memory_zero,
        .copy = ref_memory_copy,
        .upload = ref_memory_copy,
        .download = ref_memory_copy,
        .wait = ref_memory_wait,
        .available = ref_memory_available,
        .alloc_host = ref_memory_alloc,
        .release_host = ref_memory_release,
    };
}

/* ---- shared by the other files --------------------------------------------------- */

void ref_clear_padding(struct tensor *tensor)
{
    size_t bytes = dtype_bytes(tensor->dtype);
    size_t rows = ref_rows(tensor), stored = (size_t)tensor->c_stored;
    size_t padding = stored - (size_t)tensor->shape.c;
    char *data = tensor->data;
    for (size_t row = 0; row < rows && padding; row++)
        memset(data + ref_place(tensor, row, tensor->shape.c) * bytes, 0,
               padding * bytes);
    size_t used = rows * stored, all = tensor_stored(tensor);
    if (all > used)
        memset(data + used * bytes, 0, (all - used) * bytes);
}

void ref_check_shapes(const char *op, const struct tensor *a, const struct tensor *b)
{
    char one[SHAPE_TEXT], other[SHAPE_TEXT];
    CHECK(shape_equal(a->shape, b->shape), "%s: %s and %s", op, shape_text(a->shape, one),
          shape_text(b->shape, other));
}

/* ---- the backend ----------------------------------------------------------------- */

void ref_fill_ops(struct ops *ops)
{
    ref_fill_memory(&ops->memory);
    ref_fill_conv(&ops->conv);
    ref_fill_norm(&ops->norm);
    ref_fill_pointwise(&ops->pointwise);
    ref_fill_resample(&ops->resample);
    ref_fill_image(&ops->image);
    ref_fill_loss(&ops->loss);
    ref_fill_optimizer(&ops->optimizer);
    ref_fill_queue(&ops->queue);
    ref_fill_group(&ops->group);
    ref_fill_survey(&ops->survey);
}

enum status ref_open(struct device *device)
{
    struct ops *ops = calloc(1, sizeof *ops);
    if (!ops)
        return status_fail(STATUS_FAILED, "no memory for the op table of %s",
                           device->name);
    ref_fill_ops(ops);
    device->ops = ops;
    device->backend = ops;
    device->channel_multiple = 1;
    device->threads = 1;
    strcpy(device->description, "the reference loops, 1 thread; slow, for tests");
    return STATUS_OK;
}

void ref_close(struct device *device)
{
    free(device->backend);
    device->backend = NULL;
    device->ops = NULL;
}
