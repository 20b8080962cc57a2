#include "app/record/run_folder_follow.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/files/regular_file.h"
#include "app/files/terminal.h"

static enum status fail_locked(const struct run_folder *folder)
{
    return status_fail(STATUS_USAGE,
                       "%s: another program is training in this folder now; stop it "
                       "first, or start a new run",
                       folder->path);
}

enum status run_folder_lock(struct run_folder *folder)
{
    folder->opened = opendir(folder->path);
    if (!folder->opened)
        return status_fail(STATUS_FAILED, "%s: the run folder cannot be opened: %s",
                           folder->path, strerror(errno));
    // A file system without locks says something else than EWOULDBLOCK: go on.
    if (flock(dirfd(folder->opened), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail_locked(folder);
    return STATUS_OK;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static void warn(const char *path, const char *text)
{
    progress_clear();
    fprintf(stderr, "warning: %s: %s\n", path, text);
}

/* ---- the folder ------------------------------------------------------------------ */

// Where a folder has been moved to; 0 where the system does not say, or too long a path.
static int find_moved(const struct run_folder *folder, char *path, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(folder->opened));
    ssize_t length = readlink(link, path, bytes);
    if (length <= 0 || (size_t)length >= bytes)
        return 0;
    path[length] = '\0';
    struct stat mine, named;
    return fstat(dirfd(folder->opened), &mine) == 0 && stat(path, &named) == 0 &&
           is_same(&mine, &named);
}

void run_folder_follow(struct run_folder *folder)
{
    struct stat mine, named;
    char moved[sizeof folder->path], text[sizeof folder->path + 64];
    if (!folder->opened || fstat(dirfd(folder->opened), &mine) != 0 ||
        (stat(folder->path, &named) == 0 && is_same(&mine, &named)))
        return;
    if (find_moved(folder, moved, sizeof moved)) {
        snprintf(text, sizeof text, "the run folder was moved; the run goes on in %s",
                 moved);
        warn(folder->path, text);
        memcpy(folder->path, moved, sizeof moved);
    } else if (!folder->is_lost) {
        folder->is_lost = 1;
        warn(folder->path,
             "the run folder was removed; nothing can be saved there (said once)");
    }
}

/* ---- a log ----------------------------------------------------------------------- */

void run_folder_follow_log(struct run_folder *folder, const char *name, FILE **log)
{
    char path[1024], reason[REGULAR_REASON];
    struct stat mine, named;
    run_folder_file(folder, path, sizeof path, "%s", name);
    if (fstat(fileno(*log), &mine) != 0 ||
        (stat(path, &named) == 0 && is_same(&mine, &named)))
        return;
    FILE *fresh = regular_open(path, "a", "a log", reason);
    if (!fresh)
        return; // the lines go where they went; the next one tries again
    fclose(*log);
    *log = fresh;
    warn(path, "was removed or replaced while the run goes on; the lines from here on go "
               "into the file that has this name now");
}
