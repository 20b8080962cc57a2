/* folder.h - every file under a folder, in an order that does not depend on the disk.
 * Flow:  path -> [folder] -> the loader, which opens each.
 * Owns:  the list's strings; file_list_release() frees them.
 *
 * Names that begin with a dot are passed over, as `ls` does (thumbnails, version control,
 * the "._" twins that some systems leave). Links are followed, each folder is entered
 * once. */
#ifndef APP_INPUT_FOLDER_H
#define APP_INPUT_FOLDER_H

#include <stddef.h>

#include "kernels/base/status.h"

struct listed_file {
    char *path;
    int error; // errno of a folder that could not be read; 0 for a file
};

struct file_list {
    struct listed_file *files;
    size_t count, room;
};

/* Lists `root`, recursively, sorted by the bytes of the path. STATUS_DATA when `root`
 * itself cannot be read; a folder below it that cannot is listed with its error. */
enum status file_list_fill(struct file_list *list, const char *root);
void file_list_release(struct file_list *list);

#endif
