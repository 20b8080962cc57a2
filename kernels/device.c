#include "kernels/device.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/ref/ref.h"

#define DEVICE_NAMES "auto, cpu, ref, cuda:N (N from 0)"
#define THREADS_MAX 1024

/* ---- every slot is filled -------------------------------------------------------- */

#define OPS_TABLE(X)            \
    X(memory, allot)            \
    X(memory, release)          \
    X(memory, zero)             \
    X(memory, copy)             \
    X(memory, upload)           \
    X(memory, download)         \
    X(memory, wait)             \
    X(conv, prepare)            \
    X(conv, release)            \
    X(conv, forward)            \
    X(conv, dgrad)              \
    X(conv, wgrad)              \
    X(norm, stats)              \
    X(norm, finalize)           \
    X(norm, finalize_running)   \
    X(norm, commit)             \
    X(norm, act_forward)        \
    X(norm, act_reduce)         \
    X(norm, act_dgrad)          \
    X(pointwise, act_forward)   \
    X(pointwise, act_backward)  \
    X(pointwise, cast)          \
    X(pointwise, bias_grad)     \
    X(pointwise, add)           \
    X(image, from_u8)           \
    X(image, to_u8)             \
    X(image, normal)            \
    X(image, advance)           \
    X(loss, bce_logits)         \
    X(optimizer, grads_check)   \
    X(optimizer, grads_unscale) \
    X(optimizer, adam_step)     \
    X(optimizer, scaler_update) \
    X(optimizer, ema_update)    \
    X(optimizer, half_copy)

static const char *const slot_names[] = {
#define X(family, slot) #family "." #slot,
    OPS_TABLE(X)
#undef X
};

#define SLOT_COUNT (sizeof slot_names / sizeof slot_names[0])
_Static_assert(sizeof(struct ops) == SLOT_COUNT * sizeof(void (*)(void)),
               "OPS_TABLE must name every slot of struct ops, in order");

const char *ops_empty_slot(const struct ops *ops)
{
    static const size_t offsets[] = {
#define X(family, slot) offsetof(struct ops, family.slot),
        OPS_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        void (*slot)(void);
        memcpy(&slot, (const char *)ops + offsets[i], sizeof slot);
        if (!slot)
            return slot_names[i];
    }
    return NULL;
}

/* ---- inf and NaN are seen -------------------------------------------------------- */

#define SELF_TEST_SIZE 83 // five vectors of 16 and a tail of 3

/* Runs grads_check() over ones with `value` at `place`; what it found. */
static struct scaler_state check_one(struct device *device, float *grads,
                                     struct scaler_state *state, size_t place,
                                     float value, float scale)
{
    const struct memory_ops *memory = &device->ops->memory;
    float values[SELF_TEST_SIZE];
    for (size_t i = 0; i < SELF_TEST_SIZE; i++)
        values[i] = i == place ? value : 1.0f;
    struct scaler_state host = {.scale = scale, .enabled = 1};
    memory->upload(device, grads, values, sizeof values);
    memory->upload(device, state, &host, sizeof host);
    device->ops->optimizer.grads_check(device, grads, SELF_TEST_SIZE, state);
    memory->download(device, &host, state, sizeof host);
    return host;
}

/* The first value that was misjudged, with its place; NULL if there was none. */
static const char *misjudged_value(struct device *device, float *grads,
                                   struct scaler_state *state, size_t *place)
{
    static const struct {
        const char *name;
        float value, scale, found_inf, found_inf_unscaled;
    } cases[] = {
        {"inf", INFINITY, 65536.0f, 1.0f, 0.0f},
        {"-inf", -INFINITY, 65536.0f, 1.0f, 0.0f},
        {"NaN", NAN, 65536.0f, 1.0f, 0.0f},
        {"the largest finite value", 3.40282347e38f, 65536.0f, 0.0f, 0.0f},
        {"1e38 at a scale of 2^-10", 1e38f, 0.0009765625f, 0.0f, 1.0f},
    };
    static const size_t places[] = {0, 1, 7, 8, 15, 16, 31, 64, 79, 80, 82};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        volatile float value = cases[c].value; // nothing is known when this is compiled
        if (is_finite_f32(value) != (cases[c].found_inf == 0.0f)) {
            *place = 0;
            return cases[c].name;
        }
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            struct scaler_state found =
                check_one(device, grads, state, places[i], value, cases[c].scale);
            *place = places[i];
            if (found.found_inf != cases[c].found_inf ||
                found.found_inf_unscaled != cases[c].found_inf_unscaled)
                return cases[c].name;
        }
    }
    return NULL;
}

static enum status self_test(struct device *device)
{
    const struct memory_ops *memory = &device->ops->memory;
    float *grads = memory->allot(device, SELF_TEST_SIZE * sizeof *grads);
    struct scaler_state *state = memory->allot(device, sizeof *state);
    enum status status = STATUS_OK;
    size_t place = 0;
    const char *misjudged = NULL;
    if (!grads || !state)
        status = status_fail(STATUS_FAILED, "%s: no memory for the start-up test",
                             device->name);
    else
        misjudged = misjudged_value(device, grads, state, &place);
    if (misjudged)
        status =
            status_fail(STATUS_FAILED,
                        "%s: the start-up test put %s at gradient %zu of %d and it was "
                        "misjudged, so overflows would pass unseen; build again without "
                        "-ffast-math, -Ofast and -ffinite-math-only",
                        device->name, misjudged, place, SELF_TEST_SIZE);
    if (grads)
        memory->release(device, grads);
    if (state)
        memory->release(device, state);
    return status;
}

enum status device_accept(struct device *device)
{
    const char *empty = ops_empty_slot(device->ops);
    if (empty)
        return status_fail(STATUS_FAILED,
                           "%s: the op table has no %s; this build is incomplete, use "
                           "another device",
                           device->name, empty);
    return self_test(device);
}

/* ---- opening --------------------------------------------------------------------- */

/* CPUs that this process may use. */
static int usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; // more than CPU_SETSIZE of them: the caller can ask for a number
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

/* The N of "cuda:N"; -1 if `name` is something else. */
static int cuda_index(const char *name)
{
    int index = -1, end = 0;
    if (sscanf(name, "cuda:%4d%n", &index, &end) != 1 || name[end] || index < 0)
        return -1;
    return name[5] >= '0' && name[5] <= '9' ? index : -1;
}

static enum status open_cpu(struct device *device)
{
    device->name = "cpu";
    device->close = cpu_close;
    return cpu_open(device);
}

static enum status open_backend(struct device *device, const char *name)
{
    if (strcmp(name, "ref") == 0) {
        device->name = "ref";
        device->close = ref_close;
        return ref_open(device);
    }
    if (strcmp(name, "cpu") == 0)
        return open_cpu(device);
    int is_auto = strcmp(name, "auto") == 0;
    int index = is_auto ? 0 : cuda_index(name);
    if (index < 0)
        return status_fail(STATUS_USAGE, "device \"%s\" is not known; expected one of %s",
                           name, DEVICE_NAMES);
    device->name = "cuda"; // cuda_open() knows better
    device->close = cuda_close;
    enum status status = cuda_open(device, index);
    return status != STATUS_OK && is_auto ? open_cpu(device) : status;
}

enum status device_open(const char *name, int threads, struct device **result)
{
    *result = NULL;
    if (threads < 0 || threads > THREADS_MAX)
        return status_fail(STATUS_USAGE,
                           "threads %d is out of range; expected 0 (one per CPU) to %d",
                           threads, THREADS_MAX);
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return status_fail(STATUS_FAILED, "device %s: no memory", name);
    device->threads = threads ? threads : usable_cpus();
    enum status status = open_backend(device, name);
    if (status != STATUS_OK) {
        free(device);
        return status;
    }
    status = device_accept(device);
    if (status != STATUS_OK) {
        device_close(device);
        return status;
    }
    *result = device;
    return STATUS_OK;
}

void device_close(struct device *device)
{
    if (!device)
        return;
    device->close(device);
    free(device);
}

/* ---- faults ---------------------------------------------------------------------- */

enum status device_fault(struct device *device)
{
    device->ops->memory.wait(device);
    if (!device->fault[0])
        return STATUS_OK;
    return status_fail(STATUS_FAILED, "%s: %s", device->name, device->fault);
}

void device_set_fault(struct device *device, const char *format, ...)
{
    if (device->fault[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->fault, sizeof device->fault, format, arguments);
    va_end(arguments);
}

/* ---- listing --------------------------------------------------------------------- */

int device_list(char *text, size_t text_bytes)
{
    static const char *const names[] = {"cuda:0", "cpu", "ref"};
    int count = 0;
    size_t used = 0;
    if (text_bytes)
        text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct device *device;
        int is_open = device_open(names[i], 0, &device) == STATUS_OK;
        // A reason begins with the device's name by itself.
        int length =
            is_open ? snprintf(text + used, text_bytes - used, "%s: %s\n", names[i],
                               device->description)
                    : snprintf(text + used, text_bytes - used, "%s\n", status_message());
        used +=
            (size_t)length < text_bytes - used ? (size_t)length : text_bytes - used - 1;
        count += is_open;
        if (is_open)
            device_close(device);
    }
    return count;
}

/* ---- tensors --------------------------------------------------------------------- */

static int rounded_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

struct tensor device_tensor(const struct device *device, enum dtype dtype,
                            struct shape shape, int is_weight)
{
    struct tensor tensor = tensor_of(dtype, shape, NULL);
    if (dtype == DTYPE_U8 || dtype == DTYPE_I32)
        return tensor;
    tensor.c_stored = rounded_up(shape.c, device->channel_multiple);
    if (is_weight)
        tensor.n_stored = rounded_up(shape.n, device->channel_multiple);
    return tensor;
}
