#include "app/files/atomic_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/files/set_aside.h"

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

#define TEMPORARY_END ".twinscale-part"
#define TEMPORARIES_MAX 100 // that may stand beside one target
#define STEM_MAX 200        // of the target's name, of the 255 bytes that a name may have

int atomic_is_temporary(const char *name)
{
    size_t length = strlen(name), end = sizeof TEMPORARY_END - 1;
    if (name[0] != '.' || length <= end || strcmp(name + length - end, TEMPORARY_END))
        return 0;
    size_t digits = length - end;
    while (digits > 1 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    return digits < length - end && digits > 2 && name[digits - 1] == '.';
}

/* Follows a link, so that it stays one, and refuses what a rename would destroy. */
static enum status resolve_target(struct atomic_file *file, const char *path)
{
    if (!path[0])
        return status_fail(STATUS_USAGE,
                           "the name of a file to write is empty; give one");
    char *resolved = realpath(path, NULL);
    int length =
        snprintf(file->path, sizeof file->path, "%s", resolved ? resolved : path);
    free(resolved);
    int most = (int)(sizeof file->path - sizeof TEMPORARY_END - 4);
    if (length > most)
        return status_fail(
            STATUS_FAILED,
            "%.80s...: the path has %d characters, at most %d can be written; "
            "choose a shorter one",
            path, length, most);
    struct stat facts;
    if (stat(file->path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return status_fail(
            STATUS_FAILED, "%s: is %s, a file to write was expected; choose another name",
            path, S_ISDIR(facts.st_mode) ? "a folder" : "not a regular file");
    return STATUS_OK;
}

// ".g.png.0.twinscale-part" beside g.png, for number 0.
static void name_temporary(struct atomic_file *file, int number)
{
    const char *slash = strrchr(file->path, '/');
    int folder = slash ? (int)(slash + 1 - file->path) : 0;
    int length =
        snprintf(file->temporary, sizeof file->temporary, "%.*s.%.*s.%d" TEMPORARY_END,
                 folder, file->path, STEM_MAX, file->path + folder, number);
    CHECK(length > 0 && length < (int)sizeof file->temporary, "%s", file->path);
}

/* True where `name` is a regular file, and the one that `descriptor` has open. */
static int is_named(int descriptor, const char *name)
{
    struct stat mine, named;
    return fstat(descriptor, &mine) == 0 && lstat(name, &named) == 0 &&
           S_ISREG(mine.st_mode) && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

/* The lock dies with its holder: what has our kind of name and no lock was left by a
 * program that was killed. Opens it, locked; -1 when it is in use, or cannot be known not
 * to be. */
static int open_leftover(const char *name)
{
    int descriptor = open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    // Its holder may have renamed or removed it between our open and our lock.
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_named(descriptor, name))
        return descriptor;
    close(descriptor);
    return -1;
}

/* A name that no other process uses: a new one, or a leftover's, which is emptied. -1
 * with errno. */
static int open_temporary(struct atomic_file *file)
{
    for (int number = 0; number < TEMPORARIES_MAX; number++) {
        name_temporary(file, number);
        int descriptor = open(file->temporary,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (descriptor >= 0) {
            // Where there are no locks, no leftover is ever taken over either.
            int is_taken =
                flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
            if (!is_taken && is_named(descriptor, file->temporary))
                return descriptor;
            close(descriptor); // taken over before it was locked
            continue;
        }
        if (errno != EEXIST)
            return -1;
        descriptor = open_leftover(file->temporary);
        if (descriptor >= 0 && ftruncate(descriptor, 0) == 0)
            return descriptor;
        if (descriptor >= 0)
            close(descriptor);
    }
    errno = EEXIST;
    return -1;
}

void atomic_remove_leftovers(const char *folder)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[PATH_MAX];
        if (!atomic_is_temporary(entry->d_name) ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >=
                (int)sizeof path)
            continue;
        int descriptor = open_leftover(path);
        if (descriptor < 0)
            continue;
        unlink(path);
        close(descriptor);
    }
    closedir(directory);
}

enum status atomic_open(struct atomic_file *file, const char *path)
{
    memset(file, 0, sizeof *file);
    file->descriptor = -1;
    TRY(resolve_target(file, path));
    file->descriptor = open_temporary(file);
    if (file->descriptor >= 0) {
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
    int renamed = file->must_be_new ? rename_to_new(file->temporary, file->path)
                  : rename(file->temporary, file->path) == 0 ? 0
                                                             : errno;
    if (renamed != 0)
        return fail_and_discard(file, renamed);
    // Closed after the rename: until then the lock says that the temporary file is in
    // use.
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

/* True when two files can be read and have the same bytes. */
static int are_equal(const char *a, const char *b)
{
    FILE *files[2] = {fopen(a, "re"), fopen(b, "re")};
    int is_equal = files[0] && files[1];
    while (is_equal) {
        char block[2][4096];
        size_t bytes = fread(block[0], 1, sizeof block[0], files[0]);
        is_equal = fread(block[1], 1, sizeof block[1], files[1]) == bytes &&
                   memcmp(block[0], block[1], bytes) == 0;
        if (bytes < sizeof block[0])
            break;
    }
    for (int i = 0; i < 2; i++) {
        is_equal = is_equal && !ferror(files[i]);
        if (files[i])
            fclose(files[i]);
    }
    return is_equal;
}

enum status atomic_commit_keeping(struct atomic_file *file, char *kept, size_t bytes)
{
    TRY(atomic_sync(file));
    kept[0] = '\0';
    if (!are_equal(file->temporary, file->path)) {
        int reason = set_aside(file->path, kept, bytes);
        if (reason)
            kept[0] = '\0';
        if (reason && reason != ENOENT)
            return fail_and_discard(file, reason);
    }
    return atomic_commit(file);
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
