#include "app/files/set_aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define BACKUPS_MAX 100000

int rename_to_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    // A file system without that flag.
    struct stat facts;
    if (lstat(to, &facts) == 0)
        return EEXIST;
    return rename(from, to) == 0 ? 0 : errno;
}

int set_aside(const char *path, char *kept, size_t bytes)
{
    int reason = EEXIST;
    for (int number = 1; reason == EEXIST && number <= BACKUPS_MAX; number++) {
        int length = number == 1 ? snprintf(kept, bytes, "%s.bak", path)
                                 : snprintf(kept, bytes, "%s.bak%d", path, number);
        if (length < 0 || (size_t)length >= bytes)
            return ENAMETOOLONG;
        reason = rename_to_new(path, kept);
    }
    return reason;
}
