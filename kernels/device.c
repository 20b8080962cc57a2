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

#define OPS_TABLE(X)                    \
    X(memory, alloc)                    \
    X(memory, release)                  \
    X(memory, zero)                     \
    X(memory, copy)                     \
    X(memory, upload)                   \
    X(memory, download)                 \
    X(memory, wait)                     \
    X(memory, available)                \
    X(memory, alloc_host)               \
    X(memory, release_host)             \
    X(queue, upload_later)              \
    X(queue, download_later)            \
    X(queue, mark)                      \
    X(queue, wait_mark)                 \
    X(queue, is_passed)                 \
    X(queue, follow)                    \
    X(queue, repeat)                    \
    X(queue, forget)                    \
    X(queue, open_stream)               \
    X(queue, close_stream)              \
    X(group, sum_f32)                   \
    X(group, sum_f64)                   \
    X(group, max_f32)                   \
    X(conv, prepare)                    \
    X(conv, release)                    \
    X(conv, forward)                    \
    X(conv, dgrad)                      \
    X(conv, wgrad)                      \
    X(conv, describe)                   \
    X(conv, peak)                       \
    X(norm, stats)                      \
    X(norm, finalize)                   \
    X(norm, finalize_running)           \
    X(norm, commit)                     \
    X(norm, act_forward)                \
    X(norm, act_reduce)                 \
    X(norm, act_dgrad)                  \
    X(pointwise, act_forward)           \
    X(pointwise, act_backward)          \
    X(pointwise, cast)                  \
    X(pointwise, bias_grad)             \
    X(pointwise, add_tensors)           \
    X(pointwise, add)                   \
    X(resample, down)                   \
    X(resample, up)                     \
    X(image, from_u8)                   \
    X(image, to_u8)                     \
    X(image, normal)                    \
    X(image, advance)                   \
    X(loss, on_logits)                  \
    X(optimizer, grads_check)           \
    X(optimizer, grads_unscale)         \
    X(optimizer, adam_step)             \
    X(optimizer, scaler_update)         \
    X(optimizer, scaler_both)           \
    X(optimizer, scaler_share)          \
    X(optimizer, scaler_share_overflow) \
    X(optimizer, grads_norm)            \
    X(optimizer, grads_clip)            \
    X(optimizer, half_copy)             \
    X(survey, survey)

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
    float *grads = memory->alloc(device, SELF_TEST_SIZE * sizeof *grads);
    struct scaler_state *state = memory->alloc(device, sizeof *state);
    enum status status = STATUS_OK;
    size_t place = 0;
    const char *misjudged = NULL;
    if (!grads || !state)
        status = status_fail(STATUS_FAILED,
                             "%s: no memory for the start-up test; see what else uses it",
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

/* What 0 threads means: TWINSCALE_THREADS, or one per CPU. */
static enum status default_threads(int *threads)
{
    const char *wanted = getenv("TWINSCALE_THREADS");
    *threads = usable_cpus();
    if (!wanted || !*wanted)
        return STATUS_OK;
    char *end;
    long number = strtol(wanted, &end, 10);
    if (*end || number < 1 || number > THREADS_MAX)
        return status_fail(STATUS_USAGE,
                           "TWINSCALE_THREADS is \"%s\": expected a number from 1 to %d, "
                           "or unset it to use every CPU",
                           wanted, THREADS_MAX);
    *threads = (int)number;
    return STATUS_OK;
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

static enum status cannot_share(const char *name)
{
    return status_fail(STATUS_ENVIRONMENT,
                       "device %s cannot share a run with others; give --device auto or "
                       "cuda:N, or --gpus 1",
                       name);
}

static enum status open_backend(struct device *device, const char *name,
                                const struct device_options *options)
{
    if (strcmp(name, "ref") == 0) {
        device->name = "ref";
        device->close = ref_close;
        return ref_open(device);
    }
    if (strcmp(name, "cpu") == 0)
        return open_cpu(device);
    int index = cuda_index(name);
    if (index < 0)
        return status_fail(STATUS_USAGE, "device \"%s\" is not known; expected one of %s",
                           name, DEVICE_NAMES);
    device->close = cuda_close;
    return cuda_open(device, index, options);
}

static enum status open_named(const char *name, const struct device_options *options,
                              struct device **result)
{
    int threads = options->threads;
    if (threads == 0)
        TRY(default_threads(&threads));
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return status_fail(STATUS_FAILED, "device %s: no memory", name);
    device->threads = threads;
    device->world = 1;
    enum status status = open_backend(device, name, options);
    if (status != STATUS_OK) {
        free(device);
        return status;
    }
    status = device_accept(device);
    if (status == STATUS_OK && options->world > 1 && device->world == 1)
        status = cannot_share(name);
    if (status != STATUS_OK) {
        device_close(device);
        return status;
    }
    *result = device;
    return STATUS_OK;
}

/* The GPU when it works, else the CPU, and why. */
static enum status open_auto(const struct device_options *options, struct device **result)
{
    if (open_named("cuda:0", options, result) == STATUS_OK)
        return STATUS_OK;
    char reason[sizeof(*result)->note];
    // Without a driver nobody expected a GPU: no advice to install one.
    snprintf(reason, sizeof reason, "no GPU: %s",
             cuda_has_driver() ? status_message() : "no NVIDIA driver on this machine");
    TRY(open_named("cpu", options, result));
    memcpy((*result)->note, reason, sizeof reason);
    return STATUS_OK;
}

enum status device_open_with(const char *name, const struct device_options *options,
                             struct device **result)
{
    *result = NULL;
    if (options->threads < 0 || options->threads > THREADS_MAX)
        return status_fail(STATUS_USAGE,
                           "threads %d is out of range; expected 0 (one per CPU) to %d",
                           options->threads, THREADS_MAX);
    if (strcmp(name, "auto") == 0)
        return open_auto(options, result);
    return open_named(name, options, result);
}

enum status device_open(const char *name, int threads, struct device **result)
{
    struct device_options options = {.threads = threads};
    return device_open_with(name, &options, result);
}

enum status device_group_id(const char *name, unsigned char id[DEVICE_GROUP_ID])
{
    if (strcmp(name, "auto") != 0 && cuda_index(name) < 0)
        return cannot_share(name);
    return cuda_group_id(id);
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

struct listing {
    char *text;
    size_t used, bytes;
    int count; // of usable devices
};

static void list_device(struct listing *list, const char *name)
{
    struct device *device = NULL;
    char *end = list->text + list->used;
    size_t room = list->bytes - list->used;
    // A reason begins with the device's name by itself.
    int length = device_open(name, 0, &device) == STATUS_OK
                     ? snprintf(end, room, "%s: %s\n", name, device->description)
                     : snprintf(end, room, "%s\n", status_message());
    if (room)
        list->used += (size_t)length < room ? (size_t)length : room - 1;
    list->count += device != NULL;
    device_close(device);
}

int device_list(char *text, size_t text_bytes)
{
    struct listing list = {.text = text, .bytes = text_bytes};
    int gpus = cuda_count();
    list_device(&list, "cpu");
    for (int i = 0; i == 0 || i < gpus; i++) { // without any, the first tells why
        char name[16];
        snprintf(name, sizeof name, "cuda:%d", i);
        list_device(&list, name);
    }
    list_device(&list, "ref");
    return list.count;
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
    if (dtype == DTYPE_U8)
        return tensor;
    tensor.c_stored = rounded_up(shape.c, device->channel_multiple);
    if (is_weight)
        tensor.n_stored = rounded_up(shape.n, device->channel_multiple);
    return tensor;
}
