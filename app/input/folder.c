#include "app/input/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One folder that was entered, however it was reached. */
struct visited {
    dev_t device;
    ino_t inode;
};

struct walk {
    struct file_list *list;
    struct visited *visited;
    size_t visited_count, visited_room;
};

static enum status no_memory(void)
{
    return status_fail(STATUS_FAILED, "no memory for a list of files");
}

/* Makes room for one more element of `bytes` in an array that doubles. */
static enum status make_room(void **array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room)
        return STATUS_OK;
    size_t wanted = *room ? *room * 2 : 64;
    void *larger = realloc(*array, wanted * bytes);
    if (!larger)
        return no_memory();
    *array = larger;
    *room = wanted;
    return STATUS_OK;
}

/* Takes over `path`. */
static enum status add_file(struct file_list *list, char *path, int error)
{
    enum status status =
        make_room((void **)&list->files, list->count, &list->room, sizeof *list->files);
    if (status != STATUS_OK) {
        free(path);
        return status;
    }
    list->files[list->count++] = (struct listed_file){path, error};
    return STATUS_OK;
}

static enum status remember(struct walk *walk, const struct stat *about, int *is_new)
{
    for (size_t i = 0; i < walk->visited_count; i++)
        if (walk->visited[i].device == about->st_dev &&
            walk->visited[i].inode == about->st_ino) {
            *is_new = 0;
            return STATUS_OK;
        }
    *is_new = 1;
    TRY(make_room((void **)&walk->visited, walk->visited_count, &walk->visited_room,
                  sizeof *walk->visited));
    walk->visited[walk->visited_count++] = (struct visited){about->st_dev, about->st_ino};
    return STATUS_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum status walk_folder(struct walk *walk, const char *path, int is_root);

/* A folder that training wrote: its grids and previews are no data. */
static int is_run_folder(const char *path)
{
    static const char *const marks[] = {"options.json", "stats.jsonl", "events.jsonl"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char *mark;
        if (asprintf(&mark, "%s/%s", path, marks[i]) < 0)
            return 0;
        int is_there = access(mark, F_OK) == 0;
        free(mark);
        if (!is_there)
            return 0;
    }
    return 1;
}

/* Files are listed, folders entered; sockets, pipes and devices are passed over. What
 * stat() cannot reach (a dangling link) is listed, and its opening will say why. */
static enum status walk_entry(struct walk *walk, const char *folder, const char *name)
{
    char *path;
    size_t length = strlen(folder);
    const char *between = length > 0 && folder[length - 1] == '/' ? "" : "/";
    if (asprintf(&path, "%s%s%s", folder, between, name) < 0)
        return no_memory();
    struct stat about;
    int is_there = stat(path, &about) == 0;
    if (!is_there || S_ISREG(about.st_mode))
        return add_file(walk->list, path, 0);

    enum status status = STATUS_OK;
    int is_new = 0;
    if (S_ISDIR(about.st_mode))
        status = remember(walk, &about, &is_new);
    if (status == STATUS_OK && is_new && !is_run_folder(path))
        status = walk_folder(walk, path, 0);
    free(path);
    return status;
}

static enum status walk_folder(struct walk *walk, const char *path, int is_root)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, by_bytes);
    if (count < 0 && is_root)
        return status_fail(STATUS_DATA, "%s: the folder cannot be read: %s", path,
                           strerror(errno));
    if (count < 0) {
        int error = errno;
        char *copy = strdup(path);
        return copy ? add_file(walk->list, copy, error) : no_memory();
    }
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++) {
        if (status == STATUS_OK)
            status = walk_entry(walk, path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct listed_file *)a)->path,
                  ((const struct listed_file *)b)->path);
}

enum status file_list_fill(struct file_list *list, const char *root)
{
    *list = (struct file_list){0};
    struct walk walk = {.list = list};
    struct stat about;
    int is_new;
    if (stat(root, &about) != 0)
        return status_fail(STATUS_DATA, "%s: the folder cannot be read: %s", root,
                           strerror(errno));
    enum status status = remember(&walk, &about, &is_new);
    if (status == STATUS_OK)
        status = walk_folder(&walk, root, 1);
    free(walk.visited);
    if (status != STATUS_OK)
        file_list_release(list);
    else if (list->count > 0)
        qsort(list->files, list->count, sizeof *list->files, by_path);
    return status;
}

void file_list_release(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
    *list = (struct file_list){0};
}
