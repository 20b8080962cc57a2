/* snapshots.c - which snapshot of a run folder to take, which to delete and which to set
 * aside; the three last functions of run_folder.h. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/record/run_folder.h"
#include "app/files/safetensors.h"
#include "app/files/set_aside.h"

struct snapshot {
    double kimg;
    char name[256];
};

struct snapshot_list {
    struct snapshot *snapshot; // newest first
    size_t count;
};

/* "snapshot-000200.safetensors", "snapshot-000000.128.safetensors": a number in between.
 */
static int read_name(const char *name, struct snapshot *snapshot)
{
    static const char head[] = "snapshot-", tail[] = ".safetensors";
    size_t length = strlen(name), ends = sizeof head - 1 + sizeof tail - 1;
    if (length <= ends || length >= sizeof snapshot->name ||
        strncmp(name, head, sizeof head - 1) != 0 ||
        strcmp(name + length - (sizeof tail - 1), tail) != 0)
        return 0;
    // Copied out: strtod() would take the dot of the ending for its own.
    char digits[sizeof snapshot->name], *end;
    snprintf(digits, sizeof digits, "%.*s", (int)(length - ends), name + sizeof head - 1);
    if (strspn(digits, "0123456789.") != length - ends)
        return 0;
    snapshot->kimg = strtod(digits, &end);
    memcpy(snapshot->name, name, length + 1);
    return *end == '\0';
}

static int newest_first(const void *a, const void *b)
{
    const struct snapshot *x = a, *y = b;
    if (x->kimg != y->kimg)
        return x->kimg < y->kimg ? 1 : -1;
    return strcmp(y->name, x->name);
}

static int list_snapshots(const char *folder, struct snapshot_list *list)
{
    memset(list, 0, sizeof *list);
    DIR *directory = opendir(folder);
    if (!directory)
        return errno;
    size_t room = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (list->count == room) {
            room = room ? 2 * room : 16;
            struct snapshot *more = realloc(list->snapshot, room * sizeof *more);
            if (!more) {
                free(list->snapshot);
                *list = (struct snapshot_list){0};
                closedir(directory);
                return ENOMEM;
            }
            list->snapshot = more;
        }
        list->count += (size_t)read_name(entry->d_name, &list->snapshot[list->count]);
    }
    closedir(directory);
    if (list->count)
        qsort(list->snapshot, list->count, sizeof *list->snapshot, newest_first);
    return 0;
}

/* The first, that is the newest, that verifies. The reason against the newest is kept. */
static enum status pick(const char *folder, const struct snapshot_list *list,
                        char *checkpoint, size_t bytes, char *note, size_t note_bytes)
{
    char reason[600] = "";
    for (size_t i = 0; i < list->count; i++) {
        snprintf(checkpoint, bytes, "%s/%s", folder, list->snapshot[i].name);
        struct safetensors_file *file;
        if (safetensors_open(checkpoint, &file) == STATUS_OK) {
            safetensors_close(file);
            if (i == 1)
                snprintf(note, note_bytes, "passed over a newer snapshot: %s", reason);
            if (i > 1)
                snprintf(note, note_bytes,
                         "passed over %zu newer snapshots; the newest: %s", i, reason);
            return STATUS_OK;
        }
        if (i == 0)
            snprintf(reason, sizeof reason, "%s", status_message());
    }
    return status_fail(STATUS_DATA,
                       "%s: none of its %zu snapshot%s can be used; the newest: %s",
                       folder, list->count, PLURAL(list->count), reason);
}

enum status run_folder_find_snapshot(const char *path, char *checkpoint, size_t bytes,
                                     char *note, size_t note_bytes)
{
    if (note_bytes)
        note[0] = '\0';
    struct stat facts;
    if (!path[0])
        return status_fail(STATUS_USAGE, "the name of a checkpoint is empty; give a run "
                                         "folder or a snapshot-*.safetensors");
    if (stat(path, &facts) != 0)
        return status_fail(STATUS_DATA,
                           "%s: cannot be read: %s; give a run folder or a "
                           "snapshot-*.safetensors",
                           path, strerror(errno));
    if (strlen(path) + 300 > bytes)
        return status_fail(
            STATUS_DATA,
            "%.80s...: the path has %zu characters, too many; move the run "
            "folder",
            path, strlen(path));
    snprintf(checkpoint, bytes, "%s", path);
    if (!S_ISDIR(facts.st_mode))
        return STATUS_OK; // whoever opens it says what is wrong with it
    char folder[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    struct snapshot_list list;
    int reason = list_snapshots(folder, &list);
    enum status status;
    if (reason)
        status = status_fail(STATUS_DATA, "%s: the folder cannot be read: %s", folder,
                             strerror(reason));
    else if (list.count == 0)
        status =
            status_fail(STATUS_DATA,
                        "%s: no snapshot-*.safetensors in this folder; give the folder "
                        "of one run, such as outputs/00003-...",
                        folder);
    else
        status = pick(folder, &list, checkpoint, bytes, note, note_bytes);
    free(list.snapshot);
    return status;
}

void run_folder_prune(const struct run_folder *folder, int keep, const char *except)
{
    struct snapshot_list list;
    if (keep <= 0 || list_snapshots(folder->path, &list) != 0)
        return;
    const char *slash = except ? strrchr(except, '/') : NULL;
    const char *spared = slash ? slash + 1 : except;
    for (size_t i = (size_t)keep; i < list.count; i++) {
        char path[1100];
        if (!spared || strcmp(list.snapshot[i].name, spared) != 0)
            unlink(
                run_folder_file(folder, path, sizeof path, "%s", list.snapshot[i].name));
    }
    free(list.snapshot);
}

void run_folder_set_aside(const struct run_folder *folder, double kimg)
{
    struct snapshot_list list;
    if (list_snapshots(folder->path, &list) != 0)
        return;
    for (size_t i = 0; i < list.count; i++) {
        char from[1100], kept[1200];
        const char *name = list.snapshot[i].name;
        if (list.snapshot[i].kimg <= kimg + 5e-4) // names have three decimals
            continue;
        run_folder_file(folder, from, sizeof from, "%s", name);
        int reason = set_aside(from, kept, sizeof kept);
        if (reason)
            fprintf(stderr,
                    "warning: %s is from after this point and could not be renamed: %s; "
                    "move it away, or a later resume takes it\n",
                    from, strerror(reason));
        else
            fprintf(stderr, "resume  %s is from after this point: kept as %s\n", name,
                    strrchr(kept, '/') + 1);
    }
    free(list.snapshot);
}
