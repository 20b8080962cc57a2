/* cuda.c - finds and loads the module of the CUDA backend. Plain C: nothing of CUDA is
 * needed to build it. */
#include "kernels/cuda/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct cuda_module *loaded;

int cuda_has_driver(void)
{
    // Not closed again: libraries of CUDA do not like to be unloaded.
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != NULL;
}

/* The module's path in the folder of the program; 0 where that is not known or has
 * none. */
static int path_beside_program(char *path, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0)
        return 0;
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    if ((size_t)(name - path) + sizeof CUDA_MODULE > bytes)
        return 0;
    memcpy(name, CUDA_MODULE, sizeof CUDA_MODULE);
    return access(path, R_OK) == 0;
}

/* Why dlopen() found no module: there is none, or it lacks something itself. */
static enum status explain(const char *asked)
{
    const char *reason = dlerror();
    if (strstr(reason, CUDA_MODULE ": cannot open shared object file"))
        return status_fail(
            STATUS_ENVIRONMENT,
            "%s: this program was built without its CUDA backend (there is "
            "no %s beside it); build it where the CUDA toolkit and cuDNN "
            "are, or choose the device cpu",
            asked, CUDA_MODULE);
    return status_fail(STATUS_ENVIRONMENT,
                       "%s: the CUDA backend cannot be loaded: %s; install what is "
                       "missing of CUDA or cuDNN, or name its folder in LD_LIBRARY_PATH",
                       asked, reason);
}

/* `asked` is what the user asked for, and begins the sentence. */
static enum status load(const char *asked, const struct cuda_module **module)
{
    char path[4096];
    if (loaded) {
        *module = loaded;
        return STATUS_OK;
    }
    if (!cuda_has_driver())
        return status_fail(STATUS_ENVIRONMENT,
                           "%s: there is no NVIDIA driver on this machine (no "
                           "libcuda.so.1); install it, or choose the device cpu",
                           asked);
    // The bare name is looked up along the run path and LD_LIBRARY_PATH.
    int is_beside = path_beside_program(path, sizeof path);
    void *handle = dlopen(is_beside ? path : CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
    loaded = handle ? dlsym(handle, "twinscale_cuda") : NULL;
    if (!loaded)
        return explain(asked);
    *module = loaded;
    return STATUS_OK;
}

static enum status find(const char *asked, const struct cuda_module **module)
{
    pthread_mutex_lock(&lock);
    enum status status = load(asked, module);
    pthread_mutex_unlock(&lock);
    return status;
}

enum status cuda_open(struct device *device, int index,
                      const struct device_options *options)
{
    const struct cuda_module *module;
    char asked[32];
    snprintf(asked, sizeof asked, "cuda:%d", index);
    TRY(find(asked, &module));
    return module->open(device, index, options);
}

void cuda_close(struct device *device)
{
    if (loaded)
        loaded->close(device);
}

enum status cuda_group_id(unsigned char id[DEVICE_GROUP_ID])
{
    const struct cuda_module *module;
    TRY(find("several GPUs", &module));
    return module->group_id(id);
}

int cuda_count(void)
{
    const struct cuda_module *module;
    return find("cuda", &module) == STATUS_OK ? module->count() : 0;
}
