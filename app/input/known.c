#include "app/input/known.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/files/file_name.h"

static int is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The folder when it is there, else NULL. Takes over `path`, which may be NULL. */
static char *if_folder(char *path)
{
    if (path && is_folder(path))
        return path;
    free(path);
    return NULL;
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
    char *result;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&result, format, arguments);
    va_end(arguments);
    return length < 0 ? NULL : result;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *in_named_folder(const char *folder, const char *between, const char *name)
{
    return folder && folder[0] ? if_folder(text("%s/%s%s", folder, between, name)) : NULL;
}

/* Each of a list that is separated by colons. */
static char *in_data_folders(const char *folders, const char *name)
{
    char *found = NULL;
    char *copy = strdup(folders);
    char *rest = copy, *folder;
    while (copy && !found && (folder = strsep(&rest, ":")))
        found = in_named_folder(folder, "datasets/", name);
    free(copy);
    return found;
}

char *find_known_dataset(const char *name)
{
    const char *own = getenv("TWINSCALE_DATA");
    char *found = in_named_folder(own, "", name);
    if (!found && own && strcmp(last_part(own), name) == 0)
        found = if_folder(strdup(own));
    if (!found)
        found = in_named_folder(getenv("XDG_DATA_HOME"), "twinscale/datasets/", name);
    if (!found)
        found = in_named_folder(getenv("HOME"), ".local/share/twinscale/datasets/", name);
    if (!found) {
        const char *shared = getenv("XDG_DATA_DIRS");
        found = in_data_folders(
            shared && shared[0] ? shared : "/usr/local/share:/usr/share", name);
    }
    if (!found && strcmp(name, "fashion-mnist") == 0)
        found = if_folder(strdup("./data/FashionMNIST/raw"));
    return found;
}

static int is_train_images(const struct dirent *entry)
{
    return fnmatch("train-images*ubyte", entry->d_name, 0) == 0 ||
           fnmatch("train-images*ubyte.gz", entry->d_name, 0) == 0;
}

char *find_train_images(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_train_images, alphasort);
    char *found = NULL;
    for (int i = 0; i < count; i++) {
        if (i == 0)
            found = text("%s/%s", folder, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return found;
}

/* Fit for a run folder's name, whatever the path is. */
static void sanitise(const char *from, char *name, size_t bytes)
{
    name[0] = '\0';
    while (*from == '.' || *from == '-' || *from == ' ')
        from++; // a dot would hide it
    file_name_append(name, bytes, from, bytes);
    if (!name[0])
        snprintf(name, bytes, "data");
}

/* Cuts the last part off; returns 0 when nothing would be left. */
static int cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    *slash = 0;
    return 1;
}

void name_from_path(const char *path, int is_idx, char *name, size_t bytes)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        snprintf(whole, sizeof whole, "%s", path);
    if (is_idx) {
        cut_last_part(whole);
        if (strcmp(last_part(whole), "raw") == 0) // torchvision's FashionMNIST/raw
            cut_last_part(whole);
    } else if (!is_folder(whole)) {
        char *dot = strrchr(whole, '.');
        if (dot && dot > last_part(whole))
            *dot = 0;
    }
    sanitise(last_part(whole), name, bytes);
}
