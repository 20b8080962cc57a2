/* killer.c - the program, killed at the Nth call that changes what is on the disk.
 *
 * TWINSCALE_KILL_AT is N; without it nothing is killed, and TWINSCALE_CALLS names a file
 * that receives the number of calls. Linked with --wrap for each function below. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int calls;

static void count_call(void)
{
    const char *text = getenv("TWINSCALE_KILL_AT");
    int number = atomic_fetch_add(&calls, 1) + 1;
    if (text && number == atoi(text))
        kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void write_calls(void)
{
    const char *path = getenv("TWINSCALE_CALLS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%d", atomic_load(&calls));
    fclose(file);
}

#define WRAP(type, name, parameters, arguments) \
    type __real_##name parameters;              \
    type __wrap_##name parameters;              \
    type __wrap_##name parameters               \
    {                                           \
        count_call();                           \
        return __real_##name arguments;         \
    }

WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, fsync, (int descriptor), (descriptor))
WRAP(ssize_t, writev, (int descriptor, const struct iovec *parts, int count),
     (descriptor, parts, count))

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    count_call();
    return __real_open(path, flags, mode);
}
