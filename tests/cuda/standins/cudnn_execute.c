/* cudnn_execute.c - stands before the real cuDNN (LD_PRELOAD) on a machine without a GPU.
 * Graphs, heuristics, support checks and plans stay the real library's; here are only the
 * handle, the description of a device that is not there, and the execution.
 *
 *     STANDIN_DEVICE_JSON=path    the device that plans are made for
 *     STANDIN_CUDNN_VERSION=N     what cudnnGetVersion() says, if not the truth */
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standins/cudnn_plan.h"
#include "tests/cuda/standins/standin.h"

#define EXPORT __attribute__((visibility("default")))

typedef cudnnBackendDescriptor_t descriptor; // the library's own name does not fit a line

struct cudnnContext {
    cudaStream_t stream;
};

// What was set on a variant pack, or what a plan computes, by its descriptor.
struct known {
    descriptor key;
    int64_t ids[PLAN_TENSORS];
    void *pointers[PLAN_TENSORS];
    void *workspace;
    int64_t count;
    struct plan *plan;
    struct known *next;
};

static struct known *all_known;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct known *known_of(descriptor key)
{
    pthread_mutex_lock(&mutex);
    struct known *known = all_known;
    while (known && known->key != key)
        known = known->next;
    if (!known) {
        known = calloc(1, sizeof *known);
        known->key = key;
        known->next = all_known;
        all_known = known;
    }
    pthread_mutex_unlock(&mutex);
    return known;
}

static void forget(descriptor key)
{
    pthread_mutex_lock(&mutex);
    for (struct known **at = &all_known; *at; at = &(*at)->next)
        if ((*at)->key == key) {
            struct known *gone = *at;
            *at = gone->next;
            free(gone); // the plan itself stays for work that is queued
            break;
        }
    pthread_mutex_unlock(&mutex);
}

/* ---- the real library ----------------------------------------------------------- */

static void *real(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "standin FATAL: no %s in the real cuDNN: %s\n", name, dlerror());
        _Exit(STANDIN_EXIT_FATAL);
    }
    return function;
}

// A function of the real library, by its type: REAL(cudnnGetVersion)().
#define REAL(name) ((__typeof__(&name))real(#name))

/* ---- the handle ----------------------------------------------------------------- */

EXPORT size_t cudnnGetVersion(void)
{
    const char *version = getenv("STANDIN_CUDNN_VERSION");
    return version && *version ? strtoull(version, NULL, 10) : REAL(cudnnGetVersion)();
}

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = standin_has_device() ? calloc(1, sizeof **handle) : NULL;
    return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_INITIALIZED;
}

EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- the device that is not there ----------------------------------------------- */

static char *read_file(const char *path, int64_t *bytes)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char *text = malloc(1 << 16);
    if (!file) {
        standin_complain("STANDIN_DEVICE_JSON=%s cannot be read", path ? path : "");
        free(text);
        return NULL;
    }
    *bytes = (int64_t)fread(text, 1, 1 << 16, file);
    fclose(file);
    return text;
}

static descriptor describe_device(void)
{
    static descriptor device;
    int64_t bytes = 0;
    char *text = device ? NULL : read_file(getenv("STANDIN_DEVICE_JSON"), &bytes);
    if (!text)
        return device;
    cudnnStatus_t status =
        REAL(cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device);
    if (!status)
        status = REAL(cudnnBackendSetAttribute)(device,
                                                CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                CUDNN_TYPE_CHAR, bytes, text);
    if (!status)
        status = REAL(cudnnBackendFinalize)(device);
    if (status)
        standin_complain("cuDNN does not take the device in STANDIN_DEVICE_JSON: %s",
                         REAL(cudnnGetErrorString)(status));
    free(text);
    return device;
}

EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  descriptor *made)
{
    cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
    cudnnStatus_t status = REAL(cudnnBackendCreateDescriptor)(type, made);
    if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        name = CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;
    else if (type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return status;
    descriptor device = describe_device();
    if (!status && device)
        status = REAL(cudnnBackendSetAttribute)(
            *made, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    return status;
}

EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(descriptor gone)
{
    forget(gone);
    return REAL(cudnnBackendDestroyDescriptor)(gone);
}

EXPORT cudnnStatus_t cudnnBackendSetAttribute(descriptor target,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t count, const void *values)
{
    size_t kept = count < PLAN_TENSORS ? (size_t)count : PLAN_TENSORS;
    // The real library cannot use a handle of ours; without one it asks the description.
    if (type == CUDNN_TYPE_HANDLE)
        return CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
        memcpy(known_of(target)->ids, values, kept * sizeof(int64_t));
        known_of(target)->count = (int64_t)kept;
    } else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) {
        memcpy(known_of(target)->pointers, values, kept * sizeof(void *));
    } else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
        memcpy(&known_of(target)->workspace, values, sizeof(void *));
    }
    return REAL(cudnnBackendSetAttribute)(target, name, type, count, values);
}

/* ---- execution ------------------------------------------------------------------ */

static struct plan *plan_of(descriptor target)
{
    struct known *known = known_of(target);
    const cudnnBackendAttributeName_t name =
        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t bytes = 0, workspace = 0, count;
    if (known->plan)
        return known->plan;
    cudnnStatus_t status =
        REAL(cudnnBackendGetAttribute)(target, name, CUDNN_TYPE_CHAR, 0, &bytes, NULL);
    if (status || bytes <= 0) {
        standin_complain("cudnnBackendExecute of a plan that was not finalized");
        return NULL;
    }
    char *text = calloc((size_t)bytes + 1, 1);
    REAL(cudnnBackendGetAttribute)(target, name, CUDNN_TYPE_CHAR, bytes, &count, text);
    REAL(cudnnBackendGetAttribute)
    (target, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
     &workspace);
    known->plan = plan_read(text, (size_t)bytes, workspace);
    free(text);
    return known->plan;
}

static void bind_pointers(struct plan_call *call, const struct known *pack)
{
    for (int i = 0; i < call->plan->tensor_count; i++)
        for (int64_t k = 0; k < pack->count; k++)
            if (strtoll(call->plan->tensors[i].name, NULL, 10) == pack->ids[k])
                call->pointers[i] = pack->pointers[k];
}

EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, descriptor plan,
                                         descriptor variant_pack)
{
    const struct known *pack = known_of(variant_pack);
    struct plan_call call = {.plan = plan_of(plan), .workspace = pack->workspace};
    if (!call.plan)
        return CUDNN_STATUS_BAD_PARAM;
    bind_pointers(&call, pack);
    if (!plan_check(&call))
        return CUDNN_STATUS_BAD_PARAM;
    if (standin_enqueue(handle->stream, "a cuDNN plan", plan_run, &call, sizeof call))
        return CUDNN_STATUS_EXECUTION_FAILED;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- the end --------------------------------------------------------------------- */

// This library is the one that is preloaded, so it is here that an end without exit(), as
// that of a forked rank, passes by.
EXPORT void _exit(int code)
{
    standin_end(code);
    __builtin_unreachable();
}
