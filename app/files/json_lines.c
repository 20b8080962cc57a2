#include "app/files/json_lines.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "app/files/atomic_file.h"
#include "app/files/regular_file.h"

int line_append(int descriptor, const char *line)
{
    struct stat before;
    if (fstat(descriptor, &before) != 0)
        return errno;
    size_t length = strlen(line);
    struct iovec parts[2] = {{(void *)(uintptr_t)line, length}, {"\n", 1}};
    ssize_t written = writev(descriptor, parts, 2);
    if (written == (ssize_t)length + 1)
        return 0;
    // A short count stands for a disk that filled up within the line.
    int reason = written < 0 ? errno : ENOSPC;
    if (written > 0 && ftruncate(descriptor, before.st_size) != 0)
        return errno;
    return reason;
}

double json_line_number(json_t *line, const char *key)
{
    char name[64];
    json_t *number = json_object_get(line, key);
    snprintf(name, sizeof name, "Progress/%s", key);
    if (!number)
        number = json_object_get(json_object_get(line, name), "mean");
    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

int64_t json_whole_number(double number)
{
    return number >= 0.0 && number < 0x1p53 ? (int64_t)number : 0;
}

void json_lines_read(const char *path, void (*add)(void *context, json_t *line),
                     void *context)
{
    char reason[REGULAR_REASON];
    FILE *file = regular_open(path, "r", "a log", reason);
    char *text = NULL;
    size_t room = 0;
    if (!file)
        return;
    while (getline(&text, &room, file) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        if (line)
            add(context, line);
        json_decref(line);
    }
    free(text);
    fclose(file);
}

// The snapshot of a boundary is from before it, and who resumes there makes it again.
static int is_set_at(json_t *line)
{
    const char *by = json_string_value(json_object_get(line, "by"));
    return by && strcmp(by, "--set-at") == 0;
}

int json_line_stays(const char *line, size_t length, const struct log_end *end)
{
    json_t *json = json_loadb(line, length, 0, NULL);
    if (!json_is_object(json) || line[length - 1] != '\n') {
        json_decref(json);
        return 0;
    }
    double last = end->kimg + (is_set_at(json) ? -HALF_AN_IMAGE : HALF_AN_IMAGE);
    int answer = !(json_line_number(json, "kimg") > last) &&
                 !(json_line_number(json, "rollbacks") > (double)end->rollbacks);
    json_decref(json);
    return answer;
}

static enum status fail(const char *path, const char *reason)
{
    return status_fail(
        STATUS_FAILED,
        "%s: its later lines cannot be moved to a .bak file: %s; check the disk "
        "and the folder, then resume again",
        path, reason);
}

/* The later lines are on the disk before the file without them takes its place. */
static enum status close_backup(const char *path, FILE *backup)
{
    int failed = fflush(backup) != 0 || fsync(fileno(backup)) != 0;
    int reason = errno;
    fclose(backup);
    return failed ? fail(path, strerror(reason)) : STATUS_OK;
}

/* Sends each line to one of the two; the backup is opened for the first that goes there.
 */
static enum status split(const char *path, const struct log_end *end, line_stays *stays,
                         FILE *from, FILE *kept, FILE **backup)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (length = getline(&line, &room, from)) > 0) {
        if (stays(line, (size_t)length, end)) {
            fwrite(line, 1, (size_t)length, kept);
            continue;
        }
        char name[PATH_MAX], reason[REGULAR_REASON];
        snprintf(name, sizeof name, "%s.bak", path);
        if (!*backup && !(*backup = regular_open(name, "a", "a log", reason)))
            status = fail(path, reason);
        else if (fwrite(line, 1, (size_t)length, *backup) != (size_t)length ||
                 (line[length - 1] != '\n' && fputc('\n', *backup) == EOF))
            status = fail(path, strerror(errno));
    }
    if (status == STATUS_OK && ferror(from))
        status = fail(path, strerror(errno));
    free(line);
    return status;
}

enum status lines_cut(const char *path, const struct log_end *end, line_stays *stays)
{
    char reason[REGULAR_REASON];
    FILE *from = regular_open(path, "r", "a log", reason);
    if (!from)
        return errno == ENOENT ? STATUS_OK : fail(path, reason);
    struct atomic_file kept;
    FILE *backup = NULL;
    enum status status = atomic_open(&kept, path);
    if (status == STATUS_OK) {
        status = split(path, end, stays, from, kept.stream, &backup);
        int anything_moved = backup != NULL;
        if (backup) {
            enum status closed = close_backup(path, backup);
            status = status == STATUS_OK ? closed : status;
        }
        if (status == STATUS_OK && anything_moved)
            status = atomic_commit(&kept);
        else
            atomic_discard(&kept);
    }
    fclose(from);
    return status;
}
