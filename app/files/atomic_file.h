/* atomic_file.h - a file that appears whole or not at all.
 * Flow:  every writer of a named file (checkpoint, grid, preview, options) ->
 * [atomic_file]. Owns:  an open temporary file beside the target, until commit or
 * discard.
 *
 *     struct atomic_file file;
 *     TRY(atomic_open(&file, path));
 *     ... write to file.stream; write errors are remembered, no call needs checking ...
 *     return atomic_commit(&file);     or atomic_discard(&file) to give up
 *
 * A crash at any moment leaves the old file or the new one under the name, and at most a
 * .NAME.0.twinscale-part that the next write of that name takes over; a file of any other
 * name is never touched. Two programs that write one name at the same time do not mix:
 * each has a temporary file of its own (numbers from 0 to 99, locked while it is
 * written), and the name is the last one's. A link is followed; devices and folders are
 * refused, since renaming would replace them, and so is an empty name. */
#ifndef APP_FILES_ATOMIC_FILE_H
#define APP_FILES_ATOMIC_FILE_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/base/status.h"

/* Must stay at its address from open to commit or discard: the stream points to it. */
struct atomic_file {
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    FILE *stream;            // where to write; it has no fileno()
    uint64_t bytes_expected; // may be set after open: told when a write fails
    int must_be_new;         // may be set after open: an existing file stays, and is told
    // Private.
    int descriptor;
    int error; // errno of the first write that failed, 0 if none
    uint64_t bytes_written;
};

/* Opens the temporary file. STATUS_FAILED with path and the system's reason. */
enum status atomic_open(struct atomic_file *file, const char *path);

/* Flushes and fsyncs the temporary file, so that it can be read back before the commit.
 * On failure STATUS_FAILED with path, bytes and reason, and the file is discarded. */
enum status atomic_sync(struct atomic_file *file);

/* atomic_sync() unless that was done, then rename, then fsync of the folder. Whatever it
 * returns, the file is closed; on failure no temporary is left and an older file of that
 * name is untouched. */
enum status atomic_commit(struct atomic_file *file);

/* The same, but an older file of that name that has other bytes is set aside first
 * (set_aside.h): its new path is in `kept`, "" when there was none. */
enum status atomic_commit_keeping(struct atomic_file *file, char *kept, size_t bytes);

/* Closes and removes the temporary file. Harmless after a commit or a failed open. */
void atomic_discard(struct atomic_file *file);

/* True for the name (without folder) of a temporary file of this program's. */
int atomic_is_temporary(const char *name);

/* Removes from `folder` the temporary files of programs that were killed. */
void atomic_remove_leftovers(const char *folder);

#endif
