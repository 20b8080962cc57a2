#include "app/output/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The stream's write function. It keeps the errno of the first failure, which a library
 * that writes through the stream (libpng) would lose, and writes nothing after it. */
static ssize_t stream_write(void *cookie, const char *data, size_t bytes)
{
    struct atomic_file *file = cookie;
    size_t done = 0;
    while (done < bytes && file->error == 0) {
        ssize_t written = write(file->descriptor, data + done, bytes - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            file->error = written == 0 ? EIO : errno;
    }
    file->bytes_written += done;
    return (ssize_t)done;
}

/* Follows a link, so that it stays one, and refuses what a rename would destroy. */
static enum status resolve_target(struct atomic_file *file, const char *path)
{
    char *resolved = realpath(path, NULL);
    int length =
        snprintf(file->path, sizeof file->path, "%s", resolved ? resolved : path);
    free(resolved);
    if (length + 4 >= (int)sizeof file->path)
        return status_fail(
            STATUS_FAILED,
            "%.80s...: the path has %d characters, at most %d can be written; "
            "choose a shorter one",
            path, length, (int)sizeof file->path - 5);
    struct stat facts;
    if (stat(file->path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return status_fail(STATUS_FAILED,
                           "%s: is %s, a file to write was expected; choose another name",
                           path, S_ISDIR(facts.st_mode) ? "a folder" : "no regular file");
    memcpy(file->temporary, file->path, (size_t)length);
    memcpy(file->temporary + length, ".tmp", 5);
    return STATUS_OK;
}

/* Opens and locks the temporary file. The lock dies with its holder, so what a killed
 * program left behind is taken over; 1 when another program is writing it now. The file
 * is emptied only once it is ours. */
static int open_locked(struct atomic_file *file)
{
    for (;;) {
        file->descriptor =
            open(file->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file->descriptor < 0)
            return -1;
        // A file system without locks says something else than EWOULDBLOCK: go on.
        if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(file->descriptor);
            file->descriptor = -1;
            return 1;
        }
        // Its former holder may have renamed or removed it between our open and our lock.
        struct stat mine, named;
        if (fstat(file->descriptor, &mine) == 0 && stat(file->temporary, &named) == 0 &&
            mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
            return ftruncate(file->descriptor, 0);
        close(file->descriptor);
        file->descriptor = -1;
    }
}

enum status atomic_open(struct atomic_file *file, const char *path)
{
    memset(file, 0, sizeof *file);
    file->descriptor = -1;
    TRY(resolve_target(file, path));
    int result = open_locked(file);
    if (result == 1)
        return status_fail(
            STATUS_FAILED,
            "%s: another program is writing this file now; wait for it, or "
            "choose another name",
            path);
    if (result == 0) {
        cookie_io_functions_t functions = {.write = stream_write};
        file->stream = fopencookie(file, "wb", functions);
    }
    if (!file->stream) {
        int reason = errno;
        atomic_discard(file);
        return status_fail(STATUS_FAILED, "%s: cannot be created: %s; check the folder",
                           path, strerror(reason));
    }
    return STATUS_OK;
}

/* What to do about it, for the reasons that a user can mend. */
static const char *advice(int reason)
{
    if (reason == ENOSPC || reason == EDQUOT)
        return "free some space";
    if (reason == EFBIG)
        return "raise the limit on file sizes (ulimit -f)";
    return "check the disk and the folder";
}

static enum status fail_and_discard(struct atomic_file *file, int reason)
{
    uint64_t wanted = file->bytes_expected;
    uint64_t done = file->bytes_written;
    struct stat facts;
    int had_older = stat(file->path, &facts) == 0;
    atomic_discard(file);
    char size[80];
    if (wanted)
        snprintf(size, sizeof size, "%" PRIu64 " of %" PRIu64, done, wanted);
    else
        snprintf(size, sizeof size, "%" PRIu64, done);
    return status_fail(STATUS_FAILED,
                       "%s: could not be written, %s bytes went to the disk: %s; %s%s",
                       file->path, size, strerror(reason), advice(reason),
                       had_older ? " (the older file is untouched)" : "");
}

/* True for the answers of file systems that do not know fsync, where nothing can be done.
 */
static int is_unsupported(int reason)
{
    return reason == EINVAL || reason == ENOTSUP || reason == ENOSYS;
}

enum status atomic_sync(struct atomic_file *file)
{
    CHECK(file->descriptor >= 0, "%s is not open", file->path);
    if (file->stream) {
        // The stream may fail by itself (no memory for its buffer): then errno tells.
        int failed = ferror(file->stream);
        errno = 0;
        failed |= fclose(file->stream) != 0;
        file->stream = NULL;
        if (failed && file->error == 0)
            file->error = errno ? errno : EIO;
    }
    if (file->error == 0 && fsync(file->descriptor) != 0 && !is_unsupported(errno))
        file->error = errno;
    // The written pages are dropped, so that a reader now reads the disk and not memory.
    posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_DONTNEED);
    return file->error ? fail_and_discard(file, file->error) : STATUS_OK;
}

/* After a power cut the rename is there only if the folder was written too. */
static int sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash)
        snprintf(folder, sizeof folder, ".");
    else if (length == 0)
        snprintf(folder, sizeof folder, "/");
    else
        snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return 0; // A folder may be writable and not readable; the file is in place.
    int reason = fsync(descriptor) == 0 || is_unsupported(errno) ? 0 : errno;
    close(descriptor);
    return reason;
}

enum status atomic_commit(struct atomic_file *file)
{
    TRY(atomic_sync(file));
    if (rename(file->temporary, file->path) != 0)
        return fail_and_discard(file, errno);
    // Closed after the rename: until then the lock keeps other writers of this name away.
    close(file->descriptor);
    file->descriptor = -1;
    int reason = sync_folder_of(file->path);
    if (reason)
        return status_fail(STATUS_FAILED,
                           "%s: was written, but its folder could not be brought to the "
                           "disk: %s; check the disk",
                           file->path, strerror(reason));
    return STATUS_OK;
}

void atomic_discard(struct atomic_file *file)
{
    if (file->descriptor < 0)
        return;
    unlink(file->temporary);
    // No byte of what is still in the stream's buffer is worth writing.
    if (file->error == 0)
        file->error = ECANCELED;
    if (file->stream)
        fclose(file->stream);
    file->stream = NULL;
    close(file->descriptor);
    file->descriptor = -1;
}
