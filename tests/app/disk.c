#include "tests/app/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/status.h"

char *read_text(const char *path, size_t *bytes)
{
    FILE *stream = fopen(path, "rb");
    CHECK(stream, "%s: %s", path, strerror(errno));
    fseek(stream, 0, SEEK_END);
    size_t length = (size_t)ftell(stream);
    rewind(stream);
    char *text = malloc(length + 1);
    CHECK(text && fread(text, 1, length, stream) == length, "%s", path);
    text[length] = '\0';
    fclose(stream);
    if (bytes)
        *bytes = length;
    return text;
}

void write_bytes(const char *path, const void *data, size_t bytes)
{
    // A new file each time: some file systems flush one that is emptied and rewritten.
    unlink(path);
    FILE *stream = fopen(path, "wb");
    CHECK(stream, "%s: %s", path, strerror(errno));
    CHECK(fwrite(data, 1, bytes, stream) == bytes && fclose(stream) == 0, "%s", path);
}

void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

int path_exists(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0;
}

int count_entries(const char *folder)
{
    DIR *directory = opendir(folder);
    CHECK(directory, "%s: %s", folder, strerror(errno));
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

const char *in_folder(const char *folder, const char *name)
{
    static char paths[8][1024];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* ---- children -------------------------------------------------------------------- */

static int exit_status_of(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void write_proc(const char *path, const char *text)
{
    int descriptor = open(path, O_WRONLY);
    if (descriptor < 0)
        return;
    if (write(descriptor, text, strlen(text)) < 0)
        perror(path);
    close(descriptor);
}

/* A view of the file system of this process's own, where it may mount; root or not. */
static int own_mounts(void)
{
    if (unshare(CLONE_NEWNS) == 0)
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    char user[64], group[64];
    snprintf(user, sizeof user, "0 %d 1", (int)getuid());
    snprintf(group, sizeof group, "0 %d 1", (int)getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return 0;
    write_proc("/proc/self/setgroups", "deny");
    write_proc("/proc/self/uid_map", user);
    write_proc("/proc/self/gid_map", group);
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int with_small_disk(const char *folder, int kib, int (*body)(const char *folder))
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char options[64];
        snprintf(options, sizeof options, "size=%dk", kib);
        if (!own_mounts() || mount("tmpfs", folder, "tmpfs", 0, options) != 0)
            _exit(CHILD_SKIPS);
        _exit(body(folder));
    }
    return exit_status_of(child);
}

int with_file_limit(const char *folder, size_t bytes, int (*body)(const char *folder))
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit limit = {bytes, bytes};
        signal(SIGXFSZ, SIG_IGN); // else the signal ends the process before errno is seen
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(body(folder));
    }
    return exit_status_of(child);
}

int with_stderr(char *text, size_t bytes, const char *folder,
                int (*body)(const char *folder))
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        int answer = body(folder);
        fflush(NULL);
        _exit(answer);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < bytes && (got = read(ends[0], text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    return exit_status_of(child);
}

int fill_disk(const char *folder)
{
    static const char block[4096] = {1};
    int descriptor =
        open(in_folder(folder, "filler"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (descriptor < 0)
        return -1;
    size_t step = sizeof block;
    while (step > 0)
        if (write(descriptor, block, step) <= 0)
            step /= 2;
    close(descriptor);
    return 0;
}
