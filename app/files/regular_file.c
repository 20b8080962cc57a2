#include "app/files/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/status.h"

static const struct {
    const char *mode;
    int flags;
} modes[] = {
    {"r", O_RDONLY},
    {"a", O_WRONLY | O_CREAT | O_APPEND},
};

static int flags_of(const char *mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].mode, mode) == 0)
            return modes[i].flags;
    CHECK(0, "mode %s", mode);
    return 0;
}

static FILE *refuse(const struct stat *facts, const char *what,
                    char reason[REGULAR_REASON])
{
    snprintf(reason, REGULAR_REASON, "is %s, %s was expected",
             S_ISDIR(facts->st_mode) ? "a folder" : "not a regular file", what);
    errno = 0;
    return NULL;
}

static FILE *refuse_by_system(char reason[REGULAR_REASON])
{
    int error = errno;
    snprintf(reason, REGULAR_REASON, "cannot be opened: %s", strerror(error));
    errno = error;
    return NULL;
}

FILE *regular_open(const char *path, const char *mode, const char *what,
                   char reason[REGULAR_REASON])
{
    int flags = flags_of(mode);
    struct stat facts;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return refuse(&facts, what, reason);
    int descriptor = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return refuse_by_system(reason);
    if (fstat(descriptor, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        close(descriptor);
        return refuse(&facts, what, reason);
    }
    FILE *stream = fdopen(descriptor, mode);
    if (!stream) {
        refuse_by_system(reason);
        close(descriptor);
    }
    return stream;
}
